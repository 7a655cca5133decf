"""Bulk copies from global to shared memory (TMA), and the mbarriers that they complete on.

The bytes are copied, and counted off their mbarrier, at once; the shadow remembers that they may not be read before a
wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.base.warp import LINE_BYTES, SECTOR_BYTES
from lab.emulator import operands
from lab.emulator.memory import tensormaps
from lab.emulator.memory.memory import SEGMENT_SHIFT, Region
from lab.emulator.memory.shadow import Shadow
from lab.emulator.operations.base import Array, Opcode, UnknownForm, system
from lab.emulator.results import FindingKind, MemoryCount
from lab.emulator.waiting.clusters import RANK_SHIFT
from lab.emulator.waiting.mbarriers import take_space

if TYPE_CHECKING:
    from lab.emulator.machine import Machine

Run = Callable[[Array | None], None]
_TENSOR = re.compile(r"\[\s*([^,\]]+?)\s*,\s*\{([^}]*)\}\s*\]\Z")
_GRAIN = 16  # bytes that sizes and addresses of bulk copies are multiples of
_TENSOR_GRAIN = 128  # of a tensor copy's address in shared memory
_WITHIN = (1 << SEGMENT_SHIFT) - 1


# --- mbarriers ------------------------------------------------------------------------------------------------


@system("mbarrier")
def mbarrier(machine: Machine, position: int, op: Opcode) -> Run:
    """Build what threads do to mbarriers; waits end a block and are not built here."""
    kind = op.one_of(("init", "inval", "arrive", "expect_tx"))
    announces = kind == "expect_tx" or op.flag("expect_tx")
    for word in ("release", "relaxed", "cta", "cluster"):
        op.flag(word)
    take_space(op)
    op.one_of(("b64",))
    op.finish()
    texts = list(machine.program.code[position][1].operands)
    state = machine.binder.target(position, texts.pop(0), "b64") if kind == "arrive" else None
    address = machine.memory.address(position, texts[0], "shared")
    number = machine.binder.source(position, texts[1], "u32") if len(texts) > 1 else None
    if kind == "inval":
        return lambda chosen: machine.mbarriers.inval(position, address(chosen), chosen)
    if kind == "init":
        if number is None:
            raise UnknownForm("no number of arrivals")
        return lambda chosen: machine.mbarriers.init(position, address(chosen), number(chosen), chosen)

    def run(chosen: Array | None) -> None:
        addresses = address(chosen)
        named = machine.mbarriers.name(position, addresses, chosen)
        given = np.ones(1, np.int64) if number is None else number(chosen).astype(np.int64)
        amount = np.broadcast_to(given, addresses.shape)[named.kept]
        if state is not None:  # the phase that the arrival is part of
            state(named.threads, machine.mbarriers.phases(named).astype(np.uint64))
        once = np.full(len(amount), kind == "arrive", np.int64)
        if announces:
            machine.mbarriers.arrive(position, named, once, amount)
        else:
            machine.mbarriers.arrive(position, named, amount, np.zeros(len(amount), np.int64))

    return run


# --- fences -----------------------------------------------------------------------------------------------------


@system("fence")
def fence(machine: Machine, _position: int, op: Opcode) -> Run:
    """Build fences: those of the async proxy order what threads wrote before bulk copies, others change nothing."""
    mbarriers = op.flag("mbarrier_init")
    if not mbarriers and not (op.flag("proxy") and (op.flag("async") or op.flag("async::generic"))):
        return lambda _chosen: None
    if op.flag("global") and not mbarriers:
        return lambda _chosen: None

    def run(chosen: Array | None) -> None:
        shadow = machine.memory.shared_shadow
        if shadow is not None and shadow.bulk is not None:
            threads = machine.members(chosen)
            shadow.bulk.fence(threads, np.unique(machine.block_of[threads]), mbarriers=mbarriers)

    return run


# --- copies -----------------------------------------------------------------------------------------------------


def bulk_copy(machine: Machine, position: int, op: Opcode) -> Run:
    """Build cp.async.bulk from global to shared memory, in one or two dimensions."""
    tensor = op.flag("tensor")
    if tensor:
        op.one_of(("2d",))
        op.flag("tile")
    if not (op.flag("shared::cluster") or op.flag("shared::cta")):
        raise UnknownForm("a bulk copy that does not go to .shared")
    op.one_of(("global",))
    op.one_of(("mbarrier::complete_tx::bytes",))
    op.finish()
    texts = machine.program.code[position][1].operands
    return _tensor_copy(machine, position, texts) if tensor else _linear_copy(machine, position, texts)


def _linear_copy(machine: Machine, position: int, texts: tuple[str, ...]) -> Run:
    if len(texts) != 4:  # noqa: PLR2004  destination, source, size, mbarrier
        raise UnknownForm("operands")
    to, of = machine.memory.address(position, texts[0], "shared"), machine.memory.address(position, texts[1], "global")
    size, at = machine.binder.source(position, texts[2], "u32"), machine.memory.address(position, texts[3], "shared")

    def run(chosen: Array | None) -> None:
        targets, sources = _own(machine, position, to(chosen)), of(chosen)
        named = machine.mbarriers.name(position, _own(machine, position, at(chosen)), chosen, bulk_copy=True)
        sizes = np.broadcast_to(size(chosen), targets.shape)
        for i in range(len(named.kept)):
            kept = int(named.kept[i])
            site = _Site(machine, position, int(named.threads[i]), int(named.blocks[i]), int(named.numbers[i]))
            copy = _Copy(site, int(targets[kept]), int(sizes[kept]))
            if copy.fits(_GRAIN) and copy.aligned(int(sources[kept]), _GRAIN, "from an address"):
                copy.rows(int(sources[kept]), np.zeros(1, np.int64), int(sizes[kept]), np.zeros(1, np.int64))

    return run


def _tensor_copy(machine: Machine, position: int, texts: tuple[str, ...]) -> Run:
    found = _TENSOR.match(texts[1]) if len(texts) == 3 else None  # noqa: PLR2004  destination, map with coordinates, mbarrier
    if found is None:
        raise UnknownForm("operands")
    to, at = (machine.memory.address(position, texts[i], "shared") for i in (0, 2))
    of = machine.memory.address(position, f"[{found[1]}]", "generic")
    names = operands.elements("{" + found[2] + "}")
    if len(names) != 2:  # noqa: PLR2004  dimensions
        raise UnknownForm(f"{len(names)} coordinates")
    coordinates = [machine.binder.source(position, name, "s32") for name in names]

    def run(chosen: Array | None) -> None:
        targets, maps = _own(machine, position, to(chosen)), of(chosen)
        named = machine.mbarriers.name(position, _own(machine, position, at(chosen)), chosen, bulk_copy=True)
        starts = [np.broadcast_to(read(chosen), targets.shape) for read in coordinates]
        for i in range(len(named.kept)):
            kept = int(named.kept[i])
            site = _Site(machine, position, int(named.threads[i]), int(named.blocks[i]), int(named.numbers[i]))
            described = _described(site, int(maps[kept]))
            if described is not None:
                copy = _Copy(site, int(targets[kept]), described.box_bytes)
                if copy.fits(_TENSOR_GRAIN):
                    copy.box(described, int(starts[0][kept]), int(starts[1][kept]))

    return run


def _own(machine: Machine, position: int, addresses: Array) -> Array:
    """Offsets in the block's own shared memory.

    Raises:
        UnknownForm: an address of another block of the cluster.
    """
    if len(addresses) and int(addresses.max()) >> RANK_SHIFT:
        machine.binder.refuse(position, "an address in another block of the cluster")
    return addresses


@dataclass(frozen=True, slots=True)
class _Site:
    """Who copies, and the mbarrier that counts it."""

    machine: Machine
    position: int
    thread: int
    block: int
    mbarrier: int

    def find(self, kind: FindingKind, detail: str, address: int) -> None:
        machine, threads = self.machine, np.array([self.thread])
        machine.launch.findings.add(kind, self.position, detail, where=machine.where, threads=threads, address=address)


def _described(site: _Site, address: int) -> tensormaps.Descriptor | None:
    """The tensor map at a generic address; None, and a finding, where there is none."""
    region = site.machine.launch.space.regions.get(address >> SEGMENT_SHIFT)
    offset, found = address & _WITHIN, None
    if region is not None and region.space in ("param", "global", "const") and offset + tensormaps.BYTES <= region.size:
        if offset % tensormaps.ALIGNMENT:
            site.find("misaligned", f"a tensor map lies at a multiple of {tensormaps.ALIGNMENT} bytes", address)
            return None
        found = tensormaps.decode(region.data[offset : offset + tensormaps.BYTES].tobytes())
    if found is None:
        site.find("out-of-bounds", "there is no tensor map at this address", address)
    return found


class _Copy:
    """One thread's copy of some bytes to one place in shared memory."""

    def __init__(self, site: _Site, target: int, size: int) -> None:
        self._site, self._machine, self._target, self._size = site, site.machine, target, size

    def aligned(self, address: int, grain: int, what: str) -> bool:
        if address % grain == 0:
            return True
        detail = f"bulk copy {what} that is no multiple of {grain} bytes"
        self._site.find("misaligned", detail, address)
        return False

    def fits(self, grain: int) -> bool:
        """Whether size and target are what a copy may have."""
        shared = self._machine.memory.shared
        if not self.aligned(self._size, _GRAIN, f"of {self._size} bytes, a size") or not self.aligned(
            self._target, grain, "to an offset"
        ):
            return False
        if not 0 <= self._target <= shared.size - self._size:
            detail = f"bulk copy of {self._size} bytes to offset {self._target} of {shared.name} ({shared.size} bytes)"
            self._site.find("out-of-bounds", detail, self._target)
            return False
        return True

    def box(self, described: tensormaps.Descriptor, x: int, y: int) -> None:
        """Fetch a box; what lies outside of the matrix is zero."""
        width, height = described.box
        first_x, last_x = max(x, 0), min(x + width, described.extents[0])
        rows = np.arange(max(y, 0), min(y + height, described.extents[1]), dtype=np.int64)
        size = described.element_bytes
        if last_x <= first_x:
            rows = rows[:0]
        places = (rows - y) * (width * size) + (first_x - x) * size
        self.rows(described.base, rows * described.stride + first_x * size, max(0, last_x - first_x) * size, places)

    def rows(self, base: int, offsets: Array, length: int, places: Array) -> None:
        """Copy rows of `length` bytes at some offsets behind a global address to places behind the target."""
        machine = self._machine
        values = np.zeros(self._size, np.uint8)
        region = machine.launch.space.regions.get(base >> SEGMENT_SHIFT)
        start = offsets + (base & _WITHIN)
        if len(start) and (region is None or region.space != "global" or not self._inside(region, start, length)):
            detail = "bulk copy from where nothing is allocated"
            if region is not None and region.space == "global":
                detail = (
                    f"bulk copy of {length} bytes at offset {int(start.max())} of {region.name} ({region.size} bytes)"
                )
            self._site.find("out-of-bounds", detail, base + int(offsets.max()))
        elif len(start) and region is not None:
            index = (start[:, None] + np.arange(length)).reshape(-1)
            if isinstance(region.shadow, Shadow):
                read = region.shadow.read(index, 1)
                machine.memory.report_global(self._site.position, self._site.thread, region, index, read)
            values[(places[:, None] + np.arange(length)).reshape(-1)] = region.data[index]
        self._arrive(values, start, length)

    @staticmethod
    def _inside(region: Region, start: Array, length: int) -> bool:
        return int(start.min()) >= 0 and int(start.max()) + length <= region.size

    def _arrive(self, values: Array, start: Array, length: int) -> None:
        """The bytes are there: note, store and count them."""
        machine, memory, site = self._machine, self._machine.memory, self._site
        place = self._target + int(memory.shared.rows[site.thread])  # type: ignore[index]
        phase = machine.mbarriers.owe_less(site.position, site.thread, site.mbarrier, site.block, self._size)
        shadow = memory.shared_shadow
        if shadow is not None and shadow.bulk is not None:
            found = shadow.copy_bulk(
                shadow.bulk, place, self._size, site.thread, site.position, mbarrier=site.mbarrier, phase=phase
            )
            memory.report_shared(site.position, np.array([site.thread]), np.array([self._target]), found)
        memory.shared.data[place : place + self._size] = values
        if machine.launch.counters is not None:
            waves = -(-self._size // LINE_BYTES)
            sectors = int(((start + length - 1) // SECTOR_BYTES - start // SECTOR_BYTES + 1).sum()) if length else 0
            machine.launch.counters.bulk_copy(
                site.position,
                MemoryCount(1, waves, 0, self._size, waves),
                MemoryCount(1, 0, sectors, length * len(start), 0),
            )
