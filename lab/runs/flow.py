"""What follows for one variant: build, execute on the CPU, measure, record.

These are functions from frozen values to frozen values. They start nothing: `lab.runs.sweep` carries out what they
decide.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from lab.base.errors import ClusterError, UserError
from lab.base.executor import WorkerLostError
from lab.base.expressions import Scalar
from lab.base.machine import fault_of
from lab.base.structures import is_structure, members_of
from lab.emulator.results import FindingKind
from lab.experiment.model import Experiment
from lab.experiment.space import Point
from lab.experiment.variants import Planned
from lab.gpu.process.cards import Ran
from lab.gpu.process.job import Job, Policy
from lab.gpu.timing.cache import Flush
from lab.hardware.gpus import runs_on
from lab.isa.model import InstructionClass
from lab.measured.timing import GpuDescription, Merit
from lab.operators.base import Operator, Problem
from lab.operators.builtin import suspect
from lab.operators.checked import OperatorFault
from lab.operators.declared.mapped import MappedView
from lab.operators.declared.operator import Declared
from lab.operators.declared.specification import Argument, Direction
from lab.operators.foreign import Described, ForeignOperator
from lab.predict.schedulers.estimate import Pace
from lab.recorded.run_records import EmulationRecord, VariantRecord
from lab.runs.reference import ReferenceVariant
from lab.runs.samples import aligned_as, congruent, filled, others, smaller_sizes
from lab.runs.schedule import LaneTask
from lab.stages import record as records
from lab.stages.build import BuildFailure, Built
from lab.stages.emulate import EmulationTask, HalvedSize, ReferenceLaunch, Sample, not_executed
from lab.stages.estimate import EstimateTask
from lab.stages.executed import execution
from lab.stages.full_size import FullSizeTask, SizedLaunches
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.instance import Instance
from lab.templates.launches import Launches
from lab.templates.plain.arguments import PassedStructure, arguments_error, matching_kernel
from lab.templates.plain.constants import constants_error
from lab.templates.plain.template import PlainTemplate
from lab.toolchain.symbols import constant_variables

EMULATION_TIMEOUT_S = 300.0
"""An emulation that takes longer is stopped; the variant goes on without it, and its row says so."""


@dataclass(frozen=True, slots=True)
class FlowContext:
    """What is the same for all variants of a run.

    Attributes:
        experiment: The experiment.
        gpu: The GPU that measures, or None.
        emulate: Execute variants on the CPU, where the experiment gives a size for it.
        reference: The variant whose outputs stand in for a reference that the experiment does not give.
        variants: How many variants the run has.
    """

    experiment: Experiment
    gpu: GpuDescription | None
    emulate: bool
    reference: ReferenceVariant | None = None
    variants: int = 1


@dataclass(frozen=True, slots=True)
class InspectedVariant:
    """A variant that was built, or could not be.

    Attributes:
        planned: What was built.
        record: Its record so far.
        ptx: Its PTX; empty after a failure, and once it is no longer needed.
        cubin: Its machine code; empty after a failure.
        model: What the estimate of its throughput needs; None where there is no estimate.
    """

    planned: Planned
    record: VariantRecord
    ptx: str
    cubin: bytes
    model: EstimateTask | None

    @property
    def position(self) -> int:
        """Place in the run."""
        return self.planned.position


class NextStep(Enum):
    """What follows for a variant."""

    EMULATE = "emulate"
    MEASURE = "measure"
    RECORD = "record"


def inspect(
    context: FlowContext, planned: Planned, outcome: Built | BuildFailure, searched: int | None
) -> InspectedVariant:
    """A variant after its build.

    Args:
        context: The run.
        planned: The variant.
        outcome: Its build.
        searched: Round of a search; None in a run of the whole space.
    """
    if isinstance(outcome, Built):
        planned = records.built(context.experiment, planned, outcome.build, context.gpu)
    elif isinstance(planned.point.kernel.template, PlainTemplate):
        outcome = replace(outcome, reason=outcome.reason + _undefined(outcome.reason))
    record = records.inspected(context.experiment, planned, outcome, context.gpu, searched)
    model = records.estimate_task(context.experiment, planned, record, outcome, context.gpu)
    if isinstance(outcome, BuildFailure):
        return InspectedVariant(planned, record, "", b"", model)
    return InspectedVariant(planned, record, outcome.build.ptx, outcome.build.cubin, model)


def _undefined(reason: str) -> str:
    """Say what to do about a name that a plain source leaves to whoever compiles it."""
    match = re.search(r'identifier "(?!cu(?:da)?[A-Z]|__)(\w+)" is undefined', reason)  # those are CUDA's
    return f"; if it is a macro, give it a value: parameters: {{{match[1]}: …}}" if match else ""


def argument_mistake(
    context: FlowContext, variant: InspectedVariant, outcome: Built | BuildFailure
) -> UserError | None:
    """Compare what a plain kernel takes with what its file declares: a difference is a mistake in the file."""
    template, computed = variant.planned.point.kernel.template, context.experiment.operator
    if isinstance(outcome, BuildFailure) or not isinstance(template, PlainTemplate):
        return None
    point, own = variant.planned.point, variant.planned.instance.own_launches
    if isinstance(computed, Declared):
        declared = dict(computed.typed({**point.problem.values, **point.parameters}).declaration.argument)
    else:
        declared = dict(_bound(template, own))
    if len(variant.planned.launches.steps) > 1:  # what one kernel writes, another may only read
        declared = {name: replace(one, direction=Direction.IN) for name, one in declared.items()}
    for given, step in zip(own.steps, variant.planned.launched.steps, strict=True):
        entry = outcome.signatures[step.entry]
        entry = entry[: len(entry) - len(variant.planned.known.hidden)]
        mistake = arguments_error(
            entry,
            matching_kernel(template.kernels_named(given.entry), entry),
            [_passed(name, kind, declared) for name, kind in variant.planned.known.passed(given.arguments)],
            name=given.entry,
            at=template.document.at("arguments"),
            by_name=template.declares.launches is None,
        )
        if mistake is not None:
            return mistake if isinstance(computed, Declared) else _beside(context.experiment, point, mistake)
    return None


def _beside(experiment: Experiment, point: Point, mistake: UserError) -> UserError:
    """The same mistake with its place among the kernels of an experiment with an operator."""
    place = [kernel.name for kernel in experiment.kernels].index(point.kernel.name)
    if len(experiment.problems) > 1:
        mistake.suggestion = f"constraints say for which problems a kernel is; this one is {point.problem.label}"
    return mistake.below(f"kernels[{place}]")


def _bound(template: PlainTemplate, launches: Launches) -> Iterator[tuple[str, Argument]]:
    """Everything that kernels beside those of an operator get, by their own names of it."""
    written = {one.name for one in template.bound if one.is_written} | {one.name for one in launches.workspace}
    for name, kind in (argument for step in launches.steps for argument in step.arguments):
        for member, type_ in members_of(kind) if is_structure(kind) else ((name, kind),):
            direction = Direction.OUT if member in written else Direction.IN
            if type_ == TENSOR_MAP:  # whose array and box are checked where it is declared
                yield member, Argument(member, "uint8", direction, (), view=MappedView(()))
                continue
            yield member, Argument(member, type_.removesuffix("*"), direction, () if type_.endswith("*") else None)


def _passed(name: str, kind: str, declared: Mapping[str, Argument]) -> Argument | PassedStructure:
    if not is_structure(kind):
        return declared[name]
    return PassedStructure(name, tuple(declared[member] for member, _ in members_of(kind)))


def constant_mistake(
    context: FlowContext, variant: InspectedVariant, outcome: Built | BuildFailure
) -> UserError | None:
    """Compare what the file puts into constant memory with the variables that are there."""
    template, computed, point = (
        variant.planned.point.kernel.template,
        context.experiment.operator,
        variant.planned.point,
    )
    if isinstance(outcome, BuildFailure) or not isinstance(template, PlainTemplate) or not template.constant_memory:
        return None
    assert isinstance(computed, Declared)  # noqa: S101 - plain templates have no other operator
    problem = context.experiment.operator.for_parameters(point.problem.values, point.parameters)
    sizes = computed.constant_bytes(computed.restored(problem))
    return constants_error(template, constant_variables(outcome.build.ptx), sizes)


def step_after_build(context: FlowContext, variant: InspectedVariant, *, spared: bool) -> NextStep:
    """What follows a build; `spared` variants are not executed on the CPU."""
    if variant.record.status.failed:
        return NextStep.RECORD
    wanted = context.emulate and variant.planned.point.problem.emulate is not None and not spared
    return NextStep.EMULATE if wanted else step_before_measurement(context, variant)


def step_before_measurement(context: FlowContext, variant: InspectedVariant) -> NextStep:
    """What follows when the CPU has nothing more to do: the GPU, where it can run the variant's machine code."""
    if variant.record.status.failed or context.gpu is None or not _runs_here(context.gpu, variant):
        return NextStep.RECORD
    return NextStep.MEASURE


