"""A variant's record as the stages fill it in: built, executed on the CPU, measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from lab.base.errors import UserError
from lab.base.warp import WARP_SIZE
from lab.experiment.model import Experiment
from lab.experiment.variants import Planned
from lab.gpu.process.job import JobResult, JobStage
from lab.hardware.calibration import calibrated
from lab.hardware.gpus import Gpu, from_description, runs_on, target_gpu
from lab.hardware.tensormaps import TensorMap, find
from lab.isa.ptx.gridsync import grid_sync_entries
from lab.measured.timing import GpuDescription, Merit
from lab.predict.bounds import LaunchFacts, delayed, predict, predict_sequence
from lab.predict.schedulers.estimate import Pace
from lab.recorded.predictions import Prediction
from lab.recorded.run_records import (
    BuildRecord,
    EmulationRecord,
    LaunchRecord,
    PruneRule,
    Status,
    StepRecord,
    VariantRecord,
)
from lab.stages.build import BuildFailure, Built
from lab.stages.estimate import EstimateTask
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launches import BuiltLaunch, Launch, Launches, Residency
from lab.templates.plain.template import PlainTemplate
from lab.toolchain.base import Build, Resources, title, warnings_in


def judged(
    record: VariantRecord,
    emulation: EmulationRecord,
    pace: Pace | None = None,
    model: EstimateTask | None = None,
) -> VariantRecord:
    """The record with what the emulator found, and the verdict that follows from it (docs/explanation/verdict.md).

    What is worse decides: a fault at the executed size, one under another condition, an execution that failed, what was
    not shown. An instruction that the emulator lacks is no fault of the kernel, whose status stays `inspected`.

    Args:
        record: The record so far.
        emulation: The execution on the CPU.
        pace: Pace of its main loop by the model of the schedulers; None where there is no estimate.
        model: What the pace was estimated from.
    """
    record = _with_hot_loop(replace(record, emulation=emulation))
    if pace is not None and model is not None and record.launch is not None:
        blocks = math.prod(record.launch.grid)
        whole = pace.on(record.flops, blocks, moved=record.bytes_moved, before_s=model.before_s)
        record = replace(record, estimate=whole)
    status, reason = _verdict(emulation)
    return replace(record, status=status, reason=reason)


def _verdict(emulation: EmulationRecord) -> tuple[Status, str]:
    """Return what an execution on the CPU says of a variant, with the reason."""
    if emulation.wrong:
        return Status.WRONG, "; ".join([emulation.wrong, *(one.summary for one in emulation.suspicions[:1])])
    if emulation.suspicions:
        return Status.SUSPECT, _first_of([one.summary for one in emulation.suspicions])
    if emulation.failure:
        return Status.NOT_EXECUTED, emulation.failure
    if emulation.verification is None:
        return Status.INSPECTED, emulation.unsupported
    if emulation.not_shown:
        return Status.PARTIAL, _first_of(emulation.not_shown)
    return Status.VERIFIED, ""


def _first_of(sentences: Sequence[str]) -> str:
    """Return the first sentence, and how many more there are."""
    return sentences[0] + (f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else "")


def _with_hot_loop(record: VariantRecord) -> VariantRecord:
    """The record with the hot loop that execution found, where that is another than the text's; in SASS its like."""
    ptx, steps = record.ptx, record.emulation.launches if record.emulation else ()
    label = next((step.hot_label for step in steps if ptx is not None and step.entry == ptx.name), "")
    found = next((loop for loop in ptx.loops if loop.label == label), None) if ptx else None
    if ptx is None or found is None or found.hot:
        return record
    sass = record.sass.with_hot(record.sass.like(found)) if record.sass else None
    return replace(record, ptx=ptx.with_hot(label), sass=sass)


def pruned(record: VariantRecord, rule: PruneRule, detail: str) -> VariantRecord:
    """The record of a variant that a search leaves out by a rule, with the figures that decided it."""
    return replace(record, status=Status.PRUNED, reason=f"{rule}: {detail}", pruned_by=rule)


def built(experiment: Experiment, planned: Planned, made: Build, gpu: GpuDescription | None) -> Planned:
    """The variant as it is launched once it is built; `gpu` is the one that measures, or None.

    Raises:
        UserError: A grid depends on the occupancy, and is no legal grid, or the GPU's table lacks the architecture.
    """
    residency = _residency(experiment, planned, made.resources, gpu)
    return _launched(planned, _meeting(planned, BuiltLaunch.of(made, residency), made.ptx))


