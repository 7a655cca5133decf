"""The pipeline: an experiment in, records and a report out. The only module that knows all stages."""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from pebble import ProcessExpired, ProcessPool

from lab import kernels, records, report
from lab.building import BuildFailure, Built, build, build_task
from lab.emulation import EmulationTask, emulate, not_executed
from lab.errors import MissingToolError, UserError
from lab.experiment import Expansion, Experiment, expand, load
from lab.gpu.describe import probe
from lab.gpu.job import Argument, BaselineResult, Job, JobResult, Policy
from lab.gpu.session import GpuSession, remeasure
from lab.limits import gpu_for
from lab.measurement import GpuDescription
from lab.plan import Planned, plan, toolchains
from lab.store import EmulationRecord, RunRecord, Status, Store, VariantRecord

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

    @property
    def baseline(self) -> BaselineResult | None:
        """The baseline, as the first variant that ran beside it found it."""
        return next((r.baseline for _, _, r in self.results.values() if r.baseline), None)


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
    if experiment.gpu:
        gpu_for(experiment.gpu)  # a GPU that is not in the table is told of before anything is built
    expansion = expand(experiment, max_variants=options.max_variants)
    tools = toolchains(experiment)
    folder = options.output or Path("reports") / experiment.name
    with ExitStack() as stack:
        session, gpu, not_measured = _open_gpu(stack, options.measure)
        planned = plan(experiment, expansion.points, tools, _archs(experiment, gpu))
        store = stack.enter_context(Store(folder, create=True))
        store.clear()
        bench = _Bench(experiment, store, observer, session, gpu, options.emulate)
        facts = records.facts_of(
            experiment,
            expansion,
            command=options.command,
            variants=len(planned),
            gpu=gpu,
            not_measured=not_measured,
        )
        store.write_run(facts)
        observer.planned(experiment, expansion, len(planned), gpu.name if gpu else not_measured)
        interrupted = False
        try:
            _variants(bench, planned, options.jobs or _cores())
            _remeasure_winner(bench)
        except KeyboardInterrupt:
            interrupted = True
            bench.notes.append(f"The run was interrupted; {len(store.records())} of {len(planned)} variants are here.")
        facts = replace(facts, baseline=records.baseline_text(bench.baseline), notes=(*facts.notes, *bench.notes))
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
    building: dict[Future[Any], Planned] = {}
    emulating: dict[Future[Any], tuple[Planned, Built, EmulationTask]] = {}

    def build_more() -> None:
        # few at a time, so that a variant is emulated and measured before all the others are built
        for one in islice(waiting, 2 * jobs - len(building) - len(emulating)):
            building[pool.schedule(build, args=[build_task(one)], timeout=BUILD_TIMEOUT_S)] = one

    try:
        build_more()
        while building or emulating:
            for future in wait([*building, *emulating], return_when=FIRST_COMPLETED).done:
                if future in emulating:
                    one, built, task = emulating.pop(future)
                    _variant(bench, one, built, _emulated(future, task))
                    continue
                one = building.pop(future)
                outcome = _built(future)
                bench.observer.built(one, outcome)
                if isinstance(outcome, Built) and (work := _emulation_task(bench, one, outcome)):
                    later = pool.schedule(emulate, args=[work, outcome.build.ptx], timeout=EMULATION_TIMEOUT_S)
                    emulating[later] = (one, outcome, work)
                else:
                    _variant(bench, one, outcome, None)
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


def _emulation_task(bench: _Bench, planned: Planned, built: Built) -> EmulationTask | None:
    experiment = bench.experiment
    if not bench.emulate or experiment.emulate is None:
        return None
    hot = built.ptx.hot_loop
    return EmulationTask(
        launch=kernels.launch(planned.point.kernel.template, planned.point.parameters, experiment.emulate),
        operator=experiment.operator_reference,
        problem=dict(experiment.emulate),
        seed=experiment.seed,
        hot_loop=hot.label if hot else None,
    )


def _emulated(future: Future[Any], task: EmulationTask) -> EmulationRecord:
    try:
        done: EmulationRecord = future.result()
    except TimeoutError:
        return not_executed(
            task, f"the emulation took longer than {EMULATION_TIMEOUT_S:.0f} s; a smaller `emulate` problem helps"
        )
    except ProcessExpired as error:
        return not_executed(task, f"the emulating process ended by itself: {error}")
    return done


def _variant(bench: _Bench, planned: Planned, outcome: Built | BuildFailure, emulation: EmulationRecord | None) -> None:
    record = records.inspected(bench.experiment, planned, outcome, bench.gpu)
    record = records.judged(record, emulation)
    bench.store.write_files(planned.variant, records.files_of(planned, outcome, record))
    bench.store.write(record, planned.position)
    if isinstance(outcome, Built) and bench.session and bench.gpu and not record.status.failed:
        if records.runs_on(planned.request.arch, bench.gpu.arch):
            job = _job(bench.experiment, planned, outcome.build.cubin)
            result = bench.session.run(job, _policy(bench.experiment))
            bench.results[planned.variant] = (planned.position, job, result)
            record = records.measured(record, result)
        else:
            note = f"Variants for {planned.request.arch} were not measured: the GPU is {bench.gpu.arch}."
            if note not in bench.notes:
                bench.notes.append(note)
        bench.store.write(record, planned.position)
    bench.observer.recorded(record)


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


def _remeasure_winner(bench: _Bench) -> None:
    """Measure the fastest variant again in a fresh process: a result that does not repeat is no result."""
    ranked = [r for r in bench.store.records() if r.throughput and r.status is Status.VERIFIED]
    if bench.session is None or not ranked:
        return
    best = max(ranked, key=lambda record: record.throughput or 0.0)
    position, job, result = bench.results[best.variant]
    again = remeasure(bench.session, job, result, _policy(bench.experiment))
    bench.store.write(replace(best, measurement=again.measurement), position)


def _cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
