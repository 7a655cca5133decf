"""A variant's record, filled in stage by stage: built, emulated, measured."""

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
from lab.isa.cuda.names import template_parameters_in_conditions
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
    """Return the record with the emulation's results and the verdict from them (docs/explanation/verdict.md).

    The worst result decides: a fault at the executed size, a fault under another condition, a failed execution, known
    gaps. An instruction the emulator does not support is not a fault of the kernel: its status stays `inspected`.

    Args:
        record: The record so far.
        emulation: The execution on the CPU.
        pace: Pace of its main loop from the scheduler model; None without an estimate.
        model: The inputs of that estimate.
    """
    record = _with_hot_loop(replace(record, emulation=emulation))
    if pace is not None and model is not None and record.launch is not None:
        blocks = math.prod(record.launch.grid)
        launch_estimate = pace.on(record.flops, blocks, bytes_moved=record.bytes_moved, before_s=model.before_s)
        record = replace(record, estimate=launch_estimate)
    status, reason = _verdict(emulation)
    return replace(record, status=status, reason=reason)


def _verdict(emulation: EmulationRecord) -> tuple[Status, str]:
    """Return the verdict of an emulation, with the reason."""
    if emulation.wrong:
        return Status.WRONG, "; ".join(
            [emulation.wrong, *(suspicion.summary for suspicion in emulation.suspicions[:1])]
        )
    if emulation.suspicions:
        return Status.SUSPECT, _first_of([suspicion.summary for suspicion in emulation.suspicions])
    if emulation.failure:
        return Status.NOT_EXECUTED, emulation.failure
    if emulation.verification is None:
        return Status.INSPECTED, emulation.unsupported
    if emulation.not_shown:
        return Status.PARTIAL, _first_of(emulation.not_shown)
    return Status.VERIFIED, ""


def _first_of(sentences: Sequence[str]) -> str:
    """Return the first sentence, and the number of further ones."""
    return sentences[0] + (f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else "")


def _with_hot_loop(record: VariantRecord) -> VariantRecord:
    """Return the record with the executed hot loop if it differs from the static one; SASS gets the most similar."""
    ptx, steps = record.ptx, record.emulation.launches if record.emulation else ()
    label = next((step.hot_label for step in steps if ptx is not None and step.entry == ptx.name), "")
    hot_loop = next((loop for loop in ptx.loops if loop.label == label), None) if ptx else None
    if ptx is None or hot_loop is None or hot_loop.hot:
        return record
    sass = record.sass.with_hot(record.sass.like(hot_loop)) if record.sass else None
    return replace(record, ptx=ptx.with_hot(label), sass=sass)


def pruned(record: VariantRecord, rule: PruneRule, detail: str) -> VariantRecord:
    """Return the record of a variant that a search prunes by a rule, with the figures behind it."""
    return replace(record, status=Status.PRUNED, reason=f"{rule}: {detail}", pruned_by=rule)


def built(experiment: Experiment, planned: Planned, compiled: Build, gpu: GpuDescription | None) -> Planned:
    """Return the variant with its launches after the build; `gpu` is the measuring GPU, or None.

    Raises:
        UserError: A grid that depends on the occupancy is illegal, or the GPU table lacks the architecture.
    """
    residency = _residency(experiment, planned, compiled.resources, gpu)
    return _launched(planned, _meeting(planned, BuiltLaunch.of(compiled, residency), compiled.ptx))


def built_before(
    experiment: Experiment, planned: Planned, record: VariantRecord, gpu: GpuDescription | None
) -> Planned:
    """Return the variant with its launches, from its record; see `built`."""
    if record.build is None:
        return planned
    built_launch = BuiltLaunch.of(record.build)
    residency = _residency(experiment, planned, _used(planned, record), gpu)
    return _launched(planned, replace(built_launch, residency=residency))


def _used(planned: Planned, record: VariantRecord) -> Mapping[str, Resources]:
    """Return the resources of each launched kernel by its symbol."""
    used = {step.entry: step.resources for step in record.steps if step.resources is not None}
    if used or record.build is None:
        return used
    symbols = BuiltLaunch.of(record.build).symbols
    entries = (symbols.get(entry, entry) for entry in planned.launches.entries)
    return dict.fromkeys(entries, record.build.resources)


