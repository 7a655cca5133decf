"""Times of kernels at sizes: measured where there is a GPU, else predicted. Each is taken once and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Protocol

from lab.base import interrupts
from lab.base.sizes import AXES, Size, extents
from lab.gpu.process.cards import Cards, Surveyed
from lab.gpu.timing.cache import Flush
from lab.gpu.timing.survey import BASELINE, Entrant, Ground, Survey, SurveyPolicy, room
from lab.hardware.gpus import Gpu
from lab.measured.cards import CardRecord, ControlTiming, standing
from lab.measured.timing import Kind, Samples
from lab.store.tuning import TuningStore
from lab.store.tuning_model import ProblemType, Timed, TimingStage, baseline_id
from lab.tuning.file.schema import TimingModel
from lab.tuning.kernels import Kernel
from lab.tuning.product import product

_WHOLE = 8
"""Elements in the widest copies of 16-bit types, and in two of float32."""

_AHEAD = 2
"""Sizes in a GPU's line: while one is measured, the launches of the next one are computed."""


@dataclass(frozen=True)
class TimingTask:
    """Kernels to time at one size.

    Attributes:
        size: The size.
        kernels: Kernels of one problem type.
        kept: Ids of kernels that get all samples, however slow the first one is.
    """

    size: Size
    kernels: tuple[Kernel, ...]
    kept: frozenset[str] = frozenset()


