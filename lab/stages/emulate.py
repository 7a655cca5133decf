"""Execute one variant's PTX on the CPU at the experiment's `emulate` size. Runs in worker processes."""

from __future__ import annotations

import contextlib
import math
import re
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
from lab.stages.full_size import FullSizeOutcome, FullSizeTask, SizedLaunches, execute_full_size, resident_at_once
from lab.stages.memory import DeviceMemory
from lab.stages.sequence import LaunchMode, run_sequence, unexcused
from lab.templates.launches import Launches

_DECLARED: Final = frozenset[FindingKind](("undeclared-write",))
"""Faults of what a file declares, behind which there may be faults of the kernel."""

_MOST_FINDINGS = 20
"""Findings that a record keeps; one fault tends to show on many lines."""


@dataclass(frozen=True, slots=True)
class ReferenceLaunch:
    """A variant whose outputs others are compared with.

    Attributes:
        ptx: Its PTX.
        launches: Its launches at the emulated size.
        problem: The problem at the emulated size, with what the operator needs of this variant's parameters.
    """

    ptx: str
    launches: Launches
    problem: Mapping[str, Scalar]

    def is_of(self, task: EmulationTask, ptx: str) -> bool:
        """Return whether a task executes this very variant."""
        return ptx == self.ptx and task.launches == self.launches and task.problem == self.problem


@dataclass(frozen=True, slots=True)
class HalvedSize:
    """The emulated problem with one of its sizes halved, to see how what is executed grows with that size.

    Attributes:
        name: The size; empty where all sizes are changed at once.
        ratio: The emulated size over the halved one; less than 1 where it is enlarged.
        launches: Launches of the halved problem.
        problem: It, complete.
    """

    name: str
    ratio: float
    launches: Launches
    problem: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Sample:
    """A problem whose data fills blocks as that of the real one does, to count what is executed of it.

    Attributes:
        ratio: The product of its sizes over that of the emulated problem's.
        launches: Its launches.
        problem: It, complete.
        halved: The same with one size halved.
    """

    ratio: float
    launches: Launches
    problem: Mapping[str, Scalar]
    halved: tuple[HalvedSize, ...] = ()


