"""Further inputs that expose errors the default contents hide: signs, ranges, zeros, magnitudes.

Only arrays without declared contents change. Each set is made where it can detect something:

- Both signs. Integers of 8 and 16 bits take their whole range, since C promotes them to `int`. Wider ones stay within
  30,000 of 0: products of two, and sums of these, fit 32 bits, so that a kernel is not blamed for an overflow that
  never occurs.
- Integers of the whole range, where references only add, multiply, move and choose integers: their values modulo a
  power of two do not depend on where a kernel wraps around.
- One sign only, where references look for extremes: 0 then differs from the smallest and the largest value.

Other problems show that a kernel ignores an argument or confuses two: factors that are 1 and terms that are 0, strides
of 1, and sizes that are equal in the emulated problem as in the real one.
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
from lab.operators.declared.array_files import is_file
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import ElementKind, ElementType
from lab.operators.declared.inputs import ArgumentPlan, inputs
from lab.operators.declared.modulo import keeps_modulo
from lab.operators.declared.signatures import signature_in
from lab.operators.declared.specification import Argument

_WORD: Final = 32

_PROMOTED_BITS: Final = 16
"""Integers of at most this many bits are promoted to `int`."""

_SIGNED: Final = 30_000
_UNSIGNED: Final = 60_000
"""Bounds of wider integers."""

_WIDEST: Final = 3_000_000_000
"""Bound of 64-bit integers: products of two fit in 64 bits."""

_EXTREMES: Final = frozenset(
    {"max", "min", "argmax", "argmin", "maximum", "minimum", "fmax", "fmin", "sort", "argsort", "clip"}
)
"""Functions whose results depend on the smallest or the largest value."""

_ZEROS, _LARGE, _SMALL = 1 / 32, 1 / 16, 1 / 8
"""Shares of floats, each added to the one before."""

_LARGER, _SMALLER = 2.0**5, 2.0**-10
"""Factors of large and small floats: squares of the large ones fit float16."""


_Draw = Callable[[ElementType, np.random.Generator, Array], Array]


def other_inputs(declaration: Declaration, planned: ArgumentPlan, seed: int) -> tuple[OtherInputs, ...]:
    """Make the further sets of inputs; none if no array has default contents.

    Raises:
        UserError: As `lab.operators.declared.inputs.inputs` does.
    """
    changed = {argument.name: argument.element for argument in declaration.arguments if _has_default(argument)}
    if not changed:
        return ()
    first = inputs(declaration, planned, seed)
    drawn: list[tuple[str, _Draw]] = [("negative and large values", partial(_mixed, span_of=integer_range))]
    if keeps_modulo(declaration):
        drawn.append(("integers of the full range", partial(_mixed, span_of=full_range)))
    if declaration.function or _EXTREMES & {name for node in _parts(declaration) for name in syntax.functions(node)}:
        drawn += [("negative values", _negative), ("positive values", _positive)]
    other_sets = []
    for number, (contents, draw) in enumerate(drawn, 1):
        arrays = dict(first.arrays)
        for name, element in changed.items():
            rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
            arrays[name] = draw(element, rng, first.arrays[name])
        other_sets.append(OtherInputs(replace(first, arrays=arrays), tuple(changed), contents))
    return tuple(other_sets)


_NEUTRAL: Final[Mapping[float, float]] = {0: 0.5, 1: 1.5}
"""Neutral values of scalars and their non-neutral replacements."""

_MOST_SIZES: Final = 4
"""Maximum number of sizes that are changed, each in its own problem."""


def other_problems(
    declaration: Declaration, small: Mapping[str, Scalar], real: Mapping[str, Scalar]
) -> tuple[Mapping[str, Scalar], ...]:
    """Return changes to the emulated problem, one mapping per further problem to execute.

    A size grows by the greatest common divisor of the emulated and the real one, so that it stays a multiple of the
    same tiles. Sizes that end a slice of a reference stay: a slice past the end of an array is silently shorter.
    Neither are sizes that a function does not ask for and does not see in the shapes of arrays.

    Args:
        declaration: The arguments and references.
        small: The emulated problem.
        real: The real one.
    """
    scalars = {
        argument.name: argument
        for argument in declaration.arguments
        if not argument.is_array and argument.value is None
    }
    floats = {
        name: _NEUTRAL[float(value)]
        for name, value in small.items()
        if name in scalars and scalars[name].element.kind is ElementKind.FLOAT and value in _NEUTRAL
    }
    changes: list[Mapping[str, Scalar]] = [floats] if floats else []
    if declaration.references or declaration.function:
        ends, scaled = set(_ends_of_slices(declaration)), set(_strides(declaration))
        visible = _seen_by_function(declaration) if declaration.function else scalars.keys()
        for name, size in small.items():
            largest = real.get(name)
            if (
                not _is_size(size)
                or not _is_size(largest)
                or name not in scalars
                or name in ends
                or name not in visible
            ):
                continue
            if size == largest == 1:
                changes += [{name: 2}] if name in scaled else []
            elif _has_equal(name, small, real) and size + math.gcd(size, largest) <= largest:
                changes.append({name: size + math.gcd(size, largest)})
    return tuple(changes[: _MOST_SIZES + 1])


def _is_size(value: Scalar | None) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _has_equal(name: str, small: Mapping[str, Scalar], real: Mapping[str, Scalar]) -> bool:
    return any(
        other_name != name and value == small[name] and real.get(other_name) == real[name]
        for other_name, value in small.items()
    )


def _parts(declaration: Declaration) -> Iterator[syntax.Part]:
    for _, text in declaration.references:
        if not is_file(text):
            yield from syntax.walk(parser.parse(text))


def _seen_by_function(declaration: Declaration) -> set[str]:
    """Return the names a reference function asks for, and those in the shapes of arrays."""
    path, _, function = declaration.function.rpartition(":")
    signature = signature_in(Path(declaration.folder) / path, function)
    if signature is None:
        return set()
    extents = {
        name
        for argument in declaration.arguments
        for extent in argument.shape or ()
        for name in syntax.names(parser.parse(extent))
    }
    return (extents | set(signature.names)) - signature.slice_ends


def _ends_of_slices(declaration: Declaration) -> Iterator[str]:
    for node in _parts(declaration):
        if isinstance(node, syntax.Span) and node.stop is not None:
            yield from syntax.names(node.stop)


def _strides(declaration: Declaration) -> Iterator[str]:
    """Yield the names that an extent is a multiple of."""
    for argument in declaration.arguments:
        for extent in argument.shape or ():
            for node in syntax.walk(parser.parse(extent)):
                if isinstance(node, syntax.Binary):
                    yield from syntax.names(node)


def _has_default(argument: Argument) -> bool:
    is_default = argument.fill is not None and argument.fill.is_default
    return is_default and argument.element.kind is not ElementKind.BOOL


def integer_range(element: ElementType) -> tuple[int, int]:
    """Return the bounds of integers in the set with both signs."""
    bounds = np.iinfo(element.dtype)
    if bounds.bits <= _PROMOTED_BITS:
        return int(bounds.min), int(bounds.max)
    return (-_SIGNED, _SIGNED) if bounds.min else (0, _UNSIGNED)


def full_range(element: ElementType) -> tuple[int, int]:
    """Return the bounds of integers in the set with the full range.

    The minimum of a signed type is excluded: it has no absolute value.
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
    """Draw values below 0; unsigned integers are unchanged."""
    if element.kind is ElementKind.INTEGER:
        low, _ = integer_range(element)
        return element.stored(rng.integers(low, 0, normal.size)) if low else normal
    return element.stored(-_away_from_zero(element, normal))


