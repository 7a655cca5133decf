"""Rules for the L2 state of timed launches, cold or warm, and for the head start of their queue.

**Cold or warm.** Let t be the time of the shortest kernel that is compared.

- `Flush.AUTO` and t of at least `SHORT_US`: **cold**. L2 is flushed before each repetition, which is one launch.
- `Flush.AUTO` and a shorter t: **warm**. Each repetition is one untimed launch followed by the timed ones.
- `Flush.ON`: cold, whatever t is. `Flush.OFF`: warm, whatever t is.

All kernels that are compared with each other get the same state, so that a ratio compares like with like. Two events
around a very short launch measure mostly the events; warm launches are therefore timed in batches (`batch_size`).

**Head start.** The device is kept busy for `head_start_ms` before the first event, so that the host has queued all
launches of a repetition by the time the device reaches them.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

COLD: Final = "cold"
"""State of L2 in a record: flushed before each repetition."""

WARM: Final = "warm"
"""State of L2 in a record: as the preceding launch of the same kernel left it."""

SHORT_US: Final = 50.0
"""Default limit in microseconds below which a launch counts as short."""

LEAST_HEAD_START_MS: Final = 0.03
"""Head start for one launch and two events: several times the few microseconds that each takes to queue."""


class Flush(StrEnum):
    """The L2 flush setting for repetitions."""

    AUTO = "auto"  # flushed, unless a launch is so short that launches are timed in batches
    ON = "on"
    OFF = "off"

    @classmethod
    def of(cls, cache: str) -> Flush:
        """Return the setting for the cache state in a file: `auto`, `cold` or `warm`."""
        return {"auto": cls.AUTO, COLD: cls.ON, WARM: cls.OFF}[cache]

    @property
    def empties(self) -> bool:
        """True if L2 is flushed before profiled launches, which are not timed."""
        return self is not Flush.OFF


def is_cold(flush: Flush, shortest_ms: float, short_us: float = SHORT_US) -> bool:
    """Decide whether L2 is flushed before each repetition.

    Args:
        flush: The setting.
        shortest_ms: Time of the shortest kernel that is compared, in milliseconds.
        short_us: Launches below this time, in microseconds, are short.
    """
    return flush is Flush.ON or (flush is Flush.AUTO and not is_short(shortest_ms, short_us))


def is_short(ms: float, short_us: float = SHORT_US) -> bool:
    """Return whether a launch of `ms` milliseconds is too short to be timed alone."""
    return ms * 1e3 < short_us


def state(*, cold: bool) -> str:
    """Return the name of the state in records: `cold` or `warm`."""
    return COLD if cold else WARM


def batch_size(pilot_ms: float, aim_ms: float, limit: int) -> int:
    """Return the number of launches between two events.

    Args:
        pilot_ms: Estimated time of one launch, in milliseconds.
        aim_ms: Device time that the batch should take, in milliseconds.
        limit: Largest batch.
    """
    return max(1, min(limit, math.ceil(aim_ms / max(pilot_ms, 1e-6))))


def head_start_ms(batch: int, enqueue_ms: float) -> float:
    """Return the milliseconds for which the device must be busy before a batch begins.

    It is 1.5 times as long as the host needs to queue the batch and one untimed launch.

    Args:
        batch: Launches between the two events.
        enqueue_ms: Host time to queue one launch, in milliseconds.
    """
    return max(LEAST_HEAD_START_MS, 1.5 * (batch + 1) * enqueue_ms)
