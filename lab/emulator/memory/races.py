"""Finding races: two accesses to one place, of which one writes, that nothing orders and that are not both strong.

What orders accesses is `lab.emulator.memory.clocks`; what was accessed is `lab.emulator.memory.cells`. An access is
checked against the remembered ones, whatever order the emulator happened to choose.
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

_READ_ONLY = "a load by ld.global.nc, which takes memory for read-only, of what the same launch has written"
_OVER_READ_ONLY = "a write to what the same launch loads by ld.global.nc, which takes memory for read-only"
_NO_READ_ONLY = "a plain load, without __ldg(), and no const __restrict__ on this pointer"


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """A fault of some threads of one access. The arrays have one element for each piece at fault.

    Attributes:
        kind: What is wrong.
        which: Positions, in the checked access, of the threads at fault.
        other_thread: The other threads, numbered through the launch; None where there is no other side.
        other_instruction: Indices of the other instructions; None where it is the same instruction.
        other_kind: What the other threads did: `read`, `write` or `atomic`.
        detail: One sentence.
        remedy: What would put it right, or nothing.
        unordered: It is one of two accesses that nothing orders.
        others: The same with other threads, where the first of them may do nothing with what it read.
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
    """An access that is being checked.

    Attributes:
        cells: (count, pieces) the cells that it covers.
        who: (count,) the batch's index of each thread.
        order: How strong it is.
        position: Index of its instruction.
    """

    cells: Indices
    who: Indices
    order: Order
    position: int


Same = Callable[[Indices], Mask]
"""Given positions of an access, returns whether memory already holds what they write."""


