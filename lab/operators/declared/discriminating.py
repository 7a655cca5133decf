"""A second set of inputs, which shows mistakes that the default contents hide: signs, ranges, zeros, magnitudes.

Only arrays of whose contents the file says nothing change. Integers of 8 and 16 bits take their whole range, since C
computes with them as `int`. Wider ones stay within 30,000 of 0: products of two, and sums of such, fit 32 bits, so that
a kernel is not accused of an overflow that it never meets. Where references only move, choose and add integers, these
stay within 2^25, which float32 cannot hold.

And other problems, which show that a kernel ignores an argument or takes one for another: factors that are 1 and terms
that are 0, strides of 1, and sizes that are equal in the emulated problem as in the real one.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from lab.base import parser, syntax
from lab.base.expressions import Scalar
from lab.operators.base import Array, Inputs, OtherInputs
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import ElementKind, ElementType
from lab.operators.declared.files import is_file
from lab.operators.declared.functions import ARRAY_FUNCTIONS
from lab.operators.declared.inputs import ArgumentPlan, inputs
from lab.operators.declared.specification import Argument

_PROMOTED_BITS: Final = 16
"""Integers of so many bits are computed with as `int`."""

_SIGNED: Final = 30_000
_UNSIGNED: Final = 60_000
"""Bounds of wider integers."""

_EXACT: Final = 1 << 25
"""Bound of those that are moved, chosen and added; sums of 64 fit 32 bits."""

_CHOOSING: Final = frozenset({"maximum", "minimum", "fmax", "fmin", "max", "min", "sort", "abs"})
_SHIFTS: Final = frozenset({"left_shift", "right_shift"})
_BOUNDED: Final = frozenset("+-&^")
"""Operations on few integers after which no 32 bits overflow."""

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
    widest = _EXACT if _moves_integers(declaration) else None
    arrays = {
        name: _drawn(changed[name], first, planned, seed, widest) if name in changed else array
        for name, array in first.arrays.items()
    }
    return OtherInputs(Inputs(first.scalars, arrays, first.outputs, first.required), tuple(changed))


_NEUTRAL: Final[Mapping[float, float]] = {0: 0.5, 1: 1.5}
"""Neutral values of scalars, and what tells them from others."""

_MOST_SIZES: Final = 4
"""Sizes that are changed at most, each in a problem of its own."""


def other_problems(
    declaration: Declaration, small: Mapping[str, Scalar], real: Mapping[str, Scalar]
) -> tuple[Mapping[str, Scalar], ...]:
    """Return what to change in the emulated problem, once for each problem to execute besides it.

    A size grows by what divides both the emulated and the real one, so that it stays a multiple of the same tiles.
    Those that a reference ends a slice at stay: past the end of an array, a slice is shorter without a word.

    Args:
        declaration: The arguments and references.
        small: The emulated problem.
        real: The real one.
    """
    taken = {one.name: one for one in declaration.arguments if not one.is_array and one.value is None}
    floats = {
        name: _NEUTRAL[float(value)]
        for name, value in small.items()
        if name in taken and taken[name].element.kind is ElementKind.FLOAT and value in _NEUTRAL
    }
    found: list[Mapping[str, Scalar]] = [floats] if floats else []
    if declaration.references and not declaration.function:
        ends, scaled = set(_ends_of_slices(declaration)), set(_strides(declaration))
        for name, size in small.items():
            largest = real.get(name)
            if not _is_size(size) or not _is_size(largest) or name not in taken or name in ends:
                continue
            if size == largest == 1:
                found += [{name: 2}] if name in scaled else []
            elif _has_equal(name, small, real) and size + math.gcd(size, largest) <= largest:
                found.append({name: size + math.gcd(size, largest)})
    return tuple(found[: _MOST_SIZES + 1])


def _is_size(value: Scalar | None) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _has_equal(name: str, small: Mapping[str, Scalar], real: Mapping[str, Scalar]) -> bool:
    return any(
        other != name and value == small[name] and real.get(other) == real[name] for other, value in small.items()
    )


def _parts(declaration: Declaration) -> Iterator[syntax.Part]:
    for _, text in declaration.references:
        if not is_file(text):
            yield from syntax.walk(parser.parse(text))


def _ends_of_slices(declaration: Declaration) -> Iterator[str]:
    for part in _parts(declaration):
        if isinstance(part, syntax.Span) and part.stop is not None:
            yield from syntax.names(part.stop)


def _strides(declaration: Declaration) -> Iterator[str]:
    """Yield the names that an extent is a multiple of."""
    for one in declaration.arguments:
        for extent in one.shape or ():
            for part in syntax.walk(parser.parse(extent)):
                if isinstance(part, syntax.Binary):
                    yield from syntax.names(part)


def _has_default(argument: Argument) -> bool:
    is_default = argument.fill is not None and argument.fill.is_default
    return is_default and argument.element.kind is not ElementKind.BOOL


def _moves_integers(declaration: Declaration) -> bool:
    """Return whether outputs are integers that references move, choose and add."""
    if not declaration.references or declaration.function:
        return False
    if any(one.element.kind is not ElementKind.INTEGER for one in declaration.outputs):
        return False
    if any(is_file(text) for _, text in declaration.references):
        return False
    return all(_keeps_size(part) for part in _parts(declaration))


def _keeps_size(part: syntax.Part) -> bool:
    match part:
        case syntax.Binary():
            return part.symbol in _BOUNDED
        case syntax.Application(function=syntax.NameOf(name=name)):
            is_moved = name in ARRAY_FUNCTIONS and ARRAY_FUNCTIONS[name].group in {"moving elements", "choices", "bits"}
            return name in _CHOOSING or (is_moved and name not in _SHIFTS)
        case _:
            return not isinstance(part, syntax.Application | syntax.FactOf)


def _drawn(argument: Argument, first: Inputs, planned: ArgumentPlan, seed: int, widest: int | None) -> Array:
    rng = np.random.default_rng([seed, zlib.crc32(argument.name.encode()), 1])
    count = math.prod(planned.shapes[argument.name])
    if argument.element.kind is ElementKind.INTEGER:
        return _integers(integer_range(argument.element, widest), argument.element, rng, count)
    return _floats(argument.element, rng, first.arrays[argument.name])


def integer_range(element: ElementType, widest: int | None = None) -> tuple[int, int]:
    """Return the smallest and the largest integer of the second set.

    Args:
        element: Their type.
        widest: Bound of wide ones; None for that of those that are multiplied.
    """
    bounds = np.iinfo(element.dtype)
    if bounds.bits <= _PROMOTED_BITS:
        return int(bounds.min), int(bounds.max)
    return (-(widest or _SIGNED), widest or _SIGNED) if bounds.min else (0, widest or _UNSIGNED)


def _integers(span: tuple[int, int], element: ElementType, rng: np.random.Generator, count: int) -> Array:
    """Integers of the whole range; the first of a random order are its ends and those next to 0."""
    low, high = span
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
