"""Progress of a bench: its requests, and the fastest kernel at each finished size."""

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
        """The comparison with cuBLAS in words; empty without a cuBLAS time."""
        return "" if self.over_baseline is None else f", {self.over_baseline:.2f} x {CUBLAS}"


class HeardSizes(Protocol):
    """An interface that receives progress by size."""

    def asked(self, what: str, sizes: int) -> None:
        """Report that kernels will be timed at some sizes."""

    def timed(self, size: Size, points: int, leader: SizeLeader | None = None) -> None:
        """Report a timed size."""


@dataclass
class SizeNews:
    """A forwarder of a bench's progress to an observer.

    Attributes:
        ledger: Known times.
        observer: Whom to tell.
    """

    ledger: Ledger
    observer: HeardSizes
    _names: Mapping[str, str] = field(default_factory=dict, init=False)
    _now: tuple[TimingStage, ProblemType] | None = field(default=None, init=False)

    def begin(self, stage: TimingStage, of: ProblemType, tasks: Sequence[TimingTask]) -> None:
        """Record the request and report it."""
        self._now = stage, of
        self._names = {kernel.facts.id: kernel.facts.name for task in tasks for kernel in task.kernels}
        self.observer.asked(f"{of.label}, {_STAGE_WORDS[stage]}", len(tasks))

    def timed(self, size: Size, points: int) -> None:
        """Report a timed size with its fastest kernel; see `MeasuredBench.done`."""
        self.observer.timed(size, points, self._leader(size))

    def _leader(self, size: Size) -> SizeLeader | None:
        if self._now is None:
            return None
        stage, of = self._now
        times = self.ledger.times[stage]
        timed_kernels = {
            identity: timed
            for identity in self._names
            if (timed := times.get(identity, {}).get(size)) is not None and timed.ms
        }
        if not timed_kernels:
            return None
        best = min(timed_kernels, key=lambda identity: timed_kernels[identity].ms or 0.0)
        ms = timed_kernels[best].ms or 0.0
        beside = times.get(baseline_id(of.label), {}).get(size)
        return SizeLeader(
            kernel=self._names[best],
            tflops=operations(of.dtype) * prod(size) / ms / 1e9,
            kind=timed_kernels[best].kind,
            over_baseline=beside.ms / ms if beside is not None and beside.ms else None,
        )


@dataclass
class WatchedBench:
    """A bench that reports its requests; see `Bench`.

    Attributes:
        bench: What times kernels.
        news: Passes it on.
    """

    bench: Bench
    news: SizeNews

    @property
    def kind(self) -> Kind:
        """The kind of its times."""
        return self.bench.kind

    @property
    def library(self) -> str:
        """Name and version of the baseline's library; empty before its first time."""
        return self.bench.library

    def run(
        self, stage: TimingStage, of: ProblemType, tasks: Iterable[TimingTask], *, drop: float | None, baseline: bool
    ) -> None:
        """Report the request and run it; see `Bench.run`."""
        all_tasks = list(tasks)
        self.news.begin(stage, of, all_tasks)
        self.bench.run(stage, of, all_tasks, drop=drop, baseline=baseline)
