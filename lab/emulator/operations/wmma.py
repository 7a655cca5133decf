"""wmma: matrix fragments with a layout PTX leaves open.

Here, with E elements per lane, element e of lane l is number ``(E l + e) mod size`` of the tile in row order. Sub-byte
integers are handled as the 32-bit words that contain them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lab.base.warp import WARP_SIZE
from lab.emulator import operands
from lab.emulator.arrays import Addresses, Doubles
from lab.emulator.binding import Read, Write
from lab.emulator.lanes import Lanes
from lab.emulator.memory.order import WARPS
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations import fragments
from lab.emulator.operations.elements import BITS, REGISTER_BITS, container, per_register
from lab.emulator.operations.matrix import MatrixTypes, alike, product, sums_of
from lab.emulator.operations.shapes import Shape, take_shape
from lab.emulator.operations.spaces import take_space
from lab.emulator.operations.system import Run, Site, system

_BYTE = 8
_PLACE, _LEADING = 32, 16  # bytes
_TYPES = ("f16", "bf16", "tf32", "f32", "s8", "u8", "s4", "u4", "b1", "s32", "f64")


@system("wmma")
def wmma(site: Site, op: Opcode) -> Run:
    """Build wmma.load, wmma.store and wmma.mma."""
    kind = op.one_of(("load", "store", "mma"))
    if kind == "mma":
        return _multiply(site, op)
    which = op.one_of(("a", "b", "c", "d"))
    op.one_of(("sync",))
    op.one_of(("aligned",))
    by_row = op.one_of(("row", "col")) == "row"
    shape = take_shape(op)
    space = take_space(op)
    t = op.one_of(_TYPES)
    op.finish()
    packed = _packed(t)
    rows, cols = _size(which, shape, packed)
    fragment, place, *options = (site.texts[1], site.texts[0], *site.texts[2:]) if kind == "store" else site.texts
    stride = site.operands.source(options[0] if options else str(packed * (cols if by_row else rows)), "u32")
    names = operands.elements(fragment)
    width = max(BITS[t] * packed, _BYTE) // _BYTE
    elements_per_lane = len(names) * _elements_of_register(width)
    grains = _grains(t, elements_per_lane * width, width * (cols if by_row else rows))
    check = _alignment(site, space, place, stride if options else None, grains=grains, bits=BITS[t])
    lane = np.arange(site.batch.threads) % WARP_SIZE

    def offsets(lanes: Lanes, e: int) -> Addresses:
        """Return the byte offsets of element e of each lane, (count,)."""
        row, col = np.divmod((lanes.select(lane) * elements_per_lane + e) % (rows * cols), cols)
        step = stride(lanes).astype(np.int64) // packed
        return np.asarray(width * (row * step + col if by_row else col * step + row))

    if kind == "load":
        writes = [site.operands.target(name, container(t)) for name in names]
        return _both(check, _load(site, space, place, offsets, writes=writes, width=width))
    reads: list[Read[np.unsignedinteger[Any]]] = [site.operands.source(name, container(t)) for name in names]
    return _both(check, _store(site, space, place, offsets, reads=reads, width=width))


def _both(first: Run, second: Run) -> Run:
    def run(lanes: Lanes) -> None:
        first(lanes)
        second(lanes)

    return run


def _grains(t: str, fragment: int, line: int) -> tuple[int, int]:
    """Return the required alignment of a tile's address and leading dimension, in bytes.

    CUDA programming guide, warp matrix functions: an address of 256 bits, a leading dimension of 16 bytes. Tiles whose
    lines are shorter than 32 bytes are adjacent at multiples of their length. For f64 the alignment is the size of a
    lane's fragment (PTX ISA, matrix storage for wmma).

    Args:
        t: Type of an element.
        fragment: Bytes of a lane's fragment.
        line: Bytes of a row, or a column, of the tile.
    """
    place, leading = min(_PLACE, line), _LEADING
    return (min(place, fragment), min(leading, fragment)) if t == "f64" else (place, leading)


def _alignment(
    site: Site, space: str, place: str, stride: Read[np.uint32] | None, *, grains: tuple[int, int], bits: int
) -> Run:
    """Build the alignment check of a tile's address and, if given, its leading dimension.

    Args:
        site: The instruction.
        space: State space of the address.
        place: The address operand.
        stride: Reads the leading dimension, in elements.
        grains: The required alignment of address and leading dimension, in bytes.
        bits: Width of an element.
    """
    address = site.operands.address(place, space)
    of_address, of_leading = grains

    def check(lanes: Lanes) -> None:
        start = address(lanes)
        if stride is not None:
            elements = lanes.fill(stride(lanes)).astype(np.int64)
            bad = np.flatnonzero(elements * bits % (of_leading * _BYTE))
            if len(bad):
                number = int(elements[bad[0]])
                detail = f"a leading dimension of {number} elements is {number * bits / _BYTE:g} bytes, which is not a"
                detail += f" multiple of {of_leading}"
                remedy = f"pad rows to a multiple of {of_leading * _BYTE // bits} elements"
                threads = lanes.take(bad).indices()
                site.findings.add(
                    "misaligned", site.position, detail, threads, address=int(start[bad[0]]), remedy=remedy
                )
                return
        bad = np.flatnonzero(start % of_address)
        if len(bad):
            detail = f"a matrix at an address that is {int(start[bad[0]] % of_address)} bytes beyond a multiple of"
            detail += f" {of_address} bytes"
            remedy = f"align the array to {of_address} bytes, and start tiles at multiples of it"
            threads = lanes.take(bad).indices()
            site.findings.add("misaligned", site.position, detail, threads, address=int(start[bad[0]]), remedy=remedy)

    return check


Offsets = Callable[[Lanes, int], Addresses]


def _packed(t: str) -> int:
    """Return the number of packed elements: those of a word for sub-byte types, else 1."""
    return per_register(t) if BITS[t] < _BYTE else 1


def _size(which: str, shape: Shape, packed: int) -> tuple[int, int]:
    """Return the rows and columns of a fragment's matrix, with elements packed along k."""
    m, n, k = shape
    return {"a": (m, k // packed), "b": (k // packed, n)}.get(which, (m, n))


def _elements_of_register(width: int) -> int:
    return max(1, REGISTER_BITS // _BYTE // width)


def _load(site: Site, space: str, place: str, offsets: Offsets, *, writes: Sequence[Write], width: int) -> Run:
    """Build the load of a fragment from an address, element by element."""
    per = _elements_of_register(width)
    address, memory, position = site.operands.address(place, space), site.memory, site.position

    def run(lanes: Lanes) -> None:
        start = address(lanes)
        for i, write in enumerate(writes):
            total = np.zeros(len(start), f"u{max(4, width)}")
            for j in range(per):
                places = start + offsets(lanes, i * per + j)
                value = memory.load(position, space, places, lanes, width=width, order=WARPS, first=i * per + j)[0]
                total |= value.astype(total.dtype) << total.dtype.type(8 * width * j)
            write(lanes, total)

    return run


def _store(
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
                memory.store(position, space, start + offsets(lanes, i * per + j), [piece], lanes, first=i * per + j)

    return run


def _multiply(site: Site, op: Opcode) -> Run:
    """Build the product of fragments."""
    logic = op.one_of(("xor", "and"), "")
    if logic:
        op.one_of(("popc",))
    op.one_of(("sync",))
    op.one_of(("aligned",))
    for _ in range(2):
        op.one_of(("row", "col"))  # the layout at the load; it does not matter here
    m, n, k = take_shape(op)
    op.flag("rn")
    saturate = op.flag("satfinite")
    types = _take_types(op)
    if saturate and types.d != "s32":
        raise UnknownForm(".satfinite on floating-point numbers")
    if (logic == "") != (types.a != "b1"):
        raise UnknownForm("a bit operation belongs to .b1, and only to it")
    texts = zip(site.texts[1:], types.all[1:], strict=True)
    reads = [fragments.reader(site, text, t) for text, t in texts]
    write = fragments.writer(site, site.texts[0], types.d)
    warps, packed = site.batch.warps, _packed(types.a)

    def tile(values: Doubles, rows: int, cols: int) -> Doubles:
        return values.reshape(warps, -1)[:, : rows * cols].reshape(warps, rows, cols)

    def run(lanes: Lanes) -> None:
        a, b, c = (read() for read in reads)
        right = tile(b, k // packed, n * packed).reshape(warps, -1, n, packed).swapaxes(2, 3).reshape(warps, k, n)
        write(lanes, product(tile(a, m, k), right, tile(c, m, n), types, logic=logic, saturate=saturate))

    return run


def _take_types(op: Opcode) -> MatrixTypes:
    """Consume the types of D, A, B and C, or only D and C if A and B are f16."""
    parts, op.parts = op.parts, []
    if len(parts) == 2:  # noqa: PLR2004  D and C
        parts = [parts[0], "f16", "f16", parts[1]]
    if len(parts) != 4:  # noqa: PLR2004  D, A, B, C
        raise UnknownForm(f".{'.'.join(parts)}")
    types = MatrixTypes(*parts)
    sums = sums_of(types.a)
    supported = types.a in ("f16", "bf16", "tf32", "s8", "u8", "s4", "u4", "b1", "f64")
    if not supported or not alike(types.a, types.b) or types.d not in sums or types.c not in sums:
        raise UnknownForm(f"types .{'.'.join(parts)}")
    return types
