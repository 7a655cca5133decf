"""The pipeline: an experiment in, records and a report out. The only module that knows all stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from lab.base import workers
from lab.experiment.load import Experiment, load
from lab.experiment.schema import ProfileModel
from lab.experiment.space import Expansion, expand, neighbours
from lab.experiment.variants import Planned, plan, toolchains
from lab.gpu.device import describe
from lab.gpu.process.job import JobResult
from lab.gpu.process.line import GpuLine
from lab.gpu.process.session import GpuSession, remeasure
from lab.hardware.gpus import gpu_for
from lab.runs.counters import count
from lab.runs.search import Pruner, leaders
from lab.runs.sweep import Sweep, job_of, policy_of
from lab.stages import records
from lab.stages.build import BuildFailure, Built
from lab.store.database import Store
from lab.store.model import RunRecord, VariantRecord
from lab.store.resume import differing
from lab.toolchain.base import Toolchain

_NO_NATIVE = "`archs: [sm_90]` in the experiment"


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
        profile: Read hardware counters of the best variants; by default where the experiment says so.
        resume: Go on with the run that is in the directory; by default where it is unfinished.
        command: The command that repeats the run, for the record.
        followed: More is to come before the run counts as finished: its repetition.
    """

    output: Path | None = None
    max_variants: int | None = None
    jobs: int | None = None
    measure: bool = True
    emulate: bool = True
    archs: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()
    profile: bool | None = None
    resume: bool | None = None
    command: str = ""
    followed: bool = False


class Observer(Protocol):
    """Whoever shows progress."""

    def planned(self, experiment: Experiment, expansion: Expansion, variants: int, gpu: str) -> None:
        """The work is known; `gpu` is the GPU's name or why none is used."""

    def more(self, variants: int) -> None:
        """A search goes on with so many further variants."""

    def built(self, planned: Planned, outcome: Built | BuildFailure) -> None:
        """One variant was compiled and inspected, or could not be."""

    def recorded(self, record: VariantRecord) -> None:
        """One variant is finished."""

    def counting(self, variants: int) -> None:
        """Hardware counters of so many variants are to be read."""

    def counted(self, variants: int) -> None:
        """Those of so many more were."""


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


def run(file: Path, options: Options, observer: Observer) -> Outcome:
    """Run an experiment.

    Raises:
        UserError: the experiment is wrong.
        MissingToolError: there is no compiler or no disassembler.
        StoreError: the run directory cannot be written, or is in use.
    """
    workers.prepare()
    experiment = load(file)
    experiment = replace(
        experiment,
        archs=options.archs or experiment.archs,
        toolchains=options.toolchains or experiment.toolchains,
        profile=_profile_rules(experiment, asked=options.profile),
    )
    if experiment.gpu:
        gpu_for(experiment.gpu)  # a GPU that is not in the table is told of before anything is built
    expansion = expand(experiment, max_variants=options.max_variants)
    tools = toolchains(experiment)
    folder = options.output or Path("reports") / experiment.name
    with ExitStack() as stack:
        gpu, not_measured = describe.find(measure=options.measure)
        named = (describe.resolve(arch, gpu, key="archs", write=_NO_NATIVE) for arch in experiment.archs)
        archs = tuple(dict.fromkeys(named))
        planned = list(plan(experiment, expansion.points, tools, archs))
        store = stack.enter_context(Store(folder, create=True))
        conditions = records.conditions_of(experiment, gpu, emulated=options.emulate, measured=options.measure)
        done, notes = _earlier(store, conditions, resume=options.resume)
        if not done:
            store.clear()
        earlier = store.noted("facts") or {}
        facts = records.facts_of(
            experiment,
            expansion,
            command=options.command,
            variants=len(planned),
            gpu=gpu,
            not_measured=not_measured,
        )
        facts = replace(facts, notes=(*notes, *facts.notes), **earlier)
        store.note("facts", {"started": facts.started, "command": facts.command})
        store.note("state", {"conditions": conditions, "finished": False})
        store.write_run(facts)
        observer.planned(experiment, expansion, len(planned), gpu.name if gpu else not_measured)
        line = stack.enter_context(GpuLine(GpuSession())) if gpu else None
        sweep = Sweep(
            experiment,
            store,
            observer,
            line,
            gpu,
            options.emulate,
            options.jobs or workers.cores(),
            Pruner(experiment.search.prune) if experiment.search else None,
            done,
            baselines=store.noted("baselines") or {},
            notes=store.noted("notes") or [],
        )
        interrupted = False
        try:
            with sweep:
                facts = _rounds(sweep, planned, tools, archs, facts)
            store.drop_others({one.variant for one in planned})
            _remeasure_winners(sweep, planned)
            if experiment.profile:
                count(sweep, planned, experiment.profile)
        except KeyboardInterrupt:
            interrupted = True
            left = f"The run was interrupted; {store.count()} of {facts.variants} variants are here."
            facts = replace(facts, notes=(*facts.notes, left))
        if sweep.not_measured:
            facts = replace(facts, gpu=None, not_measured=sweep.not_measured)
        facts = replace(facts, baselines=dict(sweep.baselines), notes=(*facts.notes, *sweep.notes))
        store.write_run(facts)
        from lab.report.render import render  # noqa: PLC0415 - takes a second, in which the first builds could begin

        pages = render(store)
        store.note("state", {"conditions": conditions, "finished": not interrupted and not options.followed})
        return Outcome(folder, facts, store.records(), pages, interrupted)


