"""The pipeline: from an experiment to records and a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from lab.base import interrupts, workers
from lab.base.collecting import uncollected
from lab.base.errors import StoreError, UserError
from lab.experiment.load import load
from lab.experiment.machine import depends, on
from lab.experiment.model import Experiment
from lab.experiment.schema import ProfileModel, SearchModel
from lab.experiment.space import Expansion, Point, expand, neighbours, nothing_left
from lab.experiment.variants import Plan, Planned, plan, toolchains
from lab.gpu.device import describe
from lab.gpu.process import ahead
from lab.gpu.process.cards import Card, Cards
from lab.hardware.calibration import in_use
from lab.hardware.gpus import ambiguity, gpu_for, runs_on
from lab.measured.cards import ControlTiming
from lab.measured.timing import GpuDescription
from lab.predict.variant_scores import lean
from lab.recorded.run_records import RunRecord, Status, VariantRecord
from lab.runs import flow
from lab.runs.ahead import Drawer, drawer
from lab.runs.baselines import BaselineWatch
from lab.runs.controls import Controls, notes_on
from lab.runs.counters import count
from lab.runs.finals import mark_rows, repeat_winners, time_finalists
from lab.runs.flow import FlowContext
from lab.runs.observer import RunObserver, SilentObserver
from lab.runs.recorder import Recorder
from lab.runs.reference import first_that_compiles, note_of
from lab.runs.services import Services
from lab.runs.sweep import Sweep
from lab.search.pruning import Pruner, leaders
from lab.stages.facts import facts_of
from lab.stages.provenance import conditions_of
from lab.store.database import Store, stored_records
from lab.store.previous import keep, kept
from lab.store.resume import differing
from lab.toolchain.base import Toolchain

if TYPE_CHECKING:  # its models import SciPy, which takes longer than reading most experiments
    from lab.search.problem_searches import Asked, Searching

_BEGUN: Final = TypeAdapter(dict[str, str])
_SENTENCES: Final = TypeAdapter(list[str])
_BASELINES: Final = TypeAdapter(dict[str, str])
_CARDS: Final = TypeAdapter(dict[str, list[str]])
_CONTROLS: Final = TypeAdapter(list[ControlTiming])
_NO_NATIVE = "`archs: [sm_90]` in the experiment"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a caller adds to an experiment file.

    Attributes:
        output: Run directory; ``reports/<experiment>`` by default.
        max_variants: Largest number of variants to accept.
        jobs: Worker processes; the number of usable cores by default.
        measure: Measure where there is a GPU.
        emulate: Execute every variant on the CPU, where the experiment gives a size for it.
        whole: Execute the problems themselves there, whatever size the experiment gives.
        archs: Architectures in place of the experiment's, unless empty.
        toolchains: Toolchains in place of the experiment's, unless empty.
        gpus: GPUs to predict for in place of the experiment's, unless empty.
        profile: Read hardware counters of the best variants; by default where the experiment says so.
        resume: Go on with the run that is in the directory; by default where it is unfinished.
        command: The command that repeats the run, for the record.
        cluster: Where it runs: ``local`` takes every GPU of this machine; empty takes the first one.
        gpu_model: Part of the name of the model to measure on; needed where there are several.
        followed: The run does not count as finished when it ends, since its repetition follows.
        held: The outcome holds every record. Otherwise it reads them when they are asked for, which needs no memory
            for those of a large run but finds what a later run in the same directory wrote.
        notes: Sentences that a reader of the report must see.
    """

    output: Path | None = None
    max_variants: int | None = None
    jobs: int | None = None
    measure: bool = True
    emulate: bool = True
    whole: bool = False
    archs: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    profile: bool | None = None
    resume: bool | None = None
    command: str = ""
    cluster: str = ""
    gpu_model: str = ""
    followed: bool = False
    held: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunOutcome:
    """What a run left.

    Attributes:
        folder: The run directory.
        run: The run's facts.
        each: Yields every finished record, in the experiment's order.
        pages: The report's files.
        interrupted: Ctrl-C ended it early.
        previous: Folder of the last finished run of the same directory, or None.
    """

    folder: Path
    run: RunRecord
    each: Callable[[], Iterable[VariantRecord]]
    pages: tuple[Path, ...]
    interrupted: bool
    previous: Path | None = None

    @cached_property
    def records(self) -> tuple[VariantRecord, ...]:
        """Every finished record, read when it is first asked for: ten thousand take 400 MB."""
        with uncollected():
            return tuple(self.each())

    @cached_property
    def lean_records(self) -> tuple[VariantRecord, ...]:
        """The same in half of the memory; see `lab.predict.variant_scores.lean`."""
        with uncollected():
            return tuple(map(lean, vars(self).get("records") or self.each()))

    @property
    def failed(self) -> bool:
        """Some variant did not reach the end of the pipeline."""
        return any(record.status.failed for record in self.lean_records)


