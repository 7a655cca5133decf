"""Execute one variant's PTX on the CPU at the experiment's `emulate` size. Runs in worker processes."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from operator import add
from typing import Any, Final

from lab.base.errors import LabError, UserError
from lab.base.expressions import Scalar
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.results import (
    AccessPattern,
    BlockWait,
    Emulation,
    ExecutedCounts,
    Finding,
    FindingKind,
    LineCount,
    LoopCounts,
)
from lab.isa.matrix import pipe_cycles
from lab.isa.model import InstructionClass
from lab.measured.timing import Verification
from lab.operators.base import Array, Expected, Inputs, Operator, StandInMismatchError
from lab.operators.builtin import operator
from lab.operators.declared.foreign import ReferenceRaisedError
from lab.operators.declared.judging import NOT_WRITTEN
from lab.predict.count_curves import is_open, resized_counts
from lab.recorded.run_records import (
    Condition,
    EmulatedStep,
    EmulationRecord,
    ExecutedLines,
    LaunchRecord,
    ResizedCounts,
    SampleRecord,
    Suspicion,
)
from lab.stages.conditions import Judged, other_conditions, other_inputs
from lab.stages.full_counts import count_full_size, counted_launches, counted_share
from lab.stages.full_size import FullSizeOutcome, FullSizeTask, SizedLaunches, execute_full_size, resident_at_once
from lab.stages.memory import DeviceMemory
from lab.stages.sequence import LaunchMode, run_sequence, unexcused
from lab.templates.launches import Launches

_DECLARED: Final = frozenset[FindingKind](("undeclared-write",))
"""Faults in a file's declarations, behind which the kernel may have faults of its own."""

_MOST_FINDINGS = 20
"""Most findings kept in a record; one fault tends to show on many lines."""


@dataclass(frozen=True, slots=True)
class ReferenceLaunch:
    """A variant whose outputs serve as the reference for others.

    Attributes:
        ptx: Its PTX.
        launches: Its launches at the emulated size.
        problem: The problem at the emulated size, with the parameters of this variant that the operator needs.
    """

    ptx: str
    launches: Launches
    problem: Mapping[str, Scalar]

    def is_of(self, task: EmulationTask, ptx: str) -> bool:
        """Return whether a task executes this same variant."""
        return ptx == self.ptx and task.launches == self.launches and task.problem == self.problem


@dataclass(frozen=True, slots=True)
class HalvedSize:
    """The emulated problem with one of its sizes halved, to measure how counts scale with that size.

    Attributes:
        name: The size; empty if all sizes are changed at once.
        ratio: The emulated size over the halved one; less than 1 if it is enlarged.
        launches: Launches of the halved problem.
        problem: The complete halved problem.
    """

    name: str
    ratio: float
    launches: Launches
    problem: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Sample:
    """A problem that fills blocks as the real one does, executed for its counts.

    Attributes:
        ratio: Product of its sizes over the product of the emulated problem's.
        launches: Its launches.
        problem: The complete problem.
        halved: The same with one size halved.
    """

    ratio: float
    launches: Launches
    problem: Mapping[str, Scalar]
    halved: tuple[HalvedSize, ...] = ()


@dataclass(frozen=True, slots=True)
class EmulationTask:
    """An emulation request for one variant.

    Attributes:
        launches: Geometry, arguments and workspace for `problem`.
        operator: The operator, as the experiment names it.
        problem: The complete problem at the emulated size.
        seed: Seed of the inputs.
        hot_loops: Label of the hot loop of the PTX by entry point; entry points without loops are absent.
        reference: Launches whose outputs stand in for a reference; None if the operator has one.
        whole: The problem has its real size: the compiled engine executes it, without trying the interpreter first.
        halved: Smaller problems that are executed only for their counts.
        samples: Problems closer to the real one, smallest first: the largest that runs quickly is executed for its
            counts.
        spares_samples: Execute samples only if the throughput cannot be estimated without them.
        excused: Kinds of findings caused by the compiler, not the source: they become a note.
        others: The problem with other factors and leading dimensions.
        not_shown: Known gaps of the verification of a correct variant, a sentence each.
        full_size: Blocks to execute at the problem's own size; None for none.
        fewer: The launches on a GPU that holds fewer blocks, so that each block processes several tiles, as at the
            real size; None if the grid does not depend on the GPU.
    """

    launches: Launches
    operator: str
    problem: Mapping[str, Scalar]
    seed: int
    hot_loops: Mapping[str, str]
    reference: ReferenceLaunch | None = None
    whole: bool = False
    halved: tuple[HalvedSize, ...] = ()
    samples: tuple[Sample, ...] = ()
    spares_samples: bool = False
    excused: frozenset[FindingKind] = frozenset()
    fewer: Launches | None = None
    others: tuple[SizedLaunches, ...] = ()
    not_shown: tuple[str, ...] = ()
    full_size: FullSizeTask | None = None