def reason_not_measured(context: FlowContext, variant: InspectedVariant) -> str:
    """A sentence for the report where the GPU cannot run a variant's machine code; else empty."""
    if variant.record.status.failed or context.gpu is None or _runs_here(context.gpu, variant):
        return ""
    return f"Variants for {variant.planned.request.arch} were not measured: the GPU is {context.gpu.arch}."


def _runs_here(gpu: GpuDescription, variant: InspectedVariant) -> bool:
    return runs_on(variant.planned.request.arch, gpu.arch)


def emulation_task(context: FlowContext, variant: InspectedVariant) -> EmulationTask:
    """What the emulator is asked to do with a variant whose next step is `NextStep.EMULATE`."""
    point, computed = variant.planned.point, context.experiment.operator
    given = point.problem.emulate
    small: Mapping[str, Scalar] = computed.for_parameters(given, point.parameters) if given is not None else {}
    launches = Instance(point.kernel.template, point.parameters, small).launches
    return EmulationTask(
        launches=launches.built(variant.planned.known),
        operator=context.experiment.operator_reference,
        problem=dict(small),
        seed=context.experiment.seed,
        hot_loops={mix.name: mix.hot_loop.label for mix in variant.record.mixes("ptx") if mix.hot_loop},
        reference=_reference_launch(context, given) if given is not None else None,
        whole=point.problem.whole,
        halved=_halved(context, variant, given) if given is not None else (),
        samples=_samples(context, variant, given) if given is not None and not point.problem.whole else (),
        spares_samples=not isinstance(computed, Declared),
        excused=_OF_COMPILERS.get(variant.planned.toolchain.name, frozenset()),
        fewer=launches.built_for_fewer(variant.planned.known, _TURNS),
        others=_others(context, variant, given) if given is not None else (),
        not_shown=(_TOO_MANY,) if _is_small(context, variant, small) and not _has_time(context, variant) else (),
        full_size=_full_size(context, variant, given) if _is_small(context, variant, small) else None,
    )


