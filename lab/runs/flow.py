"""The steps of one variant: build, emulate, measure, record.

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
from lab.base.machine_errors import fault_of
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
from lab.runs.sample_sizes import aligned_as, congruent, filled, others, smaller_sizes
from lab.runs.task_schedule import LaneTask
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
"""Time limit of an emulation in seconds; the variant goes on without it, and its row says so."""


@dataclass(frozen=True, slots=True)
class FlowContext:
    """Data shared by all variants of a run.

    Attributes:
        experiment: The experiment.
        gpu: The GPU that measures, or None.
        emulate: Emulate variants where the experiment gives a size for it.
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
    """A built variant, or one that failed to build.

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
        """Position in the run."""
        return self.planned.position


class NextStep(Enum):
    """The next step of a variant."""

    EMULATE = "emulate"
    MEASURE = "measure"
    RECORD = "record"


def inspect(
    context: FlowContext, planned: Planned, outcome: Built | BuildFailure, searched: int | None
) -> InspectedVariant:
    """Return a variant after its build.

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
    """Return advice for an undefined name in a plain source, which may be a macro."""
    match = re.search(r'identifier "(?!cu(?:da)?[A-Z]|__)(\w+)" is undefined', reason)  # those are CUDA's
    return f"; if it is a macro, give it a value: parameters: {{{match[1]}: …}}" if match else ""


def argument_mistake(
    context: FlowContext, variant: InspectedVariant, outcome: Built | BuildFailure
) -> UserError | None:
    """Return the mismatch between a plain kernel's arguments and those its file declares, if any."""
    template, computed = variant.planned.point.kernel.template, context.experiment.operator
    if isinstance(outcome, BuildFailure) or not isinstance(template, PlainTemplate):
        return None
    point, own = variant.planned.point, variant.planned.instance.own_launches
    if isinstance(computed, Declared):
        declared = dict(computed.typed({**point.problem.values, **point.parameters}).declaration.argument)
    else:
        declared = dict(_bound(template, own))
    if len(variant.planned.launches.steps) > 1:  # what one kernel writes, another may only read
        declared = {name: replace(argument, direction=Direction.IN) for name, argument in declared.items()}
    for own_step, step in zip(own.steps, variant.planned.launched.steps, strict=True):
        entry = outcome.signatures[step.entry]
        entry = entry[: len(entry) - len(variant.planned.known.hidden)]
        mistake = arguments_error(
            entry,
            matching_kernel(template.kernels_named(own_step.entry), entry),
            [_passed(name, kind, declared) for name, kind in variant.planned.known.passed(own_step.arguments)],
            name=own_step.entry,
            at=template.document.at("arguments"),
            by_name=template.declares.launches is None,
        )
        if mistake is not None:
            return mistake if isinstance(computed, Declared) else _beside(context.experiment, point, mistake)
    return None


def _beside(experiment: Experiment, point: Point, mistake: UserError) -> UserError:
    """Return the mistake placed at its kernel, for an experiment with an operator."""
    place = [kernel.name for kernel in experiment.kernels].index(point.kernel.name)
    if len(experiment.problems) > 1:
        mistake.suggestion = f"use constraints to restrict a kernel to some problems; this one is {point.problem.label}"
    return mistake.below(f"kernels[{place}]")


def _bound(template: PlainTemplate, launches: Launches) -> Iterator[tuple[str, Argument]]:
    """Yield the arguments of kernels that implement an operator, by the kernel's own names."""
    outputs = {argument.name for argument in template.bound if argument.is_written} | {
        buffer.name for buffer in launches.workspace
    }
    for name, kind in (argument for step in launches.steps for argument in step.arguments):
        for member, type_ in members_of(kind) if is_structure(kind) else ((name, kind),):
            direction = Direction.OUT if member in outputs else Direction.IN
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
    """Return the mismatch between the file's constant memory and the kernel's constant variables, if any."""
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
    """Return the step after a build; `spared` variants are not emulated."""
    if variant.record.status.failed:
        return NextStep.RECORD
    emulates = context.emulate and variant.planned.point.problem.emulate is not None and not spared
    return NextStep.EMULATE if emulates else step_before_measurement(context, variant)


