"""Functions that move, repeat, slice and create elements; error bounds move along, nothing is rounded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.base.elements import element_named
from lab.operators.declared.elements import ELEMENT_TYPES, ElementKind
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked, between, exact, shown, whole

Shape = int | tuple[int, ...]
"""The shape of an array; a single number means one dimension."""

_PAD_MODES = ("constant", "edge", "wrap", "reflect", "symmetric")


def moved(function: Callable[[NDArray[Any]], Any], x: Tracked) -> Tracked:
    """Move the elements of an array together with their bounds."""
    full = x.full_bound()
    return Tracked(np.asarray(function(x.values)), None if full is None else np.asarray(function(full)))


def transpose(rules: Rules, a: Tracked, axes: Shape | None = None) -> Tracked:
    """Reverse the order of the axes, or put them into a given one."""
    del rules
    return moved(lambda x: np.transpose(x, axes), a)


def swapaxes(rules: Rules, a: Tracked, axis1: int, axis2: int) -> Tracked:
    """Exchange two axes."""
    del rules
    return moved(lambda x: np.swapaxes(x, axis1, axis2), a)


def moveaxis(rules: Rules, a: Tracked, source: int, destination: int) -> Tracked:
    """Move an axis to another place."""
    del rules
    return moved(lambda x: np.moveaxis(x, source, destination), a)


def reshape(rules: Rules, a: Tracked, shape: Shape) -> Tracked:
    """Give the elements, in C order, another shape; -1 stands for what is left."""
    del rules
    return moved(lambda x: np.reshape(x, shape), a)


def ravel(rules: Rules, a: Tracked) -> Tracked:
    """Return the elements in C order, in one dimension."""
    del rules
    return moved(np.ravel, a)


def squeeze(rules: Rules, a: Tracked) -> Tracked:
    """Leave out dimensions of 1."""
    del rules
    return moved(np.squeeze, a)


def expand_dims(rules: Rules, a: Tracked, axis: int) -> Tracked:
    """Add a dimension of 1."""
    del rules
    return moved(lambda x: np.expand_dims(x, axis), a)


def flip(rules: Rules, a: Tracked, axis: int | None = None) -> Tracked:
    """Reverse the elements along an axis, or along all."""
    del rules
    return moved(lambda x: np.flip(x, axis), a)


def roll(rules: Rules, a: Tracked, shift: Shape, axis: Shape | None = None) -> Tracked:
    """Shift the elements; those that leave at the end come in at the beginning."""
    del rules
    return moved(lambda x: np.roll(x, shift, axis), a)


def broadcast_to(rules: Rules, a: Tracked, shape: Shape) -> Tracked:
    """Repeat an array along dimensions of 1 and missing ones."""
    rules.check_size(_tuple(shape))
    return moved(lambda x: np.broadcast_to(x, shape), a)


def repeat(rules: Rules, a: Tracked, repeats: int, axis: int | None = None) -> Tracked:
    """Repeat each element."""
    rules.check_size([a.values.size, max(0, repeats)])
    return moved(lambda x: np.repeat(x, repeats, axis), a)


def tile(rules: Rules, a: Tracked, reps: Shape) -> Tracked:
    """Repeat the whole array along each axis."""
    rules.check_size([a.values.size, *(max(0, count) for count in _tuple(reps))])
    return moved(lambda x: np.tile(x, reps), a)


def pad(
    rules: Rules, a: Tracked, pad_width: tuple[Any, ...] | int, mode: str = "constant", constant_values: float = 0
) -> Tracked:
    """Add elements around an array, 1 or (1, 2) or ((1, 1), (0, 0)) of them; `mode` as in NumPy."""
    if mode not in _PAD_MODES:
        raise ArrayOperationError(f"unknown mode {mode!r}", ", ".join(_PAD_MODES))
    widths = np.broadcast_to(np.asarray(pad_width), (a.values.ndim, 2))
    if np.any(widths < 0):
        raise ArrayOperationError("a negative width", "integers of at least 0")
    sides = [(int(before), int(after)) for before, after in widths]
    rules.check_size([n + before + after for n, (before, after) in zip(a.shape, sides, strict=True)])
    if mode != "constant":
        return moved(lambda x: np.pad(x, sides, mode=mode), a)  # type: ignore[call-overload]
    values = np.pad(a.values, sides, constant_values=np.asarray(constant_values, a.values.dtype))
    full = a.full_bound()
    return Tracked(values, None if full is None else np.pad(full, sides))


def concatenate(rules: Rules, arrays: tuple[Tracked, ...], axis: int = 0) -> Tracked:
    """Join a list of arrays along an axis."""
    return _joined(rules, arrays, lambda parts: np.concatenate(parts, axis))


def stack(rules: Rules, arrays: tuple[Tracked, ...], axis: int = 0) -> Tracked:
    """Join a list of arrays along a new axis."""
    return _joined(rules, arrays, lambda parts: np.stack(parts, axis))


def _joined(rules: Rules, arrays: tuple[Tracked, ...], join: Callable[[list[Any]], Any]) -> Tracked:
    if not arrays:
        raise ArrayOperationError("nothing to join", "a list of arrays: [a, b]")
    rules.check_size([sum(x.values.size for x in arrays)])
    if any(x.is_float for x in arrays):
        arrays = tuple(rules.real(x) for x in arrays)
    elif any(x.values.dtype == np.uint64 for x in arrays):
        arrays = tuple(Tracked(x.values.astype(np.uint64), x.bound) for x in arrays)
    values = np.asarray(join([x.values for x in arrays]))
    if all(x.bound is None for x in arrays):
        return Tracked(values)
    return Tracked(values, np.asarray(join([np.broadcast_to(x.spread, x.shape) for x in arrays])))


def diff(rules: Rules, a: Tracked, axis: int = -1) -> Tracked:
    """Return the differences of neighbours along an axis."""
    later, earlier = (
        moved(lambda x, s=span: np.moveaxis(np.moveaxis(x, axis, 0)[s], 0, axis), a)  # type: ignore[misc]
        for span in (slice(1, None), slice(None, -1))
    )
    return rules.subtract(later, earlier)


def sort(rules: Rules, a: Tracked, axis: int = -1) -> Tracked:
    """Sort along an axis. No place of the result is off by more than the worst element is."""
    del rules
    values = np.sort(a.values, axis=axis)
    full = a.full_bound()
    return Tracked(values, None if full is None else np.max(full, axis=axis, keepdims=True))


def argsort(rules: Rules, a: Tracked, axis: int = -1) -> Tracked:
    """Return the indices that sort along an axis; equal elements stay in their order."""
    del rules
    exact("the order of what is sorted", a)
    return Tracked(np.argsort(a.values, axis=axis, kind="stable").astype(np.int64))


def searchsorted(rules: Rules, a: Tracked, v: Tracked, side: str = "left") -> Tracked:
    """Return where each value of v belongs in the sorted vector a."""
    del rules
    if side not in ("left", "right"):
        raise ArrayOperationError(f"unknown side {side!r}", "left, right")
    exact("a place among sorted values", a, v)
    places = np.searchsorted(a.values, v.values, side="left" if side == "left" else "right")
    return Tracked(np.asarray(places, np.int64))


def take(rules: Rules, a: Tracked, indices: Tracked, axis: int | None = None) -> Tracked:
    """Return the elements, or along an axis the parts, at some indices (gather)."""
    whole("an index", indices)
    exact("an index", indices)
    chosen = indices.values.astype(np.int64)
    elements_per_index = 1 if axis is None or not a.shape else a.values.size // max(1, a.shape[axis])
    rules.check_size([chosen.size, elements_per_index])
    return moved(lambda x: np.take(x, chosen, axis), a)


def take_along_axis(rules: Rules, a: Tracked, indices: Tracked, axis: int) -> Tracked:
    """Return, at each place, the element at an index of its own along an axis."""
    del rules
    whole("an index", indices)
    exact("an index", indices)
    return moved(lambda x: np.take_along_axis(x, indices.values.astype(np.int64), axis), a)


def tril(rules: Rules, a: Tracked, k: int = 0) -> Tracked:
    """Return the lower triangle; zeros above the diagonal k."""
    del rules
    return moved(lambda x: np.tril(x, k), a)


def triu(rules: Rules, a: Tracked, k: int = 0) -> Tracked:
    """Return the upper triangle; zeros below the diagonal k."""
    del rules
    return moved(lambda x: np.triu(x, k), a)


def diagonal(rules: Rules, a: Tracked, offset: int = 0) -> Tracked:
    """Return the diagonal of a matrix."""
    del rules
    return moved(lambda x: np.diagonal(x, offset), a)


# ---- arrays from nothing


def zeros(rules: Rules, shape: Shape) -> Tracked:
    """Return zeros."""
    return full(rules, shape, Tracked(np.asarray(0.0)))


def ones(rules: Rules, shape: Shape) -> Tracked:
    """Return ones."""
    return full(rules, shape, Tracked(np.asarray(1.0)))


def full(rules: Rules, shape: Shape, fill_value: Tracked) -> Tracked:
    """Return an array of one number."""
    return broadcast_to(rules, fill_value, shape)


def zeros_like(rules: Rules, a: Tracked) -> Tracked:
    """Return zeros of the shape and kind of another array."""
    del rules
    return Tracked(np.zeros_like(a.values))


def ones_like(rules: Rules, a: Tracked) -> Tracked:
    """Return ones of the shape and kind of another array."""
    del rules
    return Tracked(np.ones_like(a.values))


def full_like(rules: Rules, a: Tracked, fill_value: Tracked) -> Tracked:
    """Return an array of one number of the shape of another array."""
    return full(rules, a.shape, fill_value)


def eye(rules: Rules, n: int, m: int | None = None) -> Tracked:
    """Return ones on the diagonal and zeros elsewhere."""
    rules.check_size([n, m or n])
    return Tracked(np.eye(n, m))


def arange(rules: Rules, start: float, stop: float | None = None, step: float = 1) -> Tracked:
    """Return start, start + step, … below stop; of one operand, 0, 1, … below it."""
    first, last = (0, start) if stop is None else (start, stop)
    if not step or not math.isfinite(last - first) or not math.isfinite(step):
        raise ArrayOperationError("a step of 0 or an infinite range", "finite numbers, and a step other than 0")
    count = max(0, math.ceil((last - first) / step))
    rules.check_size([count])
    if all(isinstance(number, int) for number in (first, last, step)):
        return Tracked(np.arange(first, last, step, dtype=np.int64))
    return rules.rounded(first + step * np.arange(count, dtype=np.float64), None)


def linspace(rules: Rules, start: float, stop: float, num: int = 50) -> Tracked:
    """Return numbers from start to stop at equal distances, both included."""
    rules.check_size([num])
    return rules.rounded(np.linspace(start, stop, num), np.asarray(rules.arithmetic.unit * (abs(start) + abs(stop))))


# ---- types


def astype(rules: Rules, a: Tracked, dtype: str) -> Tracked:
    """Convert to a type as C does: integers wrap around, floats are cut off at the point, or rounded."""
    del rules
    requested, dtype = dtype, element_named(dtype) or ""
    if dtype not in ELEMENT_TYPES:
        raise ArrayOperationError(f"unknown type {requested!r}", ", ".join(ELEMENT_TYPES))
    element = ELEMENT_TYPES[dtype]
    x = a
    if element.kind is ElementKind.INTEGER and x.is_float:
        x = between(np.trunc, x)
        if not np.all((x.values >= -(2.0**63)) & (x.values < 2.0**64)):
            raise ArrayOperationError(f"{dtype} of a number beyond 64 bits, or of NaN", "numbers within 64 bits")
        with np.errstate(invalid="ignore"):  # of numbers that the other one of the two types holds
            signed, unsigned = x.values.astype(np.int64), x.values.astype(np.uint64)
        x = Tracked(np.where(x.values < 0, signed.view(np.uint64), unsigned), x.bound)
    if element.kind in (ElementKind.INTEGER, ElementKind.BOOL):
        return Tracked(element.widened(element.stored(x.values)), x.bound)
    if element.kind is ElementKind.FLOAT and x.values.dtype.kind == "c":
        raise ArrayOperationError(f"{dtype} of complex numbers", "real(x) or imag(x)")
    values = element.widened(element.stored(x.values)).astype(element.wide)
    if x.bound is None:
        return Tracked(values)
    return Tracked(values, x.bound + np.abs(x.values) * 2 * element.storing.unit + element.storing.least)


def converter(dtype: str) -> Callable[[Rules, Tracked], Tracked]:
    """Return the function that converts to a type."""

    def convert(rules: Rules, a: Tracked) -> Tracked:
        return astype(rules, a, dtype)

    convert.__doc__ = f"Convert to {dtype} as C does."
    return convert


# ---- indexing

Index = int | slice | None | NDArray[Any]


def item(rules: Rules, a: Tracked, index: tuple[Index, ...]) -> Tracked:
    """Return the result of NumPy indexing with numbers, slices, None and arrays of integers or booleans.

    Raises:
        ArrayOperationError: The index does not fit the array.
    """
    try:
        arrays = [np.asarray(subscript) for subscript in index if isinstance(subscript, np.ndarray)]
        if arrays:
            rules.check_size(
                [math.prod(np.broadcast_shapes(*(array.shape for array in arrays))), *a.shape[len(arrays) :]]
            )
        return moved(lambda x: x[index], a)
    except (IndexError, ValueError) as error:
        raise ArrayOperationError(f"{error} (the array's shape is {shown(a.shape)})") from error


def _tuple(shape: Shape) -> tuple[int, ...]:
    if any(n < 0 for n in (shape if isinstance(shape, tuple) else (shape,))):
        raise ArrayOperationError("a negative size", "integers of at least 0")
    return shape if isinstance(shape, tuple) else (shape,)
