"""Coverage of an output by all blocks of a grid, extrapolated from the stores of sampled blocks.

The elements a block writes are modelled as a pattern plus an offset. If the offsets of the sampled blocks are an affine
function of the block index, the elements of every other block follow, except at the edges, where a block writes a part
of the pattern. Otherwise the numbers of elements are compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import distinct
from lab.emulator.batch import block_index

Index3 = tuple[int, int, int]
Elements = NDArray[np.int64]

_PAINTED: Final = 1 << 24
"""Maximum elements of an output whose coverage is marked element by element."""

_STORES: Final = 1 << 26
"""Maximum stores of all blocks that are marked element by element."""

_OWNERS: Final = 1 << 22
"""Maximum number of blocks searched for the owner of an element."""

_WRAP: Final = 1 << 28
"""An index or byte offset that wraps around at 32 bits shifts a store by a multiple of this many elements."""

_ASKED: Final = 64
"""Maximum elements left out by a sampled block whose owners are searched."""


class Coverage(Enum):
    """The coverage shown by the sampled stores."""

    COMPLETE = "every element is written"
    INCOMPLETE = "some element is written by no block"
    UNKNOWN = "the stores do not follow the block index"


@dataclass(frozen=True, slots=True)
class Covered:
    """The coverage of one output.

    Attributes:
        coverage: The result.
        element: An element that no block writes, in memory order; -1 if none is known.
        missing: Lower bound of the number of elements that no block writes.
    """

    coverage: Coverage
    element: int = -1
    missing: int = 0


_UNKNOWN: Final = Covered(Coverage.UNKNOWN)
_COMPLETE: Final = Covered(Coverage.COMPLETE)


def coverage(
    size: int, grid: Index3, cluster: Index3, executed: Sequence[int], *, blocks: Elements, elements: Elements
) -> Covered:
    """Determine whether all blocks together write an output.

    Args:
        size: Elements of the output.
        grid: Blocks along x, y, z.
        cluster: Blocks of a cluster along x, y, z.
        executed: Numbers of the blocks that were executed to their end.
        blocks: (stores,) the block of each element that was stored to, ascending per block.
        elements: (stores,) the element, in memory order; ascending for each block.
    """
    total = math.prod(grid)
    if len(executed) == total:
        is_written = np.zeros(size, np.bool_)
        is_written[elements] = True
        return _of_unwritten(np.flatnonzero(~is_written), size)
    written_by = {number: elements[blocks == number] for number in executed}
    model = _model(written_by, grid, cluster)
    if model is None:
        wrapped = _model(_lowest(written_by), grid, cluster)
        stray = -1 if wrapped is None else _wrapped_around(wrapped, written_by, size)
        return Covered(Coverage.INCOMPLETE, stray, 1) if stray >= 0 else _by_counts(size, total, written_by)
    for number, block_elements in written_by.items():
        expected = model.pattern + model.offset(number)
        expected = expected[(expected >= 0) & (expected < size)]
        if not _among(block_elements, expected).all():
            return _by_counts(size, total, written_by)
        left_out = expected[~_among(expected, block_elements)]
        if len(left_out):
            orphan = _without_owner(model, left_out, written_by)
            if orphan is None:
                return _UNKNOWN
            if orphan >= 0:
                return Covered(Coverage.INCOMPLETE, orphan, len(left_out))
    return _union(model, size)


def _among(elements: Elements, sorted_elements: Elements) -> NDArray[np.bool_]:
    """Mark the elements that are also among `sorted_elements`; both ascending."""
    if not len(sorted_elements):
        return np.zeros(len(elements), np.bool_)
    at = np.minimum(np.searchsorted(sorted_elements, elements), len(sorted_elements) - 1)
    return np.asarray(sorted_elements[at] == elements)


def _of_unwritten(missing: Elements, size: int) -> Covered:
    if not len(missing) or not size:
        return _COMPLETE
    return Covered(Coverage.INCOMPLETE, int(missing[0]), len(missing))


def _by_counts(size: int, total: int, written_by: dict[int, Elements]) -> Covered:
    """Compare element counts: too few prove missing elements; equal counts that add up count as complete.

    Blocks are assumed to write at most as many elements as the sampled ones. Elements written by two count once.
    """
    counts = [len(mine) for mine in written_by.values()]
    largest = max(counts, default=0)
    twice = sum(counts) - len(distinct(np.concatenate(list(written_by.values())))) if counts else 0
    at_most = largest * total - twice
    if at_most < size:
        return Covered(Coverage.INCOMPLETE, -1, size - at_most) if largest else _UNKNOWN
    return _COMPLETE if min(counts) == largest and largest * total == size else _UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The elements of a block as a function of its index: a pattern plus an affine offset."""

    grid: Index3
    cluster: Index3
    pattern: Elements
    origin: int
    strides: Index3

    def offset(self, number: int) -> int:
        """Return the offset of a block by its number."""
        place = block_index(number, self.grid, self.cluster)
        return self.origin + sum(stride * int(i) for stride, i in zip(self.strides, place, strict=True))

    @property
    def start(self) -> int:
        """The smallest offset of any block."""
        steps = (stride * (count - 1) for stride, count in zip(self.strides, self.grid, strict=True))
        return self.origin + sum(min(0, step) for step in steps)


