"""Bulk copies of tensor boxes described by tensor maps.

PTX ISA, cp.async.bulk.tensor, cp.reduce.async.bulk.tensor; swizzling modes of shared memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lab.emulator import operands
from lab.emulator.arrays import Addresses, Bytes, Indices
from lab.emulator.errors import unsupported
from lab.emulator.lanes import Lanes, warp_of
from lab.emulator.memory import tensormaps
from lab.emulator.memory.memory import WITHIN_SEGMENT
from lab.emulator.memory.tensormaps import Descriptor
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations import bulk
from lab.emulator.operations.bulk import Asker
from lab.emulator.operations.system import Run, Site
from lab.hardware.tensormaps import ALIGNMENT, BYTES, CORNER_BITS, LEAST_IM2COL_RANK, MOST_RANK, PixelBox

_TENSOR = re.compile(r"\[\s*([^,\]]+?)\s*,\s*\{([^}]*)\}\s*\]\Z")
_RANKS = ("1d", "2d", "3d", "4d", "5d")
_GRAIN = 128
"""The alignment of tensor copies in shared memory, in bytes."""

_TOGETHER = 4
"""Rows that tile::gather4 loads and tile::scatter4 stores."""

_ROW_SHIFT = 7  # the bits of an address that swizzle begin here


def tensor_copy(site: Site, op: Opcode) -> Run:
    """Build cp.async.bulk.tensor."""
    if op.flag("prefetch"):
        return lambda _lanes: None
    return _copy(site, op)


def tensor_reduce(site: Site, op: Opcode) -> Run:
    """Build cp.reduce.async.bulk.tensor, with the type of the map's elements."""
    return _copy(site, op, bulk.take_operation(op))


def _copy(site: Site, op: Opcode, reduces: str = "") -> Run:
    rank = int(op.one_of(_RANKS)[0])
    if op.flag("im2col_no_offs"):
        raise UnknownForm("im2col_no_offs: stores from im2col boxes are not supported")
    pixels = op.flag("im2col")
    if pixels and rank < LEAST_IM2COL_RANK:
        raise UnknownForm(f"im2col of {rank} dimensions; expected {LEAST_IM2COL_RANK} to {MOST_RANK}")
    gathers, scatters = op.flag("tile::gather4"), op.flag("tile::scatter4")
    if (gathers or scatters) and (pixels or rank != 2):  # noqa: PLR2004 - dimensions
        raise UnknownForm(f"four rows of a tensor of {rank} dimensions; expected 2")
    if not pixels:
        op.flag("tile")
    form = bulk.take_form(op)
    op.finish()
    texts = list(site.texts)
    if form.hint:
        texts.pop()
    outward = form.target == "global"
    if form.source == "shared::cta" and not outward:
        raise UnknownForm("a tensor copy between blocks")
    if pixels and outward:
        raise UnknownForm("im2col: pixels are loaded, and not stored")
    if len(texts) != (2 if outward else 3 + pixels + form.multicast):
        raise UnknownForm(f"{len(site.texts)} operands")
    if gathers if outward else scatters:
        raise UnknownForm("tile::gather4 loads, and tile::scatter4 stores")
    if outward:
        return _outward(site, texts, rank, reduces, scatters=scatters)
    if reduces:
        raise UnknownForm("a reduction that is not in global memory")
    shifts = _shifts(site, texts.pop(3), rank) if pixels else None
    return _inward(site, texts, rank, shifts, multicast=form.multicast, gathers=gathers)


def _outward(site: Site, texts: list[str], rank: int, reduces: str, *, scatters: bool) -> Run:
    """Build a copy, or a reduction by `reduces`, from shared to global memory."""
    read_map, read_coordinates = _operands(site, texts[0], 1 + _TOGETHER if scatters else rank)
    of, block_of = site.operands.address(texts[1], "shared"), site.batch.block_of

    def run(lanes: Lanes) -> None:
        sources, maps, coordinates = of(lanes), read_map(lanes), read_coordinates(lanes)
        threads = lanes.indices()
        for i in _once_a_warp(threads, np.column_stack([lanes.fill(sources), lanes.fill(maps), coordinates])):
            thread = int(threads[i])
            asker = Asker(site, thread, int(block_of[thread]))
            described = _described(asker, int(maps[i]), rank)
            if described and reduces and not bulk.combines(reduces, described.element):
                reason = f"the tensor map's elements are {described.element}"
                raise unsupported(site.operands.instruction, reason)
            if described and scatters:
                described = _of_four(asker, described)
            if described and asker.fits(int(sources[i]), described.box_bytes, _GRAIN, verb="from"):
                corner = coordinates[i].tolist()
                rows = _four_rows(described, corner) if scatters else _rows(described, corner, whole_grains=True)
                _store_box(asker, described, rows, int(sources[i]), reduces)

    return run


