"""Kernel times at sizes: measured on a GPU, else predicted. Each is taken once and stored."""

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
from lab.measured.card_comparison import CardRecord, ControlTiming, standing
from lab.measured.timing import Kind, Samples
from lab.store.tuning import TuningStore
from lab.store.tuning_model import ProblemType, Timed, TimingStage, baseline_id
from lab.tuning.candidate_builds import Kernel
from lab.tuning.file.tuning_schema import TimingModel
from lab.tuning.product import product

_WHOLE = 8
"""Elements in the widest copy of 16-bit types, and in two of float32."""

_AHEAD = 2
"""Sizes queued per GPU: while one is measured, the launches of the next one are prepared."""


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
    """All times, in memory and in the store.

    Attributes:
        store: Where they are kept.
        times: Stage to the kernel's id to the size to the time.
    """

    store: TuningStore
    times: dict[TimingStage, dict[str, dict[Size, Timed]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the times of an unfinished run."""
        self.times = {stage: self.store.times(stage) for stage in TimingStage}

    def of(self, stage: TimingStage, kernel: str, size: Size) -> Timed | None:
        """Return the time of a kernel, by its id, at a size; None if there is none."""
        return self.times[stage].get(kernel, {}).get(size)

    def write(self, stage: TimingStage, size: Size, times: dict[str, Timed]) -> None:
        """Store the times of kernels, by their ids, at one size."""
        self.store.write_times(stage, size, times)
        for kernel, timed in times.items():
            self.times[stage].setdefault(kernel, {})[size] = timed


class Bench(Protocol):
    """An interface that times kernels: on a GPU, or with a model of one."""

    @property
    def kind(self) -> Kind:
        """The kind of its times."""

    @property
    def library(self) -> str:
        """Name and version of the baseline's library; empty before its first time."""

    def run(
        self, stage: TimingStage, of: ProblemType, tasks: Iterable[TimingTask], *, drop: float | None, baseline: bool
    ) -> None:
        """Take the times missing from the ledger and write them to it.

        Args:
            stage: What the times are taken for.
            of: The problem type.
            tasks: Kernels and sizes.
            drop: A kernel whose first sample is more than this share slower than the fastest gets no more samples; None
                takes all samples of all kernels.
            baseline: Time cuBLAS as well.
        """


def _missing(ledger: Ledger, stage: TimingStage, task: TimingTask) -> tuple[Kernel, ...]:
    return tuple(kernel for kernel in task.kernels if ledger.of(stage, kernel.facts.id, task.size) is None)


def _not_timed(kernels: Iterable[Kernel], size: Size, kind: Kind) -> dict[str, Timed]:
    """Return a failed time, with its reason, for each kernel that was not built or does not support the size."""
    reasons = {kernel.facts.id: kernel.facts.failure or kernel.refused(size) for kernel in kernels}
    return {identity: Timed(None, kind, failure=reason) for identity, reason in reasons.items() if reason}


@dataclass
class PredictedBench:
    """A bench that predicts times with the model of `lab.tuning.predicted`.

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
        """Predict the missing times; see `Bench.run`. Nothing is dropped, and cuBLAS has no prediction."""
        del of, drop, baseline
        for task in tasks:
            interrupts.check()
            missing = _missing(self.ledger, stage, task)
            times = _not_timed(missing, task.size, self.kind)
            for kernel in missing:
                if kernel.facts.id not in times:
                    times[kernel.facts.id] = self._timed(kernel, task.size)
            if times:
                self.ledger.write(stage, task.size, times)
            self.done(task.size, len(times))

    def _timed(self, kernel: Kernel, size: Size) -> Timed:
        ms = kernel.predicted_ms(size, self.gpu)
        if ms is None:
            return Timed(None, self.kind, failure="no block fits on an SM, or the main loop has no fma")
        return Timed(Samples((ms,)), self.kind)


@dataclass(frozen=True)
class _Asked:
    """A request to a card to time one size.

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
    """A bench that measures times on one or several GPUs.

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
        """Compare the cards by their times at the first size; empty for a single card."""
        times = (timed for own in self.ledger.times.values() for sizes in own.values() for timed in sizes.values())
        points = Counter(timed.card for timed in times if timed.card)
        names = {card.id: (card.label, card.host) for card in self.cards.cards}
        cards = [CardRecord(name, *names.get(name, (name, "")), points[name]) for name in sorted({*names, *points})]
        return standing(cards, self.timings) if len(cards) > 1 else ()

    def run(
        self, stage: TimingStage, of: ProblemType, tasks: Iterable[TimingTask], *, drop: float | None, baseline: bool
    ) -> None:
        """Measure the missing times; see `Bench.run`. Each GPU gets one size after another."""
        policy = SurveyPolicy(
            samples=self.timing.samples,
            enough_ms=self.timing.enough_ms,
            drop=drop,
            flush=Flush.of(self.timing.cache),
            verify=self.timing.verify,
            warmup_ms=self.timing.warmup_ms,
            pause_ms=self.timing.pause_ms,
        )
        all_tasks = list(tasks)
        ground = ground_of(of, all_tasks, self.seed)
        waiting: dict[Future[Surveyed], _Asked] = {}
        controls: list[Future[Surveyed]] = []
        for task in all_tasks:
            request = self._asked(stage, of, task, ground, policy, baseline=baseline)
            if request is None:
                self.done(task.size, 0)
                continue
            self._submit(waiting, request)
            controls += self._control(request, controls)
            while len(waiting) >= _AHEAD * len(self.cards.cards):
                self._take(waiting)
        while waiting:
            self._take(waiting)
        self.timings += (timing for future in controls for timing in _timings(interrupts.wait(future.result)))

    def _control(self, request: _Asked, ordered: Sequence[Future[Surveyed]]) -> list[Future[Surveyed]]:
        """Time the first size on every card, once per run, to compare the cards."""
        cards = self.cards.cards
        if len(cards) == 1 or self.timings or ordered:
            return []
        cubins = {kernel.facts.id: kernel.cubin for kernel in request.task.kernels}
        return [self.cards.survey(request.order, cubins, card=card.id) for card in cards]

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
        """Return the request for a size's missing times; None if none is missing. Write failed kernels at once."""
        ledger, beside = self.ledger, baseline_id(of.label)
        missing = _missing(ledger, stage, task)
        if failed := _not_timed(missing, task.size, self.kind):
            ledger.write(stage, task.size, failed)
        runs = tuple(kernel for kernel in missing if kernel.facts.id not in failed)
        wants_baseline = baseline and ledger.of(stage, beside, task.size) is None
        if not runs and not wants_baseline:
            return None
        home = self._home(stage, of, task)
        if home and home not in {card.id for card in self.cards.cards}:
            unable = _not_timed(task.kernels, task.size, self.kind)
            home, runs, wants_baseline = (
                "",
                tuple(kernel for kernel in task.kernels if kernel.facts.id not in unable),
                baseline,
            )
        order = Survey(
            ground=ground,
            problem=product(of, task.size),
            entrants=tuple(Entrant(kernel.facts.id, kernel.launches(task.size)) for kernel in runs),
            baseline=wants_baseline,
            policy=policy,
            kept=task.kept,
        )
        return _Asked(stage, of, task, order, home)

    def _home(self, stage: TimingStage, of: ProblemType, task: TimingTask) -> str:
        """Return the id of the card that has timed this task's kernels or the baseline at the task's size."""
        names = (*(kernel.facts.id for kernel in task.kernels), baseline_id(of.label))
        times = (self.ledger.of(stage, name, task.size) for name in names)
        return next((timed.card for timed in times if timed is not None and timed.card), "")

    def _submit(self, waiting: dict[Future[Surveyed], _Asked], request: _Asked) -> None:
        kernel_ids = {entrant.kernel for entrant in request.order.entrants}
        cubins = {kernel.facts.id: kernel.cubin for kernel in request.task.kernels if kernel.facts.id in kernel_ids}
        waiting[self.cards.survey(request.order, cubins, card=request.home or None)] = request

    def _take(self, waiting: dict[Future[Surveyed], _Asked]) -> None:
        """Write the finished requests; wait for at least one."""
        finished = interrupts.wait(wait, waiting, return_when=FIRST_COMPLETED)
        for future in sorted(finished.done, key=list(waiting).index):
            request, surveyed = waiting.pop(future), future.result()
            if request.home and surveyed.card != request.home:  # that card was lost meanwhile
                again = self._asked(
                    request.stage,
                    request.of,
                    request.task,
                    request.order.ground,
                    request.order.policy,
                    baseline=request.order.baseline or self._has_baseline(request),
                )
                if again is not None:
                    self._submit(waiting, again)
                    continue
            self._write(request, surveyed)

    def _has_baseline(self, request: _Asked) -> bool:
        return self.ledger.of(request.stage, baseline_id(request.of.label), request.task.size) is not None

    def _write(self, request: _Asked, surveyed: Surveyed) -> None:
        times = {}
        for point in surveyed.points:
            name = baseline_id(request.of.label) if point.kernel == BASELINE else point.kernel
            times[name] = Timed(point.samples, self.kind, point.cache, point.error, point.failure, surveyed.card)
            self.library = point.note or self.library
        self.ledger.write(request.stage, request.task.size, times)
        self.done(request.task.size, len(times))


def _timings(surveyed: Surveyed) -> list[ControlTiming]:
    return [
        ControlTiming(point.kernel, surveyed.card, point.samples.median, point.samples.spread)
        for point in surveyed.points
        if point.samples is not None
    ]


def ground_of(of: ProblemType, tasks: Sequence[TimingTask], seed: int) -> Ground:
    """Return buffers that are large enough for every task."""
    sizes = [task.size for task in tasks] or [of.least]
    built = {kernel.facts.id: kernel for task in tasks for kernel in task.kernels if not kernel.facts.failure}
    scratch = [kernel for kernel in built.values() if kernel.candidate.group.template.declares.workspace]
    workspaces = [
        sum(room(buffer) for buffer in one.launches(size).workspace)
        for size in (_extremes(sizes) if scratch else ())
        for one in scratch
        if not one.refused(size)
    ]
    return Ground(of.dtype, elements_of(sizes), max(workspaces, default=0), seed)


def elements_of(sizes: Sequence[Size]) -> tuple[int, int, int]:
    """Return the elements of A, B and C that suffice for all given sizes."""
    per_size = [(m * k * batch, k * n * batch, m * n * batch) for m, n, k, batch in map(extents, sizes)]
    a, b, c = (max(counts) for counts in zip(*per_size, strict=True))
    return a, b, c


def _matrix(size: Size, i: int, j: int) -> tuple[int, int]:
    """Return the elements of a matrix over two of a size's dimensions, times the batch, and the size's sum."""
    return size[i] * size[j] * extents(size)[3], sum(size)


def _extremes(sizes: Sequence[Size]) -> frozenset[Size]:
    """Return the sizes with possibly the largest workspace of some kernel.

    It is taken to grow with k, with one of the matrices or with both operands, and with the batch, apart from what may
    depend on which dimensions `_WHOLE` divides, as copies of unaligned operands do.
    """
    extremes: set[Size] = set()
    classes: dict[tuple[bool, ...], list[Size]] = {}
    for size in dict.fromkeys(sizes):
        classes.setdefault(tuple(dimension % _WHOLE == 0 for dimension in size[: len(AXES)]), []).append(size)
    for own in classes.values():
        extremes |= {max(own, key=lambda at: _matrix(at, i, j)) for i, j in ((0, 1), (0, 2), (1, 2))}
        extremes.add(max(own, key=lambda at: (at[2] * extents(at)[3], at[0] * at[1])))
        extremes.add(max(own, key=lambda at: at[2] * (at[0] + at[1]) * extents(at)[3]))
    return frozenset(extremes)
