"""The pipeline: an experiment in, records and a report out. The only module that knows all stages."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from pebble import ProcessExpired, ProcessPool

from lab import __version__, environment, kernels, report
from lab.building import BuildFailure, Built, build, build_task
from lab.emulation import EmulationTask, emulate
from lab.errors import MissingToolError, UserError
from lab.experiment import Expansion, Experiment, expand, load
from lab.gpu.describe import probe
from lab.gpu.job import Argument, BaselineResult, Job, JobResult, Policy, Stage
from lab.gpu.session import GpuSession, remeasure
from lab.limits import Gpu, LaunchFacts, from_description, gpu_for, predict
from lab.measurement import GpuDescription
from lab.plan import Planned, plan, toolchains
from lab.store import BuildRecord, EmulationRecord, LaunchRecord, RunRecord, Status, Store, VariantRecord

EMULATION_TIMEOUT_S = 300.0
"""An emulation that takes longer is stopped; the variant goes on without it, and its row says so."""

BUILD_TIMEOUT_S = 300.0
"""A compiler that takes longer on one variant is stopped, and the variant is a row that says so."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line adds to an experiment.

    Attributes:
        output: Run directory; ``reports/<experiment>`` by default.
        max_variants: Largest sweep to accept.
        jobs: Build processes; the number of usable cores by default.
        measure: Use a GPU where there is one.
        emulate: Execute every variant on the CPU, where the experiment gives a size for it.
        archs: In place of the experiment's, unless empty.
        toolchains: In place of the experiment's, unless empty.
        command: The command that repeats the run, for the record.
    """

    output: Path | None = None
    max_variants: int | None = None
    jobs: int | None = None
    measure: bool = True
    emulate: bool = True
    archs: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()
    command: str = ""


class Observer(Protocol):
    """Whoever shows progress."""

    def planned(self, experiment: Experiment, expansion: Expansion, variants: int, gpu: str) -> None:
        """The work is known; `gpu` is the GPU's name or why none is used."""

    def built(self, planned: Planned, outcome: Built | BuildFailure) -> None:
        """One variant was compiled and inspected, or could not be."""

    def recorded(self, record: VariantRecord) -> None:
        """One variant is finished."""


@dataclass(frozen=True)
class Outcome:
    """What a run left.

    Attributes:
        folder: The run directory.
        run: The run's facts.
        records: Every finished record.
        pages: The report's files.
        interrupted: Ctrl-C ended it early.
    """

    folder: Path
    run: RunRecord
    records: tuple[VariantRecord, ...]
    pages: tuple[Path, ...]
    interrupted: bool

    @property
    def failed(self) -> bool:
        """Some variant did not reach the end of the pipeline."""
        return any(record.status.failed for record in self.records)


@dataclass
class _Bench:
    """What one run holds open while it goes on."""

    experiment: Experiment
    store: Store
    observer: Observer
    session: GpuSession | None
    gpu: GpuDescription | None
    emulate: bool
    notes: list[str] = field(default_factory=list)
    results: dict[str, tuple[int, Job, JobResult]] = field(default_factory=dict)