def emulate(task: EmulationTask, ptx: str) -> EmulationRecord:
    """Execute a variant, verify its outputs against the reference, and return counts and findings.

    A correct variant is also executed under other conditions, and at the problem's own size. If the emulator cannot
    execute it, the record has the reason and no counts.

    Raises:
        UserError: The experiment file's arguments or references are wrong, so that no variant can be judged.
    """
    computed = operator(task.operator)
    problem = computed.restored(task.problem)
    inputs = computed.inputs(problem, task.seed)
    memory = DeviceMemory(inputs, task.launches)
    mode = LaunchMode(whole=task.whole, trace=True, tables=_tables(task, inputs), excused=task.excused)
    try:
        results = run_sequence(ptx, task.launches, memory, mode)
        faulty = bool(unexcused(results[-1], task.excused))
        reference, unknown = _reference(task, computed, problem, inputs, memory=memory, ptx=ptx, faulty=faulty)
    except UnsupportedInstruction as error:
        return unsupported(task, str(error))
    except LabError as error:
        if isinstance(error, UserError) and not isinstance(error, ReferenceRaisedError) and _is_of_file(error):
            raise
        return not_executed(task, " ".join(str(error).split()))
    largest, tolerance, worst = computed.verify(problem, reference, memory.outputs)
    if largest > tolerance and NOT_WRITTEN in worst:
        worst += _uncovered(task.launches, memory.outputs)
    steps = _steps(task, results)
    counts = [step.executed for step in steps if step.executed is not None]
    hint = _uncovered(task.launches, memory.outputs)
    findings = tuple(_hinted(finding, hint) for result in results for finding in unexcused(result, task.excused))
    turns = ""
    if (
        largest <= tolerance
        and not findings
        and task.fewer is not None
        and sum(count.warps for count in counts) < _MOMENT
    ):
        fewer_memory = DeviceMemory(inputs, task.fewer)
        findings = tuple(
            unexcused(run_sequence(ptx, task.fewer, fewer_memory, LaunchMode(excused=task.excused))[-1], task.excused)
        )
        largest, tolerance, worst = computed.verify(problem, reference, fewer_memory.outputs)
        turns = _turns(task.launches, task.fewer) if findings or largest > tolerance else ""
    right = largest <= tolerance and all(finding.kind in _DECLARED for finding in findings)
    mode = replace(mode, excused=task.excused | _DECLARED)
    lenient = replace(task, excused=mode.excused)
    larger_counts = _larger_counts(lenient, ptx, computed, steps) if right else _LargerCounts()
    suspicions, grown = larger_counts.suspicions, larger_counts.grown
    doubts = (*computed.doubts(problem, inputs, memory.outputs), *unknown, *task.not_shown) if right else ()
    outcome = FullSizeOutcome()
    if right:
        warps = sum(count.warps for count in counts)
        judged = Judged(ptx, task.launches, computed, problem, reference, mode, memory, warps, task.seed)
        under, untried = other_conditions(judged)
        if task.reference is None and not under and judged.warps <= _MOMENT:
            under = tuple(filter(None, [other_inputs(judged, task.seed, task.others)]))
        suspicions, doubts = (*under, *suspicions), (*doubts, *untried)
        if task.full_size is not None and not suspicions:
            expected = _block_warps(task, task.full_size, computed, judged.warps)
            larger = replace(task.full_size, block_warps=expected, excused=mode.excused)
            if any(result.waits_for_blocks is BlockWait.ANY for result in results):
                outcome = resident_at_once(larger)
            else:
                outcome = execute_full_size(larger, ptx, compare=task.reference is None)
    return EmulationRecord(
        problem=task.problem,
        launches=steps,
        verification=Verification(largest <= tolerance, largest, tolerance, worst, "emulator"),
        executed=reduce(add, counts) if counts else None,
        hot_loop=steps[0].hot_loop if len(steps) == 1 else None,
        findings=findings[:_MOST_FINDINGS],
        steps=sum(result.steps for result in results),
        notes=(
            *dict.fromkeys(note for result in results for note in result.notes),
            *_interpreted(results, real_size=task.whole),
            *_left_out(len(findings)),
            *_excuses([finding for result in results for finding in result.findings if finding.kind in task.excused]),
            *filter(None, [turns]),
        ),
        lines=alike(line for result in results for line in result.lines),
        bytes_needed=computed.bytes_moved(problem),
        flops=computed.flops(problem),
        growth=grown.whole,
        growth_of_block=grown.of_block,
        sample=larger_counts.sample,
        resized=tuple(grown.resized),
        suspicions=(*suspicions, *outcome.suspicions)[:_MOST_FINDINGS],
        not_shown=(*outcome.not_shown, *doubts),
        full_size=outcome.record,
        patterns=costly(pattern for result in results for pattern in result.patterns),
        of_blocks=larger_counts.of_blocks,
    )


