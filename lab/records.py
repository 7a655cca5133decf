"""What becomes of the stages' results: a variant's record and files, and the run's own facts."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from lab import __version__, environment, kernels
from lab.building import BuildFailure, Built
from lab.errors import UserError
from lab.experiment import Expansion, Experiment
from lab.gpu.job import BaselineResult, JobResult, Stage
from lab.limits import Gpu, LaunchFacts, Prediction, from_description, gpu_for, predict
from lab.measurement import GpuDescription
from lab.plan import Planned
from lab.store import BuildRecord, EmulationRecord, LaunchRecord, RunRecord, Status, VariantRecord


def judged(record: VariantRecord, emulation: EmulationRecord | None) -> VariantRecord:
    """The record with what the emulator found: a variant with findings is not verified."""
    if emulation is None:
        return record
    record = replace(record, emulation=emulation)
    if emulation.fault:
        return replace(record, status=Status.VERIFICATION_FAILED, reason=emulation.fault)
    return replace(record, status=Status.VERIFIED) if emulation.verification else record


def inspected(
    experiment: Experiment, planned: Planned, outcome: Built | BuildFailure, gpu: GpuDescription | None
) -> VariantRecord:
    """The record of a variant that was built, or could not be."""
    launch = planned.launch
    record = VariantRecord(
        variant=planned.variant,
        kernel=planned.point.kernel.name,
        label=planned.label,
        template=planned.point.kernel.template.name,
        parameters=dict(planned.point.parameters),
        problem=dict(experiment.problem),
        arch=planned.request.arch,
        status=Status.INSPECTED,
        reason="",
        flops=experiment.operator.flops(experiment.problem),
        bytes_moved=experiment.operator.bytes_moved(experiment.problem),
        merit=experiment.operator.merit,
        mappings=kernels.mappings(planned.point.kernel.template),
        accesses=kernels.predictions(planned.point.kernel.template, planned.point.parameters, experiment.problem),
        launch=LaunchRecord(launch.grid, launch.block, launch.dynamic_shared_bytes),
    )
    if isinstance(outcome, BuildFailure):
        return replace(record, status=Status.COMPILE_FAILED, reason=outcome.reason)
    return replace(
        record,
        build=BuildRecord(
            toolchain=outcome.build.toolchain,
            version=outcome.build.version,
            command=outcome.build.command,
            resources=outcome.build.resources[launch.entry],
            sass_sha256=outcome.sass_sha256,
            seconds=outcome.build.seconds,
            cached=outcome.cached,
            disassembler=outcome.disassembly.version,
        ),
        ptx=outcome.ptx,
        sass=outcome.sass,
        prediction=_prediction(experiment, planned, outcome, gpu),
    )


def _prediction(
    experiment: Experiment, planned: Planned, outcome: Built, gpu: GpuDescription | None
) -> Prediction | None:
    """None where the GPU table has no product for the architecture, or no rate for the arithmetic type."""
    launch, problem = planned.launch, experiment.problem
    try:
        return predict(
            _target(experiment, planned.request.arch, gpu),
            outcome.sass,
            outcome.build.resources[launch.entry],
            LaunchFacts(math.prod(launch.block), launch.dynamic_shared_bytes, math.prod(launch.grid)),
            flops=experiment.operator.flops(problem),
            bytes_moved=experiment.operator.bytes_moved(problem),
            dtype=str(experiment.operator.fma_dtype(problem)),
            merit=experiment.operator.merit,
        )
    except UserError:
        return None


def _target(experiment: Experiment, arch: str, gpu: GpuDescription | None) -> Gpu:
    """The GPU that predictions are for: the one that measures, the experiment's, or the usual one."""
    if gpu and runs_on(arch, gpu.arch):
        return from_description(gpu)
    return gpu_for(experiment.gpu or arch)


def runs_on(built_for: str, gpu: str) -> bool:
    """Machine code runs on its own compute capability and on later minor versions of it.

    Code for an `a` or `f` target runs on that capability alone (CUDA C++ Programming Guide, binary compatibility).
    """
    wanted, there = built_for.removeprefix("sm_"), gpu.removeprefix("sm_")
    if wanted[-1] in "af":
        return wanted[:-1] == there
    return wanted[:-1] == there[:-1] and int(wanted[-1]) <= int(there[-1])


_STATUS = {
    Stage.PREPARE: Status.LAUNCH_FAILED,
    Stage.LAUNCH: Status.LAUNCH_FAILED,
    Stage.CRASH: Status.LAUNCH_FAILED,
    Stage.VERIFY: Status.VERIFICATION_FAILED,
    Stage.TIMEOUT: Status.TIMED_OUT,
}


def measured(record: VariantRecord, result: JobResult) -> VariantRecord:
    """The record with what became of its job on the GPU."""
    failure = result.failure
    return replace(
        record,
        status=_STATUS[failure.stage] if failure else Status.VERIFIED,
        reason=failure.reason if failure else "",
        verification=result.verification,
        measurement=result.measurement,
    )


def files_of(planned: Planned, outcome: Built | BuildFailure, record: VariantRecord) -> Mapping[str, str | bytes]:
    """The files of a variant's folder."""
    provenance: dict[str, object] = {
        "variant": planned.variant,
        "kernel": record.kernel,
        "template": record.template,
        "parameters": record.parameters,
        "arch": record.arch,
        "options": planned.request.options,
        "entry": planned.launch.entry,
        "lab": __version__,
        "commit": environment.commit(),
        "python": environment.python(),
        "packages": environment.packages(),
    }
    if isinstance(outcome, BuildFailure):
        texts: dict[str, str | bytes] = {"build.log": outcome.log or outcome.reason}
        provenance |= {"command": outcome.command, "failure": outcome.reason}
    else:
        made = outcome.build
        texts = {
            "kernel.ptx": made.ptx,
            "kernel.sass": outcome.disassembly.text,
            "kernel.cubin": made.cubin,
            "build.log": made.log,
        }
        provenance |= {
            "toolchain": made.toolchain,
            "version": made.version,
            "command": made.command,
            "disassembler": outcome.disassembly.version,
            "sass_sha256": outcome.sass_sha256,
            "cached": outcome.cached,
        }
    return {
        "kernel.cu": planned.request.source,
        **texts,
        "provenance.json": json.dumps(provenance, indent=1) + "\n",
    }


def facts_of(
    experiment: Experiment,
    expansion: Expansion,
    *,
    command: str,
    variants: int,
    gpu: GpuDescription | None,
    not_measured: str,
) -> RunRecord:
    """The run's own facts as they are known when it starts."""
    notes = tuple(f"{count} combinations were left out by: {why}." for why, count in expansion.excluded.items())
    return RunRecord(
        experiment=experiment.name,
        question=experiment.question,
        operator=experiment.operator.name,
        problem=dict(experiment.problem),
        source=experiment.text,
        command=command or shlex.join(["python", "-m", "lab", "run", str(experiment.file)]),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        lab_version=__version__,
        commit=environment.commit(),
        python=environment.python(),
        packages=environment.packages(),
        gpu=gpu,
        not_measured=not_measured,
        baseline="",
        swept=experiment.swept,
        variants=variants,
        notes=notes,
    )


def baseline_text(found: BaselineResult | None) -> str:
    """Name, library and kernel of the baseline; empty where there was none."""
    if found is None:
        return ""
    facts = ", ".join(filter(None, [found.library, found.kernel, found.note]))
    return f"{found.name} ({facts})" if facts else found.name