def step_before_measurement(context: FlowContext, variant: InspectedVariant) -> NextStep:
    """Return the step after emulation: the GPU, where it can run the variant's machine code."""
    if variant.record.status.failed or context.gpu is None or not _runs_here(context.gpu, variant):
        return NextStep.RECORD
    return NextStep.MEASURE


def reason_not_measured(context: FlowContext, variant: InspectedVariant) -> str:
    """Return a note for the report where the GPU cannot run a variant's machine code; else empty."""
    if variant.record.status.failed or context.gpu is None or _runs_here(context.gpu, variant):
        return ""
    return f"Variants for {variant.planned.request.arch} were not measured: the GPU is {context.gpu.arch}."


def _runs_here(gpu: GpuDescription, variant: InspectedVariant) -> bool:
    return runs_on(variant.planned.request.arch, gpu.arch)


def emulation_task(context: FlowContext, variant: InspectedVariant) -> EmulationTask:
    """Return the emulation task of a variant whose next step is `NextStep.EMULATE`."""
    point, computed = variant.planned.point, context.experiment.operator
    emulated = point.problem.emulate
    small: Mapping[str, Scalar] = computed.for_parameters(emulated, point.parameters) if emulated is not None else {}
    launches = Instance(point.kernel.template, point.parameters, small).launches
    return EmulationTask(
        launches=launches.built(variant.planned.known),
        operator=context.experiment.operator_reference,
        problem=dict(small),
        seed=context.experiment.seed,
        hot_loops={mix.name: mix.hot_loop.label for mix in variant.record.mixes("ptx") if mix.hot_loop},
        reference=_reference_launch(context, emulated) if emulated is not None else None,
        whole=point.problem.whole,
        halved=_halved(context, variant, emulated) if emulated is not None else (),
        samples=_samples(context, variant, emulated) if emulated is not None and not point.problem.whole else (),
        spares_samples=not isinstance(computed, Declared),
        excused=excused_for(variant.planned.toolchain.name),
        fewer=launches.built_for_fewer(variant.planned.known, _TURNS),
        others=_others(context, variant, emulated) if emulated is not None else (),
        not_shown=(_TOO_MANY,) if _is_small(context, variant, small) and not _has_time(context, variant) else (),
        full_size=_full_size(context, variant, emulated) if _is_small(context, variant, small) else None,
    )


_OTHERS_EVERY: Final = 8
"""One variant in this many is emulated on other problems: the handling of factors depends on the source alone."""


def _others(context: FlowContext, variant: InspectedVariant, emulated: Problem) -> tuple[SizedLaunches, ...]:
    """Return the emulated problem with other values of neutral fields the kernel takes as arguments."""
    computed, point = context.experiment.operator, variant.planned.point
    if not isinstance(computed, Operator) or variant.planned.position % _OTHERS_EVERY or not computed.has_reference:
        return ()
    if isinstance(computed, Declared):
        changes = computed.other_problems(
            {**point.parameters, **emulated}, {**point.parameters, **point.problem.values}
        )
        resized = (
            resized_launches(context, variant, emulated, change) for change in changes if set(change) <= set(emulated)
        )
        return tuple(SizedLaunches(problem, launches) for launches, problem in filter(None, resized))
    alternative = computed.other_problem(emulated)
    if alternative is None:
        return ()
    passed = {name for step in variant.planned.launched.steps for name, _ in step.arguments}
    changed = {name: value for name, value in alternative.items() if name in passed and value != emulated.get(name)}
    sized = resized_launches(context, variant, _own_fields(computed, emulated), changed) if changed else None
    return (SizedLaunches(sized[1], sized[0]),) if sized is not None else ()


_WORK: Final = 360_000_000
"""Interpreter work at the problem's own size per variant: 2 s of a core."""

_WORK_OF_ALL: Final = 8 * _WORK
"""The same limit for all variants of a run, where they are many."""

_LEAST_WORK: Final = 30_000_000
"""Least work per variant that shows anything; in runs of more variants, evenly spread ones get it."""

_TOO_MANY: Final = "at the problem's own size, nothing was executed: the run has too many variants"