def _tables(task: EmulationTask, inputs: Inputs) -> frozenset[str]:
    """Return the names of the arrays that are as large at the problem's own size."""
    if task.full_size is None:
        return frozenset()
    computed = operator(task.operator)
    larger = computed.indexed_inputs(computed.restored(task.full_size.full.problem), task.seed)
    sizes = {} if larger is None else {name: array.size for name, array in larger.arrays.items()}
    return frozenset(name for name, array in inputs.arrays.items() if array.size == sizes.get(name))


def costly(patterns: Iterable[AccessPattern]) -> tuple[AccessPattern, ...]:
    """Return the accesses that cost more than they need, those with the largest share of waste first.

    Copies of one access in an unrolled loop leave room for other accesses: beyond the first of a shape, they come last.
    """
    wasting = [pattern for pattern in patterns if pattern.cost > pattern.ideal]
    wasting.sort(key=lambda one: (one.ideal - one.cost) / one.requests)
    of_shape: Counter[object] = Counter()
    ranks = []
    for pattern in wasting:
        least = min((offset for offset in pattern.lanes if offset >= 0), default=0)
        shape = pattern.key, pattern.width, tuple(offset - least if offset >= 0 else -1 for offset in pattern.lanes)
        of_shape[shape] += 1
        ranks.append(of_shape[shape] > _OF_A_SHAPE)
    ranked = sorted(zip(ranks, range(len(wasting)), strict=True))
    return tuple(wasting[place] for _, place in ranked[:_MOST_PATTERNS])


_OF_A_SHAPE: Final = 8
_MOST_PATTERNS: Final = 64
"""Accesses whose addresses a record keeps: more than the page of a variant can show."""


def _block_warps(task: EmulationTask, larger: FullSizeTask, computed: Operator[Any], warps: int) -> float:
    """Return the mean warp instructions expected per block at the problem's own size.

    They are assumed to scale with the problem's operations or, if it has none, with its bytes.
    """
    small, full = computed.restored(task.problem), computed.restored(larger.full.problem)
    work = computed.flops(small) or computed.bytes_moved(small)
    growth = (computed.flops(full) or computed.bytes_moved(full)) / max(1, work)
    return warps * growth / _blocks(larger.full.launches)


@dataclass(frozen=True, slots=True)
class _Grown:
    """Scaling of the executed counts with each size, as in `EmulationRecord`."""

    whole: dict[str, float] = field(default_factory=dict)
    of_block: dict[str, float] = field(default_factory=dict)
    resized: list[ResizedCounts] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _LargerCounts:
    """Counts beyond those of the emulated problem, for predictions at the real size.

    Attributes:
        of_blocks: As in `EmulationRecord`.
        sample: As in `EmulationRecord`; None with `of_blocks`, which say more.
        grown: Scaling of the counts, if neither is known.
        suspicions: Faults of samples.
    """

    of_blocks: SampleRecord | None = None
    sample: SampleRecord | None = None
    grown: _Grown = field(default_factory=_Grown)
    suspicions: tuple[Suspicion, ...] = ()