@dataclass(frozen=True, slots=True)
class EmulationTask:
    """What the emulator is asked to do with one variant.

    Attributes:
        launches: Geometry, arguments and workspace for `problem`.
        operator: The operator, as the experiment names it.
        problem: The complete problem at the emulated size.
        seed: Seed of the inputs.
        hot_loops: Entry point to the label of the hot loop of its PTX; entry points without loops are absent.
        reference: Launches whose outputs stand in for a reference; None where the operator has one.
        whole: The problem is not made small: the compiled engine executes it, without trying the
            interpreter first.
        halved: Smaller problems that are executed for their counts alone.
        samples: Problems that say more of the real one, the least first: the largest that takes a moment only is
            executed for its counts.
        spares_samples: They are executed only where the throughput is not estimated without them.
        excused: Kinds of findings that are the compiler's own doing, whatever the source says: they become a note.
        others: The problem with other factors and leading dimensions.
        not_shown: What is not shown of a right variant, a sentence each.
        full_size: Blocks to execute at the problem's own size; None where none are.
        fewer: The launches of a GPU that holds fewer blocks, which therefore take several turns, as they do at the
            real size; None where the grid does not depend on the GPU.
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
    """Execute a variant, compare its outputs with the reference, and keep counts and findings.

    Where nothing is wrong, it is executed under other conditions, and at the problem's own size. Where the emulator
    cannot execute it, the record says why and has no counts.

    Raises:
        UserError: What an experiment file says of arguments or references does not come out right: no variant can be
            judged.
    """
    computed = operator(task.operator)
    problem = computed.restored(task.problem)
    inputs = computed.inputs(problem, task.seed)
    memory = DeviceMemory(inputs, task.launches)
    how = LaunchMode(whole=task.whole, trace=True, excused=task.excused)
    try:
        done = run_sequence(ptx, task.launches, memory, how)
        faulty = bool(unexcused(done[-1], task.excused))
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
    steps = _steps(task, done)
    counts = [step.executed for step in steps if step.executed is not None]
    hint = _uncovered(task.launches, memory.outputs)
    findings = tuple(_hinted(finding, hint) for one in done for finding in unexcused(one, task.excused))
    turns = ""
    if largest <= tolerance and not findings and task.fewer is not None and sum(one.warps for one in counts) < _MOMENT:
        few = DeviceMemory(inputs, task.fewer)
        findings = tuple(
            unexcused(run_sequence(ptx, task.fewer, few, LaunchMode(excused=task.excused))[-1], task.excused)
        )
        largest, tolerance, worst = computed.verify(problem, reference, few.outputs)
        turns = _turns(task.launches, task.fewer) if findings or largest > tolerance else ""
    right = largest <= tolerance and all(one.kind in _DECLARED for one in findings)
    how = replace(how, excused=task.excused | _DECLARED)
    lenient = replace(task, excused=how.excused)
    sample, suspicions = _sampled(lenient, ptx, counts) if right else (None, ())
    grown = _growth(lenient, ptx, steps) if right and sample is None and _is_quick(counts) else _Grown()
    doubts = (*computed.doubts(problem, inputs, memory.outputs), *unknown, *task.not_shown) if right else ()
    outcome = FullSizeOutcome()
    if right:
        warps = sum(one.warps for one in counts)
        judged = Judged(ptx, task.launches, computed, problem, reference, how, memory, warps, task.seed)
        under, untried = other_conditions(judged)
        if task.reference is None and not under and judged.warps <= _MOMENT:
            under = tuple(filter(None, [other_inputs(judged, task.seed, task.others)]))
        suspicions, doubts = (*under, *suspicions), (*doubts, *untried)
        if task.full_size is not None and not suspicions:
            expected = _block_warps(task, task.full_size, computed, judged.warps)
            larger = replace(task.full_size, block_warps=expected, excused=how.excused)
            if any(one.waits_for_blocks is BlockWait.ANY for one in done):
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
        steps=sum(one.steps for one in done),
        notes=(
            *dict.fromkeys(note for one in done for note in one.notes),
            *_interpreted(done, whole=task.whole),
            *_left_out(len(findings)),
            *_excuses([finding for one in done for finding in one.findings if finding.kind in task.excused]),
            *filter(None, [turns]),
        ),
        lines=alike(line for one in done for line in one.lines),
        bytes_needed=computed.bytes_moved(problem),
        flops=computed.flops(problem),
        growth=grown.whole,
        growth_of_block=grown.of_block,
        sample=sample,
        resized=tuple(grown.resized),
        suspicions=(*suspicions, *outcome.suspicions)[:_MOST_FINDINGS],
        not_shown=(*doubts, *outcome.not_shown),
        full_size=outcome.record,
        patterns=costly(pattern for one in done for pattern in one.patterns),
    )


def costly(patterns: Iterable[AccessPattern]) -> tuple[AccessPattern, ...]:
    """Return the accesses that cost more than they need, those with the largest share of waste first."""
    wasting = [one for one in patterns if one.cost > one.ideal]
    wasting.sort(key=lambda one: (one.ideal - one.cost) / one.requests)
    return tuple(wasting[:_MOST_PATTERNS])


_MOST_PATTERNS: Final = 64
"""Accesses whose addresses a record keeps: more than the page of a variant can show."""


def _block_warps(task: EmulationTask, larger: FullSizeTask, computed: Operator[Any], warps: int) -> float:
    """Return the warp instructions that a block is expected to execute at the problem's own size, in the mean.

    They are taken to grow with the operations of the problem or, where it has none, with its bytes.
    """
    small, full = computed.restored(task.problem), computed.restored(larger.full.problem)
    work = computed.flops(small) or computed.bytes_moved(small)
    growth = (computed.flops(full) or computed.bytes_moved(full)) / max(1, work)
    return warps * growth / _blocks(larger.full.launches)


def _sampled(
    task: EmulationTask, ptx: str, counts: Sequence[ExecutedCounts]
) -> tuple[SampleRecord | None, tuple[Suspicion, ...]]:
    """Execute samples, from the least on, while they take a moment only, and keep the counts of the last.

    How the work grew from the last one to this one says whether the next will take too long; at first it is taken to
    grow with the size. Their outputs are compared with nothing. A fault would spoil the counts.

    Returns:
        What was counted, if a sample was short enough and the kernel bears it; and the faults that it shows.
    """
    warps, ratio, power, last = sum(one.warps for one in counts), 1.0, 1.0, None
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
    needed, flops = computed.bytes_moved(problem), computed.flops(problem)
    grown = _growth(larger, ptx, steps)
    found = SampleRecord(
        sample.problem, steps, needed, flops, grown.whole, grown.of_block, resized=tuple(grown.resized)
    )
    return found, ()


def _of_sample(task: EmulationTask, sample: Sample, ptx: str) -> tuple[tuple[EmulatedStep, ...], tuple[Suspicion, ...]]:
    """Execute a sample; without steps where it is too large or the kernel is at fault, with the faults."""
    larger = replace(task, launches=sample.launches, problem=sample.problem, halved=sample.halved, samples=())
    try:
        computed = operator(task.operator)
        problem = computed.restored(sample.problem)
        if computed.bytes_moved(problem) > _MOST_BYTES:
            return (), ()
        memory = DeviceMemory(computed.inputs(problem, task.seed), sample.launches)
        done = run_sequence(ptx, sample.launches, memory, LaunchMode(trace=True, excused=task.excused))
    except LabError:  # a kernel need not bear every size
        return (), ()
    if wrong := unexcused(done[-1], task.excused):
        sizes = ", ".join(f"{name} = {size}" for name, size in sample.problem.items() if size != task.problem.get(name))
        return (), tuple(Suspicion(Condition.LARGER, f"with {sizes}", finding) for finding in wrong)
    return _steps(larger, done), ()


_MOMENT: Final = 750_000
"""Warp instructions that the interpreter executes in some tenths of a second."""

_MOST_BYTES: Final = 64 << 20
"""Least bytes of a sample whose inputs are made in a moment."""


def _is_quick(counts: Sequence[ExecutedCounts]) -> bool:
    """Whether executing as much again takes a moment only."""
    return sum(one.warps for one in counts) < _QUICK


_QUICK = 20_000_000


@dataclass(frozen=True, slots=True)
class _Grown:
    """How what is executed grows with each size, as `EmulationRecord` has it."""

    whole: dict[str, float] = field(default_factory=dict)
    of_block: dict[str, float] = field(default_factory=dict)
    resized: list[ResizedCounts] = field(default_factory=list)


def _growth(task: EmulationTask, ptx: str, steps: Sequence[EmulatedStep]) -> _Grown:
    """Execute the problem at other sizes, as many of each as say how what is executed grows with it.

    Two sizes give a power, as of the first that can be executed. What each block does once would shift it in a small
    problem, so that what is executed in loops is compared, where both sizes execute loops. Three sizes or four tell
    a power from a sum of powers (`lab.predict.count_curves`). Sizes of which no other can be executed are absent.
    """
    grown = _Grown()
    cost = sum(map(_cost, (step.executed for step in steps if step.executed is not None)))
    for half in task.halved:
        changed = [half.name] if half.name else list(dict.fromkeys(one.name for one in task.halved if one.name))
        known = [one for one in grown.resized if list(one.sizes) == changed]
        if known and (not half.name or not is_open(half.name, task.problem, steps, known)):
            continue
        if (known or not half.name) and cost * half.ratio ** -max(1.0, grown.whole.get(half.name, 1.0)) > _ENLARGED:
            continue
        found = _at_size(task, half, ptx, len(steps))
        if found is None:
            continue
        sizes = {name: size for name in changed if isinstance(size := half.problem.get(name), int)}
        grown.resized.append(resized_counts(sizes, found))
        if half.name and not known and (ratio := growth_between(found, steps)) is not None:
            blocks = _blocks(task.launches) / _blocks(half.launches)
            each = math.log(half.ratio)
            grown.whole[half.name] = math.log(ratio) / each
            grown.of_block[half.name] = math.log(ratio / blocks) / each
    return grown


_ENLARGED: Final = 4_000_000
"""Cost of an enlarged problem that is executed in some seconds, as `_cost` has it."""


def _cost(done: ExecutedCounts) -> int:
    """Warp instructions, of which one of matrices takes as long as hundreds of others: 0.2 ms, fragments included."""
    return done.warps + 200 * done.warps_by_class.get(InstructionClass.MMA, 0)


def _at_size(task: EmulationTask, half: HalvedSize, ptx: str, launches: int) -> tuple[EmulatedStep, ...] | None:
    """Execute the problem at another size; None where the kernel does not bear it."""
    other = replace(task, launches=half.launches, problem=half.problem, halved=(), samples=())
    with contextlib.suppress(LabError):  # a kernel need not bear every size
        computed = operator(task.operator)
        inputs = computed.inputs(computed.restored(half.problem), task.seed)
        memory = DeviceMemory(inputs, half.launches)
        done = run_sequence(ptx, half.launches, memory, LaunchMode(whole=task.whole, excused=task.excused))
        if not unexcused(done[-1], task.excused) and len(done) == launches:
            return _steps(other, done)
    return None


def _blocks(launches: Launches) -> int:
    return sum(math.prod(step.grid) for step in launches.steps)


def growth_between(smaller: Sequence[EmulatedStep], larger: Sequence[EmulatedStep]) -> float | None:
    """Return how many times as many instructions of threads the larger problem executes; None where one executes none.

    Instructions in loops are compared where both problems execute some, else all.
    """
    for figure in ("looped", "executed"):
        counts = [
            sum(one.threads for step in steps if (one := getattr(step, figure)) is not None)
            for steps in (smaller, larger)
        ]
        if all(counts):
            return float(counts[1] / counts[0])
    return None


def _is_of_file(error: UserError) -> bool:
    """Whether a mistake stands in what a plain kernel's file says of its arguments and references."""
    return (error.key or "").split(".")[0] == "reference" or bool(re.match(r"(arguments|constants)\.", error.key or ""))


