"""Propagation of undefined elements through matrix moves and products.

Each register has an origin for each thread, (threads,), 0 if its value is defined; see `lab.emulator.undefined`. An
element of a product is undefined if its row of A, its column of B or its element of C contains an undefined value. A
register of several elements is undefined if one of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Indices
from lab.emulator.binding import WARPGROUP
from lab.emulator.opcodes import Opcode
from lab.emulator.operations import fragments
from lab.emulator.operations.elements import BITS, REGISTER_BITS, per_register
from lab.emulator.operations.fragments import FragmentLayout
from lab.emulator.operations.ldmatrix import EDGE, MOST_MATRICES, PAIRS
from lab.emulator.operations.shapes import take_shape

Origins = NDArray[np.int32]
"""(threads,) origins of a register's values."""

Registers = Sequence[Origins]
"""The origins of an operand's registers."""

Spread = Callable[[Sequence[Registers]], list[Origins]]
"""Maps the origins of all operands' registers except the first to those of the result's registers."""

Loaded = Mapping[int, Origins]
"""Origins found by address-giving threads, by number of the loaded element."""

_BYTE = 8
_ROW, _COLUMN = PAIRS
_VOLTA = (8, 8, 4)

_Tiles = NDArray[np.float64]
_Gather = Callable[[Registers], _Tiles]
_Scatter = Callable[[_Tiles], list[Origins]]


def spread_of(opcode: str) -> Spread | None:
    """Return a matrix instruction's propagation of undefined registers; None for other instructions."""
    op = Opcode(opcode)
    if op.family == "movmatrix":
        return lambda operands: [_pairs(_matrix(operands[0][0]).swapaxes(1, 2))]
    if op.family == "mma":
        return _mma(op)
    if op.family == "wmma" and "mma" in op.parts:
        return _wmma(op)
    return None


