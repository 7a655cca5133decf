"""Device functions of other packages that generated code calls, written anew for a Python that lacks those packages.

`torch._inductor.runtime.triton_helpers` is in every kernel that torch.compile writes, FlagGems's
`triton_lang_extension` in most of that collection. Names and meanings are theirs. The worker loads this file by its
path.
"""

# ruff: noqa: A001, ANN001, ANN201, ANN202, D103, PLR0124, PLR0917 - functions for the device look as Triton wants them
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl
from triton.language import math  # noqa: F401 - likewise
from triton.language.extra import libdevice  # noqa: F401 - kernels name it as a member


def set_driver_to_gpu():
    """Do nothing: the worker has chosen the target."""


set_driver_to_cpu = set_driver_to_gpu


@triton.jit
def promote_to_tensor(x):
    return x + tl.zeros((1,), tl.int1)


@triton.jit
def is_floating(x):
    return promote_to_tensor(x).dtype.is_floating()


@triton.jit
def div_floor_integer(a, b):
    quotient = a // b
    return tl.where((a < 0) != (b < 0), tl.where(a % b != 0, quotient - 1, quotient), quotient)


@triton.jit
def remainder_integer(a, b):
    rest = a % b
    return tl.where((rest != 0) & ((a < 0) != (b < 0)), rest + b, rest)


@triton.jit
def minimum(a, b):
    """Return the smaller one; NaN where either is."""
    keep = a < b
    if is_floating(a):
        keep |= a != a
    return tl.where(keep, a, b)


@triton.jit
def maximum(a, b):
    """Return the larger one; NaN where either is."""
    keep = a > b
    if is_floating(a):
        keep |= a != a
    return tl.where(keep, a, b)


@triton.jit
def min2(a, dim):
    return tl.reduce(a, dim, minimum)


@triton.jit
def max2(a, dim):
    return tl.reduce(a, dim, maximum)


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def prod(a, axis):
    return tl.reduce(a, axis, _product)


@triton.jit
def any_combine(a, b):
    return a | b


@triton.jit
def any(a, dim):
    return tl.reduce(a, dim, any_combine)


@triton.jit
def _smaller_at(value, index, other, other_index):
    take = value < other
    same = value == other
    if is_floating(value):
        take |= (value != value) & (other == other)
        same |= (value != value) & (other != other)
    take |= same & (index < other_index)
    return tl.where(take, value, other), tl.where(take, index, other_index)


@triton.jit
def _larger_at(value, index, other, other_index):
    take = value > other
    same = value == other
    if is_floating(value):
        take |= (value != value) & (other == other)
        same |= (value != value) & (other != other)
    take |= same & (index < other_index)
    return tl.where(take, value, other), tl.where(take, index, other_index)


minimum_with_index = _smaller_at
maximum_with_index = _larger_at


@triton.jit
def min_with_index(value, index, dim):
    return tl.reduce((value, index), dim, _smaller_at)


@triton.jit
def max_with_index(value, index, dim):
    return tl.reduce((value, index), dim, _larger_at)


@triton.jit
def welford_reduce(value, mean, m2, weight, first_iteration):
    """Add one value to each running mean, sum of squared deviations, and count."""
    if first_iteration:
        count = tl.full(weight.shape, 1, weight.dtype)
        middle = value
        squares = tl.zeros_like(m2)
    else:
        step = value - mean
        count = weight + 1
        middle = mean + step / count
        squares = m2 + step * (value - middle)
    return middle, squares, count


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    step = mean_2 - mean_1
    count = weight_1 + weight_2
    share = tl.where(count == 0.0, 0.0, weight_2 / count)
    return mean_1 + step * share, m2_1 + m2_2 + step * step * weight_1 * share, count


@triton.jit
def welford(mean, m2, weight, dim):
    return tl.reduce((mean, m2, weight), dim, welford_combine)


@triton.jit
def program_id(axis: tl.constexpr):
    """Return the program's number as 64 bits, as FlagGems has it."""
    return tl.program_id(axis).to(tl.int64)


@triton.jit
def num_programs(axis: tl.constexpr):
    return tl.num_programs(axis).to(tl.int64)