_OTHERS_EVERY: Final = 8
"""One variant in so many is executed on other problems: the handling of factors is a property of the source."""


def _others(context: FlowContext, variant: InspectedVariant, given: Problem) -> tuple[SizedLaunches, ...]:
    """The emulated problem with other values of the neutral fields that the kernel takes as arguments."""
    computed, point = context.experiment.operator, variant.planned.point
    if not isinstance(computed, Operator) or variant.planned.position % _OTHERS_EVERY or not computed.has_reference:
        return ()
    if isinstance(computed, Declared):
        changes = computed.other_problems({**point.parameters, **given}, {**point.parameters, **point.problem.values})
        resized = (_resized(context, variant, given, one) for one in changes if set(one) <= set(given))
        return tuple(SizedLaunches(problem, launches) for launches, problem in filter(None, resized))
    other = computed.other_problem(given)
    if other is None:
        return ()
    taken = {name for step in variant.planned.launched.steps for name, _ in step.arguments}
    changed = {name: value for name, value in other.items() if name in taken and value != given.get(name)}
    made = _resized(context, variant, _own_fields(computed, given), changed) if changed else None
    return (SizedLaunches(made[1], made[0]),) if made is not None else ()


_WORK: Final = 360_000_000
"""Work of the interpreter at the problem's own size, for a variant: 2 s of a core."""

_WORK_OF_ALL: Final = 8 * _WORK
"""The same for all variants of a run, where they are many."""

_LEAST_WORK: Final = 30_000_000
"""The same for a variant, with less of which nothing is shown: of a run of more variants, evenly spread ones get it."""

_TOO_MANY: Final = "at the problem's own size, nothing was executed: the run has too many variants"


def _is_small(context: FlowContext, variant: InspectedVariant, small: Mapping[str, Scalar]) -> bool:
    """Return whether the emulated problem differs from the variant's own."""
    point = variant.planned.point
    if point.problem.emulate is None or point.problem.whole:
        return False
    return dict(context.experiment.operator.for_parameters(point.problem.values, point.parameters)) != dict(small)


