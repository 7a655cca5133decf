"""Reductions along axes, matrix products and other operations that add many terms.

A sum of n terms, in whatever order, is off by at most (n - 1) u Σ|x|. That is far more than it ever is: rounding errors
are independent of each other and cancel, so that the error of a long sum grows like sqrt(n) u times the partial sums
(N. J. Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019). One after the other, terms x
with partial sums s leave an error with a standard deviation of u sqrt(Σ s²) / sqrt(3). The bound is 1.8 u sqrt(n) times
the largest |s|, or times 1.3 ‖x‖ where that is larger, since other orders have other partial sums. The module `judging`
doubles it, which makes it six standard deviations. Trees, and sums of several partial sums, are better than that. Terms
that all are the same number round the same way each time, and a long sum of them one after the other may be worse.

Where the terms are products, the partial sums are not computed: 1.8 sqrt(n) |Σ x| + 2.5 sqrt(n) ‖x‖ stand for them.
For independent terms around 0 that is what they come to; for terms of one sign, the last partial sum is the largest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from lab.operators.base import Floats
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked, exact, shown, whole

Axes = int | tuple[int, ...] | None
"""Dimensions to reduce; None for all of them."""

_LAST: Final = 1.8
_TERMS: Final = 2.5
_NORM: Final = 1.3
_MOST_BY_BLAS: Final = 2**43
_MOST_ONE_BY_ONE: Final = 2**39
"""Maximum multiplications, which take some minutes."""

_SPEC = re.compile(r"[A-Za-z]*(,[A-Za-z]*)*->[A-Za-z]*")


def total(rules: Rules, a: Tracked, axis: Axes = None, keepdims: bool = False) -> Tracked:
    """Return the sum along axes."""
    values, bound, kept_shape = _gathered(a, axis)
    summed = _counted(values).sum(axis=-1)
    error = None if bound is None else bound.sum(axis=-1)
    if a.is_float:
        error = rules.arithmetic.least + (0.0 if error is None else error) + _sum_error(rules, values, summed)
    return _kept(summed, error, kept_shape if keepdims else None)


def mean(rules: Rules, a: Tracked, axis: Axes = None, keepdims: bool = False) -> Tracked:
    """Return the arithmetic mean along axes."""
    summed = rules.real(total(rules, a, axis, keepdims))
    count = a.values.size // max(1, summed.values.size)
    return rules.divide(summed, Tracked(np.asarray(float(count))))


def variance(rules: Rules, a: Tracked, axis: Axes = None, ddof: int = 0, keepdims: bool = False) -> Tracked:
    """Return the mean squared distance from the mean."""
    distance = rules.subtract(a, mean(rules, a, axis, keepdims=True))
    squares = total(rules, rules.multiply(distance, distance), axis, keepdims)
    count = a.values.size // max(1, squares.values.size) - ddof
    return rules.divide(squares, Tracked(np.asarray(float(count))))


def product(rules: Rules, a: Tracked, axis: Axes = None, keepdims: bool = False) -> Tracked:
    """Return the product along axes."""
    values, bound, kept_shape = _gathered(a, axis)
    multiplied = _counted(values).prod(axis=-1)
    error: Floats | None = None
    if bound is not None:
        size = np.abs(_counted(values))
        error = (size + bound).prod(axis=-1) - size.prod(axis=-1)
    result = rules.rounded(multiplied, error, 2 * values.shape[-1])
    return _kept(result.values, result.bound, kept_shape if keepdims else None)


def greatest(rules: Rules, a: Tracked, axis: Axes = None, keepdims: bool = False) -> Tracked:
    """Return the maximum along axes; NaN where there is one."""
    return _extreme(rules, a, axis, keepdims, np.max)


def least(rules: Rules, a: Tracked, axis: Axes = None, keepdims: bool = False) -> Tracked:
    """Return the minimum along axes; NaN where there is one."""
    return _extreme(rules, a, axis, keepdims, np.min)


def _extreme(rules: Rules, a: Tracked, axis: Axes, keepdims: bool, function: Callable[..., Any]) -> Tracked:
    del rules
    values, bound, kept_shape = _gathered(a, axis)
    if not values.shape[-1]:
        raise ArrayOperationError("the extreme of no elements", "at least one element")
    extremes = np.asarray(function(values, axis=-1))
    error: Floats | None = None
    if bound is not None:
        ends = [np.abs(function(values + sign * bound, axis=-1) - extremes) for sign in (-1, 1)]
        error = np.maximum(*ends)
    return _kept(extremes, error, kept_shape if keepdims else None)


def place_of_greatest(rules: Rules, a: Tracked, axis: int | None = None) -> Tracked:
    """Return the index of the maximum, of the first one where several are equal."""
    return _place(rules, a, axis, 1.0)


def place_of_least(rules: Rules, a: Tracked, axis: int | None = None) -> Tracked:
    """Return the index of the minimum, of the first one where several are equal."""
    return _place(rules, a, axis, -1.0)


def _place(rules: Rules, a: Tracked, axis: int | None, sign: float) -> Tracked:
    del rules
    values, bound, _ = _gathered(a, axis)
    indices = np.asarray(np.argmax(values, axis=-1) if sign > 0 else np.argmin(values, axis=-1)).astype(np.int64)
    if bound is None:
        return Tracked(indices)
    best = np.take_along_axis(values, indices[..., None], -1)
    near = np.abs(values - best) <= bound + np.take_along_axis(bound, indices[..., None], -1)
    places = np.arange(values.shape[-1])
    furthest = np.max(np.where(near, np.abs(places - indices[..., None]), 0), axis=-1)
    return Tracked(indices, furthest.astype(np.float64))


def any_of(rules: Rules, a: Tracked, axis: Axes = None, keepdims: bool = False) -> Tracked:
    """Say whether an element along axes is true."""
    return _truth(rules, a, axis, keepdims, np.any)


def all_of(rules: Rules, a: Tracked, axis: Axes = None, keepdims: bool = False) -> Tracked:
    """Say whether every element along axes is true."""
    return _truth(rules, a, axis, keepdims, np.all)


def _truth(rules: Rules, a: Tracked, axis: Axes, keepdims: bool, function: Callable[..., Any]) -> Tracked:
    del rules
    values, bound, kept_shape = _gathered(a, axis)
    truth = values.astype(np.bool_)
    reduced = np.asarray(function(truth, axis=-1))
    error: Floats | None = None
    if bound is not None:
        doubtful = bound > 0
        uncertain = function(truth & ~doubtful, axis=-1) != function(truth | doubtful, axis=-1)
        error = np.asarray(uncertain, np.float64)
    return _kept(reduced, error, kept_shape if keepdims else None)


def running_sum(rules: Rules, a: Tracked, axis: int | None = None) -> Tracked:
    """Return the sums of all elements up to each one along an axis (inclusive scan)."""
    a, axis = _along(a, axis)
    values = np.cumsum(_counted(a.values), axis=axis)
    full = a.full_bound()
    error = None if full is None else np.cumsum(full, axis=axis)
    if not a.is_float:
        return Tracked(values, error)
    counts = np.arange(1, values.shape[axis] + 1, dtype=np.float64).reshape([-1 if i == axis else 1 for i in _dims(a)])
    largest = np.maximum.accumulate(np.abs(values), axis=axis)
    norm = np.sqrt(np.cumsum(np.abs(a.values) ** 2, axis=axis))
    rounding = rules.arithmetic.unit * _LAST * np.sqrt(counts) * np.maximum(largest, _NORM * norm)
    return Tracked(values, rounding + rules.arithmetic.least + (0.0 if error is None else error))


def running_product(rules: Rules, a: Tracked, axis: int | None = None) -> Tracked:
    """Return the products of all elements up to each one along an axis."""
    a, axis = _along(a, axis)
    values = np.cumprod(_counted(a.values), axis=axis)
    full = a.full_bound()
    error: Floats | None = None
    if full is not None:
        size = np.abs(a.values)
        error = np.cumprod(size + full, axis=axis) - np.cumprod(size, axis=axis)
    return rules.rounded(values, error, 2 * values.shape[axis])


# ---- products of arrays


def matrix_product(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return the matrix product of the last two dimensions, as `numpy.matmul` does."""
    if not a.values.ndim or not b.values.ndim:
        raise ArrayOperationError("a matrix product with a scalar", "arrays of at least one dimension, or a * b")
    left = a.values[None, :] if a.values.ndim == 1 else a.values
    right = b.values[:, None] if b.values.ndim == 1 else b.values
    if left.shape[-1] != right.shape[-2]:
        message = f"matrices of shapes {shown(a.shape)} and {shown(b.shape)} do not go together"
        raise ArrayOperationError(message, "as many columns of the first as rows of the second")
    terms = left.shape[-1]
    batches = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = (*batches, left.shape[-2], right.shape[-1])
    rules.check_size(shape)
    rules.check_work(math.prod(shape) * terms, _MOST_BY_BLAS)
    x, y = _alike(rules, a, b)
    values = _multiplied(x.values, y.values, terms)
    bound = _propagated(np.matmul, x, y)
    if values.dtype.kind not in "fc":
        return Tracked(values, bound)
    norms = np.linalg.norm(left, axis=-1)[..., :, None] * np.linalg.norm(right, axis=-2)[..., None, :]
    norms = norms.reshape(values.shape)
    rounding = np.minimum(terms * norms, _LAST * math.sqrt(terms) * np.abs(values) + _TERMS * norms)
    return _summed(rules, values, bound, rounding)