def _turns(launches: Launches, fewer: Launches) -> str:
    """Say that what is wrong shows where resident blocks go round their loops."""
    few, many = (sum(math.prod(step.grid) for step in one.steps) for one in (fewer, launches))
    return (
        f"what is wrong shows where each block takes several turns, as at the real size: in a launch of {few} blocks,"
        f" of a GPU that holds no more; {many} blocks are without it"
    )


def _hinted(finding: Finding, hint: str) -> Finding:
    return replace(finding, detail=finding.detail + hint) if finding.kind == "never-written" else finding


def _uncovered(launches: Launches, outputs: Mapping[str, Array]) -> str:
    """Say that a launch has fewer threads than its largest output has elements; empty where it has enough."""
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
    """The expected outputs, and what is not known of them.

    The operator says it, or what another variant makes of the same inputs. A variant that is faulty anyway, or is that
    other one, is compared with itself.
    """
    if task.reference is None:
        return computed.reference(problem, inputs), ()
    own = computed.as_expected(problem, memory.outputs)
    if faulty:
        return own, ()
    if task.reference.is_of(task, ptx):
        return own, (_NO_REFERENCE,)
    try:
        given = _Hashed(task.reference)
        outputs = _outputs(task.operator, task.reference.ptx, task.seed, given, whole=task.whole, excused=task.excused)
    except LabError as error:
        return own, (
            f"no reference is given, and the first variant stands in for none: {' '.join(str(error).split())}",
        )
    try:
        return computed.as_expected(problem, outputs), (_NO_REFERENCE,)
    except StandInMismatchError as error:
        return own, (f"no reference is given, and {error.message}",)