def _has_time(context: FlowContext, variant: InspectedVariant) -> bool:
    """Return whether blocks of a variant are executed at the problem's own size."""
    return not variant.planned.position % max(1, -(-_LEAST_WORK * context.variants // _WORK_OF_ALL))


_BETWEEN: Final = (4, 16, 64, 256, 1024, 4096, 16384, 65536)
"""Ratios to the emulated sizes at which a fault of the full size is searched for."""


def _full_size(context: FlowContext, variant: InspectedVariant, given: Problem | None) -> FullSizeTask | None:
    """The execution of sampled blocks at the problem's own size; None where the run has too many variants."""
    point, computed = variant.planned.point, context.experiment.operator
    if given is None or not _has_time(context, variant):
        return None
    full = dict(computed.for_parameters(point.problem.values, point.parameters))
    own: Mapping[str, Scalar] = given
    sizes: Mapping[str, tuple[int, int]] = {}
    if not isinstance(computed, ForeignOperator):  # the worker that checks its problems has ended with the reading
        own = given if isinstance(computed, Declared) else _own_fields(computed, given)
        sizes = smaller_sizes(own, point.problem.values)
    between: dict[str, SizedLaunches] = {}
    for factor in _BETWEEN:
        larger = {name: congruent(real, size, factor) for name, (size, real) in sizes.items()}
        if larger and any(larger[name] < real for name, (_, real) in sizes.items()):
            made = _resized(context, variant, own, larger)
            between |= {repr(larger): SizedLaunches(made[1], made[0])} if made is not None else {}
    return FullSizeTask(
        operator=context.experiment.operator_reference,
        seed=context.experiment.seed,
        full=SizedLaunches(full, variant.planned.launched),
        work=min(_WORK, max(_LEAST_WORK, _WORK_OF_ALL // context.variants)),
        between=tuple(between.values()),
        excused=_OF_COMPILERS.get(variant.planned.toolchain.name, frozenset()),
        resident=records.resident_blocks(context.experiment, variant.planned, variant.record, context.gpu),
        gpu=variant.record.prediction.gpu if variant.record.prediction is not None else "the GPU",
    )


_TURNS: Final = 3
"""How many turns resident blocks take in a small problem: the first one, one behind another and the last one."""


_OF_COMPILERS: Final[Mapping[str, frozenset[FindingKind]]] = {
    "triton": frozenset({"missing-proxy-fence", "wgmma-misuse"})
}
"""Kinds of findings, by toolchain, that a compiler is to blame for. Before 3.7, Triton leaves out the fence between
cp.async and the wgmma that reads what it copied (pull request 9610 of triton-lang/triton). It writes every wgmma and
its fences, too, and LLVM moves the arithmetic that makes an operand in registers behind the fence: to it, the fence is
inline assembly that does not name these registers."""


_HALVED_EVERY: Final = 8
"""How a kernel's work grows is a fact of the problem, hardly of the variant: so many share one look at it."""


def _halved(context: FlowContext, variant: InspectedVariant, given: Problem) -> tuple[HalvedSize, ...]:
    """The emulated problem with one size halved, for each size in which it is smaller than the problem itself.

    Behind each stand others of this size, in case that the kernel does not bear it, and to tell sums of powers from a
    power (`lab.runs.samples.others`). At the end all sizes are changed at once. They are only for kernels that declare
    no operations: for the others the operations say how their work grows.
    """
    computed = context.experiment.operator
    if not isinstance(computed, Declared) or computed.merit is Merit.TFLOPS or variant.planned.position % _HALVED_EVERY:
        return ()
    sizes = smaller_sizes(given, variant.planned.point.problem.values)
    resized = [(name, {name: other}) for name, (size, real) in sizes.items() for other in others(size, real)]
    if len(sizes) > 1:
        halves = {name: size // 2 for name, (size, _) in sizes.items()}
        doubles = {name: 2 * size for name, (size, real) in sizes.items() if 2 * size <= real}
        resized += [("", other) for other in (halves, doubles) if all(other.values()) and len(other) == len(sizes)]
    return tuple(
        HalvedSize(name, math.prod(sizes[one][0] / size for one, size in changed.items()), *made)
        for name, changed in resized
        if (made := _resized(context, variant, given, changed)) is not None
    )


_SAMPLES: Final = (1, 2, 4)
"""How many times as large as the emulated problem's the sizes of samples are at least, where they differ."""


def _own_fields(computed: Described, problem: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Leave out fields that the operator makes of others, as a leading dimension of the rows: they follow new sizes.

    Args:
        computed: The operator.
        problem: A complete problem.
    """
    kept = dict(problem)
    for name in problem:
        fewer = {key: value for key, value in kept.items() if key != name}
        with contextlib.suppress(UserError):
            if dict(computed.problem(fewer)) == dict(problem):
                kept = fewer
    return kept


def _multiplies(variant: InspectedVariant) -> bool:
    """Whether the PTX has matrix instructions."""
    return any(mix.counts.by_class.get(InstructionClass.MMA) for mix in variant.record.mixes("ptx"))


def _samples(context: FlowContext, variant: InspectedVariant, given: Problem) -> tuple[Sample, ...]:
    """Problems that fill blocks, tiles and warps as the real one does, the least first.

    An emulated problem has awkward sizes, to find faults. How its data fills blocks is then no measure of the real one.
    Of operators' kernels, those with matrix instructions have samples, since their tiles are large, and those with a
    model, for which they are executed where the model yields nothing. There are none of an operator of the user's own:
    the worker that checks its problems has ended with the reading.
    """
    computed = context.experiment.operator
    is_own = isinstance(computed, Declared)
    if isinstance(computed, ForeignOperator) or not (is_own or _multiplies(variant) or variant.model is not None):
        return ()
    own = given if is_own else _own_fields(computed, given)
    sizes = smaller_sizes(own, variant.planned.point.problem.values)
    # sizes of an operator's problems differ in their numbers alone, mostly, and have edges that matter little
    resize = congruent if is_own else filled
    found: list[Sample] = []
    for factor in _SAMPLES:
        larger = {name: resize(real, size, factor) for name, (size, real) in sizes.items()}
        ratio = math.prod(larger[name] / size for name, (size, _) in sizes.items())
        if any(one.ratio == ratio for one in found) or all(larger[name] == size for name, (size, _) in sizes.items()):
            continue
        apart = _apart(computed, {**own, **larger}, variant.planned.point.problem.values)
        if (made := _resized(context, variant, own, apart)) is not None:
            resized = computed.problem({**own, **apart})
            found.append(Sample(ratio, *made, halved=_halved(context, variant, resized)))
    return tuple(found)


def _apart(computed: Described, sizes: Mapping[str, Scalar], real: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Add the leading dimensions that the operator makes of sizes, for rows that begin as those of the real problem do.

    Where rows begin decides which entry point is launched, how many sectors they touch, and which banks they meet in.
    """
    found = dict(sizes)
    for name, value in real.items():
        if name.startswith(_LEADING) and name not in found and isinstance(value, int):
            least = computed.problem(found).get(name)
            if isinstance(least, int):
                found[name] = aligned_as(value, least)
    return found


_LEADING: Final = "ld"
"""How the names of leading dimensions begin, as in BLAS."""


def _resized(
    context: FlowContext, variant: InspectedVariant, given: Mapping[str, Scalar], sizes: Mapping[str, Scalar]
) -> tuple[Launches, Mapping[str, Scalar]] | None:
    """Launches and the complete problem of other sizes; None where shapes or the grid do not come out right."""
    point, computed = variant.planned.point, context.experiment.operator
    with contextlib.suppress(UserError):
        small = computed.for_parameters(computed.problem({**given, **sizes}), point.parameters)
        launches = Instance(point.kernel.template, point.parameters, small).launches
        return launches.built(variant.planned.known), dict(small)
    return None


def _reference_launch(context: FlowContext, given: Problem) -> ReferenceLaunch | None:
    """The launches whose outputs stand in for the reference of a problem."""
    if context.reference is None:
        return None
    point, known = context.reference.planned.point, context.reference.planned.known
    small = context.experiment.operator.for_parameters(given, point.parameters)
    launches = Instance(point.kernel.template, point.parameters, small).launches.built(known)
    return ReferenceLaunch(context.reference.ptx, launches, dict(small))


def emulation_work(variant: InspectedVariant, task: EmulationTask) -> LaneTask:
    """The same as work for a scheduler: equal PTX on equal emulated problems is executed once."""
    key = hashlib.sha256(f"{variant.ptx}\n{task!r}".encode()).hexdigest()
    return LaneTask(key, execution, (task, variant.ptx, variant.model), EMULATION_TIMEOUT_S)


def emulation_outcome(
    variant: InspectedVariant, task: EmulationTask, done: Future[Any]
) -> tuple[EmulationRecord, Pace | None]:
    """What an execution on the CPU found, or a record that says why there is nothing.

    Raises:
        UserError: What the file says of arguments or references does not come out right, whatever the variant.
        ClusterError: The cluster can be used no more.
    """
    try:
        found: tuple[EmulationRecord, Pace | None] = done.result()
    except TimeoutError:
        why = f"the emulation took longer than {EMULATION_TIMEOUT_S:.0f} s; a smaller `emulate` problem helps"
    except MemoryError:
        why = "the emulation needs more memory than its share; a smaller `emulate` problem helps"
    except WorkerLostError as error:
        why = f"the emulating process ended by itself: {error}{suspect(task.operator)}"
    except OperatorFault as error:
        why = str(error)
    except ClusterError:
        raise  # the variant has no part in it
    except UserError as error:
        document = variant.planned.point.kernel.template.document
        raise error.placed(document.at(*(error.key or "").split(".")), error.key) from None
    except Exception as error:  # noqa: BLE001 - a mistake of our own, which costs this variant alone
        mistake = f"lab itself failed to execute this variant: {type(error).__name__}: {' '.join(str(error).split())}"
        fault = fault_of(error)
        why = f"this machine cannot execute it: {fault}" if fault else mistake
    else:
        return found
    return not_executed(task, why), None


def judge(variant: InspectedVariant, found: tuple[EmulationRecord, Pace | None]) -> InspectedVariant:
    """A variant with what its execution on the CPU found."""
    return replace(variant, record=records.judged(variant.record, *found, variant.model))


def urgency(record: VariantRecord, *, searching: bool) -> float:
    """Order of measurement, lowest first: a search begins with what promises most, a sweep keeps the file's order.

    What promises most prunes most.
    """
    if not searching:
        return 0.0
    if record.estimate is not None:
        return -record.estimate.tflops
    return -(record.ceiling or 0.0)


def spared(positions: Sequence[int], most: int | None) -> frozenset[int]:
    """Positions of the variants that are not executed on the CPU: all but `most` evenly spread ones."""
    if most is None or most >= len(positions):
        return frozenset()
    return frozenset(positions) - {positions[place * len(positions) // most] for place in range(most)}


def job_of(experiment: Experiment, planned: Planned, cubin: bytes, reference: ReferenceVariant | None = None) -> Job:
    """What the GPU is asked to do with a variant; `reference` is the one that it is compared with, if there is one."""
    compared = None
    if reference is not None:
        point = replace(reference.planned.point, problem=planned.point.problem)
        launches = point.instance.launches.built(reference.planned.known)
        compared = _job(experiment, replace(reference.planned, point=point), launches, reference.cubin)
    return replace(_job(experiment, planned, planned.launched, cubin), reference=compared)


def _job(experiment: Experiment, planned: Planned, launches: Launches, cubin: bytes) -> Job:
    return Job(
        variant=planned.variant,
        cubin=cubin,
        launches=launches,
        operator=experiment.operator_reference,
        problem=dict(experiment.operator.for_parameters(planned.point.problem.values, planned.point.parameters)),
        seed=experiment.seed,
    )


def policy_of(experiment: Experiment) -> Policy:
    """How variants of an experiment are checked and timed."""
    first, *others = experiment.baselines or (None,)
    return Policy(baseline=first, others=tuple(name for name in others if name), flush=Flush.of(experiment.cache))


CUT: Final = 1.1
"""Time over the best one's beyond which a search by a strategy takes one sample of a variant. Of the first samples of
the 2,355 variants in reports/h200, 0.4 % lie more than 10 % above their variant's median."""


def for_gpu(variant: InspectedVariant) -> InspectedVariant:
    """A variant that waits for the GPU: its PTX, of which thousands take memory, is no longer needed."""
    return replace(variant, ptx="")


def measured(variant: InspectedVariant, ran: Ran) -> VariantRecord:
    """The record of a variant with what became of its job on a GPU."""
    return records.measured(variant.record, ran.result, ran.card)
