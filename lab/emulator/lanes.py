"""Which threads of a batch take part: all of them, or chosen ones.

Most of the time all threads of a batch run together. Operations then work on whole register arrays; nothing is gathered
or scattered. `Lanes` hides the difference from all code that need not care about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Indices, Mask, Scalar

_Integer = TypeVar("_Integer", bound=np.integer[Any])
_WARP_SHIFT = WARP_SIZE.bit_length() - 1


def warp_of(threads: NDArray[_Integer]) -> NDArray[_Integer]:
    """Return the warp of each thread, in the array's own shape and dtype; -1 for thread -1."""
    shifted: NDArray[_Integer] = np.right_shift(threads, _WARP_SHIFT)
    return shifted


class Lanes:
    """Threads of a batch, in ascending order. Immutable.

    Attributes:
        threads: Threads of the whole batch.
        count: Threads that take part.
        whole: All threads of the batch take part.
        rows: What selects these threads from an array of all: a full slice, or (count,) int64 indices.
    """

    __slots__ = ("count", "rows", "threads", "whole")

    def __init__(self, threads: int, chosen: Indices | None = None) -> None:
        """Choose threads.

        Args:
            threads: Threads of the whole batch.
            chosen: (count,) indices, ascending; None for all threads.
        """
        self.threads = threads
        self.whole = chosen is None or len(chosen) == threads
        self.count = threads if chosen is None else len(chosen)
        self.rows: Indices | slice = slice(None) if chosen is None or self.whole else chosen

    def __repr__(self) -> str:
        return f"Lanes({self.threads})" if self.whole else f"Lanes({self.threads}, {self.rows!r})"

    def indices(self) -> Indices:
        """Return the threads' indices, (count,)."""
        return np.arange(self.threads) if isinstance(self.rows, slice) else self.rows

    def select(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return these threads' part of (threads,) values: (count,). All of them are not copied."""
        return values if self.whole else values[self.rows]

    def spread(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return (count,) values of these threads as (threads,) values, zero elsewhere."""
        if self.whole:
            return values
        full = np.zeros(self.threads, values.dtype)
        full[self.rows] = values
        return full

    def present(self) -> Mask:
        """Return which threads of the batch take part, (threads,)."""
        here = np.zeros(self.threads, np.bool_)
        here[self.rows] = True
        return here

    def fill(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return (count,) values from (count,) or (1,) values."""
        return np.broadcast_to(values, (self.count,))

    def take(self, positions: Indices) -> Lanes:
        """Return the threads at some positions, ascending, among these."""
        return Lanes(self.threads, positions if isinstance(self.rows, slice) else self.rows[positions])

    def without(self, others: Lanes) -> Lanes:
        """Return the threads of these that are not among others, which are all of these."""
        if not others.count:
            return self
        return Lanes(self.threads, np.setdiff1d(self.indices(), others.indices(), assume_unique=True))

    def among(self, part: Lanes) -> Lanes:
        """Return the threads at the positions among these that `part` chooses."""
        return self if isinstance(part.rows, slice) else self.take(part.rows)

    def split(self, mask: Mask) -> tuple[Lanes, Lanes]:
        """Return the threads for which a (count,) mask holds, and the others."""
        hits = int(np.count_nonzero(mask))
        if hits == self.count:
            return self, Lanes(self.threads, _NOBODY)
        if hits == 0:
            return Lanes(self.threads, _NOBODY), self
        return self.take(np.flatnonzero(mask)), self.take(np.flatnonzero(~mask))

    def same(self, other: Lanes) -> bool:
        """Return whether these are the same threads of the same batch size."""
        if self.whole or other.whole:
            return self.whole and other.whole
        return self.rows is other.rows or np.array_equal(self.indices(), other.indices())

    @property
    def warps(self) -> int:
        """Warps with at least one of these threads."""
        if isinstance(self.rows, slice):
            return self.threads // WARP_SIZE
        if not self.count:
            return 0
        warp = warp_of(self.rows)
        return int(np.count_nonzero(warp[1:] != warp[:-1])) + 1

    @staticmethod
    def union(parts: Iterable[Lanes]) -> Lanes:
        """Return the threads of several disjoint sets of one batch; there is at least one."""
        every = list(parts)
        if len(every) == 1:
            return every[0]
        return Lanes(every[0].threads, np.sort(np.concatenate([part.indices() for part in every])))


_NOBODY: Indices = np.zeros(0, np.int64)


def preceded(
    act: Callable[[Lanes], object], everyone: Lanes, full: Callable[[], Any], part: Callable[[Lanes], Any]
) -> tuple[Callable[[], Any], Callable[[Lanes], Any]]:
    """Return an instruction in front of which something is done for the same threads.

    Args:
        act: What is done.
        everyone: All threads of the batch.
        full: Executes the instruction for all of them.
        part: Executes it for some.
    """

    def all_threads() -> None:
        act(everyone)
        full()

    def some_threads(lanes: Lanes) -> None:
        act(lanes)
        part(lanes)

    return all_threads, some_threads
