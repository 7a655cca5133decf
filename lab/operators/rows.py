"""Base class of operators on the rows of a row-major matrix: buffer views and comparison.

Element (i, j) of a matrix whose rows are ``ld`` elements apart lies at ``i ld + j``. Arithmetic is done in float32 for
every element type.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final, Self, TypeVar

import numpy as np
from pydantic import model_validator

from lab.base.expressions import Scalar
from lab.operators.base import Array, Expected, Inputs, Operator, Problem
from lab.operators.bfloat16 import BF16_NAN
from lab.operators.boxes import Index
from lab.operators.chosen import expected_of, verify_chosen
from lab.operators.indexed import IndexedArray, IndexedInputs, WholeArray
from lab.operators.matrices import check_leading, padded, worst_element
from lab.operators.stored import widened

_MOST_AT_ONCE: Final = 1 << 21
"""Maximum elements of the rows whose reference is computed for selected elements."""

_CHUNK: Final = 1 << 19
"""Elements the reference computes at a time: a few such arrays fit in a core's cache."""


class RowProblem(Problem):
    """The rows of one or more matrices, n columns each; every field that begins with `ld` is a row stride."""

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        for name in type(self).model_fields:
            if name.startswith("ld"):
                check_leading(name, int(self[name]), int(self["n"]))
        return self

    @property
    def numbers(self) -> dict[str, Scalar]:
        """The declared fields that are numbers, in order: a kernel's scalar arguments."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in fields.items() if not isinstance(value, str)}


P = TypeVar("P", bound=RowProblem)


class RowOperator(Operator[P]):
    """An operator whose only output is a row-major matrix of m x n elements.

    The reference's scale is a bound on each element's error, so the tolerance is 1.

    Attributes:
        output: Name of the output.
        leading: The problem's field with the row stride in elements.
    """

    output: ClassVar[str]
    leading: ClassVar[str]

    def other_problem(self, problem: P) -> P | None:
        """Return the problem with padding between the rows of every matrix."""
        fields = [name for name in problem if name.startswith("ld")]
        changes = padded(problem, dict.fromkeys(fields, int(problem["n"])))
        return self.restored({**problem.plain, **changes}) if changes else None

    def required(self, problem: P) -> tuple[str, ...]:
        """Return the output if every element of its buffer is written: its rows have no padding."""
        return (self.output,) if problem[self.leading] == problem["n"] else ()

    def inputs_of(self, problem: P, arrays: Mapping[str, Array]) -> Inputs:
        """Return the inputs with these arrays."""
        return Inputs(problem.numbers, arrays, (self.output,), self.required(problem))

    def indexed_inputs_of(self, problem: P, arrays: Mapping[str, IndexedArray]) -> IndexedInputs:
        """Return the inputs with these arrays, which are generated when they are read."""
        return IndexedInputs(problem.numbers, arrays, (self.output,), self.required(problem))

    @abstractmethod
    def expected_rows(self, problem: P, inputs: IndexedInputs, rows: Index) -> Expected:
        """Return the expected values of some rows, and a bound on each element's error."""

    def reference(self, problem: P, inputs: Inputs) -> Mapping[str, Expected]:
        """Compute all rows as `expected_rows` does."""
        m, n = int(problem["m"]), int(problem["n"])
        indexed = self.indexed_inputs_of(problem, {name: WholeArray(array) for name, array in inputs.arrays.items()})
        values, scale = np.empty((m, n)), np.empty((m, n))
        step = max(1, _CHUNK // n)

        def compute_rows(first: int) -> None:
            rows = slice(first, min(m, first + step))
            expected = self.expected_rows(problem, indexed, np.arange(rows.start, rows.stop))
            values[rows], scale[rows] = expected.values, expected.scale

        with ThreadPoolExecutor() as pool:  # NumPy computes outside Python's lock
            list(pool.map(compute_rows, range(0, m, step)))
        return {self.output: Expected(values, scale)}

    def representative(self, problem: P, indices: Mapping[str, Index]) -> Mapping[str, Index]:
        """Thin out the selected elements to as many rows as are quick to compute."""
        n, elements = int(problem["n"]), indices[self.output]
        row_indices = elements // int(problem[self.leading])
        rows = np.unique(row_indices)
        max_rows = max(1, _MOST_AT_ONCE // n)
        if len(rows) <= max_rows:
            return indices
        kept_rows = rows[np.linspace(0, len(rows) - 1, max_rows).astype(np.int64)]
        return {self.output: elements[np.isin(row_indices, kept_rows)]}

    def reference_at(self, problem: P, inputs: IndexedInputs, indices: Mapping[str, Index]) -> Mapping[str, Expected]:
        """Compute selected elements from their rows; padding must stay NaN."""
        rows, columns = np.divmod(indices[self.output], int(problem[self.leading]))
        used = columns < int(problem["n"])
        chosen, back = np.unique(rows[used], return_inverse=True)
        expected = self.expected_rows(problem, inputs, chosen)
        at = back, columns[used]
        return {self.output: expected_of(expected.values[at], expected.scale[at], used, 1.0)}

    def verify_at(
        self, problem: P, reference: Mapping[str, Expected], indices: Mapping[str, Index], got: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare selected elements, as `verify` does for all elements."""
        stride = int(problem[self.leading])

        def place(name: str, index: int) -> str:
            return f"{name}[{index // stride}, {index % stride}]"

        return verify_chosen(reference, indices, got, place)

    def verify(
        self, problem: P, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare element by element: the error is |got - expected| over the bound that the reference states.

        A NaN must be where NumPy has one, and nowhere else. Padding between rows must be untouched.
        """
        m, n, stride = (int(problem[key]) for key in ("m", "n", self.leading))
        name, buffer = self.output, outputs[self.output]
        got, expected = widened(rows_of(buffer, m, n, stride)), reference[name].values
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(got - expected) / reference[name].scale
        error[np.isnan(got) & np.isnan(expected)] = 0.0
        error[np.isnan(got) != np.isnan(expected)] = np.inf
        row, column = (int(i) for i in np.unravel_index(np.argmax(error), error.shape))
        largest = float(error[row, column])
        if largest > 1.0:
            wrong = int(np.count_nonzero(error > 1.0))
            at, value = f"{name}[{row}, {column}]", f"{got[row, column]:.9g}"
            return largest, 1.0, worst_element(at, value, expected[row, column], wrong, got.size)
        strayed = _stray_write(name, buffer, m, n, stride)
        return (float("inf"), 1.0, strayed) if strayed else (largest, 1.0, "")

    def elementwise(self, problem: P, reference: Mapping[str, Expected]) -> tuple[Mapping[str, Expected], float]:
        """Lay the output out row by row; the padding of a row, and rows that NumPy makes NaN, must be NaN."""
        n, stride = int(problem["n"]), int(problem[self.leading])
        values, scale = reference[self.output].values, reference[self.output].scale
        nowhere = np.isnan(values[:, 0])  # NumPy makes whole rows NaN
        if nowhere.any():
            scale = np.where(nowhere[:, None], np.nan, scale)
        if stride > n:
            values, scale = (
                np.pad(matrix, ((0, 0), (0, stride - n)), constant_values=np.nan) for matrix in (values, scale)
            )
        return {self.output: Expected(values.reshape(-1), scale.reshape(-1))}, 1.0

    def fma_dtype(self, problem: P) -> np.dtype[Any]:
        """Return float32, in which arithmetic is done for every element type."""
        del problem
        return np.dtype(np.float32)


def rows_of(array: Array, m: int, n: int, stride: int) -> Array:
    """Return a row-major matrix as an m x n view of its buffer."""
    return array.reshape(m, stride)[:, :n]


def _stray_write(name: str, buffer: Array, m: int, n: int, stride: int) -> str:
    """Describe the first write to the padding between a matrix's rows; empty if there is none."""
    padding = buffer.reshape(m, stride)[:, n:]
    untouched = padding == BF16_NAN if padding.dtype == np.uint16 else np.isnan(padding.astype(np.float64))
    stray = np.argwhere(~untouched)
    if not len(stray):
        return ""
    row, beyond = (int(i) for i in stray[0])
    return f"{name}[{row}, {n + beyond}]: written, but {name} has {n} columns"
