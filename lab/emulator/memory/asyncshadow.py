"""The shadow state of shared memory for TMA writes and for accesses ordered by mbarriers.

Bulk copies use the async proxy. A thread may read their bytes after it has seen the phase of their mbarrier complete,
or if a barrier, another mbarrier or a warp sync orders it after such a thread. Data written by threads (through the
generic proxy) must be fenced (fence.proxy.async) before a bulk copy accesses the same place. The module
`lab.emulator.memory.clocks` handles the ordering of a thread's accesses by its mbarrier arrival.

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
    """Bulk copies and mbarriers in a batch's shared memory, one element per cell of `Cells`.

    Attributes:
        seen: (mbarriers, threads) number of phases a thread knows to be complete, for each mbarrier of its block.
        reading: (cells,) matrix instructions and bulk copies that may still read a cell; `begin_read` counts them.
    """

    def __init__(self, cells: Cells, clocks: BatchClocks, rows: int) -> None:
        """Start without copies or mbarriers, in the shared memory of `rows` blocks."""
        total, threads = cells.total, len(clocks.ids)
        self._cells, self._clocks, self._threads = cells, clocks, threads
        self._per_block = threads // rows
        self.seen = np.zeros((0, threads), np.int64)
        self._carried = np.zeros((0, 0, rows), np.int64)  # phases the arrived threads had seen
        self._mbarrier = np.zeros(total, np.bool_)  # part of a live mbarrier
        self._announced = np.zeros(total, np.bool_)  # initialisation fenced by `fence.mbarrier_init`
        self._copied = np.zeros(total, np.int32)  # the mbarrier of the latest bulk copy, plus one
        self._phase = np.zeros(total, np.int64)  # the phase of the copy
        self._by = np.zeros(total, np.int32)  # thread of the copy, plus one
        self._at = np.zeros(total, np.int32)  # its instruction
        self.reading = np.zeros(total, np.int16)
        self._read_by = np.zeros(total, np.int32)  # thread of the latest of them
        self._read_at = np.zeros(total, np.int32)  # its instruction
        self._unfenced = np.zeros(total, np.int32)  # generic-proxy writer, plus one

    def grow(self, mbarriers: int) -> None:
        """Make room for a number of mbarriers in each block."""
        added = mbarriers - len(self.seen)
        self.seen = np.pad(self.seen, ((0, added), (0, 0)))
        self._carried = np.pad(self._carried, ((0, added), (0, added), (0, 0)))

    def _threads_of(self, block: int) -> slice:
        return slice(block * self._per_block, (block + 1) * self._per_block)

    # --- accesses of threads ----------------------------------------------------------------------------------

    def unseen(self, cells: Indices, threads: Indices, *, warp: bool = False) -> Indices:
        """Return the positions of an access to bulk-copied data whose phase the thread has not seen complete.

        Args:
            cells: (pieces,) cells of the access.
            threads: (pieces,) the accessing thread's index within the batch.
            warp: Whole warps access them; it suffices if any lane has seen the phase.
        """
        copied = np.flatnonzero(self._copied[cells])
        if not len(copied):
            return copied
        accessed = cells[copied]
        mbarriers = self._copied[accessed] - 1
        if warp:
            by_warp = self.seen.reshape(len(self.seen), -1, WARP_SIZE).max(axis=2)
            phases_seen = by_warp[mbarriers, warp_of(threads[copied])]
        else:
            phases_seen = self.seen[mbarriers, threads[copied]]
        early: Indices = copied[phases_seen <= self._phase[accessed]]
        return early

    def copier(self, cells: Indices) -> tuple[Numbers, Numbers]:
        """Return the launch-wide thread and the instruction of the copies into some cells."""
        return self._by[cells] - 1 + np.int32(self._clocks.base), self._at[cells]

    def of_mbarriers(self, cells: Indices) -> Indices:
        """Return the positions of an access that hit live mbarriers."""
        return np.flatnonzero(self._mbarrier[cells])

    def note_writers(self, cells: Indices, threads: Indices) -> None:
        """Record a store through the generic proxy, which overwrites bulk-copied data."""
        self._copied[cells] = 0
        self._unfenced[cells] = threads + 1

    def in_flight(self, block: int) -> tuple[Indices, Indices]:
        """Return the issuers of bulk copies into a block whose phase no thread of it has seen complete.

        Returns:
            (cells,) threads of the batch, and the instructions of the copies; each copy is returned once.
        """
        size = len(self._copied) // (self._threads // self._per_block)
        first = block * size
        cells = first + np.flatnonzero(self._copied[first : first + size])
        latest_seen = self.seen[:, self._threads_of(block)].max(axis=1, initial=0)
        phases_seen = latest_seen[self._copied[cells] - 1] if len(cells) else self._phase[:0]
        cells = cells[phases_seen <= self._phase[cells]]
        self._copied[cells] = 0
        return self._by[cells].astype(np.int64) - 1, self._at[cells].astype(np.int64)

    # --- the async proxy --------------------------------------------------------------------------------------

    def begin_read(self, cells: Indices, threads: Indices, instruction: int) -> None:
        """Record that matrix instructions or bulk copies of (cells,) threads start to read cells."""
        np.add.at(self.reading, cells, 1)
        self._read_by[cells], self._read_at[cells] = threads, instruction

    def end_read(self, cells: Indices) -> None:
        """Record the end of reads started by `begin_read`."""
        np.subtract.at(self.reading, cells, 1)

    def reader(self, cells: Indices) -> tuple[Numbers, Numbers]:
        """Return the launch-wide thread and the instruction that started the latest read of each cell."""
        return self._read_by[cells] + np.int32(self._clocks.base), self._read_at[cells]

    def unfenced(self, cells: Indices) -> Indices:
        """Return the positions written by threads without a later proxy fence."""
        return np.flatnonzero(self._unfenced[cells])

    def writer_of(self, cells: Indices) -> Numbers:
        """Return the generic-proxy writer of each cell."""
        return self._unfenced[cells] - 1

    def note_copy(self, cells: Indices, thread: int, instruction: int, mbarrier: int, phase: int) -> None:
        """Record a bulk copy tracked by an mbarrier phase."""
        self._copied[cells], self._phase[cells] = mbarrier + 1, phase
        self._by[cells], self._at[cells] = thread + 1, instruction
        self._unfenced[cells] = 0

    def await_copies(self, cells: Indices, mbarrier: int, phase: int, thread: int, instructions: Numbers) -> None:
        """Record a thread's generic-proxy copies tracked by an mbarrier phase."""
        self._copied[cells], self._phase[cells] = mbarrier + 1, phase
        self._by[cells], self._at[cells] = thread + 1, instructions

    def fence(self, threads: Indices, blocks: Indices, *, mbarriers: bool, pending: Mask | None = None) -> None:
        """Fence the proxies for the threads' own writes and writes ordered before by a barrier.

        Args:
            threads: (count,) the threads that fence.
            blocks: Their blocks, without repetition.
            mbarriers: Fence only the memory of mbarriers.
            pending: (cells,) cells not written yet at the fence; None for none.
        """
        took_part = np.zeros(self._threads + 1, np.bool_)
        took_part[threads + 1] = True
        for row in blocks.tolist():
            row_slice = self._cells.row(row)
            observer = np.concatenate([threads[threads // self._per_block == row], threads])[:1]
            stamps = self._cells.write.stamps[row_slice]
            ordered = np.ones(len(stamps), np.bool_)
            ordered[self._clocks.unordered(stamps, np.repeat(observer, len(stamps)))] = False
            fenced = took_part[self._unfenced[row_slice]] | ordered
            if mbarriers:
                fenced = (fenced | (self._unfenced[row_slice] == 0) & ordered) & self._mbarrier[row_slice]
                self._announced[row_slice] |= fenced
            if pending is not None:
                fenced &= ~pending[row_slice]
            self._unfenced[row_slice][fenced] = 0

    # --- mbarriers --------------------------------------------------------------------------------------------

    def mark(self, cells: Indices, *, live: bool) -> None:
        """Mark cells as part of a live mbarrier, or as ordinary memory."""
        self._mbarrier[cells], self._announced[cells] = live, False

    def announced(self, cells: Indices) -> Mask:
        """Return which (cells,) of mbarriers have a fenced initialisation visible to the cluster."""
        return self._announced[cells]

    def forget(self, mbarrier: int, block: int) -> None:
        """Reset the phases of an mbarrier at initialisation: no thread has seen any."""
        self.seen[mbarrier, self._threads_of(block)] = 0
        self._carried[mbarrier, :, block] = 0
        self._carried[:, mbarrier, block] = 0

    def retire(self, mbarrier: int, thread: int, block: int) -> None:
        """Drop the copies of an mbarrier being invalidated that the thread has seen complete."""
        row_slice = self._cells.row(block)
        completed = (self._copied[row_slice] == mbarrier + 1) & (self._phase[row_slice] < self.seen[mbarrier, thread])
        self._copied[row_slice][completed] = 0

    def arrive(self, mbarriers: Indices, threads: Indices, blocks: Indices) -> None:
        """Record arrivals: each of (count,) threads publishes its knowledge at an mbarrier of its block."""
        for mbarrier, block in set(zip(mbarriers.tolist(), blocks.tolist(), strict=True)):
            mine = threads[(mbarriers == mbarrier) & (blocks == block)]
            carried = self._carried[mbarrier, :, block]
            np.maximum(carried, self.seen[:, mine].max(axis=1), out=carried)

    def see(self, mbarriers: Indices, parities: Indices, threads: Indices, blocks: Indices) -> None:
        """Record that (count,) threads learn that the latest phase with a parity is complete.

        A wait may return at once if the parity is that of the latest phase the thread knew to be complete (before the
        first phase, the odd parity): then the thread has learnt nothing.
        """
        phases_seen = self.seen[mbarriers, threads]
        self.seen[mbarriers, threads] = phases_seen + ((phases_seen - 1 & 1) != parities)
        for mbarrier, block in set(zip(mbarriers.tolist(), blocks.tolist(), strict=True)):
            mine = threads[(mbarriers == mbarrier) & (blocks == block)]
            self.seen[:, mine] = np.maximum(self.seen[:, mine], self._carried[mbarrier, :, block][:, None])

    # --- barriers ---------------------------------------------------------------------------------------------

    def order_blocks(self, rows: Indices | slice) -> None:
        """Share knowledge among all threads of whole blocks after a barrier. Arguments as in `Entries`."""
        if not len(self.seen):
            return
        by_block: NDArray[np.int64] = self.seen.reshape(len(self.seen), -1, self._per_block)
        by_block[:, rows] = by_block[:, rows].max(axis=2, keepdims=True)

    def order_threads(self, threads: Indices) -> None:
        """Share knowledge among (count,) threads, block by block, after a barrier."""
        if not len(self.seen):
            return
        blocks = threads // self._per_block
        for block in np.unique(blocks):
            mine = threads[blocks == block]
            self.seen[:, mine] = self.seen[:, mine].max(axis=1, keepdims=True)

    def order_warps(self, threads: Indices, masks: NDArray[np.uint32]) -> None:
        """Share knowledge among synced lanes: (count,) threads and each one's member mask."""
        if not len(self.seen):
            return
        lanes = np.zeros((self._threads // WARP_SIZE, WARP_SIZE, WARP_SIZE), np.bool_)  # each lane's member mask
        warps, lane = warp_of(threads), threads % WARP_SIZE
        lanes[warps, lane] = (masks[:, None] >> np.arange(WARP_SIZE, dtype=np.uint32)) & 1
        present = np.zeros(self._threads, np.bool_)
        present[threads] = True
        for warp in np.unique(warps).tolist():
            span = slice(warp * WARP_SIZE, (warp + 1) * WARP_SIZE)
            meeting = lanes[warp] & present[span][None, :]
            phases_seen = self.seen[:, span]
            self.seen[:, span] = np.maximum(
                phases_seen, np.where(meeting[None], phases_seen[:, None, :], 0).max(axis=2)
            )