def _larger_counts(
    task: EmulationTask, ptx: str, computed: Operator[Any], steps: Sequence[EmulatedStep]
) -> _LargerCounts:
    """Count blocks of the real problem, else a larger sample, else how the counts scale."""
    counts = [step.executed for step in steps if step.executed is not None]
    of_blocks = _blocks_counted(task, ptx, computed, sum(count.warps for count in counts))
    if of_blocks is not None:
        unscaled = replace(task, samples=tuple(replace(sample, halved=()) for sample in task.samples))
        return _LargerCounts(of_blocks, suspicions=_sampled(unscaled, ptx, counts)[1])
    sample, suspicions = _sampled(task, ptx, counts)
    grown = _growth(task, ptx, steps) if sample is None and _is_quick(counts) else _Grown()
    return _LargerCounts(None, sample, grown, suspicions)


def _blocks_counted(task: EmulationTask, ptx: str, computed: Operator[Any], warps: int) -> SampleRecord | None:
    """Count random blocks of the problem at its own size; None if there are none, or its throughput counts operations.

    A block that reads too much to be traced to its end keeps the data reuse of the small problem's blocks.
    """
    larger = task.full_size
    if larger is None or computed.flops(computed.restored(larger.full.problem)):
        return None
    expected = replace(larger, block_warps=_block_warps(task, larger, computed, warps))
    counted = count_full_size(expected, ptx)
    if not counted:
        return None
    sized = replace(task, launches=counted_launches(larger.full.launches, counted), problem=larger.full.problem)
    own = _steps(sized, [launch.result for launch in counted])
    needed = computed.bytes_moved(computed.restored(larger.full.problem)) * counted_share(counted)
    return SampleRecord(larger.full.problem, own, round(needed))


def _sampled(
    task: EmulationTask, ptx: str, counts: Sequence[ExecutedCounts]
) -> tuple[SampleRecord | None, tuple[Suspicion, ...]]:
    """Execute samples, smallest first, as long as they run quickly, and return the counts of the last.

    The cost of the next sample is extrapolated from the last two; at first it is assumed to scale with the size. Their
    outputs are not verified. A sample with faults has no valid counts.

    Returns:
        The counts, if a sample was short enough and the kernel supports its size; and its faults.
    """
    warps, ratio, power, last = sum(count.warps for count in counts), 1.0, 1.0, None
    for sample in task.samples:
        if warps * (sample.ratio / ratio) ** power > _MOMENT:
            break
        steps, faults = _of_sample(task, sample, ptx)
        if faults:
            return None, faults
        if not steps:
            break
        before, warps = warps, sum(step.executed.warps for step in steps if step.executed is not None)
        power = max(1.0, math.log(warps / before) / math.log(sample.ratio / ratio)) if warps > before else 1.0
        ratio, last = sample.ratio, (sample, steps)
    if last is None:
        return None, ()
    sample, steps = last
    larger = replace(task, launches=sample.launches, problem=sample.problem, halved=sample.halved, samples=())
    computed = operator(task.operator)
    problem = computed.restored(sample.problem)
    bytes_needed, flops = computed.bytes_moved(problem), computed.flops(problem)
    grown = _growth(larger, ptx, steps)
    record = SampleRecord(
        sample.problem, steps, bytes_needed, flops, grown.whole, grown.of_block, resized=tuple(grown.resized)
    )
    return record, ()


def _of_sample(task: EmulationTask, sample: Sample, ptx: str) -> tuple[tuple[EmulatedStep, ...], tuple[Suspicion, ...]]:
    """Execute a sample; return no steps if it is too large or faulty, and its faults."""
    larger = replace(task, launches=sample.launches, problem=sample.problem, halved=sample.halved, samples=())
    try:
        computed = operator(task.operator)
        problem = computed.restored(sample.problem)
        if computed.bytes_moved(problem) > _MOST_BYTES:
            return (), ()
        inputs = computed.inputs(problem, task.seed)
        memory = DeviceMemory(inputs, sample.launches)
        mode = LaunchMode(trace=True, tables=_tables(task, inputs), excused=task.excused)
        results = run_sequence(ptx, sample.launches, memory, mode)
    except LabError:  # a kernel need not support every size
        return (), ()
    if wrong := unexcused(results[-1], task.excused):
        sizes = ", ".join(f"{name} = {size}" for name, size in sample.problem.items() if size != task.problem.get(name))
        return (), tuple(Suspicion(Condition.LARGER, f"with {sizes}", finding) for finding in wrong)
    return _steps(larger, results), ()


