"""Loads and stores: checked, counted and executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses, Bits
from lab.emulator.batch import Batch
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes, warp_of
from lab.emulator.memory.bulkgroups import BulkGroups
from lab.emulator.memory.clocks import BatchClocks, LaunchClocks
from lab.emulator.memory.discarded import DiscardedReads
from lab.emulator.memory.memory import (
    LOCAL_SEGMENT,
    LOCAL_WINDOW,
    SHARED_SEGMENT,
    SHARED_WINDOW,
    WITHIN_SEGMENT,
    AddressSpace,
    Region,
)
from lab.emulator.memory.order import DATA, PLAIN, RELAXED, VOLATILE, Order
from lab.emulator.memory.reach import AddressChecker, Attempt, Reach
from lab.emulator.memory.reuse import AccessTrace
from lab.emulator.memory.shadow import SharedShadow
from lab.emulator.memory.watch import AccessWatch
from lab.emulator.program import Place, Program
from lab.emulator.progress import MemoryProgress
from lab.emulator.tally import Counters
from lab.hardware.memory import Copy


class MemoryUnit:
    """The memories of one batch.

    Attributes:
        space: Every region with a segment.
        shared: Shared memory, one row per block.
        frame: Parameters of device functions, one row per thread.
        watch: Checks for races and initialisation.
        progress: Where changes of memory are counted.
        groups: (threads,) number of cp.async groups committed by each thread.
        bulk_groups: Bulk copies out of shared memory.
    """

    def __init__(
        self,
        program: Program,
        batch: Batch,
        space: AddressSpace,
        findings: BatchFindings,
        *,
        shared_bytes: int,
        counters: Counters | None,
        notes: dict[str, None],
        clocks: LaunchClocks | None,
        progress: MemoryProgress,
        extents: Mapping[int, Place],
        trace: AccessTrace | None = None,
    ) -> None:
        """Allocate the batch's memories and map their windows.

        Args:
            program: Sizes of local memory and frames.
            batch: The threads.
            space: Buffers, module variables and parameters.
            findings: The collector of faults.
            shared_bytes: Shared memory of a block.
            counters: Tallies of traffic, or None.
            notes: Receives notes on unchecked or noteworthy accesses.
            clocks: The order of the launch's threads; None without checks for races and uninitialised reads.
            progress: Where changes of memory are counted.
            extents: The shared variable each instruction's address derives from, by position.
            trace: The recorder of global-memory accesses, or None.
        """
        self.progress, self._program = progress, program
        self.space, self._batch, self._counters, self._trace = space, batch, counters, trace
        own = np.arange(batch.threads, dtype=np.int64)
        self.shared = Region("shared memory", "shared", SHARED_WINDOW, shared_bytes, row_count=batch.blocks)
        self.shared.give_rows(batch.block_of)
        local = Region("local memory", "local", LOCAL_WINDOW, program.local_bytes, row_count=batch.threads)
        local.give_rows(own)
        self.frame = Region("call parameters", "param", 0, program.frame_bytes, row_count=batch.threads)
        self.frame.give_rows(own)
        space.place(SHARED_SEGMENT, self.shared)
        space.place(LOCAL_SEGMENT, local)
        shadow, mine = None, BatchClocks(clocks, batch) if clocks is not None else None
        if mine is not None and shared_bytes:
            shadow = SharedShadow(
                self.shared.stride, batch.blocks, program.shared_granule, mine, bulk=program.has_async_proxy
            )
        discarded = DiscardedReads(program.sinks_of, batch.threads, batch.first_thread)
        self.watch = AccessWatch(
            batch,
            self.shared,
            shadow,
            mine,
            findings,
            notes=notes,
            discarded=discarded,
            stored_floats=program.stored_floats,
        )
        self._checker = AddressChecker(space, self.shared, local, self.frame, findings)
        self._checker.extents = extents
        self._findings = findings
        self.groups = np.zeros(batch.threads, np.int32)
        self.bulk_groups = BulkGroups(batch.threads, self.watch, findings)

    def reach(
        self, position: int, space: str, addresses: Addresses, width: int, lanes: Lanes, *, verb: str
    ) -> Iterator[Reach]:
        """Yield the valid parts of an access; report and skip the invalid ones.

        Args:
            position: Index of the instruction.
            space: As in `load`.
            addresses: (count,) byte addresses in that space.
            width: Bytes accessed per thread.
            lanes: The threads.
            verb: `load`, `store` or `atomic`.
        """
        return self._checker.reach(Attempt(position, addresses, width, lanes, verb), space)

    # --- loads ------------------------------------------------------------------------------------------------

    def load(
        self,
        position: int,
        space: str,
        addresses: Addresses,
        lanes: Lanes,
        *,
        width: int,
        vector: int = 1,
        order: Order = PLAIN,
        counted: bool = True,
        first: int = 0,
    ) -> list[Bits]:
        """Load values for some threads.

        Args:
            position: Index of the instruction.
            space: `global`, `shared`, `local`, `const`, `generic`, `frame` or `kernel-param`.
            addresses: (count,) byte addresses in that space.
            lanes: The threads.
            width: Bytes of an element.
            vector: Elements.
            order: The access's memory order.
            counted: Tally the traffic as a load's.
            first: Index of the first element among all elements the instruction loads.

        Returns:
            (count,) bits, one array per element; zero where an access was invalid.
        """
        results: list[Bits] | None = None
        total_width = width * vector
        for reach in self.reach(position, space, addresses, total_width, lanes, verb="load"):
            if counted:
                self.count(position, reach, total_width, "load")
            self.watch.load(
                position, reach, total_width, self._order_of(position, reach, order), element=width, first=first
            )
            values = reach.region.load(reach.places, width, vector)
            if reach.part.whole:
                return values
            if results is None:
                results = _zeros(len(addresses), width, vector)
            for result, value in zip(results, values, strict=True):
                result[reach.part.rows] = value
        return _zeros(len(addresses), width, vector) if results is None else results

    def _order_of(self, position: int, reach: Reach, order: Order) -> Order:
        """Return the memory order of a load, given the one in its opcode."""
        if order.level == VOLATILE and not self._is_flag(position, reach):
            return DATA
        if order is PLAIN and reach.region.space in ("shared", "global") and position in self._program.guess_reads:
            self.watch.note(position, "a plain read of what an atomicCAS checks; a volatile one would be no race")
            return RELAXED
        return order

    def _is_flag(self, position: int, reach: Reach) -> bool:
        """Return whether a volatile read reads a flag.

        A flag that is not polled counts only if all lanes of a warp read one global address: communication through
        shared memory needs a barrier.
        """
        use = self._program.flag_reads.get(position)
        if use == "looked at":
            return reach.region.space == "global" and len(np.unique(reach.places)) <= reach.lanes.warps
        return use == "polled"

    # --- stores -----------------------------------------------------------------------------------------------

    def store(
        self,
        position: int,
        space: str,
        addresses: Addresses,
        values: Sequence[Bits],
        lanes: Lanes,
        *,
        order: Order = PLAIN,
        group: NDArray[np.int32] | None = None,
        first: int = 0,
    ) -> None:
        """Store values for some threads.

        Args:
            position: Index of the instruction.
            space: As in `load`.
            addresses: (count,) byte addresses in that space.
            values: (count,) or (1,) bits, one array per element; their width is the element's.
            lanes: The threads.
            order: The access's memory order.
            group: For cp.async, (count,) each thread's current group number; its traffic is not counted here.
            first: Index of the first element among all elements the instruction stores.
        """
        width = values[0].itemsize
        total_width = width * len(values)
        for reach in self.reach(position, space, addresses, total_width, lanes, verb="store"):
            mine = [reach.part.select(np.broadcast_to(value, addresses.shape)) for value in values]
            if group is None:
                self.count(position, reach, total_width, "store")
            groups = None if group is None else reach.part.select(group)
            self.watch.store(position, reach, mine, order, group=groups, first=first)
            if self.progress.exact:
                old_values = reach.region.load(reach.places, width, len(mine))
                changed = any((old.view(new.dtype) != new).any() for old, new in zip(old_values, mine, strict=True))
                self.progress.changes += int(changed)
            else:
                self.progress.changes += 1
            reach.region.store(reach.places, width, mine)

    # --- traffic ----------------------------------------------------------------------------------------------

    def count(self, position: int, reach: Reach, width: int, verb: str) -> None:
        """Tally the traffic of an access to shared or global memory; `verb` is `load`, `store` or `atomic`."""
        if self._counters is not None and reach.region.space in ("shared", "global"):
            self._counters.memory(position, f"{reach.region.space}.{verb}", reach.offsets, width, reach.lanes)
        if self._trace is not None:
            key = f"{reach.region.space}.{verb}"
            self._trace.samples.note(position, key, reach.offsets, width, reach.lanes.indices())
        if reach.region.space == "global":
            self._note(verb, reach.region, reach.offsets, width, reach.lanes)

    def count_copy(self, position: int, copy: Copy, lanes: Lanes) -> None:
        """Tally a cp.async, whose arrays have one element per thread."""
        if self._trace is not None and copy.fetched.any():
            sources, fetching = copy.sources[copy.fetched], lanes.split(copy.fetched)[0]
            region = self.space.at(int(sources[0]))
            if region is not None:
                self._note("load", region, sources & WITHIN_SEGMENT, copy.width, fetching)
        if self._counters is None or not len(copy.targets):
            return
        parts = copy.targets, copy.sources & WITHIN_SEGMENT
        targets, sources = (lanes.spread(values) for values in parts)
        active, fetched = lanes.spread(copy.active), lanes.spread(copy.fetched)
        self._counters.copy(position, Copy(targets, sources, copy.width, active, fetched), lanes)

    def _note(self, verb: str, region: Region, offsets: Addresses, width: int, lanes: Lanes) -> None:
        if self._trace is not None:
            threads = lanes.indices()
            blocks = self._batch.block_of[threads]
            self._trace.note(verb, region, offsets, width=width, warps=warp_of(threads), blocks=blocks)


def _zeros(count: int, width: int, vector: int) -> list[Bits]:
    return [np.zeros(count, f"u{width}") for _ in range(vector)]
