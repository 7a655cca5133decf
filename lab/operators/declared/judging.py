"""What an output must hold, how far it may be off, and the comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import UserError
from lab.operators.base import Array, Expected, Floats
from lab.operators.declared import movement
from lab.operators.declared.elements import ElementKind, ElementType
from lab.operators.declared.tolerance import Tolerance
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked, shown

_CHUNK: Final = 1 << 20
"""Elements that are compared at a time: a few arrays of them stay in a core's cache."""

_ROOM: Final = 2.0
"""Bounds are doubled: a kernel may arrange its operations otherwise, and the reference itself is rounded to float64."""

_MOST_UNBOUNDED: Final = 0.1
"""The largest share of elements that may be off by anything; beyond it the comparison means nothing."""

_ALWAYS_RIGHT: Final = 0.5
"""The scale of integers that must be right: an error of 1 is twice that."""

NOT_WRITTEN: Final = "nothing: it was not written"
"""What a message says in place of an element that still holds its poison."""

_TINIEST: Final = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class DeclaredExpected(Expected):
    """What one output must hold. The error of an element is relative to `scale`, and 1 is the tolerance.

    Attributes:
        held: The values in the type that the comparison is done in: `values` themselves for floats, complex128 for
            complex numbers, and for others the output's own type.
    """

    held: NDArray[Any]


def expected(
    name: str, element: ElementType, shape: Sequence[int], value: Tracked, *, tolerance: Tolerance | None, rules: Rules
) -> DeclaredExpected:
    """Turn the value of a reference into what an output must hold.

    Args:
        name: The output.
        element: Its element type.
        shape: Its shape.
        value: The reference's value.
        tolerance: Of the user's own; None for the value's bound.
        rules: How the kernel rounds.

    Raises:
        UserError: Shape or kind of the value do not fit the output, or its bound says nothing.
    """
    if value.shape != tuple(shape) and value.shape:
        message = f"{name} has shape {shown(shape)}, its reference has shape {shown(value.shape)}"
        raise UserError(
            message,
            code="mismatch",
            key=f"reference.{name}",
            accepted=f"a value of shape {shown(shape)}, or one number",
        )
    if value.values.dtype.kind == "c" and element.kind is not ElementKind.COMPLEX:
        message = f"{name} holds {element.name}, its reference is complex"
        raise UserError(message, code="mismatch", key=f"reference.{name}", accepted="real(x), imag(x) or abs(x)")
    try:
        with np.errstate(all="ignore"):
            held, bound = _converted(element, value, rules)
    except ArrayOperationError as error:
        raise UserError(
            f"{name}: {error.message}", code="mismatch", key=f"reference.{name}", accepted=error.accepted
        ) from error
    held = np.array(np.broadcast_to(held, shape), order="C")  # an array of its own: the value may be an argument
    if tolerance is not None:
        return _made(held, tolerance.bound(held), element)
    _refuse_unbounded(name, held, bound)
    return _made(held, np.asarray(np.broadcast_to(bound, shape)), element)


def expected_at(
    name: str, element: ElementType, shape: Sequence[int], value: Tracked, *, tolerance: Tolerance | None, rules: Rules
) -> DeclaredExpected:
    """Return what chosen elements of an output must hold, as `expected` does for all.

    A relative tolerance looks at an element's neighbours, of which only chosen ones are known. An element may therefore
    be off by what rounding may change, too.
    """
    judged = expected(name, element, shape, value, tolerance=tolerance, rules=rules)
    if tolerance is None or tolerance.absolute is not None or element.is_exact:
        return judged
    with np.errstate(all="ignore"):
        _, bound = _converted(element, value, rules)
    rounding = np.where(np.isfinite(bound), bound, 0.0)
    return replace(judged, scale=np.maximum(judged.scale, rounding))


def unanalysed(element: ElementType, longest: int) -> Tolerance:
    """Return the tolerance for values that come without a bound: from a user's function, or from another variant.

    It is 16 u + 8 sqrt(n) u with the unit roundoff u of the kernel's arithmetic, n being the length of
    the longest axis, which a sum may run along, and the unit roundoff of the output's own type where that is coarser.
    Integers are exact.
    """
    if element.is_exact:
        return Tolerance(0.0)
    coarser = element.storing.unit if element.storing.unit > element.arithmetic.unit else 0.0
    return Tolerance((16 + 8 * math.sqrt(max(1, longest))) * element.arithmetic.unit + coarser)


