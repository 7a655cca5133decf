"""Bulk copies from global to shared memory (TMA), which complete on mbarriers.

The bytes are copied, and counted off their mbarrier, at once. The shadow remembers that they may not be read before a
wait.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from lab.base.warp import LINE_BYTES, SECTOR_BYTES
from lab.emulator import operands
from lab.emulator.arrays import Addresses, Bytes
from lab.emulator.lanes import Lanes
from lab.emulator.memory import tensormaps
from lab.emulator.memory.memory import WITHIN_SEGMENT, Region
from lab.emulator.memory.peers import names_peer
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.system import Run, Site
from lab.emulator.results import FindingKind, MemoryCount
from lab.hardware.tensormaps import ALIGNMENT, BYTES

_TENSOR = re.compile(r"\[\s*([^,\]]+?)\s*,\s*\{([^}]*)\}\s*\]\Z")
_GRAIN = 16  # bytes; sizes and addresses of bulk copies are multiples of it
_TENSOR_GRAIN = 128  # bytes; the same for the addresses of tensor copies in shared memory


def bulk_copy(site: Site, op: Opcode) -> Run:
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
    return _tensor_copy(site) if tensor else _linear_copy(site)


def _linear_copy(site: Site) -> Run:
    if len(site.texts) != 4:  # noqa: PLR2004  destination, source, size, mbarrier
        raise UnknownForm("operands")
    to, of = site.operands.address(site.texts[0], "shared"), site.operands.address(site.texts[1], "global")
    size, at = site.operands.source(site.texts[2], "u32"), site.operands.address(site.texts[3], "shared")

    def run(lanes: Lanes) -> None:
        targets, sources, sizes = _own(site, to(lanes)), of(lanes), lanes.fill(size(lanes))
        for kept, asker in _askers(site, at(lanes), lanes):
            source, length = int(sources[kept]), int(sizes[kept])
            copy = _BulkCopy(asker, int(targets[kept]), length)
            if copy.fits(_GRAIN) and copy.aligned(source, _GRAIN, "from an address"):
                copy.rows(source, np.zeros(1, np.int64), length, np.zeros(1, np.int64))

    return run


def _tensor_copy(site: Site) -> Run:
    texts = site.texts
    found = _TENSOR.match(texts[1]) if len(texts) == 3 else None  # noqa: PLR2004  destination, map with coordinates, mbarrier
    if found is None:
        raise UnknownForm("operands")
    to, at = (site.operands.address(texts[i], "shared") for i in (0, 2))
    of = site.operands.address(f"[{found[1]}]", "generic")
    names = operands.elements("{" + found[2] + "}")
    if len(names) != 2:  # noqa: PLR2004  dimensions
        raise UnknownForm(f"{len(names)} coordinates")
    coordinates = [site.operands.source(name, "s32") for name in names]

    def run(lanes: Lanes) -> None:
        targets, maps = _own(site, to(lanes)), of(lanes)
        x, y = (lanes.fill(read(lanes)) for read in coordinates)
        for kept, asker in _askers(site, at(lanes), lanes):
            described = asker.tensor_map(int(maps[kept]))
            if described is not None:
                copy = _BulkCopy(asker, int(targets[kept]), described.box_bytes)
                if copy.fits(_TENSOR_GRAIN):
                    copy.box(described, int(x[kept]), int(y[kept]))

    return run


def _own(site: Site, addresses: Addresses) -> Addresses:
    """Return offsets in the block's own shared memory.

    Raises:
        UnsupportedInstruction: an address of another block of the cluster.
    """
    if names_peer(addresses):
        site.operands.refuse("an address in another block of the cluster")
    return addresses


def _askers(site: Site, addresses: Addresses, lanes: Lanes) -> list[tuple[int, _Asker]]:
    """Return the threads that name an mbarrier at (count,) addresses, each with its position among the lanes."""
    named = site.mbarriers.name(site.position, _own(site, addresses), lanes, bulk_copy=True)
    columns = (named.kept, named.threads, named.blocks, named.numbers)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [(kept, _Asker(site, thread, block, number)) for kept, thread, block, number in rows]


@dataclass(frozen=True, slots=True, eq=False)
class _Asker:
    """A thread that asks for a copy.

    Attributes:
        site: The instruction.
        thread: The batch's index of the thread.
        block: Its block in the batch.
        mbarrier: Number of the mbarrier that counts the copy.
    """

    site: Site
    thread: int
    block: int
    mbarrier: int

    def find(self, kind: FindingKind, detail: str, address: int) -> None:
        """Note a fault of this thread."""
        self.site.findings.add(kind, self.site.position, detail, np.array([self.thread]), address=address)

    def tensor_map(self, address: int) -> tensormaps.Descriptor | None:
        """Return the tensor map at a generic address; None, and a finding, where there is none."""
        region = self.site.memory.space.at(address)
        offset, found, size = address & WITHIN_SEGMENT, None, BYTES
        if region is not None and region.space in ("param", "global", "const") and offset + size <= region.size:
            if offset % ALIGNMENT:
                detail = f"a tensor map must lie at a multiple of {ALIGNMENT} bytes"
                self.find("misaligned", detail, address)
                return None
            found = tensormaps.decode(region.data[offset : offset + size].tobytes())
        if found is None:
            self.find("out-of-bounds", "there is no tensor map at this address", address)
        return found


class _BulkCopy:
    """One thread's copy of some bytes to one place in shared memory."""

    def __init__(self, asker: _Asker, target: int, size: int) -> None:
        self._asker, self._site, self._target, self._size = asker, asker.site, target, size

    def aligned(self, address: int, grain: int, what: str) -> bool:
        """Return whether a number is a multiple of `grain`; note a fault where it is not."""
        if address % grain == 0:
            return True
        self._asker.find("misaligned", f"bulk copy {what} that is not a multiple of {grain} bytes", address)
        return False

    def fits(self, grain: int) -> bool:
        """Return whether a copy may have this size and this target; note a fault where it may not."""
        shared = self._site.memory.shared
        if not self.aligned(self._size, _GRAIN, f"of {self._size} bytes, a size") or not self.aligned(
            self._target, grain, "to an offset"
        ):
            return False
        if not 0 <= self._target <= shared.size - self._size:
            detail = f"bulk copy of {self._size} bytes to offset {self._target} of {shared.name} ({shared.size} bytes)"
            self._asker.find("out-of-bounds", detail, self._target)
            return False
        return True

    def box(self, described: tensormaps.Descriptor, x: int, y: int) -> None:
        """Fetch the box at coordinates (x, y); what lies outside of the matrix is zero."""
        width, height = described.box
        first_x, last_x = max(x, 0), min(x + width, described.extents[0])
        rows = np.arange(max(y, 0), min(y + height, described.extents[1]), dtype=np.int64)
        size = described.element_bytes
        if last_x <= first_x:
            rows = rows[:0]
        places = (rows - y) * (width * size) + (first_x - x) * size
        offsets = rows * described.stride + first_x * size
        self.rows(described.base, offsets, max(0, last_x - first_x) * size, places)

    def rows(self, base: int, offsets: Addresses, length: int, places: Addresses) -> None:
        """Copy rows from global memory.

        Args:
            base: A generic address.
            offsets: (rows,) where each row begins, in bytes from the base.
            length: Bytes of a row.
            places: (rows,) where each row goes, in bytes from the target.
        """
        values = np.zeros(self._size, np.uint8)
        region = self._site.memory.space.at(base)
        start = offsets + (base & WITHIN_SEGMENT)
        if len(start):
            if region is None or region.space != "global":
                detail = "bulk copy from where nothing is allocated"
                self._asker.find("out-of-bounds", detail, base + int(offsets.max()))
            elif not _inside(region, start, length):
                detail = (
                    f"bulk copy of {length} bytes at offset {int(start.max())} of {region.name} ({region.size} bytes)"
                )
                self._asker.find("out-of-bounds", detail, base + int(offsets.max()))
            else:
                values[_spans(places, length)] = self._read(region, _spans(start, length))
        self._arrive(values, start, length)

    def _read(self, region: Region, index: Addresses) -> Bytes:
        if region.shadow is not None:
            found = region.shadow.read(index, 1)
            self._site.memory.watch.report_global(self._site.position, self._asker.thread, region, index, found)
        return region.data[index]

    def _arrive(self, values: Bytes, start: Addresses, length: int) -> None:
        """Let the bytes arrive: note, store and count them.

        Args:
            values: (size,) the bytes.
            start: (rows,) where each row began in its region.
            length: Bytes of a row.
        """
        site, asker, size = self._site, self._asker, self._size
        who = np.array([asker.thread])
        target = np.array([self._target])
        place = int(site.memory.shared.places(target, who)[0])
        phase = site.mbarriers.owe_less(site.position, asker.thread, asker.mbarrier, asker.block, size)
        shadow, bulk = site.memory.watch.shadow, site.memory.watch.bulk
        if shadow is not None and bulk is not None:
            found = shadow.copy_bulk(
                bulk, place, size, asker.thread, site.position, mbarrier=asker.mbarrier, phase=phase
            )
            site.memory.watch.report_shared(site.position, who, target, found)
        site.memory.shared.data[place : place + size] = values
        if site.counters is not None:
            waves = -(-size // LINE_BYTES)
            sectors = int(((start + length - 1) // SECTOR_BYTES - start // SECTOR_BYTES + 1).sum()) if length else 0
            site.counters.bulk_copy(
                site.position,
                MemoryCount(1, waves, 0, size, waves),
                MemoryCount(1, 0, sectors, length * len(start), 0),
            )


def _spans(starts: Addresses, length: int) -> Addresses:
    """Return the (rows * length,) bytes of spans that begin at (rows,) starts."""
    return (starts[:, None] + np.arange(length)).reshape(-1)


def _inside(region: Region, start: Addresses, length: int) -> bool:
    return int(start.min()) >= 0 and int(start.max()) + length <= region.size
