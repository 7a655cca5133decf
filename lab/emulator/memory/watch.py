"""Access checks: races, missing waits and reads of unwritten memory."""

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
"""The largest number of threads of a strong write recorded as last writers: locks and flags have few."""


@dataclass(frozen=True, slots=True, eq=False)
class ForeignReads:
    """Lanes that read registers of inactive lanes in a shuffle.

    Attributes:
        readers: (count,) lanes.
        sources: (count,) the source lane of each.
        masks: (count,) the member mask of each.
        named: (count,) whether the source is in that mask.
        exist: (count,) whether the source lane exists in the block.
    """

    readers: NDArray[np.int32]
    sources: NDArray[np.int32]
    masks: NDArray[np.uint32]
    named: Mask
    exist: Mask

    def words(self, reader: int = -1) -> str:
        """Describe a lane's invalid read, or the first lane's if that lane has none."""
        at = int(np.argmax(self.readers == reader))
        fate = "which has exited" if self.exist[at] else "which the block does not have"
        if not self.named[at]:
            fate = f"which is not in its mask {int(self.masks[at]):#010x}"
        return f"lane {int(self.readers[at])} reads lane {int(self.sources[at])}, {fate}"


_LOOSE_LOCK = "a lock is taken without a fence after it: __threadfence() keeps the guarded accesses after the lock"


class FollowsValues(Protocol):
    """The interface for tracking undefined values: `lab.emulator.undefined.UndefinedValues`."""

    def follows(self, position: int) -> bool:
        """Return whether a load's values are tracked."""

    def load_local(self, position: int, reach: Reach, width: int, vector: int) -> None:
        """Record unwritten local memory read by a load."""

    def load(self, position: int, reach: Reach, fresh: Mask, element: int, width: int, *, first: int = 0) -> None:
        """Record for which threads an element was unwritten."""

    def exchange(self, position: int, threads: Indices, reads: ForeignReads) -> None:
        """Record the threads that read registers of inactive lanes in a shuffle."""

    def fetch(self, position: int, operand: int, rows: Mask, starts: Indices, *, region: Region, offset: int) -> None:
        """Record which rows of a `wgmma` operand contain unwritten data."""

    def store(self, position: int, reach: Reach, values: Sequence[Bits], *, first: int = 0) -> list[Mask | None]:
        """Record a store; return, for each element, which threads store an undefined value."""


