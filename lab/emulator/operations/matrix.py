"""Matrix fragments: ldmatrix, stmatrix, mma.sync and wmma.

Products are summed in double precision and rounded once to the accumulator's type; PTX leaves the order and the
inner precision of the hardware open. A wmma fragment's layout is unspecified in PTX; here, with E elements a
lane, element e of lane l is number ``(E l + e) mod size`` of the tile in row order.

Fragment layouts of mma.sync: PTX ISA, Matrix Fragments for mma.m16n8k4, m16n8k8, m16n8k16, m8n8k4.f64.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lab.emulator import floats, operands
from lab.emulator.operations.base import Array, Opcode, UnknownForm, system
from lab.emulator.operations.memory import take_space

if TYPE_CHECKING:
    from lab.emulator.machine import Machine

Run = Callable[[Array | None], None]
_SHAPE = re.compile(r"^m(\d+)n(\d+)k(\d+)$")
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


def _elements(machine: Machine, position: int, text: str, t: str) -> Callable[[], Array]:
    """Return a function that reads a fragment: (warps, 32, elements of a lane), as float64."""
    bits = _BITS[t]
    container = "b64" if bits == 64 else "b32"  # noqa: PLR2004  bits
    reads = [machine.binder.source(position, name, container) for name in operands.elements(text)]

    def read() -> Array:
        columns = [np.broadcast_to(one(None), (machine.threads,)) for one in reads]
        raw = np.stack(columns, axis=1)
        return _decode(raw, t).reshape(machine.threads // 32, 32, -1)

    return read


def _decode(raw: Array, t: str) -> Array:
    if t == "f16":
        return raw.view(np.float16).astype(np.float64)
    if t == "bf16":
        return floats.bf16_to_32(raw.view(np.uint16)).astype(np.float64)
    if t == "tf32":  # the hardware reads sign, exponent and 10 fraction bits
        return (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    return raw.view({"f32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32}[t]).astype(
        np.float64
    )


def _encode(values: Array, t: str) -> Array:
    """Round float64 (threads, elements) to registers (threads, registers)."""
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


def _writer(machine: Machine, position: int, text: str, t: str) -> Callable[[Array | None, Array], None]:
    container = "b64" if t == "f64" else "b32"
    writes = [machine.binder.target(position, name, container) for name in operands.elements(text)]

    def write(chosen: Array | None, values: Array) -> None:
        registers = _encode(np.ascontiguousarray(values.reshape(machine.threads, -1)), t)
        for i, put in enumerate(writes):
            column = np.ascontiguousarray(registers[:, i])
            put(chosen, column if chosen is None else column[chosen])

    return write


# --- mma.sync ---------------------------------------------------------------------------------------------------


def _layout(shape: tuple[int, int, int], which: str, bits: int) -> tuple[Array, Array]:
    """Return the row and the column of each (lane, element) of an mma.sync fragment."""
    m, n, k = shape
    lane = np.arange(32)[:, None]
    group, within = lane >> 2, lane & 3
    if which == "c":
        i = np.arange(m * n // 32)[None, :]
        return group + 8 * (i >> 1), within * 2 + (i & 1)
    per = max(1, 32 // bits)  # elements of a register
    rows_eight = m // 8 if which == "a" else 1
    total = (m * k if which == "a" else n * k) // 32
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
def mma(machine: Machine, position: int, op: Opcode) -> Run:
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
    texts = machine.program.code[position][1].operands
    reads = [_elements(machine, position, text, t) for text, t in zip(texts[1:], (ta, tb, tc), strict=True)]
    write = _writer(machine, position, texts[0], td)
    m, n, k = shape
    layouts = [_layout(shape, "a", _BITS[ta]), _layout(shape, "b", _BITS[tb]), _layout(shape, "c", 32)]
    sizes = ((m, k), (k, n), (m, n))

    def run(chosen: Array | None) -> None:
        tiles = []
        for read, (rows, cols), size in zip(reads, layouts, sizes, strict=True):
            tile = np.zeros((machine.threads // 32, *size))
            tile[:, rows, cols] = read()
            tiles.append(tile)
        result = tiles[0] @ tiles[1] + tiles[2]
        rows, cols = layouts[2]
        write(chosen, result[:, rows, cols])

    return run


# --- ldmatrix, stmatrix -------------------------------------------------------------------------------------------


def _matrix_form(machine: Machine, position: int, op: Opcode) -> tuple[int, bool, str]:
    op.one_of(("sync",))
    op.one_of(("aligned",))
    op.one_of(("m8n8",))
    count = int(op.one_of(("x1", "x2", "x4"))[1:])
    trans = op.flag("trans")
    space = take_space(op)
    op.one_of(("b16",))
    op.finish()
    del machine, position
    return count, trans, space


_PAIRS = np.arange(32) // 4, 2 * (np.arange(32) % 4)
"""Row of an 8 x 8 matrix, and first of two columns, that each lane holds (PTX ISA, "ldmatrix")."""


@system("ldmatrix")
def ldmatrix(machine: Machine, position: int, op: Opcode) -> Run:
    """Build the load of 8 x 8 matrices of 16-bit elements: lanes 8 i to 8 i + 7 give the rows of matrix i."""
    count, trans, space = _matrix_form(machine, position, op)
    destination, source = machine.program.code[position][1].operands
    address = machine.memory.address(position, source, space)
    writes = [machine.binder.target(position, name, "b32") for name in operands.elements(destination)]
    row, col = _PAIRS

    def run(chosen: Array | None) -> None:
        threads = machine.members(chosen)
        at = np.flatnonzero(threads % 32 < 8 * count)
        loaded = machine.memory.load(position, space, address(chosen)[at], threads[at], width=2, vector=8)
        tiles = np.zeros((machine.threads, 8), np.uint16)
        tiles[threads[at]] = np.stack(loaded, axis=1)
        matrices = tiles.reshape(-1, 4, 8, 8)
        for i, write in enumerate(writes):
            matrix = matrices[:, i].swapaxes(1, 2) if trans else matrices[:, i]
            low, high = matrix[:, row, col].astype(np.uint32), matrix[:, row, col + 1].astype(np.uint32)
            flat = (low | (high << np.uint32(16))).reshape(-1)
            write(chosen, flat if chosen is None else flat[chosen])

    return run


@system("stmatrix")
def stmatrix(machine: Machine, position: int, op: Opcode) -> Run:
    """Build the store of 8 x 8 matrices, the reverse of `ldmatrix`."""
    count, trans, space = _matrix_form(machine, position, op)
    destination, source = machine.program.code[position][1].operands
    address = machine.memory.address(position, destination, space)
    reads = [machine.binder.source(position, name, "b32") for name in operands.elements(source)]
    row, col = _PAIRS

    def run(chosen: Array | None) -> None:
        matrices = np.zeros((machine.threads // 32, 4, 8, 8), np.uint16)
        for i, read in enumerate(reads):
            values = np.broadcast_to(read(None), (machine.threads,)).reshape(-1, 32)
            matrix = matrices[:, i].swapaxes(1, 2) if trans else matrices[:, i]
            matrix[:, row, col] = values.astype(np.uint16)
            matrix[:, row, col + 1] = (values >> np.uint32(16)).astype(np.uint16)
        threads = machine.members(chosen)
        at = np.flatnonzero(threads % 32 < 8 * count)
        rows = matrices.reshape(-1, 8)[threads[at]]
        machine.memory.store(position, space, address(chosen)[at], [rows[:, i] for i in range(8)], threads[at])

    return run


# --- wmma -------------------------------------------------------------------------------------------------------


@system("wmma")
def wmma(machine: Machine, position: int, op: Opcode) -> Run:
    """Build wmma.load, wmma.store and wmma.mma."""
    what = op.one_of(("load", "store", "mma"))
    if what == "mma":
        return _wmma_mma(machine, position, op)
    which = op.one_of(("a", "b", "c", "d"))
    op.one_of(("sync",))
    op.one_of(("aligned",))
    by_row = op.one_of(("row", "col")) == "row"
    m, n, k = take_shape(op)
    space = take_space(op)
    t = op.one_of(("f16", "bf16", "tf32", "f32", "s8", "u8", "s32", "f64"))
    op.finish()
    rows, cols = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    texts = list(machine.program.code[position][1].operands)
    fragment, place = (texts[1], texts[0]) if what == "store" else (texts[0], texts[1])
    stride = machine.binder.source(position, texts[2] if len(texts) > 2 else str(cols if by_row else rows), "u32")  # noqa: PLR2004  operands
    address = machine.memory.address(position, place, space)
    names = operands.elements(fragment)
    width = max(1, _BITS[t] // 8)
    per = max(1, 4 // width)
    each = len(names) * per
    lane = np.arange(machine.threads) % 32

    def offsets(chosen: Array | None, e: int) -> Array:
        mine = lane if chosen is None else lane[chosen]
        row, col = np.divmod((mine * each + e) % (rows * cols), cols)
        step = np.broadcast_to(stride(chosen), mine.shape).astype(np.int64)
        return width * (row * step + col if by_row else col * step + row)

    container = "b64" if t == "f64" else "b32"
    if what == "load":
        writes = [machine.binder.target(position, name, container) for name in names]
        return _wmma_load(machine, position, space, address, offsets, writes=writes, width=width)
    reads = [machine.binder.source(position, name, container) for name in names]
    return _wmma_store(machine, position, space, address, offsets, reads=reads, width=width)


def _wmma_load(
    machine: Machine,
    position: int,
    space: str,
    address: Callable[[Array | None], Array],
    offsets: Callable[[Array | None, int], Array],
    *,
    writes: list[Callable[[Array | None, Array], None]],
    width: int,
) -> Run:
    per = max(1, 4 // width)

    def run(chosen: Array | None) -> None:
        start = address(chosen)
        for i, write in enumerate(writes):
            total = np.zeros(len(start), f"u{max(4, width)}")
            for j in range(per):
                places = start + offsets(chosen, i * per + j)
                value = machine.memory.load(position, space, places, chosen, width=width)[0]
                total |= value.astype(total.dtype) << total.dtype.type(8 * width * j)
            write(chosen, total)

    return run


def _wmma_store(
    machine: Machine,
    position: int,
    space: str,
    address: Callable[[Array | None], Array],
    offsets: Callable[[Array | None, int], Array],
    *,
    reads: list[Callable[[Array | None], Array]],
    width: int,
) -> Run:
    per = max(1, 4 // width)

    def run(chosen: Array | None) -> None:
        start = address(chosen)
        for i, read in enumerate(reads):
            value = np.broadcast_to(read(chosen), start.shape)
            for j in range(per):
                piece = (value >> value.dtype.type(8 * width * j)).astype(f"u{width}")
                machine.memory.store(position, space, start + offsets(chosen, i * per + j), [piece], chosen)

    return run


def _wmma_mma(machine: Machine, position: int, op: Opcode) -> Run:
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
    if (
        ta != tb
        or ta not in ("f16", "bf16", "tf32", "s8", "u8", "f64")
        or td not in ("f16", "f32", "s32", "f64")
        or tc not in ("f16", "f32", "s32", "f64")
    ):
        raise UnknownForm(f"types .{td}.{ta}.{tb}.{tc}")
    texts = machine.program.code[position][1].operands
    reads = [_elements(machine, position, text, t) for text, t in zip(texts[1:], (ta, tb, tc), strict=True)]
    write = _writer(machine, position, texts[0], td)
    warps = machine.threads // 32

    def tile(values: Array, rows: int, cols: int) -> Array:
        return values.reshape(warps, -1)[:, : rows * cols].reshape(warps, rows, cols)

    def run(chosen: Array | None) -> None:
        a, b, c = (read() for read in reads)
        result = tile(a, m, k) @ tile(b, k, n) + tile(c, m, n)
        write(chosen, result)

    return run
