"""Loads and stores: checked, watched, counted and carried out."""

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
        shared: Shared memory, a row for each block.
        frame: Parameters of device functions, a row for each thread.
        watch: Checks for races and initialisation.
        progress: Where changes of memory are counted.
        groups: (threads,) cp.async groups that each thread has committed.
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
        """Allocate the batch's memories and put their windows in place.

        Args:
            program: Sizes of local memory and frames.
            batch: The threads.
            space: Buffers, module variables and parameters.
            findings: Where faults are noted.
            shared_bytes: Shared memory of a block.
            counters: Tallies of traffic, or None.
            notes: Where it is noted what was not checked, or is worth a look.
            clocks: What orders the launch's threads; None: nothing is watched for races and uninitialised reads.
            progress: Where changes of memory are counted.
            extents: Position of an instruction to the shared variable that its address derives from.
            trace: What takes down accesses to global memory, or None.
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
        """Yield the good parts of an access; the bad ones become findings and are left out.

        Args:
            position: Index of the instruction.
            space: As in `load`.
            addresses: (count,) byte addresses in that space.
            width: Bytes that each thread accesses.
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
        """Load for some threads.

        Args:
            position: Index of the instruction.
            space: `global`, `shared`, `local`, `const`, `generic`, `frame` or `kernel-param`.
            addresses: (count,) byte addresses in that space.
            lanes: The threads.
            width: Bytes of an element.
            vector: Elements.
            order: How strong the access is.
            counted: Tally the traffic as a load's.
            first: Number of the first element among those that the instruction loads in several accesses.

        Returns:
            (count,) bits, one array for each element; zero where an access was refused.
        """
        results: list[Bits] | None = None
        whole = width * vector
        for part in self.reach(position, space, addresses, whole, lanes, verb="load"):
            if counted:
                self.count(position, part, whole, "load")
            self.watch.load(position, part, whole, self._order_of(position, part, order), element=width, first=first)
            values = part.region.load(part.places, width, vector)
            if part.part.whole:
                return values
            if results is None:
                results = _zeros(len(addresses), width, vector)
            for result, value in zip(results, values, strict=True):
                result[part.part.rows] = value
        return _zeros(len(addresses), width, vector) if results is None else results

    def _order_of(self, position: int, part: Reach, order: Order) -> Order:
        """Return how strong a load is, given what its opcode says."""
        if order.level == VOLATILE and not self._is_flag(position, part):
            return DATA
        if order is PLAIN and part.region.space in ("shared", "global") and position in self._program.guess_reads:
            self.watch.note(position, "a plain read guesses what an atomicCAS checks; a volatile one would be no race")
            return RELAXED
        return order

    def _is_flag(self, position: int, part: Reach) -> bool:
        """Return whether a volatile read is of flags.

        One that is not polled is where the lanes of a warp look at one place in global memory: what a block tells its
        threads through shared memory takes a barrier.
        """
        use = self._program.flag_reads.get(position)
        if use == "looked at":
            return part.region.space == "global" and len(np.unique(part.places)) <= part.lanes.warps
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
        """Store for some threads.

        Args:
            position: Index of the instruction.
            space: As in `load`.
            addresses: (count,) byte addresses in that space.
            values: (count,) or (1,) bits, one array for each element; their width is the element's.
            lanes: The threads.
            order: How strong the access is.
            group: For cp.async, (count,) each thread's running number of the group; its traffic is not counted here.
            first: Number of the first element among those that the instruction stores in several accesses.
        """
        width = values[0].itemsize
        whole = width * len(values)
        for part in self.reach(position, space, addresses, whole, lanes, verb="store"):
            mine = [part.part.select(np.broadcast_to(value, addresses.shape)) for value in values]
            if group is None:
                self.count(position, part, whole, "store")
            groups = None if group is None else part.part.select(group)
            self.watch.store(position, part, mine, order, group=groups, first=first)
            if self.progress.exact:
                held = part.region.load(part.places, width, len(mine))
                changed = any((old.view(new.dtype) != new).any() for old, new in zip(held, mine, strict=True))
                self.progress.changes += int(changed)
            else:
                self.progress.changes += 1
            part.region.store(part.places, width, mine)

    # --- traffic ----------------------------------------------------------------------------------------------

    def count(self, position: int, part: Reach, width: int, verb: str) -> None:
        """Tally the traffic of an access to shared or global memory; `verb` is `load`, `store` or `atomic`."""
        if self._counters is not None and part.region.space in ("shared", "global"):
            self._counters.memory(position, f"{part.region.space}.{verb}", part.offsets, width, part.lanes)
        if self._trace is not None:
            key = f"{part.region.space}.{verb}"
            self._trace.samples.note(position, key, part.offsets, width, part.lanes.indices())
        if part.region.space == "global":
            self._note(verb, part.region, part.offsets, width, part.lanes)

    def count_copy(self, position: int, copy: Copy, lanes: Lanes) -> None:
        """Tally a cp.async, whose arrays have one element for each of the threads."""
        if self._trace is not None and copy.fetched.any():
            sources, there = copy.sources[copy.fetched], lanes.split(copy.fetched)[0]
            region = self.space.at(int(sources[0]))
            if region is not None:
                self._note("load", region, sources & WITHIN_SEGMENT, copy.width, there)
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
