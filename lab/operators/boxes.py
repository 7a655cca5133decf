"""Chosen elements of an array as boxes: every combination of some positions along each axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
"""Chosen positions along an axis, or chosen flat indices."""

Box = tuple[Index, ...]
"""Chosen elements: every combination of the positions along each axis."""

Shape = tuple[int, ...]

_MOST_RUNS: Final = 1 << 12
"""Runs of neighbours that are split into boxes."""


def boxes(elements: Index, shape: Shape) -> Iterator[tuple[Box, Index]]:
    """Split elements into boxes; yield each with the places of its elements, in C order, among all."""
    if not shape:
        yield (), np.arange(len(elements))
        return
    coordinates = np.unravel_index(elements, shape)
    for box, places in _split([np.asarray(axis, np.int64) for axis in coordinates], np.arange(len(elements))):
        yield box, places.reshape(-1)


def _split(axes: list[Index], places: Index) -> list[tuple[Box, Index]]:
    """Split points, in ascending order, into boxes with the places of their elements."""
    if len(axes) == 1:
        return [((axes[0],), places)]
    starts = np.flatnonzero(np.concatenate([[True], axes[0][1:] != axes[0][:-1]]))
    alike: dict[tuple[bytes, ...], tuple[list[int], list[Index], Box]] = {}
    for start, stop in zip(starts, np.append(starts[1:], len(places)), strict=True):
        for box, inner in _split([axis[start:stop] for axis in axes[1:]], places[start:stop]):
            key = tuple(one.tobytes() for one in box)
            rows = alike.setdefault(key, ([], [], box))
            rows[0].append(int(axes[0][start]))
            rows[1].append(inner)
    return [((np.array(firsts), *box), np.stack(inner)) for firsts, inner, box in alike.values()]


def fewer(elements: Index, shape: Shape, most: int) -> Index:
    """Return those of some elements that lie in at most `most` boxes, the first and the last one among them.

    Args:
        elements: (count,) flat indices in C order, ascending.
        shape: The shape of the array.
        most: Boxes, at least 1.

    Returns:
        Flat indices, ascending.
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(elements) != 1) + 1, [len(elements)]])
    if len(starts) - 1 > _MOST_RUNS:
        runs = _spread(len(starts) - 1, _MOST_RUNS)
        elements = np.concatenate([elements[starts[i] : starts[i + 1]] for i in runs])
    found = [places for _, places in boxes(elements, shape)]
    if len(found) <= most:
        return elements
    return np.sort(np.concatenate([elements[found[i]] for i in _spread(len(found), most)]))


def _spread(count: int, most: int) -> list[int]:
    """Return `most` of the first `count` integers, evenly spread."""
    return [int(i) for i in np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))]


def thinned(elements: Index, shape: Shape, most: int) -> Index:
    """Return at most `most` positions along each axis of every box of some elements, the ends among them.

    Args:
        elements: (count,) flat indices in C order, ascending.
        shape: The shape of the array.
        most: Positions along an axis, at least 2.

    Returns:
        Flat indices, ascending.
    """
    kept = []
    for box, places in boxes(elements, shape):
        sides = tuple(map(len, box))
        chosen = np.ix_(*(np.unique(np.linspace(0, n - 1, most).astype(np.int64)) for n in sides)) if sides else ()
        kept.append(elements[places].reshape(sides)[chosen].reshape(-1))
    return np.sort(np.concatenate(kept)) if kept else elements


def aligned(own: Shape, shape: Shape, box: Box) -> Box:
    """Return the elements of an operand that chosen ones of what it is broadcast to need."""
    behind = box[len(box) - len(own) :] if own else ()
    sizes = shape[len(shape) - len(own) :] if own else ()
    return tuple(
        np.zeros(1, np.int64) if n == 1 and size != 1 else one for n, size, one in zip(own, sizes, behind, strict=True)
    )