@dataclass
class Ledger:
    """All known times, in memory and in the store.

    Attributes:
        store: Where they are kept.
        times: Stage to the kernel's id to the size to the time.
    """

    store: TuningStore
    times: dict[TimingStage, dict[str, dict[Size, Timed]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what an unfinished run left."""
        self.times = {stage: self.store.times(stage) for stage in TimingStage}

    def of(self, stage: TimingStage, kernel: str, size: Size) -> Timed | None:
        """Return the time of a kernel, by its id, at a size; None where it is not known."""
        return self.times[stage].get(kernel, {}).get(size)

    def write(self, stage: TimingStage, size: Size, found: dict[str, Timed]) -> None:
        """Keep times at one size, by the kernels' ids."""
        self.store.write_times(stage, size, found)
        for kernel, timed in found.items():
            self.times[stage].setdefault(kernel, {})[size] = timed


class Bench(Protocol):
    """What times kernels: a GPU, or a model of one."""

    @property
    def kind(self) -> Kind:
        """What its times are."""

    @property
    def library(self) -> str:
        """Name and version of the baseline's library; empty until it was timed."""

    def run(
        self, stage: TimingStage, of: ProblemType, tasks: Iterable[TimingTask], *, drop: float | None, baseline: bool
    ) -> None:
        """Write the times that the ledger lacks.

        Args:
            stage: What the times are taken for.
            of: The problem type.
            tasks: Kernels and sizes.
            drop: A kernel whose first sample is more than this share slower than the fastest gets no more samples; None
                takes all samples of all kernels.
            baseline: Time cuBLAS as well.
        """


def _missing(ledger: Ledger, stage: TimingStage, task: TimingTask) -> tuple[Kernel, ...]:
    return tuple(one for one in task.kernels if ledger.of(stage, one.facts.id, task.size) is None)


def _not_timed(kernels: Iterable[Kernel], size: Size, kind: Kind) -> dict[str, Timed]:
    """Kernels that were not built, or do not compute the size, with the reason."""
    reasons = {one.facts.id: one.facts.failure or one.refused(size) for one in kernels}
    return {identity: Timed(None, kind, failure=reason) for identity, reason in reasons.items() if reason}


@dataclass
class PredictedBench:
    """Predicts times by the model of `lab.tuning.predicted`.

    Attributes:
        ledger: Known times.
        gpu: The GPU to predict for.
        done: Called with each size and the number of new times.
    """

    ledger: Ledger
    gpu: Gpu
    done: Callable[[Size, int], None]
    kind: Kind = Kind.PREDICTED
    library: str = ""

    def run(
        self, stage: TimingStage, of: ProblemType, tasks: Iterable[TimingTask], *, drop: float | None, baseline: bool
    ) -> None:
        """See `Bench.run`. There is nothing to drop, and cuBLAS has no prediction."""
        del of, drop, baseline
        for task in tasks:
            interrupts.check()
            missing = _missing(self.ledger, stage, task)
            found = _not_timed(missing, task.size, self.kind)
            for one in missing:
                if one.facts.id not in found:
                    found[one.facts.id] = self._timed(one, task.size)
            if found:
                self.ledger.write(stage, task.size, found)
            self.done(task.size, len(found))

    def _timed(self, one: Kernel, size: Size) -> Timed:
        ms = one.predicted_ms(size, self.gpu)
        if ms is None:
            return Timed(None, self.kind, failure="no block fits on an SM, or the main loop has no fma")
        return Timed(Samples((ms,)), self.kind)


@dataclass(frozen=True)
class _Asked:
    """What a card was asked to time at one size.

    Attributes:
        stage: What the times are taken for.
        of: The problem type.
        task: The task.
        order: The survey.
        home: Id of the card that holds earlier times of this stage at this size; empty where there are none.
    """

    stage: TimingStage
    of: ProblemType
    task: TimingTask
    order: Survey
    home: str


@dataclass
class MeasuredBench:
    """Measures times on one or several GPUs.

    Kernels are compared at one size alone, so each size belongs to one card: whatever a stage times there, it times on
    the card that it began on. Where that card was lost, or another run goes on without it, everything that the
    task asks for at the size is timed again, on one card.

    Attributes:
        ledger: Known times.
        cards: The GPUs.
        timing: How kernels are timed.
        seed: Seed of the inputs.
        done: Called with each size and the number of new times.
        library: Name and version of the baseline's library; empty until it was timed.
        timings: What every card timed at one size, to compare the cards by.
    """

    ledger: Ledger
    cards: Cards
    timing: TimingModel
    seed: int
    done: Callable[[Size, int], None]
    library: str = ""
    kind: Kind = Kind.MEASURED
    timings: list[ControlTiming] = field(default_factory=list)

    def standing(self) -> tuple[CardRecord, ...]:
        """The cards, compared by what each of them timed at the first size; empty where there is one."""
        times = (timed for own in self.ledger.times.values() for sizes in own.values() for timed in sizes.values())
        points = Counter(timed.card for timed in times if timed.card)
        names = {card.id: (card.label, card.host) for card in self.cards.cards}
        cards = [CardRecord(name, *names.get(name, (name, "")), points[name]) for name in sorted({*names, *points})]
        return standing(cards, self.timings) if len(cards) > 1 else ()

    def run(
        self, stage: TimingStage, of: ProblemType, tasks: Iterable[TimingTask], *, drop: float | None, baseline: bool
    ) -> None:
        """See `Bench.run`. Each GPU gets one size after another; times are written in the order in which they come."""
        policy = SurveyPolicy(
            samples=self.timing.samples,
            enough_ms=self.timing.enough_ms,
            drop=drop,
            flush=Flush.of(self.timing.cache),
            verify=self.timing.verify,
            warmup_ms=self.timing.warmup_ms,
            pause_ms=self.timing.pause_ms,
        )
        wanted = list(tasks)
        ground = ground_of(of, wanted, self.seed)
        waiting: dict[Future[Surveyed], _Asked] = {}
        controls: list[Future[Surveyed]] = []
        for task in wanted:
            asked = self._asked(stage, of, task, ground, policy, baseline=baseline)
            if asked is None:
                self.done(task.size, 0)
                continue
            self._submit(waiting, asked)
            controls += self._control(asked, controls)
            while len(waiting) >= _AHEAD * len(self.cards.cards):
                self._take(waiting)
        while waiting:
            self._take(waiting)
        self.timings += (one for future in controls for one in _timings(interrupts.wait(future.result)))

    def _control(self, asked: _Asked, ordered: Sequence[Future[Surveyed]]) -> list[Future[Surveyed]]:
        """Have every card time the first size, once in a run, to compare the cards by."""
        there = self.cards.cards
        if len(there) == 1 or self.timings or ordered:
            return []
        cubins = {one.facts.id: one.cubin for one in asked.task.kernels}
        return [self.cards.survey(asked.order, cubins, card=card.id) for card in there]

    def _asked(
        self,
        stage: TimingStage,
        of: ProblemType,
        task: TimingTask,
        ground: Ground,
        policy: SurveyPolicy,
        *,
        baseline: bool,
    ) -> _Asked | None:
        """What is missing at a size; kernels that cannot be timed are written at once. None where nothing is."""
        ledger, beside = self.ledger, baseline_id(of.label)
        missing = _missing(ledger, stage, task)
        if failed := _not_timed(missing, task.size, self.kind):
            ledger.write(stage, task.size, failed)
        runs = tuple(one for one in missing if one.facts.id not in failed)
        wants_baseline = baseline and ledger.of(stage, beside, task.size) is None
        if not runs and not wants_baseline:
            return None
        home = self._home(stage, of, task)
        if home and home not in {card.id for card in self.cards.cards}:
            unable = _not_timed(task.kernels, task.size, self.kind)
            home, runs, wants_baseline = "", tuple(one for one in task.kernels if one.facts.id not in unable), baseline
        order = Survey(
            ground=ground,
            problem=product(of, task.size),
            entrants=tuple(Entrant(one.facts.id, one.launches(task.size)) for one in runs),
            baseline=wants_baseline,
            policy=policy,
            kept=task.kept,
        )
        return _Asked(stage, of, task, order, home)

    def _home(self, stage: TimingStage, of: ProblemType, task: TimingTask) -> str:
        """Id of the card that timed this task's kernels or the baseline at the task's size."""
        names = (*(one.facts.id for one in task.kernels), baseline_id(of.label))
        known = (self.ledger.of(stage, name, task.size) for name in names)
        return next((timed.card for timed in known if timed is not None and timed.card), "")

    def _submit(self, waiting: dict[Future[Surveyed], _Asked], asked: _Asked) -> None:
        wanted = {one.kernel for one in asked.order.entrants}
        cubins = {one.facts.id: one.cubin for one in asked.task.kernels if one.facts.id in wanted}
        waiting[self.cards.survey(asked.order, cubins, card=asked.home or None)] = asked

    def _take(self, waiting: dict[Future[Surveyed], _Asked]) -> None:
        """Write what is finished; wait until something is."""
        finished = interrupts.wait(wait, waiting, return_when=FIRST_COMPLETED)
        for future in sorted(finished.done, key=list(waiting).index):
            asked, surveyed = waiting.pop(future), future.result()
            if asked.home and surveyed.card != asked.home:  # that card was lost meanwhile
                again = self._asked(
                    asked.stage,
                    asked.of,
                    asked.task,
                    asked.order.ground,
                    asked.order.policy,
                    baseline=asked.order.baseline or self._has_baseline(asked),
                )
                if again is not None:
                    self._submit(waiting, again)
                    continue
            self._write(asked, surveyed)

    def _has_baseline(self, asked: _Asked) -> bool:
        return self.ledger.of(asked.stage, baseline_id(asked.of.label), asked.task.size) is not None

    def _write(self, asked: _Asked, surveyed: Surveyed) -> None:
        found = {}
        for point in surveyed.points:
            name = baseline_id(asked.of.label) if point.kernel == BASELINE else point.kernel
            found[name] = Timed(point.samples, self.kind, point.cache, point.error, point.failure, surveyed.card)
            self.library = point.note or self.library
        self.ledger.write(asked.stage, asked.task.size, found)
        self.done(asked.task.size, len(found))


def _timings(surveyed: Surveyed) -> list[ControlTiming]:
    return [
        ControlTiming(point.kernel, surveyed.card, point.samples.median, point.samples.spread)
        for point in surveyed.points
        if point.samples is not None
    ]


def ground_of(of: ProblemType, tasks: Sequence[TimingTask], seed: int) -> Ground:
    """Return buffers that are large enough for every size of the tasks."""
    sizes = [task.size for task in tasks] or [of.least]
    built = {one.facts.id: one for task in tasks for one in task.kernels if not one.facts.failure}
    scratch = [one for one in built.values() if one.candidate.group.template.declares.workspace]
    workspaces = [
        sum(room(buffer) for buffer in one.launches(size).workspace)
        for size in (_extremes(sizes) if scratch else ())
        for one in scratch
        if not one.refused(size)
    ]
    return Ground(of.dtype, elements_of(sizes), max(workspaces, default=0), seed)


def elements_of(sizes: Sequence[Size]) -> tuple[int, int, int]:
    """Return the elements of A, B and C that are enough for every one of some sizes."""
    each = [(m * k * batch, k * n * batch, m * n * batch) for m, n, k, batch in map(extents, sizes)]
    a, b, c = (max(counts) for counts in zip(*each, strict=True))
    return a, b, c


def _matrix(size: Size, i: int, j: int) -> tuple[int, int]:
    """Return the elements of the matrices with two of a size's dimensions, and the sum of all its dimensions."""
    return size[i] * size[j] * extents(size)[3], sum(size)


def _extremes(sizes: Sequence[Size]) -> frozenset[Size]:
    """Return the sizes at which some kernel's workspace may be the largest.

    It is taken to grow with k, with one of the matrices or with both operands, and with the batch, apart from what may
    depend on which dimensions `_WHOLE` divides, as copies of unaligned operands do.
    """
    found: set[Size] = set()
    classes: dict[tuple[bool, ...], list[Size]] = {}
    for size in dict.fromkeys(sizes):
        classes.setdefault(tuple(dimension % _WHOLE == 0 for dimension in size[: len(AXES)]), []).append(size)
    for own in classes.values():
        found |= {max(own, key=lambda at: _matrix(at, i, j)) for i, j in ((0, 1), (0, 2), (1, 2))}
        found.add(max(own, key=lambda at: (at[2] * extents(at)[3], at[0] * at[1])))
        found.add(max(own, key=lambda at: at[2] * (at[0] + at[1]) * extents(at)[3]))
    return frozenset(found)