def run(
    file: Path, options: RunOptions, observer: RunObserver | None = None, services: Services | None = None
) -> RunOutcome:
    """Run an experiment.

    Args:
        file: The experiment.
        options: What the caller adds to it.
        observer: Receives the progress; nobody by default.
        services: The surroundings; this machine by default.

    Raises:
        UserError: the experiment is wrong.
        MissingToolError: there is no compiler or no disassembler.
        StoreError: the run directory cannot be written, or is in use.
    """
    observer, services = observer or SilentObserver(), services or Services()
    services.prepare()
    if options.measure and services.starts_ahead:
        ahead.prepare()
    asked = _read(file, options, services)
    with ExitStack() as stack:
        store = stack.enter_context(Store(options.output or Path("reports") / asked.experiment.name, create=True))
        conditions = conditions_of(
            asked.experiment,
            asked.gpu,
            emulated=options.emulate,
            measured=options.measure,
            variants=asked.planned.variants,
        )
        done, facts, before = _take_up(store, asked, conditions, options)
        observer.planned(asked.experiment, asked.expansion, len(asked.planned), asked.gpu_text)
        if done:
            observer.resumed(len(done))
        drawing = stack.enter_context(drawer(services.render))
        measuring = stack.enter_context(ExitStack())
        cards = measuring.enter_context(services.cards(asked.cards)) if asked.cards else None
        work = _work(asked, _recorder(asked.experiment, store, observer), cards, facts, emulate=options.emulate)
        work.recorder.first = partial(_get_ready, drawing, another_worker=cards is not None and services.starts_ahead)
        interrupted = False
        try:
            with interrupts.stoppable(lambda: work.recorder.finished > 0):
                _sweep(work, done, services, options.jobs or workers.cores())
                if work.cards is not None:
                    observer.confirming()
                    _finals(work, work.cards)
                if asked.experiment.profile:
                    count(work.recorder, work.cards, work.context, work.planned, read=services.read_counters)
        except KeyboardInterrupt:
            interrupted = True
        facts = _final_facts(work, interrupted=interrupted)
        store.write_run(facts)
        observer.drawing()
        with ThreadPoolExecutor(1) as beside:  # a GPU's worker takes a moment to end
            ended = beside.submit(measuring.close)
            pages = drawing(store)
            ended.result()
        store.note("state", {"conditions": conditions, "finished": not interrupted and not options.followed})
        records = store.records() if options.held else ()
        each = (lambda: records) if options.held else partial(stored_records, store.folder)
        return RunOutcome(store.folder, facts, each, pages, interrupted, before)


def _get_ready(drawing: Drawer, *, another_worker: bool) -> None:
    """Begin what takes a while and is needed after the last record: the report, and the winner's fresh process."""
    drawing.begin()
    if another_worker:
        ahead.prepare()


@dataclass(frozen=True)
class _Asked:
    """An experiment, and what it comes to on this machine.

    Attributes:
        experiment: With the caller's options in place of what the file says.
        expansion: Its points.
        cards: The GPUs that measure, all of one model; none where nothing is measured.
        not_measured: Why there is none; may be empty.
        tools: Its compilers.
        archs: Its architectures, each once, none of them `native`.
        planned: The variants of the expansion.
        searching: The searches of a strategy; None where all points are planned from the beginning.
        places: Of such a search, what it asked for, by variant position.
    """

    experiment: Experiment
    expansion: Expansion
    cards: tuple[Card, ...]
    not_measured: str
    tools: Sequence[Toolchain]
    archs: tuple[str, ...]
    planned: Plan
    searching: Searching | None = None
    places: list[Asked] = field(default_factory=list)

    @property
    def gpu(self) -> GpuDescription | None:
        """What the GPUs are, or None."""
        return self.cards[0].description if self.cards else None

    @property
    def gpu_text(self) -> str:
        """The GPUs' number and name, or why none is used."""
        if self.gpu is None:
            return self.not_measured
        return self.gpu.name if len(self.cards) == 1 else f"{len(self.cards)} x {self.gpu.name}"


