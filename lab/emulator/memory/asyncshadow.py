"""What is known about shared memory where the tensor memory accelerator writes it, and mbarriers order accesses.

Bulk copies belong to the async proxy. Their bytes may be read by a warp that has seen the phase of their mbarrier
complete, or that is ordered behind such a warp by a barrier or another mbarrier. What threads wrote (through the
generic proxy) must be fenced (fence.proxy.async) before a bulk copy comes to the same place. A thread that arrives at
an mbarrier orders what it did before forevery thread that sees the phase complete. The entries that this orders are
cleared foreveryone: that may miss a race, but never reports one that is not there. The threads of a warp count as
one.

PTX ISA, Asynchronous operations; Parallel Synchronization and Communication Instructions: mbarrier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Indices
from lab.emulator.lanes import warp_of
from lab.emulator.memory.entries import Entries, Numbers


class AsyncShadow:
    """Bulk copies and mbarriers in the shared memory of a batch, one element for each entry of `Entries`.

    Attributes:
        seen: (mbarriers, warps) phases of each mbarrier of its block that a warp knows to be complete.
    """

    def __init__(self, entries: Entries) -> None:
        """Begin without copies and mbarriers."""
        total = entries.total
        self._entries, self._warps = entries, entries.threads // WARP_SIZE
        self._per_block = self._warps // entries.rows
        self.seen = np.zeros((0, self._warps), np.int64)
        self._carried = np.zeros((0, 0, entries.rows), np.int64)  # what the threads that arrived had seen
        self._released = np.zeros((0, self._warps), np.int64)  # the epoch of a warp's latest arrival
        self._epoch = 1  # arrivals so far
        self._mbarrier = np.zeros(total, np.bool_)  # part of a live mbarrier
        self._copied = np.zeros(total, np.int32)  # by a bulk copy: the mbarrier it names, plus one
        self._phase = np.zeros(total, np.int64)  # the phase that the copy is part of
        self._by = np.zeros(total, np.int32)  # thread of the copy, plus one
        self._at = np.zeros(total, np.int32)  # its instruction
        self._unfenced = np.zeros(total, np.int32)  # thread, plus one, that wrote through the generic proxy
        self._read_epoch, self._other_epoch, self._write_epoch = (np.zeros(total, np.int64) for _ in range(3))

    def grow(self, mbarriers: int) -> None:
        """Make room for a number of mbarriers in each block."""
        more = mbarriers - len(self.seen)
        self.seen = np.pad(self.seen, ((0, more), (0, 0)))
        self._released = np.pad(self._released, ((0, more), (0, 0)))
        self._carried = np.pad(self._carried, ((0, more), (0, more), (0, 0)))

    def _warps_of(self, block: int) -> slice:
        return slice(block * self._per_block, (block + 1) * self._per_block)

    # --- accesses of threads ----------------------------------------------------------------------------------

    def unseen(self, entry: Indices, who: Indices) -> Indices:
        """Return the positions of an access to what a bulk copy wrote in a phase that the warp has not seen complete.

        Args:
            entry: (pieces,) entries of the access.
            who: (pieces,) the batch's index of each piece's thread.
        """
        copied = np.flatnonzero(self._copied[entry])
        if not len(copied):
            return copied
        held = entry[copied]
        early = self.seen[self._copied[held] - 1, warp_of(who[copied])] <= self._phase[held]
        return copied[early]

    def copier(self, entry: Indices) -> tuple[Numbers, Numbers]:
        """Return the thread and the instruction of the copies into some entries."""
        return self._by[entry] - 1, self._at[entry]

    def of_mbarriers(self, entry: Indices) -> Indices:
        """Return the positions of an access that falls on live mbarriers."""
        return np.flatnonzero(self._mbarrier[entry])

    def note_readers(self, entry: Indices, who: Indices) -> None:
        """Remember when the readers that `Entries` remembers read their entries."""
        entries, warp = self._entries, warp_of(who)
        for names, epochs in ((entries.reader, self._read_epoch), (entries.other_reader, self._other_epoch)):
            mine = warp_of(names[entry] - 1) == warp
            epochs[entry[mine]] = self._epoch

    def note_writers(self, entry: Indices, who: Indices) -> None:
        """Remember a store through the generic proxy; what a bulk copy wrote there is gone."""
        self._copied[entry] = 0
        self._unfenced[entry] = who + 1
        self._write_epoch[entry] = self._epoch

    # --- the async proxy --------------------------------------------------------------------------------------

    def unfenced(self, entry: Indices) -> Indices:
        """Return the positions where threads wrote and no fence of the proxies came since."""
        return np.flatnonzero(self._unfenced[entry])

    def writer_of(self, entry: Indices) -> Numbers:
        """Return the thread that wrote each entry through the generic proxy."""
        return self._unfenced[entry] - 1

    def note_copy(self, entry: Indices, thread: int, instruction: int, mbarrier: int, phase: int) -> None:
        """Remember a bulk copy that a phase of an mbarrier awaits."""
        self._copied[entry], self._phase[entry] = mbarrier + 1, phase
        self._by[entry], self._at[entry] = thread + 1, instruction
        self._unfenced[entry] = 0

    def fence(self, threads: Indices, blocks: Indices, *, mbarriers: bool) -> None:
        """Fence the proxies: what the threads wrote, and what a barrier ordered before.

        Args:
            threads: (count,) the threads that fence.
            blocks: Their blocks, each once.
            mbarriers: Fence the memory of mbarriers alone.
        """
        took_part = np.zeros(self._entries.threads + 1, np.bool_)
        took_part[threads + 1] = True
        for row in blocks.tolist():
            part = self._entries.block(row)
            fenced = took_part[self._unfenced[part]] | (self._entries.writer[part] == 0)
            if mbarriers:
                fenced &= self._mbarrier[part]
            self._unfenced[part][fenced] = 0

    # --- mbarriers --------------------------------------------------------------------------------------------

    def mark(self, entry: Indices, *, live: bool) -> None:
        """Mark entries as part of a live mbarrier, or as ordinary memory."""
        self._mbarrier[entry] = live

    def forget(self, mbarrier: int, block: int) -> None:
        """Forget the phases of an mbarrier that is initialised: no warp has seen one of them."""
        warps = self._warps_of(block)
        self.seen[mbarrier, warps] = 0
        self._released[mbarrier, warps] = 0
        self._carried[mbarrier, :, block] = 0
        self._carried[:, mbarrier, block] = 0

    def retire(self, mbarrier: int, thread: int, block: int) -> None:
        """Forget the copies of an mbarrier that a thread invalidates, as far as it has seen them complete."""
        part = self._entries.block(block)
        done = (self._copied[part] == mbarrier + 1) & (self._phase[part] < self.seen[mbarrier, thread // WARP_SIZE])
        self._copied[part][done] = 0

    def arrive(self, mbarriers: Indices, threads: Indices, blocks: Indices) -> None:
        """Record arrivals: each of (count,) threads leaves what it knows at an mbarrier of its block."""
        warps = warp_of(threads)
        self._released[mbarriers, warps] = self._epoch
        for mbarrier, warp, block in set(zip(mbarriers.tolist(), warps.tolist(), blocks.tolist(), strict=True)):
            carried = self._carried[mbarrier, :, block]
            np.maximum(carried, self.seen[:, warp], out=carried)
        self._epoch += 1

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
            self._order(mbarrier, block)

    def _order(self, mbarrier: int, block: int) -> None:
        """Clear the entries of accesses that came before an arrival at an mbarrier."""
        if not self._released[mbarrier, self._warps_of(block)].any():
            return
        entries = self._entries
        released = np.concatenate([[0], np.repeat(self._released[mbarrier], WARP_SIZE)])
        part = entries.block(block)
        for names, epochs in (
            (entries.reader, self._read_epoch),
            (entries.other_reader, self._other_epoch),
            (entries.writer, self._write_epoch),
        ):
            before = epochs[part] <= released[names[part]]
            names[part][before] = 0

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