class AccessWatch:
    """The shadows of a batch's memories; reports their conflicts as findings.

    Attributes:
        shadow: Races and initialisation of shared memory; None without checks or shared memory.
        clocks: The order of accesses; None without checks.
        undefined: The tracker of undefined values in registers and local memory; None if there can be none.
        lifetimes: Uses of other blocks' shared memory; None without clusters.
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
        """Set up the checks of a batch's memories.

        Args:
            batch: The threads.
            shared: Their shared memory.
            shadow: The shadow of shared memory.
            clocks: The order of accesses.
            findings: The collector of faults.
            notes: Receives notes on noteworthy accesses that are not faults.
            discarded: Races whose reader may discard the value; None to report every race.
            stored_floats: Returns the bit width of the floats a store writes, by position; 0 for other values.
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
        """The state of bulk copies and mbarriers; None without checks."""
        return None if self.shadow is None else self.shadow.bulk

    def _races_in(self, region: Region) -> Races | None:
        """Return the race checks of a buffer; None where it has none."""
        races = self._races.get(region)
        if races is None and region.cells is not None and self.clocks is not None:
            races = self._races[region] = Races(region.cells, self.clocks, "global-race", own=False)
        return races

    # --- accesses ---------------------------------------------------------------------------------------------

    def load(
        self, position: int, reach: Reach, width: int, order: Order = PLAIN, *, element: int = 0, first: int = 0
    ) -> None:
        """Check a load of `width` bytes per thread.

        Args:
            position: Index of the instruction.
            reach: The accessed memory.
            width: Bytes of the access.
            order: Its memory order.
            element: Bytes of an element, for findings; 0 for the whole width.
            first: Index of the first element among all elements the instruction loads.
        """
        region = reach.region
        self._use_peers(position, reach)
        if order.strong:
            self._strong[position] = reach
        if region.space == "local":
            if self.undefined is not None and self.undefined.follows(position):
                element_bytes = element or width
                self.undefined.load_local(position, reach, element_bytes, width // element_bytes)
            return
        if region is self._shared:
            if self.shadow is not None:
                conflicts = self.shadow.read(reach.places, width, reach.lanes.indices(), position, order)
                if conflicts and self.undefined is not None and self.undefined.follows(position):
                    conflicts = self._follow(
                        position, reach, conflicts, width=width, element=element or width, first=first
                    )
                conflicts = self._hold_back(position, reach, conflicts, width=element or width, reads=True)
                self._report(position, region, reach.lanes, reach.offsets, conflicts, width=element or width)
        else:
            if region.shadow is not None:
                conflicts = region.shadow.read(reach.places, width)
                self._report(position, region, reach.lanes, reach.offsets, conflicts, width=element or width)
            races = self._races_in(region)
            if races is not None:
                side = CheckedAccess(races.cells.covered(reach.places, width), reach.lanes.indices(), order, position)
                conflicts = races.read(side) + _before_arrival(side.cells, races.cells, "read of")
                if order.read_only:
                    conflicts += races.read_only(side)
                conflicts = self._hold_back(position, reach, conflicts, width=element or width, reads=True)
                self._report(position, region, reach.lanes, reach.offsets, conflicts, width=element or width)
        if order.strong:
            self.synchronise(position, reach, order, reads=True, wrote=False)

    def _use_peers(self, position: int, reach: Reach) -> None:
        """Check that the peer blocks whose shared memory an access reaches exist."""
        if self.lifetimes is not None and reach.region is self._shared:
            self.lifetimes.use(position, reach.lanes.indices(), reach.places // self._shared.stride)

    def _follow(
        self, position: int, reach: Reach, conflicts: list[Conflict], *, width: int, element: int, first: int
    ) -> list[Conflict]:
        """Pass unwritten shared memory read by a load to value tracking; return the other conflicts."""
        remaining = [conflict for conflict in conflicts if conflict.kind != "uninitialised-read"]
        if self.shadow is None or self.undefined is None or len(remaining) == len(conflicts):
            return remaining
        for i in range(width // element):
            fresh = np.zeros(len(reach.places), np.bool_)
            for conflict in self.shadow.unwritten(reach.places + i * element, element):
                fresh[conflict.which] = True
            self.undefined.load(position, reach, fresh, i, element, first=first)
        return remaining

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
        """Check a store before the bytes change.

        Args:
            position: Index of the instruction.
            reach: The accessed memory.
            values: (count,) bits, one array per element.
            order: Its memory order.
            group: For cp.async, (count,) each thread's current group number.
            first: Index of the first element among all elements the instruction stores.
        """
        width, total_width, region = values[0].itemsize, values[0].itemsize * len(values), reach.region
        mine = region is self._shared
        self._use_peers(position, reach)
        self._note_store(position, region, reach.lanes.indices, reach.offsets, total_width)
        self._use(position, reach)
        undefined = [] if self.undefined is None else self.undefined.store(position, reach, values, first=first)
        if not mine and region.shadow is not None:
            region.shadow.write(reach.places, total_width)
        shadow, races = self.shadow, self._races_in(region)
        if (shadow is None) if mine else (races is None):
            return
        threads = reach.lanes.indices()
        contiguous = [np.ascontiguousarray(value) for value in values]

        def unchanged(at: Indices) -> Mask:
            old_values = region.load(reach.places[at], width, len(contiguous))
            pairs = [(old, new.view(old.dtype)[at]) for old, new in zip(old_values, contiguous, strict=True)]
            equal: Mask = np.logical_and.reduce([old == new for old, new in pairs])
            if not equal.all() and (bits := floats()):
                equal = np.logical_and.reduce([differ_by_rounding(old, new, bits) for old, new in pairs])
            return equal

        def floats() -> int:
            return self._stored_floats(position)

        if mine and shadow is not None:
            conflicts, alike = shadow.write(
                reach.places,
                total_width,
                threads,
                position,
                unchanged,
                order=order,
                group=group,
                values=contiguous,
                floats=floats,
            )
            for i, bad in enumerate(undefined):
                if bad is not None and bad.any():
                    shadow.forget(reach.places[bad] + i * width, width)
        elif races is not None:
            side = CheckedAccess(races.cells.covered(reach.places, total_width), threads, order, position)
            conflicts, alike = races.write(side, unchanged)
            clash, equal = races.collisions(side, reach.places, contiguous, floats)
            conflicts, alike = conflicts + ([clash] if clash is not None else []), alike or equal
            conflicts += self._over_read_only(position, side, races)
            conflicts += _before_arrival(side.cells, races.cells, "write over")
            conflicts += self._over_reads(side, races.cells)
        conflicts = self._hold_back(position, reach, conflicts, width=width, reads=False)
        self._report(position, region, reach.lanes, reach.offsets, conflicts, width=width)
        if alike and not conflicts:
            self.note(position, f"several threads write one value to {region.name}")
        if order.strong:
            self.synchronise(position, reach, order, reads=False, wrote=True)

    def atomic(
        self, position: int, reach: Reach, width: int, order: Order, *, reads: bool, returns: bool = False
    ) -> None:
        """Check an atomic access of `width` bytes per thread, which only races with ordinary accesses.

        Args:
            position: Index of the instruction.
            reach: The accessed memory.
            width: Bytes of the access.
            order: Its memory order.
            reads: The result depends on the old value.
            returns: The thread receives the old value, and so observes it.
        """
        region, threads = reach.region, reach.lanes.indices()
        self._use_peers(position, reach)
        self._note_store(position, region, reach.lanes.indices, reach.offsets, width, update=True)
        self._use(position, reach)
        self._strong[position] = reach
        if region is self._shared:
            if self.shadow is None:
                return
            conflicts = self.shadow.unwritten(reach.places, width) if reads else []
            write_conflicts, _ = self.shadow.write(
                reach.places, width, threads, position, never_same, order=order, update=True
            )
            if returns:
                cells = self.shadow.cells.covered(reach.places, width)
                self.shadow.races.observe(CheckedAccess(cells, threads, order, position))
            self._report(position, region, reach.lanes, reach.offsets, conflicts + write_conflicts, width=width)
            return
        if region.shadow is not None:
            conflicts = region.shadow.read(reach.places, width) if reads else []
            self._report(position, region, reach.lanes, reach.offsets, conflicts)
            region.shadow.write(reach.places, width)
        races = self._races_in(region)
        if races is not None:
            side = CheckedAccess(races.cells.covered(reach.places, width), threads, order, position)
            conflicts, _ = races.write(side, never_same, update=True)
            if returns:
                races.observe(side)
            conflicts += self._over_read_only(position, side, races)
            conflicts += _before_arrival(side.cells, races.cells, "update of")
            conflicts += self._over_reads(side, races.cells)
            self._report(position, region, reach.lanes, reach.offsets, conflicts, width=width)

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
        """Log a store of `width` bytes at (count,) offsets of a buffer; report it if the buffer is read-only."""
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
                remedy="declare it: out or inout for a result, scratch if it is not compared",
            )

    # --- discarded values -------------------------------------------------------------------------------------

    def _hold_back(
        self, position: int, reach: Reach, conflicts: list[Conflict], *, width: int, reads: bool
    ) -> list[Conflict]:
        """Hold back races whose reader has not used the value; return the other conflicts."""
        if self._discarded is None or not conflicts:
            return conflicts
        hold, remaining = self._discarded.by_reader if reads else self._discarded.by_writer, []
        for conflict in conflicts:
            race = None
            if conflict.unordered and (reads or conflict.other_kind == "read"):
                race = HeldRace(
                    position, reach.region, reach.lanes.indices(), reach.offsets, conflict, width, NOBODY, frozenset()
                )
            if race is None or not hold(race):
                remaining.append(conflict)
            elif conflict.others:
                remaining += self._hold_back(position, reach, list(conflict.others), width=width, reads=reads)
        return remaining

    def _use(self, position: int, reach: Reach) -> None:
        """Record that threads store values; races become faults if their readers do so."""
        if self._discarded is None or self.clocks is None:
            return
        for race in self._discarded.execute(position, reach.lanes.indices()):
            self._report(race.position, race.region, race.threads, race.offsets, [race.conflict], width=race.width)

    def settle(self) -> None:
        """Add notes for races whose readers never used the value: all threads have exited."""
        if self._discarded is not None:
            for race in self._discarded.held:
                self.note(race.position, f"{race.conflict.detail}, whose reader discards what it reads")
            self._discarded.held.clear()

    def _over_read_only(self, position: int, side: CheckedAccess, races: Races) -> list[Conflict]:
        """Check a write to memory loads assume to be read-only; a write by its only reader is a note."""
        conflicts, own = races.over_read_only(side)
        if own and not conflicts:
            self.note(position, "the thread has read this memory by ld.global.nc, which assumes it is read-only")
        return conflicts

    def _over_reads(self, side: CheckedAccess, cells: Cells, *, bulk: bool = False) -> list[Conflict]:
        """Check a write to memory that bulk copies read; record whether it is itself a bulk copy's."""
        if cells.bulk is not None or bulk:
            cells.by_bulk()[side.cells] = bulk
        return [] if self.clocks is None else over_reads(side, cells, self.clocks)

    def bulk_store(
        self, position: int, thread: int, region: Region, rows: Addresses, length: int, *, update: bool
    ) -> Callable[[], None] | None:
        """Check a bulk copy's write to a buffer, which is pending until its thread has waited.

        Args:
            position: Index of the instruction.
            thread: The issuing thread.
            region: The buffer.
            rows: (count,) offsets of the rows it writes.
            length: Bytes of a row: a multiple of 16 or, at the edge of a tensor, of the element size.
            update: It is a reduction.

        Returns:
            A function that records the completion; None without checks.
        """
        self._note_store(position, region, lambda: np.full(len(rows), thread), rows, length, update=update)
        if region.shadow is not None:
            region.shadow.write((rows[:, None] + np.arange(length)).reshape(-1), 1)
        races = self._races_in(region)
        if races is None:
            return None
        granule, arriving = races.cells.granule, races.cells.still_arriving()

        def write(change: int) -> None:  # only its rows are kept until completion
            cells = races.cells.under(rows, length)
            side = CheckedAccess(cells[:, None], np.full(len(cells), thread), RELAXED if update else PLAIN, position)
            conflicts, _ = races.write(side, never_same, update=update)
            conflicts += self._over_reads(side, races.cells, bulk=True) + self._over_read_only(position, side, races)
            self.report_global(position, thread, region, cells * granule, conflicts)
            arriving[cells] += change

        write(1)
        return lambda: write(-1)

    def bulk_fetch(
        self, position: int, thread: int, region: Region, rows: Addresses, length: int, *, place: Place, phase: int
    ) -> None:
        """Check a bulk copy's reads of a buffer, which are pending until its mbarrier phase completes.

        Args:
            position: Index of the instruction.
            thread: The issuing thread.
            region: The buffer.
            rows: (count,) offsets of the rows it reads.
            length: Bytes of a row.
            place: The mbarrier.
            phase: The phase.
        """
        races, clocks = self._races_in(region), self.clocks
        if races is None or clocks is None:
            return
        cell_state = races.cells
        cells = cell_state.under(rows, length)
        side = CheckedAccess(cells[:, None], np.full(len(cells), thread), PLAIN, position)
        conflicts = races.read(side, passing=True) + _before_arrival(side.cells, cell_state, "bulk copy of")
        stamps = cell_state.write.stamps[cells]
        late = clocks.unfenced(stamps, thread)
        at = np.flatnonzero(late if cell_state.bulk is None else late & ~cell_state.bulk[cells])
        if len(at):
            detail = "bulk copy of data that threads wrote, without a fence.proxy.async between the two"
            writers = races.threads_of(stamps[at])
            conflicts.append(
                Conflict("missing-proxy-fence", at, writers, cell_state.write.at[cells[at]], "write", detail)
            )
        self.report_global(position, thread, region, cells * cell_state.granule, conflicts)
        key = clocks.announce(place, phase)
        cell_state.note_read(cells, PendingRead(((key, phase),), thread + clocks.base, position))

    def bulk_fetch_again(self, region: Region, place: Place, phase: int) -> None:
        """Record that the latest `bulk_fetch` also goes to another block, tracked by this mbarrier phase."""
        races = self._races_in(region)
        if races is not None and self.clocks is not None:
            races.cells.read_for_another((self.clocks.announce(place, phase), phase))

    def synchronise(self, position: int, reach: Reach, order: Order, *, reads: bool, wrote: Mask | bool) -> None:
        """Process acquires and releases of strong accesses. Arguments as in `BatchClocks.synchronise`."""
        region, clocks = reach.region, self.clocks
        if clocks is None or region.space not in ("shared", "global"):
            return
        if wrote is not False and reach.lanes.count <= _FEW:
            at = np.flatnonzero(np.broadcast_to(wrote, reach.places.shape))
            for place, thread in zip(reach.places[at].tolist(), reach.lanes.indices()[at].tolist(), strict=True):
                clocks.launch.changed[region, place] = (thread + clocks.base, position)
        shared = region is self._shared and not clocks.apart
        threads = reach.lanes.indices()
        clocks.synchronise(
            region, reach.places, threads, order, shared=shared, reads=reads, wrote=wrote, position=position
        )

    def polled(self, position: int, threads: Indices) -> tuple[int, str, int, OtherSide | None] | None:
        """Return the location threads last polled with an instruction, and its last writer.

        Args:
            position: Index of a volatile or atomic read.
            threads: (count,) the threads' indices within the batch.

        Returns:
            One of the threads, the name of the memory, the address, and the other side; None if the threads did not
            poll.
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
        other_side = None
        thread = int(reach.lanes.indices()[at[0]])
        if changed is not None and changed[0] - self._batch.first_thread != thread:
            other_side = OtherSide("write", changed[1], changed[0])
        return thread, f"{region.name}, offset {offset}", base + offset, other_side

    # --- barriers ---------------------------------------------------------------------------------------------

    def order_all(self) -> None:
        """Order memory after a barrier of all threads of all blocks."""
        if self.clocks is not None:
            self.clocks.order_blocks(slice(None), np.arange(self._batch.blocks))
        if self.shadow is not None:
            self.shadow.order_blocks(slice(None), slice(None))

    def order_blocks(self, rows: Indices) -> None:
        """Order memory after a barrier of all threads of some blocks."""
        if self.clocks is None:
            return
        threads = np.isin(self._batch.block_of, rows)
        self.clocks.order_blocks(threads, rows)
        if self.shadow is not None:
            self.shadow.order_blocks(rows, threads)

    def order_clusters(self, rows: Indices) -> None:
        """Order memory after a barrier of all threads of whole clusters."""
        if self.clocks is None:
            return
        self.clocks.order_clusters(rows)
        if self.shadow is not None:
            self.shadow.order_blocks(rows, np.isin(self._batch.block_of, rows))

    def arrivals(self, rows: Indices, threads: Indices, times: Indices, relaxed: Mask) -> ClusterPhase | None:
        """Record the arrival of all threads of a cluster at its barrier; return the knowledge for its waiters.

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
        """Order memory for (count,) threads of a cluster after a wait for its barrier."""
        if self.lifetimes is not None:
            self.lifetimes.wait(threads)
        if self.clocks is not None:
            self.clocks.see_arrivals(threads, phase)

    def arrival(self) -> int:
        """Return the time of an arrival at a barrier of some threads."""
        return 0 if self.clocks is None else int(self.clocks.arrival())

    def knows_arrivals(self, members: Indices, warps: Indices, times: Indices) -> bool:
        """Return whether a warp knows (count,) other warps' arrivals at a barrier. Arguments as in `BatchClocks`."""
        return self.clocks is None or self.clocks.knows_arrivals(members, warps, times)

    def order_threads(self, waiters: Indices, arrived: Indices, times: Indices) -> None:
        """Order memory after a barrier of some threads of a block. Arguments as in `BatchClocks.order_some`."""
        if self.clocks is not None and len(waiters):
            self.clocks.order_some(waiters, arrived, times)
        if self.shadow is not None:
            self.shadow.order_threads(arrived)

    def order_warps(self, threads: Indices, masks: NDArray[np.uint32]) -> None:
        """Order memory after a warp sync of (count,) threads with (count,) member masks."""
        if self.bulk is not None:
            self.bulk.order_warps(threads, masks)
        if self.clocks is not None:
            self.clocks.order_warps(threads, masks)

    def fence(self, threads: Indices, *, wide: bool) -> None:
        """Record a fence of (count,) threads; `wide` if its scope exceeds the block."""
        if self.clocks is not None:
            self.clocks.fence(threads, wide=wide)

    def acquire_maps(self, addresses: Addresses, threads: Indices) -> None:
        """Record that (count,) threads acquired tensor maps at (count,) generic addresses."""
        if self.clocks is None:
            return
        launch, now = self.clocks.launch, int(self.clocks.launch.tick())
        blocks = (threads + self.clocks.base) // launch.padded
        for address, block in {*zip(addresses.tolist(), blocks.tolist(), strict=True)}:
            launch.map_fences.acquire(address, block, now)

    def use_map(self, position: int, thread: int, region: Region, offset: int) -> None:
        """Check that a thread's block acquired a tensor map in a buffer since threads changed it.

        Without an acquire of a map that only the host wrote, the block may see data from before the host's copy. This
        only fails if the address is reused, so it is a note.
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
            writers, instructions = races.threads_of(stamps[at]), races.cells.write.at[cells[at]]
            conflict = Conflict("missing-proxy-fence", at, writers, instructions, "write", detail, remedy)
            self.report_global(position, thread, region, cells * races.cells.granule, [conflict])

    def note(self, position: int, text: str) -> None:
        """Add a note on an instruction that is noteworthy but not faulty."""
        self._notes[f"{self._findings.line(position)}: {text}"] = None

    # --- conflicts --------------------------------------------------------------------------------------------

    def report_shared(self, position: int, threads: Indices, offsets: Addresses, conflicts: Iterable[Conflict]) -> None:
        """Report conflicts of (count,) threads at offsets in their block's shared memory."""
        self._report(position, self._shared, threads, offsets, conflicts)

    def report_global(
        self, position: int, thread: int, region: Region, offsets: Addresses, conflicts: Iterable[Conflict]
    ) -> None:
        """Report conflicts of one thread at (count,) offsets in a buffer."""
        self._report(position, region, np.full(len(offsets), thread), offsets, conflicts)

    def _report(
        self,
        position: int,
        region: Region,
        accessors: Lanes | Indices,
        offsets: Addresses,
        conflicts: Iterable[Conflict],
        *,
        width: int = 4,
    ) -> None:
        """Report conflicts; `width` is an element's."""
        if self.clocks is not None and self.clocks.launch.loose.used:
            for lock in self.clocks.launch.loose.used:
                self.note(lock, _LOOSE_LOCK)
            self.clocks.launch.loose.used.clear()
        for conflict in conflicts:
            threads = accessors.indices() if isinstance(accessors, Lanes) else accessors
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
                other_side=_other_side(conflict),
                variable=self._findings.element(region.space, region.name, int(offsets[first]), width),
                remedy=conflict.remedy,
            )


def _before_arrival(cells: Indices, cell_state: Cells, verb: str) -> list[Conflict]:
    """Check an access to (count, pieces) cells that a bulk copy may still write."""
    if cell_state.arriving is None:
        return []
    at = np.flatnonzero(cell_state.arriving[cells].any(axis=1))
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
    """Return False for every position: memory does not hold the written values yet."""
    return np.zeros(len(at), np.bool_)
