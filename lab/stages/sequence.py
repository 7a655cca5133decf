"""Execute a variant's launches in order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from lab.emulator.api import launch
from lab.emulator.results import Emulation, Finding, FindingKind
from lab.emulator.state import DeviceState
from lab.stages.memory import DeviceMemory
from lab.templates.launches import Launch, Launches


@dataclass(frozen=True, slots=True)
class LaunchMode:
    """Options of an execution; see `lab.emulator.api.launch` for the fields of the same names.

    Attributes:
        whole: The problem is not made small: the compiled engine executes it, without trying the interpreter first.
        trace: Also say what the first blocks read again.
        counted: Count instructions and traffic.
        excused: Kinds of findings to go on after.
        schedule: Seed of another order of blocks and warps.
        machine: Seed of other special registers.
        rounding: Seed of the signs of the errors of approximate instructions.
        displaced: Those of them that have an error; None for all.
        work: Work after which the interpreter, which then executes them, stops; None: it does not.
        state: Variables of the module, which keep what earlier launches left.
    """

    whole: bool = False
    trace: bool = False
    counted: bool = True
    excused: frozenset[FindingKind] = frozenset()
    schedule: int | None = None
    machine: int | None = None
    rounding: int | None = None
    displaced: Collection[int] | None = None
    work: int | None = None
    state: DeviceState = field(default_factory=DeviceState)


def run_sequence(ptx: str, launches: Launches, memory: DeviceMemory, how: LaunchMode) -> list[Emulation]:
    """Execute launches in order, until one has findings: what follows would only repeat the fault.

    Args:
        ptx: The variant's PTX.
        launches: What is launched.
        memory: The device's memory.
        how: How they are executed.
    """
    done: list[Emulation] = []
    for step in launches.steps:
        done.append(_launched(ptx, step, memory, how))
        if unexcused(done[-1], how.excused):
            break
    return done


def unexcused(done: Emulation, excused: frozenset[FindingKind]) -> list[Finding]:
    """Return the findings that count against the variant."""
    return [finding for finding in done.findings if finding.kind not in excused]


def _launched(ptx: str, step: Launch, memory: DeviceMemory, how: LaunchMode) -> Emulation:
    return launch(
        ptx,
        step.entry,
        step.grid,
        step.block,
        [memory.argument(name, kind) for name, kind in step.arguments],
        dynamic_shared_bytes=step.dynamic_shared_bytes,
        count=how.counted,
        engine="interpreted" if how.work is not None else "compiled" if how.whole else "auto",
        constants=memory.constants,
        schedule=how.schedule,
        trace=how.trace,
        cluster=step.cluster,
        machine=how.machine,
        rounding=how.rounding,
        displaced=how.displaced,
        state=how.state,
        work=how.work,
    )
