"""Execute sampled blocks of a variant at the problem's own size.

What a small size hides shows here: an index that overflows, a vector that is misaligned, a grid that ends too early, a
sum that stalls. Inputs are functions of the index, so that arrays of many gigabytes cost nothing; the reference is
evaluated for the elements that the sampled blocks wrote.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import LabError, UserError
from lab.base.expressions import Scalar
from lab.base.warp import WARP_SIZE
from lab.emulator.allowance import PER_STEP, work_to_make
from lab.emulator.api import launch
from lab.emulator.batch import padded_threads
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.monitor import LaunchMonitor
from lab.emulator.program import program_of
from lab.emulator.results import Emulation, EngineChoice, FindingKind, Stored
from lab.emulator.waiting.clusters import cluster_shape
from lab.isa.model import SourceLocation
from lab.operators.base import Array, Inputs
from lab.operators.builtin import operator
from lab.operators.indexed import IndexedInputs
from lab.recorded.run_records import Condition, FullSizeRecord, Suspicion
from lab.stages.memory import DeviceMemory, IndexedMemory
from lab.stages.sequence import unexcused
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launches import Launch, Launches
from lab.verdict.coverage import Coverage, coverage
from lab.verdict.sampling import sampled_blocks

_MATERIALISED: Final = 1 << 30
"""Bytes of the arrays of a problem that is executed as machine code, or by kernels with bulk copies."""


@dataclass(frozen=True, slots=True)
class SizedLaunches:
    """A problem of some size, with its launches.

    Attributes:
        problem: The problem, complete.
        launches: Its launches.
    """

    problem: Mapping[str, Scalar]
    launches: Launches


@dataclass(frozen=True, slots=True)
class FullSizeTask:
    """The execution of sampled blocks.

    Attributes:
        operator: The operator, as the experiment names it.
        seed: Seed of the inputs, and of the blocks that are drawn.
        full: The problem at its own size.
        work: Work that the interpreter may do, as of `lab.emulator.allowance.Budget`.
        between: Sizes between the emulated one and the full one, ascending, to find where a fault begins.
        excused: Kinds of findings that do not count against the variant.
        resident: Blocks of each launch that the GPU holds at once; empty where that is not known.
        gpu: The GPU's name.
        block_warps: Warp instructions that a block is expected to execute, in the mean; 0 where that is not known.
        briefly: Leave what takes long to the interpreter, too, as far as it comes: arrays take seconds to fill.
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
    """The outcome of the execution.

    Attributes:
        record: What was executed; None where nothing was.
        suspicions: Faults.
        not_shown: What was not shown.
    """

    record: FullSizeRecord | None = None
    suspicions: tuple[Suspicion, ...] = ()
    not_shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Done:
    """A launch of which sampled blocks were executed.

    Attributes:
        step: The launch.
        cluster: Blocks of a cluster along x, y, z.
        result: The result.
        blocks: Numbers of the blocks that ran to their end.
    """

    step: Launch
    cluster: tuple[int, int, int]
    result: Emulation
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Sampled:
    """The launches that were executed.

    Attributes:
        inputs: What they were executed on.
        done: Each with its result.
        cut: Why a later launch, or a rest of the blocks, was not executed; empty where all sampled blocks were.
    """

    inputs: IndexedInputs
    done: list[_Done] = field(default_factory=list)
    cut: str = ""


_MACHINE_WORK: Final = 2.5
"""Work of the interpreter in whose time machine code executes a warp instruction and watches it."""

_COMPARED: Final = 1 << 18
"""Elements of an output that are compared at most."""

_FEW: Final = 8
"""Blocks, whole clusters of them, that are executed at least."""

_ALIKE: Final = 3
"""Blocks, and one for each axis of the grid, that suffice where each stores as many elements: the grid fits exactly."""

_WAITING: Final = "deadlock"
"""The finding of blocks that wait for others: of those that are not sampled, it says nothing."""

_LIMIT_S: Final = 4.0
"""Processor seconds after which a launch is stopped, in machine code, too, where the work is not counted."""

_NO_FAULT: Final = frozenset({_WAITING, "unfinished"})
"""Kinds of findings that say nothing against the variant."""


