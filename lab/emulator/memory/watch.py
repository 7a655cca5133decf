"""Watching accesses for races, missing waits and reads of memory that nothing wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses, Bits, Indices, Mask
from lab.emulator.batch import Batch, padded_threads
from lab.emulator.findings import BatchFindings, OtherSide
from lab.emulator.lanes import Lanes
from lab.emulator.memory.asyncshadow import AsyncShadow
from lab.emulator.memory.cells import Cells, PendingRead
from lab.emulator.memory.clocks import FIRST, BatchClocks, ClusterPhase, Place
from lab.emulator.memory.discarded import NOBODY, DiscardedReads, HeldRace
from lab.emulator.memory.lifetimes import PeerLifetimes
from lab.emulator.memory.mapfences import MapState
from lab.emulator.memory.memory import Region
from lab.emulator.memory.order import PLAIN, RELAXED, Order
from lab.emulator.memory.races import CheckedAccess, Conflict, Races, over_reads
from lab.emulator.memory.reach import Reach
from lab.emulator.memory.shadow import SharedShadow
from lab.emulator.rounding import differ_by_rounding
from lab.hardware.tensormaps import BYTES as MAP_BYTES

_FEW = 64
"""Threads of a strong write that are remembered as the last ones to write there: locks and flags have few."""


@dataclass(frozen=True, slots=True, eq=False)
class ForeignReads:
    """Lanes that read registers of lanes which take no part in a shuffle.

    Attributes:
        readers: (count,) lanes.
        sources: (count,) the lane that each one reads.
        masks: (count,) the member mask that each one names.
        named: (count,) whether the source is in that mask.
        exist: (count,) whether the block has a thread there.
    """

    readers: NDArray[np.int32]
    sources: NDArray[np.int32]
    masks: NDArray[np.uint32]
    named: Mask
    exist: Mask

    def words(self, reader: int = -1) -> str:
        """Say what a lane reads; what the first one reads where that lane reads nothing of the kind."""
        at = int(np.argmax(self.readers == reader))
        fate = "which has exited" if self.exist[at] else "which the block does not have"
        if not self.named[at]:
            fate = f"which is not in its mask {int(self.masks[at]):#010x}"
        return f"lane {int(self.readers[at])} reads lane {int(self.sources[at])}, {fate}"


_LOOSE_LOCK = "a lock is taken with no fence behind it: __threadfence() keeps what it guards from being done before"


class FollowsValues(Protocol):
    """What follows undefined values: `lab.emulator.undefined.UndefinedValues`."""

    def follows(self, position: int) -> bool:
        """Return whether a load's values are followed."""

    def load_local(self, position: int, reach: Reach, width: int, vector: int) -> None:
        """Note what a load finds in local memory that nothing wrote."""

    def load(self, position: int, reach: Reach, fresh: Mask, element: int, width: int, *, first: int = 0) -> None:
        """Note for which threads an element was not written."""

    def exchange(self, position: int, threads: Indices, reads: ForeignReads) -> None:
        """Note which threads read registers of lanes that take no part in a shuffle."""

    def fetch(self, position: int, operand: int, rows: Mask, starts: Indices, *, region: Region, offset: int) -> None:
        """Note which rows of an operand of `wgmma` hold something that was not written."""

    def store(self, position: int, reach: Reach, values: Sequence[Bits], *, first: int = 0) -> list[Mask | None]:
        """Note a store; return, for each element, who stores an undefined value."""