def _once_a_warp(threads: Indices, operands: Addresses) -> list[int]:
    """Return the threads that store a box: the first of a warp's lanes with the same operands.

    The SASS instruction, UTMASTG, has warp-uniform operands. CUTLASS's epilogues rely on it: all lanes of a warp
    issue the store and commit its group.

    Args:
        threads: (count,) the threads executing the instruction together.
        operands: (count, operands) their operands.
    """
    _, first = np.unique(np.column_stack([warp_of(threads), operands]), axis=0, return_index=True)
    return sorted(first.tolist())


def _inward(
    site: Site, texts: list[str], rank: int, shifts: Coordinates | None, *, multicast: bool, gathers: bool
) -> Run:
    """Build a copy from global to the shared memory of one or several blocks of the cluster.

    Args:
        site: The instruction.
        texts: The target, the map with its coordinates, the mbarrier, and the mask of a multicast.
        rank: Dimensions of the tensor.
        shifts: Reads the im2col offsets; None for tiles.
        multicast: Several blocks receive the copy.
        gathers: The box is of four rows that need not follow one another.
    """
    read_map, read_coordinates = _operands(site, texts[1], 1 + _TOGETHER if gathers else rank)
    to, at = site.operands.address(texts[0], "shared"), site.operands.address(texts[2], "shared")
    mask = site.operands.source(texts[3], "u16") if multicast else None

    def run(lanes: Lanes) -> None:
        maps, coordinates = read_map(lanes), read_coordinates(lanes)
        shifted = None if shifts is None else shifts(lanes)
        masks = None if mask is None else lanes.fill(mask(lanes)).astype(np.int64)
        for i, target, asker in bulk.askers(site, lanes, to(lanes), at(lanes), masks):
            described = _described(asker, int(maps[i]), rank, pixels=shifted is not None)
            if described and gathers:
                described = _of_four(asker, described)
            if described and asker.fits(target, described.box_bytes, _GRAIN):
                corner = coordinates[i].tolist()
                if described.pixels is not None and shifted is not None:
                    rows = _pixels(asker, described, described.pixels, corner, shifted[i].tolist())
                else:
                    rows = _four_rows(described, corner) if gathers else _rows(described, corner)
                _load_box(asker, described, rows, target)

    return run


Coordinates = Callable[[Lanes], Addresses]


def _of_four(asker: Asker, described: Descriptor) -> Descriptor | None:
    """Return a map of single rows as one of four rows; None, and a finding, where its boxes have more rows."""
    columns, rows = described.box
    if rows != 1:
        detail = f"the tensor map's boxes have {rows} rows; for tile::gather4 and tile::scatter4 they have 1"
        asker.find("out-of-bounds", detail, described.base)
        return None
    return replace(described, box=(columns, _TOGETHER))


def _four_rows(described: Descriptor, corner: list[int]) -> tuple[Addresses, Addresses, int]:
    """Return the parts of four rows of a matrix that lie in it, as `_rows` does.

    Args:
        described: The matrix, with a box of four rows.
        corner: The first column, and the number of each row.
    """
    size, (columns, _) = described.element_bytes, described.box
    first, last = max(corner[0], 0), min(corner[0] + columns, described.extents[0])
    rows = np.array(corner[1:], np.int64)
    inside = np.flatnonzero((rows >= 0) & (rows < described.extents[1]) & (first < last))
    places = (inside * columns + first - corner[0]) * size
    return rows[inside] * described.strides[0] + first * size, places, max(0, last - first) * size