def built_before(
    experiment: Experiment, planned: Planned, record: VariantRecord, gpu: GpuDescription | None
) -> Planned:
    """The variant as it is launched, from its record; see `built`."""
    if record.build is None:
        return planned
    known = BuiltLaunch.of(record.build)
    residency = _residency(experiment, planned, _used(planned, record), gpu)
    return _launched(planned, replace(known, residency=residency))


def _used(planned: Planned, record: VariantRecord) -> Mapping[str, Resources]:
    """Return the resources of each kernel that is launched, by its symbol."""
    used = {step.entry: step.resources for step in record.steps if step.resources is not None}
    if used or record.build is None:
        return used
    symbols = BuiltLaunch.of(record.build).symbols
    entries = (symbols.get(entry, entry) for entry in planned.launches.entries)
    return dict.fromkeys(entries, record.build.resources)


def resident_blocks(
    experiment: Experiment, planned: Planned, record: VariantRecord, gpu: GpuDescription | None
) -> tuple[int, ...]:
    """Return how many blocks of each launch the GPU holds at once; nothing where its table does not say."""
    used = _used(planned, record)
    try:
        residency = Residency(_target(experiment, planned.request.arch, gpu), used)
    except UserError:
        return ()
    if any(step.entry not in used for step in planned.launched.steps):
        return ()
    return tuple(residency.blocks(step) for step in planned.launched.steps)


def _meeting(planned: Planned, known: BuiltLaunch, ptx: str) -> BuiltLaunch:
    """Add which kernels wait for their whole grid."""
    waiting = grid_sync_entries(ptx)
    entries = enumerate(planned.launches.entries)
    places = sum(1 << place for place, entry in entries if known.symbols.get(entry, entry) in waiting)
    return replace(known, decided={**known.decided, "grid_syncs": places}) if places else known


def _launched(planned: Planned, known: BuiltLaunch) -> Planned:
    made = planned.built(known)
    _ = made.launched  # an illegal grid is a mistake in the file, and ends the run here
    return made


def _residency(
    experiment: Experiment, planned: Planned, used: Mapping[str, Resources], gpu: GpuDescription | None
) -> Residency | None:
    """For launches that wait for their occupancy, what decides it; else None."""
    if not planned.launches.wait_for_occupancy:
        return None
    try:
        return Residency(_target(experiment, planned.request.arch, gpu), used)
    except UserError as error:
        at = planned.point.kernel.template.document.at("grid")
        raise error.placed(at, "grid") from None


def inspected(
    experiment: Experiment,
    planned: Planned,
    outcome: Built | BuildFailure,
    gpu: GpuDescription | None,
    searched: int | None = None,
) -> VariantRecord:
    """The record of a variant that was built, or could not be; `searched` is the round of a search."""
    steps, main, point = planned.launched.steps, planned.launched.main, planned.point
    maps = planned.launched.tensor_maps
    waits = planned.launched.wait_for_occupancy  # a build that failed has no occupancy
    needed = experiment.operator.for_parameters(point.problem.values, point.parameters)
    record = VariantRecord(
        variant=planned.variant,
        kernel=planned.point.kernel.name,
        label=planned.label,
        template=planned.point.kernel.template.name,
        parameters=dict(planned.point.parameters),
        problem=dict(point.problem.values),
        arch=planned.request.arch,
        compiler=title(planned.toolchain),
        options=planned.request.options,
        status=Status.INSPECTED,
        reason="",
        flops=experiment.operator.flops(needed),
        bytes_moved=experiment.operator.bytes_moved(needed),
        merit=experiment.operator.merit,
        declared_rate=experiment.operator.declared_rate(needed),
        declared_figures=experiment.operator.declared_figures(needed),
        launch=_geometry(main, maps) if main and not waits else None,
        steps=tuple(_step(step, maps) for step in steps) if len(steps) > 1 and not waits else (),
        round=searched,
        mappings=planned.instance.template.mappings,
        accesses=planned.instance.predictions,
        fingerprint=planned.fingerprint,
    )
    if isinstance(outcome, BuildFailure):
        return replace(record, status=Status.COMPILE_FAILED, reason=outcome.reason)
    record = replace(
        record,
        build=BuildRecord(
            toolchain=outcome.build.toolchain,
            version=outcome.build.version,
            command=outcome.build.command,
            symbols=dict(planned.known.symbols),
            launch=dict(planned.known.decided),
            resources=_largest([outcome.build.resources[entry] for entry in planned.launched.entries]),
            sass_sha256=outcome.sass_sha256,
            seconds=outcome.build.seconds,
            cached=outcome.cached,
            disassembler=outcome.disassembly.version,
            warnings=warnings_in(outcome.build.log, _idle(planned)),
            lacking=outcome.disassembly.lacking,
        ),
    )
    predicted = [_prediction(experiment, planned, outcome, gpu, launch) for launch in steps]
    record = _refused(experiment, record, predicted)
    if main is not None:
        alone = predicted[steps.index(main)]
        record = replace(record, ptx=outcome.ptx[main.entry], sass=outcome.sass.get(main.entry), prediction=alone)
    if len(steps) == 1:
        return record
    described = tuple(
        replace(
            step,
            resources=outcome.build.resources[step.entry],
            ptx=outcome.ptx[step.entry],
            sass=outcome.sass.get(step.entry),
            prediction=prediction,
        )
        for step, prediction in zip(record.steps, predicted, strict=True)
    )
    return replace(record, steps=described, prediction=_together(experiment, planned, described, gpu))