def _read(file: Path, options: RunOptions, services: Services) -> _Asked:
    """Read an experiment, look for the GPU, and plan every variant."""
    experiment = load(file)
    experiment = replace(
        experiment,
        archs=options.archs or experiment.archs,
        toolchains=options.toolchains or experiment.toolchains,
        gpu=options.gpus or experiment.gpu,
        profile=_profile_rules(experiment, asked=options.profile),
    )
    if options.whole:
        experiment = replace(experiment, problems=tuple(case.at_full_size() for case in experiment.problems))
    for name in options.gpus:
        gpu_for(name)  # a GPU that is not in the table is reported before anything is built
    in_use()  # and so is a calibration that cannot be read
    strategy = experiment.search if experiment.search and experiment.search.strategy != "random" else None
    with ThreadPoolExecutor(1) as beside:  # a driver takes a moment to start, and so does a compiler
        looking = beside.submit(
            services.find_cards, measure=options.measure, every=bool(options.cluster), model=options.gpu_model
        )
        if depends(experiment):
            experiment = on(experiment, _archs(experiment, looking.result()[0]))
        searching = _searching(experiment, strategy) if strategy else None
        expansion = None if searching else expand(experiment, max_variants=options.max_variants)
        tools = toolchains(experiment)
        cards, not_measured = looking.result()
    archs = _archs(experiment, cards)
    if expansion is not None:
        planned = plan(experiment, expansion.points, tools, archs)
        return _Asked(experiment, expansion, cards, not_measured, tools, archs, planned)
    assert searching is not None  # noqa: S101 - there is one or the other
    first = searching.in_order(searching.candidates if searching.predicts else searching.ask())
    points, planned = _planned(experiment, searching, first, tools, archs, after=0)
    if not points:
        raise nothing_left(experiment)
    expansion = Expansion(points, searching.combinations, {}, len(points))
    return _Asked(experiment, expansion, cards, not_measured, tools, archs, planned, searching, first)


def _archs(experiment: Experiment, cards: Sequence[Card]) -> tuple[str, ...]:
    """Return the architectures, each once, with the cards' own in place of `native`.

    Without a card, `native` and `auto` are the architectures of the GPUs to predict for, where the user named any.

    Raises:
        UserError: An architecture is `native`, and there is neither a card nor a name; or a named GPU runs the code of
            none of the architectures.
    """
    gpu = cards[0].description if cards else None
    own = [gpu_for(name).architecture.arch for name in experiment.gpu]
    archs: list[str] = []
    for arch in experiment.archs:
        if arch in {"auto", "native"} and gpu is None and own:
            archs += own
        else:
            archs.append(describe.resolve(arch, gpu, key="archs", write=_NO_NATIVE))
    for name, arch in zip(experiment.gpu, own, strict=True):
        if gpu is None and not any(runs_on(built, arch) for built in archs):
            raise UserError(
                f"{name} does not run the code of these architectures", at=experiment.at("archs"), key="archs",
                found=", ".join(archs), accepted=f"{arch}, the architecture of {name}",
            )  # fmt: skip
    return tuple(dict.fromkeys(archs))


def _searching(experiment: Experiment, rules: SearchModel) -> Searching:
    from lab.search.problem_searches import Searching  # noqa: PLC0415 - as said above

    return Searching(experiment, rules)


def _planned(
    experiment: Experiment,
    searching: Searching,
    asked: Sequence[Asked],
    tools: Sequence[Toolchain],
    archs: Sequence[str],
    *,
    after: int,
) -> tuple[tuple[Point, ...], Plan]:
    """Plan what searches ask for.

    Args:
        experiment: The experiment.
        searching: Its searches.
        asked: What they ask for.
        tools: Its compiler.
        archs: Its architecture.
        after: Number of variants that were planned before.
    """
    both = [(searching.problem(i).point(place), searching.problem(i).options(place)) for i, place in asked]
    points = [point for point, _ in both if point is not None]
    options = [options for point, options in both if point is not None]
    return tuple(points), plan(experiment, points, tools, archs, first=after, options=options)


