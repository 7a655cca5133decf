"""Execute a variant's launches in order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from lab.emulator.api import launch
from lab.emulator.results import Emulation, Finding, FindingKind
from lab.emulator.state import DeviceState
from lab.stages.memory import DeviceMemory, IndexedMemory
from lab.templates.launches import Launch, Launches


@dataclass(frozen=True, slots=True)
class LaunchMode:
    """Options of an execution; see `lab.emulator.api.launch` for fields of the same names.

    Attributes:
        whole: The problem has its real size: the compiled engine executes it, without trying the interpreter first.
        trace: Also trace data that the first blocks read again.
        tables: Names of the buffers whose size is the same for all problems.
        counted: Count instructions and traffic.
        excused: Kinds of findings that do not stop the sequence.
        schedule: Seed of another order of blocks and warps.
        machine: Seed of other special register values.
        rounding: Seed of the error signs of approximate instructions.
        displaced: The approximate instructions with an error; None for all.
        work: Work budget; if set, the interpreter executes the launches. None: unlimited.
        state: Module variables, which persist across launches.
    """

    whole: bool = False
    trace: bool = False
    tables: frozenset[str] = frozenset()
    counted: bool = True
    excused: frozenset[FindingKind] = frozenset()
    schedule: int | None = None
    machine: int | None = None
    rounding: int | None = None
    displaced: Collection[int] | None = None
    work: int | None = None
    state: DeviceState = field(default_factory=DeviceState)


def run_sequence(ptx: str, launches: Launches, memory: DeviceMemory, mode: LaunchMode) -> list[Emulation]:
    """Execute launches in order, and stop at the first with findings: later ones would only repeat the fault.

    Args:
        ptx: The variant's PTX.
        launches: The launches.
        memory: The device memory.
        mode: Options of the execution.
    """
    results: list[Emulation] = []
    for step in launches.steps:
        results.append(_launched(ptx, step, memory, mode))
        if unexcused(results[-1], mode.excused):
            break
    return results


def unexcused(result: Emulation, excused: frozenset[FindingKind]) -> list[Finding]:
    """Return the findings that count against the variant."""
    return [finding for finding in result.findings if finding.kind not in excused]


def launch_step(
    ptx: str,
    step: Launch,
    memory: DeviceMemory | IndexedMemory,
    **options: Any,  # noqa: ANN401 - those of another function
) -> Emulation:
    """Execute one launch on a device memory; `options` are the further ones of `lab.emulator.api.launch`."""
    return launch(
        ptx,
        step.entry,
        step.grid,
        step.block,
        [memory.argument(name, kind) for name, kind in step.arguments],
        dynamic_shared_bytes=step.dynamic_shared_bytes,
        constants=memory.constants,
        cluster=step.cluster,
        **options,
    )


def _launched(ptx: str, step: Launch, memory: DeviceMemory, mode: LaunchMode) -> Emulation:
    return launch_step(
        ptx,
        step,
        memory,
        count=mode.counted,
        engine="interpreted" if mode.work is not None else "compiled" if mode.whole else "auto",
        schedule=mode.schedule,
        trace=mode.trace,
        tables=mode.tables,
        machine=mode.machine,
        rounding=mode.rounding,
        displaced=mode.displaced,
        state=mode.state,
        work=mode.work,
    )
