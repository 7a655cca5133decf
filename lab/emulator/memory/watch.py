"""Watching accesses for races, missing waits and reads of memory that nothing wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses, Bits, Indices, Mask
from lab.emulator.batch import Batch
from lab.emulator.findings import BatchFindings, OtherSide
from lab.emulator.lanes import Lanes
from lab.emulator.memory.asyncshadow import AsyncShadow
from lab.emulator.memory.memory import Region
from lab.emulator.memory.reach import Reach
from lab.emulator.memory.shadow import Conflict, SharedShadow


class AccessWatch:
    """The shadows of a batch's memories; what they find becomes findings.

    Attributes:
        shadow: Races and initialisation of shared memory; None where nothing is checked.
    """

    def __init__(self, batch: Batch, shared: Region, shadow: SharedShadow | None, findings: BatchFindings) -> None:
        self._batch, self._shared, self._findings = batch, shared, findings
        self.shadow = shadow

    @property
    def bulk(self) -> AsyncShadow | None:
        """What is known of bulk copies and mbarriers; None where nothing is checked."""
        return None if self.shadow is None else self.shadow.bulk

    # --- accesses ---------------------------------------------------------------------------------------------

    def load(self, position: int, reach: Reach, width: int, *, strong: bool) -> None:
        """Check a load of `width` bytes for each thread.

        Args:
            position: Index of the instruction.
            reach: Where it falls.
            width: Bytes of the access.
            strong: Volatile or atomic.
        """
        if reach.region is self._shared:
            if self.shadow is not None:
                found = self.shadow.read(reach.places, width, reach.lanes.indices(), position, strong=strong)
                self._report(position, reach.region, reach.lanes, reach.offsets, found)
        elif reach.region.shadow is not None:
            found = reach.region.shadow.read(reach.places, width)
            self._report(position, reach.region, reach.lanes, reach.offsets, found)

    def store(
        self,
        position: int,
        reach: Reach,
        values: Sequence[Bits],
        *,
        strong: bool,
        group: NDArray[np.int32] | None,
    ) -> None:
        """Check a store, before the bytes change.

        Args:
            position: Index of the instruction.
            reach: Where it falls.
            values: (count,) bits, one array for each element.
            strong: Volatile or atomic.
            group: For cp.async, (count,) each thread's running number of the group.
        """
        width, whole = values[0].itemsize, values[0].itemsize * len(values)
        shadow = self.shadow
        if reach.region is not self._shared:
            if reach.region.shadow is not None:
                reach.region.shadow.write(reach.places, whole)
            return
        if shadow is None:
            return
        threads = reach.lanes.indices()
        contiguous = [np.ascontiguousarray(value) for value in values]

        def same(at: Indices) -> Mask:
            held = reach.region.load(reach.places[at], width, len(contiguous))
            equal: Mask = np.logical_and.reduce(
                [h == v.view(h.dtype)[at] for h, v in zip(held, contiguous, strict=True)]
            )
            return equal

        if not strong:
            clash = shadow.collisions(reach.places, threads, contiguous)
            if clash is not None:
                self._report(position, reach.region, reach.lanes, reach.offsets, [clash])
        found = shadow.write(reach.places, whole, threads, position, same, strong=strong, group=group)
        self._report(position, reach.region, reach.lanes, reach.offsets, found)

    def atomic(self, position: int, reach: Reach, width: int, *, reads: bool) -> None:
        """Check an atomic access of `width` bytes for each thread, which races with ordinary ones only."""
        if reads:
            self.load(position, reach, width, strong=True)
        if reach.region is not self._shared:
            if reach.region.shadow is not None:
                reach.region.shadow.write(reach.places, width)
        elif self.shadow is not None:
            found = self.shadow.write(reach.places, width, reach.lanes.indices(), position, never_same, strong=True)
            self._report(position, reach.region, reach.lanes, reach.offsets, found)

    # --- barriers ---------------------------------------------------------------------------------------------

    def order_all(self) -> None:
        """Order shared memory: all threads of all blocks have passed a barrier."""
        if self.shadow is not None:
            self.shadow.order_blocks(slice(None), slice(None))

    def order_blocks(self, rows: Indices) -> None:
        """Order shared memory: all threads of some blocks of the batch have passed a barrier."""
        if self.shadow is not None:
            self.shadow.order_blocks(rows, np.isin(self._batch.block_of, rows))

    def order_threads(self, threads: Indices) -> None:
        """Order shared memory: some threads of a block have passed a barrier."""
        if self.shadow is not None:
            self.shadow.order_threads(threads)

    # --- conflicts --------------------------------------------------------------------------------------------

    def report_shared(self, position: int, threads: Indices, offsets: Addresses, conflicts: Iterable[Conflict]) -> None:
        """Make findings of conflicts of (count,) threads at offsets in the shared memory of their block."""
        self._report(position, self._shared, threads, offsets, conflicts)

    def report_global(
        self, position: int, thread: int, region: Region, offsets: Addresses, conflicts: Iterable[Conflict]
    ) -> None:
        """Make findings of conflicts of one thread at (count,) offsets in a buffer."""
        self._report(position, region, np.full(len(offsets), thread), offsets, conflicts)

    def _report(
        self,
        position: int,
        region: Region,
        who: Lanes | Indices,
        offsets: Addresses,
        conflicts: Iterable[Conflict],
    ) -> None:
        for conflict in conflicts:
            threads = who.indices() if isinstance(who, Lanes) else who
            which = np.unique(conflict.which)
            first = int(conflict.which[0])
            order = np.concatenate([[first], which[which != first]])
            placed = region.base if region.space in ("global", "const") else 0
            self._findings.add(
                conflict.kind,
                position,
                f"{conflict.detail} ({region.name}, offset {int(offsets[first])})",
                threads[order],
                address=placed + int(offsets[first]),
                other=_other_side(conflict),
            )


def _other_side(conflict: Conflict) -> OtherSide | None:
    if conflict.other_thread is None:
        return None
    at = int(conflict.other_instruction[0]) if conflict.other_instruction is not None else -1
    return OtherSide(conflict.other_kind, at, int(conflict.other_thread[0]))


def never_same(at: Indices) -> Mask:
    """Say of every position that memory does not hold yet what is written there."""
    return np.zeros(len(at), np.bool_)
