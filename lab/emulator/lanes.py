"""Lanes: the set of threads of a batch that take part, all or chosen ones.

Most of the time all threads of a batch run together. Operations then work on whole register arrays, without gather or
scatter. `Lanes` hides the difference from code that does not depend on it.
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
        count: Active threads.
        whole: All threads of the batch take part.
        rows: The index of these threads in an array of all: a full slice, or (count,) int64 indices.
    """

    __slots__ = ("count", "rows", "threads", "whole")

    def __init__(self, threads: int, chosen: Indices | None = None) -> None:
        """Select threads of a batch.

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
        """Return these threads' elements of (threads,) values: (count,), without a copy if all take part."""
        return values if self.whole else values[self.rows]

    def spread(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return (count,) values of these threads as (threads,) values, zero elsewhere."""
        if self.whole:
            return values
        full = np.zeros(self.threads, values.dtype)
        full[self.rows] = values
        return full

    def present(self) -> Mask:
        """Return the mask of these threads, (threads,)."""
        mask = np.zeros(self.threads, np.bool_)
        mask[self.rows] = True
        return mask

    def fill(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Broadcast (count,) or (1,) values to (count,)."""
        return np.broadcast_to(values, (self.count,))

    def take(self, positions: Indices) -> Lanes:
        """Return the threads at some ascending positions among these."""
        return Lanes(self.threads, positions if isinstance(self.rows, slice) else self.rows[positions])

    def without(self, excluded: Lanes) -> Lanes:
        """Return these threads without the excluded ones, which must be a subset."""
        if not excluded.count:
            return self
        remaining = self.present()
        remaining[excluded.rows] = False
        return Lanes(self.threads, np.flatnonzero(remaining))

    def among(self, subset: Lanes) -> Lanes:
        """Return the threads at the positions `subset` selects among these."""
        return self if isinstance(subset.rows, slice) else self.take(subset.rows)

    def split(self, mask: Mask) -> tuple[Lanes, Lanes]:
        """Split the threads by a (count,) mask."""
        hits = int(np.count_nonzero(mask))
        if hits == self.count:
            return self, Lanes(self.threads, _NOBODY)
        if hits == 0:
            return Lanes(self.threads, _NOBODY), self
        return self.take(np.flatnonzero(mask)), self.take(np.flatnonzero(~mask))

    def same(self, other: Lanes) -> bool:
        """Return whether both hold the same threads of the same batch size."""
        if self.whole or other.whole:
            return self.whole and other.whole
        return self.rows is other.rows or np.array_equal(self.indices(), other.indices())

    @property
    def warps(self) -> int:
        """The number of warps with at least one of these threads."""
        if isinstance(self.rows, slice):
            return self.threads // WARP_SIZE
        if not self.count:
            return 0
        warp = warp_of(self.rows)
        return int(np.count_nonzero(warp[1:] != warp[:-1])) + 1

    @staticmethod
    def union(parts: Iterable[Lanes]) -> Lanes:
        """Return the union of one or more disjoint sets of threads."""
        every = list(parts)
        if len(every) == 1:
            return every[0]
        return Lanes(every[0].threads, np.sort(np.concatenate([lanes.indices() for lanes in every])))


_NOBODY: Indices = np.zeros(0, np.int64)


def preceded(
    act: Callable[[Lanes], object], everyone: Lanes, full: Callable[[], Any], masked: Callable[[Lanes], Any]
) -> tuple[Callable[[], Any], Callable[[Lanes], Any]]:
    """Return an instruction preceded by an action for the same threads.

    Args:
        act: The action.
        everyone: All threads of the batch.
        full: Executes the instruction for all of them.
        masked: Executes it for some.
    """

    def all_threads() -> None:
        act(everyone)
        full()

    def some_threads(lanes: Lanes) -> None:
        act(lanes)
        masked(lanes)

    return all_threads, some_threads