_NO_REFERENCE: Final = "no reference is given: the outputs were only compared with those of the first variant"


@dataclass(frozen=True, eq=False)
class _Hashed:
    """A reference as a key of a cache: by its content."""

    launch: ReferenceLaunch

    def __hash__(self) -> int:
        return hash(repr(self.launch.launches))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.launch == other.launch


@lru_cache(maxsize=4)
def _outputs(
    reference: str, ptx: str, seed: int, key: _Hashed, *, whole: bool, excused: frozenset[FindingKind]
) -> Mapping[str, Array]:
    """Outputs of a variant; cached, since a worker compares many variants with one."""
    computed, given = operator(reference), key.launch
    memory = DeviceMemory(computed.inputs(computed.restored(given.problem), seed), given.launches)
    if unexcused(run_sequence(ptx, given.launches, memory, LaunchMode(whole=whole, excused=excused))[-1], excused):
        raise UserError("it has faults of its own")
    return memory.outputs


def alike(lines: Iterable[LineCount]) -> tuple[ExecutedLines, ...]:
    """Group lines of one class that have the same counts, in the order of their first lines."""
    found: dict[tuple[object, ...], tuple[list[int], LineCount]] = {}
    for line in lines:
        key = (line.cls, line.warps, line.threads, *line.memory.items())
        found.setdefault(key, ([], line))[0].append(line.line)
    return tuple(
        ExecutedLines(tuple(numbers), line.cls, line.warps, line.threads, line.memory)
        for numbers, line in found.values()
    )