def from_outputs(element: ElementType, shape: Sequence[int], stored: Array, tolerance: Tolerance) -> DeclaredExpected:
    """Take one variant's output for what others must hold. Of elements that it left poisoned, nothing is known."""
    stored = stored.reshape(tuple(shape)).copy()
    held = stored if element.is_exact else element.widened(stored)
    return _made(held, np.where(element.is_poison(stored), np.inf, tolerance.bound(held)), element)


class Unwritten(StrEnum):
    """Treatment of elements that still hold what they held before the launch."""

    POISON = "poison"
    """They hold poison, which is wrong."""
    PARTIAL = "partial"
    """They hold poison, and are not compared."""
    KEPT = "kept"
    """They hold the array's contents, and are compared."""


def compare(
    name: str,
    element: ElementType,
    expected_values: DeclaredExpected,
    stored: Array,
    unwritten: Unwritten,
    *,
    chosen: tuple[NDArray[np.int64], Sequence[int]] | None = None,
) -> tuple[float, str]:
    """Compare one output.

    Poison differs from every expected value, NaN included. An integer that a kernel may well have stored is only
    poison where another value is expected: see `ElementType.has_certain_poison`.

    Args:
        name: The output.
        element: Its element type.
        expected_values: What it must hold.
        stored: What it holds, in any shape.
        unwritten: Treatment of elements that nobody wrote.
        chosen: The flat indices of the elements that are compared, and the output's shape; None for all.

    Returns:
        The largest error, which may be at most 1, and in words the element that it is at; empty where all are right.
    """
    held, scale, got = expected_values.held.reshape(-1), expected_values.scale.reshape(-1), stored.reshape(-1)
    largest, worst, wrong = 0.0, 0, 0
    for begin in range(0, held.size, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        error = _errors(element, got[part], held[part], scale[part])
        if unwritten is Unwritten.PARTIAL:
            error = np.where(element.is_poison(got[part]), 0.0, error)
        elif unwritten is Unwritten.POISON:
            error = np.where(_are_unwritten(element, got[part], held[part], scale[part]), np.inf, error)
        wrong += int(np.count_nonzero(error > 1))
        place = int(np.argmax(error))
        if error[place] > largest:
            largest, worst = float(error[place]), begin + place
    if largest <= 1:
        return largest, ""
    flat, shape = (worst, expected_values.held.shape) if chosen is None else (chosen[0][worst], chosen[1])
    at = ", ".join(str(int(i)) for i in np.unravel_index(flat, shape))
    untouched = unwritten is Unwritten.POISON and bool(element.is_poison(got[worst : worst + 1])[0])
    value = NOT_WRITTEN if untouched else _shown(_widest(element, got[worst : worst + 1])[0])
    words = f"{name}[{at}]: got {value}, expected {_shown(held[worst])}"
    allowed = float(scale[worst])
    if not element.is_exact and _TINIEST < allowed < math.inf:
        words += f" ± {allowed:.2g}"
    return largest, f"{words}; {wrong} of {held.size} elements are wrong"


def _are_unwritten(element: ElementType, got: Array, held: NDArray[Any], scale: Floats) -> NDArray[np.bool_]:
    """Mark poison where it would pass for an expected value."""
    # an integer's expected value may be the poison's bytes, unless nothing is known of it
    passing = np.isinf(scale) & element.has_certain_poison if element.is_exact else np.isnan(held)
    return np.asarray(passing & element.is_poison(got)) if passing.any() else passing


def compare_sorted(
    name: str, element: ElementType, expected_values: DeclaredExpected, stored: Array, unwritten: Unwritten
) -> tuple[float, str]:
    """Compare one output as `compare` does, whatever the order of its elements, with both sides sorted.

    Of a partial output, as many elements must be unwritten as the reference has NaN.
    """
    got, held = stored.reshape(-1), expected_values.held.reshape(-1)
    placed, wanted = np.argsort(_widest(element, got), kind="stable"), np.argsort(held, kind="stable")
    values, scale = expected_values.values.reshape(-1)[wanted], expected_values.scale.reshape(-1)[wanted]
    kept = Unwritten.KEPT if unwritten is Unwritten.PARTIAL else unwritten
    return compare(f"sorted {name}", element, DeclaredExpected(values, scale, held[wanted]), got[placed], kept)


def laid_out(expected_values: DeclaredExpected, unwritten: Unwritten) -> Expected | None:
    """Return expected values as the device compares them; None where it cannot: see `Operator.elementwise`.

    The device takes poison for any NaN.
    """
    values, scale = expected_values.values.reshape(-1), expected_values.scale.reshape(-1)
    nowhere = np.isnan(values)
    if np.any(np.isinf(values)) or not np.all(np.isfinite(scale)):
        return None
    if unwritten is Unwritten.PARTIAL or (unwritten is Unwritten.POISON and nowhere.any()):
        return None
    return Expected(values, np.where(nowhere, np.nan, scale) if nowhere.any() else scale)


def _converted(element: ElementType, value: Tracked, rules: Rules) -> tuple[NDArray[Any], Floats]:
    """The value in the type of the comparison, and its bound."""
    if element.is_exact:
        cut = movement.astype(rules, value, element.name) if element.kind is ElementKind.INTEGER else value
        held = element.stored(cut.values)
        return held, np.zeros(()) if cut.bound is None else cut.bound
    held = value.values.astype(element.wide, copy=False)
    if value.bound is None:
        if np.array_equal(element.widened(element.stored(held)), held, equal_nan=True):
            return held, np.zeros(())
        bound = np.abs(held) * element.storing.unit + element.storing.least
    else:
        bound = _ROOM * value.bound
        if element.storing.unit > rules.arithmetic.unit:
            bound = bound + np.abs(held) * element.storing.unit + element.storing.least
    size = np.abs(held)
    if bool(np.all(size + bound <= element.largest)):  # the common case: no NaN, and nothing overflows
        return held, bound
    narrowed, finite = element.widened(element.stored(held)), np.isfinite(held)
    bound = np.where(finite, np.where(np.isnan(bound), np.inf, bound), 0.0)
    # beyond the largest number there is infinity, or that number again; next to it, either may come out
    either = finite & (size + bound > element.largest) & (size - bound <= element.largest)
    beyond = size > element.largest if element.saturates else np.isinf(narrowed)
    return np.where((finite | element.saturates) & beyond, narrowed, held), np.where(either, np.inf, bound)


def _refuse_unbounded(name: str, held: NDArray[Any], bound: Floats) -> None:
    unbounded = ~np.isfinite(np.broadcast_to(bound, held.shape)) & np.isfinite(held)
    share = float(np.mean(unbounded)) if held.size else 0.0
    if share > _MOST_UNBOUNDED:
        message = f"rounding errors may change {share:.0%} of the elements of {name} to anything"
        accepted = (
            "a tolerance of your own: tolerance: 1e-4, relative to each value and to the typical size of its neighbours"
        )
        raise UserError(message, code="unsupported", key=f"reference.{name}", accepted=accepted)


def _made(held: NDArray[Any], bound: Floats, element: ElementType) -> DeclaredExpected:
    smallest = _ALWAYS_RIGHT if element.is_exact else _TINIEST
    scale = np.maximum(np.where(np.isnan(bound), 0.0, bound), smallest)
    match element.kind:
        case ElementKind.FLOAT:
            return DeclaredExpected(held, scale, held)
        case ElementKind.COMPLEX:
            return DeclaredExpected(np.real(held), scale, held)
        case _:
            return DeclaredExpected(held.astype(np.float64), scale, held)


def _widest(element: ElementType, stored: Array) -> NDArray[Any]:
    """Stored elements as they are compared. A bool is its byte, since a kernel may write others than 0 and 1."""
    if element.kind is ElementKind.BOOL:
        return stored.view(np.uint8)
    return stored if element.is_exact else element.widened(stored)


def _errors(element: ElementType, stored: Array, held: NDArray[Any], scale: Floats) -> Floats:
    """The error of each element relative to its scale, infinite where one side alone is NaN or infinite."""
    got = _widest(element, np.ascontiguousarray(stored))
    with np.errstate(all="ignore"):
        if element.is_exact:
            held = held.view(np.uint8) if element.kind is ElementKind.BOOL else held
            apart = np.where(got > held, got - held, held - got)  # of unsigned ones, never below 0
            wide = apart.view(f"u{apart.itemsize}")  # of -2^31 and 2^31 - 1, more than an int32 holds
            return np.asarray(wide.astype(np.float64) / scale)
        error = np.abs(got - held) / scale
        same = (got == held) | (np.isnan(got) & np.isnan(held))
        error = np.where(same | (np.isinf(scale) & ~np.isnan(got)), 0.0, error)
        return np.where(np.isnan(error), np.inf, error)


def _shown(value: Any) -> str:  # noqa: ANN401 - a NumPy scalar of any type
    if isinstance(value, np.bool_ | np.integer):
        return str(int(value))
    return f"{value:.9g}"
