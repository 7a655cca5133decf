"""Execute sampled blocks of a variant at the problem's own size.

This exposes faults that a small size hides: index overflow, misaligned vectors, a grid that ends too early, a sum that
stalls. Inputs are functions of the index, so that arrays of many gigabytes cost nothing. The reference is evaluated
for the elements that the sampled blocks wrote.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import LabError, UserError
from lab.base.expressions import Scalar
from lab.base.warp import WARP_SIZE
from lab.emulator.allowance import PER_STEP, work_to_make
from lab.emulator.batch import padded_threads
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.monitor import LaunchMonitor
from lab.emulator.program import program_of
from lab.emulator.results import Emulation, EngineChoice, Finding, FindingKind, Stored
from lab.emulator.waiting.clusters import cluster_shape
from lab.isa.model import SourceLocation
from lab.operators.base import Array, Inputs
from lab.operators.builtin import operator
from lab.operators.indexed import IndexedInputs
from lab.recorded.run_records import Condition, FullSizeRecord, Suspicion
from lab.stages.memory import DeviceMemory, IndexedMemory
from lab.stages.sequence import launch_step, unexcused
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launches import Launch, Launches
from lab.verdict.coverage import Coverage, coverage
from lab.verdict.sampling import sampled_blocks

_MATERIALISED: Final = 1 << 30
"""Most bytes of a problem's arrays if it is executed as machine code or has kernels with bulk copies."""


@dataclass(frozen=True, slots=True)
class SizedLaunches:
    """A problem of a given size, with its launches.

    Attributes:
        problem: The complete problem.
        launches: Its launches.
    """

    problem: Mapping[str, Scalar]
    launches: Launches


@dataclass(frozen=True, slots=True)
class FullSizeTask:
    """An execution request for sampled blocks.

    Attributes:
        operator: The operator, as the experiment names it.
        seed: Seed of the inputs, and of the sampled blocks.
        full: The problem at its own size.
        work: Work budget of the interpreter, in the units of `lab.emulator.allowance.Budget`.
        between: Sizes between the emulated one and the full one, ascending, to bisect for a fault.
        excused: Kinds of findings that do not count against the variant.
        resident: Resident blocks of each launch on the GPU; empty if unknown.
        gpu: The GPU's name.
        block_warps: Expected mean warp instructions per block; 0 if unknown.
        briefly: Interpret long executions, too, within the budget: arrays take seconds to fill.
    """

    operator: str
    seed: int
    full: SizedLaunches
    work: int
    between: tuple[SizedLaunches, ...] = ()
    excused: frozenset[FindingKind] = frozenset()
    resident: tuple[int, ...] = ()
    gpu: str = ""
    block_warps: float = 0.0
    briefly: bool = False


@dataclass(frozen=True, slots=True)
class FullSizeOutcome:
    """The outcome of a full-size execution.

    Attributes:
        record: The executed part; None if nothing was executed.
        suspicions: Faults.
        not_shown: Known gaps.
    """

    record: FullSizeRecord | None = None
    suspicions: tuple[Suspicion, ...] = ()
    not_shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Done:
    """An executed launch, limited to sampled blocks.

    Attributes:
        step: The launch.
        cluster: Cluster shape along x, y, z.
        result: The result.
        blocks: Numbers of the blocks that completed.
    """

    step: Launch
    cluster: tuple[int, int, int]
    result: Emulation
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Sampled:
    """The executed launches.

    Attributes:
        inputs: Their inputs.
        done: Each launch with its result.
        cut: Why a later launch, or some sampled blocks, were not executed; empty if all sampled blocks were.
        followers: Launches that read what all blocks of earlier ones write, executed on stand-in contents.
        faults: Faults of these launches that no contents of what they read explain.
    """

    inputs: IndexedInputs
    done: list[_Done] = field(default_factory=list)
    cut: str = ""
    followers: list[_Done] = field(default_factory=list)
    faults: list[Finding] = field(default_factory=list)


