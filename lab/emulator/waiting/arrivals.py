"""Mbarrier arrivals by phase, and arrivals that may count in the wrong phase.

An mbarrier counts arrivals without identifying threads. If one thread more than expected arrives, the last one counts
in the next phase. In one order of threads this is harmless; in another, the last one is the thread that announces
bytes, and the phase completes without them. So an arrival must be ordered after the phase before its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Indices
from lab.emulator.batch import Batch
from lab.emulator.memory.asyncshadow import AsyncShadow
from lab.emulator.memory.clocks import BatchClocks
from lab.emulator.memory.order import PLAIN

Announced = tuple[int, int, int]
"""The instruction that announces bytes, its thread and its stamp."""


class ArrivalTurns:
    """The arrivals of threads at mbarriers of their own block."""

    def __init__(self, batch: Batch, clocks: BatchClocks, bulk: AsyncShadow) -> None:
        """Start without mbarriers."""
        self._batch, self._clocks, self._bulk = batch, clocks, bulk
        self._phase = np.zeros((0, batch.threads), np.int64)  # of each thread's latest arrival, plus one
        self._at = np.zeros((0, batch.threads), np.int64)  # its stamp
        self._fetches: NDArray[np.bool_] = np.zeros((0, batch.blocks, 2), np.bool_)  # this phase, the one before
        self._alone: dict[tuple[int, int], list[Announced]] = {}

    def grow(self, mbarriers: int) -> None:
        """Make room for a number of mbarriers in each block."""
        added = mbarriers - len(self._phase)
        self._phase, self._at = (np.pad(array, ((0, added), (0, 0))) for array in (self._phase, self._at))
        self._fetches = np.pad(self._fetches, ((0, added), (0, 0), (0, 0)))

    def forget(self, number: int, block: int) -> None:
        """Reset the state of an mbarrier that is initialised."""
        self._phase[number, self._batch.block_of == block] = 0
        self._fetches[number, block] = False
        self._alone.pop((number, block), None)

    def arrive(self, number: int, block: int, phase: int, threads: Indices) -> Indices:
        """Record arrivals of (count,) threads in a phase; return those that may also count in the phase before.

        A thread cannot if it knows that phase to be complete. If the phase expects no bytes, being ordered after all of
        its arrivals is enough.
        """
        early: Indices = threads[self._bulk.seen[number, threads] < phase]
        if len(early) and not self._fetches[number, block, 1]:
            before = np.flatnonzero((self._phase[number] == phase) & (self._batch.block_of == block))
            stamps = self._at[number, before]
            early = np.array([thread for thread in early.tolist() if self._is_late(stamps, thread)], np.int64)
        self._phase[number, threads], self._at[number, threads] = phase + 1, self._clocks.stamps(threads, PLAIN)
        return early

    def _is_late(self, stamps: NDArray[np.int64], thread: int) -> bool:
        """Return whether a thread is unordered with some of (count,) arrivals."""
        return bool(len(self._clocks.unordered(stamps, np.full(len(stamps), thread))))

    def expect(self, position: int, number: int, block: int, alone: Indices) -> None:
        """Record that the current phase expects bytes, and the threads that announce them without an arrival."""
        self._fetches[number, block, 0] = True
        if len(alone):
            stamps = self._clocks.stamps(alone, PLAIN).tolist()
            announced = [(position, thread, stamp) for thread, stamp in zip(alone.tolist(), stamps, strict=True)]
            self._alone.setdefault((number, block), []).extend(announced)

    def complete(self, number: int, block: int) -> list[Announced] | None:
        """Start the next phase; return the bytes announced without an arrival in the one that ends."""
        self._fetches[number, block] = False, self._fetches[number, block, 0]
        return self._alone.pop((number, block), None)