def _profile_rules(experiment: Experiment, *, asked: bool | None) -> ProfileModel | None:
    if asked is None:
        return experiment.profile
    return experiment.profile or ProfileModel.model_validate({}) if asked else None


def _earlier(
    store: Store, conditions: Mapping[str, object], *, resume: bool | None
) -> tuple[dict[str, VariantRecord], tuple[str, ...]]:
    """Records that an earlier run left here and this one need not make again, and what the reader must know.

    Args:
        store: The run directory.
        conditions: Of this run.
        resume: Go on with what is there; None means only if it is unfinished; False never.

    Raises:
        StoreError: going on was asked for, and what is there was made under other conditions.
    """
    notes = (store.damage,) if store.damage else ()
    others = differing(store.noted("state"), conditions, resume=resume, folder=store.folder, made="records were made")
    if others is None:
        return {}, notes
    if not others:
        return store.whole_records(), notes
    return {}, (*notes, f"An unfinished run was here; it had another {others}, and nothing of it was kept.")


def _rounds(
    sweep: Sweep, planned: list[Planned], tools: Sequence[Toolchain], archs: Sequence[str], facts: RunRecord
) -> RunRecord:
    """Run what is planned; in a search then the neighbours of the best, round by round, which are added to it."""
    search = sweep.experiment.search
    sweep.round = None if search is None else 0
    sweep.work(planned)
    refine = search.refine if search else None
    for number in range(1, refine.rounds + 1 if refine else 1):
        best = leaders(sweep.scores.values(), refine.top) if refine else ()
        points = neighbours((planned[one.position].point for one in best), (one.point for one in planned))
        more = plan(sweep.experiment, points, tools, archs, first=len(planned))
        if not more:
            break
        planned += more
        if facts.search:
            searched = replace(facts.search, rounds=(*facts.search.rounds, len(more)))
            facts = replace(facts, variants=len(planned), search=searched)
            sweep.store.write_run(facts)
        sweep.watcher.more(len(more))
        sweep.round = number
        sweep.work(more)
    return facts


def _remeasure_winners(sweep: Sweep, planned: Sequence[Planned]) -> None:
    """Measure the fastest variant of each problem again in a fresh process: what does not repeat is no result."""
    if sweep.line is None:
        return
    policy, fresh = policy_of(sweep.experiment), False
    for winner in leaders(sweep.scores.values(), 1):
        if winner.rate is None:
            continue
        one = planned[winner.position]
        record = sweep.store.record(one.variant)
        if record.measurement is None or record.measurement.remeasured:
            continue  # an earlier, interrupted run came so far
        job = job_of(sweep.experiment, one, sweep.store.read_file(one.variant, "kernel.cubin"))
        first = JobResult(job.variant, record.verification, record.measurement)
        again = sweep.line.ask(partial(remeasure, job=job, result=first, policy=policy, restart=not fresh))
        fresh = True
        sweep.store.write(replace(record, measurement=again.measurement), winner.position)
