"""Chosen elements of an array as boxes: every combination of some positions along each axis."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
"""Chosen positions along an axis, or chosen flat indices."""

Box = tuple[Index, ...]
"""Chosen elements: every combination of the positions along each axis."""

Shape = tuple[int, ...]


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
