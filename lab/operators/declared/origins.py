"""Origins of the elements of moved arrays, for references that are evaluated at chosen elements alone.

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
"""From chosen positions along an axis of the result to positions along an axis of the array."""


@dataclass(frozen=True, slots=True)
class AxisOrigin:
    """The positions along one axis of an array that its moved elements have.

    Attributes:
        axis: The axis of the result that decides them; -1 where all elements have the same one.
        positions: From positions along that axis; of any one position where there is none.
    """

    axis: int
    positions: Positions


@dataclass(frozen=True, slots=True)
class Separable:
    """A moved array, each of whose axes follows one axis of the result at most.

    Attributes:
        shape: The shape of the result.
        axes: Of each axis of the array.
    """

    shape: Shape
    axes: tuple[AxisOrigin, ...]

    def source(self, box: Box) -> Box:
        """Return the elements of the array that chosen ones of the result are."""
        nothing = np.zeros(1, np.int64)
        return tuple(one.positions(box[one.axis] if one.axis >= 0 else nothing) for one in self.axes)

    def placed(self, held: NDArray[Any], box: Box) -> NDArray[Any]:
        """Return the elements of `source` as the result has them."""
        kept = sorted((one.axis, i) for i, one in enumerate(self.axes) if one.axis >= 0)
        gone = [i for i, one in enumerate(self.axes) if one.axis < 0]
        sizes = {axis: held.shape[i] for axis, i in kept}
        moved = held.transpose([*(i for _, i in kept), *gone])
        return np.broadcast_to(moved.reshape([sizes.get(i, 1) for i in range(len(box))]), tuple(map(len, box)))


@dataclass(frozen=True, slots=True)
class Flat:
    """A moved array whose elements have a place in C order that follows that of the result.

    Attributes:
        shape: The shape of the result.
        positions: From flat indices of the result to those of the array.
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
    """Return positions that nothing moves."""
    return at


def at_first(at: Index) -> Index:
    """Return the first position for each."""
    return np.zeros(len(at), np.int64)


def _ordered(shape: Shape, order: Sequence[int]) -> Separable:
    """Return an array whose axes are in another order."""
    axes = tuple(AxisOrigin(order.index(i), same) for i in range(len(shape)))
    return Separable(tuple(shape[i] for i in order), axes)


def _along(shape: Shape, axis: int, extent: int, positions: Positions) -> Separable:
    """Return an array that is changed along one axis."""
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
    kept = [i for i, extent in enumerate(shape) if extent != 1]
    axes = tuple(AxisOrigin(kept.index(i), same) if i in kept else AxisOrigin(-1, at_first) for i in range(len(shape)))
    return Separable(tuple(shape[i] for i in kept), axes)


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
    sides, counts = ((1,) * (count - len(one)) + one for one in (shape, counts))
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
"""By the function's name; a `ValueError` says that operands do not fit."""


def padded(extent: int, before: int, mode: str, at: Index) -> tuple[Index, NDArray[np.bool_]]:
    """Return the positions that elements of a padded axis come from, and which of them it had before.

    Args:
        extent: Elements along the axis before it is padded.
        before: Elements that are put in front of it.
        mode: As of `numpy.pad`.
        at: Positions along the padded axis.
    """
    moved = at - before
    inside = (moved >= 0) & (moved < extent)
    last = extent - 1
    match mode:
        case "wrap":
            found = moved % extent
        case "reflect":
            turned = moved % max(1, 2 * last)
            found = np.where(turned > last, 2 * last - turned, turned)
        case "symmetric":
            turned = moved % (2 * extent)
            found = np.where(turned > last, 2 * extent - 1 - turned, turned)
        case _:
            found = np.clip(moved, 0, last)
    return found, inside


def _tuple(given: int | tuple[int, ...]) -> tuple[int, ...]:
    return given if isinstance(given, tuple) else (given,)