_MACHINE_WORK: Final = 2.5
"""Interpreter work that takes as long as a checked warp instruction in machine code."""

_COMPARED: Final = 1 << 18
"""Most elements of an output to compare."""

_FEW: Final = 8
"""Fewest blocks to execute, in whole clusters."""

_ALIKE: Final = 3
"""Blocks, plus one per axis of the grid, that suffice if each stores as many elements: the grid fits exactly."""

_WAITING: Final = "deadlock"
"""The finding of blocks that wait for others: inconclusive if those are not sampled."""

_LIMIT_S: Final = 4.0
"""Processor seconds after which a launch is stopped, also in machine code, where work is not counted."""

_ACCESS: Final = frozenset({"out-of-bounds", "misaligned"})
"""Kinds of findings that an address alone shows."""

_NO_FAULT: Final = frozenset({_WAITING, "unfinished"})
"""Kinds of findings that do not count against the variant."""


def execute_full_size(task: FullSizeTask, ptx: str, *, compare: bool = True) -> FullSizeOutcome:
    """Execute sampled blocks, and return their faults and known gaps.

    Args:
        task: The problem.
        ptx: The variant's PTX.
        compare: Compare values with the reference; False where there is none.
    """
    try:
        return _outcome(task, ptx, compare=compare)
    except MemoryError:  # the small size's verdict stands
        return _nothing_shown("it needs more memory than the worker's share")


def _outcome(task: FullSizeTask, ptx: str, *, compare: bool) -> FullSizeOutcome:
    sampled = _sampled(task, task.full, ptx)
    if isinstance(sampled, FullSizeOutcome):
        return sampled
    suspicions = _suspicions(task, sampled)
    if suspicions:
        detail = "; ".join(filter(None, [_smallest_failing(task, ptx), _wrapped(task, ptx, sampled)]))
        first = replace(suspicions[0], detail=detail)
        return FullSizeOutcome(_record(task, sampled), (first, *suspicions[1:]))
    not_shown = [f"{Condition.FULL_SIZE}, {sampled.cut}"] if sampled.cut else []
    holes: list[str] = []
    for name in sampled.inputs.required:
        unclear, hole = _covered(name, sampled)
        holes += [hole] if hole else []
        not_shown += [f"{Condition.FULL_SIZE}, {unclear}"] if unclear and not sampled.cut else []
    covered = not holes and not not_shown
    values = _Compared()
    if not holes and compare:
        values = _compared(task, sampled, ptx)
        if not values.elements and not not_shown:
            because = f": {values.why_none}" if values.why_none else ""
            not_shown.append(f"{Condition.FULL_SIZE}, no values were compared, only at the small size{because}")
    wrong = [*holes, *([values.off] if values.off else [])]
    if wrong and (wraps := _wrapped(task, ptx, sampled)):
        wrong[0] += f"; {wraps}"
    record = _record(task, sampled, values.elements, covered=covered)
    return FullSizeOutcome(record, tuple(Suspicion(Condition.FULL_SIZE, fault) for fault in wrong), tuple(not_shown))


def resident_at_once(task: FullSizeTask) -> FullSizeOutcome:
    """Compare the grid with the GPU's resident blocks, for blocks that wait for one another."""
    for step, limit in zip(task.full.launches.steps, task.resident, strict=False):
        blocks = math.prod(step.grid)
        if blocks > limit:
            detail = (
                f"the {blocks:,} blocks of {step.entry} wait for one another, and {task.gpu} holds {limit:,} at once:"
                " the others never start (a grid of resident_blocks fits)"
            )
            return FullSizeOutcome(suspicions=(Suspicion(Condition.FULL_SIZE, detail),))
    return _nothing_shown("its blocks wait for one another, so a sample of them cannot run")


def _record(task: FullSizeTask, sampled: _Sampled, compared: int = 0, *, covered: bool = False) -> FullSizeRecord:
    executed = sum(len(executed_launch.blocks) for executed_launch in [*sampled.done, *sampled.followers])
    total = sum(math.prod(step.grid) for step in task.full.launches.steps)
    return FullSizeRecord(task.full.problem, executed, total, compared, covered)


