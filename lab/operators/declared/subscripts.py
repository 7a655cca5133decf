"""Indices between brackets, as NumPy reads them: ``a[1:, i]``, for references at chosen elements alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.operators.boxes import Index, Shape
from lab.operators.declared.origins import AxisOrigin, Positions, Separable, at_first


@dataclass(frozen=True, slots=True)
class ArrayIndex:
    """An index that is an array of whole numbers.

    Attributes:
        shape: Its shape.
        part: Names it.
    """

    shape: Shape
    part: Any


Subscript = int | slice | None | ArrayIndex
"""Of an axis; None for a new one."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The elements that arrays among the indices pick: one position of several axes for each of theirs.

    Attributes:
        shape: The shape of the result.
        first: The first of the result's axes that are those of the indices.
        shared: The shape that the indices are broadcast to.
        axes: Of each axis of the array, where it does not follow the indices.
        indices: The axes that do, each with its index.
    """

    shape: Shape
    first: int
    shared: Shape
    axes: tuple[AxisOrigin | None, ...]
    indices: tuple[tuple[int, int | ArrayIndex], ...]


def picked(shape: Shape, subscripts: Sequence[Subscript]) -> Separable | Gathered:
    """Return what indices pick of an array of a shape.

    Raises:
        ValueError: There are more of them than axes, or one is beyond its axis.
    """
    missing = len(shape) - sum(one is not None for one in subscripts)
    if missing < 0:
        raise ValueError("more indices than axes")
    whole: list[Subscript] = [*subscripts, *[slice(None)] * missing]
    if any(isinstance(one, ArrayIndex) for one in whole):
        return _gathered(shape, whole)
    sides: list[int] = []
    axes: list[AxisOrigin] = []
    extents = iter(shape)
    for one in whole:
        if one is None:
            sides.append(1)
        elif isinstance(one, slice):
            span = range(*one.indices(next(extents)))
            axes.append(AxisOrigin(len(sides), _spanned(span)))
            sides.append(len(span))
        else:
            assert isinstance(one, int)  # noqa: S101 - the others are handled above
            axes.append(AxisOrigin(-1, _fixed(place_of(one, next(extents)))))
    return Separable(tuple(sides), tuple(axes))


def place_of(index: int, extent: int) -> int:
    """Return an index along an axis, counted from its beginning.

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
    """Read indices with arrays among them; whole numbers count as arrays beside them."""
    chosen = [i for i, one in enumerate(subscripts) if isinstance(one, int | ArrayIndex)]
    shared = np.broadcast_shapes(*(one.shape for one in subscripts if isinstance(one, ArrayIndex)))
    neighbours = chosen[-1] - chosen[0] + 1 == len(chosen)
    first = chosen[0] if neighbours else 0  # NumPy puts the axes of indices that are apart in front
    sides: list[int] = [] if neighbours else list(shared)
    axes: list[AxisOrigin | None] = []
    indices: list[tuple[int, int | ArrayIndex]] = []
    extents = iter(shape)
    for i, one in enumerate(subscripts):
        if neighbours and i == chosen[0]:
            sides += shared
        if one is None:
            sides.append(1)
        elif isinstance(one, slice):
            span = range(*one.indices(next(extents)))
            axes.append(AxisOrigin(len(sides), _spanned(span)))
            sides.append(len(span))
        else:
            extent = next(extents)
            indices.append((len(axes), place_of(one, extent) if isinstance(one, int) else one))
            axes.append(None)
    return Gathered(tuple(sides), first, shared, tuple(axes), tuple(indices))


def positions_within(index: Index, extent: int) -> Index:
    """Return positions counted from the beginning of an axis.

    Raises:
        ValueError: One is beyond it.
    """
    if index.size and not (-extent <= int(index.min()) and int(index.max()) < extent):
        raise ValueError(f"an index is beyond an axis of {extent}")
    return np.where(index < 0, index + extent, index)
