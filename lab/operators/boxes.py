"""Selected array elements as boxes, the Cartesian products of positions along each axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
"""Selected positions along an axis, or selected flat indices."""

Box = tuple[Index, ...]
"""Selected elements: the Cartesian product of the positions along each axis."""

Shape = tuple[int, ...]

_MOST_RUNS: Final = 1 << 12
"""Maximum number of contiguous runs that are split into boxes."""


def boxes(elements: Index, shape: Shape) -> Iterator[tuple[Box, Index]]:
    """Split elements into boxes; yield each with the positions of its elements, in C order, in `elements`."""
    if not shape:
        yield (), np.arange(len(elements))
        return
    coordinates = np.unravel_index(elements, shape)
    for box, places in _split([np.asarray(axis, np.int64) for axis in coordinates], np.arange(len(elements))):
        yield box, places.reshape(-1)


def _split(axes: list[Index], places: Index) -> list[tuple[Box, Index]]:
    """Split points, in ascending order, into boxes with the positions of their elements."""
    if len(axes) == 1:
        return [((axes[0],), places)]
    starts = np.flatnonzero(np.concatenate([[True], axes[0][1:] != axes[0][:-1]]))
    alike: dict[tuple[bytes, ...], tuple[list[int], list[Index], Box]] = {}
    for start, stop in zip(starts, np.append(starts[1:], len(places)), strict=True):
        for box, inner in _split([axis[start:stop] for axis in axes[1:]], places[start:stop]):
            key = tuple(axis.tobytes() for axis in box)
            rows = alike.setdefault(key, ([], [], box))
            rows[0].append(int(axes[0][start]))
            rows[1].append(inner)
    return [((np.array(firsts), *box), np.stack(inner)) for firsts, inner, box in alike.values()]


def fewer(elements: Index, shape: Shape, max_boxes: int) -> Index:
    """Return the elements of at most `max_boxes` boxes, the first and the last box included.

    Args:
        elements: (count,) flat indices in C order, ascending.
        shape: The shape of the array.
        max_boxes: Maximum number of boxes, at least 1.

    Returns:
        Flat indices, ascending.
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(elements) != 1) + 1, [len(elements)]])
    if len(starts) - 1 > _MOST_RUNS:
        runs = _spread(len(starts) - 1, _MOST_RUNS)
        elements = np.concatenate([elements[starts[i] : starts[i + 1]] for i in runs])
    box_places = [places for _, places in boxes(elements, shape)]
    if len(box_places) <= max_boxes:
        return elements
    return np.sort(np.concatenate([elements[box_places[i]] for i in _spread(len(box_places), max_boxes)]))


def _spread(count: int, limit: int) -> list[int]:
    """Return `limit` of the first `count` integers, evenly spaced."""
    return [int(i) for i in np.unique(np.linspace(0, count - 1, min(limit, count)).astype(np.int64))]


def thinned(elements: Index, shape: Shape, max_positions: int) -> Index:
    """Thin each box of some elements to at most `max_positions` positions per axis, ends included.

    Args:
        elements: (count,) flat indices in C order, ascending.
        shape: The shape of the array.
        max_positions: Maximum number of positions along an axis, at least 2.

    Returns:
        Flat indices, ascending.
    """
    selected = []
    for box, places in boxes(elements, shape):
        sides = tuple(map(len, box))
        chosen = (
            np.ix_(*(np.unique(np.linspace(0, n - 1, max_positions).astype(np.int64)) for n in sides)) if sides else ()
        )
        selected.append(elements[places].reshape(sides)[chosen].reshape(-1))
    return np.sort(np.concatenate(selected)) if selected else elements


def aligned(operand_shape: Shape, shape: Shape, box: Box) -> Box:
    """Return the box of an operand that a box of its broadcast result needs."""
    behind = box[len(box) - len(operand_shape) :] if operand_shape else ()
    sizes = shape[len(shape) - len(operand_shape) :] if operand_shape else ()
    return tuple(
        np.zeros(1, np.int64) if n == 1 and size != 1 else positions
        for n, size, positions in zip(operand_shape, sizes, behind, strict=True)
    )