def _refused(experiment: Experiment, record: VariantRecord, predicted: Sequence[Prediction | None]) -> VariantRecord:
    """The record of a variant of which the GPU would refuse a launch; a search leaves such variants out itself."""
    refused = [one for one in predicted if one is not None and not one.blocks_per_sm]
    if not refused or experiment.search is not None:
        return record
    reason = f"cannot be launched on {refused[0].gpu}: {refused[0].limited_by}"
    return replace(record, status=Status.NOT_EXECUTED, reason=reason)


def _idle(planned: Planned) -> list[tuple[str, int, int]]:
    """Return file, first and last line of each kernel of a user's file that the variant does not launch."""
    template = planned.point.kernel.template
    if not isinstance(template, PlainTemplate):
        return []
    named = {*planned.request.kernels, *planned.launches.entries}
    launched = {one.qualified_name for name in named for one in template.kernels_named(name)}
    return [
        (planned.request.name, one.line, template.text.count("\n", 0, one.body[1]) + 1)
        for one in template.own_kernels
        if one.qualified_name not in launched
    ]


def estimate_task(
    experiment: Experiment,
    planned: Planned,
    record: VariantRecord,
    outcome: Built | BuildFailure,
    gpu: GpuDescription | None,
) -> EstimateTask | None:
    """What the model of the schedulers needs besides counts; None where the model does not cover the variant."""
    if isinstance(outcome, BuildFailure) or record.launch is None or record.ptx is None:
        return None
    loop, held = outcome.loops.get(record.ptx.name), record.prediction.blocks_per_sm if record.prediction else 0
    if loop is None or not loop.fma or not held or record.merit is not Merit.TFLOPS:
        return None
    warps = -(-math.prod(record.launch.block) // WARP_SIZE)
    target = _target(experiment, record.arch, gpu)
    return EstimateTask(target, loop, record.ptx, warps, held, _before_seconds(planned.launched, target))


def _overhead_seconds(launches: Launches, gpu: Gpu) -> float:
    """Least time of the launches other than the main one: that of the traffic which their template declares."""
    moved = sum(step.bytes_moved or 0 for step in launches.steps if step is not launches.main)
    return moved / (gpu.dram_gb_s * 1e9) if gpu.dram_gb_s else 0.0


def _before_seconds(launches: Launches, gpu: Gpu) -> float:
    """Modelled time of the launches other than the main one: their traffic, and the cost of each launch."""
    machine = gpu.latencies
    if not machine.compared:
        return 0.0
    zeroed = sum(buffer.zero and buffer.elements > 0 for buffer in launches.workspace)  # each in a launch of its own
    others = len(launches.steps) - 1 + zeroed
    return _overhead_seconds(launches, gpu) / machine.dram_share + others * machine.launch_s


def _geometry(launch: Launch, maps: Sequence[TensorMap]) -> LaunchRecord:
    named = (find(maps, name) for name, kind in launch.arguments if kind == TENSOR_MAP)
    alignments = tuple(one.alignment for one in named if one is not None)
    return LaunchRecord(
        launch.grid, launch.block, launch.dynamic_shared_bytes, launch.carveout, alignments, launch.cluster
    )


def _step(launch: Launch, maps: Sequence[TensorMap]) -> StepRecord:
    return StepRecord(launch.entry, _geometry(launch, maps), launch.bytes_moved)


def _largest(used: Sequence[Resources]) -> Resources:
    """The largest value of each resource over all kernels that are launched."""
    return Resources(**{f.name: max(getattr(one, f.name) for one in used) for f in fields(Resources)})


def _prediction(
    experiment: Experiment, planned: Planned, outcome: Built, gpu: GpuDescription | None, launch: Launch
) -> Prediction | None:
    """Predict one launch; None where the GPU table has no entry for the architecture or the arithmetic type.

    The main launch does all of the problem's operations. Any other launch does an unknown part of them: only its
    occupancy is known, and the time of the traffic that its template declares.
    """
    operator = experiment.operator
    problem = operator.for_parameters(planned.point.problem.values, planned.point.parameters)
    main = launch is planned.launched.main
    try:
        return predict(
            _target(experiment, planned.request.arch, gpu),
            outcome.sass.get(launch.entry),
            outcome.build.resources[launch.entry],
            LaunchFacts(math.prod(launch.block), launch.dynamic_shared_bytes, math.prod(launch.grid), launch.carveout),
            flops=operator.flops(problem) if main else 0,
            bytes_moved=operator.bytes_moved(problem) if main and not launch.bytes_moved else launch.bytes_moved or 0,
            dtype=str(operator.fma_dtype(problem)),
            merit=operator.merit,
        )
    except UserError:
        return None


def _together(
    experiment: Experiment, planned: Planned, steps: Sequence[StepRecord], gpu: GpuDescription | None
) -> Prediction | None:
    """Predict a sequence of launches; None where one of them has no prediction."""
    parts = [step.prediction for step in steps if step.prediction]
    if len(parts) < len(steps):
        return None
    operator = experiment.operator
    problem = operator.for_parameters(planned.point.problem.values, planned.point.parameters)
    main, target = planned.launched.main, _target(experiment, planned.request.arch, gpu)
    if main is not None:
        before = parts[planned.launched.steps.index(main)]
        return delayed(before, operator.flops(problem), _overhead_seconds(planned.launched, target))
    return predict_sequence(
        target,
        parts,
        flops=operator.flops(problem),
        bytes_needed=operator.bytes_moved(problem),
        bytes_moved=planned.launched.bytes_moved,
        merit=operator.merit,
    )


def _target(experiment: Experiment, arch: str, gpu: GpuDescription | None) -> Gpu:
    """Return the GPU to predict for: the one that measures, a named one, or the architecture's usual one."""
    if gpu and runs_on(arch, gpu.arch):
        return calibrated(from_description(gpu))
    return calibrated(target_gpu(experiment.gpu, arch))


_STATUS = {
    JobStage.PREPARE: Status.NOT_EXECUTED,
    JobStage.LAUNCH: Status.NOT_EXECUTED,
    JobStage.CRASH: Status.NOT_EXECUTED,
    JobStage.VERIFY: Status.WRONG,
    JobStage.VERIFY_AGAIN: Status.SUSPECT,
    JobStage.TIMEOUT: Status.NOT_EXECUTED,
}


def measured(record: VariantRecord, result: JobResult, card: str) -> VariantRecord:
    """The record with the result of its job on a GPU, whose id is `card`.

    A GPU that verified a variant adds to what the CPU has shown and takes nothing away: one that is suspect or verified
    in part stays so. One that only the GPU executed is verified in part.
    """
    failure, timed = result.failure, result.measurement
    status, reason = (_STATUS[failure.stage], failure.reason) if failure else _confirmed(record)
    if timed is not None:
        timed = replace(timed, card=card, errors=_errors_of_baselines(result))
    return replace(
        record,
        status=status,
        reason=reason,
        verification=result.verification,
        measurement=timed,
    )


def _confirmed(record: VariantRecord) -> tuple[Status, str]:
    """Return the verdict on a variant whose outputs are right on a GPU, with the reason."""
    if record.status is Status.SUSPECT:
        return record.status, record.reason
    if record.emulation is not None and record.emulation.verification is not None:
        return _verdict(record.emulation)
    lacking = record.emulation.unsupported if record.emulation else ""
    return Status.PARTIAL, f"{_ONLY_ON_GPU}: {lacking}" if lacking else _ONLY_ON_GPU


_ONLY_ON_GPU = "only the GPU executed it, which shows neither races nor other orders"


def _errors_of_baselines(result: JobResult) -> Mapping[str, float]:
    """The largest error of each baseline that was compared with the reference, by its name."""
    beside = (result.baseline, *result.others)
    return {one.name: one.verification.max_error for one in beside if one is not None and one.verification is not None}
