"""The pipeline from an experiment to records and a report."""

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
from lab.measured.card_comparison import ControlTiming
from lab.measured.timing import GpuDescription
from lab.predict.variant_scores import lean
from lab.recorded.run_records import RunRecord, Status, VariantRecord
from lab.runs import flow
from lab.runs.ahead import Drawer, drawer
from lab.runs.baseline_checks import BaselineWatch
from lab.runs.controls import Controls, notes_on
from lab.runs.counter_reading import count
from lab.runs.finals import mark_rows, repeat_winners, time_finalists
from lab.runs.flow import FlowContext
from lab.runs.observer import RunObserver
from lab.runs.recorder import Recorder
from lab.runs.reference import first_that_compiles, note_of
from lab.runs.services import Services
from lab.runs.sweep import Sweep
from lab.search.pruning import Pruner, leaders
from lab.stages.provenance import conditions_of
from lab.stages.run_facts import facts_of
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
    """Options a caller adds to an experiment file.

    Attributes:
        output: Run directory; ``reports/<experiment>`` by default.
        max_variants: Largest number of variants to accept.
        jobs: Worker processes; the number of usable cores by default.
        measure: Measure where there is a GPU.
        emulate: Emulate every variant, where the experiment gives a size for it.
        whole: Emulate the full problems, whatever size the experiment gives.
        archs: Architectures in place of the experiment's, unless empty.
        toolchains: Toolchains in place of the experiment's, unless empty.
        gpus: GPUs to predict for in place of the experiment's, unless empty.
        profile: Read hardware counters of the best variants; by default where the experiment says so.
        resume: Go on with the run that is in the directory; by default where it is unfinished.
        command: The command that repeats the run, for the record.
        cluster: Where it runs: ``local`` takes every GPU of this machine; empty takes the first one.
        gpu_model: Part of the name of the model to measure on; needed where there are several.
        followed: The run does not count as finished when it ends, since its repetition follows.
        held: The outcome holds every record. Otherwise it reads them on access, which saves memory for a
            large run but sees what a later run in the same directory wrote.
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
    """The outcome of a run.

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
        """Every finished record, read on first access: ten thousand take 400 MB."""
        with uncollected():
            return tuple(self.each())

    @cached_property
    def lean_records(self) -> tuple[VariantRecord, ...]:
        """The same records in half of the memory; see `lab.store.scores.lean`."""
        with uncollected():
            return tuple(map(lean, vars(self).get("records") or self.each()))

    @property
    def failed(self) -> bool:
        """True where a variant did not reach the end of the pipeline."""
        return any(record.status.failed for record in self.lean_records)


def run(
    file: Path, options: RunOptions, observer: RunObserver | None = None, services: Services | None = None
) -> RunOutcome:
    """Run an experiment.

    Args:
        file: The experiment.
        options: What the caller adds to it.
        observer: Receives the progress; none by default.
        services: The environment; this machine by default.

    Raises:
        UserError: the experiment is wrong.
        MissingToolError: there is no compiler or no disassembler.
        StoreError: the run directory cannot be written, or is in use.
    """
    observer, services = observer or RunObserver(), services or Services()
    services.prepare()
    if options.measure and services.starts_ahead:
        ahead.prepare()
    request = _read(file, options, services)
    with ExitStack() as stack:
        store = stack.enter_context(Store(options.output or Path("reports") / request.experiment.name, create=True))
        conditions = conditions_of(
            request.experiment,
            request.gpu,
            emulated=options.emulate,
            measured=options.measure,
            variants=request.planned.variants,
        )
        finished, facts, before = _take_up(store, request, conditions, options)
        observer.planned(request.experiment, request.expansion, len(request.planned), request.gpu_text)
        if finished:
            observer.resumed(len(finished))
        drawing = stack.enter_context(drawer(services.render))
        measuring = stack.enter_context(ExitStack())
        cards = measuring.enter_context(services.cards(request.cards)) if request.cards else None
        work = _work(request, _recorder(request.experiment, store, observer), cards, facts, emulate=options.emulate)
        work.recorder.first = partial(_get_ready, drawing, another_worker=cards is not None and services.starts_ahead)
        interrupted = False
        try:
            with interrupts.stoppable(lambda: work.recorder.finished > 0):
                _sweep(work, finished, services, options.jobs or workers.cores())
                if work.cards is not None:
                    observer.confirming()
                    _finals(work, work.cards)
                if request.experiment.profile:
                    count(work.recorder, work.cards, work.context, work.planned, read_counters=services.read_counters)
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
        read_records = (lambda: records) if options.held else partial(stored_records, store.folder)
        return RunOutcome(store.folder, facts, read_records, pages, interrupted, before)