def run(file: Path, options: Options, observer: Observer) -> Outcome:
    """Run an experiment.

    Raises:
        UserError: the experiment is wrong.
        MissingToolError: there is no compiler or no disassembler.
        StoreError: the run directory cannot be written.
    """
    experiment = load(file)
    experiment = replace(
        experiment,
        archs=options.archs or experiment.archs,
        toolchains=options.toolchains or experiment.toolchains,
    )
    expansion = expand(experiment, max_variants=options.max_variants)
    tools = toolchains(experiment)
    folder = options.output or Path("reports") / experiment.name
    with ExitStack() as stack:
        session, gpu, not_measured = _open_gpu(stack, options.measure)
        planned = plan(experiment, expansion.points, tools, _archs(experiment, gpu))
        store = stack.enter_context(Store(folder, create=True))
        store.clear()
        bench = _Bench(experiment, store, observer, session, gpu, options.emulate)
        facts = _facts(experiment, expansion, options, variants=len(planned), not_measured=not_measured)
        facts = replace(facts, gpu=gpu)
        store.write_run(facts)
        observer.planned(experiment, expansion, len(planned), gpu.name if gpu else not_measured)
        interrupted = False
        try:
            _variants(bench, planned, options.jobs or _cores())
            _remeasure_winner(bench)
        except KeyboardInterrupt:
            interrupted = True
            bench.notes.append(f"The run was interrupted; {len(store.records())} of {len(planned)} variants are here.")
        facts = replace(facts, baseline=_baseline_text(bench), notes=(*facts.notes, *bench.notes))
        store.write_run(facts)
        pages = report.render(store)
        return Outcome(folder, facts, store.records(), pages, interrupted)


def _open_gpu(stack: ExitStack, measure: bool) -> tuple[GpuSession | None, GpuDescription | None, str]:
    if not measure:
        return None, None, "Nothing was measured: --no-gpu was given."
    found = probe()
    if isinstance(found, str):
        return None, None, found
    session = stack.enter_context(GpuSession())
    try:
        return session, session.start(), ""
    except MissingToolError as error:
        return None, None, f"Nothing was measured: {error}"


def _archs(experiment: Experiment, gpu: GpuDescription | None) -> tuple[str, ...]:
    if "native" in experiment.archs and gpu is None:
        raise UserError(
            "the architecture is `native`, and there is no GPU here to ask",
            key="archs",
            accepted="an architecture such as sm_90",
            suggestion="write `archs: [sm_90]` in the experiment, or pass --arch sm_90",
        )
    return tuple(dict.fromkeys(gpu.arch if arch == "native" and gpu else arch for arch in experiment.archs))


def _variants(bench: _Bench, planned: tuple[Planned, ...], jobs: int) -> None:
    """Build and emulate every variant in worker processes; measure each as soon as it is ready."""
    # spawned, not forked: the parent may hold threads and a CUDA library
    pool = ProcessPool(max_workers=min(jobs, len(planned)), context=get_context("spawn"))
    waiting = iter(planned)
    running: dict[Future[Any], tuple[Planned, Built | None]] = {}

    def build_more() -> None:
        # few at a time, so that a variant is emulated and measured before all the others are built
        for one in islice(waiting, 2 * jobs - len(running)):
            running[pool.schedule(build, args=[build_task(one)], timeout=BUILD_TIMEOUT_S)] = (one, None)

    try:
        build_more()
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                one, built = running.pop(future)
                if built is not None:
                    _variant(bench, one, built, _emulated(future, one, bench.experiment))
                    continue
                outcome = _built(future)
                task = _emulation_task(bench, one, outcome)
                if task is None or isinstance(outcome, BuildFailure):
                    _variant(bench, one, outcome, None)
                else:
                    later = pool.schedule(emulate, args=[task, outcome.build.ptx], timeout=EMULATION_TIMEOUT_S)
                    running[later] = (one, outcome)
            build_more()
        pool.close()
    finally:
        pool.stop()
        pool.join()


def _built(future: Future[Any]) -> Built | BuildFailure:
    try:
        outcome: Built | BuildFailure = future.result()
    except TimeoutError:
        return BuildFailure(f"the build took longer than {BUILD_TIMEOUT_S:.0f} s")
    except ProcessExpired as error:
        return BuildFailure(f"the build process ended by itself: {error}")
    return outcome


def _emulation_task(bench: _Bench, planned: Planned, outcome: Built | BuildFailure) -> EmulationTask | None:
    experiment = bench.experiment
    if not bench.emulate or experiment.emulate is None or isinstance(outcome, BuildFailure):
        return None
    hot = outcome.ptx.hot_loop
    return EmulationTask(
        launch=kernels.launch(planned.point.kernel.template, planned.point.parameters, experiment.emulate),
        operator=experiment.operator_reference,
        problem=dict(experiment.emulate),
        seed=experiment.seed,
        hot_loop=hot.label if hot else None,
    )