def _model(written_by: dict[int, Elements], grid: Index3, cluster: Index3) -> _Model | None:
    """Fit the offsets of the blocks with the largest pattern; None if they are not affine, or too few."""
    patterns: dict[bytes, list[int]] = {}
    for number, block_elements in written_by.items():
        if len(block_elements):
            patterns.setdefault((block_elements - block_elements[0]).tobytes(), []).append(number)
    if not patterns:
        return None
    # clipped blocks write less; the pattern of most blocks decides among the largest
    chosen = max(patterns.values(), key=lambda numbers: (len(written_by[numbers[0]]), len(numbers)))
    index = np.array([block_index(number, grid, cluster) for number in chosen], np.float64)
    axes = [axis for axis in range(3) if grid[axis] > 1]
    columns = np.column_stack([np.ones(len(chosen)), index[:, axes]])
    if np.linalg.matrix_rank(columns) < columns.shape[1] or len(chosen) < columns.shape[1] + 1:
        return None
    offsets = np.array([written_by[number][0] for number in chosen], np.float64)
    solution = np.rint(np.linalg.lstsq(columns, offsets, rcond=None)[0]).astype(np.int64)
    if (columns.astype(np.int64) @ solution != offsets.astype(np.int64)).any():
        return None
    strides = [0, 0, 0]
    for axis, stride in zip(axes, solution[1:].tolist(), strict=True):
        strides[axis] = stride
    pattern = written_by[chosen[0]] - written_by[chosen[0]][0]
    return _Model(grid, cluster, pattern, int(solution[0]), (strides[0], strides[1], strides[2]))


def _lowest(written_by: dict[int, Elements]) -> dict[int, Elements]:
    """Return the leading blocks, by number, whose first elements ascend."""
    leading: dict[int, Elements] = {}
    last = -1
    for number, block_elements in sorted(written_by.items()):
        if len(block_elements):
            if int(block_elements[0]) < last:
                break
            last = int(block_elements[0])
        leading[number] = block_elements
    return leading


def _wrapped_around(model: _Model, written_by: dict[int, Elements], size: int) -> int:
    """Return an element whose block writes a multiple of `_WRAP` before it; -1 if there is none."""
    for number, block_elements in written_by.items():
        if len(block_elements):
            ahead = model.offset(number) - int(block_elements[0])
            if ahead and ahead % _WRAP == 0 and 0 <= model.offset(number) < size:
                return model.offset(number)
    return -1


def _without_owner(model: _Model, left_out: Elements, written_by: dict[int, Elements]) -> int | None:
    """Return an element that a sampled block leaves out and no other block writes; -1 without one, None if unknown.

    Another block counts as the owner of an element if all sampled blocks at the same edges of the grid write at the
    same place of the pattern.
    """
    reach = int(model.pattern[-1])
    if math.prod(model.grid) > _OWNERS and model.strides[0] <= 0:
        return None
    candidates: list[int] = left_out[np.unique(np.linspace(0, len(left_out) - 1, _ASKED).astype(np.int64))].tolist()
    for element in candidates:
        owners = _blocks_near(model, element, reach)
        if owners is None:
            return None
        x, y, z, offsets = owners
        place = element - offsets
        at = np.searchsorted(model.pattern, place)
        hit = model.pattern[np.minimum(at, len(model.pattern) - 1)] == place
        numbers = [
            _edges(model.grid, index) for index in zip(x[hit].tolist(), y[hit].tolist(), z[hit].tolist(), strict=True)
        ]
        if not any(
            _writes(model, edges, int(position), written_by)
            for edges, position in zip(numbers, place[hit], strict=True)
        ):
            return element
    return -1


