"""Expected values of declared outputs, their error bounds, and the comparison."""

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
"""Elements compared at a time: a few such arrays fit in a core's cache."""

_ROOM: Final = 2.0
"""Factor of bounds: a kernel may reorder operations, and the reference itself is rounded to float64."""

_MOST_UNBOUNDED: Final = 0.1
"""Largest share of elements without an error bound; beyond it the comparison is meaningless."""

_ALWAYS_RIGHT: Final = 0.5
"""The scale of integers that must be exact: an error of 1 is twice that."""

NOT_WRITTEN: Final = "nothing: it was not written"
"""Text in messages for an element that still holds its poison."""

_TINIEST: Final = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class DeclaredExpected(Expected):
    """Expected values of one output; errors are relative to `scale`, and the tolerance is 1.

    Attributes:
        held: The values in the type that the comparison is done in: `values` themselves for floats, complex128 for
            complex numbers, and for others the output's own type.
    """

    held: NDArray[Any]


def expected(
    name: str, element: ElementType, shape: Sequence[int], value: Tracked, *, tolerance: Tolerance | None, rules: Rules
) -> DeclaredExpected:
    """Convert a reference's value to the expected values of an output.

    Args:
        name: The output.
        element: Its element type.
        shape: Its shape.
        value: The reference's value.
        tolerance: The user's tolerance; None for the value's bound.
        rules: The kernel's rounding.

    Raises:
        UserError: The value's shape or kind does not fit the output, or too many elements have no bound.
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
            values, bound = _converted(element, value, rules)
    except ArrayOperationError as error:
        raise UserError(
            f"{name}: {error.message}", code="mismatch", key=f"reference.{name}", accepted=error.accepted
        ) from error
    values = np.array(np.broadcast_to(values, shape), order="C")  # a copy: the value may be an argument
    if tolerance is not None:
        return _made(values, tolerance.bound(values), element)
    _refuse_unbounded(name, values, bound)
    return _made(values, np.asarray(np.broadcast_to(bound, shape)), element)


def expected_at(
    name: str, element: ElementType, shape: Sequence[int], value: Tracked, *, tolerance: Tolerance | None, rules: Rules
) -> DeclaredExpected:
    """Return the expected values of selected elements, as `expected` does for all.

    A relative tolerance depends on an element's neighbours, of which only selected ones are known. The bound on
    rounding errors is therefore accepted, too.
    """
    judged = expected(name, element, shape, value, tolerance=tolerance, rules=rules)
    if tolerance is None or tolerance.absolute is not None or element.is_exact:
        return judged
    with np.errstate(all="ignore"):
        _, bound = _converted(element, value, rules)
    rounding = np.where(np.isfinite(bound), bound, 0.0)
    return replace(judged, scale=np.maximum(judged.scale, rounding))


def unanalysed(element: ElementType, longest: int) -> Tolerance:
    """Return the tolerance for values without a bound: from a user's function or another variant.

    It is 16 u + 8 sqrt(n) u with the unit roundoff u of the kernel's arithmetic, n being the length of
    the longest axis, which a sum may run along, and the unit roundoff of the output's own type where that is coarser.
    Integers are exact.
    """
    if element.is_exact:
        return Tolerance(0.0)
    coarser = element.storing.unit if element.storing.unit > element.arithmetic.unit else 0.0
    return Tolerance((16 + 8 * math.sqrt(max(1, longest))) * element.arithmetic.unit + coarser)


def from_outputs(element: ElementType, shape: Sequence[int], stored: Array, tolerance: Tolerance) -> DeclaredExpected:
    """Use one variant's output as the expected values of others; poisoned elements match anything."""
    stored = stored.reshape(tuple(shape)).copy()
    values = stored if element.is_exact else element.widened(stored)
    return _made(values, np.where(element.is_poison(stored), np.inf, tolerance.bound(values)), element)