def _multiplied(a: NDArray[Any], b: NDArray[Any], terms: int) -> NDArray[Any]:
    """Return the matrix product; integers go through float64, hundreds of times faster, where that is exact."""
    if a.dtype == np.int64 and a.size and b.size:
        largest = [max(int(x.max()), -int(x.min())) for x in (a, b)]
        if largest[0] * largest[1] * terms < 2**53:
            return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64))).astype(np.int64)
    return np.asarray(np.matmul(a, b))


def dot(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return the product of two vectors or matrices."""
    if not a.values.ndim or not b.values.ndim:
        return rules.multiply(a, b)
    if a.values.ndim > 2 or b.values.ndim > 2:  # noqa: PLR2004 - matrices
        raise ArrayOperationError("dot of more than two dimensions", "matmul or einsum")
    return matrix_product(rules, a, b)


def outer(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return all products of an element of a with one of b."""
    rows, columns = (Tracked(x.values.reshape(-1), _raveled(x)) for x in (a, b))
    column = Tracked(rows.values[:, None], None if rows.bound is None else rows.bound[:, None])
    return rules.multiply(column, columns)


def summation(rules: Rules, subscripts: str, *operands: Tracked) -> Tracked:
    """Return Einstein's summation: ``einsum("ij,jk->ik", a, b)``."""
    spec = subscripts.replace(" ", "")
    if not _SPEC.fullmatch(spec) or spec.count(",") + 1 != len(operands):
        message = f"the subscripts {subscripts!r} are not those of {len(operands)} arrays"
        raise ArrayOperationError(message, "one group of letters for each array, '->', and the result's letters")
    sizes: dict[str, int] = {}
    for letters, operand in zip(spec.partition("->")[0].split(","), operands, strict=True):
        if len(letters) != operand.values.ndim:
            raise ArrayOperationError(f"{letters!r} names {len(letters)} of {operand.values.ndim} dimensions")
        for letter, size in zip(letters, operand.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ArrayOperationError(f"index {letter} has {sizes[letter]} and {size} values")
    result = spec.partition("->")[2]
    if len(set(result)) < len(result) or not set(result) <= sizes.keys():
        raise ArrayOperationError(f"wrong letters in the result: {result!r}", "each letter of the arrays at most once")
    rules.check_size([sizes[letter] for letter in result])
    rules.check_work(math.prod(sizes.values()), _MOST_ONE_BY_ONE)
    terms = math.prod(size for letter, size in sizes.items() if letter not in result)

    def apply(*arrays: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.einsum(spec, *arrays, optimize=("greedy", rules.most_elements)))

    x = _alike(rules, *operands)
    return _of_products(rules, apply, x, terms * max(1, len(operands) - 1))


def convolve(rules: Rules, a: Tracked, v: Tracked, mode: str = "full") -> Tracked:
    """Return the convolution of two vectors; `mode` is full, same or valid."""
    return _slid(rules, a, v, mode, np.convolve)


def correlate(rules: Rules, a: Tracked, v: Tracked, mode: str = "valid") -> Tracked:
    """Return the correlation of two vectors: v slides over a without being turned round."""
    return _slid(rules, a, v, mode, np.correlate)


def _slid(rules: Rules, a: Tracked, v: Tracked, mode: str, function: Callable[..., Any]) -> Tracked:
    if a.values.ndim != 1 or v.values.ndim != 1 or not a.values.size or not v.values.size:
        raise ArrayOperationError("the operands are not two vectors", "one dimension each; correlate2d for matrices")
    _check_mode(mode)
    rules.check_work(a.values.size * v.values.size, _MOST_ONE_BY_ONE)
    x = _alike(rules, a, v)
    return _of_products(rules, lambda p, q: np.asarray(function(p, q, mode)), x, min(a.values.size, v.values.size))


def correlate2d(rules: Rules, a: Tracked, v: Tracked, mode: str = "valid") -> Tracked:
    """Return the correlation of two matrices; outside of a there are zeros."""
    if a.values.ndim != 2 or v.values.ndim != 2 or not v.values.size:  # noqa: PLR2004 - matrices
        raise ArrayOperationError("the operands are not two matrices", "two dimensions each")
    _check_mode(mode)
    sides = [{"valid": (0, 0), "same": (k // 2, (k - 1) // 2), "full": (k - 1, k - 1)}[mode] for k in v.shape]
    rules.check_work(a.values.size * v.values.size, _MOST_ONE_BY_ONE)

    def apply(p: NDArray[Any], q: NDArray[Any]) -> NDArray[Any]:
        windows = sliding_window_view(np.pad(p, sides), q.shape)
        return np.asarray(np.einsum("ijkl,kl->ij", windows, q))

    return _of_products(rules, apply, _alike(rules, a, v), v.values.size)


def _check_mode(mode: str) -> None:
    if mode not in ("full", "same", "valid"):
        raise ArrayOperationError(f"unknown mode {mode!r}", "full, same, valid")


def bincount(rules: Rules, x: Tracked, weights: Tracked | None = None, minlength: int = 0) -> Tracked:
    """Count the elements of each value from 0 on, or add up their weights (histogram, scatter with addition)."""
    whole("bincount", x)
    places = x.values.reshape(-1).astype(np.int64)
    if places.size and int(places.min()) < 0:
        raise ArrayOperationError("bincount of negative values", "integers of at least 0")
    length = max(minlength, int(places.max()) + 1 if places.size else 0)
    rules.check_size([length])
    if weights is None:
        counts = np.bincount(places, minlength=minlength).astype(np.int64)
        return Tracked(counts, _moved_counts(x, places, length))
    exact("the values that bincount counts", x)
    if weights.values.size != places.size:
        raise ArrayOperationError(f"{places.size} values with {weights.values.size} weights", "as many weights")
    flat = weights.values.reshape(-1)
    if not weights.is_float:
        exact("the weights of bincount", weights)
        sums = np.zeros(length, np.int64)
        np.add.at(sums, places, flat.astype(np.int64))
        return Tracked(sums)
    if flat.dtype.kind == "c":
        raise ArrayOperationError("bincount with complex weights", "real weights")
    values = np.bincount(places, flat, minlength)
    counts = np.bincount(places, minlength=minlength).astype(np.float64)
    squares = np.bincount(places, flat**2, minlength)
    raveled = _raveled(weights)
    bound = None if raveled is None else np.bincount(places, raveled, minlength).astype(np.float64)
    rounding = np.sqrt(counts) * (_LAST * np.abs(values) + _TERMS * np.sqrt(squares))
    return _summed(rules, values, bound, rounding)


def _moved_counts(x: Tracked, places: NDArray[np.int64], length: int) -> Floats | None:
    """Return how far each count may be off because rounded values lie next to a bin's edge."""
    bound = _raveled(x)
    if bound is None or not np.any(bound > 0):
        return None
    if np.max(bound) > 1:
        raise ArrayOperationError(
            "bincount of values that may be off by more than 1", "a reference in ./file.py:function"
        )
    doubtful = places[bound > 0]
    near = np.clip(np.concatenate([doubtful - 1, doubtful, doubtful + 1]), 0, length - 1)
    return np.bincount(near, minlength=length).astype(np.float64)


def fourier(rules: Rules, a: Tracked, axis: int = -1) -> Tracked:
    """Return the discrete Fourier transform along an axis."""
    return _transformed(rules, a, axis, np.fft.fft, 1.0)


def inverse_fourier(rules: Rules, a: Tracked, axis: int = -1) -> Tracked:
    """Return the inverse discrete Fourier transform along an axis, divided by the number of elements."""
    return _transformed(rules, a, axis, np.fft.ifft, 1.0 / max(1, a.shape[axis] if a.shape else 1))


def _transformed(rules: Rules, a: Tracked, axis: int, function: Callable[..., Any], factor: float) -> Tracked:
    if not a.values.ndim or not a.shape[axis]:
        raise ArrayOperationError("the Fourier transform of no elements", "an array")
    values = np.asarray(function(a.values, axis=axis))
    full = a.full_bound()
    bound = None if full is None else factor * np.sum(full, axis=axis, keepdims=True)
    # each of log2(n) stages rounds a few times, relative to the signal's norm, which all elements share
    norm = factor * np.linalg.norm(a.values, axis=axis, keepdims=True)
    rounding = 8 * math.log2(2 * a.shape[axis]) * norm
    return _summed(rules, values, bound, np.broadcast_to(rounding, values.shape))


# ---- parts of the rules above


def _summed(rules: Rules, values: NDArray[Any], bound: Floats | None, rounding: Floats) -> Tracked:
    """Add the operands' propagated errors and, in units of roundoff, the operation's own error."""
    error = rounding * rules.arithmetic.unit
    error += rules.arithmetic.least
    return Tracked(values, error if bound is None else error + bound)


def _sum_error(rules: Rules, values: NDArray[Any], summed: NDArray[Any]) -> Floats:
    """Return the rounding error of sums along the last axis."""
    n = values.shape[-1]
    if n <= 1:
        return np.zeros(summed.shape)
    size = np.abs(values)
    worst = (n - 1) * size.sum(axis=-1)
    largest = np.max(np.abs(np.cumsum(values, axis=-1)), axis=-1)
    norm = np.sqrt(np.sum(size * size, axis=-1))
    likely = _LAST * math.sqrt(n) * np.maximum(largest, _NORM * norm)
    return np.asarray(rules.arithmetic.unit * np.minimum(worst, likely))


def _of_products(rules: Rules, apply: Callable[..., NDArray[Any]], operands: Sequence[Tracked], terms: int) -> Tracked:
    """Track a sum of products that is linear in each operand.

    Args:
        rules: The rules.
        apply: The operation on plain arrays.
        operands: Its operands, of one type.
        terms: Maximum number of terms of a sum.
    """
    values = apply(*(x.values for x in operands))
    rules.check_size(values.shape)
    bound = _propagated(apply, *operands)
    if values.dtype.kind not in "fc":
        return Tracked(values, bound)
    squares = np.maximum(apply(*(np.abs(x.values) ** 2 for x in operands)), 0)
    norm = math.sqrt(terms) * np.sqrt(squares)  # at least the sum of the terms' sizes, by Cauchy and Schwarz
    rounding = np.minimum(terms * norm, _LAST * math.sqrt(terms) * np.abs(values) + _TERMS * norm)
    units = 4.0 if values.dtype.kind == "c" else 1.0
    return _summed(rules, values, bound, rounding * units)


def _propagated(apply: Callable[..., Any], *operands: Tracked) -> Floats | None:
    """Return the operands' errors after an operation that is linear in each of them."""
    if all(x.bound is None for x in operands):
        return None
    sizes = [np.abs(x.values).astype(np.float64) for x in operands]
    wide = [size + x.spread for size, x in zip(sizes, operands, strict=True)]
    errors = [x.full_bound() for x in operands]
    # the first operand is wrong, then the second one beside a wrong first one, and so on
    return np.asarray(
        sum(apply(*wide[:i], error, *sizes[i + 1 :]) for i, error in enumerate(errors) if error is not None)
    )


def _alike(rules: Rules, *operands: Tracked) -> list[Tracked]:
    """Convert operands to one type."""
    if any(x.is_float for x in operands):
        return [rules.real(x) for x in operands]
    wide = np.uint64 if any(x.values.dtype == np.uint64 for x in operands) else np.int64
    return [Tracked(x.values.astype(wide), x.bound) for x in operands]


def _counted(values: NDArray[Any]) -> NDArray[Any]:
    """Return booleans as 0 and 1."""
    return values.astype(np.int64) if values.dtype.kind == "b" else values


def _raveled(x: Tracked) -> Floats | None:
    full = x.full_bound()
    return None if full is None else full.reshape(-1)


def _dims(a: Tracked) -> range:
    return range(a.values.ndim)


def _along(a: Tracked, axis: int | None) -> tuple[Tracked, int]:
    """Return the array and the non-negative axis; without an axis, the array is flattened."""
    if axis is None:
        return Tracked(a.values.reshape(-1), _raveled(a)), 0
    return a, _places(a, axis)[0]


def _places(a: Tracked, axis: Axes) -> tuple[int, ...]:
    """Return the axes as non-negative numbers.

    Raises:
        ArrayOperationError: An axis is out of range or repeated.
    """
    axes = tuple(_dims(a)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    n = a.values.ndim
    if any(not -n <= number < n for number in axes) or len({number % n for number in axes}) < len(axes):
        shape = shown(a.shape)
        raise ArrayOperationError(f"axis={axis} of an array of shape {shape}", f"axes from {-n} to {n - 1}, each once")
    return tuple(number % n for number in axes)


def _gathered(a: Tracked, axis: Axes) -> tuple[NDArray[Any], Floats | None, tuple[int, ...]]:
    """Move some axes to the end and merge them; also return the shape with 1 in their place."""
    places = _places(a, axis)
    remaining = [i for i in _dims(a) if i not in places]
    kept_shape = tuple(1 if i in places else a.shape[i] for i in _dims(a))
    count = math.prod(a.shape[i] for i in places)

    def merged(x: NDArray[Any]) -> NDArray[Any]:
        return x.transpose([*remaining, *places]).reshape([*(a.shape[i] for i in remaining), count])

    full = a.full_bound()
    return merged(a.values), None if full is None else merged(full), kept_shape


def _kept(values: NDArray[Any], bound: Floats | None, shape: tuple[int, ...] | None) -> Tracked:
    values = np.asarray(values)
    if shape is None:
        return Tracked(values, None if bound is None else np.asarray(bound))
    return Tracked(
        values.reshape(shape), None if bound is None else np.broadcast_to(bound, values.shape).reshape(shape)
    )