class Races:
    """Checks the accesses of one batch to one memory, and remembers them."""

    def __init__(self, cells: Cells, clocks: BatchClocks, kind: FindingKind, *, own: bool) -> None:
        """Watch a memory.

        Args:
            cells: Its latest accesses.
            clocks: What orders the batch's threads.
            kind: What a race in it is called.
            own: Only threads of one block reach each row of it.
        """
        self.cells, self._clocks, self._kind = cells, clocks, kind
        self._own = own
        self._observed = Observed(cells.chains, clocks)

    # --- accesses ---------------------------------------------------------------------------------------------------

    def read(self, side: CheckedAccess, *, passing: bool = False) -> list[Conflict]:
        """Check a read and remember it, unless it is over by something else than what its thread does (`passing`)."""
        cells, strong = self.cells, side.order.strong
        found = self._against(cells.write, side, "write")
        if cells.atomics is not None and not (strong and self._all_wide(side)):
            found += self._against_pair(cells.atomics, side, "atomic")
        if passing:
            return found
        if strong:
            self._clocks.launch.tick()
        self._remember(cells.watching() if strong else cells.reading(), side)
        if strong:
            self.observe(side)
        self._note_width(side)
        return found

    def write(self, side: CheckedAccess, same: Same, *, update: bool = False) -> tuple[list[Conflict], bool]:
        """Check a write, or an atomic update, and remember it. Call it before the bytes change.

        Args:
            side: The access.
            same: Tells which positions write what memory holds already: for two writes that is no fault.
            update: It is an atomic update, which reads as well.

        Returns:
            The conflicts, and whether it wrote what an unordered write had written.
        """
        cells, strong = self.cells, side.order.strong
        alike: list[bool] = []

        def equal(at: Indices) -> Mask:
            held = same(at)
            alike.append(bool(held.any()))
            return held

        found = self._against(cells.write, side, "write", same=_never if update else equal)
        if cells.readers is not None:
            found += self._against_pair(cells.readers, side, "read")
        together = strong and side.order.level != VOLATILE and self._all_wide(side)
        if cells.atomics is not None and not together:
            found += self._against_pair(cells.atomics, side, "atomic", same=_never if update else equal)
        if cells.watchers is not None and not together:
            found += self._against_pair(cells.watchers, side, "read")
        if not update and cells.atomics is not None:
            cells.chains.begin(side.cells, after(self._clocks.launch.now))
        if strong:
            self._clocks.launch.tick()
            flat = side.cells.reshape(-1)
            held = cells.write.stamps[flat]
            cells.write.stamps[flat] = np.maximum(held, WRITTEN)
            self._remember(cells.updating(), side)
            self._note_width(side)
            if side.order.level in (CTA, CLUSTER):  # threads of several blocks may be in this very instruction
                found += self._against_pair(cells.updating(), side, "atomic", same=_never)
        else:
            cells.write.stamps[side.cells] = self._clocks.stamps(side.who, side.order)[:, None]
            cells.write.at[side.cells] = side.position
        return found, any(alike)

    def read_only(self, side: CheckedAccess) -> list[Conflict]:
        """Check a load that takes its memory for read-only, and remember it: nothing in the launch may write there.

        PTX ISA, ld.global.nc: the memory must be read-only for the duration of the kernel. Barriers do not help, since
        the load may be served from a cache that stores do not update.
        """
        cells, flat, pieces = self.cells, side.cells.reshape(-1), side.cells.shape[1]
        cells.note_read_only(flat, np.repeat(self._clocks.stamps(side.who, side.order), pieces), side.position)
        at = np.flatnonzero(cells.write.stamps[flat])
        if not len(at):
            return []
        where = flat[at]
        stamps, positions = cells.write.stamps[where], cells.write.at[where]
        if cells.atomics is not None:  # of a strong write, `write` says no more than that there was one
            strong = stamps <= WRITTEN
            stamps = np.where(strong, cells.atomics[0].stamps[where], stamps)
            positions = np.where(strong, cells.atomics[0].at[where], positions)
        return [
            Conflict(self._kind, at // pieces, self.threads_of(stamps), positions, "write", _READ_ONLY, _NO_READ_ONLY)
        ]

    def over_read_only(self, side: CheckedAccess) -> tuple[list[Conflict], bool]:
        """Check a write to what loads have taken for read-only.

        Returns:
            The conflicts, and whether it writes what its own thread alone read so.
        """
        if self.cells.read_only is None:
            return [], False
        flat, pieces = side.cells.reshape(-1), side.cells.shape[1]
        first, latest = self.cells.read_only
        mine = np.repeat(self._clocks.ids[side.who], pieces)
        read = first.stamps[flat] > 0
        theirs = [read & (slot.stamps[flat] & THREAD != mine) for slot in (first, latest)]
        at = np.flatnonzero(theirs[0] | theirs[1])
        if not len(at):
            return [], bool(read.any())
        where, early = flat[at], theirs[0][at]
        stamps = np.where(early, first.stamps[where], latest.stamps[where])
        positions = np.where(early, first.at[where], latest.at[where])
        other = self.threads_of(stamps)
        return [Conflict(self._kind, at // pieces, other, positions, "read", _OVER_READ_ONLY, _NO_READ_ONLY)], False

    def observe(self, side: CheckedAccess) -> None:
        """Note that the strong access made last observed the values that it found."""
        self._observed.note(side.cells, side.who, self._clocks.stamps(side.who, side.order))

    def _all_wide(self, side: CheckedAccess) -> bool:
        return self.cells.wide and side.order.level in (VOLATILE, WIDE)

    def _note_width(self, side: CheckedAccess) -> None:
        """Remember that not all strong accesses reach the whole device, or that some are volatile."""
        if side.order.strong and side.order.level != WIDE:
            self.cells.wide = False

    def collisions(
        self, side: CheckedAccess, offsets: Addresses, values: list[Bits], floats: Callable[[], int] = int
    ) -> tuple[Conflict | None, bool]:
        """Find lanes of one store that write to one place. Call it after `write`.

        Args:
            side: The access.
            offsets: (count,) byte offsets.
            values: Elements of the access, (count,) bits each.
            floats: Returns the bits of the floats in them, which may differ by rounding; 0 where they hold others.

        Returns:
            The conflict of those that write different values, and whether some write the same value.
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
        other = side.who[order[at]] + self._clocks.base
        return Conflict(self._kind, order[at + 1], other, None, "write", detail), False

    # --- against what was before ------------------------------------------------------------------------------------

    def late(self, stamps: Stamps, who: Indices) -> Indices:
        """Return the flat positions of (count, pieces) earlier accesses that (count,) threads are not ordered after."""
        clocks = self._clocks
        if self._own:  # whoever came before the block's barrier was of this block
            recent = stamps >= clocks.limit[who][:, None]
        else:
            recent = (stamps >= FIRST) & ((stamps & THREAD) != clocks.ids[who][:, None])
        if not recent.any():
            return _NOWHERE
        at = np.flatnonzero(recent)
        return at[clocks.unordered(stamps.reshape(-1)[at], who[at // stamps.shape[1]])]

    def _against_pair(self, pair: Pair, side: CheckedAccess, kind: str, *, same: Same | None = None) -> list[Conflict]:
        found, others = self._against(pair[0], side, kind, same=same), self._against(pair[1], side, kind, same=same)
        return [replace(one, others=tuple(others)) for one in found] or others

    def _against(self, slot: AccessSlot, side: CheckedAccess, kind: str, *, same: Same | None = None) -> list[Conflict]:
        """Check an access against one slot; `same` is given where both sides write."""
        stamps = slot.stamps[side.cells]
        at = self.late(stamps, side.who)
        if not len(at):
            return []
        pieces, held = stamps.shape[1], stamps.reshape(-1)[at]
        if kind == "atomic":
            unseen = ~self._observed.covers(side.cells.reshape(-1)[at], held, side.who[at // pieces])
            at, held = at[unseen], held[unseen]
        if same is not None:
            differs = ~same(at // pieces)
            at, held = at[differs], held[differs]
        near = self._closeness(held, side.who[at // pieces])
        if side.order.strong:
            bad = ~TOGETHER[level_of(held), side.order.level, near, int(same is not None)]
            at, held, near = at[bad], held[bad], near[bad]
        if not len(at):
            return []
        first = int(near.argmax())  # what orders the threads that are furthest apart orders the others, too
        if first:
            order = np.concatenate([[first], np.arange(first), np.arange(first + 1, len(at))])
            at, held, near = at[order], held[order], near[order]
        is_volatile = kind == "atomic" and level_of(held[:1])[0] == VOLATILE
        words = "volatile write" if is_volatile else kind
        detail = self._detail(words, int(near[0]), both_write=same is not None)
        remedy = _REMEDY.get(int(near[0]), _REMEDY[APART])
        if side.order.level in (VOLATILE, VOLATILE_DATA) and (is_volatile or level_of(held[:1])[0] == VOLATILE_DATA):
            remedy = f"volatile orders nothing: {remedy}"
        instructions = slot.at[side.cells].reshape(-1)[at]
        other = "write" if is_volatile else kind
        threads = (held & THREAD) - 1
        return [Conflict(self._kind, at // pieces, threads, instructions, other, detail, remedy, unordered=True)]

    def _closeness(self, held: Stamps, who: Indices) -> NDArray[np.int64]:
        return self._clocks.closeness((held & THREAD) - 1, who + self._clocks.base)

    @staticmethod
    def _detail(kind: str, near: int, *, both_write: bool) -> str:
        between = _BETWEEN.get(near, "threads of different blocks, which nothing orders")
        if both_write:
            return f"two writes by {between}"
        return f"{'a read and a write' if kind == 'read' else f'a read and an unordered {kind}'} by {between}"

    # --- remembering ------------------------------------------------------------------------------------------------

    def _remember(self, pair: Pair, side: CheckedAccess) -> None:
        """Enter an access into a pair of slots."""
        first, second = pair
        pieces = side.cells.shape[1]
        flat = side.cells.reshape(-1)
        mine = self._clocks.stamps(side.who, side.order)
        if pieces > 1:
            mine = np.repeat(mine, pieces)
        old = first.stamps[flat]
        recent = self._open(old, side.who, pieces)
        if not recent.any():  # nor is the second slot's: of several threads at one place keep the last and the first
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
            kept = self._open(second.stamps[cell], side.who, pieces, at=lost)
            if kept.any():
                cell, lost = cell[~kept], lost[~kept]
            second.stamps[cell] = mine[lost]
            second.at[cell] = side.position
        if len(displaced):
            cell, gone = flat[displaced], old[displaced]
            newest, there = first.stamps[cell], second.stamps[cell]
            gap = self._gap(gone, newest)
            kept = np.where(self._open(there, side.who, pieces, at=displaced), self._gap(there, newest), -1)
            better = gap > kept
            second.stamps[cell[better]] = gone[better]
            second.at[cell[better]] = earlier[better]

    def _open(self, stamps: Stamps, who: Indices, pieces: int, *, at: Indices | None = None) -> Mask:
        """Return which remembered accesses may still matter: those since the block's barrier, or of other blocks.

        Args:
            stamps: (n,) stamps.
            who: (count,) the threads of the access.
            pieces: Cells of each.
            at: (n,) positions among the access's count * pieces cells; None for all of them.
        """
        if self._own:
            limit = self._clocks.limit[who]
            if at is not None:
                limit = limit[at // pieces]
            elif pieces > 1:
                limit = np.repeat(limit, pieces)
            return np.asarray(stamps >= limit)
        return np.asarray(stamps >= FIRST)

    def _gap(self, one: Stamps, two: Stamps) -> NDArray[np.int64]:
        """Return how far apart the threads of two accesses are: -1 for one and the same."""
        first, second = (one & THREAD) - 1, (two & THREAD) - 1
        near = self._clocks.closeness(first, second)
        return np.where(first == second, -1, near)

    @staticmethod
    def threads_of(stamps: Stamps) -> Indices:
        """Return the threads of the launch that some stamps name."""
        threads: Indices = (stamps & THREAD) - 1
        return threads


def _never(at: Indices) -> Mask:
    return np.zeros(len(at), np.bool_)


def over_reads(side: CheckedAccess, known: Cells, clocks: BatchClocks) -> list[Conflict]:
    """Check a write to what bulk copies may still read: until their mbarriers' phases are known to be complete."""
    found, pieces = [], side.cells.shape[1]
    for copy, at in known.pending_reads(side.cells.reshape(-1)):
        who = side.who[at // pieces]
        late = at[~np.logical_or.reduce([clocks.have_seen(who, key, phase) for key, phase in copy.phases])]
        if len(late):
            detail = "write over memory that a bulk copy may still read, before a wait for the phase of its mbarrier"
            other = np.full(len(late), copy.thread), np.full(len(late), copy.position)
            found.append(Conflict("async-not-waited", late // pieces, *other, "read", detail))
    return found
