"""Fragment layouts: which lane and register hold which matrix element.

PTX ISA, Matrix fragments for mma.m8n8k4 to mma.m16n8k256, and for sparse mma.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.base.warp import WARP_SIZE
from lab.emulator import operands
from lab.emulator.arrays import Bits, Doubles, Indices
from lab.emulator.binding import Read
from lab.emulator.lanes import Lanes
from lab.emulator.opcodes import UnknownForm
from lab.emulator.operations.elements import container, decode, encode, per_register
from lab.emulator.operations.system import Site

_LANE = np.arange(WARP_SIZE)[:, None]
_GROUP, _WITHIN = _LANE >> 2, _LANE & 3
_HALF_WARP = 16
_EDGE = 8


@dataclass(frozen=True, slots=True, eq=False)
class FragmentLayout:
    """The position of a fragment's elements in their matrix.

    Attributes:
        rows: (32, elements) row of each lane's elements, in the order of registers, low bits first.
        columns: (32, elements) their columns.
        size: Rows and columns of the matrix.
        tile: (32, 1) the index of the matrix, if a warp holds several; None if it holds one.
    """

    rows: Indices
    columns: Indices
    size: tuple[int, int]
    tile: Indices | None = None

    @property
    def elements(self) -> int:
        """The number of elements per lane."""
        return int(self.rows.shape[1])

    @property
    def tiles(self) -> int:
        """The number of matrices per warp."""
        return 1 if self.tile is None else int(self.tile.max()) + 1

    def gather(self, fragment: Doubles) -> Doubles:
        """Gather (warps, 32, elements) into (warps * tiles, rows, columns)."""
        matrices = np.zeros((len(fragment), self.tiles, *self.size))
        matrices[:, 0 if self.tile is None else self.tile, self.rows, self.columns] = fragment
        return matrices.reshape(-1, *self.size)

    def scatter(self, matrices: Doubles) -> Doubles:
        """Scatter (warps * tiles, rows, columns) to (warps, 32, elements)."""
        by_warp = matrices.reshape(-1, self.tiles, *self.size)
        fragment: Doubles = by_warp[:, 0 if self.tile is None else self.tile, self.rows, self.columns]
        return fragment


def operand_a(m: int, k: int, t: str) -> FragmentLayout:
    """Return the layout of A with `m` rows and `k` columns: registers cover the rows first, then k."""
    per, eights = per_register(t), m // _EDGE
    i = np.arange(m * k // WARP_SIZE)[None, :]
    register, inside = i // per, i % per
    along = _WITHIN * per + inside + 4 * per * (register // eights)
    return FragmentLayout(_GROUP + _EDGE * (register % eights), along, (m, k))


def operand_b(k: int, n: int, t: str) -> FragmentLayout:
    """Return the layout of B with `k` rows and 8 columns."""
    per = per_register(t)
    i = np.arange(n * k // WARP_SIZE)[None, :]
    along = _WITHIN * per + i % per + 4 * per * (i // per)
    return FragmentLayout(along, np.broadcast_to(_GROUP, along.shape), (k, n))


def accumulator(m: int, n: int) -> FragmentLayout:
    """Return the layout of C and D: pairs of row neighbours, then rows in steps of eight, then columns.

    `n` is a multiple of 8, and `m` 8 or 16.
    """
    i = np.arange(m * n // WARP_SIZE)[None, :]
    pair, rows = i >> 1, m // _EDGE
    return FragmentLayout(_GROUP + _EDGE * (pair % rows), _WITHIN * 2 + (i & 1) + _EDGE * (pair // rows), (m, n))


# --- m8n8k4 of f16: four products, each by the lanes of two quads ------------------------------------------------

_QUADS: Indices = _GROUP % 4
_UPPER: Indices = (_LANE >= _HALF_WARP).astype(np.int64)


def volta_operand(which: str, *, by_row: bool) -> FragmentLayout:
    """Return the layout of A (8 x 4) or B (4 x 8) of m8n8k4 with f16.

    Args:
        which: `a` or `b`.
        by_row: The matrix is row-major.
    """
    i = np.arange(4)[None, :]
    if which == "a":
        rows, columns = (_WITHIN + 4 * _UPPER, i) if by_row else (i + 4 * _UPPER, _WITHIN)
    else:
        rows, columns = (_WITHIN, i + 4 * _UPPER) if by_row else (i, _WITHIN + 4 * _UPPER)
    full = np.broadcast_arrays(rows, columns, np.empty((WARP_SIZE, 4)))[:2]
    return FragmentLayout(full[0], full[1], (8, 4) if which == "a" else (4, 8), _QUADS)


def volta_accumulator(t: str) -> FragmentLayout:
    """Return the layout of C and D (8 x 8) of m8n8k4 with f16 products, in f16 or f32."""
    i = np.arange(8)[None, :]
    if t == "f16":
        rows, columns = np.broadcast_arrays(_WITHIN + 4 * _UPPER, i)
    else:
        rows = (_LANE & 1) + (i & 2) + 4 * _UPPER
        columns = (i & 4) + (_LANE & 2) + (i & 1)
    return FragmentLayout(rows, columns, (8, 8), _QUADS)


# --- reading and writing ------------------------------------------------------------------------------------------


def reader(site: Site, text: str, t: str, layout: FragmentLayout | None = None) -> Callable[[], Doubles]:
    """Return a reader of a fragment: (warps, 32, elements per lane).

    Raises:
        UnknownForm: the number of registers does not match the layout.
    """
    names = operands.elements(text)
    _check_count(names, t, layout)
    reads: list[Read[np.unsignedinteger[Any]]] = [site.operands.source(name, container(t)) for name in names]
    everyone, warps = site.batch.everyone, site.batch.warps

    def read_fragment() -> Doubles:
        raw = np.stack([everyone.fill(read_register(everyone)) for read_register in reads], axis=1)
        return decode(raw, t).reshape(warps, WARP_SIZE, -1)

    return read_fragment


def writer(site: Site, text: str, t: str, layout: FragmentLayout | None = None) -> Callable[[Lanes, Doubles], None]:
    """Return a writer of (warps, 32, elements per lane) to a fragment. Raises as `reader` does."""
    names = operands.elements(text)
    _check_count(names, t, layout)
    writes = [site.operands.target(name, container(t)) for name in names]
    threads = site.batch.threads

    def write(lanes: Lanes, values: Doubles) -> None:
        registers: Bits = encode(np.ascontiguousarray(values.reshape(threads, -1)), t)
        for i, write_register in enumerate(writes):
            write_register(lanes, lanes.select(np.ascontiguousarray(registers[:, i])))

    return write


def _check_count(names: Sequence[str], t: str, layout: FragmentLayout | None) -> None:
    if layout is not None and len(names) != max(1, layout.elements // per_register(t)):
        raise UnknownForm(f"{len(names)} registers for a fragment of {layout.elements} .{t}")