def _blocks_near(model: _Model, element: int, reach: int) -> tuple[Elements, Elements, Elements, Elements] | None:
    """Return indices and offsets of the blocks whose pattern may reach an element; None if too many."""
    gx, gy, gz = model.grid
    sx, sy, sz = model.strides
    if gy * gz > _OWNERS:
        return None
    y, z = (axis.reshape(-1) for axis in np.meshgrid(np.arange(gy), np.arange(gz), indexing="ij"))
    rows = model.origin + sy * y + sz * z
    if sx > 0:
        low = np.maximum(0, -(-(element - reach - rows) // sx))
        high = np.minimum(gx - 1, (element - rows) // sx)
    else:
        low, high = np.zeros_like(rows), np.full_like(rows, gx - 1)
    counts = np.maximum(0, high - low + 1)
    if int(counts.sum()) > _OWNERS:
        return None
    which = np.repeat(np.arange(len(rows)), counts)
    x = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts) + low[which]
    return x, y[which], z[which], rows[which] + sx * x


def _edges(grid: Index3, index: Sequence[int]) -> tuple[int, ...]:
    """Classify a block as first, last or inner along each axis; a single block is inner."""
    return tuple(
        0 if count == 1 else -1 if i == 0 else 1 if i == count - 1 else 0 for i, count in zip(index, grid, strict=True)
    )


def _writes(model: _Model, edges: tuple[int, ...], place: int, written_by: dict[int, Elements]) -> bool:
    """Return whether all sampled blocks at some edges of the grid write at a place; False without such blocks."""
    alike = [
        number for number in written_by if _edges(model.grid, block_index(number, model.grid, model.cluster)) == edges
    ]
    return bool(alike) and all(_holds(written_by[number], model.offset(number) + place) for number in alike)


def _holds(ordered: Elements, element: int) -> bool:
    at = int(np.searchsorted(ordered, element))
    return at < len(ordered) and int(ordered[at]) == element


def _union(model: _Model, size: int) -> Covered:
    """Return whether the patterns of all blocks reach every element."""
    if model.start > 0:
        return Covered(Coverage.INCOMPLETE, 0, model.start)
    runs = _runs(model.pattern)
    if runs is None:
        return _painted(model, size)
    steps = [(abs(stride), count) for stride, count in zip(model.strides, model.grid, strict=True) if count > 1]
    reached = 1
    for stride, count in sorted([*runs, *steps]):
        if stride > reached:
            return (
                Covered(Coverage.INCOMPLETE, model.start + reached, stride - reached)
                if model.start + reached < size
                else _COMPLETE
            )
        reached += stride * (count - 1)
    end = model.start + reached
    return _COMPLETE if end >= size else Covered(Coverage.INCOMPLETE, end, size - end)


def _runs(pattern: Elements) -> list[tuple[int, int]] | None:
    """Return stride and count of each level of a box-shaped pattern, innermost first; None for others."""
    levels: list[tuple[int, int]] = []
    while len(pattern) > 1:
        stride = int(pattern[1])
        broken = np.flatnonzero(np.diff(pattern) != stride)
        count = int(broken[0]) + 1 if len(broken) else len(pattern)
        if len(pattern) % count:
            return None
        rows = pattern.reshape(-1, count)
        if (rows - rows[:, :1] != stride * np.arange(count)).any():
            return None
        levels.append((stride, count))
        pattern = rows[:, 0]
    return levels


def _painted(model: _Model, size: int) -> Covered:
    """Mark the elements of all blocks one by one, if that is cheap."""
    total = math.prod(model.grid)
    if size > _PAINTED or total * len(model.pattern) > _STORES:
        return _UNKNOWN
    is_written = np.zeros(size, np.bool_)
    x, y, z = (axis.reshape(-1) for axis in np.meshgrid(*map(np.arange, model.grid), indexing="ij"))
    offsets = model.origin + model.strides[0] * x + model.strides[1] * y + model.strides[2] * z
    for offset_chunk in np.array_split(offsets, max(1, len(offsets) * len(model.pattern) // (1 << 20))):
        reached = (offset_chunk[:, None] + model.pattern).reshape(-1)
        is_written[reached[(reached >= 0) & (reached < size)]] = True
    return _of_unwritten(np.flatnonzero(~is_written), size)
