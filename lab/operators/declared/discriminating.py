"""A second set of inputs, which shows mistakes that the default contents hide: signs, ranges, zeros, magnitudes.

Only arrays of whose contents the file says nothing change. Integers of 8 and 16 bits take their whole range, since C
computes with them as `int`. Wider ones stay within 30,000 of 0: products of two, and sums of such, fit 32 bits, so that
a kernel is not accused of an overflow that it never meets.
"""

from __future__ import annotations

import math
import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.operators.base import Array, Inputs, OtherInputs
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import ElementKind, ElementType
from lab.operators.declared.inputs import ArgumentPlan, inputs
from lab.operators.declared.specification import Argument

_PROMOTED_BITS: Final = 16
"""Integers of so many bits are computed with as `int`."""

_SIGNED: Final = 30_000
_UNSIGNED: Final = 60_000
"""Bounds of wider integers."""

_ZEROS, _LARGE, _SMALL = 1 / 32, 1 / 16, 1 / 8
"""Shares of floats, each added to the one before."""

_LARGER, _SMALLER = 2.0**5, 2.0**-10
"""Factors of large and small floats: squares of the large ones fit float16."""


def other_inputs(declaration: Declaration, planned: ArgumentPlan, seed: int) -> OtherInputs | None:
    """Make the second set; None where no contents are the default ones.

    Raises:
        UserError: As `lab.operators.declared.inputs.inputs` does.
    """
    changed = {one.name: one for one in declaration.arguments if _has_default(one)}
    if not changed:
        return None
    first = inputs(declaration, planned, seed)
    arrays = {
        name: _drawn(changed[name], first, planned, seed) if name in changed else array
        for name, array in first.arrays.items()
    }
    return OtherInputs(Inputs(first.scalars, arrays, first.outputs, first.required), tuple(changed))


def _has_default(argument: Argument) -> bool:
    is_default = argument.fill is not None and argument.fill.is_default
    return is_default and argument.element.kind is not ElementKind.BOOL


def _drawn(argument: Argument, first: Inputs, planned: ArgumentPlan, seed: int) -> Array:
    rng = np.random.default_rng([seed, zlib.crc32(argument.name.encode()), 1])
    count = math.prod(planned.shapes[argument.name])
    if argument.element.kind is ElementKind.INTEGER:
        return _integers(argument.element, rng, count)
    return _floats(argument.element, rng, first.arrays[argument.name])


def integer_range(element: ElementType) -> tuple[int, int]:
    """Return the smallest and the largest integer of the second set."""
    bounds = np.iinfo(element.dtype)
    if bounds.bits <= _PROMOTED_BITS:
        return int(bounds.min), int(bounds.max)
    return (-_SIGNED, _SIGNED) if bounds.min else (0, _UNSIGNED)


def _integers(element: ElementType, rng: np.random.Generator, count: int) -> Array:
    """Integers of the whole range; the first of a random order are its ends and those next to 0."""
    low, high = integer_range(element)
    drawn = rng.integers(low, high, count, endpoint=True, dtype=np.int64)
    special = [one for one in (-1, 0, 1, low, high, -2, -127, 200) if low <= one <= high][:count]
    drawn[rng.choice(count, len(special), replace=False)] = special
    return element.stored(drawn)


def _floats(element: ElementType, rng: np.random.Generator, normal: Array) -> Array:
    """Normal numbers, some of which are 0, large or small."""
    share = rng.random(normal.size)
    factor = np.select([share < _ZEROS, share < _LARGE, share < _SMALL], [0.0, _LARGER, _SMALLER], 1.0)
    values: NDArray[Any] = element.widened(normal)[rng.permutation(normal.size)]
    return element.stored(np.where(factor == 0, 0.0, values * factor))  # 0, not -0
