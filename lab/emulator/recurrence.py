"""Cycle detection: whether a repeated process has returned to an earlier state.

A search through a full hash table returns to its state after as many iterations as the table has slots. So a state is
kept and compared with twice as many others as the one before; then the latest state replaces it (Brent, 1980). A cycle
of any length is found within about three times its length.
"""

from __future__ import annotations


class Recurrence:
    """A detector of repeated states in a deterministic process."""

    def __init__(self) -> None:
        self._kept: bytes | None = None
        self._age, self._span = 0, 1

    def comes_back(self, state: bytes) -> bool:
        """Record the next state; return whether it occurred before."""
        if state == self._kept:
            return True
        self._age += 1
        if self._kept is None or self._age == self._span:
            self._kept, self._age, self._span = state, 0, 2 * self._span
        return False