def _operands(site: Site, text: str, rank: int) -> tuple[Callable[[Lanes], Addresses], Coordinates]:
    """Return readers of the map's address and the coordinates, (count, rank).

    Raises:
        UnknownForm: the operand is not a map with this number of coordinates.
    """
    match = _TENSOR.match(text)
    if match is None:
        raise UnknownForm("operands")
    names = operands.elements("{" + match[2] + "}")
    if len(names) != rank:
        raise UnknownForm(f"{len(names)} coordinates")
    reads = [site.operands.source(name, "s32") for name in names]
    return site.operands.address(f"[{match[1]}]", "generic"), lambda lanes: np.stack(
        [lanes.fill(read(lanes)).astype(np.int64) for read in reads], axis=1
    )


def _shifts(site: Site, text: str, rank: int) -> Coordinates:
    """Return a reader of the im2col offsets, (count, rank - 2).

    Raises:
        UnknownForm: the number of offsets differs.
    """
    names = operands.elements(text)
    if len(names) != rank - 2:
        raise UnknownForm(f"{len(names)} offsets of im2col in {rank} dimensions; expected {rank - 2}")
    reads = [site.operands.source(name, "u16") for name in names]
    return lambda lanes: np.stack([lanes.fill(read(lanes)).astype(np.int64) for read in reads], axis=1)


def _described(asker: Asker, address: int, rank: int, *, pixels: bool = False) -> Descriptor | None:
    """Return the tensor map at a generic address; report a fault and return None if it does not fit."""
    region = asker.site.memory.space.at(address)
    offset, descriptor = address & WITHIN_SEGMENT, None
    if region is not None and region.space in ("param", "global", "const") and offset + BYTES <= region.size:
        if offset % ALIGNMENT:
            asker.find("misaligned", f"a tensor map must be aligned to {ALIGNMENT} bytes", address)
            return None
        descriptor = tensormaps.decode(region.data[offset : offset + BYTES].tobytes())
        if descriptor is not None and region.space == "global":
            asker.site.memory.watch.use_map(asker.site.position, asker.thread, region, offset)
    if descriptor is None:
        asker.find("out-of-bounds", "no tensor map at this address", address)
    elif len(descriptor.extents) != rank:
        detail = f"the tensor map has {len(descriptor.extents)} dimensions, the instruction {rank}"
        asker.find("out-of-bounds", detail, address)
        return None
    elif pixels != (descriptor.pixels is not None):
        modes = ("tiles", "im2col")
        detail = f"the tensor map is one for {modes[not pixels]}, the instruction one for {modes[pixels]}"
        asker.find("out-of-bounds", detail, address)
        return None
    return descriptor