class AccessWatch:
    """The shadows of a batch's memories; what they find becomes findings.

    Attributes:
        shadow: Races and initialisation of shared memory; None where nothing is checked, or there is none.
        clocks: What orders accesses; None where nothing is checked.
        undefined: What nothing has written, in registers and in local memory; None where there can be nothing.
        lifetimes: Uses of the shared memory of other blocks; None without clusters.
    """

    def __init__(
        self,
        batch: Batch,
        shared: Region,
        shadow: SharedShadow | None,
        clocks: BatchClocks | None,
        findings: BatchFindings,
        *,
        notes: dict[str, None],
        discarded: DiscardedReads | None = None,
        stored_floats: Callable[[int], int] = lambda _position: 0,
    ) -> None:
        """Watch the memories of a batch.

        Args:
            batch: The threads.
            shared: Their shared memory.
            shadow: What is known of it.
            clocks: What orders accesses.
            findings: Where faults are noted.
            notes: Where it is noted what is no fault, but worth a look.
            discarded: Races whose reader may do nothing with what it read; None: each race is a fault.
            stored_floats: Returns the bits of the floats that a store writes, by its position; 0 for other values.
        """
        self._discarded, self._stored_floats = discarded, stored_floats
        self._batch, self._shared, self._findings, self._notes = batch, shared, findings, notes
        self.shadow, self.clocks = shadow, clocks
        self.undefined: FollowsValues | None = None
        self.lifetimes = None
        if clocks is not None and batch.cluster > 1:
            self.lifetimes = PeerLifetimes(batch, clocks, findings)
        self._races: dict[Region, Races] = {}
        self._strong: dict[int, Reach] = {}

    @property
    def bulk(self) -> AsyncShadow | None:
        """What is known of bulk copies and mbarriers; None where nothing is checked."""
        return None if self.shadow is None else self.shadow.bulk

    def _races_in(self, region: Region) -> Races | None:
        """Return what checks accesses to a buffer for races; None where it is not watched."""
        found = self._races.get(region)
        if found is None and region.cells is not None and self.clocks is not None:
            found = self._races[region] = Races(region.cells, self.clocks, "global-race", own=False)
        return found

    # --- accesses ---------------------------------------------------------------------------------------------

    def load(
        self, position: int, reach: Reach, width: int, order: Order = PLAIN, *, element: int = 0, first: int = 0
    ) -> None:
        """Check a load of `width` bytes for each thread.

        Args:
            position: Index of the instruction.
            reach: Where it falls.
            width: Bytes of the access.
            order: How strong it is.
            element: Bytes of an element, for findings; 0 for the whole width.
            first: Number of the first element among those that the instruction loads.
        """
        region = reach.region
        self._use_peers(position, reach)
        if order.strong:
            self._strong[position] = reach
        if region.space == "local":
            if self.undefined is not None and self.undefined.follows(position):
                each = element or width
                self.undefined.load_local(position, reach, each, width // each)
            return
        if region is self._shared:
            if self.shadow is not None:
                found = self.shadow.read(reach.places, width, reach.lanes.indices(), position, order)
                if found and self.undefined is not None and self.undefined.follows(position):
                    found = self._follow(position, reach, found, width=width, element=element or width, first=first)
                found = self._hold_back(position, reach, found, width=element or width, reads=True)
                self._report(position, region, reach.lanes, reach.offsets, found, width=element or width)
        else:
            if region.shadow is not None:
                found = region.shadow.read(reach.places, width)
                self._report(position, region, reach.lanes, reach.offsets, found, width=element or width)
            races = self._races_in(region)
            if races is not None:
                side = CheckedAccess(races.cells.covered(reach.places, width), reach.lanes.indices(), order, position)
                found = races.read(side) + _before_arrival(side.cells, races.cells, "read of")
                if order.read_only:
                    found += races.read_only(side)
                found = self._hold_back(position, reach, found, width=element or width, reads=True)
                self._report(position, region, reach.lanes, reach.offsets, found, width=element or width)
        if order.strong:
            self.synchronise(position, reach, order, reads=True, wrote=False)

    def _use_peers(self, position: int, reach: Reach) -> None:
        """Check that other blocks whose shared memory an access reaches are there."""
        if self.lifetimes is not None and reach.region is self._shared:
            self.lifetimes.use(position, reach.lanes.indices(), reach.places // self._shared.stride)

    def _follow(
        self, position: int, reach: Reach, found: list[Conflict], *, width: int, element: int, first: int
    ) -> list[Conflict]:
        """Hand what a load of shared memory read unwritten to what follows values; return the other conflicts."""
        others = [conflict for conflict in found if conflict.kind != "uninitialised-read"]
        if self.shadow is None or self.undefined is None or len(others) == len(found):
            return others
        for i in range(width // element):
            fresh = np.zeros(len(reach.places), np.bool_)
            for conflict in self.shadow.unwritten(reach.places + i * element, element):
                fresh[conflict.which] = True
            self.undefined.load(position, reach, fresh, i, element, first=first)
        return others

    def store(
        self,
        position: int,
        reach: Reach,
        values: Sequence[Bits],
        order: Order = PLAIN,
        *,
        group: NDArray[np.int32] | None = None,
        first: int = 0,
    ) -> None:
        """Check a store, before the bytes change.

        Args:
            position: Index of the instruction.
            reach: Where it falls.
            values: (count,) bits, one array for each element.
            order: How strong it is.
            group: For cp.async, (count,) each thread's running number of the group.
            first: Number of the first element among those that the instruction stores.
        """
        width, whole, region = values[0].itemsize, values[0].itemsize * len(values), reach.region
        mine = region is self._shared
        self._use_peers(position, reach)
        self._note_store(position, region, reach.lanes.indices, reach.offsets, whole)
        self._use(position, reach)
        undefined = [] if self.undefined is None else self.undefined.store(position, reach, values, first=first)
        if not mine and region.shadow is not None:
            region.shadow.write(reach.places, whole)
        shadow, races = self.shadow, self._races_in(region)
        if (shadow is None) if mine else (races is None):
            return
        threads = reach.lanes.indices()
        contiguous = [np.ascontiguousarray(value) for value in values]

        def same(at: Indices) -> Mask:
            held = region.load(reach.places[at], width, len(contiguous))
            pairs = [(old, new.view(old.dtype)[at]) for old, new in zip(held, contiguous, strict=True)]
            equal: Mask = np.logical_and.reduce([old == new for old, new in pairs])
            if not equal.all() and (bits := floats()):
                equal = np.logical_and.reduce([differ_by_rounding(old, new, bits) for old, new in pairs])
            return equal

        def floats() -> int:
            return self._stored_floats(position)

        if mine and shadow is not None:
            found, alike = shadow.write(
                reach.places,
                whole,
                threads,
                position,
                same,
                order=order,
                group=group,
                values=contiguous,
                floats=floats,
            )
            for i, bad in enumerate(undefined):
                if bad is not None and bad.any():
                    shadow.forget(reach.places[bad] + i * width, width)
        elif races is not None:
            side = CheckedAccess(races.cells.covered(reach.places, whole), threads, order, position)
            found, alike = races.write(side, same)
            clash, equal = races.collisions(side, reach.places, contiguous, floats)
            found, alike = found + ([clash] if clash is not None else []), alike or equal
            found += self._over_read_only(position, side, races)
            found += _before_arrival(side.cells, races.cells, "write over")
            found += self._over_reads(side, races.cells)
        found = self._hold_back(position, reach, found, width=width, reads=False)
        self._report(position, region, reach.lanes, reach.offsets, found, width=width)
        if alike and not found:
            self.note(position, f"several threads write one value to {region.name}")
        if order.strong:
            self.synchronise(position, reach, order, reads=False, wrote=True)

    def atomic(
        self, position: int, reach: Reach, width: int, order: Order, *, reads: bool, returns: bool = False
    ) -> None:
        """Check an atomic access of `width` bytes for each thread, which races with ordinary ones only.

        Args:
            position: Index of the instruction.
            reach: Where it falls.
            width: Bytes of the access.
            order: How strong it is.
            reads: What memory holds before decides the result.
            returns: The thread gets what memory held, and so observes it.
        """
        region, threads = reach.region, reach.lanes.indices()
        self._use_peers(position, reach)
        self._note_store(position, region, reach.lanes.indices, reach.offsets, width, update=True)
        self._use(position, reach)
        self._strong[position] = reach
        if region is self._shared:
            if self.shadow is None:
                return
            found = self.shadow.unwritten(reach.places, width) if reads else []
            more, _ = self.shadow.write(reach.places, width, threads, position, never_same, order=order, update=True)
            if returns:
                cells = self.shadow.cells.covered(reach.places, width)
                self.shadow.races.observe(CheckedAccess(cells, threads, order, position))
            self._report(position, region, reach.lanes, reach.offsets, found + more, width=width)
            return
        if region.shadow is not None:
            found = region.shadow.read(reach.places, width) if reads else []
            self._report(position, region, reach.lanes, reach.offsets, found)
            region.shadow.write(reach.places, width)
        races = self._races_in(region)
        if races is not None:
            side = CheckedAccess(races.cells.covered(reach.places, width), threads, order, position)
            found, _ = races.write(side, never_same, update=True)
            if returns:
                races.observe(side)
            found += self._over_read_only(position, side, races)
            found += _before_arrival(side.cells, races.cells, "update of")
            found += self._over_reads(side, races.cells)
            self._report(position, region, reach.lanes, reach.offsets, found, width=width)

    def _note_store(
        self,
        position: int,
        region: Region,
        threads: Callable[[], Indices],
        offsets: Addresses,
        width: int,
        *,
        update: bool = False,
    ) -> None:
        """Log a store of `width` bytes at (count,) offsets of a buffer, and report it where it may not be written."""
        if region.log is not None:
            first = self._batch.first_thread // padded_threads(self._batch.block)
            region.log.note(self._batch.block_of[threads()] + first, offsets, width, update=update)
        if region.readonly:
            detail = f"a store to {region.name}, which is not declared as an output"
            self._findings.add(
                "undeclared-write",
                position,
                f"{detail} (offset {int(offsets[0])})",
                threads(),
                address=region.base + int(offsets[0]),
                variable=self._findings.element(region.space, region.name, int(offsets[0]), width),
                remedy="declare it: out or inout where it is a result, scratch where nobody compares it",
            )

    # --- values that nobody uses ------------------------------------------------------------------------------

    def _hold_back(
        self, position: int, reach: Reach, found: list[Conflict], *, width: int, reads: bool
    ) -> list[Conflict]:
        """Hold back the races whose reader has not used what it read; return the other conflicts."""
        if self._discarded is None or not found:
            return found
        hold, left = self._discarded.by_reader if reads else self._discarded.by_writer, []
        for conflict in found:
            race = None
            if conflict.unordered and (reads or conflict.other_kind == "read"):
                race = HeldRace(
                    position, reach.region, reach.lanes.indices(), reach.offsets, conflict, width, NOBODY, frozenset()
                )
            if race is None or not hold(race):
                left.append(conflict)
            elif conflict.others:
                left += self._hold_back(position, reach, list(conflict.others), width=width, reads=reads)
        return left

    def _use(self, position: int, reach: Reach) -> None:
        """Note that threads store values; races whose readers do so are faults."""
        if self._discarded is None or self.clocks is None:
            return
        for race in self._discarded.execute(position, reach.lanes.indices()):
            self._report(race.position, race.region, race.threads, race.offsets, [race.conflict], width=race.width)

    def settle(self) -> None:
        """Note the races whose readers never used what they read: all threads have ended."""
        if self._discarded is not None:
            for race in self._discarded.held:
                self.note(race.position, f"{race.conflict.detail}, whose reader discards what it reads")
            self._discarded.held.clear()

    def _over_read_only(self, position: int, side: CheckedAccess, races: Races) -> list[Conflict]:
        """Check a write to what loads take for read-only; one by the only thread that reads there so is a note."""
        found, own = races.over_read_only(side)
        if own and not found:
            self.note(position, "the thread has read this memory by ld.global.nc, which takes it for read-only")
        return found

    def _over_reads(self, side: CheckedAccess, known: Cells, *, bulk: bool = False) -> list[Conflict]:
        """Check a write to a buffer that bulk copies read, and note whether it is a bulk copy's."""
        if known.bulk is not None or bulk:
            known.by_bulk()[side.cells] = bulk
        return [] if self.clocks is None else over_reads(side, known, self.clocks)

    def bulk_store(
        self, position: int, thread: int, region: Region, rows: Addresses, length: int, *, update: bool
    ) -> Callable[[], None] | None:
        """Check a bulk copy's write to a buffer, which is on its way until its thread has waited.

        Args:
            position: Index of the instruction.
            thread: The thread that asks for it.
            region: The buffer.
            rows: (count,) where the rows begin that it writes.
            length: Bytes of a row: whole pieces of 16 bytes or, at the edge of a tensor, elements.
            update: It updates what is there, as an atomic does.

        Returns:
            What notes that the bytes have arrived; None where nothing is checked.
        """
        self._note_store(position, region, lambda: np.full(len(rows), thread), rows, length, update=update)
        if region.shadow is not None:
            region.shadow.write((rows[:, None] + np.arange(length)).reshape(-1), 1)
        races = self._races_in(region)
        if races is None:
            return None
        granule, arriving = races.cells.granule, races.cells.still_arriving()

        def write(change: int) -> None:  # its rows are all that is kept until it has arrived
            cells = races.cells.under(rows, length)
            side = CheckedAccess(cells[:, None], np.full(len(cells), thread), RELAXED if update else PLAIN, position)
            found, _ = races.write(side, never_same, update=update)
            found += self._over_reads(side, races.cells, bulk=True) + self._over_read_only(position, side, races)
            self.report_global(position, thread, region, cells * granule, found)
            arriving[cells] += change

        write(1)
        return lambda: write(-1)

    def bulk_fetch(
        self, position: int, thread: int, region: Region, rows: Addresses, length: int, *, place: Place, phase: int
    ) -> None:
        """Check what a bulk copy reads from a buffer, which it may do until a phase of its mbarrier is complete.

        Args:
            position: Index of the instruction.
            thread: The thread that asks for it.
            region: The buffer.
            rows: (count,) where the rows begin that it reads.
            length: Bytes of a row.
            place: The mbarrier.
            phase: The phase.
        """
        races, clocks = self._races_in(region), self.clocks
        if races is None or clocks is None:
            return
        known = races.cells
        cells = known.under(rows, length)
        side = CheckedAccess(cells[:, None], np.full(len(cells), thread), PLAIN, position)
        found = races.read(side, passing=True) + _before_arrival(side.cells, known, "bulk copy of")
        stamps = known.write.stamps[cells]
        late = clocks.unfenced(stamps, thread)
        at = np.flatnonzero(late if known.bulk is None else late & ~known.bulk[cells])
        if len(at):
            detail = "bulk copy of what threads wrote, without a fence.proxy.async between the two"
            writers = races.threads_of(stamps[at])
            found.append(Conflict("missing-proxy-fence", at, writers, known.write.at[cells[at]], "write", detail))
        self.report_global(position, thread, region, cells * known.granule, found)
        key = clocks.announce(place, phase)
        known.note_read(cells, PendingRead(((key, phase),), thread + clocks.base, position))

    def bulk_fetch_again(self, region: Region, place: Place, phase: int) -> None:
        """Note that the latest `bulk_fetch` goes to another block, too, where a phase of this mbarrier awaits it."""
        races = self._races_in(region)
        if races is not None and self.clocks is not None:
            races.cells.read_for_another((self.clocks.announce(place, phase), phase))

    def synchronise(self, position: int, reach: Reach, order: Order, *, reads: bool, wrote: Mask | bool) -> None:
        """Let strong accesses acquire and release. Arguments as in `BatchClocks.synchronise`."""
        region, clocks = reach.region, self.clocks
        if clocks is None or region.space not in ("shared", "global"):
            return
        if wrote is not False and reach.lanes.count <= _FEW:
            at = np.flatnonzero(np.broadcast_to(wrote, reach.places.shape))
            for place, thread in zip(reach.places[at].tolist(), reach.lanes.indices()[at].tolist(), strict=True):
                clocks.launch.changed[region, place] = (thread + clocks.base, position)
        shared = region is self._shared and not clocks.apart
        who = reach.lanes.indices()
        clocks.synchronise(region, reach.places, who, order, shared=shared, reads=reads, wrote=wrote, position=position)

    def polled(self, position: int, threads: Indices) -> tuple[int, str, int, OtherSide | None] | None:
        """Return what threads polled last with an instruction, and who else wrote there last.

        Args:
            position: Index of a volatile or atomic read.
            threads: (count,) the batch's indices of the threads.

        Returns:
            One of the threads, the name of the memory, the address, and the other side; None where the threads polled
            nothing.
        """
        reach = self._strong.get(position)
        if reach is None:
            return None
        at = np.flatnonzero(np.isin(reach.lanes.indices(), threads))
        if not len(at):
            return None
        place, offset, region = int(reach.places[at[0]]), int(reach.offsets[at[0]]), reach.region
        base = region.base if region.space == "global" else 0
        changed = None if self.clocks is None else self.clocks.launch.changed.get((region, place))
        other = None
        thread = int(reach.lanes.indices()[at[0]])
        if changed is not None and changed[0] - self._batch.first_thread != thread:
            other = OtherSide("write", changed[1], changed[0])
        return thread, f"{region.name}, offset {offset}", base + offset, other

    # --- barriers ---------------------------------------------------------------------------------------------

    def order_all(self) -> None:
        """Order memory: all threads of all blocks have passed their barriers."""
        if self.clocks is not None:
            self.clocks.order_blocks(slice(None), np.arange(self._batch.blocks))
        if self.shadow is not None:
            self.shadow.order_blocks(slice(None), slice(None))

    def order_blocks(self, rows: Indices) -> None:
        """Order memory: all threads of some blocks of the batch have passed a barrier."""
        if self.clocks is None:
            return
        threads = np.isin(self._batch.block_of, rows)
        self.clocks.order_blocks(threads, rows)
        if self.shadow is not None:
            self.shadow.order_blocks(rows, threads)

    def order_clusters(self, rows: Indices) -> None:
        """Order memory: all threads of the blocks of whole clusters have passed a barrier."""
        if self.clocks is None:
            return
        self.clocks.order_clusters(rows)
        if self.shadow is not None:
            self.shadow.order_blocks(rows, np.isin(self._batch.block_of, rows))

    def arrivals(self, rows: Indices, threads: Indices, times: Indices, relaxed: Mask) -> ClusterPhase | None:
        """Note that all threads of a cluster have arrived at its barrier; return what that tells those that wait.

        Arguments as in `BatchClocks.arrivals`.
        """
        if self.clocks is None:
            return None
        if self.lifetimes is not None:
            self.lifetimes.arrive(rows, threads, times)
        if self.shadow is not None and not relaxed.any():
            self.shadow.order_blocks(rows, np.isin(self._batch.block_of, rows))
        return self.clocks.arrivals(rows, threads, times, relaxed)

    def see_arrivals(self, threads: Indices, phase: ClusterPhase) -> None:
        """Order memory: (count,) threads of a cluster have waited for its barrier."""
        if self.lifetimes is not None:
            self.lifetimes.wait(threads)
        if self.clocks is not None:
            self.clocks.see_arrivals(threads, phase)

    def arrival(self) -> int:
        """Return the time of an arrival at a barrier of some threads."""
        return 0 if self.clocks is None else int(self.clocks.arrival())

    def knows_arrivals(self, members: Indices, warps: Indices, times: Indices) -> bool:
        """Return whether a warp knows that (count,) others have arrived at a barrier. Arguments as in `BatchClocks`."""
        return self.clocks is None or self.clocks.knows_arrivals(members, warps, times)

    def order_threads(self, waiters: Indices, arrived: Indices, times: Indices) -> None:
        """Order memory: some threads of a block have passed a barrier. Arguments as in `BatchClocks.order_some`."""
        if self.clocks is not None and len(waiters):
            self.clocks.order_some(waiters, arrived, times)
        if self.shadow is not None:
            self.shadow.order_threads(arrived)

    def order_warps(self, who: Indices, masks: NDArray[np.uint32]) -> None:
        """Order memory: (count,) threads met the lanes of their warp that (count,) masks name."""
        if self.bulk is not None:
            self.bulk.order_warps(who, masks)
        if self.clocks is not None:
            self.clocks.order_warps(who, masks)

    def fence(self, who: Indices, *, wide: bool) -> None:
        """Note a fence of (count,) threads; `wide` where its scope is more than the block."""
        if self.clocks is not None:
            self.clocks.fence(who, wide=wide)

    def acquire_maps(self, addresses: Addresses, who: Indices) -> None:
        """Note that (count,) threads acquired tensor maps at (count,) generic addresses."""
        if self.clocks is None:
            return
        launch, now = self.clocks.launch, int(self.clocks.launch.tick())
        blocks = (who + self.clocks.base) // launch.padded
        for address, block in {*zip(addresses.tolist(), blocks.tolist(), strict=True)}:
            launch.map_fences.acquire(address, block, now)

    def use_map(self, position: int, thread: int, region: Region, offset: int) -> None:
        """Check that a thread's block acquired the tensor map at an offset in a buffer since threads changed it.

        Without an acquire of a map that only the host wrote, the block may see what lay there before the host's copy.
        Kernels that never reuse the address get away with it, so that this is a note.
        """
        clocks = self.clocks
        if clocks is None:
            return
        launch, races = clocks.launch, self._races_in(region)
        cells = None if races is None else races.cells.under(np.array([offset]), MAP_BYTES)
        stamps = np.zeros(1, np.int64) if races is None else races.cells.write.stamps[cells]
        latest = int(stamps.max())
        block = int(thread + clocks.base) // launch.padded
        state = launch.map_fences.state(region.base + offset, block, latest if latest >= FIRST else 0)
        if state is MapState.NEVER_FENCED:
            self.note(position, "a tensor map in global memory without a fence.proxy.tensormap::generic.acquire of it")
        if state is MapState.CHANGED_SINCE and races is not None and cells is not None:
            at = np.array([int(stamps.argmax())])
            detail = "a tensor map that threads wrote, without a fence.proxy.tensormap::generic.acquire of it since"
            remedy = "fence.proxy.tensormap::generic.acquire in each block that uses the map"
            writers, where = races.threads_of(stamps[at]), races.cells.write.at[cells[at]]
            conflict = Conflict("missing-proxy-fence", at, writers, where, "write", detail, remedy)
            self.report_global(position, thread, region, cells * races.cells.granule, [conflict])

    def note(self, position: int, text: str) -> None:
        """Note something about an instruction that is no fault, but worth a look."""
        self._notes[f"{self._findings.line(position)}: {text}"] = None

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
        *,
        width: int = 4,
    ) -> None:
        """Make findings of conflicts; `width` is that of an element."""
        if self.clocks is not None and self.clocks.launch.loose.used:
            for lock in self.clocks.launch.loose.used:
                self.note(lock, _LOOSE_LOCK)
            self.clocks.launch.loose.used.clear()
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
                variable=self._findings.element(region.space, region.name, int(offsets[first]), width),
                remedy=conflict.remedy,
            )


def _before_arrival(cells: Indices, known: Cells, verb: str) -> list[Conflict]:
    """Check an access to what a bulk copy may still write: (count, pieces) cells."""
    if known.arriving is None:
        return []
    at = np.flatnonzero(known.arriving[cells].any(axis=1))
    if not len(at):
        return []
    detail = f"{verb} memory that a bulk copy may still write, before a wait for it"
    return [Conflict("async-not-waited", at, detail=detail, remedy="cp.async.bulk.wait_group, without .read")]


def _other_side(conflict: Conflict) -> OtherSide | None:
    if conflict.other_thread is None:
        return None
    at = int(conflict.other_instruction[0]) if conflict.other_instruction is not None else -1
    return OtherSide(conflict.other_kind, at, int(conflict.other_thread[0]))


def never_same(at: Indices) -> Mask:
    """Say of every position that memory does not hold yet what is written there."""
    return np.zeros(len(at), np.bool_)