_MOMENT: Final = 750_000
"""Warp instructions that the interpreter executes in a few tenths of a second."""

_MOST_BYTES: Final = 64 << 20
"""Limit on the bytes of a sample, so that its inputs are generated quickly."""


def _is_quick(counts: Sequence[ExecutedCounts]) -> bool:
    """Return whether executing as much again is quick."""
    return sum(count.warps for count in counts) < _QUICK


_QUICK = 20_000_000


def _growth(task: EmulationTask, ptx: str, steps: Sequence[EmulatedStep]) -> _Grown:
    """Execute the problem at other sizes, as many as needed to fit the scaling of its counts.

    Two sizes give a power, from the first that can be executed. Prologues and epilogues would bias it in a small
    problem, so only instructions in loops are compared if both sizes execute loops. Three or four sizes distinguish a
    power from a sum of powers (`lab.predict.count_curves`). Sizes without a second value that executes are absent.
    """
    grown = _Grown()
    cost = sum(map(_cost, (step.executed for step in steps if step.executed is not None)))
    for half in task.halved:
        changed = (
            [half.name] if half.name else list(dict.fromkeys(halved.name for halved in task.halved if halved.name))
        )
        earlier = [resized for resized in grown.resized if list(resized.sizes) == changed]
        if earlier and (not half.name or not is_open(half.name, task.problem, steps, earlier)):
            continue
        if (earlier or not half.name) and cost * half.ratio ** -max(1.0, grown.whole.get(half.name, 1.0)) > _ENLARGED:
            continue
        resized_steps = _at_size(task, half, ptx, len(steps))
        if resized_steps is None:
            continue
        sizes = {name: size for name in changed if isinstance(size := half.problem.get(name), int)}
        grown.resized.append(resized_counts(sizes, resized_steps))
        if half.name and not earlier and (ratio := growth_between(resized_steps, steps)) is not None:
            blocks = _blocks(task.launches) / _blocks(half.launches)
            log_ratio = math.log(half.ratio)
            grown.whole[half.name] = math.log(ratio) / log_ratio
            grown.of_block[half.name] = math.log(ratio / blocks) / log_ratio
    return grown


_ENLARGED: Final = 4_000_000
"""Limit on the cost (`_cost`) of an enlarged problem, which takes a few seconds."""


def _cost(counts: ExecutedCounts) -> int:
    """Return warp instructions; a matrix instruction counts as 200, since it takes 0.2 ms including its fragments."""
    return counts.warps + 200 * counts.warps_by_class.get(InstructionClass.MMA, 0)


def _at_size(task: EmulationTask, half: HalvedSize, ptx: str, launches: int) -> tuple[EmulatedStep, ...] | None:
    """Execute the problem at another size; return None if the kernel does not support it."""
    resized = replace(task, launches=half.launches, problem=half.problem, halved=(), samples=())
    with contextlib.suppress(LabError):  # a kernel need not support every size
        computed = operator(task.operator)
        inputs = computed.inputs(computed.restored(half.problem), task.seed)
        memory = DeviceMemory(inputs, half.launches)
        results = run_sequence(ptx, half.launches, memory, LaunchMode(whole=task.whole, excused=task.excused))
        if not unexcused(results[-1], task.excused) and len(results) == launches:
            return _steps(resized, results)
    return None


def _blocks(launches: Launches) -> int:
    return sum(math.prod(step.grid) for step in launches.steps)


def growth_between(smaller: Sequence[EmulatedStep], larger: Sequence[EmulatedStep]) -> float | None:
    """Return the ratio of executed thread instructions, larger to smaller problem; None if one executes none.

    Instructions in loops are compared if both problems execute some, else all.
    """
    for figure in ("looped", "executed"):
        counts = [
            sum(counted.threads for step in steps if (counted := getattr(step, figure)) is not None)
            for steps in (smaller, larger)
        ]
        if all(counts):
            return float(counts[1] / counts[0])
    return None


def _is_of_file(error: UserError) -> bool:
    """Return whether an error is in the arguments and references of a plain kernel's file."""
    return (error.key or "").split(".")[0] == "reference" or bool(re.match(r"(arguments|constants)\.", error.key or ""))