def _rows(described: Descriptor, corner: list[int], *, whole_grains: bool = False) -> tuple[Addresses, Addresses, int]:
    """Return the rows of a box that are inside the tensor.

    Args:
        described: The tensor.
        corner: The box's first coordinates.
        whole_grains: Round row ends up to a whole piece of 16 bytes of the tensor.

    Returns:
        (rows,) their byte offsets in the tensor, (rows,) their byte offsets in the box, and the bytes per row.
    """
    size = described.element_bytes
    first, last = max(corner[0], 0), min(corner[0] + described.box[0], described.extents[0])
    if whole_grains and first < last == described.extents[0]:
        last = min(-(-last * size // bulk.GRAIN) * bulk.GRAIN // size, corner[0] + described.box[0])
    offsets, places = np.zeros(1, np.int64), np.zeros(1, np.int64)
    pitch = described.box[0] * size
    for at, extent, box, stride in zip(
        corner[1:], described.extents[1:], described.box[1:], described.strides, strict=True
    ):
        along = np.arange(max(at, 0), min(at + box, extent), dtype=np.int64)
        offsets = (along[:, None] * stride + offsets).reshape(-1)
        places = ((along - at)[:, None] * pitch + places).reshape(-1)
        pitch *= box
    if last <= first:
        return offsets[:0], places[:0], 0
    return offsets + first * size, places + (first - corner[0]) * size, (last - first) * size


def _pixels(
    asker: Asker, described: Descriptor, pixels: PixelBox, corner: list[int], shifts: list[int]
) -> tuple[Addresses, Addresses, int]:
    """Return the channels of the im2col pixels that are inside the images, as `_rows` does.

    Args:
        asker: The thread.
        described: The images.
        pixels: The range of the filter's base.
        corner: The first channel, the base's first position, and its image.
        shifts: The offsets from the base to the copied pixel.
    """
    size, (channels, count), limit = described.element_bytes, described.box, 1 << CORNER_BITS[len(corner)]
    if any(shift >= limit for shift in shifts):
        asker.find("out-of-bounds", f"offsets {shifts} of im2col; expected 0 to {limit - 1} each", described.base)
    ends = [extent - 1 + high for extent, high in zip(described.extents[1:-1], pixels.upper, strict=True)]
    if any(not low <= at <= end for low, at, end in zip(pixels.lower, corner[1:-1], ends, strict=True)):
        box = ", ".join(f"{low} to {end}" for low, end in zip(pixels.lower, ends, strict=True))
        detail = f"the base of im2col {corner[1:-1]} lies outside of the map's box of pixels: {box}"
        asker.find("out-of-bounds", detail, described.base)
        return np.zeros(0, np.int64), np.zeros(0, np.int64), 0
    first, last = max(corner[0], 0), min(corner[0] + channels, described.extents[0])
    number = np.arange(count, dtype=np.int64)
    remaining, offsets, inside = number, np.full(count, first * size, np.int64), np.full(count, first < last)
    for i, shift in enumerate(shifts):
        low, step = pixels.lower[i], pixels.steps[i]
        in_first_row, in_row = (ends[i] - corner[1 + i]) // step + 1, (ends[i] - low) // step + 1
        at = (
            np.where(
                remaining < in_first_row,
                corner[1 + i] + remaining * step,
                low + (remaining - in_first_row) % in_row * step,
            )
            + shift
        )
        remaining = np.where(remaining < in_first_row, 0, 1 + (remaining - in_first_row) // in_row)
        inside &= (at >= 0) & (at < described.extents[1 + i])
        offsets += at * described.strides[i]
    image = corner[-1] + remaining
    inside &= (image >= 0) & (image < described.extents[-1])
    offsets += image * described.strides[-1]
    places = (number * channels + first - corner[0]) * size
    return offsets[inside], places[inside], max(0, last - first) * size


def _swizzled(places: Addresses, target: int, described: Descriptor) -> Addresses:
    """Return the swizzled positions in the box of bytes at linear positions `places`."""
    if not described.swizzle:
        return places
    pieces = described.swizzle // bulk.GRAIN
    at = places + target
    return (at ^ ((at >> _ROW_SHIFT & (pieces - 1)) * bulk.GRAIN)) - target


def _load_box(asker: Asker, described: Descriptor, rows: tuple[Addresses, Addresses, int], target: int) -> None:
    """Load a box, with rows from `_rows`; bytes outside of the tensor are zero."""
    offsets, places, length = rows
    values: Bytes = np.zeros(described.box_bytes, np.uint8)
    if len(offsets):
        at = _swizzled(bulk.spans(places, length), target, described)
        values[at] = bulk.read_rows(asker, described.base, offsets, length)
    bulk.deliver(asker, target, values)
    starts = offsets + (described.base & WITHIN_SEGMENT)
    sectors, fetched = bulk.sectors_of(starts, length), length * len(offsets)
    bulk.count(asker, described.box_bytes, sectors, fetched, tensor=described.base)


def _store_box(
    asker: Asker, described: Descriptor, rows: tuple[Addresses, Addresses, int], source: int, reduces: str
) -> None:
    """Store or reduce a box, clipped to the tensor rounded up to 16 bytes.

    An H200 stores whole pieces of 16 bytes: with rows of 65 elements of 2 bytes at a stride of 72 elements, it
    overwrites the element after each row.
    """
    offsets, places, length = rows
    combine = bulk.reduction(reduces, described.element) if reduces else None
    stored = _swizzled(bulk.spans(places, length), source, described)
    values = bulk.collect(asker, source, described.box_bytes, stored)
    if len(offsets):
        bulk.write_rows(asker, described.base, offsets, length, values[stored], combine=combine)
    starts = offsets + (described.base & WITHIN_SEGMENT)
    bulk.count(asker, described.box_bytes, bulk.sectors_of(starts, length), length * len(offsets))
