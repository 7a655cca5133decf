"""Execute a variant's small size under other conditions: block order, second launch, approximation errors.

Each condition is tried only on kernels it can affect. The results must match the reference under all of them.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from lab.base.errors import UserError
from lab.emulator.approximations import Approximation
from lab.emulator.program import Program, program_of
from lab.emulator.results import Finding
from lab.emulator.state import DeviceState
from lab.operators.base import Expected, Operator, OtherInputs
from lab.recorded.run_records import Condition, Suspicion
from lab.stages.full_size import SizedLaunches
from lab.stages.memory import DeviceMemory
from lab.stages.sequence import LaunchMode, run_sequence, unexcused
from lab.templates.launches import Launches

_ORDERS: Final = (1, 2)
"""Seeds of the orders tried besides program order."""

_MOST_WORK: Final = 60_000_000
"""Interpreter work budget on other inputs: a few tenths of a second."""

_MOST_WARPS: Final = 2_000_000
"""Most warp instructions of a variant that is executed again: about a second of the interpreter."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A variant that is correct in program order, after one launch.

    Attributes:
        ptx: Its PTX.
        launches: Its launches.
        computed: The operator.
        problem: The problem at the emulated size.
        reference: Its expected outputs.
        how: Mode of the execution.
        memory: Device memory after the execution.
        warps: Warp instructions executed.
        seed: Seed of the inputs.
    """

    ptx: str
    launches: Launches
    computed: Operator[Any]
    problem: Any
    reference: Mapping[str, Expected]
    how: LaunchMode
    memory: DeviceMemory
    warps: int
    seed: int


def other_conditions(judged: Judged) -> tuple[tuple[Suspicion, ...], tuple[str, ...]]:
    """Execute a variant again under each condition that can affect it.

    Returns:
        Suspicions, at most one per condition; and the conditions not tried, a sentence each.
    """
    programs = [program_of(judged.ptx, entry) for entry in judged.launches.entries]
    relevant = [(condition, check) for condition, check in _CHECKS if _matters(condition, judged, programs)]
    if relevant and judged.warps > _MOST_WARPS:
        skipped = ", ".join(str(condition) for condition, _ in relevant)
        return (), (f"it was not executed {skipped}: that takes too long at this size",)
    suspicions = [check(judged) for _, check in relevant]
    return tuple(suspicion for suspicion in suspicions if suspicion is not None), ()


def other_inputs(judged: Judged, seed: int, variations: Sequence[SizedLaunches]) -> Suspicion | None:
    """Execute a variant on inputs that expose mistakes the first ones hide; return None if all is well.

    A kernel may use integers of both signs as addresses or iteration counts: if it then faults or takes long, the test
    is inconclusive.

    Args:
        judged: The variant.
        seed: Seed of the inputs.
        variations: The same problem with other factors and leading dimensions.
    """
    sets = judged.computed.other_inputs(judged.problem, seed)
    outcomes = itertools.chain(
        (_other_contents(judged, input_set) for input_set in sets),
        (_other_problem(judged, seed, variation) for variation in variations),
    )
    return next(filter(None, outcomes), None)


def _other_contents(judged: Judged, variation: OtherInputs) -> Suspicion | None:
    """Execute a variant on other inputs; return None if all is well or the test is inconclusive."""
    memory, mode = DeviceMemory(variation.inputs, judged.launches), replace(judged.how, counted=False, trace=False)
    results = run_sequence(judged.ptx, judged.launches, memory, replace(mode, work=_MOST_WORK, state=DeviceState()))
    cut = any(
        result.finished < math.prod(step.grid) for result, step in zip(results, judged.launches.steps, strict=False)
    )
    if cut or unexcused(results[-1], mode.excused):
        return None
    with contextlib.suppress(UserError):  # inconclusive if the reference rejects them
        reference = judged.computed.reference(judged.problem, variation.inputs)
        if not _is_finite(reference):
            return None
        largest, tolerance, worst = judged.computed.verify(judged.problem, reference, memory.outputs)
        if largest > tolerance:
            return Suspicion(Condition.INPUTS, f"{variation.contents} in {', '.join(variation.changed)}: {worst}")
    return None


def _is_finite(reference: Mapping[str, Expected]) -> bool:
    """Return whether all expected values are finite: a reference that overflows is inconclusive."""
    return all(np.isfinite(expected.values).all() for expected in reference.values())


def _other_problem(judged: Judged, seed: int, variation: SizedLaunches) -> Suspicion | None:
    """Execute a variant on another problem; return None if all is well or the reference rejects the problem."""
    problem = judged.computed.restored(variation.problem)
    differs = ", ".join(f"{name} = {value}" for name, value in problem.items() if value != judged.problem.get(name))
    mode = replace(judged.how, state=DeviceState())
    with contextlib.suppress(UserError):
        inputs = judged.computed.inputs(problem, seed)
        reference = judged.computed.reference(problem, inputs)
        if not _is_finite(reference):
            return None
        memory = DeviceMemory(inputs, variation.launches)
        variant = replace(judged, launches=variation.launches, problem=problem, reference=reference)
        worst, finding = _again(variant, mode, memory)
        if finding is not None:
            return Suspicion(Condition.INPUTS, f"with {differs}", finding) if judged.computed.refuses_sizes else None
        return Suspicion(Condition.INPUTS, f"with {differs}: {worst}") if worst else None
    return None


def _matters(condition: Condition, judged: Judged, programs: list[Program]) -> bool:
    match condition:
        case Condition.ORDER:
            return any(program.depends_on_order for program in programs)
        case Condition.MACHINE:
            return any(program.asks_machine for program in programs)
        case Condition.ROUNDING:
            return any(program.approximate for program in programs)
        case _:
            spaces = {variable.space for program in programs for _, _, variable in program.memory_variables()}
            keeps_state = any(not buffer.zero for buffer in judged.launches.workspace) or judged.memory.keeps_scratch
            return "global" in spaces or keeps_state


def _again(judged: Judged, mode: LaunchMode, memory: DeviceMemory | None = None) -> tuple[str, Finding | None]:
    """Execute a variant again.

    Args:
        judged: The variant.
        mode: Mode of the execution.
        memory: Memory as earlier launches left it; None for its initial contents.

    Returns:
        The fault in its outputs, empty if there is none; and its first finding.
    """
    if memory is None:
        memory, mode = judged.memory.fresh(), replace(mode, state=DeviceState())
    results = run_sequence(judged.ptx, judged.launches, memory, replace(mode, counted=False, trace=False))
    findings = unexcused(results[-1], mode.excused)
    if findings:
        return "", findings[0]
    largest, tolerance, worst = judged.computed.verify(judged.problem, judged.reference, memory.outputs)
    return "" if largest <= tolerance else worst, None


def _suspicion(condition: Condition, cause: str, outcome: tuple[str, Finding | None]) -> Suspicion | None:
    wrong, finding = outcome
    if finding is not None:
        return Suspicion(condition, finding=finding)
    return Suspicion(condition, f"{cause}: {wrong}") if wrong else None


def _ordered(judged: Judged) -> Suspicion | None:
    cause = "the results depend on the order of blocks and warps"
    outcomes = (
        _suspicion(Condition.ORDER, cause, _again(judged, replace(judged.how, schedule=seed))) for seed in _ORDERS
    )
    return next((suspicion for suspicion in outcomes if suspicion is not None), None)


def _on_another_machine(judged: Judged) -> Suspicion | None:
    registers = ", ".join(sorted({name for program in _programs(judged) for name in program.machine_registers}))
    outcome = _again(judged, replace(judged.how, machine=1))
    return _suspicion(Condition.MACHINE, f"the results depend on {registers}", outcome)


def _launched_again(judged: Judged) -> Suspicion | None:
    judged.memory.reset()
    outcome = _again(judged, judged.how, judged.memory)
    if outcome == ("", None) and judged.computed.has_reference:
        outcome = _on_new_inputs(judged)
    return _suspicion(Condition.SECOND_LAUNCH, "the results depend on data left by the first launch", outcome)


def _on_new_inputs(judged: Judged) -> tuple[str, Finding | None]:
    """Execute a variant on inputs of another seed, in the state earlier launches left.

    Data left by a launch may be visible only if it is read in another order than it was written.

    Returns:
        As `_again` does.
    """
    inputs = judged.computed.inputs(judged.problem, judged.seed + 1)
    reference = judged.computed.reference(judged.problem, inputs)
    ordered = any(program.depends_on_order for program in _programs(judged))
    mode = replace(judged.how, schedule=_ORDERS[0]) if ordered else judged.how
    variant = replace(judged, reference=reference)
    worst, finding = _again(variant, mode, judged.memory.with_inputs(inputs))
    if worst or finding:
        first = replace(mode, state=DeviceState())
        if _again(variant, first, DeviceMemory(inputs, judged.launches)) != ("", None):
            return "", None  # a first launch fails, too: the order is the cause
    return f"with other inputs, {worst}" if worst else "", finding


def _rounded(judged: Judged) -> Suspicion | None:
    outcome = _again(judged, replace(judged.how, rounding=1))
    return _suspicion(Condition.ROUNDING, _blamed(judged) if outcome[0] else "", outcome)


def _blamed(judged: Judged) -> str:
    """Return the approximate instruction whose error alone makes the results wrong; all of them if none does."""
    places = [place for program in _programs(judged) for place in program.approximate]
    for place in places:
        if _again(judged, replace(judged.how, rounding=1, displaced={place.position}))[0]:
            return _named(place)
    return ", ".join(dict.fromkeys(map(_named, places)))


def _named(place: Approximation) -> str:
    location = place.source.short if place.source else f"PTX line {place.line}"
    return f"{place.opcode} at {location}"


def _programs(judged: Judged) -> Iterator[Program]:
    return (program_of(judged.ptx, entry) for entry in judged.launches.entries)


_CHECKS: Final[tuple[tuple[Condition, Callable[[Judged], Suspicion | None]], ...]] = (
    (Condition.SECOND_LAUNCH, _launched_again),
    (Condition.ORDER, _ordered),
    (Condition.MACHINE, _on_another_machine),
    (Condition.ROUNDING, _rounded),
)
