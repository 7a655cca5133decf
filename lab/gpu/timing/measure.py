"""Timing one variant beside its baseline: pilot, plan, warm-up, interleaved samples.

Launches repeat on the same buffers without restoring the outputs between them: with β ≠ 0 a gemm's C
accumulates, which changes values but not the work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from lab.gpu.device.backend import Backend, Launch, Timing
from lab.gpu.process.job import Policy
from lab.gpu.timing import layout as plan
from lab.measured.timing import Measurement, Samples

LONG_MS = 100.0
"""A launch this long is piloted once, and is no part of the warm-up: it warms the card by itself."""
IDLE_S = 0.1
"""Clocks stay up over a shorter pause: verifying and loading the next variant takes some milliseconds."""


@dataclass(slots=True)
class Clockwork:
    """What one worker remembers between measurements.

    Attributes:
        run_clock: Highest median SM clock of any measurement so far, MHz.
        warmed: The first, longer warm-up is over.
        busy_until: When the last measurement ended, by `time.perf_counter`.
    """

    run_clock: int | None = None
    warmed: bool = False
    busy_until: float = -math.inf

    def is_warm(self, clocks: Sequence[int | None]) -> bool:
        """Whether the card comes straight from another measurement and has kept its clock, as `clocks` now show."""
        if not self.warmed or time.perf_counter() - self.busy_until > IDLE_S:
            return False
        return all(clock >= (1 - plan.STEADY) * (self.run_clock or 0) for clock in clocks if clock is not None)


@dataclass(frozen=True, slots=True)
class Contender:
    """One side of a pair.

    Attributes:
        name: For remarks: `kernel` or the baseline's name.
        launch: Queues one launch.
    """

    name: str
    launch: Launch


@dataclass(slots=True)
class _Taken:
    """What sampling yields, a list a side."""

    timings: tuple[list[Timing], ...]
    clocks: list[int | None] = field(default_factory=list)

    def samples(self, layout: plan.Plan, unused: tuple[int, ...]) -> list[Samples]:
        """What was taken, a value a side."""
        return [
            Samples(tuple(timing.ms for timing in timings), side.batch, unused)
            for timings, side in zip(self.timings, layout.sides, strict=True)
        ]


def measure(
    backend: Backend,
    contenders: Sequence[Contender],
    policy: Policy,
    clockwork: Clockwork,
    alive: Callable[[], None],
) -> Measurement:
    """Time a variant, alone or beside a baseline.

    Args:
        backend: The device, with outputs in the state that launches expect.
        contenders: The variant and, after it, the baselines if there are any.
        policy: Limits.
        clockwork: The worker's memory; updated.
        alive: Called between launches: the parent must know that the worker does not hang.
    """
    bench = _Bench(backend, contenders, alive)
    pilots = bench.pilots()
    if not clockwork.is_warm([pilot.sm_clock_mhz for pilot in pilots]):
        least_ms = policy.rewarm_ms if clockwork.warmed else policy.warmup_ms
        bench.warm_up(pilots, least_ms, policy.warmup_limit_ms)
        clockwork.warmed = True
        backend.calibrate()
        # a pilot on a card that idled is slow; the plan is made from one at the clocks that count
        pilots = bench.pilots(pilots)
    layout = plan.make_plan([pilot.ms for pilot in pilots], [pilot.enqueue_ms for pilot in pilots], policy)
    before = backend.card_state()
    taken = bench.sample(layout, policy, clockwork)
    after = backend.card_state()
    slow = plan.slow_repetitions(taken.clocks, clockwork.run_clock)
    unused = plan.unused_repetitions(slow, len(taken.clocks), policy.min_samples)
    samples = taken.samples(layout, unused)
    notes = (
        *_starved_notes(contenders, taken),
        *(
            note
            for contender, one in zip(contenders, samples, strict=True)
            for note in plan.spread_notes(contender.name, one)
        ),
        *plan.clock_notes(taken.clocks, slow, unused, clockwork.run_clock),
    )
    clockwork.busy_until = time.perf_counter()
    has_baseline = len(contenders) > 1
    return Measurement(
        samples=samples[0],
        baseline=samples[1] if has_baseline else None,
        baseline_name=contenders[1].name if has_baseline else None,
        cache=layout.cache,
        before=before,
        after=after,
        notes=notes,
        others={contender.name: one for contender, one in zip(contenders[2:], samples[2:], strict=True)},
    )


@dataclass(frozen=True, slots=True)
class _Bench:
    """The device with everything that is timed on it."""

    backend: Backend
    contenders: Sequence[Contender]
    alive: Callable[[], None]

    def pilots(self, known: Sequence[Timing] = ()) -> list[Timing]:
        """A first estimate of each side's launch; of `known` ones, those that are long are kept."""
        return [
            known[index] if known and known[index].ms >= LONG_MS else self._pilot(contender.launch)
            for index, contender in enumerate(self.contenders)
        ]

    def _pilot(self, launch: Launch) -> Timing:
        """The shorter of two, or one when it is long."""
        timings = []
        for _ in range(2):
            self.alive()
            timings.append(self.backend.time(launch, batch=1, lead_ms=plan.LEAST_LEAD_MS, rewarm=False))
            if timings[-1].ms >= LONG_MS:
                break
        return min(timings, key=lambda timing: timing.ms)

    def warm_up(self, pilots: Sequence[Timing], least_ms: float, limit_ms: float) -> None:
        """Launch all sides for a while, and on until the SM clock is steady or the limit is reached."""
        short = [
            (contender.launch,) * plan.warmup_repeats(pilot.ms)
            for contender, pilot in zip(self.contenders, pilots, strict=True)
            if pilot.ms < LONG_MS
        ]
        clocks: list[int | None] = []
        start = time.perf_counter()
        while short and ((passed_ms := (time.perf_counter() - start) * 1e3) < least_ms or not plan.is_steady(clocks)):
            if passed_ms > limit_ms:
                break
            for launches in short:
                self.alive()
                self.backend.run(launches)
            clocks.append(self.backend.sm_clock())

    def sample(self, layout: plan.Plan, policy: Policy, clockwork: Clockwork) -> _Taken:
        """Interleaved: one sample of each side in turn; fewer where they agree soon, more where they scatter."""
        taken = _Taken(tuple([] for _ in self.contenders))
        for end, spread in _ends(layout.n, policy):
            while len(taken.clocks) < end:
                self._repeat(layout, taken)
            _remember_clock(clockwork, taken.clocks)
            slow = plan.slow_repetitions(taken.clocks, clockwork.run_clock)
            good = end - len(slow)
            if good >= min(layout.n, policy.first_samples) and all(
                samples.spread <= spread for samples in taken.samples(layout, slow)
            ):
                break
        return taken

    def _repeat(self, layout: plan.Plan, taken: _Taken) -> None:
        clocks = []
        for contender, side, timings in zip(self.contenders, layout.sides, taken.timings, strict=True):
            self.alive()
            timings.append(
                self.backend.time(contender.launch, batch=side.batch, lead_ms=side.lead_ms, rewarm=not layout.cold)
            )
            clocks.append(timings[-1].sm_clock_mhz)
        known = [clock for clock in clocks if clock is not None]
        taken.clocks.append(min(known) if known else self.backend.sm_clock())


def _ends(n: int, policy: Policy) -> Iterator[tuple[int, float]]:
    """Where sampling may end, each with the spread that it needs there."""
    if policy.first_samples < n:
        yield policy.first_samples, policy.settled
    for times in range(1, plan.LONGER + 1):
        yield times * n, plan.NOISY


def _remember_clock(clockwork: Clockwork, clocks: Sequence[int | None]) -> None:
    known = [clock for clock in clocks if clock is not None]
    if known:
        clockwork.run_clock = max(clockwork.run_clock or 0, int(np.median(known)))


def _starved_notes(contenders: Sequence[Contender], taken: _Taken) -> tuple[str, ...]:
    return tuple(
        f"{contender.name}: in {starved} of {len(timings)} repetitions the host may have queued launches more "
        "slowly than the GPU ran them, so that the time may hold host overhead"
        for contender, timings in zip(contenders, taken.timings, strict=True)
        if (starved := sum(_host_matters(timing) for timing in timings))
    )


def _host_matters(timing: Timing) -> bool:
    """Queueing late costs at most the queueing time: 1 % of the launch or less is no matter."""
    return timing.starved and timing.enqueue_ms > 0.01 * timing.ms