def execute_full_size(task: FullSizeTask, ptx: str, *, compare: bool = True) -> FullSizeOutcome:
    """Execute sampled blocks, and say what they show.

    Args:
        task: The problem.
        ptx: The variant's PTX.
        compare: Compare values with the reference; False where there is none.
    """
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
    return FullSizeOutcome(record, tuple(Suspicion(Condition.FULL_SIZE, one) for one in wrong), tuple(not_shown))


def resident_at_once(task: FullSizeTask) -> FullSizeOutcome:
    """Compare the grid with what the GPU holds at once, for blocks that wait for one another."""
    for step, held in zip(task.full.launches.steps, task.resident, strict=False):
        blocks = math.prod(step.grid)
        if blocks > held:
            detail = (
                f"the {blocks:,} blocks of {step.entry} wait for one another, and {task.gpu} holds {held:,} at once:"
                " the others never begin (a grid of resident_blocks fits)"
            )
            return FullSizeOutcome(suspicions=(Suspicion(Condition.FULL_SIZE, detail),))
    return _nothing_shown("its blocks wait for one another, so that no part of them can be")


def _record(task: FullSizeTask, sampled: _Sampled, compared: int = 0, *, covered: bool = False) -> FullSizeRecord:
    executed = sum(len(one.blocks) for one in sampled.done)
    total = sum(math.prod(step.grid) for step in task.full.launches.steps)
    return FullSizeRecord(task.full.problem, executed, total, compared, covered)


def _suspicions(task: FullSizeTask, sampled: _Sampled) -> list[Suspicion]:
    return [
        Suspicion(Condition.FULL_SIZE, finding=finding)
        for one in sampled.done
        for finding in unexcused(one.result, task.excused)
        if finding.kind not in _NO_FAULT
    ]


# --- execution ----------------------------------------------------------------------------------------------------


def _sampled(task: FullSizeTask, sized: SizedLaunches, ptx: str) -> _Sampled | FullSizeOutcome:
    """Execute sampled blocks of each launch, or say why there is nothing to execute.

    A launch that reads what all blocks of an earlier one wrote is not executed, nor what follows it.
    """
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


def _nothing_shown(why: str) -> FullSizeOutcome:
    return FullSizeOutcome(not_shown=(f"{Condition.FULL_SIZE}, nothing was executed: {why}",))


def _one_line(error: LabError) -> str:
    return " ".join(str(error).split())


