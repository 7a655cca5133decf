"""Tells an observer what a bench is asked for, and which kernel is the fastest at each size that is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol

from lab.base.elements import operations
from lab.base.sizes import Size
from lab.measured.timing import Kind
from lab.store.tuning_model import CUBLAS, ProblemType, TimingStage, baseline_id
from lab.tuning.bench import Bench, Ledger, TimingTask

_STAGE_WORDS = {
    TimingStage.STEPS: "steps 2 to 6",
    TimingStage.FINAL: "step 7",
    TimingStage.REFINED: "sizes between, for the library's thresholds",
    TimingStage.HELD_OUT: "sizes between, for the library's loss",
}


@dataclass(frozen=True, slots=True)
class SizeLeader:
    """The fastest kernel at a size.

    Attributes:
        kernel: Its name.
        tflops: Its throughput.
        kind: Measured or predicted.
        over_baseline: Throughput over cuBLAS's at the size; None where that was not timed.
    """

    kernel: str
    tflops: float
    kind: Kind
    over_baseline: float | None = None

    @property
    def beside(self) -> str:
        """The comparison with cuBLAS in words; empty where there is none."""
        return "" if self.over_baseline is None else f", {self.over_baseline:.2f} x {CUBLAS}"


class HeardSizes(Protocol):
    """What is told of sizes."""

    def asked(self, what: str, sizes: int) -> None:
        """Kernels are about to be timed at some sizes."""

    def timed(self, size: Size, points: int, leader: SizeLeader | None = None) -> None:
        """Kernels were timed at a size."""


@dataclass
class SizeNews:
    """Passes on what a bench does.

    Attributes:
        ledger: Known times.
        observer: Whom to tell.
    """

    ledger: Ledger
    observer: HeardSizes
    _names: Mapping[str, str] = field(default_factory=dict, init=False)
    _now: tuple[TimingStage, ProblemType] | None = field(default=None, init=False)

    def begin(self, stage: TimingStage, of: ProblemType, tasks: Sequence[TimingTask]) -> None:
        """A bench is asked for times."""
        self._now = stage, of
        self._names = {one.facts.id: one.facts.name for task in tasks for one in task.kernels}
        self.observer.asked(f"{of.label}, {_STAGE_WORDS[stage]}", len(tasks))

    def timed(self, size: Size, points: int) -> None:
        """A bench is done with a size; see `MeasuredBench.done`."""
        self.observer.timed(size, points, self._leader(size))

    def _leader(self, size: Size) -> SizeLeader | None:
        if self._now is None:
            return None
        stage, of = self._now
        times = self.ledger.times[stage]
        known = {
            identity: timed
            for identity in self._names
            if (timed := times.get(identity, {}).get(size)) is not None and timed.ms
        }
        if not known:
            return None
        best = min(known, key=lambda identity: known[identity].ms or 0.0)
        ms = known[best].ms or 0.0
        beside = times.get(baseline_id(of.label), {}).get(size)
        return SizeLeader(
            kernel=self._names[best],
            tflops=operations(of.dtype) * prod(size) / ms / 1e9,
            kind=known[best].kind,
            over_baseline=beside.ms / ms if beside is not None and beside.ms else None,
        )


@dataclass
class WatchedBench:
    """A bench that says what it is asked for; see `Bench`.

    Attributes:
        bench: What times kernels.
        news: Passes it on.
    """

    bench: Bench
    news: SizeNews

    @property
    def kind(self) -> Kind:
        """What its times are."""
        return self.bench.kind

    @property
    def library(self) -> str:
        """Name and version of the baseline's library; empty until it was timed."""
        return self.bench.library

    def run(
        self, stage: TimingStage, of: ProblemType, tasks: Iterable[TimingTask], *, drop: float | None, baseline: bool
    ) -> None:
        """See `Bench.run`."""
        wanted = list(tasks)
        self.news.begin(stage, of, wanted)
        self.bench.run(stage, of, wanted, drop=drop, baseline=baseline)
