"""How a measurement is laid out, and what its samples say: pure functions of times.

The rule. Let t be the shorter of the variant's and the baseline's pilot times.

- ``flush: auto`` and t ≥ `batch_below_us`: **cold**. Before each repetition L2 is flushed, then one launch is timed.
- ``flush: auto`` and t < `batch_below_us`, or ``flush: off``: **warm**. One untimed launch, then the timed ones; a
  side whose own time is below `batch_below_us` is timed in batches of about `BATCH_MS`, since two events around so
  short a launch measure mostly the events.
- ``flush: on``: **cold** in any case, one launch at a time.

Both sides of a pair get the same cache state, so that their ratio compares like with like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.gpu.process.job import Flush, Policy
from lab.measured.timing import Samples

BATCH_MS = 1.0
"""Device time that a batch aims at: 2000 times the 0.5 µs resolution of CUDA events (cuEventElapsedTime)."""
MOST_LAUNCHES = 256
"""Launches in one batch: the queue of a stream holds about a thousand before the host blocks."""
LEAST_LEAD_MS = 0.03
"""Head start for one launch and two events: several times the few microseconds that each takes to queue."""
STEADY = 0.02
"""SM clocks within this fraction of each other count as steady."""
STEADY_READINGS = 3
SLOW_CLOCK = 0.95
"""A sample at less than this fraction of the run's SM clock is remarked on."""
NOISY = 0.05
"""A (p80 - p20) / median above this asks for more samples, and is remarked on where they do not help."""
LONGER = 3
"""Times the planned number of samples that a noisy or throttled variant may get."""


@dataclass(frozen=True, slots=True)
class Side:
    """How one side of a pair, the variant or its baseline, is timed.

    Attributes:
        batch: Launches between two events.
        lead_ms: Head start that the host needs to queue them.
    """

    batch: int
    lead_ms: float


@dataclass(frozen=True, slots=True)
class Plan:
    """How a pair is timed.

    Attributes:
        cold: L2 is flushed before each repetition.
        n: Samples of each side.
        sides: The variant and, if there is one, the baseline.
    """

    cold: bool
    n: int
    sides: tuple[Side, ...]

    @property
    def cache(self) -> str:
        """`cold` or `warm`, as the record says it."""
        return "cold" if self.cold else "warm"


def make_plan(pilots_ms: Sequence[float], enqueue_ms: Sequence[float], policy: Policy) -> Plan:
    """Lay out a measurement.

    Args:
        pilots_ms: Device time of one launch of each side.
        enqueue_ms: Host time to queue one launch of each side.
        policy: Limits and the flush rule.
    """
    short = min(pilots_ms) * 1e3 < policy.batch_below_us
    cold = policy.flush is Flush.ON or (policy.flush is Flush.AUTO and not short)
    sides = tuple(_side(ms, host, policy, cold=cold) for ms, host in zip(pilots_ms, enqueue_ms, strict=True))
    # a warm repetition has an untimed launch in it, too
    cost_ms = sum(side.lead_ms + (side.batch + (not cold)) * ms for side, ms in zip(sides, pilots_ms, strict=True))
    return Plan(cold, sample_count(cost_ms, policy), sides)


def _side(pilot_ms: float, enqueue_ms: float, policy: Policy, *, cold: bool) -> Side:
    batch = 1 if cold else batch_size(pilot_ms, policy.batch_below_us)
    # half as much again, and one launch more for the untimed one
    return Side(batch, max(LEAST_LEAD_MS, 1.5 * (batch + 1) * enqueue_ms))


def batch_size(pilot_ms: float, batch_below_us: float) -> int:
    """Launches to time together: 1 for launches long enough to be timed alone, else about `BATCH_MS` of them."""
    if pilot_ms * 1e3 >= batch_below_us:
        return 1
    return max(2, min(MOST_LAUNCHES, math.ceil(BATCH_MS / max(pilot_ms, 1e-6))))


def sample_count(cost_ms: float, policy: Policy) -> int:
    """As many repetitions as the budget holds, within the policy's limits."""
    affordable = int(policy.budget_s * 1e3 / max(cost_ms, 1e-6))
    return max(policy.min_samples, min(policy.max_samples, affordable))


def is_steady(clocks: Sequence[int | None]) -> bool:
    """Whether the last readings of the SM clock agree. Without readings there is nothing to wait for."""
    last = list(clocks)[-STEADY_READINGS:]
    known = [clock for clock in last if clock is not None]
    if len(known) < len(last):
        return True
    return len(last) == STEADY_READINGS and max(known) - min(known) <= STEADY * max(known)


def warmup_repeats(pilot_ms: float, chunk_ms: float = 10.0) -> int:
    """Launches in one chunk of warm-up, after which the clock is read."""
    return max(1, min(200, int(chunk_ms / max(pilot_ms, 1e-6))))


def slow_repetitions(clocks: Sequence[int | None], run_clock: int | None) -> tuple[int, ...]:
    """Indices of the repetitions at a clock well below the run's own.

    Args:
        clocks: One reading a repetition, in MHz.
        run_clock: The highest median of any measurement of this run, this one included.
    """
    return tuple(i for i, clock in enumerate(clocks) if run_clock and clock and clock < SLOW_CLOCK * run_clock)


def unused_repetitions(slow: Sequence[int], n: int, min_samples: int) -> tuple[int, ...]:
    """Those of the slow repetitions that are not used: all of them, unless too few others are left."""
    return tuple(slow) if n - len(slow) >= min_samples else ()


def clock_notes(
    clocks: Sequence[int | None], slow: Sequence[int], unused: Sequence[int], run_clock: int | None
) -> tuple[str, ...]:
    """Remarks on the SM clock during a measurement; see `slow_repetitions` and `unused_repetitions`."""
    known = [clock for clock in clocks if clock is not None]
    if not slow:
        return ()
    what = "and are not used" if unused else "and are used all the same: too few others are left"
    note = (
        f"{len(slow)} of {len(clocks)} repetitions ran below {SLOW_CLOCK:.0%} of the run's SM clock of {run_clock} MHz "
        f"(median {int(np.median(known))} MHz, lowest {min(known)} MHz) {what}"
    )
    return (note,)


def spread_notes(name: str, samples: Samples) -> tuple[str, ...]:
    """A remark where the samples of one side scatter."""
    if samples.spread <= NOISY:
        return ()
    return (f"{name}: noisy, p20 to p80 spans {samples.spread:.0%} of the median",)