def loaded_registers(opcode: str, loaded: Loaded, count: int, threads: int) -> dict[int, Origins]:
    """Return the origins of a load's possibly undefined registers, by number.

    Args:
        opcode: The opcode of a plain load, `ldmatrix` or `wmma.load`.
        loaded: The origins found by its accesses.
        count: Registers.
        threads: Threads of the batch.
    """
    op = Opcode(opcode)
    if op.family == "wmma" and loaded:
        per = _per(next(t for t in reversed(op.parts) if t in BITS))
        pieces = {element // per for element in loaded}
        return {i: _worst([loaded[e] for e in range(i * per, i * per + per) if e in loaded]) for i in pieces}
    if op.family != "ldmatrix" or not loaded:
        return dict(loaded)
    none = np.zeros(threads, np.int32)
    rows = np.stack([loaded.get(element, none) for element in range(EDGE)], axis=1)
    matrices = rows.reshape(-1, MOST_MATRICES, EDGE, EDGE)
    if "trans" in op.parts:
        matrices = matrices.swapaxes(2, 3)
    return {i: _pairs(matrices[:, i]) for i in range(count)}


def stored_elements(opcode: str, registers: Registers) -> list[Origins]:
    """Return the origins of elements stored by `stmatrix` or `wmma.store`, by address-giving thread."""
    op = Opcode(opcode)
    if op.family == "wmma":
        per = _per(next(t for t in reversed(op.parts) if t in BITS))
        return [origins for origins in registers for _ in range(per)]
    matrices = np.zeros((len(registers[0]) // WARP_SIZE, MOST_MATRICES, EDGE, EDGE), np.int32)
    for i, origins in enumerate(registers):
        matrix = _matrix(origins)
        matrices[:, i] = matrix.swapaxes(1, 2) if "trans" in op.parts else matrix
    rows = matrices.reshape(-1, EDGE)
    return [np.ascontiguousarray(rows[:, element]) for element in range(EDGE)]


def _worst(origins: Registers) -> Origins:
    return np.asarray(np.maximum.reduce(origins))


def _matrix(register: Origins) -> Origins:
    """Return the (warps, 8, 8) matrix held in one register of a warp's lanes."""
    by_lane = register.reshape(-1, WARP_SIZE)
    matrix = np.zeros((len(by_lane), EDGE, EDGE), np.int32)
    matrix[:, _ROW, _COLUMN] = matrix[:, _ROW, _COLUMN + 1] = by_lane
    return matrix


def _pairs(matrix: Origins) -> Origins:
    """Return each lane's register of (warps, 8, 8) elements."""
    return np.maximum(matrix[:, _ROW, _COLUMN], matrix[:, _ROW, _COLUMN + 1]).reshape(-1)


# --- products -----------------------------------------------------------------------------------------------------


def _mma(op: Opcode) -> Spread:
    d, a, b, c = [modifier for modifier in op.parts if modifier in BITS]
    m, n, k = shape = take_shape(op)
    sparse = any(modifier.startswith("sp") for modifier in op.parts)
    if shape == _VOLTA and a == "f16":
        ways = [modifier == "row" for modifier in op.parts if modifier in ("row", "col")]
        first = fragments.volta_operand("a", by_row=ways[0])
        second = fragments.volta_operand("b", by_row=ways[1])
        third, result = fragments.volta_accumulator(c), fragments.volta_accumulator(d)
    else:
        first = fragments.operand_a(m, k // 2 if sparse else k, a)
        second = fragments.operand_b(k, n, b)
        third = result = fragments.accumulator(m, n)
    return _product(_gathered(first, a), _gathered(second, b), _gathered(third, c), _scattered(result, d))


def _gathered(layout: FragmentLayout, t: str) -> _Gather:
    per = per_register(t)

    def gather(registers: Registers) -> _Tiles:
        return layout.gather(np.repeat(_by_warp(registers), per, axis=2)[:, :, : layout.elements].astype(np.float64))

    return gather


def _scattered(layout: FragmentLayout, t: str) -> _Scatter:
    return lambda tiles: _registers(layout.scatter(tiles), per_register(t))


def _wmma(op: Opcode) -> Spread:
    """Return the propagation of `wmma.mma`, with fragments in row order (`lab.emulator.operations.wmma`)."""
    types = [modifier for modifier in op.parts if modifier in BITS]
    d, a, b, c = (types[0], "f16", "f16", types[1]) if len(types) == 2 else types  # noqa: PLR2004  D and C
    m, n, k = take_shape(op)
    depth = k // (per_register(a) if BITS[a] < _BYTE else 1)

    def tile(t: str, rows: int, columns: int) -> _Gather:
        def gather(registers: Registers) -> _Tiles:
            expanded = np.repeat(_by_warp(registers), _per(t), axis=2)
            expanded = expanded.reshape(len(expanded), -1)[:, : rows * columns]
            return expanded.reshape(-1, rows, columns).astype(np.float64)

        return gather

    def scatter(tiles: _Tiles) -> list[Origins]:
        return _registers(tiles.reshape(len(tiles), WARP_SIZE, -1), _per(d))

    return _product(tile(a, m, depth), tile(b, depth, n), tile(c, m, n), scatter)


def _per(t: str) -> int:
    """Return the elements per register of a wmma fragment; sub-byte elements count as one."""
    return REGISTER_BITS // BITS[t] if _BYTE <= BITS[t] < REGISTER_BITS else 1


def _product(first: _Gather, second: _Gather, third: _Gather, scatter: _Scatter) -> Spread:
    def spread(operands: Sequence[Registers]) -> list[Origins]:
        a, b, c, *metadata = operands
        rows, columns, total = first(a).max(axis=2), second(b).max(axis=1), third(c)
        total = np.maximum(total, np.maximum(rows[:, :, None], columns[:, None, :]))
        if metadata:  # the metadata of a sparse A
            everywhere = _by_warp(metadata[0]).max(axis=(1, 2))
            total = np.maximum(total, np.repeat(everywhere, len(total) // len(everywhere))[:, None, None])
        return scatter(total)

    return spread


def group_product(
    opcode: str,
    a: Registers,
    c: Registers,
    shared_origins: tuple[Origins, Origins],
    starts: Indices,
    *,
    metadata: Origins | None = None,
) -> list[Origins]:
    """Return the origins of a `wgmma`'s result registers; only those of its warpgroups are meaningful.

    Args:
        opcode: Its opcode.
        a: The registers of A; empty if A is in shared memory.
        c: The accumulator registers; 0 where they are not accumulated.
        shared_origins: (warpgroups, 64) of the rows of A, and (warpgroups, n) of the columns of B, in shared memory.
        starts: The first warp of each warpgroup.
        metadata: The metadata register of a sparse A.
    """
    op = Opcode(opcode)
    d, t, _ = [modifier for modifier in op.parts if modifier in BITS]
    m, n, k = take_shape(op)
    rows_per_warp = m // WARPGROUP
    members = (starts[:, None] + np.arange(WARPGROUP)).reshape(-1)
    layout = fragments.accumulator(rows_per_warp, n)
    total = _gathered(layout, d)(c)
    rows, columns = shared_origins
    if a:
        depth = k // 2 if "sp" in op.parts else k
        row_origins = _gathered(fragments.operand_a(rows_per_warp, depth, t), t)(a).max(axis=2)
        rows = np.maximum(rows, row_origins[members].reshape(rows.shape))
    if metadata is not None:  # a quad of lanes has it for two rows, eight apart
        placed = np.tile(metadata.reshape(-1, 8, 4).max(axis=2), 2)
        rows = np.maximum(rows, placed[members].reshape(rows.shape))
    product = np.maximum(rows[:, :, None], columns[:, None, :])
    total[members] = np.maximum(total[members], product.reshape(-1, rows_per_warp, n))
    return _scattered(layout, d)(total)


def _by_warp(registers: Registers) -> Origins:
    """Return (warps, 32, registers)."""
    return np.stack(registers, axis=1).reshape(-1, WARP_SIZE, len(registers))


def _registers(elements: _Tiles, per: int) -> list[Origins]:
    """Return the origins of registers with `per` elements each from (warps, 32, elements)."""
    grouped = elements.reshape(elements.shape[0] * WARP_SIZE, -1, min(per, elements.shape[2])).max(axis=2)
    return [np.ascontiguousarray(grouped[:, i]).astype(np.int32) for i in range(grouped.shape[1])]
