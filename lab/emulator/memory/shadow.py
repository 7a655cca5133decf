"""What is known about each piece of memory: whether it was written, by whom, and since which barrier.

A shadow has one entry a granule; a granule is the smallest width in which the kernel touches shared memory,
so that neighbours never look like one another. Entries of the current interval between barriers are cleared
when all threads of a block pass a barrier. A barrier of some of a block's threads clears the entries of those
threads only: that may miss a race with the others, and never invents one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.memory.asyncshadow import AsyncShadow
from lab.emulator.results import FindingKind

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Accesses that should not have happened together.

    Attributes:
        kind: `uninitialised-read`, `shared-race`, `async-not-waited`, `mbarrier-misuse` or `missing-proxy-fence`.
        which: Positions, in the checked access, of the threads at fault.
        other_thread: For each, the machine's index of the other thread, or -1.
        other_instruction: For each, the other instruction's index, or -1.
        other_kind: `read` or `write`.
        detail: One sentence.
    """

    kind: FindingKind
    which: Array
    other_thread: Array | None = None
    other_instruction: Array | None = None
    other_kind: str = "write"
    detail: str = ""


class Shadow:
    """Initialised bytes of a buffer; nothing about races.

    Attributes:
        written: One flag a byte.
        readable: The contents count as written for reads; only the kernel's own stores set `written`.
    """

    def __init__(self, size: int, *, initialised: bool, readable: bool = False) -> None:
        self.written: Array = np.full(size, initialised)
        self.readable = readable

    def write(self, offsets: Array, width: int) -> None:
        """Note a store of `width` bytes at each offset."""
        for byte in range(width):
            self.written[offsets + byte] = True

    def read(self, offsets: Array, width: int) -> list[Conflict]:
        """Check a load of `width` bytes at each offset."""
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
        bulk: What is known of bulk copies and mbarriers, in a kernel that has them.
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
        self.granule = granule
        self.per_row = row_bytes // granule
        total = self.per_row * row_count
        self.written = np.zeros(total, bool)
        # Threads are kept plus one, so that 0 is "nobody" and clearing is a memset.
        self.writer = np.zeros(total, np.int32)
        self.writer_at = np.zeros(total, np.int32)
        self.strong = np.zeros(total, bool)  # the write was atomic
        self.reader = np.zeros(total, np.int32)
        self.reader_at = np.zeros(total, np.int32)
        self.other_reader = np.zeros(total, np.int32)  # of another warp than `reader`
        self.pending = np.zeros(total, np.int32)  # cp.async group of the last asynchronous write
        self.pending_by = np.zeros(total, np.int32)
        self.any_pending = False
        self.completed = np.zeros(threads, np.int32)  # groups whose wait the thread has passed
        self.visible = np.zeros(threads, np.int32)  # the same, at the block's last barrier
        self.bulk = AsyncShadow(self, threads) if bulk else None

    def _entries(self, offsets: Array, width: int) -> tuple[Array, int]:
        first = offsets // self.granule
        pieces = max(1, width // self.granule)
        if pieces == 1:
            return first, 1
        return (first[:, None] + np.arange(pieces)).reshape(-1), pieces

    def read(self, offsets: Array, width: int, threads: Array, instruction: int, *, strong: bool) -> list[Conflict]:
        """Check a load and note it.

        Args:
            offsets: Byte offsets into the batch's shared memory.
            width: Bytes of the access.
            threads: The machine's index of each thread.
            instruction: Index of the instruction.
            strong: An atomic or volatile access, which races only with ordinary ones.
        """
        entry, pieces = self._entries(offsets, width)
        who = np.repeat(threads, pieces) if pieces > 1 else threads
        found = []
        if not self.written[entry].all():
            bad = np.flatnonzero(~self.written[entry])
            found.append(Conflict("uninitialised-read", bad // pieces, detail="nothing wrote this shared memory"))
        at = self._written_by_others(entry, who, strong=strong)
        if len(at):
            detail = "read of what another warp wrote since the last barrier"
            found.append(self._race_with_writer(entry, at, pieces, detail))
        if self.any_pending:
            found += self._unwaited(entry, who, pieces)
        if self.bulk is not None:
            found += self._beside_bulk(self.bulk, entry, who, pieces, "read of")
        if not strong:
            self._note_readers(entry, who, instruction)
        return found

    @staticmethod
    def _beside_bulk(bulk: AsyncShadow, entry: Array, who: Array, pieces: int, verb: str) -> list[Conflict]:
        """An access to what a bulk copy may still be writing, or to an mbarrier."""
        found = []
        at = bulk.unseen(entry, who)
        if len(at):
            detail = f"{verb} memory that a bulk copy writes, before a wait for the phase of its mbarrier"
            found.append(Conflict("async-not-waited", at // pieces, *bulk.copier(entry[at]), "write", detail))
        at = bulk.of_mbarriers(entry)
        if len(at):
            detail = f"{verb} a live mbarrier by something else than mbarrier instructions"
            found.append(Conflict("mbarrier-misuse", at // pieces, detail=detail))
        return found

    def _written_by_others(self, entry: Array, who: Array, *, strong: bool) -> Array:
        """Positions of an access whose memory another warp wrote since the last barrier; two atomics do not race."""
        writer = self.writer[entry]
        others = (writer != 0) & ((writer - 1) >> 5 != who >> 5)
        if strong:
            others &= ~self.strong[entry]
        return np.flatnonzero(others)

    def _race_with_writer(self, entry: Array, at: Array, pieces: int, detail: str) -> Conflict:
        held = entry[at]
        return Conflict("shared-race", at // pieces, self.writer[held] - 1, self.writer_at[held], "write", detail)

    def _unwaited(self, entry: Array, who: Array, pieces: int) -> list[Conflict]:
        group, by = self.pending[entry], self.pending_by[entry]
        done = np.where(by == who, self.completed[by], self.visible[by])
        at = np.flatnonzero(group > done)
        if not len(at):
            return []
        return [
            Conflict(
                "async-not-waited",
                at // pieces,
                by[at],
                None,
                "write",
                "cp.async into this memory has not been waited for (and made visible by a barrier)",
            )
        ]

    def _note_readers(self, entry: Array, who: Array, instruction: int) -> None:
        before = self.reader[entry]
        mine = (who + 1).astype(np.int32)
        fresh = before == 0
        if fresh.any():
            self.reader[entry[fresh]] = mine[fresh]
            self.reader_at[entry[fresh]] = instruction
            before = self.reader[entry]
        another = (before - 1) >> 5 != who >> 5
        if another.any():
            self.other_reader[entry[another]] = mine[another]
        if self.bulk is not None:
            self.bulk.note_readers(entry, who)

    def write(
        self,
        offsets: Array,
        width: int,
        threads: Array,
        instruction: int,
        same: Callable[[Array], Array],
        *,
        strong: bool,
        group: Array | None = None,
    ) -> list[Conflict]:
        """Check a store and note it; call it before the bytes change.

        Args:
            offsets: Byte offsets into the batch's shared memory.
            width: Bytes of the access.
            threads: The machine's index of each thread.
            instruction: Index of the instruction.
            same: Given positions of the access, whether memory already holds what they write.
            strong: An atomic or volatile access.
            group: For cp.async, each thread's running number of the group (from 1).
        """
        entry, pieces = self._entries(offsets, width)
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
            self.any_pending = True
            self.pending[entry] = np.repeat(group, pieces) if pieces > 1 else group
            self.pending_by[entry] = who
        elif self.any_pending:
            self.pending[entry] = 0
        return found

    def _read_before(self, entry: Array, who: Array, pieces: int) -> list[Conflict]:
        first, second = self.reader[entry], self.other_reader[entry]
        by_first = (first != 0) & ((first - 1) >> 5 != who >> 5)
        by_second = (second != 0) & ((second - 1) >> 5 != who >> 5)
        at = np.flatnonzero(by_first | by_second)
        if not len(at):
            return []
        other = np.where(by_first, first, second)[at] - 1
        return [
            Conflict(
                "shared-race",
                at // pieces,
                other,
                self.reader_at[entry[at]],
                "read",
                "write over what another warp read since the last barrier",
            )
        ]

    def _note_writers(self, entry: Array, who: Array, instruction: int, *, strong: bool) -> None:
        self.written[entry] = True
        self.writer[entry] = who + 1
        self.writer_at[entry] = instruction
        self.strong[entry] = strong
        if self.bulk is not None:
            self.bulk.note_writers(entry, who)

    # --- bulk copies and mbarriers ----------------------------------------------------------------------------

    def copy_bulk(
        self, bulk: AsyncShadow, offset: int, size: int, thread: int, instruction: int, *, mbarrier: int, phase: int
    ) -> list[Conflict]:
        """Check a bulk copy's write of `size` bytes and note it.

        Args:
            bulk: This shadow's.
            offset: Byte offset into the batch's shared memory.
            size: Bytes.
            thread: Who asks for the copy.
            instruction: Index of the instruction.
            mbarrier: Number of its mbarrier in the block.
            phase: The phase that awaits the copy.
        """
        entry = np.arange(offset // self.granule, (offset + size) // self.granule)
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
            writer = bulk.writer_of(entry[at])
            found.append(
                Conflict("missing-proxy-fence", at // len(entry), writer, self.writer_at[entry[at]], "write", detail)
            )
        self.written[entry] = True
        self.writer[entry] = 0
        if self.any_pending:
            self.pending[entry] = 0
        bulk.note_copy(entry, thread, instruction, mbarrier, phase)
        return found

    def use_mbarrier(self, bulk: AsyncShadow, offsets: Array, threads: Array, *, bulk_copy: bool) -> list[Conflict]:
        """Check that mbarriers were initialised before the last barrier, for a bulk copy with a fence of the proxies.

        Args:
            bulk: This shadow's.
            offsets: Byte offsets of the mbarriers into the batch's shared memory.
            threads: Who uses them.
            bulk_copy: The use is a bulk copy's.
        """
        entry = offsets // self.granule
        found = []
        at = self._written_by_others(entry, threads, strong=False)
        if len(at):
            detail = "use of an mbarrier that another warp initialised since the last barrier"
            found.append(self._race_with_writer(entry, at, 1, detail))
        at = bulk.unfenced(entry) if bulk_copy else at[:0]
        if len(at):
            detail = "bulk copy with an mbarrier that was initialised without a fence of the proxies since"
            writer = bulk.writer_of(entry[at])
            found.append(Conflict("missing-proxy-fence", at, writer, self.writer_at[entry[at]], "write", detail))
        return found

    @staticmethod
    def collisions(offsets: Array, threads: Array, values: list[Array]) -> Conflict | None:
        """Find lanes of one store that write different values to one place.

        Args:
            offsets: Byte offsets.
            threads: The machine's index of each thread.
            values: Elements of the access, bits as unsigned integers.
        """
        order = np.argsort(offsets, kind="stable")
        place = offsets[order]
        same_place = place[1:] == place[:-1]
        if not same_place.any():
            return None
        differs = np.zeros(len(same_place), bool)
        for value in values:
            full = np.broadcast_to(value, offsets.shape)[order]
            differs |= full[1:] != full[:-1]
        at = np.flatnonzero(same_place & differs)
        if not len(at):
            return None
        return Conflict(
            "shared-race",
            order[at + 1],
            threads[order[at]],
            None,
            "write",
            "one instruction writes different values to one place",
        )

    def barrier(self, rows: Array | None, threads: Array | None) -> None:
        """Order what came before: everything of the given blocks, or only of the given threads.

        Args:
            rows: Blocks whose threads all arrived; None for all blocks.
            threads: Threads of a partial barrier, or None.
        """
        if self.bulk is not None:
            self.bulk.barrier(rows, threads)
        if threads is not None:
            self._partial(threads)
            return
        names = (self.writer, self.reader, self.other_reader)
        if rows is None:
            for array in names:
                array.fill(0)
        else:
            for array in names:
                array.reshape(-1, self.per_row)[rows] = 0

    def _partial(self, threads: Array) -> None:
        took_part = np.zeros(len(self.completed) + 1, bool)
        took_part[threads + 1] = True
        for array in (self.writer, self.reader, self.other_reader):
            array[took_part[array]] = 0
