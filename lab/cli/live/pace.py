"""Estimate of a command's remaining time, from the pace of its latest tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

WINDOW: Final = 64
"""Finished tasks whose pace is taken for that of the rest: enough to average over batches, few enough to follow a
change of pace, as where later variants are slower."""


class WorkPace:
    """Predictor of the end of a number of like tasks; those reused from an earlier run do not count."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start empty.

        Args:
            clock: A monotonic clock, in seconds.
        """
        self._clock = clock
        self._times: deque[float] = deque([clock()], maxlen=WINDOW + 1)

    def begin(self) -> None:
        """Forget the finished tasks, and count from now on."""
        self._times.clear()
        self._times.append(self._clock())

    def add(self) -> None:
        """Count a finished task."""
        self._times.append(self._clock())

    @property
    def counted(self) -> int:
        """Number of tasks the pace is taken from."""
        return len(self._times) - 1

    def left_s(self, pieces: int) -> float | None:
        """Return the seconds further tasks take at the current pace.

        None before the first one is finished, and when none is left: any further work is then of another kind.
        The time since the last one counts, too, so that the estimate grows while nothing is finished.
        """
        return pieces * (self._clock() - self._times[0]) / self.counted if pieces and self.counted else None
