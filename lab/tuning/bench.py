"""Times of kernels at sizes: measured where there is a GPU, else predicted. Each is taken once and kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from lab.base.sizes import Size
from lab.gpu.process.cards import Cards, Surveyed
from lab.gpu.timing.cache import Flush
from lab.gpu.timing.survey import BASELINE, Entrant, Ground, Survey, SurveyPolicy, room
from lab.hardware.gpus import Gpu
from lab.measured.timing import Kind, Samples
from lab.store.tuning import TuningStore
from lab.store.tuning_model import ProblemType, Timed, TimingStage, baseline_id
from lab.tuning.file.schema import TimingModel
from lab.tuning.kernels import Kernel
from lab.tuning.product import product

_AHEAD = 2
"""Sizes in the GPU's line: while one is measured, the launches of the next one are computed."""


@dataclass(frozen=True)
class TimingTask:
    """Kernels to time at one size.

    Attributes:
        size: m, n, k.
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


def _not_built(kernels: Iterable[Kernel], kind: Kind) -> dict[str, Timed]:
    return {one.facts.id: Timed(None, kind, failure=one.facts.failure) for one in kernels if one.facts.failure}


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
            missing = _missing(self.ledger, stage, task)
            found = _not_built(missing, self.kind)
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


@dataclass
class MeasuredBench:
    """Measures times on a GPU.

    Attributes:
        ledger: Known times.
        cards: The GPUs.
        timing: How kernels are timed.
        seed: Seed of the inputs.
        done: Called with each size and the number of new times.
        library: Name and version of the baseline's library; empty until it was timed.
    """

    ledger: Ledger
    cards: Cards
    timing: TimingModel
    seed: int
    done: Callable[[Size, int], None]
    library: str = ""
    kind: Kind = Kind.MEASURED

    def run(
        self, stage: TimingStage, of: ProblemType, tasks: Iterable[TimingTask], *, drop: float | None, baseline: bool
    ) -> None:
        """See `Bench.run`. The GPU gets one size after another."""
        policy = SurveyPolicy(
            samples=self.timing.samples,
            enough_ms=self.timing.enough_ms,
            drop=drop,
            flush=Flush.of(self.timing.cache),
            verify=self.timing.verify,
            warmup_ms=self.timing.warmup_ms,
        )
        wanted = list(tasks)
        ground = ground_of(of, wanted, self.seed)
        waiting: deque[tuple[Size, Future[Surveyed]]] = deque()
        for task in wanted:
            missing = _missing(self.ledger, stage, task)
            failed = _not_built(missing, self.kind)
            if failed:
                self.ledger.write(stage, task.size, failed)
            runs = tuple(one for one in missing if one.facts.id not in failed)
            beside = baseline and self.ledger.of(stage, baseline_id(of.label), task.size) is None
            if not runs and not beside:
                self.done(task.size, 0)
                continue
            order = Survey(
                ground=ground,
                problem=product(of, task.size),
                entrants=tuple(Entrant(one.facts.id, one.launches(task.size)) for one in runs),
                baseline=beside,
                policy=policy,
                kept=task.kept,
            )
            waiting.append((task.size, self.cards.survey(order, {one.facts.id: one.cubin for one in runs})))
            if len(waiting) >= _AHEAD:
                self._take(stage, of, *waiting.popleft())
        while waiting:
            self._take(stage, of, *waiting.popleft())

    def _take(self, stage: TimingStage, of: ProblemType, size: Size, future: Future[Surveyed]) -> None:
        found = {}
        for point in future.result().points:
            name = baseline_id(of.label) if point.kernel == BASELINE else point.kernel
            found[name] = Timed(point.samples, self.kind, point.cache, point.error, point.failure)
            self.library = point.note or self.library
        self.ledger.write(stage, size, found)
        self.done(size, len(found))


def ground_of(of: ProblemType, tasks: Sequence[TimingTask], seed: int) -> Ground:
    """Return buffers that are large enough for every size of the tasks.

    Workspaces are computed at a few extreme sizes alone: they are taken to grow with k or with one of the matrices.
    """
    sizes = [task.size for task in tasks] or [(1, 1, 1)]
    m, n, k = 0, 1, 2
    extremes = {max(sizes, key=lambda size: (size[i] * size[j], sum(size))) for i, j in ((m, n), (m, k), (n, k))}
    extremes.add(max(sizes, key=lambda size: (size[k], size[m] * size[n])))
    built = {one.facts.id: one for task in tasks for one in task.kernels if not one.facts.failure}
    workspaces = [
        sum(room(buffer) for buffer in one.launches(size).workspace) for size in extremes for one in built.values()
    ]
    elements = (max(m * k for m, _, k in sizes), max(k * n for _, n, k in sizes), max(m * n for m, n, _ in sizes))
    return Ground(of.dtype, elements, max(workspaces, default=0), seed)
