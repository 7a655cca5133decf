"""Race detection: two unordered accesses to one location, of which one writes and not both are strong.

`lab.emulator.memory.clocks` has the order of accesses, `lab.emulator.memory.cells` the latest accesses. An access is
checked against the recorded ones, independent of the emulator's schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses, Bits, Indices, Mask
from lab.emulator.memory.cells import WRITTEN, AccessSlot, Cells, Pair
from lab.emulator.memory.clocks import FIRST, THREAD, BatchClocks, Stamps, level_of
from lab.emulator.memory.observed import Observed, after
from lab.emulator.memory.order import (
    APART,
    CLUSTER,
    CTA,
    SAME_BLOCK,
    SAME_CLUSTER,
    SAME_WARP,
    TOGETHER,
    VOLATILE,
    VOLATILE_DATA,
    WIDE,
    Order,
)
from lab.emulator.results import FindingKind
from lab.emulator.rounding import differ_by_rounding

_NOWHERE: Indices = np.zeros(0, np.int64)
_BETWEEN = {
    SAME_WARP: "lanes of one warp, with no __syncwarp between the two",
    SAME_BLOCK: "warps of one block, with no barrier between the two",
    SAME_CLUSTER: "blocks of one cluster, with no cluster.sync() between the two",
}
_REMEDY = {
    SAME_WARP: "__syncwarp() between the two would order them",
    SAME_BLOCK: "__syncthreads() between the two would order them",
    SAME_CLUSTER: "cluster.sync() between the two would order them",
    APART: "a release (a fence before an atomic) by the first and an acquire by the second would order them, "
    "or atomics in both places",
}

_READ_ONLY = "a load by ld.global.nc, which assumes read-only memory, of data written in the same launch"
_OVER_READ_ONLY = "a write to data that the same launch loads by ld.global.nc, which assumes read-only memory"
_NO_READ_ONLY = "a plain load, without __ldg(), and no const __restrict__ on this pointer"


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """A fault of some threads of one access. The arrays have one element per faulty piece.

    Attributes:
        kind: The kind of fault.
        which: Positions of the faulty threads in the checked access.
        other_thread: The other threads, numbered launch-wide; None where there is no other side.
        other_instruction: Indices of the other instructions; None where it is the same instruction.
        other_kind: The other threads' access: `read`, `write` or `atomic`.
        detail: One sentence.
        remedy: A suggested fix, or nothing.
        unordered: The two accesses are unordered.
        others: Conflicts with other threads, in case the first one discards its value.
    """

    kind: FindingKind
    which: Indices
    other_thread: NDArray[np.integer[Any]] | None = None
    other_instruction: NDArray[np.integer[Any]] | None = None
    other_kind: str = "write"
    detail: str = ""
    remedy: str = ""
    unordered: bool = False
    others: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CheckedAccess:
    """An access to be checked.

    Attributes:
        cells: (count, pieces) the cells it covers.
        who: (count,) each thread's index within the batch.
        order: Its memory order.
        position: Index of its instruction.
    """

    cells: Indices
    who: Indices
    order: Order
    position: int


Same = Callable[[Indices], Mask]
"""Returns, for positions of an access, whether memory already holds the written values."""


class Races:
    """Checks and records a batch's accesses to one memory."""

    def __init__(self, cells: Cells, clocks: BatchClocks, kind: FindingKind, *, own: bool) -> None:
        """Set up checks for a memory.

        Args:
            cells: Its latest accesses.
            clocks: The order of the batch's threads.
            kind: The finding kind of its races.
            own: Each row is only accessed by threads of one block.
        """
        self.cells, self._clocks, self._kind = cells, clocks, kind
        self._own = own
        self._observed = Observed(cells.chains, clocks)

    # --- accesses ---------------------------------------------------------------------------------------------------

    def read(self, side: CheckedAccess, *, passing: bool = False) -> list[Conflict]:
        """Check a read and record it, unless its end is determined otherwise (`passing`)."""
        cells, strong = self.cells, side.order.strong
        conflicts = self._against(cells.write, side, "write")
        if cells.atomics is not None and not (strong and self._all_wide(side)):
            conflicts += self._against_pair(cells.atomics, side, "atomic")
        if passing:
            return conflicts
        if strong:
            self._clocks.launch.tick()
        self._remember(cells.watching() if strong else cells.reading(), side)
        if strong:
            self.observe(side)
        self._note_width(side)
        return conflicts

    def write(self, side: CheckedAccess, unchanged: Same, *, update: bool = False) -> tuple[list[Conflict], bool]:
        """Check a write or atomic update, and record it. Call it before the bytes change.

        Args:
            side: The access.
            unchanged: Returns which positions write the value already in memory: for two writes, this is not a fault.
            update: It is an atomic update, which also reads.

        Returns:
            The conflicts, and whether it repeated the value of an unordered write.
        """
        cells, strong = self.cells, side.order.strong
        alike: list[bool] = []

        def equal(at: Indices) -> Mask:
            mask = unchanged(at)
            alike.append(bool(mask.any()))
            return mask

        conflicts = self._against(cells.write, side, "write", unchanged=_never if update else equal)
        if cells.readers is not None:
            conflicts += self._against_pair(cells.readers, side, "read")
        together = strong and side.order.level != VOLATILE and self._all_wide(side)
        if cells.atomics is not None and not together:
            conflicts += self._against_pair(cells.atomics, side, "atomic", unchanged=_never if update else equal)
        if cells.watchers is not None and not together:
            conflicts += self._against_pair(cells.watchers, side, "read")
        if not update and cells.atomics is not None:
            cells.chains.begin(side.cells, after(self._clocks.launch.now))
        if strong:
            self._clocks.launch.tick()
            flat = side.cells.reshape(-1)
            stamps = cells.write.stamps[flat]
            cells.write.stamps[flat] = np.maximum(stamps, WRITTEN)
            self._remember(cells.updating(), side)
            self._note_width(side)
            if side.order.level in (CTA, CLUSTER):  # threads of several blocks may be in this same instruction
                conflicts += self._against_pair(cells.updating(), side, "atomic", unchanged=_never)
        else:
            cells.write.stamps[side.cells] = self._clocks.stamps(side.who, side.order)[:, None]
            cells.write.at[side.cells] = side.position
        return conflicts, any(alike)

    def read_only(self, side: CheckedAccess) -> list[Conflict]:
        """Check a load that assumes read-only memory, and record it: nothing in the launch may write there.

        PTX ISA, ld.global.nc: the memory must be read-only for the duration of the kernel. Barriers do not help, since
        the load may be served from a cache that stores do not update.
        """
        cells, flat, pieces = self.cells, side.cells.reshape(-1), side.cells.shape[1]
        cells.note_read_only(flat, np.repeat(self._clocks.stamps(side.who, side.order), pieces), side.position)
        at = np.flatnonzero(cells.write.stamps[flat])
        if not len(at):
            return []
        touched = flat[at]
        stamps, positions = cells.write.stamps[touched], cells.write.at[touched]
        if cells.atomics is not None:  # `write` only shows that a strong write occurred
            strong = stamps <= WRITTEN
            stamps = np.where(strong, cells.atomics[0].stamps[touched], stamps)
            positions = np.where(strong, cells.atomics[0].at[touched], positions)
        return [
            Conflict(self._kind, at // pieces, self.threads_of(stamps), positions, "write", _READ_ONLY, _NO_READ_ONLY)
        ]

    def over_read_only(self, side: CheckedAccess) -> tuple[list[Conflict], bool]:
        """Check a write to memory that loads assume to be read-only.

        Returns:
            The conflicts, and whether only its own thread read the location this way.
        """
        if self.cells.read_only is None:
            return [], False
        flat, pieces = side.cells.reshape(-1), side.cells.shape[1]
        first, latest = self.cells.read_only
        mine = np.repeat(self._clocks.ids[side.who], pieces)
        was_read = first.stamps[flat] > 0
        theirs = [was_read & (slot.stamps[flat] & THREAD != mine) for slot in (first, latest)]
        at = np.flatnonzero(theirs[0] | theirs[1])
        if not len(at):
            return [], bool(was_read.any())
        touched, early = flat[at], theirs[0][at]
        stamps = np.where(early, first.stamps[touched], latest.stamps[touched])
        positions = np.where(early, first.at[touched], latest.at[touched])
        other_threads = self.threads_of(stamps)
        return [
            Conflict(self._kind, at // pieces, other_threads, positions, "read", _OVER_READ_ONLY, _NO_READ_ONLY)
        ], False

    def observe(self, side: CheckedAccess) -> None:
        """Record that the latest strong access observed the values it found."""
        self._observed.note(side.cells, side.who, self._clocks.stamps(side.who, side.order))

    def _all_wide(self, side: CheckedAccess) -> bool:
        return self.cells.wide and side.order.level in (VOLATILE, WIDE)

    def _note_width(self, side: CheckedAccess) -> None:
        """Record strong accesses that are volatile or narrower than device scope."""
        if side.order.strong and side.order.level != WIDE:
            self.cells.wide = False

    def collisions(
        self, side: CheckedAccess, offsets: Addresses, values: list[Bits], floats: Callable[[], int] = int
    ) -> tuple[Conflict | None, bool]:
        """Find lanes of one store that write to one location. Call it after `write`.

        Args:
            side: The access.
            offsets: (count,) byte offsets.
            values: Elements of the access, (count,) bits each.
            floats: Returns the bit width of floats in them, which may differ by rounding; 0 for other values.

        Returns:
            The conflict of lanes with different values, and whether some write the same value.
        """
        if TOGETHER[side.order.level, side.order.level, SAME_BLOCK, 1]:
            return None, False
        slot = self.cells.write if not side.order.strong else self.cells.updating()[0]
        mine = self._clocks.stamps(side.who, side.order)
        if (slot.stamps[side.cells[:, 0]] == mine).all():
            return None, False
        order = np.argsort(offsets, kind="stable")
        place = offsets[order]
        same_place = place[1:] == place[:-1]
        differs = np.zeros(len(same_place), np.bool_)
        for value in values:
            full = np.broadcast_to(value, offsets.shape)[order]
            unequal = full[1:] != full[:-1]
            if (unequal & same_place).any() and (width := floats()):
                unequal &= ~differ_by_rounding(full[1:], full[:-1], width)
            differs |= unequal
        at = np.flatnonzero(same_place & differs)
        if not len(at):
            return None, bool(same_place.any())
        detail = "one instruction writes different values to one place"
        other_threads = side.who[order[at]] + self._clocks.base
        return Conflict(self._kind, order[at + 1], other_threads, None, "write", detail), False

    # --- against what was before ------------------------------------------------------------------------------------

    def late(self, stamps: Stamps, threads: Indices) -> Indices:
        """Return flat positions of (count, pieces) earlier accesses that (count,) threads are not ordered after."""
        clocks = self._clocks
        if self._own:  # accesses before the block's barrier were by this block
            recent = stamps >= clocks.limit[threads][:, None]
        else:
            recent = (stamps >= FIRST) & ((stamps & THREAD) != clocks.ids[threads][:, None])
        if not recent.any():
            return _NOWHERE
        at = np.flatnonzero(recent)
        return at[clocks.unordered(stamps.reshape(-1)[at], threads[at // stamps.shape[1]])]

    def _against_pair(
        self, pair: Pair, side: CheckedAccess, kind: str, *, unchanged: Same | None = None
    ) -> list[Conflict]:
        conflicts, distant = (
            self._against(pair[0], side, kind, unchanged=unchanged),
            self._against(pair[1], side, kind, unchanged=unchanged),
        )
        return [replace(conflict, others=tuple(distant)) for conflict in conflicts] or distant

    def _against(
        self, slot: AccessSlot, side: CheckedAccess, kind: str, *, unchanged: Same | None = None
    ) -> list[Conflict]:
        """Check an access against one slot; `unchanged` is given if both sides write."""
        stamps = slot.stamps[side.cells]
        at = self.late(stamps, side.who)
        if not len(at):
            return []
        pieces, earlier = stamps.shape[1], stamps.reshape(-1)[at]
        if kind == "atomic":
            unseen = ~self._observed.covers(side.cells.reshape(-1)[at], earlier, side.who[at // pieces])
            at, earlier = at[unseen], earlier[unseen]
        if unchanged is not None:
            differs = ~unchanged(at // pieces)
            at, earlier = at[differs], earlier[differs]
        near = self._closeness(earlier, side.who[at // pieces])
        if side.order.strong:
            bad = ~TOGETHER[level_of(earlier), side.order.level, near, int(unchanged is not None)]
            at, earlier, near = at[bad], earlier[bad], near[bad]
        if not len(at):
            return []
        first = int(near.argmax())  # a fix for the most distant threads also orders the others
        if first:
            order = np.concatenate([[first], np.arange(first), np.arange(first + 1, len(at))])
            at, earlier, near = at[order], earlier[order], near[order]
        is_volatile = kind == "atomic" and level_of(earlier[:1])[0] == VOLATILE
        words = "volatile write" if is_volatile else kind
        detail = self._detail(words, int(near[0]), both_write=unchanged is not None)
        remedy = _REMEDY.get(int(near[0]), _REMEDY[APART])
        if side.order.level in (VOLATILE, VOLATILE_DATA) and (is_volatile or level_of(earlier[:1])[0] == VOLATILE_DATA):
            remedy = f"volatile orders nothing: {remedy}"
        instructions = slot.at[side.cells].reshape(-1)[at]
        other_kind = "write" if is_volatile else kind
        threads = (earlier & THREAD) - 1
        return [Conflict(self._kind, at // pieces, threads, instructions, other_kind, detail, remedy, unordered=True)]

    def _closeness(self, stamps: Stamps, threads: Indices) -> NDArray[np.int64]:
        return self._clocks.closeness((stamps & THREAD) - 1, threads + self._clocks.base)

    @staticmethod
    def _detail(kind: str, near: int, *, both_write: bool) -> str:
        between = _BETWEEN.get(near, "threads of different blocks, which nothing orders")
        if both_write:
            return f"two writes by {between}"
        return f"{'a read and a write' if kind == 'read' else f'a read and an unordered {kind}'} by {between}"

    # --- remembering ------------------------------------------------------------------------------------------------

    def _remember(self, pair: Pair, side: CheckedAccess) -> None:
        """Record an access in a pair of slots."""
        first, second = pair
        pieces = side.cells.shape[1]
        flat = side.cells.reshape(-1)
        mine = self._clocks.stamps(side.who, side.order)
        if pieces > 1:
            mine = np.repeat(mine, pieces)
        old = first.stamps[flat]
        recent = self._open(old, side.who, pieces)
        if not recent.any():  # nor the second slot: of several threads, keep the last and the first
            first.stamps[flat], first.at[flat] = mine, side.position
            second.stamps[flat[::-1]], second.at[flat] = mine[::-1], side.position
            return
        displaced = np.flatnonzero(recent)
        if len(displaced):
            displaced = displaced[(old[displaced] ^ mine[displaced]) & THREAD != 0]
        earlier = first.at[flat[displaced]]
        first.stamps[flat] = mine
        first.at[flat] = side.position
        beaten = first.stamps[flat] != mine
        if beaten.any():
            lost = np.flatnonzero(
                beaten
            )  # several threads at one place: the last one stays; of the others, the first one
            lost = lost[::-1]
            cell = flat[lost]
            retained = self._open(second.stamps[cell], side.who, pieces, at=lost)
            if retained.any():
                cell, lost = cell[~retained], lost[~retained]
            second.stamps[cell] = mine[lost]
            second.at[cell] = side.position
        if len(displaced):
            cell, displaced_stamps = flat[displaced], old[displaced]
            newest, second_stamps = first.stamps[cell], second.stamps[cell]
            gap = self._gap(displaced_stamps, newest)
            retained = np.where(
                self._open(second_stamps, side.who, pieces, at=displaced), self._gap(second_stamps, newest), -1
            )
            better = gap > retained
            second.stamps[cell[better]] = displaced_stamps[better]
            second.at[cell[better]] = earlier[better]

    def _open(self, stamps: Stamps, threads: Indices, pieces: int, *, at: Indices | None = None) -> Mask:
        """Return which recorded accesses may still matter: since the block's barrier, or of other blocks.

        Args:
            stamps: (n,) stamps.
            threads: (count,) the threads of the access.
            pieces: Cells per thread.
            at: (n,) positions among the access's count * pieces cells; None for all of them.
        """
        if self._own:
            limit = self._clocks.limit[threads]
            if at is not None:
                limit = limit[at // pieces]
            elif pieces > 1:
                limit = np.repeat(limit, pieces)
            return np.asarray(stamps >= limit)
        return np.asarray(stamps >= FIRST)

    def _gap(self, first_stamps: Stamps, second_stamps: Stamps) -> NDArray[np.int64]:
        """Return the distance between the threads of two accesses: -1 for the same thread."""
        first, second = (first_stamps & THREAD) - 1, (second_stamps & THREAD) - 1
        near = self._clocks.closeness(first, second)
        return np.where(first == second, -1, near)

    @staticmethod
    def threads_of(stamps: Stamps) -> Indices:
        """Return the launch-wide threads of some stamps."""
        threads: Indices = (stamps & THREAD) - 1
        return threads


def _never(at: Indices) -> Mask:
    return np.zeros(len(at), np.bool_)


def over_reads(side: CheckedAccess, cells: Cells, clocks: BatchClocks) -> list[Conflict]:
    """Check a write to memory that bulk copies may still read, until their mbarrier phases are known complete."""
    conflicts, pieces = [], side.cells.shape[1]
    for copy, at in cells.pending_reads(side.cells.reshape(-1)):
        threads = side.who[at // pieces]
        late = at[~np.logical_or.reduce([clocks.have_seen(threads, key, phase) for key, phase in copy.phases])]
        if len(late):
            detail = "write over memory that a bulk copy may still read, before a wait for the phase of its mbarrier"
            other_side = np.full(len(late), copy.thread), np.full(len(late), copy.position)
            conflicts.append(Conflict("async-not-waited", late // pieces, *other_side, "read", detail))
    return conflicts