def _is_small(context: FlowContext, variant: InspectedVariant, small: Mapping[str, Scalar]) -> bool:
    """Return whether the emulated problem differs from the variant's own."""
    point = variant.planned.point
    if point.problem.emulate is None or point.problem.whole:
        return False
    return dict(context.experiment.operator.for_parameters(point.problem.values, point.parameters)) != dict(small)


def _has_time(context: FlowContext, variant: InspectedVariant) -> bool:
    """Return whether blocks of a variant are emulated at the problem's own size."""
    return not variant.planned.position % max(1, -(-_LEAST_WORK * context.variants // _WORK_OF_ALL))


_BETWEEN: Final = (4, 16, 64, 256, 1024, 4096, 16384, 65536)
"""Ratios to the emulated sizes at which a fault of the full size is searched for."""


def _full_size(context: FlowContext, variant: InspectedVariant, emulated: Problem | None) -> FullSizeTask | None:
    """Return the task that emulates sampled blocks at full size; None where the run has too many variants."""
    point, computed = variant.planned.point, context.experiment.operator
    if emulated is None or not _has_time(context, variant):
        return None
    full = dict(computed.for_parameters(point.problem.values, point.parameters))
    own: Mapping[str, Scalar] = emulated
    sizes: Mapping[str, tuple[int, int]] = {}
    if not isinstance(computed, ForeignOperator):  # the worker that checks its problems has ended with the reading
        own = emulated if isinstance(computed, Declared) else _own_fields(computed, emulated)
        sizes = smaller_sizes(own, point.problem.values)
    between: dict[str, SizedLaunches] = {}
    for factor in _BETWEEN:
        larger = {name: congruent(real, size, factor) for name, (size, real) in sizes.items()}
        if larger and any(larger[name] < real for name, (_, real) in sizes.items()):
            resized = resized_launches(context, variant, own, larger)
            between |= {repr(larger): SizedLaunches(resized[1], resized[0])} if resized is not None else {}
    return FullSizeTask(
        operator=context.experiment.operator_reference,
        seed=context.experiment.seed,
        full=SizedLaunches(full, variant.planned.launched),
        work=min(_WORK, max(_LEAST_WORK, _WORK_OF_ALL // context.variants)),
        between=tuple(between.values()),
        excused=excused_for(variant.planned.toolchain.name),
        resident=records.resident_blocks(context.experiment, variant.planned, variant.record, context.gpu),
        gpu=variant.record.prediction.gpu if variant.record.prediction is not None else "the GPU",
    )


_TURNS: Final = 3
"""Iterations of persistent blocks in a small problem: a first one, one that follows another, a last one."""


_OF_COMPILERS: Final[Mapping[str, frozenset[FindingKind]]] = {
    "triton": frozenset({"missing-proxy-fence", "wgmma-misuse"})
}
"""Kinds of findings, by toolchain, that are the compiler's fault. Before 3.7, Triton leaves out the fence between
cp.async and the wgmma that reads what it copied (pull request 9610 of triton-lang/triton). It writes every wgmma and
its fences, too, and LLVM moves the arithmetic that makes an operand in registers behind the fence: to it, the fence is
inline assembly that does not name these registers."""


def excused_for(toolchain: str) -> frozenset[FindingKind]:
    """Return the kinds of findings that are the fault of a toolchain, not of the source."""
    return _OF_COMPILERS.get(toolchain, frozenset())


_HALVED_EVERY: Final = 8
"""One variant in this many is emulated at halved sizes: work grows with the problem, hardly with the variant."""


def _halved(context: FlowContext, variant: InspectedVariant, emulated: Problem) -> tuple[HalvedSize, ...]:
    """Return the emulated problem with one size halved, for each size smaller than the real one.

    Each is followed by alternatives, in case the kernel does not support it, and to tell sums of powers from a
    power (`lab.runs.sample_sizes.others`). At the end all sizes are changed at once. Kernels that declare operations
    need none of these: the operations say how their work grows.
    """
    computed = context.experiment.operator
    if not isinstance(computed, Declared) or computed.merit is Merit.TFLOPS or variant.planned.position % _HALVED_EVERY:
        return ()
    sizes = smaller_sizes(emulated, variant.planned.point.problem.values)
    resized = [
        (name, {name: alternative}) for name, (size, real) in sizes.items() for alternative in others(size, real)
    ]
    if len(sizes) > 1:
        halves = {name: size // 2 for name, (size, _) in sizes.items()}
        doubles = {name: 2 * size for name, (size, real) in sizes.items() if 2 * size <= real}
        resized += [
            ("", changed) for changed in (halves, doubles) if all(changed.values()) and len(changed) == len(sizes)
        ]
    return tuple(
        HalvedSize(name, math.prod(sizes[key][0] / size for key, size in changed.items()), *resized_problem)
        for name, changed in resized
        if (resized_problem := resized_launches(context, variant, emulated, changed)) is not None
    )


_SAMPLES: Final = (1, 2, 4)
"""Least ratios of sample sizes to the emulated sizes, where they differ."""


def _own_fields(computed: Described, problem: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Drop fields the operator derives from others, such as a leading dimension: they follow new sizes.

    Args:
        computed: The operator.
        problem: A complete problem.
    """
    fields = dict(problem)
    for name in problem:
        fewer = {key: value for key, value in fields.items() if key != name}
        with contextlib.suppress(UserError):
            if dict(computed.problem(fewer)) == dict(problem):
                fields = fewer
    return fields


def _multiplies(variant: InspectedVariant) -> bool:
    """Return whether the PTX has matrix instructions."""
    return any(mix.counts.by_class.get(InstructionClass.MMA) for mix in variant.record.mixes("ptx"))


def _samples(context: FlowContext, variant: InspectedVariant, emulated: Problem) -> tuple[Sample, ...]:
    """Return problems that fill blocks, tiles and warps as the real one does, smallest first.

    An emulated problem has awkward sizes, to find faults, so it fills blocks differently from the real one.
    Of operators' kernels, those with matrix instructions have samples, since their tiles are large, and those with a
    model, for which they are executed where the model yields nothing. User-defined operators have none:
    the worker that checks its problems has ended with the reading.
    """
    computed = context.experiment.operator
    is_own = isinstance(computed, Declared)
    if isinstance(computed, ForeignOperator) or not (is_own or _multiplies(variant) or variant.model is not None):
        return ()
    own = emulated if is_own else _own_fields(computed, emulated)
    sizes = smaller_sizes(own, variant.planned.point.problem.values)
    # sizes of an operator's problems differ in their numbers alone, mostly, and have edges that matter little
    resize = congruent if is_own else filled
    samples: list[Sample] = []
    for factor in _SAMPLES:
        larger = {name: resize(real, size, factor) for name, (size, real) in sizes.items()}
        ratio = math.prod(larger[name] / size for name, (size, _) in sizes.items())
        if any(sample.ratio == ratio for sample in samples) or all(
            larger[name] == size for name, (size, _) in sizes.items()
        ):
            continue
        apart = _apart(computed, {**own, **larger}, variant.planned.point.problem.values)
        if (sized := resized_launches(context, variant, own, apart)) is not None:
            resized = computed.problem({**own, **apart})
            samples.append(Sample(ratio, *sized, halved=_halved(context, variant, resized)))
    return tuple(samples)


def _apart(computed: Described, sizes: Mapping[str, Scalar], real: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Add leading dimensions the operator derives from sizes, aligned as in the real problem.

    The alignment of rows decides the entry point launched, the sectors they touch and the banks they share.
    """
    completed = dict(sizes)
    for name, value in real.items():
        if name.startswith(_LEADING) and name not in completed and isinstance(value, int):
            least = computed.problem(completed).get(name)
            if isinstance(least, int):
                completed[name] = aligned_as(value, least)
    return completed


_LEADING: Final = "ld"
"""Prefix of the names of leading dimensions, as in BLAS."""


def resized_launches(
    context: FlowContext, variant: InspectedVariant, base: Mapping[str, Scalar], sizes: Mapping[str, Scalar]
) -> tuple[Launches, Mapping[str, Scalar]] | None:
    """Return launches and complete problem for other sizes; None where shapes or grid do not work out."""
    point, computed = variant.planned.point, context.experiment.operator
    with contextlib.suppress(UserError):
        small = computed.for_parameters(computed.problem({**base, **sizes}), point.parameters)
        launches = Instance(point.kernel.template, point.parameters, small).launches
        return launches.built(variant.planned.known), dict(small)
    return None


def _reference_launch(context: FlowContext, emulated: Problem) -> ReferenceLaunch | None:
    """Return the launches whose outputs stand in for a problem's reference."""
    if context.reference is None:
        return None
    point, build_facts = context.reference.planned.point, context.reference.planned.known
    small = context.experiment.operator.for_parameters(emulated, point.parameters)
    launches = Instance(point.kernel.template, point.parameters, small).launches.built(build_facts)
    return ReferenceLaunch(context.reference.ptx, launches, dict(small))


def emulation_work(variant: InspectedVariant, task: EmulationTask) -> LaneTask:
    """Return the emulation as a lane task: equal PTX on equal emulated problems is executed once."""
    key = hashlib.sha256(f"{variant.ptx}\n{task!r}".encode()).hexdigest()
    return LaneTask(key, execution, (task, variant.ptx, variant.model), EMULATION_TIMEOUT_S)


def emulation_outcome(
    variant: InspectedVariant, task: EmulationTask, future: Future[Any]
) -> tuple[EmulationRecord, Pace | None]:
    """Return the result of an emulation, or a record that says why there is none.

    Raises:
        UserError: The file's arguments or references are wrong, whatever the variant.
        ClusterError: The cluster is no longer usable.
    """
    try:
        outcome: tuple[EmulationRecord, Pace | None] = future.result()
    except TimeoutError:
        reason = f"the emulation took longer than {EMULATION_TIMEOUT_S:.0f} s; a smaller `emulate` problem helps"
    except MemoryError:
        reason = "the emulation needs more memory than its share; a smaller `emulate` problem helps"
    except WorkerLostError as error:
        reason = f"the emulating process ended by itself: {error}{suspect(task.operator)}"
    except OperatorFault as error:
        reason = str(error)
    except ClusterError:
        raise  # not the variant's fault
    except UserError as error:
        document = variant.planned.point.kernel.template.document
        raise error.placed(document.at(*(error.key or "").split(".")), error.key) from None
    except Exception as error:  # noqa: BLE001 - a mistake of our own, which costs this variant alone
        mistake = f"lab itself failed to execute this variant: {type(error).__name__}: {' '.join(str(error).split())}"
        fault = fault_of(error)
        reason = f"this machine cannot execute it: {fault}" if fault else mistake
    else:
        return outcome
    return not_executed(task, reason), None


def judge(variant: InspectedVariant, outcome: tuple[EmulationRecord, Pace | None]) -> InspectedVariant:
    """Return a variant with the result of its emulation."""
    return replace(variant, record=records.judged(variant.record, *outcome, variant.model))


def urgency(record: VariantRecord, *, searching: bool) -> float:
    """Return the measurement priority, lowest first: most promising in a search, file order in a sweep.

    The most promising variants prune most.
    """
    if not searching:
        return 0.0
    if record.estimate is not None:
        return -record.estimate.tflops
    return -(record.ceiling or 0.0)


def spared(positions: Sequence[int], limit: int | None) -> frozenset[int]:
    """Return the positions of variants not emulated: all but `limit` evenly spread ones."""
    if limit is None or limit >= len(positions):
        return frozenset()
    return frozenset(positions) - {positions[place * len(positions) // limit] for place in range(limit)}


def job_of(experiment: Experiment, planned: Planned, cubin: bytes, reference: ReferenceVariant | None = None) -> Job:
    """Return a variant's GPU job; `reference` is the variant to compare it with, if any."""
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
    """Return how an experiment's variants are checked and timed."""
    first, *further = experiment.baselines or (None,)
    return Policy(baseline=first, others=tuple(name for name in further if name), flush=Flush.of(experiment.cache))


CUT: Final = 1.1
"""Ratio to the best time beyond which a strategy's search takes one sample of a variant. Of the first samples of
the 2,355 variants in reports/h200, 0.4 % lie more than 10 % above their variant's median."""


def for_gpu(variant: InspectedVariant) -> InspectedVariant:
    """Drop a variant's PTX while it waits for the GPU: thousands of them take memory."""
    return replace(variant, ptx="")


def measured(variant: InspectedVariant, ran: Ran) -> VariantRecord:
    """Return a variant's record with the outcome of its GPU job."""
    return records.measured(variant.record, ran.result, ran.card)