def resident_blocks(
    experiment: Experiment, planned: Planned, record: VariantRecord, gpu: GpuDescription | None
) -> tuple[int, ...]:
    """Return the GPU's resident blocks of each launch; empty if its table lacks the data."""
    used = _used(planned, record)
    try:
        residency = Residency(_target(experiment, planned.request.arch, gpu), used)
    except UserError:
        return ()
    if any(step.entry not in used for step in planned.launched.steps):
        return ()
    return tuple(residency.blocks(step) for step in planned.launched.steps)


def _meeting(planned: Planned, built_launch: BuiltLaunch, ptx: str) -> BuiltLaunch:
    """Record which kernels have a grid-wide barrier."""
    waiting = grid_sync_entries(ptx)
    entries = planned.launches.entries
    grid_syncs = tuple(entry for entry in entries if built_launch.symbols.get(entry, entry) in waiting)
    return replace(built_launch, fixed=replace(built_launch.fixed, grid_syncs=grid_syncs))


def _launched(planned: Planned, built_launch: BuiltLaunch) -> Planned:
    launchable = planned.built(built_launch)
    _ = launchable.launched  # an illegal grid is an error in the file, and raises here
    return launchable


def _residency(
    experiment: Experiment, planned: Planned, used: Mapping[str, Resources], gpu: GpuDescription | None
) -> Residency | None:
    """Return the residency for launches that depend on their occupancy; else None."""
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
    """Return the record of a variant after its build or build failure; `searched` is the round of a search."""
    steps, main, point = planned.launched.steps, planned.launched.main, planned.point
    maps = planned.launched.tensor_maps
    waits = planned.launched.wait_for_occupancy  # a failed build has no occupancy
    operands = experiment.operator.for_parameters(point.problem.values, point.parameters)
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
        flops=experiment.operator.flops(operands),
        bytes_moved=experiment.operator.bytes_moved(operands),
        merit=experiment.operator.merit,
        declared_rate=experiment.operator.declared_rate(operands),
        declared_figures=experiment.operator.declared_figures(operands),
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
            launch=planned.known.fixed,
            resources=_largest([outcome.build.resources[entry] for entry in planned.launched.entries]),
            sass_sha256=outcome.sass_sha256,
            seconds=outcome.build.seconds,
            cached=outcome.cached,
            disassembler=outcome.disassembly.version,
            warnings=(*warnings_in(outcome.build.log, _idle(planned)), *_constant_conditions(planned)),
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
    """Return the record, marked if the GPU cannot run one of its launches; a search prunes such variants itself."""
    refused = [prediction for prediction in predicted if prediction is not None and not prediction.blocks_per_sm]
    if not refused or experiment.search is not None:
        return record
    reason = f"cannot be launched on {refused[0].gpu}: {refused[0].limited_by}"
    return replace(record, status=Status.NOT_EXECUTED, reason=reason)


def _idle(planned: Planned) -> list[tuple[str, int, int]]:
    """Return file, first and last line of each kernel of a user's file that the variant does not launch."""
    template = planned.point.kernel.template
    if not isinstance(template, PlainTemplate):
        return []
    launched = _launched_names(planned, template)
    return [
        (planned.request.name, kernel.line, template.text.count("\n", 0, kernel.body[1]) + 1)
        for kernel in template.own_kernels
        if kernel.qualified_name not in launched
    ]


def _launched_names(planned: Planned, template: PlainTemplate) -> set[str]:
    names = {*planned.request.kernels, *planned.launches.entries}
    return {kernel.qualified_name for name in names for kernel in template.kernels_named(name)}


def _constant_conditions(planned: Planned) -> list[str]:
    """Return a warning for each template parameter that `#if` tests in the launched kernels of a user's file."""
    template = planned.point.kernel.template
    if not isinstance(template, PlainTemplate):
        return []
    launched = _launched_names(planned, template)
    lines: dict[str, list[str]] = {}
    for kernel in template.own_kernels:
        if kernel.qualified_name in launched:
            for line, name in template_parameters_in_conditions(template.text, kernel):
                lines.setdefault(name, []).append(str(line))
    return [
        f"{planned.request.name}({', '.join(places)}): #if tests the template parameter {name}, which the preprocessor "
        "does not see: it reads 0, whatever the argument is"
        for name, places in lines.items()
    ]


