"""Which strong writes of a place a thread has observed: what it does to this place afterwards comes behind them.

PTX ISA, Memory Consistency Model: a strong write precedes, in observation order, a strong read of its value, and by a
chain of updates the reads of those that go on with it. What precedes a read so precedes in causality whatever follows
that read in program order, or is ordered behind it. Nothing is learnt of any other place: that takes a release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.emulator.arrays import Indices, Mask
from lab.emulator.memory.clocks import FIRST, SHIFT, THREAD, BatchClocks, Stamps, level_of
from lab.emulator.memory.order import TOGETHER

_LATEST = 4
"""Observations that are remembered of each thread."""


@dataclass(frozen=True, slots=True, eq=False)
class _Observation:
    """What was observed, one element for each cell, or for each of a thread's latest observations.

    Attributes:
        stamps: When: writes before that were observed.
        since: From when on: where the chain of updates began.
    """

    stamps: Stamps
    since: Stamps


class Chains:
    """For each cell of a memory, the chain of updates that its value comes from, and who observed it last."""

    def __init__(self, total: int) -> None:
        """Begin without writes: `total` cells."""
        self._total = total
        self._begun: Stamps | None = None
        self.seen: _Observation | None = None

    def begin(self, cells: Indices, stamps: Stamps | np.int64) -> None:
        """Begin chains anew: what was written before these stamps is not part of a cell's value any more."""
        if self._begun is None:
            self._begun = np.zeros(self._total, np.int64)
        self._begun[cells] = stamps

    def begun(self, cells: Indices) -> Stamps:
        """Return where the chains of (count,) cells begin."""
        return np.zeros(len(cells), np.int64) if self._begun is None else self._begun[cells]

    def see(self, cells: Indices, stamps: Stamps) -> Stamps:
        """Note who observes (count,) cells, in the order in which they do; return where their chains begin."""
        if self.seen is None:
            self.seen = _Observation(np.zeros(self._total, np.int64), np.zeros(self._total, np.int64))
        since = self.begun(cells)
        self.seen.stamps[cells], self.seen.since[cells] = stamps, since
        return since


class Observed:
    """What the threads of a batch have observed of one memory.

    Strong accesses need a time of their own each, so that the order of their stamps is that of their execution.
    """

    def __init__(self, chains: Chains, clocks: BatchClocks) -> None:
        self._chains, self._clocks = chains, clocks
        self._own: _Observation | None = None  # (latest, threads)
        self._cells: Indices = np.zeros((0, 0), np.int64)
        self._next: Indices = np.zeros(0, np.int64)  # (threads,) where in the tables the next observation goes

    def note(self, cells: Indices, who: Indices, stamps: Stamps) -> None:
        """Note that (count,) threads observed (count, pieces) cells, by strong accesses with these stamps."""
        if self._own is None:
            shape = _LATEST, len(self._clocks.ids)
            self._own = _Observation(np.zeros(shape, np.int64), np.zeros(shape, np.int64))
            self._cells = np.full(shape, -1)
            self._next = np.arange(shape[1])
        for piece in cells.T:
            since = self._chains.see(piece, stamps)
            oldest = self._next[who]
            for table, values in ((self._own.stamps, stamps), (self._own.since, since), (self._cells, piece)):
                table.reshape(-1)[oldest] = values  # tables are contiguous, so this is a view
            self._next[who] = (oldest + len(self._clocks.ids)) % self._cells.size

    def covers(self, cells: Indices, stamps: Stamps, who: Indices) -> Mask:
        """Return which of (count,) strong writes to cells (count,) threads have observed, or know to be observed."""
        known: Mask = np.zeros(len(cells), np.bool_)
        last = self._chains.seen
        if last is not None:
            seen = last.stamps[cells]
            at = np.flatnonzero(self._within(stamps, seen, last.since[cells]))
            known[at] = True
            known[at[self._clocks.unordered(seen[at], who[at])]] = False
        if self._own is not None:
            for mine, since, where in zip(self._own.stamps, self._own.since, self._cells, strict=True):
                known |= (where[who] == cells) & self._within(stamps, mine[who], since[who])
        return known

    def _within(self, stamps: Stamps, seen: Stamps, since: Stamps) -> Mask:
        """Return which (count,) writes (count,) observations saw: those of the chain, strong enough for both sides."""
        found = (seen >= FIRST) & (stamps >= since) & (stamps < seen)
        at = np.flatnonzero(found)
        near = self._clocks.closeness((stamps[at] & THREAD) - 1, (seen[at] & THREAD) - 1)
        found[at] = TOGETHER[level_of(stamps[at]), level_of(seen[at]), near, 0]
        return np.asarray(found)


def after(now: int) -> np.int64:
    """Return the stamp before which strong accesses lie that were made until now."""
    return np.int64((now + 1) << SHIFT)
