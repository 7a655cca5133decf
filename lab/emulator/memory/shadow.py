"""The shadow state of memory: written bytes, latest writers and pending copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses, Bits, Indices, Mask
from lab.emulator.lanes import warp_of
from lab.emulator.memory.asyncshadow import AsyncShadow
from lab.emulator.memory.cells import WRITTEN, Cells, PendingRead
from lab.emulator.memory.clocks import BatchClocks, Place, Stamps
from lab.emulator.memory.order import PLAIN, WARPS, Order
from lab.emulator.memory.races import CheckedAccess, Conflict, Races, Same, over_reads

_LATEST = 32
"""The number of cp.async groups per thread with a recorded wait time."""


class Shadow:
    """The written bytes of a buffer, without race checks.

    Attributes:
        written: (bytes,) flags.
        readable: The contents count as written for reads; only the kernel's own stores set `written`.
    """

    def __init__(self, size: int, *, initialised: bool, readable: bool = False) -> None:
        self.written: Mask = np.ones(size, np.bool_) if initialised else np.zeros(size, np.bool_)
        self.readable = readable

    def write(self, offsets: Addresses, width: int) -> None:
        """Record a store of `width` bytes at each of (count,) offsets."""
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


@dataclass(frozen=True, slots=True, eq=False)
class AsyncRead:
    """A started read through the async proxy, one element per cell and reader.

    Attributes:
        found: The conflicts, with positions in the cells.
        cells: (cells,) the cells read, once per reader.
        who: (cells,) the reading thread.
        reader: (cells,) the index of the reader.
    """

    found: list[Conflict]
    cells: Indices
    who: Indices
    reader: Indices


class SharedShadow:
    """Races, initialisation and pending asynchronous copies of the shared memory of a batch of blocks.

    Attributes:
        cells: The latest accesses.
        races: The race checks.
        bulk: The state of bulk copies and mbarriers, in a kernel with these.
        completed: (threads,) number of cp.async groups each thread has waited for.
    """

    def __init__(
        self,
        row_bytes: int,
        row_count: int,
        granule: int,
        clocks: BatchClocks,
        *,
        bulk: bool = False,
    ) -> None:
        """Start with nothing written.

        Args:
            row_bytes: Bytes of a block's row, padded.
            row_count: Blocks of the batch.
            granule: Bytes of a cell.
            clocks: The order of the batch's threads.
            bulk: The kernel has bulk copies or mbarriers.
        """
        threads = len(clocks.ids)
        self.cells, self.clocks = Cells(row_bytes, row_count, granule), clocks
        self.races = Races(self.cells, clocks, "shared-race", own=not clocks.apart)
        total = self.cells.total
        self._written = np.zeros(total, np.bool_)
        self._pending = np.zeros(total, np.int32)  # cp.async group of the latest asynchronous write
        self._pending_by = np.zeros(total, np.int32)
        self._any_pending = False
        self.completed = np.zeros(threads, np.int32)
        self._visible = np.zeros(threads, np.int32)  # `completed` at the block's last barrier
        self._waits: Stamps | None = None  # (_LATEST, threads) time of each thread's wait for its latest groups
        self.bulk = AsyncShadow(self.cells, clocks, row_count) if bulk else None

    # --- loads ------------------------------------------------------------------------------------------------

    def read(
        self, offsets: Addresses, width: int, threads: Indices, instruction: int, order: Order = PLAIN
    ) -> list[Conflict]:
        """Check and record a load.

        Args:
            offsets: (count,) byte offsets into the batch's shared memory.
            width: Bytes of the access.
            threads: (count,) each thread's index within the batch.
            instruction: Index of the instruction.
            order: The access's memory order.
        """
        side = CheckedAccess(self.cells.covered(offsets, width), threads, order, instruction)
        conflicts = self._unwritten(side.cells)
        conflicts += self.races.read(side)
        if self._any_pending:
            conflicts += self._unwaited(side)
        if self.bulk is not None:
            conflicts += self._beside_bulk(self.bulk, side.cells.reshape(-1), side.who, "read of")
        return conflicts

    def unwritten(self, offsets: Addresses, width: int) -> list[Conflict]:
        """Check that accesses of `width` bytes at (count,) offsets only read written memory."""
        return self._unwritten(self.cells.covered(offsets, width))

    def fresh(self, offsets: Addresses, width: int) -> Mask:
        """Return which of `width` bytes at some offsets are unwritten, with one more dimension."""
        granule = self.cells.granule
        if self._written[(offsets[..., None] + np.arange(0, width, granule)) // granule].all():
            return np.zeros((*offsets.shape, width), np.bool_)
        return np.asarray(~self._written[(offsets[..., None] + np.arange(width)) // granule])

    def forget(self, offsets: Addresses, width: int) -> None:
        """Mark `width` bytes at (count,) offsets as unwritten: an undefined value was stored."""
        self._written[self.cells.covered(offsets, width)] = False

    def _unwritten(self, cells: Indices) -> list[Conflict]:
        is_written = self._written[cells]
        if is_written.all():
            return []
        bad = np.flatnonzero(~is_written) // is_written.shape[1]
        return [Conflict("uninitialised-read", bad, detail="nothing wrote this shared memory")]

    @staticmethod
    def _beside_bulk(
        bulk: AsyncShadow, cells: Indices, threads: Indices, verb: str, *, warp: bool = False
    ) -> list[Conflict]:
        """Check an access to pending bulk-copy data or to an mbarrier.

        Args:
            bulk: This shadow's.
            cells: (count * pieces,) cells of the access.
            threads: (count,) its threads.
            verb: The access's name in findings.
            warp: It is an access of whole warps.
        """
        conflicts = []
        pieces = len(cells) // max(1, len(threads))
        at = bulk.unseen(cells, np.repeat(threads, pieces), warp=warp)
        if len(at):
            detail = f"{verb} memory that an asynchronous copy writes, before a wait for the phase of its mbarrier"
            conflicts.append(Conflict("async-not-waited", at // pieces, *bulk.copier(cells[at]), "write", detail))
        at = bulk.of_mbarriers(cells)
        if len(at):
            detail = f"{verb} a live mbarrier by an instruction that is not an mbarrier instruction"
            conflicts.append(Conflict("mbarrier-misuse", at // pieces, detail=detail))
        return conflicts

    def _unwaited(self, side: CheckedAccess) -> list[Conflict]:
        group, by = self._pending[side.cells], self._pending_by[side.cells]
        completed = np.where(by == side.who[:, None], self.completed[by], self._visible[by])
        at = np.flatnonzero(group > completed)
        if len(at) and self._waits is not None:  # a thread's wait may be known in another way
            groups, whose = group.reshape(-1)[at], by.reshape(-1)[at]
            open_ = groups > self.completed[whose]
            stamps = self._waits[groups % _LATEST, whose]
            open_[self.clocks.unordered(stamps, side.who[at // group.shape[1]])] = True
            at = at[open_]
        if not len(at):
            return []
        whose = by.reshape(-1)[at]
        early = group.reshape(-1)[at] > self.completed[whose]
        if early.any():
            at, whose = at[early], whose[early]
            detail = "cp.async into this memory has not been waited for"
            remedy = "cp.async.wait_group by the thread that copies, and a barrier before other threads read"
        else:
            detail = "cp.async into this memory has been waited for by its thread, with no barrier since"
            remedy = "__syncthreads() between the wait and the access"
        copies, writers = self.cells.write.at[side.cells].reshape(-1)[at], whose + self.clocks.base
        return [Conflict("async-not-waited", at // group.shape[1], writers, copies, "write", detail, remedy)]

    # --- stores -----------------------------------------------------------------------------------------------

    def write(
        self,
        offsets: Addresses,
        width: int,
        threads: Indices,
        instruction: int,
        unchanged: Same,
        *,
        order: Order = PLAIN,
        group: NDArray[np.int32] | None = None,
        values: list[Bits] | None = None,
        update: bool = False,
        floats: Callable[[], int] = int,
    ) -> tuple[list[Conflict], bool]:
        """Check and record a store. Call it before the bytes change.

        Args:
            offsets: (count,) byte offsets into the batch's shared memory.
            width: Bytes of the access.
            threads: (count,) the batch's index of each thread.
            instruction: Index of the instruction.
            unchanged: Returns, for positions of the access, whether memory already holds the written values.
            order: The access's memory order.
            group: For cp.async, (count,) each thread's current group number, from 1.
            values: The written values, (count,) bits per element; None for an atomic update.
            update: The access is an atomic update.
            floats: As in `Races.collisions`.

        Returns:
            The conflicts, and whether several threads wrote one value to one location.
        """
        side = CheckedAccess(self.cells.covered(offsets, width), threads, order, instruction)
        conflicts, alike = self.races.write(side, unchanged, update=update)
        if values is not None:
            clash, equal = self.races.collisions(side, offsets, values, floats)
            conflicts += [clash] if clash is not None else []
            alike |= equal
        cells = side.cells
        if self.bulk is not None:
            flat = cells.reshape(-1)
            conflicts += self._beside_bulk(self.bulk, flat, threads, "write over")
            conflicts += self._over_reads(self.bulk, flat, len(threads), "write over")
            conflicts += over_reads(side, self.cells, self.clocks)
            self.bulk.note_writers(flat, np.repeat(threads, cells.shape[1]))
        self._written[cells] = True
        if group is not None:
            self._any_pending = True
            self._pending[cells], self._pending_by[cells] = group[:, None], threads[:, None]
        elif self._any_pending:
            self._pending[cells] = 0
        return conflicts, alike

    # --- bulk copies and mbarriers ----------------------------------------------------------------------------

    def copy_bulk(
        self,
        bulk: AsyncShadow,
        offset: int,
        size: int,
        thread: int,
        instruction: int,
        *,
        mbarrier: int,
        phase: int,
        generic: bool = False,
        update: bool = False,
    ) -> list[Conflict]:
        """Check and record a bulk copy's write of `size` bytes.

        Args:
            bulk: This shadow's.
            offset: Byte offset into the batch's shared memory.
            size: Bytes.
            thread: The thread that asks for the copy.
            instruction: Index of the instruction.
            mbarrier: Number of its mbarrier in the block.
            phase: The phase that tracks the copy.
            generic: The write does not go through the async proxy.
            update: It is a reduction, which may be concurrent with others.
        """
        cells = self.cells.span(offset, size)
        threads = np.array([thread])
        conflicts: list[Conflict] = []
        if not update:
            side = CheckedAccess(cells[None], threads, PLAIN, instruction)
            conflicts, _ = self.races.write(side, lambda at: np.zeros(len(at), np.bool_))
            conflicts += self._beside_bulk(bulk, cells, threads, "bulk copy over")
        conflicts += self._over_reads(bulk, cells, 1, "bulk copy over")
        conflicts += over_reads(CheckedAccess(cells[None], threads, PLAIN, instruction), self.cells, self.clocks)
        at = cells[:0] if generic else bulk.unfenced(cells)
        if len(at):
            detail = "bulk copy over data that threads wrote, without a fence.proxy.async between the two"
            conflicts.append(self._missing_fence(bulk, cells[at], at // len(cells), detail))
        self._written[cells] = True
        self.cells.write.stamps[cells] = WRITTEN
        if self._any_pending:
            self._pending[cells] = 0
        bulk.note_copy(cells, thread, instruction, mbarrier, phase)
        return conflicts

    def use_mbarrier(
        self, bulk: AsyncShadow, offsets: Addresses, threads: Indices, *, bulk_copy: bool
    ) -> list[Conflict]:
        """Check that mbarriers were initialised before the last barrier.

        For a bulk copy, also check for a proxy fence since then.

        Args:
            bulk: This shadow's.
            offsets: (count,) byte offsets of the mbarriers into the batch's shared memory.
            threads: (count,) the threads that use them.
            bulk_copy: The use is a bulk copy's.
        """
        cells = offsets // self.cells.granule
        conflicts = []
        stamps = self.cells.write.stamps[cells]
        at = self.races.late(stamps[:, None], threads)
        if len(at):
            at = at[~(bulk.announced(cells[at]) & self.clocks.know_initialised(stamps[at], threads[at]))]
        if len(at):
            detail = "use of an mbarrier that another thread initialised, with no barrier between the two"
            initialisers = self.races.threads_of(stamps[at])
            conflicts.append(Conflict("shared-race", at, initialisers, self.cells.write.at[cells[at]], "write", detail))
        at = bulk.unfenced(cells) if bulk_copy else at[:0]
        if len(at):
            detail = "bulk copy with an mbarrier that was initialised without a fence of the proxies since"
            conflicts.append(self._missing_fence(bulk, cells[at], at, detail))
        return conflicts

    def begin_async_read(
        self,
        offsets: Indices,
        width: int,
        readers: Indices,
        instruction: int,
        *,
        description: str,
        warp: bool = False,
        follow: bool = False,
    ) -> AsyncRead:
        """Check and record reads of bulk copies or a matrix instruction through the async proxy.

        Cells last written by a thread of the warp count as read by that thread, others by the reader.

        Args:
            offsets: (readers, count) byte offsets into the batch's shared memory.
            width: Bytes at each of them.
            readers: (readers,) the issuing threads, or the first of each issuing warp.
            instruction: Index of the instruction.
            description: The reader's name in findings.
            warp: Whole warps read.
            follow: Unwritten values are tracked, and are not a fault by themselves.
        """
        of, cells = self.cells.under_each(offsets, width)
        threads = readers[of]
        if warp:
            stamps = self.cells.write.stamps[cells]
            writers = self.races.threads_of(stamps).astype(np.int64) - self.clocks.base
            threads = np.where((stamps > WRITTEN) & (warp_of(writers) == warp_of(threads)), writers, threads)
        side = CheckedAccess(cells[:, None], threads, WARPS if warp else PLAIN, instruction)
        # The end of the read is recorded. Until then, `reading` detects conflicting writes.
        conflicts = [] if follow else self._unwritten(side.cells)
        conflicts += self.races.read(side, passing=self.bulk is not None)
        if self._any_pending:
            conflicts += self._unwaited(side)
        if self.bulk is not None:
            conflicts += self._beside_bulk(self.bulk, cells, threads, "read of", warp=warp)
            at = self.bulk.unfenced(cells)
            if len(at):
                detail = f"{description} of data that threads wrote, without a fence.proxy.async between the two"
                conflicts.append(self._missing_fence(self.bulk, cells[at], at, detail))
            self.bulk.begin_read(cells, threads, instruction)
        return AsyncRead(conflicts, cells, threads, of)

    def send(
        self, bulk: AsyncShadow, offset: int, size: int, thread: int, instruction: int, *, until: tuple[Place, int]
    ) -> list[Conflict]:
        """Check the reads of a bulk copy to a peer, pending until the peer's mbarrier phase completes.

        Args:
            bulk: This shadow's.
            offset: Byte offset into the batch's shared memory.
            size: Bytes.
            thread: The thread that asks for the copy.
            instruction: Index of the instruction.
            until: The mbarrier, and the phase.
        """
        cells = self.cells.span(offset, size)
        side = CheckedAccess(cells[:, None], np.full(len(cells), thread), PLAIN, instruction)
        conflicts = self._unwritten(side.cells) + self.races.read(side, passing=True)
        if self._any_pending:
            conflicts += self._unwaited(side)
        conflicts += self._beside_bulk(bulk, cells, side.who, "read of")
        at = bulk.unfenced(cells)
        if len(at):
            detail = "bulk copy of data that threads wrote, without a fence.proxy.async between the two"
            conflicts.append(self._missing_fence(bulk, cells[at], at, detail))
        key = self.clocks.announce(*until)
        self.cells.note_read(cells, PendingRead(((key, until[1]),), thread + self.clocks.base, instruction))
        return conflicts

    def end_async_read(self, cells: Indices, threads: Indices, instruction: int, *, warp: bool = False) -> None:
        """Record the end of reads started by `begin_async_read`: their issuer has waited."""
        self.races.read(CheckedAccess(cells[:, None], threads, WARPS if warp else PLAIN, instruction))
        if self.bulk is not None:
            self.bulk.end_read(cells)

    @staticmethod
    def _over_reads(bulk: AsyncShadow, cells: Indices, count: int, verb: str) -> list[Conflict]:
        """Check a write to memory that may still be read; arguments as in `_beside_bulk`, with the access count."""
        at = np.flatnonzero(bulk.reading[cells])
        if not len(at):
            return []
        detail = f"{verb} memory that a wgmma or a bulk copy may still read, before a wait for it"
        pieces = len(cells) // max(1, count)
        return [Conflict("async-not-waited", at // pieces, *bulk.reader(cells[at]), "read", detail)]

    def _missing_fence(self, bulk: AsyncShadow, cells: Indices, which: Indices, detail: str) -> Conflict:
        writers = bulk.writer_of(cells) + self.clocks.base
        return Conflict("missing-proxy-fence", which, writers, self.cells.write.at[cells], "write", detail)

    # --- barriers and waits -----------------------------------------------------------------------------------

    def wait_groups(self, rows: Indices | slice, groups: NDArray[np.int32]) -> None:
        """Record that threads have waited for their cp.async groups up to a number, one each."""
        before = self.completed[rows].copy()
        after = np.maximum(before, groups)
        self.completed[rows] = after
        added = after - before
        count = min(int(added.max(initial=0)), _LATEST)
        if not count:
            return
        if self._waits is None:
            self._waits = np.zeros((_LATEST, len(self.completed)), np.int64)
        stamps = self.clocks.stamps(rows, PLAIN)
        newest = int(after[0])
        if count == 1 and added.all() and (after == newest).all():  # the common case of converged threads
            self._waits[newest % _LATEST, rows] = stamps
            return
        threads = np.arange(len(self.completed))[rows]
        for back in range(count):
            fresh = added > back
            self._waits[(after[fresh] - back) % _LATEST, threads[fresh]] = stamps[fresh]

    def sending(self, block: int, threads: Indices) -> list[PendingRead]:
        """Return the copies to peers that may still read a block, as its last (count,) threads know."""
        return [
            copy
            for copy in self.cells.reads_in_row(block)
            if not any(self.clocks.have_seen(threads, key, phase).any() for key, phase in copy.phases)
        ]

    def pending(self) -> Mask | None:
        """Return the cells cp.async may still write, as its own thread knows; None for none."""
        if not self._any_pending:
            return None
        late: Mask = self._pending > self.completed[self._pending_by]
        return late

    def hand_over(self, bulk: AsyncShadow, threads: Indices, mbarriers: Indices, phases: Indices) -> None:
        """Make mbarrier phases track the cp.async copies of (count,) threads.

        Args:
            bulk: This shadow's.
            threads: Each thread's index within the batch.
            mbarriers: The number of its mbarrier.
            phases: The mbarrier's current phase.
        """
        if not self._any_pending:
            return
        waits = np.flatnonzero(self._pending)
        by = self._pending_by[waits]
        for thread, mbarrier, phase in zip(threads.tolist(), mbarriers.tolist(), phases.tolist(), strict=True):
            cells = waits[by == thread]
            bulk.await_copies(cells, mbarrier, phase, thread, self.cells.write.at[cells])
            self.cells.write.stamps[cells] = WRITTEN
            self._pending[cells] = 0

    def in_flight(self, threads: Indices) -> tuple[Indices, Indices]:
        """Return the issuers and instructions of copies that (count,) threads have not waited for.

        Both are (cells,), for the cells with a pending copy; each copy is returned once.
        """
        if not self._any_pending:
            return threads[:0], threads[:0]
        waits = np.flatnonzero(self._pending)
        by = self._pending_by[waits]
        late = np.isin(by, threads) & (self._pending[waits] > self.completed[by])
        cells = waits[late]
        positions = self.cells.write.at[cells].astype(np.int64)
        self._pending[cells] = 0
        return by[late].astype(np.int64), positions

    def order_blocks(self, rows: Indices | slice, threads: Mask | slice) -> None:
        """Share knowledge of copies among the threads of whole blocks after a barrier.

        Args:
            rows: (blocks,) indices of the blocks; a full slice for all.
            threads: (threads,) mask of their threads; a full slice for all.
        """
        if self.bulk is not None:
            self.bulk.order_blocks(rows)
        self._visible[threads] = self.completed[threads]

    def order_threads(self, threads: Indices) -> None:
        """Share knowledge of copies among (count,) threads of a block after a barrier."""
        if self.bulk is not None:
            self.bulk.order_threads(threads)
        self._visible[threads] = self.completed[threads]