def _emulated(future: Future[Any], planned: Planned, experiment: Experiment) -> EmulationRecord:
    try:
        done: EmulationRecord = future.result()
    except TimeoutError:
        reason = f"the emulation took longer than {EMULATION_TIMEOUT_S:.0f} s; a smaller `emulate` problem helps"
    except ProcessExpired as error:
        reason = f"the emulating process ended by itself: {error}"
    else:
        return done
    launch = planned.launch
    geometry = LaunchRecord(launch.grid, launch.block, launch.dynamic_shared_bytes)
    return EmulationRecord(dict(experiment.emulate or {}), launch.entry, geometry, unsupported=reason)


def _variant(bench: _Bench, planned: Planned, outcome: Built | BuildFailure, emulation: EmulationRecord | None) -> None:
    bench.observer.built(planned, outcome)
    record = _judged(_inspected(bench, planned, outcome), emulation)
    bench.store.write_files(planned.variant, _files(planned, outcome, record))
    bench.store.write(record, planned.position)
    if isinstance(outcome, Built) and bench.session and bench.gpu and not record.status.failed:
        if _runs_on(planned.request.arch, bench.gpu.arch):
            job = _job(bench.experiment, planned, outcome.build.cubin)
            result = bench.session.run(job, _policy(bench.experiment))
            bench.results[planned.variant] = (planned.position, job, result)
            record = _measured(record, result)
        else:
            note = f"Variants for {planned.request.arch} were not measured: the GPU is {bench.gpu.arch}."
            if note not in bench.notes:
                bench.notes.append(note)
        bench.store.write(record, planned.position)
    bench.observer.recorded(record)


def _judged(record: VariantRecord, emulation: EmulationRecord | None) -> VariantRecord:
    """The record with what the emulator found: a variant with findings is not verified."""
    if emulation is None:
        return record
    record = replace(record, emulation=emulation)
    if emulation.fault:
        return replace(record, status=Status.VERIFICATION_FAILED, reason=emulation.fault)
    return replace(record, status=Status.VERIFIED) if emulation.verification else record


def _inspected(bench: _Bench, planned: Planned, outcome: Built | BuildFailure) -> VariantRecord:
    """The record of a variant that was built, or could not be."""
    experiment, launch = bench.experiment, planned.launch
    flops = experiment.operator.flops(experiment.problem)
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
        flops=flops,
        bytes_moved=experiment.operator.bytes_moved(experiment.problem),
        launch=LaunchRecord(launch.grid, launch.block, launch.dynamic_shared_bytes),
    )
    if isinstance(outcome, BuildFailure):
        return replace(record, status=Status.COMPILE_FAILED, reason=outcome.reason)
    resources = outcome.build.resources[launch.entry]
    return replace(
        record,
        build=BuildRecord(
            toolchain=outcome.build.toolchain,
            version=outcome.build.version,
            command=outcome.build.command,
            resources=resources,
            sass_sha256=outcome.sass_sha256,
            seconds=outcome.build.seconds,
            cached=outcome.cached,
            disassembler=outcome.disassembly.version,
        ),
        ptx=outcome.ptx,
        sass=outcome.sass,
        prediction=predict(
            _target(experiment, planned.request.arch, bench.gpu),
            outcome.sass,
            resources,
            LaunchFacts(math.prod(launch.block), launch.dynamic_shared_bytes, math.prod(launch.grid)),
            flops=flops,
            bytes_moved=record.bytes_moved,
            dtype=str(experiment.operator.fma_dtype(experiment.problem)),
        ),
    )


