"""NumPy-style indexing, ``a[1:, i]``, for references at selected elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.operators.boxes import Index, Shape
from lab.operators.declared.origins import AxisOrigin, Positions, Separable, at_first


@dataclass(frozen=True, slots=True)
class ArrayIndex:
    """An index that is an array of integers.

    Attributes:
        shape: Its shape.
        part: Its syntax node.
    """

    shape: Shape
    part: Any


Subscript = int | slice | None | ArrayIndex
"""An index along an axis; None for a new axis."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The result of indexing with arrays, which pick one position on several axes per index element.

    Attributes:
        shape: The shape of the result.
        first: The first of the result's axes that come from the indices.
        shared: The broadcast shape of the indices.
        axes: The origin of each axis of the array that does not follow the indices.
        indices: The axes that follow the indices, each with its index.
    """

    shape: Shape
    first: int
    shared: Shape
    axes: tuple[AxisOrigin | None, ...]
    indices: tuple[tuple[int, int | ArrayIndex], ...]


def picked(shape: Shape, subscripts: Sequence[Subscript]) -> Separable | Gathered:
    """Return the result of applying indices to an array of a given shape.

    Raises:
        ValueError: There are more of them than axes, or one is beyond its axis.
    """
    missing = len(shape) - sum(subscript is not None for subscript in subscripts)
    if missing < 0:
        raise ValueError("more indices than axes")
    padded: list[Subscript] = [*subscripts, *[slice(None)] * missing]
    if any(isinstance(subscript, ArrayIndex) for subscript in padded):
        return _gathered(shape, padded)
    sides: list[int] = []
    axes: list[AxisOrigin] = []
    extents = iter(shape)
    for subscript in padded:
        if subscript is None:
            sides.append(1)
        elif isinstance(subscript, slice):
            span = range(*subscript.indices(next(extents)))
            axes.append(AxisOrigin(len(sides), _spanned(span)))
            sides.append(len(span))
        else:
            assert isinstance(subscript, int)  # noqa: S101 - the others are handled above
            axes.append(AxisOrigin(-1, _fixed(place_of(subscript, next(extents)))))
    return Separable(tuple(sides), tuple(axes))


def place_of(index: int, extent: int) -> int:
    """Normalise an index along an axis to a non-negative one.

    Raises:
        ValueError: It is beyond the axis.
    """
    if not -extent <= index < extent:
        raise ValueError(f"index {index} is beyond an axis of {extent}")
    return index % extent


def _spanned(span: range) -> Positions:
    return lambda at: span.start + span.step * at


def _fixed(place: int) -> Positions:
    return lambda at: at_first(at) + place


def _gathered(shape: Shape, subscripts: Sequence[Subscript]) -> Gathered:
    """Resolve indices that include arrays; integers count as arrays among them."""
    chosen = [i for i, subscript in enumerate(subscripts) if isinstance(subscript, int | ArrayIndex)]
    shared = np.broadcast_shapes(*(subscript.shape for subscript in subscripts if isinstance(subscript, ArrayIndex)))
    neighbours = chosen[-1] - chosen[0] + 1 == len(chosen)
    first = chosen[0] if neighbours else 0  # NumPy puts the axes of indices that are apart in front
    sides: list[int] = [] if neighbours else list(shared)
    axes: list[AxisOrigin | None] = []
    indices: list[tuple[int, int | ArrayIndex]] = []
    extents = iter(shape)
    for i, subscript in enumerate(subscripts):
        if neighbours and i == chosen[0]:
            sides += shared
        if subscript is None:
            sides.append(1)
        elif isinstance(subscript, slice):
            span = range(*subscript.indices(next(extents)))
            axes.append(AxisOrigin(len(sides), _spanned(span)))
            sides.append(len(span))
        else:
            extent = next(extents)
            indices.append((len(axes), place_of(subscript, extent) if isinstance(subscript, int) else subscript))
            axes.append(None)
    return Gathered(tuple(sides), first, shared, tuple(axes), tuple(indices))


def positions_within(index: Index, extent: int) -> Index:
    """Normalise positions along an axis to non-negative ones.

    Raises:
        ValueError: One is beyond it.
    """
    if index.size and not (-extent <= int(index.min()) and int(index.max()) < extent):
        raise ValueError(f"an index is beyond an axis of {extent}")
    return np.where(index < 0, index + extent, index)