class Unwritten(StrEnum):
    """Treatment of elements that were not written by the launch."""

    POISON = "poison"
    """They hold poison, which is wrong."""
    PARTIAL = "partial"
    """They hold poison, and are not compared."""
    KEPT = "kept"
    """They hold the array's initial contents, and are compared."""


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
        expected_values: Its expected values.
        stored: Its contents, in any shape.
        unwritten: Treatment of unwritten elements.
        chosen: The flat indices of the elements that are compared, and the output's shape; None for all.

    Returns:
        The largest error, which must be at most 1, and a description of its element; empty if all are correct.
    """
    reference, scale, got = expected_values.held.reshape(-1), expected_values.scale.reshape(-1), stored.reshape(-1)
    largest, worst, wrong = 0.0, 0, 0
    for begin in range(0, reference.size, _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        error = _errors(element, got[chunk], reference[chunk], scale[chunk])
        if unwritten is Unwritten.PARTIAL:
            error = np.where(element.is_poison(got[chunk]), 0.0, error)
        elif unwritten is Unwritten.POISON:
            error = np.where(_are_unwritten(element, got[chunk], reference[chunk], scale[chunk]), np.inf, error)
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
    words = f"{name}[{at}]: got {value}, expected {_shown(reference[worst])}"
    margin = float(scale[worst])
    if not element.is_exact and _TINIEST < margin < math.inf:
        words += f" ± {margin:.2g}"
    return largest, f"{words}; {wrong} of {reference.size} elements are wrong"


def _are_unwritten(element: ElementType, got: Array, reference: NDArray[Any], scale: Floats) -> NDArray[np.bool_]:
    """Mark poison where it would match an expected value."""
    # an integer's expected value may be the poison's bytes, unless nothing is known of it
    passing = np.isinf(scale) & element.has_certain_poison if element.is_exact else np.isnan(reference)
    return np.asarray(passing & element.is_poison(got)) if passing.any() else passing


def compare_sorted(
    name: str, element: ElementType, expected_values: DeclaredExpected, stored: Array, unwritten: Unwritten
) -> tuple[float, str]:
    """Compare one output regardless of the order of its elements, by sorting both sides.

    A partial output must have as many unwritten elements as the reference has NaNs.
    """
    got, reference = stored.reshape(-1), expected_values.held.reshape(-1)
    placed, reference_order = np.argsort(_widest(element, got), kind="stable"), np.argsort(reference, kind="stable")
    values, scale = (
        expected_values.values.reshape(-1)[reference_order],
        expected_values.scale.reshape(-1)[reference_order],
    )
    treatment = Unwritten.KEPT if unwritten is Unwritten.PARTIAL else unwritten
    return compare(
        f"sorted {name}", element, DeclaredExpected(values, scale, reference[reference_order]), got[placed], treatment
    )


def laid_out(expected_values: DeclaredExpected, unwritten: Unwritten) -> Expected | None:
    """Return expected values for a comparison on the device; None if it cannot: see `Operator.elementwise`.

    The device treats poison as any NaN.
    """
    values, scale = expected_values.values.reshape(-1), expected_values.scale.reshape(-1)
    nowhere = np.isnan(values)
    if np.any(np.isinf(values)) or not np.all(np.isfinite(scale)):
        return None
    if unwritten is Unwritten.PARTIAL or (unwritten is Unwritten.POISON and nowhere.any()):
        return None
    return Expected(values, np.where(nowhere, np.nan, scale) if nowhere.any() else scale)


def _converted(element: ElementType, value: Tracked, rules: Rules) -> tuple[NDArray[Any], Floats]:
    """Convert a value to the type of the comparison, and return it with its bound."""
    if element.is_exact:
        cut = movement.astype(rules, value, element.name) if element.kind is ElementKind.INTEGER else value
        converted = element.stored(cut.values)
        return converted, np.zeros(()) if cut.bound is None else cut.bound
    converted = value.values.astype(element.wide, copy=False)
    if value.bound is None:
        if np.array_equal(element.widened(element.stored(converted)), converted, equal_nan=True):
            return converted, np.zeros(())
        bound = np.abs(converted) * element.storing.unit + element.storing.least
    else:
        bound = _ROOM * value.bound
        if element.storing.unit > rules.arithmetic.unit:
            bound = bound + np.abs(converted) * element.storing.unit + element.storing.least
    size = np.abs(converted)
    if bool(np.all(size + bound <= element.largest)):  # the common case: no NaN, and nothing overflows
        return converted, bound
    narrowed, finite = element.widened(element.stored(converted)), np.isfinite(converted)
    bound = np.where(finite, np.where(np.isnan(bound), np.inf, bound), 0.0)
    # beyond the largest number the result is infinity or that number; next to it, it may be either
    either = finite & (size + bound > element.largest) & (size - bound <= element.largest)
    beyond = size > element.largest if element.saturates else np.isinf(narrowed)
    return np.where((finite | element.saturates) & beyond, narrowed, converted), np.where(either, np.inf, bound)


def _refuse_unbounded(name: str, values: NDArray[Any], bound: Floats) -> None:
    unbounded = ~np.isfinite(np.broadcast_to(bound, values.shape)) & np.isfinite(values)
    share = float(np.mean(unbounded)) if values.size else 0.0
    if share > _MOST_UNBOUNDED:
        message = f"rounding errors may change {share:.0%} of the elements of {name} to anything"
        accepted = (
            "a tolerance of your own: tolerance: 1e-4, relative to each value and to the typical size of its neighbours"
        )
        raise UserError(message, code="unsupported", key=f"reference.{name}", accepted=accepted)


def _made(values: NDArray[Any], bound: Floats, element: ElementType) -> DeclaredExpected:
    smallest = _ALWAYS_RIGHT if element.is_exact else _TINIEST
    scale = np.maximum(np.where(np.isnan(bound), 0.0, bound), smallest)
    match element.kind:
        case ElementKind.FLOAT:
            return DeclaredExpected(values, scale, values)
        case ElementKind.COMPLEX:
            return DeclaredExpected(np.real(values), scale, values)
        case _:
            return DeclaredExpected(values.astype(np.float64), scale, values)


def _widest(element: ElementType, stored: Array) -> NDArray[Any]:
    """Return stored elements in the type of the comparison; a bool is its byte, which may exceed 1."""
    if element.kind is ElementKind.BOOL:
        return stored.view(np.uint8)
    return stored if element.is_exact else element.widened(stored)


def _errors(element: ElementType, stored: Array, reference: NDArray[Any], scale: Floats) -> Floats:
    """Return each element's error relative to its scale, infinite if only one side is NaN or infinite."""
    got = _widest(element, np.ascontiguousarray(stored))
    with np.errstate(all="ignore"):
        if element.is_exact:
            reference = reference.view(np.uint8) if element.kind is ElementKind.BOOL else reference
            apart = np.where(got > reference, got - reference, reference - got)  # of unsigned ones, never below 0
            wide = apart.view(f"u{apart.itemsize}")  # of -2^31 and 2^31 - 1, more than an int32 holds
            return np.asarray(wide.astype(np.float64) / scale)
        error = np.abs(got - reference) / scale
        is_equal = (got == reference) | (np.isnan(got) & np.isnan(reference))
        error = np.where(is_equal | (np.isinf(scale) & ~np.isnan(got)), 0.0, error)
        return np.where(np.isnan(error), np.inf, error)


def _shown(value: Any) -> str:  # noqa: ANN401 - a NumPy scalar of any type
    if isinstance(value, np.bool_ | np.integer):
        return str(int(value))
    return f"{value:.9g}"
