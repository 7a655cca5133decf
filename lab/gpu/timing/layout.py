"""Timing plan of one variant and evaluation of its samples, as pure functions of times.

`lab.gpu.timing.cache` decides whether a batch of samples is cold or warm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lab.gpu.process.job import Policy
from lab.gpu.timing import cache
from lab.measured.timing import Samples

BATCH_MS: Final = 1.0
"""Target device time of a batch: 2000 times the 0.5 µs resolution of CUDA events (cuEventElapsedTime)."""

MOST_LAUNCHES: Final = 256
"""Largest batch: the queue of a stream holds about a thousand launches before the host blocks."""

STEADY: Final = 0.02
"""SM clocks within this fraction of each other count as steady."""

STEADY_READINGS: Final = 3
"""Readings of the SM clock that must agree."""

SLOW_CLOCK: Final = 0.95
"""Samples taken below this fraction of the run's SM clock get a note."""

NOISY: Final = 0.05
"""A (p80 - p20) / median above this asks for more samples, and gets a note if they do not help."""

LONGER: Final = 3
"""Factor on the planned number of samples that a noisy or throttled variant may get."""


@dataclass(frozen=True, slots=True)
class SidePlan:
    """Timing plan of one side of a comparison, the variant or a baseline.

    Attributes:
        batch: Launches between two events.
        lead_ms: Head start that the host needs to queue them, in milliseconds.
    """

    batch: int
    lead_ms: float


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Timing plan of a variant and its baselines.

    Attributes:
        cold: L2 is flushed before each repetition.
        n: Samples of each side.
        sides: The variant, then its baselines.
    """

    cold: bool
    n: int
    sides: tuple[SidePlan, ...]

    @property
    def cache(self) -> str:
        """State of L2 in the record: `cold` or `warm`."""
        return cache.state(cold=self.cold)


def make_plan(pilots_ms: Sequence[float], enqueue_ms: Sequence[float], policy: Policy) -> BatchPlan:
    """Plan the timing of a variant and its baselines.

    Args:
        pilots_ms: Device time of one launch of each side, in milliseconds.
        enqueue_ms: Host time to queue one launch of each side, in milliseconds.
        policy: Limits and the flush setting.
    """
    cold = cache.is_cold(policy.flush, min(pilots_ms), policy.batch_below_us)
    sides = tuple(_side(ms, host, policy, cold=cold) for ms, host in zip(pilots_ms, enqueue_ms, strict=True))
    # a warm repetition also contains an untimed launch
    cost_ms = sum(side.lead_ms + (side.batch + (not cold)) * ms for side, ms in zip(sides, pilots_ms, strict=True))
    return BatchPlan(cold, sample_count(cost_ms, policy), sides)


def _side(pilot_ms: float, enqueue_ms: float, policy: Policy, *, cold: bool) -> SidePlan:
    batch = 1 if cold else warm_batch(pilot_ms, policy.batch_below_us)
    return SidePlan(batch, cache.head_start_ms(batch, enqueue_ms))


def warm_batch(pilot_ms: float, short_us: float) -> int:
    """Return the launches per batch: 1 if a launch can be timed alone, else as many as take about `BATCH_MS`."""
    return max(2, cache.batch_size(pilot_ms, BATCH_MS, MOST_LAUNCHES)) if cache.is_short(pilot_ms, short_us) else 1


def sample_count(cost_ms: float, policy: Policy) -> int:
    """Return the number of repetitions of `cost_ms` that fit the budget, within the policy's limits."""
    affordable = int(policy.budget_s * 1e3 / max(cost_ms, 1e-6))
    return max(policy.min_samples, min(policy.max_samples, affordable))


def is_steady(clocks: Sequence[int | None]) -> bool:
    """Return whether the last SM clock readings agree; true if one of them is missing."""
    last = list(clocks)[-STEADY_READINGS:]
    readings = [clock for clock in last if clock is not None]
    if len(readings) < len(last):
        return True
    return len(last) == STEADY_READINGS and max(readings) - min(readings) <= STEADY * max(readings)


def warmup_repeats(pilot_ms: float, chunk_ms: float = 10.0) -> int:
    """Return the launches in one chunk of warm-up, after which the clock is read."""
    return max(1, min(200, int(chunk_ms / max(pilot_ms, 1e-6))))


def slow_repetitions(clocks: Sequence[int | None], run_clock: int | None) -> tuple[int, ...]:
    """Return the indices of the repetitions at a clock well below the run's own.

    Args:
        clocks: One reading for each repetition, in MHz.
        run_clock: The highest median of any measurement of this run, this one included.
    """
    return tuple(i for i, clock in enumerate(clocks) if run_clock and clock and clock < SLOW_CLOCK * run_clock)


def unused_repetitions(slow: Sequence[int], n: int, min_samples: int) -> tuple[int, ...]:
    """Return the slow repetitions to leave out: all of them, or none if too few others would be left."""
    return tuple(slow) if n - len(slow) >= min_samples else ()


def clock_notes(
    clocks: Sequence[int | None], slow: Sequence[int], unused: Sequence[int], run_clock: int | None
) -> tuple[str, ...]:
    """Note the repetitions at a low SM clock; see `slow_repetitions` and `unused_repetitions`."""
    readings = [clock for clock in clocks if clock is not None]
    if not slow:
        return ()
    consequence = "; they are left out" if unused else "; they are kept because too few others are left"
    note = (
        f"{len(slow)} of {len(clocks)} repetitions ran below {SLOW_CLOCK:.0%} of the run's SM clock of {run_clock} MHz "
        f"(median {int(np.median(readings))} MHz, lowest {min(readings)} MHz){consequence}"
    )
    return (note,)


def spread_notes(name: str, samples: Samples) -> tuple[str, ...]:
    """Note a side whose samples scatter."""
    if samples.spread <= NOISY:
        return ()
    return (f"{name}: noisy, p20 to p80 spans {samples.spread:.0%} of the median",)
