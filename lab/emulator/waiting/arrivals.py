"""Who arrived at mbarriers in which phase, and who may as well have arrived in another one.

An mbarrier counts arrivals and not who they are of. Where one thread more arrives than it expects, whichever comes
last counts in the next phase. In one order of threads that is harmless; in another it is the one that announces bytes,
and the phase is complete without them. So an arrival must be ordered behind the phase before its own.
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
"""The instruction that announces bytes, the thread, and its stamp."""


class ArrivalTurns:
    """Arrivals of threads at mbarriers of their own block."""

    def __init__(self, batch: Batch, clocks: BatchClocks, bulk: AsyncShadow) -> None:
        """Begin without mbarriers."""
        self._batch, self._clocks, self._bulk = batch, clocks, bulk
        self._phase = np.zeros((0, batch.threads), np.int64)  # of each thread's latest arrival, plus one
        self._at = np.zeros((0, batch.threads), np.int64)  # its stamp
        self._fetches: NDArray[np.bool_] = np.zeros((0, batch.blocks, 2), np.bool_)  # this phase, the one before
        self._alone: dict[tuple[int, int], list[Announced]] = {}

    def grow(self, mbarriers: int) -> None:
        """Make room for a number of mbarriers in each block."""
        more = mbarriers - len(self._phase)
        self._phase, self._at = (np.pad(one, ((0, more), (0, 0))) for one in (self._phase, self._at))
        self._fetches = np.pad(self._fetches, ((0, more), (0, 0), (0, 0)))

    def forget(self, number: int, block: int) -> None:
        """Forget what was done at an mbarrier that is initialised."""
        self._phase[number, self._batch.block_of == block] = 0
        self._fetches[number, block] = False
        self._alone.pop((number, block), None)

    def arrive(self, number: int, block: int, phase: int, who: Indices) -> Indices:
        """Note arrivals of (count,) threads in a phase; return the threads that may arrive in the phase before, too.

        A thread does not if it knows that phase to be complete. Where the phase awaits no bytes, it is enough to be
        ordered behind all of its arrivals.
        """
        early: Indices = who[self._bulk.seen[number, who] < phase]
        if len(early) and not self._fetches[number, block, 1]:
            before = np.flatnonzero((self._phase[number] == phase) & (self._batch.block_of == block))
            stamps = self._at[number, before]
            early = np.array([one for one in early.tolist() if self._is_late(stamps, one)], np.int64)
        self._phase[number, who], self._at[number, who] = phase + 1, self._clocks.stamps(who, PLAIN)
        return early

    def _is_late(self, stamps: NDArray[np.int64], thread: int) -> bool:
        """Return whether a thread does not know of some of (count,) arrivals."""
        return bool(len(self._clocks.unordered(stamps, np.full(len(stamps), thread))))

    def expect(self, position: int, number: int, block: int, alone: Indices) -> None:
        """Note that the current phase awaits bytes, and the threads that announce them without an arrival."""
        self._fetches[number, block, 0] = True
        if len(alone):
            stamps = self._clocks.stamps(alone, PLAIN).tolist()
            announced = [(position, thread, stamp) for thread, stamp in zip(alone.tolist(), stamps, strict=True)]
            self._alone.setdefault((number, block), []).extend(announced)

    def complete(self, number: int, block: int) -> list[Announced] | None:
        """Begin another phase; return the bytes that were announced without an arrival in the one that ends."""
        self._fetches[number, block] = False, self._fetches[number, block, 0]
        return self._alone.pop((number, block), None)