def _profile_rules(experiment: Experiment, *, asked: bool | None) -> ProfileModel | None:
    if asked is None:
        return experiment.profile
    return experiment.profile or ProfileModel.model_validate({}) if asked else None


def _take_up(
    store: Store, asked: _Asked, conditions: Mapping[str, object], options: RunOptions
) -> tuple[Mapping[str, VariantRecord], RunRecord, Path | None]:
    """Begin a run, or go on with the unfinished one in its directory.

    Returns:
        Records by variant that need not be made again, the run's facts so far, which are in the store, and where the
        last finished run is kept.

    Raises:
        StoreError: going on was asked for, and the records there were made under other conditions.
    """
    earlier = _run_in(store)
    unrelated = earlier is not None and _is_unrelated(earlier, store.variants(), asked)
    resume = False if unrelated else options.resume
    done, notes = _earlier(store, conditions, resume=resume)
    if not done:
        replaced = kept(store) is not None
        folder = keep(store, unfinished=unrelated)
        if folder is not None and earlier is not None and _differs(earlier, asked.experiment):
            notes = (*notes, _kept_note(earlier, folder, replaced=replaced))
        store.clear()
    facts = facts_of(
        asked.experiment,
        asked.expansion,
        command=options.command,
        variants=len(asked.planned),
        gpu=asked.gpu,
        not_measured=asked.not_measured,
        emulate=options.emulate,
    )
    facts = replace(facts, notes=(*options.notes, *notes, *facts.notes, *_unnamed_gpus(asked)))
    if begun := store.fact(_BEGUN, "facts"):
        facts = replace(facts, started=begun.get("started", facts.started), command=begun.get("command", facts.command))
    store.note("facts", {"started": facts.started, "command": facts.command})
    store.note("state", {"conditions": conditions, "finished": False})
    store.write_run(facts)
    return done, facts, kept(store)


def _run_in(store: Store) -> RunRecord | None:
    """The facts of the run in a directory; None where there is none, or none that this version can read."""
    try:
        return store.run()
    except StoreError:
        return None


def _differs(earlier: RunRecord, experiment: Experiment) -> bool:
    """Return whether an earlier run was of another experiment, or of another text of this one."""
    return (earlier.experiment, earlier.source) != (experiment.name, experiment.text)


def _unnamed_gpus(asked: _Asked) -> Iterator[str]:
    """Yield the architectures of the experiment that several GPUs have, where it names none of them to predict for."""
    for arch in asked.archs:
        measured = asked.gpu is not None and runs_on(arch, asked.gpu.arch)
        if not measured and (note := ambiguity(asked.experiment.gpu, arch)):
            yield note


def _is_unrelated(earlier: RunRecord, recorded: frozenset[str], asked: _Asked) -> bool:
    """Return whether no record of an earlier run can be one of this run: it was of another experiment."""
    if earlier.experiment != asked.experiment.name:
        return True
    return _differs(earlier, asked.experiment) and recorded.isdisjoint(asked.planned.variants)


def _kept_note(earlier: RunRecord, folder: Path, *, replaced: bool) -> str:
    before = ", in place of the run that was kept there" if replaced else ""
    what = f"{earlier.experiment}, started {earlier.started}"
    return f"The directory held a run of another experiment file, {what}. It is kept in {folder}{before}."


def _earlier(
    store: Store, conditions: Mapping[str, object], *, resume: bool | None
) -> tuple[Mapping[str, VariantRecord], tuple[str, ...]]:
    """Records of an earlier run that this one need not make again, and notes for the reader of the report.

    Args:
        store: The run directory.
        conditions: Of this run.
        resume: Go on with what is there; None means only if it is unfinished; False never.

    Raises:
        StoreError: going on was asked for, and the records there were made under other conditions.
    """
    notes = (store.damage,) if store.damage else ()
    others = differing(store.state(), conditions, resume=resume, folder=store.folder, made="records were made")
    if others is None:
        return {}, notes
    if not others:
        return store.whole_records(), notes
    return {}, (*notes, f"An unfinished run was here; it had another {others}, and nothing of it was kept.")