def _turns(launches: Launches, fewer: Launches) -> str:
    """Return a note that the fault shows only if resident blocks iterate over several tiles."""
    blocks, all_blocks = (sum(math.prod(step.grid) for step in sequence.steps) for sequence in (fewer, launches))
    return (
        f"the fault shows only when blocks process several tiles, as at the real size: in a launch of {blocks} blocks,"
        f" of a GPU that holds no more; {all_blocks} blocks are without it"
    )


def _hinted(finding: Finding, hint: str) -> Finding:
    return replace(finding, detail=finding.detail + hint) if finding.kind == "never-written" else finding


def _uncovered(launches: Launches, outputs: Mapping[str, Array]) -> str:
    """Return a hint if a launch has fewer threads than its largest output has elements; else an empty text."""
    if len(launches.steps) != 1:
        return ""
    threads = math.prod(launches.steps[0].grid) * math.prod(launches.steps[0].block)
    elements = max((array.size for array in outputs.values()), default=0)
    if threads >= elements:
        return ""
    return f"; the launch has {threads} threads for {elements} elements: does the grid cover them?"


def _reference(
    task: EmulationTask,
    computed: Operator[Any],
    problem: Any,  # noqa: ANN401 - each operator has its own
    inputs: Inputs,
    *,
    memory: DeviceMemory,
    ptx: str,
    faulty: bool,
) -> tuple[Mapping[str, Expected], tuple[str, ...]]:
    """Return the expected outputs, and the limits of this reference.

    They come from the operator, or from another variant on the same inputs. A faulty variant, or that other variant
    itself, is compared with its own outputs.
    """
    if task.reference is None:
        return computed.reference(problem, inputs), ()
    own_outputs = computed.as_expected(problem, memory.outputs)
    if faulty:
        return own_outputs, ()
    if task.reference.is_of(task, ptx):
        return own_outputs, (_NO_REFERENCE,)
    try:
        stand_in = _Hashed(task.reference)
        outputs = _outputs(
            task.operator, task.reference.ptx, task.seed, stand_in, real_size=task.whole, excused=task.excused
        )
    except LabError as error:
        return own_outputs, (
            f"no reference is given, and the first variant cannot stand in: {' '.join(str(error).split())}",
        )
    try:
        first = computed.restored(task.reference.problem)
        return computed.as_expected(problem, outputs, first), (_NO_REFERENCE,)
    except StandInMismatchError as error:
        return own_outputs, (f"no reference is given, and {error.message}",)


_NO_REFERENCE: Final = "no reference is given: the outputs were only compared with those of the first variant"


@dataclass(frozen=True, eq=False)
class _Hashed:
    """A reference as a cache key, compared by content."""

    launch: ReferenceLaunch

    def __hash__(self) -> int:
        return hash(repr(self.launch.launches))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.launch == other.launch


@lru_cache(maxsize=4)
def _outputs(
    reference: str, ptx: str, seed: int, key: _Hashed, *, real_size: bool, excused: frozenset[FindingKind]
) -> Mapping[str, Array]:
    """Return the outputs of a variant; cached, since a worker compares many variants with one."""
    computed, reference_launch = operator(reference), key.launch
    memory = DeviceMemory(computed.inputs(computed.restored(reference_launch.problem), seed), reference_launch.launches)
    if unexcused(
        run_sequence(ptx, reference_launch.launches, memory, LaunchMode(whole=real_size, excused=excused))[-1], excused
    ):
        raise UserError("it has faults of its own", code="user-code")
    return memory.outputs


def alike(lines: Iterable[LineCount]) -> tuple[ExecutedLines, ...]:
    """Group lines of one class with equal counts, in the order of their first lines."""
    groups: dict[tuple[object, ...], tuple[list[int], LineCount]] = {}
    for line in lines:
        key = (line.cls, line.warps, line.threads, *line.memory.items())
        groups.setdefault(key, ([], line))[0].append(line.line)
    return tuple(
        ExecutedLines(tuple(numbers), line.cls, line.warps, line.threads, line.memory)
        for numbers, line in groups.values()
    )


