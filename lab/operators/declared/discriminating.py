"""Further sets of inputs, which show mistakes that the default contents hide: signs, ranges, zeros, magnitudes.

Only arrays of whose contents the file says nothing change. The sets, of which each is made where it can tell something:

- Both signs. Integers of 8 and 16 bits take their whole range, since C computes with them as `int`. Wider ones stay
  within 30,000 of 0: products of two, and sums of such, fit 32 bits, so that a kernel is not accused of an overflow
  that it never meets.
- Integers of the whole range, where references only add, multiply, move and choose integers: what they hold modulo a
  power of two does not depend on where a kernel wraps around.
- One sign alone, where references look for extremes: 0 is then no substitute for the least or the largest value.

And other problems, which show that a kernel ignores an argument or takes one for another: factors that are 1 and terms
that are 0, strides of 1, and sizes that are equal in the emulated problem as in the real one.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from lab.base import parser, syntax
from lab.base.expressions import Scalar
from lab.operators.base import Array, OtherInputs
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import ElementKind, ElementType
from lab.operators.declared.files import is_file
from lab.operators.declared.inputs import ArgumentPlan, inputs
from lab.operators.declared.modulo import keeps_modulo
from lab.operators.declared.signatures import signature_in
from lab.operators.declared.specification import Argument

_WORD: Final = 32

_PROMOTED_BITS: Final = 16
"""Integers of so many bits are computed with as `int`."""

_SIGNED: Final = 30_000
_UNSIGNED: Final = 60_000
"""Bounds of wider integers."""

_WIDEST: Final = 3_000_000_000
"""Bound of integers of 64 bits: products of two fit them."""

_EXTREMES: Final = frozenset(
    {"max", "min", "argmax", "argmin", "maximum", "minimum", "fmax", "fmin", "sort", "argsort", "clip"}
)
"""Functions whose results depend on the least or the largest value."""

_ZEROS, _LARGE, _SMALL = 1 / 32, 1 / 16, 1 / 8
"""Shares of floats, each added to the one before."""

_LARGER, _SMALLER = 2.0**5, 2.0**-10
"""Factors of large and small floats: squares of the large ones fit float16."""


_Draw = Callable[[ElementType, np.random.Generator, Array], Array]


def other_inputs(declaration: Declaration, planned: ArgumentPlan, seed: int) -> tuple[OtherInputs, ...]:
    """Make the further sets; none where no contents are the default ones.

    Raises:
        UserError: As `lab.operators.declared.inputs.inputs` does.
    """
    changed = {one.name: one.element for one in declaration.arguments if _has_default(one)}
    if not changed:
        return ()
    first = inputs(declaration, planned, seed)
    drawn: list[tuple[str, _Draw]] = [("negative and large values", partial(_mixed, span_of=integer_range))]
    if keeps_modulo(declaration):
        drawn.append(("integers of the full range", partial(_mixed, span_of=full_range)))
    if declaration.function or _EXTREMES & {name for part in _parts(declaration) for name in syntax.functions(part)}:
        drawn += [("negative values", _negative), ("positive values", _positive)]
    made = []
    for number, (contents, draw) in enumerate(drawn, 1):
        arrays = dict(first.arrays)
        for name, element in changed.items():
            rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
            arrays[name] = draw(element, rng, first.arrays[name])
        made.append(OtherInputs(replace(first, arrays=arrays), tuple(changed), contents))
    return tuple(made)


_NEUTRAL: Final[Mapping[float, float]] = {0: 0.5, 1: 1.5}
"""Neutral values of scalars, and what tells them from others."""

_MOST_SIZES: Final = 4
"""Sizes that are changed at most, each in a problem of its own."""


def other_problems(
    declaration: Declaration, small: Mapping[str, Scalar], real: Mapping[str, Scalar]
) -> tuple[Mapping[str, Scalar], ...]:
    """Return what to change in the emulated problem, once for each problem to execute besides it.

    A size grows by what divides both the emulated and the real one, so that it stays a multiple of the same tiles.
    Those that a reference ends a slice at stay: past the end of an array, a slice is shorter without a word. So do
    those that a function neither asks for nor sees in the shapes of arrays.

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
    if declaration.references or declaration.function:
        ends, scaled = set(_ends_of_slices(declaration)), set(_strides(declaration))
        seen = _seen_by_function(declaration) if declaration.function else taken.keys()
        for name, size in small.items():
            largest = real.get(name)
            if not _is_size(size) or not _is_size(largest) or name not in taken or name in ends or name not in seen:
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


def _seen_by_function(declaration: Declaration) -> set[str]:
    """Return the names that a reference function asks for, and those in the shapes of arrays."""
    path, _, function = declaration.function.rpartition(":")
    asked = signature_in(Path(declaration.folder) / path, function)
    if asked is None:
        return set()
    extents = {
        name
        for one in declaration.arguments
        for extent in one.shape or ()
        for name in syntax.names(parser.parse(extent))
    }
    return (extents | set(asked.names)) - asked.slice_ends


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


def integer_range(element: ElementType) -> tuple[int, int]:
    """Return the smallest and the largest integer of the set of both signs."""
    bounds = np.iinfo(element.dtype)
    if bounds.bits <= _PROMOTED_BITS:
        return int(bounds.min), int(bounds.max)
    return (-_SIGNED, _SIGNED) if bounds.min else (0, _UNSIGNED)


def full_range(element: ElementType) -> tuple[int, int]:
    """Return the smallest and the largest integer of the set of the whole range.

    The smallest one of a signed type is left out: it has no absolute value.
    """
    largest = int(np.iinfo(element.dtype).max)
    if largest > 1 << _WORD:
        largest = _WIDEST
    return (-largest, largest) if np.iinfo(element.dtype).min else (0, largest)


def _mixed(
    element: ElementType,
    rng: np.random.Generator,
    normal: Array,
    *,
    span_of: Callable[[ElementType], tuple[int, int]],
) -> Array:
    if element.kind is ElementKind.INTEGER:
        return _integers(span_of(element), element, rng, normal.size)
    return _floats(element, rng, normal)


def _negative(element: ElementType, rng: np.random.Generator, normal: Array) -> Array:
    """Values below 0; unsigned integers stay as they are."""
    if element.kind is ElementKind.INTEGER:
        low, _ = integer_range(element)
        return element.stored(rng.integers(low, 0, normal.size)) if low else normal
    return element.stored(-_away_from_zero(element, normal))


def _positive(element: ElementType, rng: np.random.Generator, normal: Array) -> Array:
    """Values above 0."""
    if element.kind is ElementKind.INTEGER:
        return element.stored(rng.integers(1, integer_range(element)[1], normal.size, endpoint=True))
    return element.stored(_away_from_zero(element, normal))


def _away_from_zero(element: ElementType, normal: Array) -> NDArray[Any]:
    widened: NDArray[Any] = np.abs(element.widened(normal)) + 1
    return widened


def _integers(span: tuple[int, int], element: ElementType, rng: np.random.Generator, count: int) -> Array:
    """Integers of a range; the first of a random order are its ends and those next to 0."""
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