@dataclass
class _Work:
    """A run under way.

    Attributes:
        asked: What it was asked to do.
        context: What is the same for all of its variants.
        recorder: Where its results go.
        cards: The GPUs, or None.
        baselines: Baselines that it met.
        planned: Its variants; a search adds to them.
        facts: Its facts so far.
        controls: Compares the cards; None where one measures.
        not_measured: Why the GPU could not be used after all; may be empty.
    """

    asked: _Asked
    context: FlowContext
    recorder: Recorder
    cards: Cards | None
    baselines: BaselineWatch
    facts: RunRecord
    planned: Plan = field(default_factory=Plan)
    controls: Controls | None = None
    not_measured: str = ""

    def note_controls(self) -> None:
        """Keep the control timings for a run that goes on with this one."""
        if self.controls is not None:
            self.recorder.store.note("controls", self.controls.noted())


def _recorder(experiment: Experiment, store: Store, observer: RunObserver) -> Recorder:
    pruner = Pruner(experiment.search.prune) if experiment.search else None
    sentences = store.fact(_SENTENCES, "notes")
    return Recorder(store, observer, pruner, sentences or [])


def _work(asked: _Asked, recorder: Recorder, cards: Cards | None, facts: RunRecord, *, emulate: bool) -> _Work:
    context = FlowContext(asked.experiment, asked.gpu, emulate, variants=len(asked.planned))
    met = recorder.store.fact(_BASELINES, "baselines")
    work = _Work(asked, context, recorder, cards, BaselineWatch(met or {}), facts, asked.planned)
    if cards is not None:
        earlier = recorder.store.fact(_CARDS, "cards")
        known = {**(earlier or {}), **{card.id: [card.label, card.host] for card in asked.cards}}
        recorder.store.note("cards", known)
        if len(known) > 1:
            timings = recorder.store.fact(_CONTROLS, "controls")
            work.controls = Controls(cards, flow.policy_of(asked.experiment), known, timings or [])
    return work


def _sweep(work: _Work, done: Mapping[str, VariantRecord], services: Services, jobs: int) -> None:
    """Take all variants to their records; of an experiment that changed, drop those that it no longer has."""
    with work.recorder, services.executor(jobs) as executor:
        if not work.context.experiment.operator.has_reference:
            found = first_that_compiles(
                work.context.experiment, work.planned, executor, services.build, work.context.gpu
            )
            work.context = replace(work.context, reference=found)
            work.recorder.note(note_of(found))
        sweep = Sweep(
            work.context,
            work.recorder,
            executor,
            work.cards,
            baselines=work.baselines,
            controls=work.controls,
            function=services.build,
        )
        try:
            _rounds(work, sweep, done)
        finally:
            work.note_controls()
            work.not_measured = sweep.not_measured
            if sweep.not_measured:
                work.cards = None
    work.recorder.store.drop_others(work.planned.variants)


def _finals(work: _Work, cards: Cards) -> None:
    """Compare the cards, mark what differs, let the best variants of several cards meet on one, repeat the winners."""
    if work.controls is not None:
        work.controls.finish()
        work.note_controls()
        found = work.controls.standing()
        work.recorder.note(*notes_on(found))
        mark_rows(work.context, work.recorder, cards, work.planned, found)
        time_finalists(work.context, work.recorder, cards, work.planned, found)
    repeat_winners(work.context, work.recorder, cards, work.planned)


def _rounds(work: _Work, sweep: Sweep, done: Mapping[str, VariantRecord]) -> None:
    """Run what is planned; in a search then the neighbours of the best, round by round, which are added to it."""
    if work.asked.searching is not None:
        _follow(work, sweep, done, work.asked.searching)
        return
    search = work.asked.experiment.search
    refine = search.refine if search else None
    sweep.work(work.planned, done, searched=None if search is None else 0)
    for number in range(1, refine.rounds + 1 if refine else 1):
        slower = {card.id: card.control or 1.0 for card in work.controls.standing()} if work.controls else {}
        best = leaders(work.recorder.scores.values(), refine.top, slower) if refine else ()
        every = work.planned.points
        points = neighbours((every[one.position] for one in best), every)
        more = plan(work.asked.experiment, points, work.asked.tools, work.asked.archs, first=len(work.planned))
        if not more:
            break
        work.planned += more
        if work.facts.search:
            searched = replace(work.facts.search, rounds=(*work.facts.search.rounds, len(more)))
            work.facts = replace(work.facts, variants=len(work.planned), search=searched)
            work.recorder.store.write_run(work.facts)
        work.recorder.observer.more(len(more))
        sweep.work(more, done, searched=number)