def _suspicions(task: FullSizeTask, sampled: _Sampled) -> list[Suspicion]:
    findings = [
        finding
        for executed_launch in sampled.done
        for finding in unexcused(executed_launch.result, task.excused)
        if finding.kind not in _NO_FAULT
    ]
    return [Suspicion(Condition.FULL_SIZE, finding=finding) for finding in [*findings, *sampled.faults]]


# --- execution ----------------------------------------------------------------------------------------------------


def _sampled(task: FullSizeTask, sized: SizedLaunches, ptx: str) -> _Sampled | FullSizeOutcome:
    """Execute sampled blocks of each launch, or return why there is nothing to execute."""
    computed = operator(task.operator)
    try:
        inputs = computed.indexed_inputs(computed.restored(sized.problem), task.seed)
        if inputs is None:
            return _nothing_shown("its inputs are too large to describe")
        return _blocks_of_each(task, sized, ptx, inputs)
    except UnsupportedInstruction as error:
        return _nothing_shown(_one_line(error))
    except UserError as error:
        return FullSizeOutcome(suspicions=(Suspicion(Condition.FULL_SIZE, _one_line(error)),))


def _nothing_shown(reason: str) -> FullSizeOutcome:
    return FullSizeOutcome(not_shown=(f"{Condition.FULL_SIZE}, nothing was executed: {reason}",))


def _one_line(error: LabError) -> str:
    return " ".join(str(error).split())


