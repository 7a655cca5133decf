"""Source elements of moved arrays, for references at selected elements.

Each function takes the shape of an array and the operands of the function of its name in
`lab.operators.declared.movement`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.operators.boxes import Box, Index, Shape

Positions = Callable[[Index], Index]
"""Maps selected positions along an axis of the result to positions along an axis of the array."""


@dataclass(frozen=True, slots=True)
class AxisOrigin:
    """The source positions along one axis of a moved array.

    Attributes:
        axis: The axis of the result that determines them; -1 if all elements have the same position.
        positions: Maps positions along that axis; any position if there is none.
    """

    axis: int
    positions: Positions


@dataclass(frozen=True, slots=True)
class Separable:
    """A moved array each of whose axes follows at most one axis of the result.

    Attributes:
        shape: The shape of the result.
        axes: The origin of each axis of the array.
    """

    shape: Shape
    axes: tuple[AxisOrigin, ...]

    def source(self, box: Box) -> Box:
        """Return the elements of the array behind selected elements of the result."""
        nothing = np.zeros(1, np.int64)
        return tuple(origin.positions(box[origin.axis] if origin.axis >= 0 else nothing) for origin in self.axes)

    def placed(self, elements: NDArray[Any], box: Box) -> NDArray[Any]:
        """Return the elements of `source` in the layout of the result."""
        followed = sorted((origin.axis, i) for i, origin in enumerate(self.axes) if origin.axis >= 0)
        dropped = [i for i, origin in enumerate(self.axes) if origin.axis < 0]
        sizes = {axis: elements.shape[i] for axis, i in followed}
        transposed = elements.transpose([*(i for _, i in followed), *dropped])
        return np.broadcast_to(transposed.reshape([sizes.get(i, 1) for i in range(len(box))]), tuple(map(len, box)))


@dataclass(frozen=True, slots=True)
class Flat:
    """A moved array whose flat indices follow from those of the result.

    Attributes:
        shape: The shape of the result.
        positions: Maps flat indices of the result to those of the array.
    """

    shape: Shape
    positions: Positions


Origin = Separable | Flat


def flat_indices(box: Box, shape: Shape) -> Index:
    """Return the flat indices of the elements of a box, in its shape."""
    flat = np.zeros((), np.int64)
    for axis, extent in zip(np.ix_(*box) if box else (), shape, strict=True):
        flat = flat * extent + axis
    return flat


def same(at: Index) -> Index:
    """Return positions unchanged."""
    return at


def at_first(at: Index) -> Index:
    """Return position 0 for each."""
    return np.zeros(len(at), np.int64)


def _ordered(shape: Shape, order: Sequence[int]) -> Separable:
    """Return an array with its axes reordered."""
    axes = tuple(AxisOrigin(order.index(i), same) for i in range(len(shape)))
    return Separable(tuple(shape[i] for i in order), axes)


def _along(shape: Shape, axis: int, extent: int, positions: Positions) -> Separable:
    """Return an array changed along one axis."""
    axis %= len(shape)
    axes = tuple(AxisOrigin(i, positions if i == axis else same) for i in range(len(shape)))
    return Separable((*shape[:axis], extent, *shape[axis + 1 :]), axes)


def _transpose(shape: Shape, axes: int | tuple[int, ...] | None = None) -> Origin:
    order = range(len(shape))[::-1] if axes is None else _tuple(axes)
    return _ordered(shape, [i % len(shape) for i in order])


def _swapaxes(shape: Shape, axis1: int, axis2: int) -> Origin:
    order = list(range(len(shape)))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return _ordered(shape, order)


def _moveaxis(shape: Shape, source: int, destination: int) -> Origin:
    order = [i for i in range(len(shape)) if i != source % len(shape)]
    order.insert(destination % len(shape), source % len(shape))
    return _ordered(shape, order)


def _reshape(shape: Shape, new: int | tuple[int, ...]) -> Origin:
    sides = list(_tuple(new))
    if -1 in sides:
        sides[sides.index(-1)] = math.prod(shape) // max(1, -math.prod(sides))
    if math.prod(sides) != math.prod(shape):
        raise ValueError(f"an array of shape {shape} has no shape {new}")
    return Flat(tuple(sides), same)


def _ravel(shape: Shape) -> Origin:
    return Flat((math.prod(shape),), same)


def _squeeze(shape: Shape) -> Origin:
    kept_axes = [i for i, extent in enumerate(shape) if extent != 1]
    axes = tuple(
        AxisOrigin(kept_axes.index(i), same) if i in kept_axes else AxisOrigin(-1, at_first) for i in range(len(shape))
    )
    return Separable(tuple(shape[i] for i in kept_axes), axes)


def _expand_dims(shape: Shape, axis: int) -> Origin:
    axis %= len(shape) + 1
    axes = tuple(AxisOrigin(i + (i >= axis), same) for i in range(len(shape)))
    return Separable((*shape[:axis], 1, *shape[axis:]), axes)


def _flip(shape: Shape, axis: int | None = None) -> Origin:
    def turned(extent: int) -> Positions:
        return lambda at: extent - 1 - at

    flipped = range(len(shape)) if axis is None else [axis % len(shape)]
    return Separable(
        shape, tuple(AxisOrigin(i, turned(extent) if i in flipped else same) for i, extent in enumerate(shape))
    )


def _roll(shape: Shape, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None) -> Origin:
    def turned(by: int, extent: int) -> Positions:
        return lambda at: (at - by) % extent

    if axis is None:
        return Flat(shape, turned(int(np.sum(shift)), math.prod(shape)))
    axes = _tuple(axis)
    shifts = _tuple(shift) * (len(axes) if isinstance(shift, int) else 1)
    by = [sum(s for s, i in zip(shifts, axes, strict=True) if i % len(shape) == j) for j in range(len(shape))]
    return Separable(shape, tuple(AxisOrigin(i, turned(by[i], extent)) for i, extent in enumerate(shape)))


def _repeat(shape: Shape, repeats: int, axis: int | None = None) -> Origin:
    def divided(at: Index) -> Index:
        return at // repeats

    if axis is None:
        return Flat((math.prod(shape) * repeats,), divided)
    return _along(shape, axis, shape[axis] * repeats, divided)


def _tile(shape: Shape, reps: int | tuple[int, ...]) -> Origin:
    def within(extent: int) -> Positions:
        return lambda at: at % extent

    counts = _tuple(reps)
    count = max(len(counts), len(shape))
    sides, counts = ((1,) * (count - len(extents)) + extents for extents in (shape, counts))
    axes = tuple(AxisOrigin(i + count - len(shape), within(extent)) for i, extent in enumerate(shape))
    return Separable(tuple(n * r for n, r in zip(sides, counts, strict=True)), axes)


def _broadcast_to(shape: Shape, new: int | tuple[int, ...]) -> Origin:
    sides = _tuple(new)
    if np.broadcast_shapes(shape, sides) != sides:
        raise ValueError(f"an array of shape {shape} is not broadcast to {new}")
    added = len(sides) - len(shape)
    axes = tuple(
        AxisOrigin(-1, at_first) if extent == 1 else AxisOrigin(i + added, same) for i, extent in enumerate(shape)
    )
    return Separable(sides, axes)


def _diagonal(shape: Shape, offset: int = 0) -> Origin:
    rows, columns = shape
    first, second = max(0, -offset), max(0, offset)
    return Flat((max(0, min(rows - first, columns - second)),), lambda at: (at + first) * columns + at + second)


ORIGINS: Final[Mapping[str, Callable[..., Origin]]] = {
    "transpose": _transpose,
    "swapaxes": _swapaxes,
    "moveaxis": _moveaxis,
    "reshape": _reshape,
    "ravel": _ravel,
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "flip": _flip,
    "roll": _roll,
    "repeat": _repeat,
    "tile": _tile,
    "broadcast_to": _broadcast_to,
    "diagonal": _diagonal,
}
"""By function name; a `ValueError` means that operands do not fit."""


def padded(extent: int, before: int, mode: str, at: Index) -> tuple[Index, NDArray[np.bool_]]:
    """Return the source positions of elements of a padded axis, and a mask of those inside the original axis.

    Args:
        extent: Elements along the axis before it is padded.
        before: Elements added in front of it.
        mode: As of `numpy.pad`.
        at: Positions along the padded axis.
    """
    unpadded = at - before
    inside = (unpadded >= 0) & (unpadded < extent)
    last = extent - 1
    match mode:
        case "wrap":
            sources = unpadded % extent
        case "reflect":
            turned = unpadded % max(1, 2 * last)
            sources = np.where(turned > last, 2 * last - turned, turned)
        case "symmetric":
            turned = unpadded % (2 * extent)
            sources = np.where(turned > last, 2 * extent - 1 - turned, turned)
        case _:
            sources = np.clip(unpadded, 0, last)
    return sources, inside


def _tuple(numbers: int | tuple[int, ...]) -> tuple[int, ...]:
    return numbers if isinstance(numbers, tuple) else (numbers,)