def _get_ready(drawing: Drawer, *, another_worker: bool) -> None:
    """Start slow preparations for the end of the run: the report, and the winner's fresh process."""
    drawing.begin()
    if another_worker:
        ahead.prepare()


@dataclass(frozen=True)
class _Asked:
    """An experiment resolved for this machine.

    Attributes:
        experiment: With the caller's options in place of what the file says.
        expansion: Its points.
        cards: The GPUs that measure, all of one model; none where nothing is measured.
        not_measured: Why there are none; may be empty.
        tools: Its compilers.
        archs: Its architectures, each once, none of them `native`.
        planned: The variants of the expansion.
        searching: The searches of a strategy; None where all points are planned from the beginning.
        places: The requests of such a search, by variant position.
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
        """The GPUs' description, or None."""
        return self.cards[0].description if self.cards else None

    @property
    def gpu_text(self) -> str:
        """The number and name of the GPUs, or why none is used."""
        if self.gpu is None:
            return self.not_measured
        return self.gpu.name if len(self.cards) == 1 else f"{len(self.cards)} x {self.gpu.name}"


def _read(file: Path, options: RunOptions, services: Services) -> _Asked:
    """Read an experiment, find the GPU and plan every variant."""
    experiment = load(file)
    experiment = replace(
        experiment,
        archs=options.archs or experiment.archs,
        toolchains=options.toolchains or experiment.toolchains,
        gpu=options.gpus or experiment.gpu,
        profile=_profile_rules(experiment, requested=options.profile),
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
    """Return the distinct architectures, with `native` resolved to the cards' own.

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
                f"{name} does not run the code of these architectures", code="wrong-value",
                at=experiment.at("archs"), key="archs",
                found=", ".join(archs), accepted=f"{arch}, the architecture of {name}",
            )  # fmt: skip
    return tuple(dict.fromkeys(archs))


def _searching(experiment: Experiment, rules: SearchModel) -> Searching:
    from lab.search.problem_searches import Searching  # noqa: PLC0415 - as said above

    return Searching(experiment, rules)


def _planned(
    experiment: Experiment,
    searching: Searching,
    requests: Sequence[Asked],
    tools: Sequence[Toolchain],
    archs: Sequence[str],
    *,
    after: int,
) -> tuple[tuple[Point, ...], Plan]:
    """Plan the variants that searches ask for.

    Args:
        experiment: The experiment.
        searching: Its searches.
        requests: What they ask for.
        tools: Its compiler.
        archs: Its architecture.
        after: Number of variants that were planned before.
    """
    pairs = [(searching.problem(i).point(place), searching.problem(i).options(place)) for i, place in requests]
    points = [point for point, _ in pairs if point is not None]
    options = [options for point, options in pairs if point is not None]
    return tuple(points), plan(experiment, points, tools, archs, first=after, options=options)


def _profile_rules(experiment: Experiment, *, requested: bool | None) -> ProfileModel | None:
    if requested is None:
        return experiment.profile
    return experiment.profile or ProfileModel.model_validate({}) if requested else None


def _take_up(
    store: Store, request: _Asked, conditions: Mapping[str, object], options: RunOptions
) -> tuple[Mapping[str, VariantRecord], RunRecord, Path | None]:
    """Start a run, or resume the unfinished one in its directory.

    Returns:
        Reusable records by variant, the run's facts so far, which are in the store, and the folder of the last
        finished run.

    Raises:
        StoreError: going on was asked for, and the records there were made under other conditions.
    """
    earlier = _run_in(store)
    unrelated = earlier is not None and _is_unrelated(earlier, store.variants(), request)
    resume = False if unrelated else options.resume
    finished, notes = _earlier(store, conditions, resume=resume)
    if not finished:
        replaced = kept(store) is not None
        folder = keep(store, unfinished=unrelated)
        if folder is not None and earlier is not None and _differs(earlier, request.experiment):
            notes = (*notes, _kept_note(earlier, folder, replaced=replaced))
        store.clear()
    facts = facts_of(
        request.experiment,
        request.expansion,
        command=options.command,
        variants=len(request.planned),
        gpu=request.gpu,
        not_measured=request.not_measured,
        emulate=options.emulate,
    )
    facts = replace(facts, notes=(*options.notes, *notes, *facts.notes, *_unnamed_gpus(request)))
    if first_facts := store.fact(_BEGUN, "facts"):
        facts = replace(
            facts, started=first_facts.get("started", facts.started), command=first_facts.get("command", facts.command)
        )
    store.note("facts", {"started": facts.started, "command": facts.command})
    store.note("state", {"conditions": conditions, "finished": False})
    store.write_run(facts)
    return finished, facts, kept(store)


def _run_in(store: Store) -> RunRecord | None:
    """Return the facts of the run in a directory; None where this version can read none."""
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


def _is_unrelated(earlier: RunRecord, recorded: frozenset[str], request: _Asked) -> bool:
    """Return whether an earlier run was of another experiment, so that none of its records fits this one."""
    if earlier.experiment != request.experiment.name:
        return True
    return _differs(earlier, request.experiment) and recorded.isdisjoint(request.planned.variants)


def _kept_note(earlier: RunRecord, folder: Path, *, replaced: bool) -> str:
    before = ", in place of the run that was kept there" if replaced else ""
    description = f"{earlier.experiment}, started {earlier.started}"
    return f"The directory held a run of another experiment file, {description}. It is kept in {folder}{before}."


def _earlier(
    store: Store, conditions: Mapping[str, object], *, resume: bool | None
) -> tuple[Mapping[str, VariantRecord], tuple[str, ...]]:
    """Return the reusable records of an earlier run, and notes for the report.

    Args:
        store: The run directory.
        conditions: Of this run.
        resume: Go on with what is there; None means only if it is unfinished; False never.

    Raises:
        StoreError: going on was asked for, and the records there were made under other conditions.
    """
    notes = (store.damage,) if store.damage else ()
    differences = differing(store.state(), conditions, resume=resume, folder=store.folder, content="records were made")
    if differences is None:
        return {}, notes
    if not differences:
        return store.whole_records(), notes
    return {}, (*notes, f"An unfinished run was here; it had another {differences}, and none of it was kept.")


@dataclass
class _Work:
    """The state of a run.

    Attributes:
        asked: What it was asked to do.
        context: Data shared by all of its variants.
        recorder: Where its results go.
        cards: The GPUs, or None.
        baselines: Baselines seen so far.
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
        """Save the control timings for a run that resumes this one."""
        if self.controls is not None:
            self.recorder.store.note("controls", self.controls.noted())


def _recorder(experiment: Experiment, store: Store, observer: RunObserver) -> Recorder:
    pruner = Pruner(experiment.search.prune) if experiment.search else None
    sentences = store.fact(_SENTENCES, "notes")
    return Recorder(store, observer, pruner, sentences or [])


def _work(request: _Asked, recorder: Recorder, cards: Cards | None, facts: RunRecord, *, emulate: bool) -> _Work:
    context = FlowContext(request.experiment, request.gpu, emulate, variants=len(request.planned))
    baselines = recorder.store.fact(_BASELINES, "baselines")
    work = _Work(request, context, recorder, cards, BaselineWatch(baselines or {}), facts, request.planned)
    if cards is not None:
        earlier = recorder.store.fact(_CARDS, "cards")
        names = {**(earlier or {}), **{card.id: [card.label, card.host] for card in request.cards}}
        recorder.store.note("cards", names)
        if len(names) > 1:
            timings = recorder.store.fact(_CONTROLS, "controls")
            work.controls = Controls(cards, flow.policy_of(request.experiment), names, timings or [])
    return work


def _sweep(work: _Work, finished: Mapping[str, VariantRecord], services: Services, jobs: int) -> None:
    """Run all variants to their records; drop those a changed experiment no longer has."""
    with work.recorder, services.executor(jobs) as executor:
        if not work.context.experiment.operator.has_reference:
            reference = first_that_compiles(
                work.context.experiment, work.planned, executor, services.build, work.context.gpu
            )
            work.context = replace(work.context, reference=reference)
            work.recorder.note(note_of(reference))
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
            _rounds(work, sweep, finished)
        finally:
            work.note_controls()
            work.not_measured = sweep.not_measured
            if sweep.not_measured:
                work.cards = None
    work.recorder.store.drop_others(work.planned.variants)


def _finals(work: _Work, cards: Cards) -> None:
    """Compare the cards, mark differing ones, run finals on one card and repeat the winners."""
    if work.controls is not None:
        work.controls.finish()
        work.note_controls()
        compared = work.controls.standing()
        work.recorder.note(*notes_on(compared))
        mark_rows(work.context, work.recorder, cards, work.planned, compared)
        time_finalists(work.context, work.recorder, cards, work.planned, compared)
    repeat_winners(work.context, work.recorder, cards, work.planned)


def _rounds(work: _Work, sweep: Sweep, finished: Mapping[str, VariantRecord]) -> None:
    """Run the planned variants, then in a search the neighbours of the best, round by round."""
    if work.asked.searching is not None:
        _follow(work, sweep, finished, work.asked.searching)
        return
    search = work.asked.experiment.search
    refine = search.refine if search else None
    sweep.work(work.planned, finished, searched=None if search is None else 0)
    for number in range(1, refine.rounds + 1 if refine else 1):
        slower = {card.id: card.control or 1.0 for card in work.controls.standing()} if work.controls else {}
        best = leaders(work.recorder.scores.values(), refine.top, slower) if refine else ()
        every = work.planned.points
        points = neighbours((every[rank.position] for rank in best), every)
        batch = plan(work.asked.experiment, points, work.asked.tools, work.asked.archs, first=len(work.planned))
        if not batch:
            break
        work.planned += batch
        if work.facts.search:
            searched = replace(work.facts.search, rounds=(*work.facts.search.rounds, len(batch)))
            work.facts = replace(work.facts, variants=len(work.planned), search=searched)
            work.recorder.store.write_run(work.facts)
        work.recorder.observer.more(len(batch))
        sweep.work(batch, finished, searched=number)


def _follow(work: _Work, sweep: Sweep, finished: Mapping[str, VariantRecord], searching: Searching) -> None:
    """Measure what a strategy asks for, step by step, after building and predicting any candidates."""
    began, recorder, places = time.monotonic(), work.recorder, work.asked.places
    records = recorder.kept = {}
    measuring = work.cards is not None
    order: list[str] = []
    sweep.work(work.planned, finished, searched=0, predict=searching.predicts and measuring)
    if searching.predicts:
        searching.know({places[place]: records[place] for place in work.planned.positions if place in records})
        began = time.monotonic()
        if not measuring:
            searching.stop("nothing is measured here, so the candidates are only predicted")
    else:
        _tell(searching, places, work.planned, records, order, measuring=measuring)
    number, limit = 0, searching.rules.seconds
    positions = {request: i for i, request in enumerate(places)}
    while True:
        requests = searching.in_order(searching.ask())
        if requests and limit is not None and time.monotonic() - began > limit:
            searching.stop(f"{limit:g} s had passed")
            requests = []
        if not requests:
            break
        number += 1
        new = [request for request in requests if request not in positions]
        if searching.predicts:
            batch = [work.planned[positions[request]] for request in requests if request in positions]
            recorder.observer.more(len(batch))
            sweep.measure(batch, searched=number)
        else:
            asked_for = work.asked
            _, added = _planned(
                asked_for.experiment, searching, new, asked_for.tools, asked_for.archs, after=len(work.planned)
            )
            positions.update({request: planned.position for request, planned in zip(new, added, strict=True)})
            places += new
            work.planned += added
            batch = list(added)
            recorder.observer.more(len(batch))
            sweep.work(added, finished, searched=number)
        _tell(searching, places, batch, records, order, measuring=measuring)
        _note_round(work, searching, order, len(batch))
    _note_round(work, searching, order, 0)


def _tell(
    searching: Searching,
    places: Sequence[Asked],
    batch: Sequence[Planned],
    records: Mapping[int, VariantRecord],
    order: list[str],
    *,
    measuring: bool,
) -> None:
    """Tell a search the costs of a batch; variants without a record, as after Ctrl-C, are skipped."""
    recorded = [planned for planned in batch if planned.position in records]
    searching.tell({places[planned.position]: records[planned.position] for planned in recorded}, measuring=measuring)
    order += [planned.variant for planned in recorded if records[planned.position].status is not Status.PRUNED]


def _note_round(work: _Work, searching: Searching, order: Sequence[str], variants: int) -> None:
    """Save the progress of a search, visible to readers whatever happens next."""
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
    """Return the run's facts at its end."""
    facts = work.facts
    if interrupted:
        finished = work.recorder.store.count()
        note = f"The run was interrupted; {finished} of {facts.variants} variants are finished."
        facts = replace(facts, notes=(*facts.notes, note))
    if work.not_measured:
        facts = replace(facts, gpu=None, not_measured=work.not_measured)
    lost = work.cards.notes if work.cards is not None else ()
    notes = (*facts.notes, *work.recorder.notes, *lost, *work.recorder.remarks.notes())
    cards = work.controls.standing() if work.controls is not None else ()
    return replace(facts, baselines=dict(work.baselines.found), notes=notes, cards=cards)
