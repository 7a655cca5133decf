"""Observation order: strong writes a thread has observed, which precede its later accesses to the location.

PTX ISA, Memory Consistency Model: a strong write precedes, in observation order, a strong read of its value and,
through a chain of updates, reads of the updated values. In causality order, it then precedes everything after that
read in program order. Nothing follows for other locations: that requires a release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.emulator.arrays import Indices, Mask
from lab.emulator.memory.clocks import FIRST, SHIFT, THREAD, BatchClocks, Stamps, level_of
from lab.emulator.memory.order import TOGETHER

_LATEST = 4
"""The number of recent observations kept per thread."""


@dataclass(frozen=True, slots=True, eq=False)
class _Observation:
    """Observations, one element per cell or per recent observation of a thread.

    Attributes:
        stamps: The time: earlier writes were observed.
        since: The start of the chain of updates.
    """

    stamps: Stamps
    since: Stamps


class Chains:
    """The chain of updates behind each cell's value, and its latest observer."""

    def __init__(self, total: int) -> None:
        """Start without writes: `total` cells."""
        self._total = total
        self._begun: Stamps | None = None
        self.seen: _Observation | None = None

    def begin(self, cells: Indices, stamps: Stamps | np.int64) -> None:
        """Start new chains: writes before these stamps no longer contribute to the cells' values."""
        if self._begun is None:
            self._begun = np.zeros(self._total, np.int64)
        self._begun[cells] = stamps

    def begun(self, cells: Indices) -> Stamps:
        """Return the start of the chains of (count,) cells."""
        return np.zeros(len(cells), np.int64) if self._begun is None else self._begun[cells]

    def see(self, cells: Indices, stamps: Stamps) -> Stamps:
        """Record the observers of (count,) cells, in order; return the start of their chains."""
        if self.seen is None:
            self.seen = _Observation(np.zeros(self._total, np.int64), np.zeros(self._total, np.int64))
        since = self.begun(cells)
        self.seen.stamps[cells], self.seen.since[cells] = stamps, since
        return since


class Observed:
    """The observations of one memory by a batch's threads.

    Each strong access needs its own time, so that the order of stamps equals the order of execution.
    """

    def __init__(self, chains: Chains, clocks: BatchClocks) -> None:
        self._chains, self._clocks = chains, clocks
        self._own: _Observation | None = None  # (latest, threads)
        self._cells: Indices = np.zeros((0, 0), np.int64)
        self._next: Indices = np.zeros(0, np.int64)  # (threads,) index of the next observation in the tables

    def note(self, cells: Indices, threads: Indices, stamps: Stamps) -> None:
        """Record that (count,) threads observed (count, pieces) cells, by strong accesses with these stamps."""
        if self._own is None:
            shape = _LATEST, len(self._clocks.ids)
            self._own = _Observation(np.zeros(shape, np.int64), np.zeros(shape, np.int64))
            self._cells = np.full(shape, -1)
            self._next = np.arange(shape[1])
        for piece in cells.T:
            since = self._chains.see(piece, stamps)
            oldest = self._next[threads]
            for table, values in ((self._own.stamps, stamps), (self._own.since, since), (self._cells, piece)):
                table.reshape(-1)[oldest] = values  # tables are contiguous, so this is a view
            self._next[threads] = (oldest + len(self._clocks.ids)) % self._cells.size

    def covers(self, cells: Indices, stamps: Stamps, threads: Indices) -> Mask:
        """Return which (count,) strong writes to cells (count,) threads have observed, directly or indirectly."""
        covered: Mask = np.zeros(len(cells), np.bool_)
        last = self._chains.seen
        if last is not None:
            last_stamps = last.stamps[cells]
            at = np.flatnonzero(self._within(stamps, last_stamps, last.since[cells]))
            covered[at] = True
            covered[at[self._clocks.unordered(last_stamps[at], threads[at])]] = False
        if self._own is not None:
            for mine, since, recent_cells in zip(self._own.stamps, self._own.since, self._cells, strict=True):
                covered |= (recent_cells[threads] == cells) & self._within(stamps, mine[threads], since[threads])
        return covered

    def _within(self, stamps: Stamps, observations: Stamps, since: Stamps) -> Mask:
        """Return which (count,) writes (count,) observations saw: writes of the chain with sufficient scope."""
        observed = (observations >= FIRST) & (stamps >= since) & (stamps < observations)
        at = np.flatnonzero(observed)
        near = self._clocks.closeness((stamps[at] & THREAD) - 1, (observations[at] & THREAD) - 1)
        observed[at] = TOGETHER[level_of(stamps[at]), level_of(observations[at]), near, 0]
        return np.asarray(observed)


def after(now: int) -> np.int64:
    """Return the stamp that follows all strong accesses made until now."""
    return np.int64((now + 1) << SHIFT)