def _target(experiment: Experiment, arch: str, gpu: GpuDescription | None) -> Gpu:
    """The GPU that predictions are for: the one that measures, the experiment's, or the usual one."""
    if gpu and _runs_on(arch, gpu.arch):
        return from_description(gpu)
    return gpu_for(experiment.gpu or arch)


def _runs_on(built_for: str, gpu: str) -> bool:
    """Machine code runs on its own compute capability and on later minor versions of it.

    Code for an `a` or `f` target runs on that capability alone (CUDA C++ Programming Guide, binary compatibility).
    """
    wanted, there = built_for.removeprefix("sm_"), gpu.removeprefix("sm_")
    if wanted[-1] in "af":
        return wanted[:-1] == there
    return wanted[:-1] == there[:-1] and int(wanted[-1]) <= int(there[-1])


def _job(experiment: Experiment, planned: Planned, cubin: bytes) -> Job:
    launch = planned.launch
    return Job(
        variant=planned.variant,
        cubin=cubin,
        kernel=launch.entry,
        grid=launch.grid,
        block=launch.block,
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        arguments=tuple(Argument(name, kind) for name, kind in launch.arguments),
        operator=experiment.operator_reference,
        problem=dict(experiment.problem),
        seed=experiment.seed,
    )


def _policy(experiment: Experiment) -> Policy:
    return Policy(baseline=next(iter(experiment.baselines), None))


_STATUS = {
    Stage.PREPARE: Status.LAUNCH_FAILED,
    Stage.LAUNCH: Status.LAUNCH_FAILED,
    Stage.CRASH: Status.LAUNCH_FAILED,
    Stage.VERIFY: Status.VERIFICATION_FAILED,
    Stage.TIMEOUT: Status.TIMED_OUT,
}


def _measured(record: VariantRecord, result: JobResult) -> VariantRecord:
    failure = result.failure
    return replace(
        record,
        status=_STATUS[failure.stage] if failure else Status.VERIFIED,
        reason=failure.reason if failure else "",
        verification=result.verification,
        measurement=result.measurement,
    )


def _remeasure_winner(bench: _Bench) -> None:
    """Measure the fastest variant again in a fresh process: a result that does not repeat is no result."""
    ranked = [r for r in bench.store.records() if r.tflops and r.status is Status.VERIFIED]
    if bench.session is None or not ranked:
        return
    best = max(ranked, key=lambda record: record.tflops or 0.0)
    position, job, result = bench.results[best.variant]
    again = remeasure(bench.session, job, result, _policy(bench.experiment))
    bench.store.write(replace(best, measurement=again.measurement), position)


def _files(planned: Planned, outcome: Built | BuildFailure, record: VariantRecord) -> Mapping[str, str | bytes]:
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


def _facts(
    experiment: Experiment, expansion: Expansion, options: Options, *, variants: int, not_measured: str
) -> RunRecord:
    notes = tuple(f"{count} combinations were left out by: {why}." for why, count in expansion.excluded.items())
    return RunRecord(
        experiment=experiment.name,
        question=experiment.question,
        operator=experiment.operator.name,
        problem=dict(experiment.problem),
        source=experiment.text,
        command=options.command or shlex.join(["python", "-m", "lab", "run", str(experiment.file)]),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        lab_version=__version__,
        commit=environment.commit(),
        python=environment.python(),
        packages=environment.packages(),
        gpu=None,
        not_measured=not_measured,
        baseline="",
        swept=experiment.swept,
        variants=variants,
        notes=notes,
    )


def _baseline_text(bench: _Bench) -> str:
    """Name, library and kernel of the baseline, as the first variant that ran beside it found them."""
    found: BaselineResult | None
    found = next((r.baseline for _, _, r in bench.results.values() if r.baseline), None)
    if found is None:
        return ""
    facts = ", ".join(filter(None, [found.library, found.kernel, found.note]))
    return f"{found.name} ({facts})" if facts else found.name


def _cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
