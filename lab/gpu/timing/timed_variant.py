"""Time one variant beside its baselines: pilot, plan, warm-up, interleaved samples.

Launches repeat on the same buffers, and nothing is restored between them but the workspace that a sequence zeroes
itself. With β ≠ 0 a gemm's C accumulates, which changes the values but not the work. State that changes the work fails
the second launch of the check (`lab.gpu.process.checking`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lab.gpu.device.backend import Backend, BatchTiming, Enqueue
from lab.gpu.process.job import Policy
from lab.gpu.timing import cache, layout
from lab.measured.timing import Measurement, Samples

LONG_MS: Final = 100.0
"""Launches at least this long are piloted once and need no warm-up, since they warm up the card themselves."""

IDLE_S: Final = 0.1
"""Longest pause that keeps clocks up; verifying and loading the next variant takes some milliseconds."""

LATE: Final = 0.01
"""Share of a launch's time below which late queueing does not matter: it costs at most the queueing time."""


@dataclass(slots=True)
class CardHistory:
    """A worker's state between measurements.

    Attributes:
        now: The host's clock, in seconds.
        run_clock: Highest median SM clock of any measurement so far, in MHz.
        warmed: The first, longer warm-up is over.
        busy_until: When the last measurement ended, by `now`.
    """

    now: Callable[[], float] = time.perf_counter
    run_clock: int | None = None
    warmed: bool = False
    busy_until: float = -math.inf

    def is_warm(self, clocks: Sequence[int | None]) -> bool:
        """Return whether the card has just been measuring and kept its SM clock, as `clocks` (MHz) show."""
        if not self.warmed or self.now() - self.busy_until > IDLE_S:
            return False
        return all(clock >= (1 - layout.STEADY) * (self.run_clock or 0) for clock in clocks if clock is not None)

    def remember(self, clocks: Sequence[int | None]) -> None:
        """Update the run's SM clock with the median of a measurement's SM clocks (MHz)."""
        readings = [clock for clock in clocks if clock is not None]
        if readings:
            self.run_clock = max(self.run_clock or 0, int(np.median(readings)))


@dataclass(frozen=True, slots=True)
class Contender:
    """One side of a comparison.

    Attributes:
        name: Its name in notes: `kernel` or the baseline's name.
        launch: Queues one launch.
    """

    name: str
    launch: Enqueue


@dataclass(slots=True)
class _Taken:
    """Sampled timings per side, SM clocks (MHz) per repetition, and whether sampling was cut off."""

    timings: tuple[list[BatchTiming], ...]
    clocks: list[int | None] = field(default_factory=list)
    cut: bool = False

    def samples(self, plan: layout.BatchPlan, unused: tuple[int, ...]) -> list[Samples]:
        """Return the samples of each side."""
        return [
            Samples(tuple(timing.ms for timing in timings), side.batch, unused)
            for timings, side in zip(self.timings, plan.sides, strict=True)
        ]


def measure(
    backend: Backend,
    contenders: Sequence[Contender],
    policy: Policy,
    history: CardHistory,
    alive: Callable[[], None],
) -> Measurement:
    """Time a variant, alone or beside baselines.

    Args:
        backend: The device, with outputs in the state that launches expect.
        contenders: The variant, then its baselines.
        policy: Limits.
        history: The worker's memory; updated.
        alive: Called between launches to send heartbeats to the parent.
    """
    bench = _Bench(backend, contenders, alive)
    pilots = bench.pilots()
    if not history.is_warm([pilot.sm_clock_mhz for pilot in pilots]):
        bench.warm_up(pilots, policy, history)
        backend.calibrate()
        # pilots on an idle card are slow: the plan needs pilots at operating clocks
        pilots = bench.pilots(pilots)
    plan = layout.make_plan([pilot.ms for pilot in pilots], [pilot.enqueue_ms for pilot in pilots], policy)
    before = backend.card_state()
    sampled = bench.sample(plan, policy, history)
    after = backend.card_state()
    slow = layout.slow_repetitions(sampled.clocks, history.run_clock)
    unused = layout.unused_repetitions(slow, len(sampled.clocks), policy.min_samples)
    samples = sampled.samples(plan, unused)
    notes = (
        *_starved_notes(contenders, sampled),
        *(
            note
            for contender, side_samples in zip(contenders, samples, strict=True)
            for note in layout.spread_notes(contender.name, side_samples)
        ),
        *layout.clock_notes(sampled.clocks, slow, unused, history.run_clock),
        *([f"sampled once: slower than {policy.beaten_ms:.4g} ms, beyond which it cannot win"] if sampled.cut else []),
    )
    history.busy_until = history.now()
    has_baseline = len(contenders) > 1
    return Measurement(
        samples=samples[0],
        baseline=samples[1] if has_baseline else None,
        baseline_name=contenders[1].name if has_baseline else None,
        cache=plan.cache,
        before=before,
        after=after,
        notes=notes,
        others={
            contender.name: side_samples for contender, side_samples in zip(contenders[2:], samples[2:], strict=True)
        },
    )