def _follow(work: _Work, sweep: Sweep, done: Mapping[str, VariantRecord], searching: Searching) -> None:
    """Measure what a strategy asks for, step by step; before that, build and predict its candidates if it has some."""
    began, recorder, places = time.monotonic(), work.recorder, work.asked.places
    kept = recorder.kept = {}
    measuring = work.cards is not None
    order: list[str] = []
    sweep.work(work.planned, done, searched=0, predict=searching.predicts and measuring)
    if searching.predicts:
        searching.know({places[place]: kept[place] for place in work.planned.positions if place in kept})
        began = time.monotonic()
        if not measuring:
            searching.stop("nothing is measured here, so the candidates are only predicted")
    else:
        _tell(searching, places, work.planned, kept, order, measuring=measuring)
    number, limit = 0, searching.rules.seconds
    positions = {asked: i for i, asked in enumerate(places)}
    while True:
        asked = searching.in_order(searching.ask())
        if asked and limit is not None and time.monotonic() - began > limit:
            searching.stop(f"{limit:g} s were over")
            asked = []
        if not asked:
            break
        number += 1
        new = [one for one in asked if one not in positions]
        if searching.predicts:
            batch = [work.planned[positions[one]] for one in asked if one in positions]
            recorder.observer.more(len(batch))
            sweep.measure(batch, searched=number)
        else:
            asked_for = work.asked
            _, more = _planned(
                asked_for.experiment, searching, new, asked_for.tools, asked_for.archs, after=len(work.planned)
            )
            positions.update({one: planned.position for one, planned in zip(new, more, strict=True)})
            places += new
            work.planned += more
            batch = list(more)
            recorder.observer.more(len(batch))
            sweep.work(more, done, searched=number)
        _tell(searching, places, batch, kept, order, measuring=measuring)
        _note_round(work, searching, order, len(batch))
    _note_round(work, searching, order, 0)


def _tell(
    searching: Searching,
    places: Sequence[Asked],
    batch: Sequence[Planned],
    kept: Mapping[int, VariantRecord],
    order: list[str],
    *,
    measuring: bool,
) -> None:
    """Tell a search what a batch cost; what has no record, as after Ctrl-C, cost nothing yet."""
    found = [one for one in batch if one.position in kept]
    searching.tell({places[one.position]: kept[one.position] for one in found}, measuring=measuring)
    order += [one.variant for one in found if kept[one.position].status is not Status.PRUNED]


def _note_round(work: _Work, searching: Searching, order: Sequence[str], variants: int) -> None:
    """Keep what a search has done so far: a reader sees it, whatever happens next."""
    search = work.facts.search
    assert search is not None  # noqa: S101 - a strategy's run begins with one
    work.facts = replace(
        work.facts,
        variants=len(work.planned),
        search=replace(
            search,
            rounds=(*search.rounds, variants) if variants else search.rounds,
            order=tuple(order),
            endings=tuple(searching.endings),
        ),
    )
    work.recorder.store.write_run(work.facts)


def _final_facts(work: _Work, *, interrupted: bool) -> RunRecord:
    """The run's facts as they are known when it ends."""
    facts = work.facts
    if interrupted:
        finished = work.recorder.store.count()
        left = f"The run was interrupted; {finished} of {facts.variants} variants are here."
        facts = replace(facts, notes=(*facts.notes, left))
    if work.not_measured:
        facts = replace(facts, gpu=None, not_measured=work.not_measured)
    lost = work.cards.notes if work.cards is not None else ()
    notes = (*facts.notes, *work.recorder.notes, *lost, *work.recorder.remarks.notes())
    cards = work.controls.standing() if work.controls is not None else ()
    return replace(facts, baselines=dict(work.baselines.found), notes=notes, cards=cards)
