"""What is known about shared memory where the tensor memory accelerator writes it, and mbarriers order accesses.

Bulk copies belong to the async proxy. Their bytes may be read by a thread that has seen the phase of their mbarrier
complete, or that is ordered behind such a thread by a barrier, another mbarrier or a meeting of its warp's lanes. What
threads wrote (through the generic proxy) must be fenced (fence.proxy.async) before a bulk copy comes to the same place.
That a thread which arrives at an mbarrier orders what it did is the business of `lab.emulator.memory.clocks`.

PTX ISA, Asynchronous operations; Parallel Synchronization and Communication Instructions: mbarrier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Indices, Mask
from lab.emulator.lanes import warp_of
from lab.emulator.memory.cells import Cells, Numbers
from lab.emulator.memory.clocks import BatchClocks


class AsyncShadow:
    """Bulk copies and mbarriers in the shared memory of a batch, one element for each cell of `Cells`.

    Attributes:
        seen: (mbarriers, threads) phases of each mbarrier of its block that a thread knows to be complete.
        reading: (cells,) matrix instructions and bulk copies that may still read a cell; `begin_read` counts them.
    """

    def __init__(self, cells: Cells, clocks: BatchClocks, rows: int) -> None:
        """Begin without copies and mbarriers, in the shared memory of `rows` blocks."""
        total, threads = cells.total, len(clocks.ids)
        self._cells, self._clocks, self._threads = cells, clocks, threads
        self._per_block = threads // rows
        self.seen = np.zeros((0, threads), np.int64)
        self._carried = np.zeros((0, 0, rows), np.int64)  # what the threads that arrived had seen
        self._mbarrier = np.zeros(total, np.bool_)  # part of a live mbarrier
        self._announced = np.zeros(total, np.bool_)  # of one whose initialisation was fenced by `fence.mbarrier_init`
        self._copied = np.zeros(total, np.int32)  # by a bulk copy: the mbarrier it names, plus one
        self._phase = np.zeros(total, np.int64)  # the phase that the copy is part of
        self._by = np.zeros(total, np.int32)  # thread of the copy, plus one
        self._at = np.zeros(total, np.int32)  # its instruction
        self.reading = np.zeros(total, np.int16)
        self._read_by = np.zeros(total, np.int32)  # thread of the latest of them
        self._read_at = np.zeros(total, np.int32)  # its instruction
        self._unfenced = np.zeros(total, np.int32)  # thread, plus one, that wrote through the generic proxy

    def grow(self, mbarriers: int) -> None:
        """Make room for a number of mbarriers in each block."""
        more = mbarriers - len(self.seen)
        self.seen = np.pad(self.seen, ((0, more), (0, 0)))
        self._carried = np.pad(self._carried, ((0, more), (0, more), (0, 0)))

    def _threads_of(self, block: int) -> slice:
        return slice(block * self._per_block, (block + 1) * self._per_block)

    # --- accesses of threads ----------------------------------------------------------------------------------

    def unseen(self, cells: Indices, who: Indices, *, warp: bool = False) -> Indices:
        """Return the positions of an access to what a bulk copy wrote in a phase that its thread has not seen complete.

        Args:
            cells: (pieces,) cells of the access.
            who: (pieces,) the batch's index of each piece's thread.
            warp: Whole warps access them, for which any of their lanes has seen the phase.
        """
        copied = np.flatnonzero(self._copied[cells])
        if not len(copied):
            return copied
        held = cells[copied]
        mbarriers = self._copied[held] - 1
        if warp:
            by_warp = self.seen.reshape(len(self.seen), -1, WARP_SIZE).max(axis=2)
            seen = by_warp[mbarriers, warp_of(who[copied])]
        else:
            seen = self.seen[mbarriers, who[copied]]
        early: Indices = copied[seen <= self._phase[held]]
        return early

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
        """Return who asked for the bulk copies into a block of the batch whose phase no thread of it has seen complete.

        Returns:
            (cells,) threads of the batch, and the instructions of the copies; what is in flight is told once.
        """
        size = len(self._copied) // (self._threads // self._per_block)
        first = block * size
        cells = first + np.flatnonzero(self._copied[first : first + size])
        most = self.seen[:, self._threads_of(block)].max(axis=1, initial=0)
        seen = most[self._copied[cells] - 1] if len(cells) else self._phase[:0]
        cells = cells[seen <= self._phase[cells]]
        self._copied[cells] = 0
        return self._by[cells].astype(np.int64) - 1, self._at[cells].astype(np.int64)

    # --- the async proxy --------------------------------------------------------------------------------------

    def begin_read(self, cells: Indices, who: Indices, instruction: int) -> None:
        """Note that matrix instructions or bulk copies of (cells,) threads begin to read cells."""
        np.add.at(self.reading, cells, 1)
        self._read_by[cells], self._read_at[cells] = who, instruction

    def end_read(self, cells: Indices) -> None:
        """Note the end of reads that `begin_read` noted."""
        np.subtract.at(self.reading, cells, 1)

    def reader(self, cells: Indices) -> tuple[Numbers, Numbers]:
        """Return the thread, numbered through the launch, and the instruction that began to read each cell last."""
        return self._read_by[cells] + np.int32(self._clocks.base), self._read_at[cells]

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

    def await_copies(self, cells: Indices, mbarrier: int, phase: int, thread: int, instructions: Numbers) -> None:
        """Remember copies of a thread through the generic proxy that a phase of an mbarrier awaits."""
        self._copied[cells], self._phase[cells] = mbarrier + 1, phase
        self._by[cells], self._at[cells] = thread + 1, instructions

    def fence(self, threads: Indices, blocks: Indices, *, mbarriers: bool, pending: Mask | None = None) -> None:
        """Fence the proxies: what the threads wrote, and what a barrier ordered before.

        Args:
            threads: (count,) the threads that fence.
            blocks: Their blocks, each once.
            mbarriers: Fence the memory of mbarriers alone.
            pending: (cells,) what has not been written yet when it is fenced; None for nothing.
        """
        took_part = np.zeros(self._threads + 1, np.bool_)
        took_part[threads + 1] = True
        for row in blocks.tolist():
            part = self._cells.row(row)
            one = np.concatenate([threads[threads // self._per_block == row], threads])[:1]
            stamps = self._cells.write.stamps[part]
            ordered = np.ones(len(stamps), np.bool_)
            ordered[self._clocks.unordered(stamps, np.repeat(one, len(stamps)))] = False
            fenced = took_part[self._unfenced[part]] | ordered
            if mbarriers:
                fenced = (fenced | (self._unfenced[part] == 0) & ordered) & self._mbarrier[part]
                self._announced[part] |= fenced
            if pending is not None:
                fenced &= ~pending[part]
            self._unfenced[part][fenced] = 0

    # --- mbarriers --------------------------------------------------------------------------------------------

    def mark(self, cells: Indices, *, live: bool) -> None:
        """Mark cells as part of a live mbarrier, or as ordinary memory."""
        self._mbarrier[cells], self._announced[cells] = live, False

    def announced(self, cells: Indices) -> Mask:
        """Return which (cells,) of mbarriers a cluster knows of by a fence of their initialisation."""
        return self._announced[cells]

    def forget(self, mbarrier: int, block: int) -> None:
        """Forget the phases of an mbarrier that is initialised: no thread has seen one of them."""
        self.seen[mbarrier, self._threads_of(block)] = 0
        self._carried[mbarrier, :, block] = 0
        self._carried[:, mbarrier, block] = 0

    def retire(self, mbarrier: int, thread: int, block: int) -> None:
        """Forget the copies of an mbarrier that a thread invalidates, as far as it has seen them complete."""
        part = self._cells.row(block)
        done = (self._copied[part] == mbarrier + 1) & (self._phase[part] < self.seen[mbarrier, thread])
        self._copied[part][done] = 0

    def arrive(self, mbarriers: Indices, threads: Indices, blocks: Indices) -> None:
        """Record arrivals: each of (count,) threads leaves what it knows at an mbarrier of its block."""
        for mbarrier, block in set(zip(mbarriers.tolist(), blocks.tolist(), strict=True)):
            mine = threads[(mbarriers == mbarrier) & (blocks == block)]
            carried = self._carried[mbarrier, :, block]
            np.maximum(carried, self.seen[:, mine].max(axis=1), out=carried)

    def see(self, mbarriers: Indices, parities: Indices, threads: Indices, blocks: Indices) -> None:
        """Record that (count,) threads learn that the latest phase with a parity is complete.

        A wait may end at once where that parity is that of the latest phase that the thread knew to be complete (before
        the first phase, the odd parity): then it has learnt nothing.
        """
        known = self.seen[mbarriers, threads]
        self.seen[mbarriers, threads] = known + ((known - 1 & 1) != parities)
        for mbarrier, block in set(zip(mbarriers.tolist(), blocks.tolist(), strict=True)):
            mine = threads[(mbarriers == mbarrier) & (blocks == block)]
            self.seen[:, mine] = np.maximum(self.seen[:, mine], self._carried[mbarrier, :, block][:, None])

    # --- barriers ---------------------------------------------------------------------------------------------

    def order_blocks(self, rows: Indices | slice) -> None:
        """Share what the threads of whole blocks know: they have passed a barrier. Arguments as in `Entries`."""
        if not len(self.seen):
            return
        by_block: NDArray[np.int64] = self.seen.reshape(len(self.seen), -1, self._per_block)
        by_block[:, rows] = by_block[:, rows].max(axis=2, keepdims=True)

    def order_threads(self, threads: Indices) -> None:
        """Share what (count,) threads know, block by block: they have passed a barrier."""
        if not len(self.seen):
            return
        blocks = threads // self._per_block
        for block in np.unique(blocks):
            mine = threads[blocks == block]
            self.seen[:, mine] = self.seen[:, mine].max(axis=1, keepdims=True)

    def order_warps(self, who: Indices, masks: NDArray[np.uint32]) -> None:
        """Share what lanes know that met: (count,) threads, and the lanes of its warp that each one names."""
        if not len(self.seen):
            return
        lanes = np.zeros((self._threads // WARP_SIZE, WARP_SIZE, WARP_SIZE), np.bool_)  # of each lane, those it named
        warps, lane = warp_of(who), who % WARP_SIZE
        lanes[warps, lane] = (masks[:, None] >> np.arange(WARP_SIZE, dtype=np.uint32)) & 1
        here = np.zeros(self._threads, np.bool_)
        here[who] = True
        for warp in np.unique(warps).tolist():
            span = slice(warp * WARP_SIZE, (warp + 1) * WARP_SIZE)
            met = lanes[warp] & here[span][None, :]
            known = self.seen[:, span]
            self.seen[:, span] = np.maximum(known, np.where(met[None], known[:, None, :], 0).max(axis=2))
