"""Whether what is repeated has come back to a state that it was in before, so that it goes on like that forever.

A search through a full hash table goes round the table: it is where it was after as many rounds as the table has slots,
and not after one. So a state is kept while twice as many others are compared with it as before, and then the latest is
kept (Brent, 1980). A cycle of any length is found within some three times its length.
"""

from __future__ import annotations


class Recurrence:
    """Looks for a state that comes back among those of one process, which each follow from the one before."""

    def __init__(self) -> None:
        self._kept: bytes | None = None
        self._age, self._span = 0, 1

    def comes_back(self, state: bytes) -> bool:
        """Note the next state; return whether it is one that was there before."""
        if state == self._kept:
            return True
        self._age += 1
        if self._kept is None or self._age == self._span:
            self._kept, self._age, self._span = state, 0, 2 * self._span
        return False