def _interpreted(results: Sequence[Emulation], *, real_size: bool) -> tuple[str, ...]:
    """Return notes on the parts of a real-size execution that were interpreted."""
    if not real_size:
        return ()
    reasons = dict.fromkeys(
        f"the interpreter executed {result.kernel}: {result.not_compiled}" for result in results if result.not_compiled
    )
    return tuple(reasons)


def _left_out(findings: int) -> tuple[str, ...]:
    if findings <= _MOST_FINDINGS:
        return ()
    return (f"{findings} findings; the first {_MOST_FINDINGS} are kept",)


def _excuses(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a sentence per kind of finding that the compiler causes."""
    for kind in dict.fromkeys(finding.kind for finding in findings):
        group = [finding for finding in findings if finding.kind == kind]
        lines = f"PTX line {group[0].line}" + (f" and {len(group) - 1} more" if len(group) > 1 else "")
        yield (
            f"{kind} at {lines}: {group[0].detail}. It comes from the compiler: the variant is judged by its "
            "results alone"
        )


def unsupported(task: EmulationTask, reason: str) -> EmulationRecord:
    """Return the record of a variant the emulator does not support, with the reason."""
    return EmulationRecord(task.problem, _steps(task, []), unsupported=reason)


def not_executed(task: EmulationTask, reason: str) -> EmulationRecord:
    """Return the record of a variant whose execution failed, with the reason."""
    return EmulationRecord(task.problem, _steps(task, []), failure=reason)


def _steps(task: EmulationTask, results: list[Emulation]) -> tuple[EmulatedStep, ...]:
    """Return every launch with its counts; launches not reached have none."""
    steps = [
        EmulatedStep(
            step.entry,
            LaunchRecord(step.grid, step.block, step.dynamic_shared_bytes, step.carveout, cluster=step.cluster),
        )
        for step in task.launches.steps
    ]
    for i, result in enumerate(results):
        label = hottest(result.loops, task.hot_loops.get(result.kernel, ""), real_size=task.whole)
        hot = next((loop.counts for loop in result.loops if loop.label == label), None)
        outermost = [loop.counts for loop in result.loops if loop.depth == 1]
        looped = replace(reduce(add, outermost), warps_by_opcode={}, threads_by_opcode={}) if outermost else None
        steps[i] = replace(
            steps[i],
            executed=result.counts,
            hot_loop=hot,
            looped=looped,
            hot_label=label,
            reuse=result.reuse,
            fetched_by_map=result.fetched_by_map,
            loops={loop.label: loop.counts.threads for loop in result.loops},
        )
    return tuple(steps)


def hottest(loops: Sequence[LoopCounts], static: str, *, real_size: bool = False) -> str:
    """Return the label of the hot loop, by the instructions executed in each loop without nested loops.

    A matrix instruction counts as its tensor core cycles.

    A small problem exaggerates prologues and epilogues, so the static hot loop is replaced only by one that executes
    at least `_CLEARLY` times as much. It also has few steps along k: at a reduced size, a loop with matrix instructions
    is replaced only by another loop with matrix instructions.

    Args:
        loops: In the order of `lab.isa.loops.natural_loops`: each before the loops inside it.
        static: Label of the static hot loop; empty without loops.
        real_size: The problem has its real size.

    Returns:
        Its label; `static` if no other loop executes clearly more.
    """
    own_cycles: dict[str, float] = {}
    matrices: dict[str, int] = {}
    around: list[LoopCounts] = []
    for loop in loops:
        while around and around[-1].depth >= loop.depth:
            around.pop()
        multiplied = loop.counts.warps_by_class.get(InstructionClass.MMA, 0)
        if around:
            own_cycles[around[-1].label] -= _cycles(loop.counts)
            matrices[around[-1].label] -= multiplied
        own_cycles[loop.label], matrices[loop.label] = _cycles(loop.counts), multiplied
        around.append(loop)
    if not real_size and matrices.get(static):
        own_cycles = {label: cycles for label, cycles in own_cycles.items() if matrices[label]}
    heaviest = max(own_cycles, key=lambda label: own_cycles[label], default=static)
    return heaviest if own_cycles and own_cycles[heaviest] >= _CLEARLY * max(1, own_cycles.get(static, 0)) else static


_CLEARLY = 2


def _cycles(counts: ExecutedCounts) -> float:
    return counts.warps + sum(n * (pipe_cycles(opcode) - 1) for opcode, n in counts.warps_by_opcode.items())
