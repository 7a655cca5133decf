"""What is known about shared memory where the tensor memory accelerator writes it, and mbarriers order accesses.

Bulk copies belong to the async proxy. Their bytes may be read by a warp that has seen the phase of their mbarrier
complete, or that is ordered behind such a warp by a barrier or another mbarrier. What threads wrote (through the
generic proxy) must be fenced (fence.proxy.async) before a bulk copy comes to the same place. The threads of a
warp count as one here. That a thread which arrives at an mbarrier orders what it did is the business of
`lab.emulator.memory.clocks`.

PTX ISA, Asynchronous operations; Parallel Synchronization and Communication Instructions: mbarrier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Indices
from lab.emulator.lanes import warp_of
from lab.emulator.memory.cells import Cells, Numbers
from lab.emulator.memory.clocks import BatchClocks


class AsyncShadow:
    """Bulk copies and mbarriers in the shared memory of a batch, one element for each cell of `Cells`.

    Attributes:
        seen: (mbarriers, warps) phases of each mbarrier of its block that a warp knows to be complete.
        reading: (cells,) matrix instructions that may still read a cell.
    """

    def __init__(self, cells: Cells, clocks: BatchClocks, rows: int) -> None:
        """Begin without copies and mbarriers, in the shared memory of `rows` blocks."""
        total, threads = cells.total, len(clocks.ids)
        self._cells, self._clocks, self._threads, self._warps = cells, clocks, threads, threads // WARP_SIZE
        self._per_block = self._warps // rows
        self.seen = np.zeros((0, self._warps), np.int64)
        self._carried = np.zeros((0, 0, rows), np.int64)  # what the threads that arrived had seen
        self._mbarrier = np.zeros(total, np.bool_)  # part of a live mbarrier
        self._copied = np.zeros(total, np.int32)  # by a bulk copy: the mbarrier it names, plus one
        self._phase = np.zeros(total, np.int64)  # the phase that the copy is part of
        self._by = np.zeros(total, np.int32)  # thread of the copy, plus one
        self._at = np.zeros(total, np.int32)  # its instruction
        self.reading = np.zeros(total, np.int16)
        self._unfenced = np.zeros(total, np.int32)  # thread, plus one, that wrote through the generic proxy

    def grow(self, mbarriers: int) -> None:
        """Make room for a number of mbarriers in each block."""
        more = mbarriers - len(self.seen)
        self.seen = np.pad(self.seen, ((0, more), (0, 0)))
        self._carried = np.pad(self._carried, ((0, more), (0, more), (0, 0)))

    def _warps_of(self, block: int) -> slice:
        return slice(block * self._per_block, (block + 1) * self._per_block)

    # --- accesses of threads ----------------------------------------------------------------------------------

    def unseen(self, cells: Indices, who: Indices) -> Indices:
        """Return the positions of an access to what a bulk copy wrote in a phase that the warp has not seen complete.

        Args:
            cells: (pieces,) cells of the access.
            who: (pieces,) the batch's index of each piece's thread.
        """
        copied = np.flatnonzero(self._copied[cells])
        if not len(copied):
            return copied
        held = cells[copied]
        early = self.seen[self._copied[held] - 1, warp_of(who[copied])] <= self._phase[held]
        return copied[early]

    def copier(self, cells: Indices) -> tuple[Numbers, Numbers]:
        """Return the thread, numbered through the launch, and the instruction of the copies into some cells."""
        return self._by[cells] - 1 + np.int32(self._clocks.base), self._at[cells]

    def of_mbarriers(self, cells: Indices) -> Indices:
        """Return the positions of an access that falls on live mbarriers."""
        return np.flatnonzero(self._mbarrier[cells])

    def note_writers(self, cells: Indices, who: Indices) -> None:
        """Remember a store through the generic proxy; what a bulk copy wrote there is gone."""
        self._copied[cells] = 0
        self._unfenced[cells] = who + 1

    def in_flight(self, block: int) -> tuple[Indices, Indices]:
        """Return who asked for the bulk copies into a block of the batch whose phase no warp of it has seen complete.

        Returns:
            (cells,) threads of the batch, and the instructions of the copies; what is in flight is told once.
        """
        size = len(self._copied) // (self._warps // self._per_block)
        first = block * size
        cells = first + np.flatnonzero(self._copied[first : first + size])
        seen = self.seen[self._copied[cells] - 1, self._warps_of(block)].max(axis=1) if len(cells) else self._phase[:0]
        cells = cells[seen <= self._phase[cells]]
        self._copied[cells] = 0
        return self._by[cells].astype(np.int64) - 1, self._at[cells].astype(np.int64)

    # --- the async proxy --------------------------------------------------------------------------------------

    def unfenced(self, cells: Indices) -> Indices:
        """Return the positions where threads wrote and no fence of the proxies came since."""
        return np.flatnonzero(self._unfenced[cells])

    def writer_of(self, cells: Indices) -> Numbers:
        """Return the thread that wrote each cell through the generic proxy."""
        return self._unfenced[cells] - 1

    def note_copy(self, cells: Indices, thread: int, instruction: int, mbarrier: int, phase: int) -> None:
        """Remember a bulk copy that a phase of an mbarrier awaits."""
        self._copied[cells], self._phase[cells] = mbarrier + 1, phase
        self._by[cells], self._at[cells] = thread + 1, instruction
        self._unfenced[cells] = 0

    def fence(self, threads: Indices, blocks: Indices, *, mbarriers: bool) -> None:
        """Fence the proxies: what the threads wrote, and what a barrier ordered before.

        Args:
            threads: (count,) the threads that fence.
            blocks: Their blocks, each once.
            mbarriers: Fence the memory of mbarriers alone.
        """
        took_part = np.zeros(self._threads + 1, np.bool_)
        took_part[threads + 1] = True
        for row in blocks.tolist():
            part = self._cells.row(row)
            one = np.concatenate([threads[threads // (self._per_block * WARP_SIZE) == row], threads])[:1]
            stamps = self._cells.write.stamps[part]
            ordered = np.ones(len(stamps), np.bool_)
            ordered[self._clocks.unordered(stamps, np.repeat(one, len(stamps)))] = False
            fenced = took_part[self._unfenced[part]] | ordered
            if mbarriers:
                fenced &= self._mbarrier[part]
            self._unfenced[part][fenced] = 0

    # --- mbarriers --------------------------------------------------------------------------------------------

    def mark(self, cells: Indices, *, live: bool) -> None:
        """Mark cells as part of a live mbarrier, or as ordinary memory."""
        self._mbarrier[cells] = live

    def forget(self, mbarrier: int, block: int) -> None:
        """Forget the phases of an mbarrier that is initialised: no warp has seen one of them."""
        warps = self._warps_of(block)
        self.seen[mbarrier, warps] = 0
        self._carried[mbarrier, :, block] = 0
        self._carried[:, mbarrier, block] = 0

    def retire(self, mbarrier: int, thread: int, block: int) -> None:
        """Forget the copies of an mbarrier that a thread invalidates, as far as it has seen them complete."""
        part = self._cells.row(block)
        done = (self._copied[part] == mbarrier + 1) & (self._phase[part] < self.seen[mbarrier, thread // WARP_SIZE])
        self._copied[part][done] = 0

    def arrive(self, mbarriers: Indices, threads: Indices, blocks: Indices) -> None:
        """Record arrivals: each of (count,) threads leaves what it knows at an mbarrier of its block."""
        warps = warp_of(threads)
        for mbarrier, warp, block in set(zip(mbarriers.tolist(), warps.tolist(), blocks.tolist(), strict=True)):
            carried = self._carried[mbarrier, :, block]
            np.maximum(carried, self.seen[:, warp], out=carried)

    def see(self, mbarriers: Indices, parities: Indices, threads: Indices, blocks: Indices) -> None:
        """Record that (count,) threads learn that the latest phase with a parity is complete.

        A wait may end at once where that parity is that of the latest phase that the warp knew to be complete (before
        the first phase, the odd parity): then it has learnt nothing.
        """
        warps = warp_of(threads)
        known = self.seen[mbarriers, warps]
        self.seen[mbarriers, warps] = known + ((known - 1 & 1) != parities)
        for mbarrier, block in set(zip(mbarriers.tolist(), blocks.tolist(), strict=True)):
            mine = np.unique(warps[(mbarriers == mbarrier) & (blocks == block)])
            self.seen[:, mine] = np.maximum(self.seen[:, mine], self._carried[mbarrier, :, block][:, None])

    # --- barriers ---------------------------------------------------------------------------------------------

    def order_blocks(self, rows: Indices | slice) -> None:
        """Share what the warps of whole blocks know: they have passed a barrier. Arguments as in `Entries`."""
        if not len(self.seen):
            return
        by_block: NDArray[np.int64] = self.seen.reshape(len(self.seen), -1, self._per_block)
        by_block[:, rows] = by_block[:, rows].max(axis=2, keepdims=True)

    def order_threads(self, threads: Indices) -> None:
        """Share what the warps of (count,) threads know, block by block: they have passed a barrier."""
        if not len(self.seen):
            return
        warps = np.unique(warp_of(threads))
        for block in np.unique(warps // self._per_block):
            mine = warps[warps // self._per_block == block]
            self.seen[:, mine] = self.seen[:, mine].max(axis=1, keepdims=True)