def _interpreted(done: Sequence[Emulation], *, whole: bool) -> tuple[str, ...]:
    """Say where an execution of the whole problem was not compiled."""
    if not whole:
        return ()
    reasons = dict.fromkeys(
        f"the interpreter executed {one.kernel}: {one.not_compiled}" for one in done if one.not_compiled
    )
    return tuple(reasons)


def _left_out(findings: int) -> tuple[str, ...]:
    if findings <= _MOST_FINDINGS:
        return ()
    return (f"{findings} findings; the first {_MOST_FINDINGS} are kept",)


def _excuses(findings: Sequence[Finding]) -> Iterator[str]:
    """Say what was found that no change of the source can put right, a sentence for each kind."""
    for kind in dict.fromkeys(finding.kind for finding in findings):
        own = [finding for finding in findings if finding.kind == kind]
        lines = f"PTX line {own[0].line}" + (f" and {len(own) - 1} more" if len(own) > 1 else "")
        yield (
            f"{kind} at {lines}: {own[0].detail}. The compiler wrote it, not the source: the variant is judged by its "
            "results alone"
        )


def unsupported(task: EmulationTask, reason: str) -> EmulationRecord:
    """The record of a variant that the emulator cannot execute, with the reason."""
    return EmulationRecord(task.problem, _steps(task, []), unsupported=reason)


def not_executed(task: EmulationTask, reason: str) -> EmulationRecord:
    """The record of a variant whose execution failed, with the reason."""
    return EmulationRecord(task.problem, _steps(task, []), failure=reason)


def _steps(task: EmulationTask, done: list[Emulation]) -> tuple[EmulatedStep, ...]:
    """Every launch with its counts; launches that were not reached have none."""
    steps = [
        EmulatedStep(
            step.entry,
            LaunchRecord(step.grid, step.block, step.dynamic_shared_bytes, step.carveout, cluster=step.cluster),
        )
        for step in task.launches.steps
    ]
    for i, one in enumerate(done):
        label = hottest(one.loops, task.hot_loops.get(one.kernel, ""), whole=task.whole)
        hot = next((loop.counts for loop in one.loops if loop.label == label), None)
        outermost = [loop.counts for loop in one.loops if loop.depth == 1]
        looped = replace(reduce(add, outermost), warps_by_opcode={}, threads_by_opcode={}) if outermost else None
        steps[i] = replace(
            steps[i],
            executed=one.counts,
            hot_loop=hot,
            looped=looped,
            hot_label=label,
            reuse=one.reuse,
            fetched_by_map=one.fetched_by_map,
            loops={loop.label: loop.counts.threads for loop in one.loops},
        )
    return tuple(steps)


def hottest(loops: Sequence[LoopCounts], static: str, *, whole: bool = False) -> str:
    """Choose the hot loop by the instructions executed in each loop, but in no loop inside it.

    A matrix instruction counts as often as it takes cycles of the tensor cores.

    A small problem exaggerates what a block does once, so the hot loop of the text is replaced only by one that
    executes at least `_CLEARLY` times as much. It has few steps along k, too: a loop that executes matrix instructions
    is replaced only by another one that does, unless the problem is not made small.

    Args:
        loops: In the order of `lab.isa.loops.natural_loops`: each before the loops inside it.
        static: Label of the hot loop of the text; empty without loops.
        whole: The problem is the real one.

    Returns:
        Its label; `static` where nothing executes clearly more.
    """
    own: dict[str, float] = {}
    matrices: dict[str, int] = {}
    around: list[LoopCounts] = []
    for loop in loops:
        while around and around[-1].depth >= loop.depth:
            around.pop()
        multiplied = loop.counts.warps_by_class.get(InstructionClass.MMA, 0)
        if around:
            own[around[-1].label] -= _cycles(loop.counts)
            matrices[around[-1].label] -= multiplied
        own[loop.label], matrices[loop.label] = _cycles(loop.counts), multiplied
        around.append(loop)
    if not whole and matrices.get(static):
        own = {label: cycles for label, cycles in own.items() if matrices[label]}
    most = max(own, key=lambda label: own[label], default=static)
    return most if own and own[most] >= _CLEARLY * max(1, own.get(static, 0)) else static


_CLEARLY = 2


def _cycles(counts: ExecutedCounts) -> float:
    return counts.warps + sum(n * (pipe_cycles(opcode) - 1) for opcode, n in counts.warps_by_opcode.items())
