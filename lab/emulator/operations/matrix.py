"""Matrix fragments: ldmatrix, stmatrix, mma.sync and wmma.

Products are summed in double precision and rounded once to the accumulator's type; PTX leaves the order and the
inner precision of the hardware open. A wmma fragment's layout is unspecified in PTX; here, with E elements a
lane, element e of lane l is number ``(E l + e) mod size`` of the tile in row order.

Fragment layouts of mma.sync: PTX ISA, Matrix Fragments for mma.m16n8k4, m16n8k8, m16n8k16, m8n8k4.f64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lab.base.warp import WARP_SIZE
from lab.emulator import floats, operands
from lab.emulator.arrays import Addresses, Bits, Doubles, Indices
from lab.emulator.binding import Read, Write
from lab.emulator.lanes import Lanes
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.spaces import take_space
from lab.emulator.operations.system import Run, Site, system

_SHAPE = re.compile(r"^m(\d+)n(\d+)k(\d+)$")
_REGISTER_BITS = 32
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s8": 8, "u8": 8, "s32": 32}


def take_shape(op: Opcode) -> tuple[int, int, int]:
    """Take ``m16n8k16``."""
    for part in op.parts:
        found = _SHAPE.match(part)
        if found:
            op.parts.remove(part)
            return int(found[1]), int(found[2]), int(found[3])
    raise UnknownForm("no shape")


# --- fragments in registers -------------------------------------------------------------------------------------


def _elements(site: Site, text: str, t: str) -> Callable[[], Doubles]:
    """Return a function that reads a fragment: (warps, 32, elements of a lane)."""
    container = "b64" if _BITS[t] == 64 else "b32"  # noqa: PLR2004  bits
    reads: list[Read[np.unsignedinteger[Any]]] = [
        site.operands.source(name, container) for name in operands.elements(text)
    ]
    everyone, warps = site.batch.everyone, site.batch.warps

    def read() -> Doubles:
        raw = np.stack([everyone.fill(one(everyone)) for one in reads], axis=1)
        return _decode(raw, t).reshape(warps, WARP_SIZE, -1)

    return read


def _decode(raw: Bits, t: str) -> Doubles:
    """Return the elements of (threads, registers) bits, each register's side by side."""
    if t == "f16":
        return raw.view(np.float16).astype(np.float64)
    if t == "bf16":
        return floats.bf16_to_32(raw.view(np.uint16)).astype(np.float64)
    if t == "tf32":  # the hardware reads sign, exponent and 10 fraction bits
        return (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    dtype = {"f32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32}[t]
    return raw.view(np.dtype(dtype)).astype(np.float64)


def _encode(values: Doubles, t: str) -> Bits:
    """Round (threads, elements) to the bits of (threads, registers)."""
    if t == "f16":
        return floats.f32_to_f16(floats.round32(values, np.zeros(1), "odd")).view(np.uint32)
    if t == "f64":
        return np.ascontiguousarray(values).view(np.uint64)
    if t == "s32":
        return values.astype(np.int64).astype(np.int32).view(np.uint32)
    result = values.astype(np.float32)
    bits = result.view(np.uint32)
    bits[np.isnan(result)] = floats.NAN32
    return bits


def _writer(site: Site, text: str, t: str) -> Callable[[Lanes, Doubles], None]:
    """Return a function that writes (warps, 32, elements of a lane) to a fragment."""
    container = "b64" if t == "f64" else "b32"
    writes = [site.operands.target(name, container) for name in operands.elements(text)]
    threads = site.batch.threads

    def write(lanes: Lanes, values: Doubles) -> None:
        registers = _encode(np.ascontiguousarray(values.reshape(threads, -1)), t)
        for i, put in enumerate(writes):
            put(lanes, lanes.select(np.ascontiguousarray(registers[:, i])))

    return write


# --- mma.sync ---------------------------------------------------------------------------------------------------


def _layout(shape: tuple[int, int, int], which: str, bits: int) -> tuple[Indices, Indices]:
    """Return the row and the column of each (32 lanes, elements) of an mma.sync fragment."""
    m, n, k = shape
    lane = np.arange(WARP_SIZE)[:, None]
    group, within = lane >> 2, lane & 3
    if which == "c":
        i = np.arange(m * n // WARP_SIZE)[None, :]
        return group + 8 * (i >> 1), within * 2 + (i & 1)
    per = max(1, _REGISTER_BITS // bits)  # elements of a register
    rows_eight = m // 8 if which == "a" else 1
    total = (m * k if which == "a" else n * k) // WARP_SIZE
    i = np.arange(total)[None, :]
    register, inside = i // per, i % per
    along_k = within * per + inside + 4 * per * (register // rows_eight)
    across = group + 8 * (register % rows_eight)
    return (across, along_k) if which == "a" else (along_k, across)


_MMA_SHAPES = {
    "f16": ((16, 8, 8), (16, 8, 16)),
    "bf16": ((16, 8, 8), (16, 8, 16)),
    "tf32": ((16, 8, 4), (16, 8, 8)),
    "f64": ((8, 8, 4),),
    "s8": ((16, 8, 16), (16, 8, 32)),
    "u8": ((16, 8, 16), (16, 8, 32)),
}


@system("mma")
def mma(site: Site, op: Opcode) -> Run:
    """Build mma.sync for row-major A and column-major B."""
    op.one_of(("sync",))
    op.one_of(("aligned",))
    shape = take_shape(op)
    op.one_of(("row",))
    op.one_of(("col",))
    if len(op.parts) != 4:  # noqa: PLR2004  the types of D, A, B, C
        raise UnknownForm(f".{'.'.join(op.parts)}")
    td, ta, tb, tc = op.parts
    accumulators = {"f64": ("f64",), "s8": ("s32",), "u8": ("s32",), "f16": ("f16", "f32")}.get(ta, ("f32",))
    if (
        shape not in _MMA_SHAPES.get(ta, ())
        or shape not in _MMA_SHAPES.get(tb, ())
        or td not in accumulators
        or tc not in accumulators
    ):
        raise UnknownForm(f"types .{td}.{ta}.{tb}.{tc} with this shape")
    reads = [_elements(site, text, t) for text, t in zip(site.texts[1:], (ta, tb, tc), strict=True)]
    write = _writer(site, site.texts[0], td)
    m, n, k = shape
    layouts = [_layout(shape, "a", _BITS[ta]), _layout(shape, "b", _BITS[tb]), _layout(shape, "c", _BITS["f32"])]
    sizes = ((m, k), (k, n), (m, n))
    warps = site.batch.warps

    def run(lanes: Lanes) -> None:
        tiles = []
        for read, (rows, cols), size in zip(reads, layouts, sizes, strict=True):
            tile = np.zeros((warps, *size))
            tile[:, rows, cols] = read()
            tiles.append(tile)
        result = tiles[0] @ tiles[1] + tiles[2]
        rows, cols = layouts[2]
        write(lanes, result[:, rows, cols])

    return run


# --- ldmatrix, stmatrix -------------------------------------------------------------------------------------------


def _matrix_form(op: Opcode) -> tuple[int, bool, str]:
    """Take the words of ldmatrix and stmatrix; return matrices, whether they are transposed, and the space."""
    op.one_of(("sync",))
    op.one_of(("aligned",))
    op.one_of(("m8n8",))
    count = int(op.one_of(("x1", "x2", "x4"))[1:])
    trans = op.flag("trans")
    space = take_space(op)
    op.one_of(("b16",))
    op.finish()
    return count, trans, space


_EDGE = 8
"""Rows and columns of a matrix; as many lanes give the addresses of its rows."""

_MOST_MATRICES = WARP_SIZE // _EDGE

_PAIRS = np.arange(WARP_SIZE) // 4, 2 * (np.arange(WARP_SIZE) % 4)
"""Row of an 8 x 8 matrix, and first of two columns, that each lane holds (PTX ISA, ldmatrix)."""


def _addressing(lanes: Lanes, count: int) -> Indices:
    """Return the positions of the lanes whose addresses count for some number of matrices."""
    return np.flatnonzero(lanes.indices() % WARP_SIZE < _EDGE * count)


@system("ldmatrix")
def ldmatrix(site: Site, op: Opcode) -> Run:
    """Build the load of 8 x 8 matrices of 16-bit elements: lanes 8 i to 8 i + 7 give the rows of matrix i."""
    count, trans, space = _matrix_form(op)
    destination, source = site.texts
    address = site.operands.address(source, space)
    writes = [site.operands.target(name, "b32") for name in operands.elements(destination)]
    memory, position, threads = site.memory, site.position, site.batch.threads
    row, col = _PAIRS

    def run(lanes: Lanes) -> None:
        at = _addressing(lanes, count)
        givers = lanes.take(at)
        loaded = memory.load(position, space, address(lanes)[at], givers, width=2, vector=_EDGE)
        tiles = np.zeros((threads, _EDGE), np.uint16)
        tiles[givers.rows] = np.stack(loaded, axis=1)
        matrices = tiles.reshape(-1, _MOST_MATRICES, _EDGE, _EDGE)
        for i, write in enumerate(writes):
            matrix = matrices[:, i].swapaxes(1, 2) if trans else matrices[:, i]
            low, high = matrix[:, row, col].astype(np.uint32), matrix[:, row, col + 1].astype(np.uint32)
            write(lanes, lanes.select((low | (high << np.uint32(16))).reshape(-1)))

    return run


@system("stmatrix")
def stmatrix(site: Site, op: Opcode) -> Run:
    """Build the store of 8 x 8 matrices, the reverse of `ldmatrix`."""
    count, trans, space = _matrix_form(op)
    destination, source = site.texts
    address = site.operands.address(destination, space)
    reads = [site.operands.source(name, "b32") for name in operands.elements(source)]
    memory, position, warps = site.memory, site.position, site.batch.warps
    everyone = site.batch.everyone
    row, col = _PAIRS

    def run(lanes: Lanes) -> None:
        matrices = np.zeros((warps, _MOST_MATRICES, _EDGE, _EDGE), np.uint16)
        for i, read in enumerate(reads):
            values = everyone.fill(read(everyone)).reshape(-1, WARP_SIZE)
            matrix = matrices[:, i].swapaxes(1, 2) if trans else matrices[:, i]
            matrix[:, row, col] = values.astype(np.uint16)
            matrix[:, row, col + 1] = (values >> np.uint32(16)).astype(np.uint16)
        at = _addressing(lanes, count)
        givers = lanes.take(at)
        rows = matrices.reshape(-1, _EDGE)[givers.indices()]
        memory.store(position, space, address(lanes)[at], [rows[:, i] for i in range(_EDGE)], givers)

    return run


# --- wmma -------------------------------------------------------------------------------------------------------


@system("wmma")
def wmma(site: Site, op: Opcode) -> Run:
    """Build wmma.load, wmma.store and wmma.mma."""
    what = op.one_of(("load", "store", "mma"))
    if what == "mma":
        return _wmma_mma(site, op)
    which = op.one_of(("a", "b", "c", "d"))
    op.one_of(("sync",))
    op.one_of(("aligned",))
    by_row = op.one_of(("row", "col")) == "row"
    m, n, k = take_shape(op)
    space = take_space(op)
    t = op.one_of(("f16", "bf16", "tf32", "f32", "s8", "u8", "s32", "f64"))
    op.finish()
    rows, cols = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    fragment, place, *more = (site.texts[1], site.texts[0], *site.texts[2:]) if what == "store" else site.texts
    stride = site.operands.source(more[0] if more else str(cols if by_row else rows), "u32")
    names = operands.elements(fragment)
    width = max(1, _BITS[t] // 8)
    each = len(names) * _elements_of_register(width)
    lane = np.arange(site.batch.threads) % WARP_SIZE

    def offsets(lanes: Lanes, e: int) -> Addresses:
        """Return the byte offsets of element e of each lane, (count,)."""
        row, col = np.divmod((lanes.select(lane) * each + e) % (rows * cols), cols)
        step = stride(lanes).astype(np.int64)
        return np.asarray(width * (row * step + col if by_row else col * step + row))

    container = "b64" if t == "f64" else "b32"
    if what == "load":
        writes = [site.operands.target(name, container) for name in names]
        return _wmma_load(site, space, place, offsets, writes=writes, width=width)
    reads: list[Read[np.unsignedinteger[Any]]] = [site.operands.source(name, container) for name in names]
    return _wmma_store(site, space, place, offsets, reads=reads, width=width)


Offsets = Callable[[Lanes, int], Addresses]


def _elements_of_register(width: int) -> int:
    return max(1, _REGISTER_BITS // 8 // width)


def _wmma_load(site: Site, space: str, place: str, offsets: Offsets, *, writes: Sequence[Write], width: int) -> Run:
    """Build the load of a fragment from an address, element by element."""
    per = _elements_of_register(width)
    address, memory, position = site.operands.address(place, space), site.memory, site.position

    def run(lanes: Lanes) -> None:
        start = address(lanes)
        for i, write in enumerate(writes):
            total = np.zeros(len(start), f"u{max(4, width)}")
            for j in range(per):
                places = start + offsets(lanes, i * per + j)
                value = memory.load(position, space, places, lanes, width=width)[0]
                total |= value.astype(total.dtype) << total.dtype.type(8 * width * j)
            write(lanes, total)

    return run


def _wmma_store(
    site: Site, space: str, place: str, offsets: Offsets, *, reads: Sequence[Read[np.unsignedinteger[Any]]], width: int
) -> Run:
    """Build the store of a fragment to an address, element by element."""
    per = _elements_of_register(width)
    address, memory, position = site.operands.address(place, space), site.memory, site.position

    def run(lanes: Lanes) -> None:
        start = address(lanes)
        for i, read in enumerate(reads):
            value = lanes.fill(read(lanes))
            for j in range(per):
                piece = (value >> value.dtype.type(8 * width * j)).astype(f"u{width}")
                memory.store(position, space, start + offsets(lanes, i * per + j), [piece], lanes)

    return run


def _wmma_mma(site: Site, op: Opcode) -> Run:
    """Build the product of fragments."""
    op.one_of(("sync",))
    op.one_of(("aligned",))
    for _ in range(2):
        op.one_of(("row", "col"))  # how the fragments were loaded; they are alike here
    m, n, k = take_shape(op)
    types = op.parts
    if len(types) == 2:  # noqa: PLR2004  D and C: A and B are f16
        td, ta, tb, tc = types[0], "f16", "f16", types[1]
    elif len(types) == 4:  # noqa: PLR2004  the types of D, A, B, C
        td, ta, tb, tc = types
    else:
        raise UnknownForm(f".{'.'.join(types)}")
    sums = ("f16", "f32", "s32", "f64")
    if ta != tb or ta not in ("f16", "bf16", "tf32", "s8", "u8", "f64") or td not in sums or tc not in sums:
        raise UnknownForm(f"types .{td}.{ta}.{tb}.{tc}")
    reads = [_elements(site, text, t) for text, t in zip(site.texts[1:], (ta, tb, tc), strict=True)]
    write = _writer(site, site.texts[0], td)
    warps = site.batch.warps

    def tile(values: Doubles, rows: int, cols: int) -> Doubles:
        return values.reshape(warps, -1)[:, : rows * cols].reshape(warps, rows, cols)

    def run(lanes: Lanes) -> None:
        a, b, c = (read() for read in reads)
        write(lanes, np.asarray(tile(a, m, k) @ tile(b, k, n) + tile(c, m, n)))

    return run
