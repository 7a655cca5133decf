"""What is known about shared memory where the tensor memory accelerator writes it, and mbarriers order accesses.

Bulk copies belong to the async proxy. Their bytes may be read by a warp that has seen the phase of their mbarrier
complete, or that is ordered behind such a warp, by a barrier or another mbarrier. What threads wrote (through the
generic proxy) must be fenced (fence.proxy.async) before a bulk copy comes to the same place. Who arrives at an mbarrier
orders what it did before that for who sees the phase complete; the entries of `SharedShadow` that this orders are
cleared for everyone, which may miss a race and never invents one. As there, the threads of a warp count as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lab.emulator.memory.shadow import SharedShadow

Array = NDArray[Any]


class AsyncShadow:
    """One entry a granule of `SharedShadow`, whose numbers of threads, plus one, it shares.

    Attributes:
        seen: (mbarriers, warps) phases of each mbarrier of its block that a warp knows to be complete.
    """

    def __init__(self, shadow: SharedShadow, threads: int) -> None:
        """Begin with no copies and no mbarriers."""
        total = len(shadow.written)
        self._shadow, self._warps = shadow, threads // 32
        self._per_block = self._warps // (total // shadow.per_row)
        self.seen = np.zeros((0, self._warps), np.int64)
        self._carried = np.zeros((0, 0, total // shadow.per_row), np.int64)  # what those who arrived had seen
        self._released = np.zeros((0, self._warps), np.int64)  # the epoch of a warp's latest arrival
        self._epoch = 1  # arrivals so far
        self._mbarrier = np.zeros(total, bool)  # part of a live mbarrier
        self._copied = np.zeros(total, np.int32)  # by a bulk copy: the mbarrier it names, plus one
        self._phase = np.zeros(total, np.int64)  # the phase that the copy is part of
        self._by = np.zeros(total, np.int32)  # thread of the copy, plus one
        self._at = np.zeros(total, np.int32)  # its instruction
        self._unfenced = np.zeros(total, np.int32)  # thread, plus one, that wrote through the generic proxy
        self._read_epoch, self._other_epoch, self._write_epoch = (np.zeros(total, np.int64) for _ in range(3))

    def grow(self, mbarriers: int) -> None:
        """Make room for so many mbarriers a block."""
        more = mbarriers - len(self.seen)
        self.seen = np.pad(self.seen, ((0, more), (0, 0)))
        self._released = np.pad(self._released, ((0, more), (0, 0)))
        self._carried = np.pad(self._carried, ((0, more), (0, more), (0, 0)))

    # --- accesses of threads ----------------------------------------------------------------------------------

    def unseen(self, entry: Array, who: Array) -> Array:
        """Positions of an access to what a bulk copy wrote, and whose phase the warp has not seen complete."""
        copied = np.flatnonzero(self._copied[entry])
        if not len(copied):
            return copied
        held = entry[copied]
        unseen: Array = copied[self.seen[self._copied[held] - 1, who[copied] >> 5] <= self._phase[held]]
        return unseen

    def copier(self, entry: Array) -> tuple[Array, Array]:
        """Thread and instruction of the copies into some entries."""
        return self._by[entry] - 1, self._at[entry]

    def of_mbarriers(self, entry: Array) -> Array:
        """Positions of an access that falls on live mbarriers."""
        return np.flatnonzero(self._mbarrier[entry])

    def note_readers(self, entry: Array, who: Array) -> None:
        """Remember when entries were read last by those that `SharedShadow` remembers."""
        shadow, warp = self._shadow, who >> 5
        for names, epochs in ((shadow.reader, self._read_epoch), (shadow.other_reader, self._other_epoch)):
            mine = (names[entry] - 1) >> 5 == warp
            epochs[entry[mine]] = self._epoch

    def note_writers(self, entry: Array, who: Array) -> None:
        """Remember a store: no copy any more, through the generic proxy."""
        self._copied[entry] = 0
        self._unfenced[entry] = who + 1
        self._write_epoch[entry] = self._epoch

    # --- the async proxy --------------------------------------------------------------------------------------

    def unfenced(self, entry: Array) -> Array:
        """Positions where threads wrote and no fence of proxies came since."""
        return np.flatnonzero(self._unfenced[entry])

    def writer_of(self, entry: Array) -> Array:
        """Thread that wrote each entry through the generic proxy."""
        return self._unfenced[entry] - 1

    def note_copy(self, entry: Array, thread: int, instruction: int, mbarrier: int, phase: int) -> None:
        """Remember a bulk copy that a phase of an mbarrier awaits."""
        self._copied[entry], self._phase[entry] = mbarrier + 1, phase
        self._by[entry], self._at[entry] = thread + 1, instruction
        self._unfenced[entry] = 0

    def fence(self, threads: Array, blocks: Array, *, mbarriers: bool) -> None:
        """Fence the proxies: what the threads wrote, and what a barrier ordered before.

        Args:
            threads: Who fences.
            blocks: Their blocks, each once.
            mbarriers: Mbarriers alone.
        """
        took_part = np.zeros(32 * self._warps + 1, bool)
        took_part[threads + 1] = True
        for row in blocks:
            part = slice(row * self._shadow.per_row, (row + 1) * self._shadow.per_row)
            fenced = took_part[self._unfenced[part]] | (self._shadow.writer[part] == 0)
            if mbarriers:
                fenced &= self._mbarrier[part]
            self._unfenced[part][fenced] = 0

    # --- mbarriers --------------------------------------------------------------------------------------------

    def mark(self, entry: Array, *, live: bool) -> None:
        """An mbarrier begins or ends to be."""
        self._mbarrier[entry] = live

    def forget(self, mbarrier: int, block: int) -> None:
        """An mbarrier is initialised: nobody has seen a phase of it."""
        warps = slice(block * self._per_block, (block + 1) * self._per_block)
        self.seen[mbarrier, warps] = 0
        self._released[mbarrier, warps] = 0
        self._carried[mbarrier, :, block] = 0
        self._carried[:, mbarrier, block] = 0

    def retire(self, mbarrier: int, thread: int, block: int) -> None:
        """A thread invalidates an mbarrier: copies that it has seen complete are copies no more."""
        part = slice(block * self._shadow.per_row, (block + 1) * self._shadow.per_row)
        done = (self._copied[part] == mbarrier + 1) & (self._phase[part] < self.seen[mbarrier, thread >> 5])
        self._copied[part][done] = 0

    def arrive(self, mbarriers: Array, threads: Array, blocks: Array) -> None:
        """Threads arrive, each at an mbarrier of its block, and leave there what they know."""
        warps = threads >> 5
        self._released[mbarriers, warps] = self._epoch
        for mbarrier, warp, block in set(zip(mbarriers.tolist(), warps.tolist(), blocks.tolist(), strict=True)):
            carried = self._carried[mbarrier, :, block]
            np.maximum(carried, self.seen[:, warp], out=carried)
        self._epoch += 1

    def see(self, mbarriers: Array, parities: Array, threads: Array, blocks: Array) -> None:
        """Threads learn that the latest phase with a parity is complete.

        A wait may end at once where that parity is that of the latest phase that the warp knew to be complete (before
        the first phase, the odd parity): then it has learnt nothing.
        """
        warps = threads >> 5
        known = self.seen[mbarriers, warps]
        self.seen[mbarriers, warps] = known + ((known - 1 & 1) != parities)
        for mbarrier, block in set(zip(mbarriers.tolist(), blocks.tolist(), strict=True)):
            mine = np.unique(warps[(mbarriers == mbarrier) & (blocks == block)])
            self.seen[:, mine] = np.maximum(self.seen[:, mine], self._carried[mbarrier, :, block][:, None])
            self._order(mbarrier, block)

    def _order(self, mbarrier: int, block: int) -> None:
        """Clear the entries of what was done before an arrival."""
        shadow = self._shadow
        released = np.concatenate([[0], np.repeat(self._released[mbarrier], 32)])
        part = slice(block * shadow.per_row, (block + 1) * shadow.per_row)
        if not self._released[mbarrier, block * self._per_block : (block + 1) * self._per_block].any():
            return
        for names, epochs in (
            (shadow.reader, self._read_epoch),
            (shadow.other_reader, self._other_epoch),
            (shadow.writer, self._write_epoch),
        ):
            before = epochs[part] <= released[names[part]]
            names[part][before] = 0

    def barrier(self, rows: Array | None, threads: Array | None) -> None:
        """Threads that pass a barrier together know what each of them knew. Arguments as in `SharedShadow.barrier`."""
        if not len(self.seen):
            return
        if threads is not None:
            warps = np.unique(threads >> 5)
            for block in np.unique(warps // self._per_block):
                mine = warps[warps // self._per_block == block]
                self.seen[:, mine] = self.seen[:, mine].max(axis=1, keepdims=True)
            return
        by_block = self.seen.reshape(len(self.seen), -1, self._per_block)
        chosen: Any = slice(None) if rows is None else rows
        by_block[:, chosen] = by_block[:, chosen].max(axis=2, keepdims=True)
