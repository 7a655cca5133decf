"""What is known about each piece of memory: whether it was written, by whom, and since which barrier.

Entries of the current interval between barriers are cleared when all threads of a block pass a barrier. A barrier of
some of a block's threads clears the entries of those threads only. That may miss a race with the other threads; it
never reports one that is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses, Bits, Indices, Mask
from lab.emulator.lanes import warp_of
from lab.emulator.memory.asyncshadow import AsyncShadow
from lab.emulator.memory.entries import make_entries
from lab.emulator.results import FindingKind


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """A fault of some threads of one access. The arrays have one element for each piece at fault.

    Attributes:
        kind: `uninitialised-read`, `shared-race`, `async-not-waited`, `mbarrier-misuse` or `missing-proxy-fence`.
        which: Positions, in the checked access, of the threads at fault.
        other_thread: The batch's indices of the other threads; None where there is no other side.
        other_instruction: Indices of the other instructions; None where it is the same instruction.
        other_kind: What the other threads did, `read` or `write`.
        detail: One sentence.
    """

    kind: FindingKind
    which: Indices
    other_thread: NDArray[np.integer[Any]] | None = None
    other_instruction: NDArray[np.integer[Any]] | None = None
    other_kind: str = "write"
    detail: str = ""


class Shadow:
    """Which bytes of a buffer have been written; nothing about races.

    Attributes:
        written: (bytes,) flags.
        readable: The contents count as written for reads; only the kernel's own stores set `written`.
    """

    def __init__(self, size: int, *, initialised: bool, readable: bool = False) -> None:
        self.written: Mask = np.full(size, initialised)
        self.readable = readable

    def write(self, offsets: Addresses, width: int) -> None:
        """Note a store of `width` bytes at each of (count,) offsets."""
        for byte in range(width):
            self.written[offsets + byte] = True

    def read(self, offsets: Addresses, width: int) -> list[Conflict]:
        """Check a load of `width` bytes at each of (count,) offsets."""
        if self.readable:
            return []
        good = self.written[offsets]
        for byte in range(1, width):
            good &= self.written[offsets + byte]
        bad = np.flatnonzero(~good)
        return [Conflict("uninitialised-read", bad, detail="nothing wrote this memory")] if len(bad) else []


class SharedShadow:
    """Races, initialisation and pending asynchronous copies of the shared memory of a batch of blocks.

    Attributes:
        entries: The latest accesses.
        bulk: What is known of bulk copies and mbarriers, in a kernel that has them.
        completed: (threads,) cp.async groups whose completion each thread has waited for.
    """

    def __init__(self, row_bytes: int, row_count: int, granule: int, threads: int, *, bulk: bool = False) -> None:
        """Begin with nothing written.

        Args:
            row_bytes: Bytes of a block's row, padded.
            row_count: Blocks of the batch.
            granule: Bytes of an entry.
            threads: Threads of the batch.
            bulk: The kernel has bulk copies or mbarriers.
        """
        self.entries = make_entries(row_bytes, row_count, granule, threads)
        total = self.entries.total
        self._written = np.zeros(total, np.bool_)
        self._writer_at = np.zeros(total, np.int32)
        self._strong = np.zeros(total, np.bool_)  # the latest write was atomic
        self._reader_at = np.zeros(total, np.int32)
        self._pending = np.zeros(total, np.int32)  # cp.async group of the latest asynchronous write
        self._pending_by = np.zeros(total, np.int32)
        self._any_pending = False
        self.completed = np.zeros(threads, np.int32)
        self._visible = np.zeros(threads, np.int32)  # `completed` at the block's last barrier
        self.bulk = AsyncShadow(self.entries) if bulk else None

    # --- loads ------------------------------------------------------------------------------------------------

    def read(
        self, offsets: Addresses, width: int, threads: Indices, instruction: int, *, strong: bool
    ) -> list[Conflict]:
        """Check a load and note it.

        Args:
            offsets: (count,) byte offsets into the batch's shared memory.
            width: Bytes of the access.
            threads: (count,) the batch's index of each thread.
            instruction: Index of the instruction.
            strong: An atomic or volatile access, which races only with ordinary ones.
        """
        entry, pieces = self.entries.covered(offsets, width)
        who = np.repeat(threads, pieces) if pieces > 1 else threads
        found = []
        written = self._written[entry]
        if not written.all():
            bad = np.flatnonzero(~written)
            found.append(Conflict("uninitialised-read", bad // pieces, detail="nothing wrote this shared memory"))
        at = self._written_by_others(entry, who, strong=strong)
        if len(at):
            detail = "read of what another warp wrote since the last barrier"
            found.append(self._race_with_writer(entry, at, pieces, detail))
        if self._any_pending:
            found += self._unwaited(entry, who, pieces)
        if self.bulk is not None:
            found += self._beside_bulk(self.bulk, entry, who, pieces, "read of")
        if not strong:
            self._note_readers(entry, who, instruction)
        return found

    @staticmethod
    def _beside_bulk(bulk: AsyncShadow, entry: Indices, who: Indices, pieces: int, verb: str) -> list[Conflict]:
        """Check an access to what a bulk copy may still be writing, or to an mbarrier."""
        found = []
        at = bulk.unseen(entry, who)
        if len(at):
            detail = f"{verb} memory that a bulk copy writes, before a wait for the phase of its mbarrier"
            found.append(Conflict("async-not-waited", at // pieces, *bulk.copier(entry[at]), "write", detail))
        at = bulk.of_mbarriers(entry)
        if len(at):
            detail = f"{verb} a live mbarrier by an instruction that is not an mbarrier instruction"
            found.append(Conflict("mbarrier-misuse", at // pieces, detail=detail))
        return found

    def _written_by_others(self, entry: Indices, who: Indices, *, strong: bool) -> Indices:
        """Return the positions of an access whose memory another warp wrote since the last barrier.

        Two atomic accesses do not race.
        """
        writer = self.entries.writer[entry]
        others = (writer != 0) & (warp_of(writer - 1) != warp_of(who))
        if strong:
            others &= ~self._strong[entry]
        return np.flatnonzero(others)

    def _race_with_writer(self, entry: Indices, at: Indices, pieces: int, detail: str) -> Conflict:
        held = entry[at]
        writer = self.entries.writer[held] - 1
        return Conflict("shared-race", at // pieces, writer, self._writer_at[held], "write", detail)

    def _unwaited(self, entry: Indices, who: Indices, pieces: int) -> list[Conflict]:
        group, by = self._pending[entry], self._pending_by[entry]
        done = np.where(by == who, self.completed[by], self._visible[by])
        at = np.flatnonzero(group > done)
        if not len(at):
            return []
        detail = "cp.async into this memory has not been waited for (and made visible by a barrier)"
        return [Conflict("async-not-waited", at // pieces, by[at], None, "write", detail)]

    def _note_readers(self, entry: Indices, who: Indices, instruction: int) -> None:
        reader = self.entries.reader
        before = reader[entry]
        mine = (who + 1).astype(np.int32)
        fresh = before == 0
        if fresh.any():
            reader[entry[fresh]] = mine[fresh]
            self._reader_at[entry[fresh]] = instruction
            before = reader[entry]
        another = warp_of(before - 1) != warp_of(who)
        if another.any():
            self.entries.other_reader[entry[another]] = mine[another]
        if self.bulk is not None:
            self.bulk.note_readers(entry, who)

    # --- stores -----------------------------------------------------------------------------------------------

    def write(
        self,
        offsets: Addresses,
        width: int,
        threads: Indices,
        instruction: int,
        same: Callable[[Indices], Mask],
        *,
        strong: bool,
        group: NDArray[np.int32] | None = None,
    ) -> list[Conflict]:
        """Check a store and note it. Call it before the bytes change.

        Args:
            offsets: (count,) byte offsets into the batch's shared memory.
            width: Bytes of the access.
            threads: (count,) the batch's index of each thread.
            instruction: Index of the instruction.
            same: Given positions of the access, returns whether memory already holds what they write.
            strong: An atomic or volatile access.
            group: For cp.async, (count,) each thread's running number of the group, from 1.
        """
        entry, pieces = self.entries.covered(offsets, width)
        who = np.repeat(threads, pieces) if pieces > 1 else threads
        found = []
        at = self._written_by_others(entry, who, strong=strong)
        if len(at):
            at = at[~same(at // pieces)]
        if len(at):
            found.append(self._race_with_writer(entry, at, pieces, "two warps write different values between barriers"))
        found += self._read_before(entry, who, pieces)
        if self.bulk is not None:
            found += self._beside_bulk(self.bulk, entry, who, pieces, "write over")
        self._note_writers(entry, who, instruction, strong=strong)
        if group is not None:
            self._any_pending = True
            self._pending[entry] = np.repeat(group, pieces) if pieces > 1 else group
            self._pending_by[entry] = who
        elif self._any_pending:
            self._pending[entry] = 0
        return found

    def _read_before(self, entry: Indices, who: Indices, pieces: int) -> list[Conflict]:
        first, second = self.entries.reader[entry], self.entries.other_reader[entry]
        warp = warp_of(who)
        by_first = (first != 0) & (warp_of(first - 1) != warp)
        by_second = (second != 0) & (warp_of(second - 1) != warp)
        at = np.flatnonzero(by_first | by_second)
        if not len(at):
            return []
        other = np.where(by_first, first, second)[at] - 1
        detail = "write over what another warp read since the last barrier"
        return [Conflict("shared-race", at // pieces, other, self._reader_at[entry[at]], "read", detail)]

    def _note_writers(self, entry: Indices, who: Indices, instruction: int, *, strong: bool) -> None:
        self._written[entry] = True
        self.entries.writer[entry] = who + 1
        self._writer_at[entry] = instruction
        self._strong[entry] = strong
        if self.bulk is not None:
            self.bulk.note_writers(entry, who)

    @staticmethod
    def collisions(offsets: Addresses, threads: Indices, values: list[Bits]) -> Conflict | None:
        """Find lanes of one store that write different values to one place.

        Args:
            offsets: (count,) byte offsets.
            threads: (count,) the batch's index of each thread.
            values: Elements of the access, (count,) bits each.
        """
        order = np.argsort(offsets, kind="stable")
        place = offsets[order]
        same_place = place[1:] == place[:-1]
        if not same_place.any():
            return None
        differs = np.zeros(len(same_place), np.bool_)
        for value in values:
            full = np.broadcast_to(value, offsets.shape)[order]
            differs |= full[1:] != full[:-1]
        at = np.flatnonzero(same_place & differs)
        if not len(at):
            return None
        detail = "one instruction writes different values to one place"
        return Conflict("shared-race", order[at + 1], threads[order[at]], None, "write", detail)

    # --- bulk copies and mbarriers ----------------------------------------------------------------------------

    def copy_bulk(
        self, bulk: AsyncShadow, offset: int, size: int, thread: int, instruction: int, *, mbarrier: int, phase: int
    ) -> list[Conflict]:
        """Check a bulk copy's write of `size` bytes and note it.

        Args:
            bulk: This shadow's.
            offset: Byte offset into the batch's shared memory.
            size: Bytes.
            thread: The thread that asks for the copy.
            instruction: Index of the instruction.
            mbarrier: Number of its mbarrier in the block.
            phase: The phase that awaits the copy.
        """
        granule = self.entries.granule
        entry = np.arange(offset // granule, (offset + size) // granule)
        who = np.full(len(entry), thread)
        found = []
        at = self._written_by_others(entry, who, strong=False)
        if len(at):
            detail = "bulk copy over what another warp wrote since the last barrier"
            found.append(self._race_with_writer(entry, at, len(entry), detail))
        found += self._read_before(entry, who, len(entry))
        found += self._beside_bulk(bulk, entry, who, len(entry), "bulk copy over")
        at = bulk.unfenced(entry)
        if len(at):
            detail = "bulk copy over what threads wrote, without a fence.proxy.async between the two"
            found.append(self._missing_fence(bulk, entry[at], at // len(entry), detail))
        self._written[entry] = True
        self.entries.writer[entry] = 0
        if self._any_pending:
            self._pending[entry] = 0
        bulk.note_copy(entry, thread, instruction, mbarrier, phase)
        return found

    def use_mbarrier(
        self, bulk: AsyncShadow, offsets: Addresses, threads: Indices, *, bulk_copy: bool
    ) -> list[Conflict]:
        """Check that mbarriers were initialised before the last barrier.

        For a bulk copy, check that the proxies were fenced since, too.

        Args:
            bulk: This shadow's.
            offsets: (count,) byte offsets of the mbarriers into the batch's shared memory.
            threads: (count,) the threads that use them.
            bulk_copy: The use is a bulk copy's.
        """
        entry = offsets // self.entries.granule
        found = []
        at = self._written_by_others(entry, threads, strong=False)
        if len(at):
            detail = "use of an mbarrier that another warp initialised since the last barrier"
            found.append(self._race_with_writer(entry, at, 1, detail))
        at = bulk.unfenced(entry) if bulk_copy else at[:0]
        if len(at):
            detail = "bulk copy with an mbarrier that was initialised without a fence of the proxies since"
            found.append(self._missing_fence(bulk, entry[at], at, detail))
        return found

    def _missing_fence(self, bulk: AsyncShadow, held: Indices, which: Indices, detail: str) -> Conflict:
        return Conflict("missing-proxy-fence", which, bulk.writer_of(held), self._writer_at[held], "write", detail)

    # --- barriers and waits -----------------------------------------------------------------------------------

    def wait_groups(self, rows: Indices | slice, groups: NDArray[np.int32]) -> None:
        """Note that threads have waited for their cp.async groups up to some number, one each."""
        self.completed[rows] = np.maximum(self.completed[rows], groups)

    def order_blocks(self, rows: Indices | slice, threads: Mask | slice) -> None:
        """Order what came before a barrier of whole blocks.

        Args:
            rows: (blocks,) indices of the blocks; a full slice for all of them.
            threads: (threads,) which threads are theirs; a full slice for all of them.
        """
        if self.bulk is not None:
            self.bulk.order_blocks(rows)
        self.entries.order_blocks(rows)
        self._visible[threads] = self.completed[threads]

    def order_threads(self, threads: Indices) -> None:
        """Order what (count,) threads of a block did before their barrier."""
        if self.bulk is not None:
            self.bulk.order_threads(threads)
        self.entries.order_threads(threads)
        self._visible[threads] = self.completed[threads]
