"""References for selected elements of output buffers, and their comparison, for built-in operators."""

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
"""Maximum number of array elements for which the reference is computed as a whole."""


@dataclass(frozen=True, slots=True)
class ExpectedAt(Expected):
    """The reference of selected elements: 1-D `values` and `scale`, as in `Operator.elementwise`.

    Attributes:
        tolerance: The largest error relative to `scale` that passes.
    """

    tolerance: float


def whole_at(
    computed: Operator[Any], problem: Problem, inputs: IndexedInputs, indices: Mapping[str, Index]
) -> Mapping[str, Expected] | None:
    """Compute the whole reference, once for the variants of a sweep, and select elements of it.

    Args:
        computed: The operator.
        problem: The problem.
        inputs: Of `Operator.indexed_inputs`.
        indices: Of each output, (count,) indices into its buffer.

    Returns:
        An `ExpectedAt` for each output; None if the arrays are large or `Operator.elementwise` returns None.
    """
    if sum(array.size for array in inputs.arrays.values()) > _MOST_WHOLE:
        return None
    laid = _laid_out(computed, problem, inputs)
    if laid is None:
        return None
    references: dict[str, Expected] = {}
    for name, elements in indices.items():
        expected, size = laid[0][name], inputs.arrays[name].size
        values, scale = (
            array.reshape(size, -1)[elements] for array in (expected.values, expected.scale)
        )  # parts of each
        references[name] = ExpectedAt(values.reshape(-1), scale.reshape(-1), laid[1])
    return references


@lru_cache(maxsize=2)
def _laid_out(
    computed: Operator[Any], problem: Problem, inputs: IndexedInputs
) -> tuple[Mapping[str, Expected], float] | None:
    arrays = {name: array.read(0, array.size) for name, array in inputs.arrays.items()}
    materialised = Inputs(inputs.scalars, arrays, inputs.outputs, inputs.required, inputs.scratch)
    return computed.elementwise(problem, computed.reference(problem, materialised))


def errors_at(expected: ExpectedAt, got: Array, dtype: str = "bfloat16") -> Floats:
    """Return the error of each element, or of each part of a complex one, relative to its scale.

    Where the scale is NaN, an element that is no longer poisoned (`lab.operators.stored.empty`) has the error inf.

    Args:
        expected: Their expected values.
        got: What they hold.
        dtype: Their type, which matters where integers are the bits of a type that NumPy lacks.
    """
    components = parts(got)
    with np.errstate(all="ignore"):
        error = np.abs(widened(components, dtype) - expected.values) / expected.scale
    error = np.where(np.isnan(error), np.inf, error)
    return np.where(np.isnan(expected.scale) & is_empty(components, dtype), 0.0, error)


def verify_chosen(
    reference: Mapping[str, Expected],
    indices: Mapping[str, Index],
    got: Mapping[str, Array],
    place: Callable[[str, int], str],
    dtype: str = "bfloat16",
) -> tuple[float, float, str]:
    """Compare selected elements with an `ExpectedAt` per output, as `Operator.verify` does for all elements.

    Args:
        reference: Their expected values.
        indices: Of each output, (count,) indices into its buffer.
        got: What they hold.
        place: Describes the element at an index of an output: ``C[3, 4]``.
        dtype: As of `errors_at`.
    """
    worst, tolerance, words = 0.0, 0.0, ""
    for name, elements in indices.items():
        expected = reference[name]
        assert isinstance(expected, ExpectedAt)  # noqa: S101 - of `reference_at`
        tolerance = expected.tolerance
        error = errors_at(expected, got[name], dtype)
        at = int(np.argmax(error))
        if not len(error) or error[at] <= worst:
            continue
        worst = float(error[at])
        if worst > tolerance:
            components, count = parts(got[name]), error.size // len(elements)
            wrong = int(np.count_nonzero(error > tolerance))
            element = place(name, int(elements[at // count]))
            component = f"{('real', 'imaginary')[at % count]} part of " if count > 1 else ""
            value = widened(components[at : at + 1], dtype)[0]
            words = worst_element(f"{component}{element}", value, float(expected.values[at]), wrong, error.size)
    return worst, tolerance, words


def expected_of(values: NDArray[Any], scale: NDArray[Any], used: NDArray[np.bool_], tolerance: float) -> ExpectedAt:
    """Return the reference of selected elements, some of which are padding.

    Args:
        values: Expected values of the elements that are not padding.
        scale: Their scales; ignored where NaN is expected.
        used: Mask over all selected elements: False for padding.
        tolerance: The tolerance.
    """
    shape = (len(used), *values.shape[1:])
    all_values, scales = np.full(shape, np.nan), np.full(shape, np.nan)
    all_values[used], scales[used] = values, np.where(np.isnan(values), np.nan, scale)
    return ExpectedAt(all_values.reshape(-1), scales.reshape(-1), tolerance)
