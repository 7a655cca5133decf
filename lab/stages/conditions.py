"""Execute a variant's small size under other conditions: another order, another launch, other errors of approximations.

Each condition is tried only on kernels that it can matter to. The results must agree with the reference under all.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
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
"""Seeds of the orders besides the program's own."""

_MOST_WORK: Final = 60_000_000
"""Work of the interpreter on other inputs: some tenths of a second."""

_MOST_WARPS: Final = 2_000_000
"""Warp instructions of a variant that is executed again: a second or so of the interpreter."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A variant that is right in program order, launched once.

    Attributes:
        ptx: Its PTX.
        launches: Its launches.
        computed: The operator.
        problem: The problem at the emulated size.
        reference: What its outputs must hold.
        how: How it was executed.
        memory: The device's memory after that.
        warps: Warp instructions that this took.
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
    """Execute a variant again under each condition that can matter to it.

    Returns:
        What is wrong then, one suspicion for each condition; and what was not tried, a sentence each.
    """
    programs = [program_of(judged.ptx, entry) for entry in judged.launches.entries]
    tried = [(condition, check) for condition, check in _CHECKS if _matters(condition, judged, programs)]
    if tried and judged.warps > _MOST_WARPS:
        named = ", ".join(str(condition) for condition, _ in tried)
        return (), (f"it was not executed {named}: that takes too long at this size",)
    found = [check(judged) for _, check in tried]
    return tuple(one for one in found if one is not None), ()


def other_inputs(judged: Judged, seed: int, others: Sequence[SizedLaunches]) -> Suspicion | None:
    """Execute a variant on inputs that show mistakes which the first ones hide; None where nothing is wrong.

    Integers of both signs may be addresses or numbers of rounds to a kernel: where it then is at fault, or takes long,
    they say nothing.

    Args:
        judged: The variant.
        seed: Seed of the inputs.
        others: The same problem with other factors and leading dimensions.
    """
    sets = judged.computed.other_inputs(judged.problem, seed)
    tried = itertools.chain(
        (_other_contents(judged, one) for one in sets), (_other_problem(judged, seed, one) for one in others)
    )
    return next(filter(None, tried), None)


def _other_contents(judged: Judged, other: OtherInputs) -> Suspicion | None:
    """Execute a variant on other inputs; None where nothing is wrong, or where they say nothing."""
    memory, how = DeviceMemory(other.inputs, judged.launches), replace(judged.how, counted=False, trace=False)
    done = run_sequence(judged.ptx, judged.launches, memory, replace(how, work=_MOST_WORK, state=DeviceState()))
    cut = any(one.finished < math.prod(step.grid) for one, step in zip(done, judged.launches.steps, strict=False))
    if cut or unexcused(done[-1], how.excused):
        return None
    with contextlib.suppress(UserError):  # a reference that refuses them says nothing
        reference = judged.computed.reference(judged.problem, other.inputs)
        if not _is_finite(reference):
            return None
        largest, tolerance, worst = judged.computed.verify(judged.problem, reference, memory.outputs)
        if largest > tolerance:
            return Suspicion(Condition.INPUTS, f"{other.contents} in {', '.join(other.changed)}: {worst}")
    return None


def _is_finite(reference: Mapping[str, Expected]) -> bool:
    """Return whether no expected value overflows: such a reference says nothing of a kernel."""
    return all(np.isfinite(one.values).all() for one in reference.values())


def _other_problem(judged: Judged, seed: int, other: SizedLaunches) -> Suspicion | None:
    """Execute a variant on another problem; None where nothing is wrong, or where the reference does not bear it."""
    problem = judged.computed.restored(other.problem)
    differs = ", ".join(f"{name} = {value}" for name, value in problem.items() if value != judged.problem.get(name))
    how = replace(judged.how, state=DeviceState())
    with contextlib.suppress(UserError):
        inputs = judged.computed.inputs(problem, seed)
        reference = judged.computed.reference(problem, inputs)
        if not _is_finite(reference):
            return None
        memory = DeviceMemory(inputs, other.launches)
        given = replace(judged, launches=other.launches, problem=problem, reference=reference)
        worst, finding = _again(given, how, memory)
        if finding is not None:
            return Suspicion(Condition.INPUTS, f"with {differs}", finding) if judged.computed.refuses_sizes else None
        return Suspicion(Condition.INPUTS, f"with {differs}: {worst}") if worst else None
    return None


def _matters(condition: Condition, judged: Judged, programs: list[Program]) -> bool:
    match condition:
        case Condition.ORDER:
            return any(one.depends_on_order for one in programs)
        case Condition.MACHINE:
            return any(one.asks_machine for one in programs)
        case Condition.ROUNDING:
            return any(one.approximate for one in programs)
        case _:
            spaces = {variable.space for one in programs for _, _, variable in one.memory_variables()}
            kept = any(not one.zero for one in judged.launches.workspace) or judged.memory.keeps_scratch
            return "global" in spaces or kept


def _again(judged: Judged, how: LaunchMode, memory: DeviceMemory | None = None) -> tuple[str, Finding | None]:
    """Execute a variant again.

    Args:
        judged: The variant.
        how: How it is executed.
        memory: The memory that earlier launches left; None for what it holds at first.

    Returns:
        What is wrong with its outputs, empty where nothing is; and its first finding.
    """
    if memory is None:
        memory, how = judged.memory.fresh(), replace(how, state=DeviceState())
    done = run_sequence(judged.ptx, judged.launches, memory, replace(how, counted=False, trace=False))
    findings = unexcused(done[-1], how.excused)
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
    tried = (_suspicion(Condition.ORDER, cause, _again(judged, replace(judged.how, schedule=seed))) for seed in _ORDERS)
    return next((one for one in tried if one is not None), None)


def _on_another_machine(judged: Judged) -> Suspicion | None:
    registers = ", ".join(sorted({name for one in _programs(judged) for name in one.machine_registers}))
    outcome = _again(judged, replace(judged.how, machine=1))
    return _suspicion(Condition.MACHINE, f"the results depend on {registers}", outcome)


def _launched_again(judged: Judged) -> Suspicion | None:
    judged.memory.reset()
    outcome = _again(judged, judged.how, judged.memory)
    if outcome == ("", None) and judged.computed.has_reference:
        outcome = _on_new_inputs(judged)
    return _suspicion(Condition.SECOND_LAUNCH, "the results depend on what the first launch left", outcome)


def _on_new_inputs(judged: Judged) -> tuple[str, Finding | None]:
    """Execute a variant again on inputs of another seed, in the state that earlier launches left, as `_again` does.

    What a launch left may only be read in another order than that in which it was written.
    """
    inputs = judged.computed.inputs(judged.problem, judged.seed + 1)
    reference = judged.computed.reference(judged.problem, inputs)
    ordered = any(one.depends_on_order for one in _programs(judged))
    how = replace(judged.how, schedule=_ORDERS[0]) if ordered else judged.how
    given = replace(judged, reference=reference)
    worst, finding = _again(given, how, judged.memory.with_inputs(inputs))
    if worst or finding:
        first = replace(how, state=DeviceState())
        if _again(given, first, DeviceMemory(inputs, judged.launches)) != ("", None):
            return "", None  # a first launch goes wrong, too: the order is to blame
    return f"with other inputs, {worst}" if worst else "", finding


def _rounded(judged: Judged) -> Suspicion | None:
    outcome = _again(judged, replace(judged.how, rounding=1))
    return _suspicion(Condition.ROUNDING, _blamed(judged) if outcome[0] else "", outcome)


def _blamed(judged: Judged) -> str:
    """Name the approximate instruction whose error alone makes the results wrong; all where none does."""
    places = [place for one in _programs(judged) for place in one.approximate]
    for place in places:
        if _again(judged, replace(judged.how, rounding=1, displaced={place.position}))[0]:
            return _named(place)
    return ", ".join(dict.fromkeys(map(_named, places)))


def _named(place: Approximation) -> str:
    source = place.source
    where = f"{PurePosixPath(source.file).name}:{source.line}" if source else f"PTX line {place.line}"
    return f"{place.opcode} at {where}"


def _programs(judged: Judged) -> Iterator[Program]:
    return (program_of(judged.ptx, entry) for entry in judged.launches.entries)


_CHECKS: Final[tuple[tuple[Condition, Callable[[Judged], Suspicion | None]], ...]] = (
    (Condition.SECOND_LAUNCH, _launched_again),
    (Condition.ORDER, _ordered),
    (Condition.MACHINE, _on_another_machine),
    (Condition.ROUNDING, _rounded),
)