@dataclass(frozen=True, slots=True)
class _Bench:
    """The device and the contenders that are timed on it."""

    backend: Backend
    contenders: Sequence[Contender]
    alive: Callable[[], None]

    def pilots(self, earlier: Sequence[BatchTiming] = ()) -> list[BatchTiming]:
        """Estimate the time of each side's launch, reusing the `earlier` estimates of long launches."""
        return [
            earlier[index] if earlier and earlier[index].ms >= LONG_MS else self._pilot(contender.launch)
            for index, contender in enumerate(self.contenders)
        ]

    def _pilot(self, launch: Enqueue) -> BatchTiming:
        """Return the shorter of two times, or the first if it is long."""
        timings = []
        for _ in range(2):
            self.alive()
            timings.append(self.backend.time(launch, batch=1, lead_ms=cache.LEAST_HEAD_START_MS, rewarm=False))
            if timings[-1].ms >= LONG_MS:
                break
        return min(timings, key=lambda timing: timing.ms)

    def warm_up(self, pilots: Sequence[BatchTiming], policy: Policy, history: CardHistory) -> None:
        """Launch all sides for the minimum time, then until the SM clock is steady or the limit is reached."""
        least_ms = policy.rewarm_ms if history.warmed else policy.warmup_ms
        short = [
            (contender.launch,) * layout.warmup_repeats(pilot.ms)
            for contender, pilot in zip(self.contenders, pilots, strict=True)
            if pilot.ms < LONG_MS
        ]
        clocks: list[int | None] = []
        start = history.now()
        while short and ((passed_ms := (history.now() - start) * 1e3) < least_ms or not layout.is_steady(clocks)):
            if passed_ms > policy.warmup_limit_ms:
                break
            for launches in short:
                self.alive()
                self.backend.run(launches)
            clocks.append(self.backend.sm_clock())
        history.warmed = True

    def sample(self, plan: layout.BatchPlan, policy: Policy, history: CardHistory) -> _Taken:
        """Sample the sides interleaved: fewer repetitions if they agree soon, more if they scatter."""
        sampled = _Taken(tuple([] for _ in self.contenders))
        for end, spread in _ends(plan.n, policy):
            while len(sampled.clocks) < end:
                self._repeat(plan, sampled)
                if len(sampled.clocks) == 1 and policy.beaten_ms is not None:
                    sampled.cut = sampled.timings[0][0].ms > policy.beaten_ms
                    if sampled.cut:
                        return sampled
            history.remember(sampled.clocks)
            slow = layout.slow_repetitions(sampled.clocks, history.run_clock)
            good = end - len(slow)
            if good >= min(plan.n, policy.first_samples) and all(
                samples.spread <= spread for samples in sampled.samples(plan, slow)
            ):
                break
        return sampled

    def _repeat(self, plan: layout.BatchPlan, sampled: _Taken) -> None:
        clocks = []
        for contender, side, timings in zip(self.contenders, plan.sides, sampled.timings, strict=True):
            self.alive()
            timings.append(
                self.backend.time(contender.launch, batch=side.batch, lead_ms=side.lead_ms, rewarm=not plan.cold)
            )
            clocks.append(timings[-1].sm_clock_mhz)
        readings = [clock for clock in clocks if clock is not None]
        sampled.clocks.append(min(readings) if readings else self.backend.sm_clock())


def _ends(n: int, policy: Policy) -> Iterator[tuple[int, float]]:
    """Yield the sample counts at which sampling may end, each with its largest allowed spread."""
    if policy.first_samples < n:
        yield policy.first_samples, policy.settled
    for times in range(1, layout.LONGER + 1):
        yield times * n, layout.NOISY


def _starved_notes(contenders: Sequence[Contender], sampled: _Taken) -> tuple[str, ...]:
    return tuple(
        f"{contender.name}: in {starved} of {len(timings)} repetitions the host may have queued launches more "
        "slowly than the GPU ran them, so the time may include host overhead"
        for contender, timings in zip(contenders, sampled.timings, strict=True)
        if (starved := sum(_host_matters(timing) for timing in timings))
    )


def _host_matters(timing: BatchTiming) -> bool:
    return timing.starved and timing.enqueue_ms > LATE * timing.ms