def _positive(element: ElementType, rng: np.random.Generator, normal: Array) -> Array:
    """Draw values above 0."""
    if element.kind is ElementKind.INTEGER:
        return element.stored(rng.integers(1, integer_range(element)[1], normal.size, endpoint=True))
    return element.stored(_away_from_zero(element, normal))


def _away_from_zero(element: ElementType, normal: Array) -> NDArray[Any]:
    widened: NDArray[Any] = np.abs(element.widened(normal)) + 1
    return widened


def _integers(span: tuple[int, int], element: ElementType, rng: np.random.Generator, count: int) -> Array:
    """Draw integers from a range, including its ends and values next to 0."""
    low, high = span
    drawn = rng.integers(low, high, count, endpoint=True, dtype=np.int64)
    special = [number for number in (-1, 0, 1, low, high, -2, -127, 200) if low <= number <= high][:count]
    drawn[rng.choice(count, len(special), replace=False)] = special
    return element.stored(drawn)


def _floats(element: ElementType, rng: np.random.Generator, normal: Array) -> Array:
    """Draw normal numbers, some of which are 0, large or small."""
    share = rng.random(normal.size)
    factor = np.select([share < _ZEROS, share < _LARGE, share < _SMALL], [0.0, _LARGER, _SMALLER], 1.0)
    values: NDArray[Any] = element.widened(normal)[rng.permutation(normal.size)]
    return element.stored(np.where(factor == 0, 0.0, values * factor))  # 0, not -0
