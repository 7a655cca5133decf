"""Loads and stores with bounds, alignment, races and traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator import operands
from lab.emulator.memory.memory import (
    LOCAL_SEGMENT,
    LOCAL_WINDOW,
    PARAM_SEGMENT,
    SEGMENT_SHIFT,
    SHARED_SEGMENT,
    SHARED_WINDOW,
    Region,
)
from lab.emulator.memory.shadow import Conflict, Shadow, SharedShadow
from lab.emulator.results import FindingKind
from lab.emulator.waiting.clusters import NOTE, peer_places
from lab.hardware.memory import Copy, spread

if TYPE_CHECKING:
    from lab.emulator.machine import Machine

Array = NDArray[Any]
_WITHIN = np.int64((1 << SEGMENT_SHIFT) - 1)


@dataclass(frozen=True, slots=True)
class Reach:
    """The part of an access that falls into one region.

    Attributes:
        region: Where.
        select: Positions within the access, or None for all of it.
        chosen: Threads, or None for all of the batch.
        offsets: Byte offsets that each thread sees.
        places: Byte offsets into the region's data.
    """

    region: Region
    select: Array | None
    chosen: Array | None
    offsets: Array
    places: Array


class MemoryUnit:
    """The memories of one batch.

    Attributes:
        shared: Shared memory, a row a block.
        local: Local memory, a row a thread.
        frame: Parameters of device functions, a row a thread.
        shared_shadow: Races and initialisation of shared memory, or None.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        launch, program = machine.launch, machine.program
        self.shared = Region("shared memory", "shared", SHARED_WINDOW, launch.shared_bytes, row_count=machine.blocks)
        self.shared.rows = machine.block_of.astype(np.int64) * self.shared.stride
        threads = np.arange(machine.threads, dtype=np.int64)
        self.local = Region("local memory", "local", LOCAL_WINDOW, program.local_bytes, row_count=machine.threads)
        self.local.rows = threads * self.local.stride
        self.frame = Region("call parameters", "param", 0, program.frame_bytes, row_count=machine.threads)
        self.frame.rows = threads * self.frame.stride
        launch.space.place(SHARED_SEGMENT, self.shared)
        launch.space.place(LOCAL_SEGMENT, self.local)
        self.shared_shadow: SharedShadow | None = None
        if launch.check and launch.shared_bytes:
            self.shared_shadow = SharedShadow(
                self.shared.stride, machine.blocks, program.shared_granule, machine.threads, bulk=program.has_mbarriers
            )
        self.groups = np.zeros(machine.threads, np.int32)  # cp.async groups that each thread has committed

    def barrier(self, rows: Array | None, threads: Array | None) -> None:
        """Order shared memory: all blocks (both None), whole blocks, or some threads of a block."""
        shadow = self.shared_shadow
        if shadow is None:
            return
        shadow.barrier(rows, threads)
        if threads is not None:
            shadow.visible[threads] = shadow.completed[threads]
        elif rows is None:
            shadow.visible[:] = shadow.completed
        else:
            done = np.isin(self._machine.block_of, rows)
            shadow.visible[done] = shadow.completed[done]

    # --- addresses --------------------------------------------------------------------------------------------

    def address(self, position: int, text: str, space: str) -> Callable[[Array | None], Array]:
        """Return a function that computes an address operand for the chosen threads, as int64."""
        machine = self._machine
        binder = machine.binder
        found = operands.address(text)
        if found is None:
            binder.refuse(position, f"address {text}")
        base, offset = found.base, found.offset
        storage = None if base is None else binder.storage(position, base)
        if storage is None:
            start = 0 if base is None else binder.symbol(machine.program.code[position][0], base)
            if start is None:
                binder.refuse(position, f"address {text}")
            if space == "generic" and base is not None:
                start = self._generic(position, base, start)
            fixed = np.array([start + offset], np.int64)
            return lambda chosen: np.broadcast_to(fixed, (machine.threads if chosen is None else len(chosen),))
        if storage.dtype.itemsize == 4:  # noqa: PLR2004  a 32-bit address wraps at 32 bits
            narrow = np.uint32(offset & 0xFFFFFFFF)
            return lambda chosen: np.add(storage if chosen is None else storage[chosen], narrow).astype(np.int64)
        wide, step = storage.view(np.int64), np.int64(offset)
        return lambda chosen: np.add(wide if chosen is None else wide[chosen], step)

    def _generic(self, position: int, name: str, start: int) -> int:
        program = self._machine.program
        place = program.places.get((program.code[position][0], name)) or program.places.get((-1, name))
        windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
        return start + windows.get(place.space, 0) if place else start

    def regions(self, space: str, addresses: Array) -> Iterator[tuple[Region | None, Array | None, Array]]:
        """Split addresses by region: the region or None, which positions (None for all), and offsets."""
        fixed = {"shared": self.shared, "local": self.local, "frame": self.frame}.get(space)
        if fixed is not None:
            yield fixed, None, addresses
            return
        table = self._machine.launch.space.regions
        if space == "kernel-param":
            yield table[PARAM_SEGMENT], None, addresses
            return
        segments = addresses >> SEGMENT_SHIFT
        first = int(segments[0])
        if (segments == first).all():
            yield self._allowed(space, table.get(first)), None, addresses & _WITHIN
            return
        for segment in np.unique(segments):
            select = np.flatnonzero(segments == segment)
            yield self._allowed(space, table.get(int(segment))), select, addresses[select] & _WITHIN

    @staticmethod
    def _allowed(space: str, region: Region | None) -> Region | None:
        if region is None or space == "generic":
            return region
        return region if region.space in (space, "global") or (space == "global" and region.space == "const") else None

    def reach(
        self, position: int, space: str, addresses: Array, width: int, chosen: Array | None, *, verb: str
    ) -> Iterator[Reach]:
        """Yield the good parts of an access; the bad ones become findings and are left out."""
        if not len(addresses):
            return
        for region, among, all_offsets in self.regions(space, addresses):
            select, offsets = among, all_offsets
            if region is None:
                self._out_of_bounds(
                    position, select, chosen, addresses, f"{verb} of {width} bytes where nothing is allocated"
                )
                continue
            limit = region.size - width
            bad = None
            if limit < 0 or int(offsets.view(np.uint64).max()) > limit:
                bad = (offsets < 0) | (offsets > limit)
                at = np.flatnonzero(bad)
                self._out_of_bounds(
                    position,
                    at if select is None else select[at],
                    chosen,
                    addresses,
                    f"{verb} of {width} bytes at offset {int(offsets[at[0]])} of {region.name} ({region.size} bytes)",
                )
            if width > 1 and int(np.bitwise_or.reduce(offsets)) & (width - 1):
                crooked = (offsets & (width - 1)) != 0
                bad = crooked if bad is None else bad | crooked
                at = np.flatnonzero(crooked)
                self._find(
                    "misaligned",
                    position,
                    at if select is None else select[at],
                    chosen,
                    addresses,
                    detail=f"{verb} of {width} bytes at offset {int(offsets[at[0]])} of {region.name}",
                )
            if bad is not None:
                good = np.flatnonzero(~bad)
                if not len(good):
                    continue
                offsets = offsets[good]
                select = good if select is None else select[good]
            threads = chosen if select is None else (select if chosen is None else chosen[select])
            places = offsets
            if region.rows is not None:
                places = offsets + (region.rows if threads is None else region.rows[threads])
            yield Reach(region, select, threads, offsets, places)

    def _out_of_bounds(
        self, position: int, at: Array | None, chosen: Array | None, addresses: Array, detail: str
    ) -> None:
        self._find(
            "out-of-bounds",
            position,
            np.arange(len(addresses)) if at is None else at,
            chosen,
            addresses,
            detail=detail,
        )

    def _find(
        self, kind: FindingKind, position: int, at: Array, chosen: Array | None, addresses: Array, *, detail: str
    ) -> None:
        threads = at if chosen is None else chosen[at]
        self._machine.launch.findings.add(
            kind, position, detail, where=self._machine.where, threads=threads, address=int(addresses[at[0]])
        )

    # --- loads and stores ---------------------------------------------------------------------------------------

    def load(
        self,
        position: int,
        space: str,
        addresses: Array,
        chosen: Array | None,
        *,
        width: int,
        vector: int = 1,
        strong: bool = False,
        counted: bool = True,
    ) -> list[Array]:
        """Load for the chosen threads.

        Args:
            position: Index of the instruction.
            space: `global`, `shared`, `local`, `const`, `generic`, `frame` or `kernel-param`.
            addresses: In that space, int64.
            chosen: Threads, or None for all.
            width: Bytes of an element.
            vector: Elements.
            strong: Volatile or atomic.
            counted: Tally the traffic as a load's.

        Returns:
            One unsigned array an element; zero where an access was refused.
        """
        results: list[Array] | None = None
        for part in self.reach(position, space, addresses, width * vector, chosen, verb="load"):
            self._watch_load(position, part, width * vector, strong=strong, counted=counted)
            values = part.region.load(part.places, width, vector)
            if part.select is None:
                results = values
                break
            if results is None:
                results = [np.zeros(len(addresses), f"u{width}") for _ in range(vector)]
            for whole, value in zip(results, values, strict=True):
                whole[part.select] = value
        if results is None:
            results = [np.zeros(len(addresses), f"u{width}") for _ in range(vector)]
        return results

    def load_peer(
        self, position: int, addresses: Array, chosen: Array | None, *, width: int, vector: int = 1
    ) -> list[Array]:
        """Load from the shared memory of a block of the cluster; what two blocks do to it is not watched."""
        machine, region = self._machine, self.shared
        machine.launch.notes[NOTE] = None
        offsets, places = peer_places(machine, addresses, chosen)
        bad = np.flatnonzero((offsets > region.size - width * vector) | (offsets & (width * vector - 1) != 0))
        if len(bad):
            detail = f"load of {width * vector} bytes at offset {int(offsets[bad[0]])} of a peer's shared memory"
            self._find("out-of-bounds", position, bad, chosen, addresses, detail=detail)
            return [np.zeros(len(addresses), f"u{width}") for _ in range(vector)]
        self.count(position, Reach(region, None, chosen, offsets, places), width * vector, "load")
        return region.load(places, width, vector)

    def store(
        self,
        position: int,
        space: str,
        addresses: Array,
        values: list[Array],
        chosen: Array | None,
        *,
        strong: bool = False,
        group: Array | None = None,
    ) -> None:
        """Store for the chosen threads.

        Args:
            position: Index of the instruction.
            space: As in `load`.
            addresses: In that space, int64.
            values: One unsigned array an element; its type's width is the element's.
            chosen: Threads, or None for all.
            strong: Volatile or atomic.
            group: For cp.async, each thread's running number of the group.
        """
        width = values[0].itemsize
        for part in self.reach(position, space, addresses, width * len(values), chosen, verb="store"):
            mine = [np.broadcast_to(value, addresses.shape) for value in values]
            if part.select is not None:
                mine = [value[part.select] for value in mine]
                groups = None if group is None else group[part.select]
            else:
                groups = group
            self._watch_store(position, part, width, mine, strong=strong, group=groups)
            part.region.store(part.places, width, mine)

    def count(self, position: int, part: Reach, width: int, verb: str) -> None:
        """Tally the traffic of an access."""
        counters = self._machine.launch.counters
        if counters is not None and part.region.space in ("shared", "global", "const"):
            space = "shared" if part.region.space == "shared" else "global"
            if part.region.space != "const":
                counters.memory(
                    position, f"{space}.{verb}", part.offsets, width, part.chosen, threads=self._machine.threads
                )

    def count_copy(self, position: int, copy: Copy, chosen: Array | None) -> None:
        """Tally a cp.async; its arrays have an entry for each of the chosen threads."""
        counters, threads = self._machine.launch.counters, self._machine.threads
        if counters is None or not len(copy.targets):
            return
        targets, sources = (spread(values, chosen, threads) for values in (copy.targets, copy.sources & _WITHIN))
        active, fetched = (spread(values, chosen, threads) for values in (copy.active, copy.fetched))
        counters.copy(position, Copy(targets, sources, copy.width, active, fetched), chosen)

    def _watch_load(self, position: int, part: Reach, width: int, *, strong: bool, counted: bool) -> None:
        if counted:
            self.count(position, part, width, "load")
        if part.region is self.shared:
            if self.shared_shadow is not None:
                threads = self._machine.members(part.chosen)
                self._report(
                    position, part, self.shared_shadow.read(part.places, width, threads, position, strong=strong)
                )
        elif isinstance(part.region.shadow, Shadow):
            self._report(position, part, part.region.shadow.read(part.places, width))

    def _watch_store(
        self, position: int, part: Reach, width: int, values: list[Array], *, strong: bool, group: Array | None
    ) -> None:
        whole = width * len(values)
        if group is None:  # copies are counted as such
            self.count(position, part, whole, "store")
        if part.region is not self.shared:
            if isinstance(part.region.shadow, Shadow):
                part.region.shadow.write(part.places, whole)
            return
        shadow = self.shared_shadow
        if shadow is None:
            return
        threads = self._machine.members(part.chosen)

        def same(at: Array) -> Array:
            held = part.region.load(part.places[at], width, len(values))
            result: Array = np.logical_and.reduce([h == v.view(h.dtype)[at] for h, v in zip(held, values, strict=True)])
            return result

        contiguous = [np.ascontiguousarray(value) for value in values]
        values = contiguous
        if not strong:
            clash = shadow.collisions(part.places, threads, contiguous)
            if clash is not None:
                self._report(position, part, [clash])
        found = shadow.write(part.places, whole, threads, position, same, strong=strong, group=group)
        self._report(position, part, found)

    def watch_atomic(self, position: int, part: Reach, width: int, *, reads: bool) -> None:
        """Check an atomic access: it races with ordinary ones only."""
        if part.region is not self.shared:
            shadow = part.region.shadow
            if isinstance(shadow, Shadow):
                if reads:
                    self._report(position, part, shadow.read(part.places, width))
                shadow.write(part.places, width)
            return
        if self.shared_shadow is None:
            return
        threads = self._machine.members(part.chosen)
        if reads:
            self._report(position, part, self.shared_shadow.read(part.places, width, threads, position, strong=True))
        found = self.shared_shadow.write(
            part.places, width, threads, position, lambda at: np.zeros(len(at), bool), strong=True
        )
        self._report(position, part, found)

    def report_shared(self, position: int, threads: Array, offsets: Array, conflicts: list[Conflict]) -> None:
        """Make findings of conflicts in shared memory, of threads at offsets in their block's."""
        self._report(position, Reach(self.shared, None, threads, offsets, offsets), conflicts)

    def report_global(
        self, position: int, thread: int, region: Region, offsets: Array, conflicts: list[Conflict]
    ) -> None:
        """Make findings of conflicts of one thread at offsets in a buffer."""
        self._report(position, Reach(region, None, np.full(len(offsets), thread), offsets, offsets), conflicts)

    def _report(self, position: int, part: Reach, conflicts: list[Conflict]) -> None:
        for conflict in conflicts:
            which = np.unique(conflict.which)
            first = int(conflict.which[0])
            other = None
            if conflict.other_thread is not None:
                at = int(conflict.other_instruction[0]) if conflict.other_instruction is not None else -1
                other = (conflict.other_kind, at, int(conflict.other_thread[0]))
            threads = self._machine.members(part.chosen)
            order = np.concatenate([[first], which[which != first]])
            region = part.region
            placed = region.base if region.space in ("global", "const") else 0
            self._machine.launch.findings.add(
                conflict.kind,
                position,
                f"{conflict.detail} ({region.name}, offset {int(part.offsets[first])})",
                where=self._machine.where,
                threads=threads[order],
                address=placed + int(part.offsets[first]),
                other=other,
            )
