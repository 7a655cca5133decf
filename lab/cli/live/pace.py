"""How long a command still takes, from the pace of what it finished last."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

WINDOW: Final = 64
"""Finished pieces whose pace is taken for that of the rest: enough to even out batches, few enough to follow a change
of pace, as where later variants are slower."""


class WorkPace:
    """Predicts when a number of like pieces of work is done. What was taken over from an earlier run does not count."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start with nothing finished.

        Args:
            clock: Seconds on a clock that nobody can set.
        """
        self._clock = clock
        self._times: deque[float] = deque([clock()], maxlen=WINDOW + 1)

    def begin(self) -> None:
        """Forget what was finished, and count from now on."""
        self._times.clear()
        self._times.append(self._clock())

    def add(self) -> None:
        """Count a piece that is finished."""
        self._times.append(self._clock())

    @property
    def counted(self) -> int:
        """Pieces that the pace is taken from."""
        return len(self._times) - 1

    def left_s(self, pieces: int) -> float | None:
        """Seconds that further pieces take at the pace of the last ones.

        None before the first is finished, and when there is none left: what then goes on is work of another kind.
        The time since the last one counts, too, so that the estimate grows while nothing is finished.
        """
        return pieces * (self._clock() - self._times[0]) / self.counted if pieces and self.counted else None