def _blocks_of_each(task: FullSizeTask, sized: SizedLaunches, ptx: str, inputs: IndexedInputs) -> _Sampled:
    executed: list[_Done] = []
    written_arrays: set[str] = set()
    for number, step in enumerate(sized.launches.steps):
        if written_arrays & pointers(step):
            return _followed(task, sized, ptx, _Sampled(inputs, executed), number)
        written_arrays |= _writable(sized, inputs, step)
        cluster = cluster_shape(program_of(ptx, step.entry), step.grid, step.cluster)
        blocks = sampled_blocks(step.grid, cluster, task.seed)
        outcome = _executed(task, sized, ptx, step, inputs=inputs, blocks=blocks)
        if outcome is None:
            return _Sampled(inputs, executed, f"{step.entry} was not executed: its arrays take more than a gibibyte")
        result, blocks = outcome
        if any(finding.kind == _WAITING for finding in result.findings):
            # blocks that wait for earlier ones, as in decoupled look-back, find them at the beginning of the grid
            blocks = tuple(range(min(len(blocks) // math.prod(cluster) * math.prod(cluster), math.prod(step.grid))))
            result, blocks = _executed(task, sized, ptx, step, inputs=inputs, blocks=blocks) or outcome
        executed.append(_Done(step, cluster, result, blocks[: result.finished]))
        if any(finding.kind == _WAITING for finding in result.findings):
            return _Sampled(inputs, executed, f"sampled blocks of {step.entry} wait for blocks that are not sampled")
        faulty = any(finding.kind not in _NO_FAULT for finding in result.findings)
        if result.finished < len(blocks) and not faulty:
            ended = f"{result.finished} of {len(blocks)} sampled blocks of {step.entry} ended in the time allowed"
            return _Sampled(inputs, executed, ended)
        if faulty:
            break
    return _Sampled(inputs, executed)


def pointers(step: Launch) -> set[str]:
    """Return the names of a launch's arguments that are arrays."""
    return {name for name, kind in step.arguments if kind.endswith("*")}


def writable_arrays(launches: Launches, inputs: IndexedInputs) -> set[str]:
    """Return the arrays that some launch may write."""
    return {*inputs.outputs, *inputs.scratch, *(buffer.name for buffer in launches.workspace)}


def _writable(sized: SizedLaunches, inputs: IndexedInputs, step: Launch) -> set[str]:
    return pointers(step) & writable_arrays(sized.launches, inputs)


def _followed(task: FullSizeTask, sized: SizedLaunches, ptx: str, sampled: _Sampled, first: int) -> _Sampled:
    """Execute sampled blocks of the launches from the first that reads what all blocks of an earlier one write.

    Those contents are unknown. The launches are executed on zeros and on ones in their place, and only an access at
    fault with both counts: with one alone, it may be an index read from there.
    """
    steps = sized.launches.steps
    work = task.work // (2 * len(steps[first:]))
    for number, step in enumerate(steps[first:], first):
        if any(kind == TENSOR_MAP for _, kind in step.arguments):
            return replace(
                sampled, cut=f"{step.entry} was not executed: it reads what all blocks of earlier launches write"
            )
        cluster = cluster_shape(program_of(ptx, step.entry), step.grid, step.cluster)
        blocks = sampled_blocks(step.grid, cluster, task.seed)
        written_arrays = set().union(*(_writable(sized, sampled.inputs, earlier) for earlier in steps[:number]))
        memories = [IndexedMemory(sampled.inputs, sized.launches, written_arrays, element) for element in (0, 1)]
        results = [_launched(ptx, step, memory, blocks, work, engine="interpreted") for memory in memories]
        by_place = [
            {
                (finding.kind, finding.line): finding
                for finding in unexcused(result, task.excused)
                if finding.kind in _ACCESS
            }
            for result in results
        ]
        faults = [finding for place, finding in by_place[0].items() if place in by_place[1]]
        finished = min(result.finished for result in results)
        sampled = replace(
            sampled,
            followers=[*sampled.followers, _Done(step, cluster, results[0], blocks[:finished])],
            faults=[*sampled.faults, *faults],
        )
    entries = ", ".join(dict.fromkeys(follower.step.entry for follower in sampled.followers))
    return replace(
        sampled, cut=f"{entries}: only addresses were checked, since all blocks of earlier launches write the data"
    )


def _executed(
    task: FullSizeTask, sized: SizedLaunches, ptx: str, step: Launch, *, inputs: IndexedInputs, blocks: tuple[int, ...]
) -> tuple[Emulation, tuple[int, ...]] | None:
    """Execute blocks on indexed inputs by the interpreter or, if that takes long, on arrays as machine code.

    Returns:
        The result, and the blocks selected for execution: fewer if each takes long.
    """
    program, threads = program_of(ptx, step.entry), padded_threads(step.block)
    indexed = not program.has_async_proxy and all(kind != TENSOR_MAP for _, kind in step.arguments)
    making = work_to_make(len(program.code))
    brief_work = min(task.work, making)
    expected = task.block_warps * WARP_SIZE / threads * (len(blocks) * threads + PER_STEP)
    if indexed and (task.briefly or expected <= brief_work):
        result = _launched(ptx, step, IndexedMemory(inputs, sized.launches), blocks, brief_work, engine="interpreted")
        if task.briefly or result.findings or result.finished == len(blocks):
            return result, blocks
    arrays = _materialised(task.operator, _Content(sized.problem), task.seed)
    if arrays is not None:
        size = math.prod(cluster_shape(program, step.grid, step.cluster))
        memory = DeviceMemory(arrays, sized.launches, traced=True)
        least = _ALIKE + sum(count > 1 for count in step.grid)
        work = task.work - making
        affordable = _affordable(work, task.block_warps, blocks, size, least)
        result = _launched(ptx, step, memory, affordable, task.work, engine="compiled")
        if not _alike(result):
            affordable = _affordable(work, task.block_warps, blocks, size, _FEW)
            result = _launched(ptx, step, memory, affordable, task.work, engine="compiled")
        return result, affordable
    if not indexed:
        return None
    indexed_memory = IndexedMemory(inputs, sized.launches)
    return _launched(ptx, step, indexed_memory, blocks, task.work, engine="interpreted"), blocks


def _affordable(work: int, block_warps: float, blocks: tuple[int, ...], size: int, least: int) -> tuple[int, ...]:
    """Return the first blocks, in whole clusters: as many as the work budget allows, but at least `least`."""
    limit = max(least, int(work / max(1.0, block_warps * _MACHINE_WORK)))
    return blocks[: -(-limit // size) * size]


def _alike(result: Emulation) -> bool:
    """Return whether every block stores the same number of elements of each output."""
    return all(len(set(np.unique(stored.blocks, return_counts=True)[1].tolist())) <= 1 for stored in result.stored)


def _launched(
    ptx: str,
    step: Launch,
    memory: DeviceMemory | IndexedMemory,
    blocks: Sequence[int],
    work: int,
    *,
    engine: EngineChoice,
    wraps: bool = False,
) -> Emulation:
    return launch_step(
        ptx,
        step,
        memory,
        count=False,
        engine=engine,
        monitor=LaunchMonitor(_LIMIT_S, clock=time.process_time),
        blocks=blocks,
        work=work,
        wraps=wraps,
    )


@dataclass(frozen=True, eq=False)
class _Content:
    """A problem as a cache key, compared by content."""

    problem: Mapping[str, Scalar]

    def __hash__(self) -> int:
        return hash(frozenset(self.problem.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and dict(self.problem) == dict(other.problem)


def materialised(reference: str, problem: Mapping[str, Scalar], seed: int) -> Inputs | None:
    """Return the inputs of a problem as arrays; None if they are too large."""
    return _materialised(reference, _Content(problem), seed)


@lru_cache(maxsize=1)
def _materialised(reference: str, sized: _Content, seed: int) -> Inputs | None:
    """Return the indexed inputs as arrays, None if too large; cached, since variants share a problem."""
    computed = operator(reference)
    inputs = computed.indexed_inputs(computed.restored(sized.problem), seed)
    if inputs is None or sum(array.size * array.dtype.itemsize for array in inputs.arrays.values()) > _MATERIALISED:
        return None
    arrays: dict[str, Array] = {
        name: np.zeros(array.size, array.dtype) if name in inputs.required else array.read(0, array.size)
        for name, array in inputs.arrays.items()
    }
    return Inputs(inputs.scalars, arrays, inputs.outputs, inputs.required, inputs.scratch)


def _wrapped(task: FullSizeTask, ptx: str, sampled: _Sampled) -> str:
    """Return where a 32-bit product wraps around, a likely cause of a full-size fault; empty if none does."""
    lines: list[SourceLocation] = []
    for executed_launch in sampled.done:
        memory, blocks = IndexedMemory(sampled.inputs, task.full.launches), executed_launch.blocks or (0,)
        with contextlib.suppress(LabError, KeyError):
            lines += _launched(
                ptx, executed_launch.step, memory, blocks, task.work, engine="interpreted", wraps=True
            ).wraps
    places = ", ".join(dict.fromkeys(line.short for line in lines))
    return f"a 32-bit product wraps around at {places}" if places else ""


def _smallest_failing(task: FullSizeTask, ptx: str) -> str:
    """Return the smallest size at which a fault shows, by bisection; empty if no size between fails."""
    brief = replace(task, briefly=True)
    low, high = -1, len(task.between)  # the last size known to be right, the first known to fail
    while high - low > 1:
        middle = (low + high) // 2
        sampled = _sampled(brief, task.between[middle], ptx)
        fails = bool(sampled.suspicions if isinstance(sampled, FullSizeOutcome) else _suspicions(task, sampled))
        low, high = (low, middle) if fails else (middle, high)
    if high == len(task.between):
        return ""
    return f"the smallest size tried that fails is {_sizes(task.between[high].problem, task.full.problem)}"


def _sizes(problem: Mapping[str, Scalar], full: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in problem.items() if size != full.get(name))


# --- verification -------------------------------------------------------------------------------------------------


def _covered(name: str, sampled: _Sampled) -> tuple[str, str]:
    """Return the uncertainty about an output's coverage, and its missing elements; empty texts if covered."""
    size = sampled.inputs.arrays[name].size
    judged = [
        coverage(
            size,
            executed_launch.step.grid,
            executed_launch.cluster,
            executed_launch.blocks,
            blocks=stored.blocks,
            elements=stored.elements,
        )
        for executed_launch in sampled.done
        for stored in executed_launch.result.stored
        if stored.name == name and len(stored.elements)
    ]
    if any(verdict.coverage is Coverage.COMPLETE for verdict in judged):
        return "", ""
    sampled_blocks_of = sum(len(executed_launch.blocks) for executed_launch in sampled.done)
    if not judged and not sampled.cut and size >= max(math.prod(done.step.grid) for done in sampled.done):
        # an output with fewer elements than blocks may be written by one block alone, as a sum by the last one
        return "", f"none of the {sampled_blocks_of} sampled blocks writes an element of {name}"
    if len(judged) != 1 or judged[0].coverage is Coverage.UNKNOWN or sampled.cut:
        return f"it was not shown that all blocks together write every element of {name}", ""
    (gap,) = judged
    first = f", element {gap.element} among them" if gap.element >= 0 else ""
    number = "at least one" if gap.missing == 1 else f"at least {gap.missing:,}"
    return "", f"no block writes {number} of the {size:,} elements of {name}{first}"


def _of_some_blocks(stored: Stored) -> Stored:
    """Return the stores of the first blocks, limited to a number of elements that is quick to compare."""
    last = min(len(stored.elements), _COMPARED)
    return replace(stored, elements=stored.elements[:last], values=stored.values[:last], blocks=stored.blocks[:last])


def _settled(stored: Stored, sampled: _Sampled, *, ordered: bool) -> bool:
    """Return whether a single block determines each stored element.

    Blocks that are not sampled contribute to elements updated by atomics. In kernels that depend on block order, they
    may also do so under a lock: to an output that is also read, or to an element that several blocks write.
    """
    if stored.updated or not len(stored.elements):
        return False
    apart = len(np.unique(stored.elements)) == len(stored.elements)
    return not ordered or (stored.name in sampled.inputs.required and apart)


@dataclass(frozen=True, slots=True)
class _Compared:
    """The comparison of elements that blocks wrote with the reference.

    Attributes:
        elements: Number of elements compared.
        off: The mismatch; empty if all are within the tolerance.
        why_none: Why none were compared, if known.
    """

    elements: int = 0
    off: str = ""
    why_none: str = ""


def _compared(task: FullSizeTask, sampled: _Sampled, ptx: str) -> _Compared:
    """Compare the elements that blocks wrote with the reference."""
    computed = operator(task.operator)
    problem = computed.restored(task.full.problem)
    rows = [
        stored
        for executed_launch in sampled.done
        for stored in executed_launch.result.stored
        if stored.name in sampled.inputs.outputs
        and _settled(stored, sampled, ordered=program_of(ptx, executed_launch.step.entry).depends_on_order)
    ]
    elements_of: dict[str, NDArray[np.int64]] = {}
    values_of: dict[str, Array] = {}
    for stored in map(_of_some_blocks, rows):
        elements_of[stored.name], at = np.unique(stored.elements, return_index=True)
        values_of[stored.name] = stored.values[at]
    if not elements_of or len(rows) != len(elements_of):
        return _Compared(why_none="" if elements_of else "blocks that were not executed may update the same elements")
    representative = computed.representative(problem, elements_of)
    values_of = {
        name: values_of[name][np.searchsorted(elements_of[name], elements)] for name, elements in representative.items()
    }
    elements_of = dict(representative)
    expected = computed.reference_at(problem, sampled.inputs, elements_of)
    if expected is None:
        return _Compared(why_none=computed.why_not_restricted(problem))
    largest, tolerance, worst = computed.verify_at(problem, expected, elements_of, values_of)
    return _Compared(sum(map(len, elements_of.values())), "" if largest <= tolerance else worst)
