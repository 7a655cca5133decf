"""References of chosen elements of an output's buffer, and their comparison, for operators that are built in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.operators.base import Array, Expected, Floats, Inputs, Operator, Problem
from lab.operators.boxes import Index
from lab.operators.indexed import IndexedInputs
from lab.operators.matrices import worst_element
from lab.operators.stored import is_empty, parts, widened

_MOST_WHOLE: Final = 1 << 22
"""Elements of the arrays of a problem whose reference is computed as a whole."""


@dataclass(frozen=True, slots=True)
class ExpectedAt(Expected):
    """The reference of chosen elements: `values` and `scale` are 1-D, as `Operator.elementwise` has them.

    Attributes:
        tolerance: The largest error relative to `scale` that passes.
    """

    tolerance: float


def whole_at(
    computed: Operator[Any], problem: Problem, inputs: IndexedInputs, wanted: Mapping[str, Index]
) -> Mapping[str, Expected] | None:
    """Compute the reference as a whole, once for the variants of a sweep, and take chosen elements of it.

    Args:
        computed: The operator.
        problem: The problem.
        inputs: Of `Operator.indexed_inputs`.
        wanted: Of each output, (count,) indices into its buffer.

    Returns:
        An `ExpectedAt` for each output; None where the arrays are large, or `Operator.elementwise` has nothing.
    """
    if sum(one.size for one in inputs.arrays.values()) > _MOST_WHOLE:
        return None
    laid = _laid_out(computed, problem, inputs)
    if laid is None:
        return None
    found: dict[str, Expected] = {}
    for name, elements in wanted.items():
        expected, size = laid[0][name], inputs.arrays[name].size
        values, scale = (one.reshape(size, -1)[elements] for one in (expected.values, expected.scale))  # parts of each
        found[name] = ExpectedAt(values.reshape(-1), scale.reshape(-1), laid[1])
    return found


@lru_cache(maxsize=2)
def _laid_out(
    computed: Operator[Any], problem: Problem, inputs: IndexedInputs
) -> tuple[Mapping[str, Expected], float] | None:
    arrays = {name: one.read(0, one.size) for name, one in inputs.arrays.items()}
    whole = Inputs(inputs.scalars, arrays, inputs.outputs, inputs.required, inputs.scratch)
    return computed.elementwise(problem, computed.reference(problem, whole))


def errors_at(expected: ExpectedAt, got: Array, dtype: str = "bfloat16") -> Floats:
    """Return the error of each element, or part of a complex one, relative to its scale.

    Where the scale is NaN, an element that is not as `lab.operators.stored.empty` makes it is an error of inf.

    Args:
        expected: What they must hold.
        got: What they hold.
        dtype: Their type, which matters where integers are the bits of a type that NumPy lacks.
    """
    held = parts(got)
    with np.errstate(all="ignore"):
        error = np.abs(widened(held, dtype) - expected.values) / expected.scale
    error = np.where(np.isnan(error), np.inf, error)
    return np.where(np.isnan(expected.scale) & is_empty(held, dtype), 0.0, error)


def verify_chosen(
    reference: Mapping[str, Expected],
    wanted: Mapping[str, Index],
    got: Mapping[str, Array],
    place: Callable[[str, int], str],
    dtype: str = "bfloat16",
) -> tuple[float, float, str]:
    """Compare chosen elements with an `ExpectedAt` for each output, as `Operator.verify` does all.

    Args:
        reference: What they must hold.
        wanted: Of each output, (count,) indices into its buffer.
        got: What they hold.
        place: Returns the words for the element at an index of an output: ``C[3, 4]``.
        dtype: As of `errors_at`.
    """
    worst, tolerance, words = 0.0, 0.0, ""
    for name, elements in wanted.items():
        expected = reference[name]
        assert isinstance(expected, ExpectedAt)  # noqa: S101 - of `reference_at`
        tolerance = expected.tolerance
        error = errors_at(expected, got[name], dtype)
        at = int(np.argmax(error))
        if not len(error) or error[at] <= worst:
            continue
        worst = float(error[at])
        if worst > tolerance:
            held, count = parts(got[name]), error.size // len(elements)
            wrong = int(np.count_nonzero(error > tolerance))
            element = place(name, int(elements[at // count]))
            part = f"{('real', 'imaginary')[at % count]} part of " if count > 1 else ""
            value = widened(held[at : at + 1], dtype)[0]
            words = worst_element(f"{part}{element}", value, float(expected.values[at]), wrong, error.size)
    return worst, tolerance, words


def expected_of(values: NDArray[Any], scale: NDArray[Any], used: NDArray[np.bool_], tolerance: float) -> ExpectedAt:
    """Return the reference of chosen elements of which some are padding.

    Args:
        values: Of those that are not padding.
        scale: Likewise; what must be NaN has any.
        used: Of all, which are not padding.
        tolerance: The tolerance.
    """
    shape = (len(used), *values.shape[1:])
    held, scales = np.full(shape, np.nan), np.full(shape, np.nan)
    held[used], scales[used] = values, np.where(np.isnan(values), np.nan, scale)
    return ExpectedAt(held.reshape(-1), scales.reshape(-1), tolerance)