def estimate_task(
    experiment: Experiment,
    planned: Planned,
    record: VariantRecord,
    outcome: Built | BuildFailure,
    gpu: GpuDescription | None,
) -> EstimateTask | None:
    """Return the inputs of the scheduler model besides counts; None if the model does not cover the variant."""
    if isinstance(outcome, BuildFailure) or record.launch is None or record.ptx is None:
        return None
    loop, resident = outcome.loops.get(record.ptx.name), record.prediction.blocks_per_sm if record.prediction else 0
    if loop is None or not loop.fma or not resident or record.merit is not Merit.TFLOPS:
        return None
    warps = -(-math.prod(record.launch.block) // WARP_SIZE)
    target = _target(experiment, record.arch, gpu)
    return EstimateTask(target, loop, record.ptx, warps, resident, _before_seconds(planned.launched, target))


def _overhead_seconds(launches: Launches, gpu: Gpu) -> float:
    """Return a lower bound on the time of the other launches, from their declared traffic."""
    bytes_moved = sum(step.bytes_moved or 0 for step in launches.steps if step is not launches.main)
    return bytes_moved / (gpu.dram_gb_s * 1e9) if gpu.dram_gb_s else 0.0


def _before_seconds(launches: Launches, gpu: Gpu) -> float:
    """Return the modelled time of the other launches: their traffic and launch costs."""
    machine = gpu.latencies
    if not machine.compared:
        return 0.0
    zeroed = sum(buffer.zero and buffer.elements > 0 for buffer in launches.workspace)  # one memset launch each
    other_launches = len(launches.steps) - 1 + zeroed
    return _overhead_seconds(launches, gpu) / machine.dram_share + other_launches * machine.launch_s


def _geometry(launch: Launch, maps: Sequence[TensorMap]) -> LaunchRecord:
    tensor_maps = (find(maps, name) for name, kind in launch.arguments if kind == TENSOR_MAP)
    alignments = tuple(tensor_map.alignment for tensor_map in tensor_maps if tensor_map is not None)
    return LaunchRecord(
        launch.grid, launch.block, launch.dynamic_shared_bytes, launch.carveout, alignments, launch.cluster
    )


def _step(launch: Launch, maps: Sequence[TensorMap]) -> StepRecord:
    return StepRecord(launch.entry, _geometry(launch, maps), launch.bytes_moved)


def _largest(used: Sequence[Resources]) -> Resources:
    """Return the largest value of each resource over all launched kernels."""
    return Resources(**{f.name: max(getattr(resources, f.name) for resources in used) for f in fields(Resources)})


def _prediction(
    experiment: Experiment, planned: Planned, outcome: Built, gpu: GpuDescription | None, launch: Launch
) -> Prediction | None:
    """Predict one launch; return None if the GPU table lacks the architecture or the arithmetic type.

    The main launch does all of the problem's operations. The share of any other launch is unknown: it only has an
    occupancy, and the time of its declared traffic.
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
    """Predict a sequence of launches; return None if one of them has no prediction."""
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
    """Return the GPU to predict for: the measuring one, the experiment's, or the architecture's usual one."""
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
    """Return the record with the result of its job on a GPU, whose id is `card`.

    Verification on a GPU adds to the emulation's verdict and never overrides it: a suspect or partly verified variant
    stays so. A variant executed only on the GPU is partly verified.
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
    """Return the verdict on a variant whose outputs are correct on a GPU, with the reason."""
    if record.status is Status.SUSPECT:
        return record.status, record.reason
    if record.emulation is not None and record.emulation.verification is not None:
        return _verdict(record.emulation)
    lacking = record.emulation.unsupported if record.emulation else ""
    return Status.PARTIAL, f"{_ONLY_ON_GPU}: {lacking}" if lacking else _ONLY_ON_GPU


_ONLY_ON_GPU = "only the GPU executed it, which covers neither races nor other block orders"


def _errors_of_baselines(result: JobResult) -> Mapping[str, float]:
    """Return the largest error of each baseline that was compared with the reference, by name."""
    baselines = (result.baseline, *result.others)
    return {
        baseline.name: baseline.verification.max_error
        for baseline in baselines
        if baseline is not None and baseline.verification is not None
    }