def _blocks_of_each(task: FullSizeTask, sized: SizedLaunches, ptx: str, inputs: IndexedInputs) -> _Sampled:
    done: list[_Done] = []
    written: set[str] = set()
    for step in sized.launches.steps:
        taken = {name for name, kind in step.arguments if kind.endswith("*")}
        if written & taken:
            why = f"{step.entry} was not executed: it takes what all blocks of earlier launches write"
            return _Sampled(inputs, done, why)
        written |= taken & {*inputs.outputs, *inputs.scratch, *(one.name for one in sized.launches.workspace)}
        cluster = cluster_shape(program_of(ptx, step.entry), step.grid, step.cluster)
        blocks = sampled_blocks(step.grid, cluster, task.seed)
        made = _executed(task, sized, ptx, step, inputs=inputs, blocks=blocks)
        if made is None:
            return _Sampled(inputs, done, f"{step.entry} was not executed: its arrays take more than a gibibyte")
        result, blocks = made
        if any(finding.kind == _WAITING for finding in result.findings):
            # blocks that wait for earlier ones, as a look-back does, find these at the beginning of the grid
            blocks = tuple(range(min(len(blocks) // math.prod(cluster) * math.prod(cluster), math.prod(step.grid))))
            result, blocks = _executed(task, sized, ptx, step, inputs=inputs, blocks=blocks) or made
        done.append(_Done(step, cluster, result, blocks[: result.finished]))
        if any(finding.kind == _WAITING for finding in result.findings):
            return _Sampled(inputs, done, f"sampled blocks of {step.entry} wait for blocks that are not sampled")
        faulty = any(finding.kind not in _NO_FAULT for finding in result.findings)
        if result.finished < len(blocks) and not faulty:
            ended = f"{result.finished} of {len(blocks)} sampled blocks of {step.entry} ended in the time allowed"
            return _Sampled(inputs, done, ended)
        if faulty:
            break
    return _Sampled(inputs, done)


def _executed(
    task: FullSizeTask, sized: SizedLaunches, ptx: str, step: Launch, *, inputs: IndexedInputs, blocks: tuple[int, ...]
) -> tuple[Emulation, tuple[int, ...]] | None:
    """Execute blocks on indexed inputs by the interpreter or, where that takes long, on arrays as machine code.

    Returns:
        The result, and the blocks that were to be executed: fewer where each takes long.
    """
    program, threads = program_of(ptx, step.entry), padded_threads(step.block)
    indexed = not program.has_async_proxy and all(kind != TENSOR_MAP for _, kind in step.arguments)
    making = work_to_make(len(program.code))
    little = min(task.work, making)
    expected = task.block_warps * WARP_SIZE / threads * (len(blocks) * threads + PER_STEP)
    if indexed and (task.briefly or expected <= little):
        result = _launched(ptx, step, IndexedMemory(inputs, sized.launches), blocks, little, engine="interpreted")
        if task.briefly or result.findings or result.finished == len(blocks):
            return result, blocks
    whole = _materialised(task.operator, _Content(sized.problem), task.seed)
    if whole is not None:
        size = math.prod(cluster_shape(program, step.grid, step.cluster))
        memory = DeviceMemory(whole, sized.launches, traced=True)
        least = _ALIKE + sum(count > 1 for count in step.grid)
        work = task.work - making
        some = _affordable(work, task.block_warps, blocks, size, least)
        result = _launched(ptx, step, memory, some, task.work, engine="compiled")
        if not _alike(result):
            some = _affordable(work, task.block_warps, blocks, size, _FEW)
            result = _launched(ptx, step, memory, some, task.work, engine="compiled")
        return result, some
    if not indexed:
        return None
    indexed_memory = IndexedMemory(inputs, sized.launches)
    return _launched(ptx, step, indexed_memory, blocks, task.work, engine="interpreted"), blocks


def _affordable(work: int, block_warps: float, blocks: tuple[int, ...], size: int, least: int) -> tuple[int, ...]:
    """Return the first blocks, in clusters of a size: as many as some work suffices for, but a number at least."""
    most = max(least, int(work / max(1.0, block_warps * _MACHINE_WORK)))
    return blocks[: -(-most // size) * size]


def _alike(result: Emulation) -> bool:
    """Return whether every block stores as many elements of each output."""
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
    return launch(
        ptx,
        step.entry,
        step.grid,
        step.block,
        [memory.argument(name, kind) for name, kind in step.arguments],
        dynamic_shared_bytes=step.dynamic_shared_bytes,
        count=False,
        engine=engine,
        monitor=LaunchMonitor(_LIMIT_S, clock=time.process_time),
        constants=memory.constants,
        cluster=step.cluster,
        blocks=blocks,
        work=work,
        wraps=wraps,
    )


@dataclass(frozen=True, eq=False)
class _Content:
    """A problem as a key of a cache: by its content."""

    problem: Mapping[str, Scalar]

    def __hash__(self) -> int:
        return hash(frozenset(self.problem.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and dict(self.problem) == dict(other.problem)


@lru_cache(maxsize=1)
def _materialised(reference: str, sized: _Content, seed: int) -> Inputs | None:
    """Return the indexed inputs as arrays, None where they are too large; cached, since variants share a problem."""
    computed = operator(reference)
    inputs = computed.indexed_inputs(computed.restored(sized.problem), seed)
    if inputs is None or sum(one.size * one.dtype.itemsize for one in inputs.arrays.values()) > _MATERIALISED:
        return None
    arrays: dict[str, Array] = {
        name: np.zeros(one.size, one.dtype) if name in inputs.required else one.read(0, one.size)
        for name, one in inputs.arrays.items()
    }
    return Inputs(inputs.scalars, arrays, inputs.outputs, inputs.required, inputs.scratch)


def _wrapped(task: FullSizeTask, ptx: str, sampled: _Sampled) -> str:
    """Say where a 32-bit product wraps around, which may be why the full size fails; empty where none does."""
    lines: list[SourceLocation] = []
    for one in sampled.done:
        memory, blocks = IndexedMemory(sampled.inputs, task.full.launches), one.blocks or (0,)
        with contextlib.suppress(LabError, KeyError):
            lines += _launched(ptx, one.step, memory, blocks, task.work, engine="interpreted", wraps=True).wraps
    places = ", ".join(dict.fromkeys(f"{PurePosixPath(line.file).name}:{line.line}" for line in lines))
    return f"a 32-bit product wraps around at {places}" if places else ""


def _smallest_failing(task: FullSizeTask, ptx: str) -> str:
    """Say between which of the sizes a fault begins, by bisection; empty where there are none between."""
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


# --- what the blocks show -----------------------------------------------------------------------------------------


def _covered(name: str, sampled: _Sampled) -> tuple[str, str]:
    """Return what is unclear of the coverage of an output, and what is missing; empty texts where it is covered."""
    size = sampled.inputs.arrays[name].size
    judged = [
        coverage(
            size,
            one.step.grid,
            one.cluster,
            one.blocks,
            blocks=stored.blocks,
            elements=stored.elements,
        )
        for one in sampled.done
        for stored in one.result.stored
        if stored.name == name and len(stored.elements)
    ]
    if any(one.coverage is Coverage.COMPLETE for one in judged):
        return "", ""
    if len(judged) != 1 or judged[0].coverage is Coverage.UNKNOWN or sampled.cut:
        return f"it was not shown that all blocks together write every element of {name}", ""
    (found,) = judged
    first = f", element {found.element} among them" if found.element >= 0 else ""
    number = "at least one" if found.missing == 1 else f"at least {found.missing:,}"
    return "", f"no block writes {number} of the {size:,} elements of {name}{first}"


def _of_some_blocks(stored: Stored) -> Stored:
    """Return the stores of the first blocks that together have a number of elements that is quick to compare."""
    last = min(len(stored.elements), _COMPARED)
    return replace(stored, elements=stored.elements[:last], values=stored.values[:last], blocks=stored.blocks[:last])


def _settled(stored: Stored, sampled: _Sampled, *, ordered: bool) -> bool:
    """Return whether one block alone decides each element of some stores.

    Blocks that are not sampled contribute to elements that atomics update. In kernels that depend on the order of
    blocks, they may do so under a lock, too: to an output that is read as well, or to an element of several blocks.
    """
    if stored.updated or not len(stored.elements):
        return False
    apart = len(np.unique(stored.elements)) == len(stored.elements)
    return not ordered or (stored.name in sampled.inputs.required and apart)


@dataclass(frozen=True, slots=True)
class _Compared:
    """The comparison of elements that blocks wrote with the reference.

    Attributes:
        elements: How many were compared.
        off: What is wrong; empty where all are within the tolerance.
        why_none: Why none were compared, where that is known.
    """

    elements: int = 0
    off: str = ""
    why_none: str = ""


def _compared(task: FullSizeTask, sampled: _Sampled, ptx: str) -> _Compared:
    """Compare the elements that blocks wrote."""
    computed = operator(task.operator)
    problem = computed.restored(task.full.problem)
    rows = [
        stored
        for one in sampled.done
        for stored in one.result.stored
        if stored.name in sampled.inputs.outputs
        and _settled(stored, sampled, ordered=program_of(ptx, one.step.entry).depends_on_order)
    ]
    wanted: dict[str, NDArray[np.int64]] = {}
    got: dict[str, Array] = {}
    for stored in map(_of_some_blocks, rows):
        wanted[stored.name], at = np.unique(stored.elements, return_index=True)
        got[stored.name] = stored.values[at]
    if not wanted or len(rows) != len(wanted):
        return _Compared(why_none="" if wanted else "blocks that were not executed may update the same elements")
    kept = computed.representative(problem, wanted)
    got = {name: got[name][np.searchsorted(wanted[name], elements)] for name, elements in kept.items()}
    wanted = dict(kept)
    expected = computed.reference_at(problem, sampled.inputs, wanted)
    if expected is None:
        return _Compared(why_none=computed.why_not_restricted(problem))
    largest, tolerance, worst = computed.verify_at(problem, expected, wanted, got)
    return _Compared(sum(map(len, wanted.values())), "" if largest <= tolerance else worst)
