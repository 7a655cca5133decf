"""Copy and transpose, ``B ← A`` and ``B ← Aᵀ``, column-major with leading dimensions.

A is m x n; the m elements of a column are contiguous in memory. A vector is a matrix of one column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from lab.base.expressions import Scalar
from lab.measured.timing import Merit
from lab.operators.base import Array, Expected, Extent, Inputs, Operator, Problem
from lab.operators.boxes import Index
from lab.operators.chosen import expected_of, verify_chosen
from lab.operators.indexed import IndexedInputs, gather
from lab.operators.matrices import check_elements, check_leading, laid_out, matrix, padded, stray_write, worst_element
from lab.operators.paged_inputs import blank, normal, paged_lines


class MoveProblem(Problem):
    """A matrix to move.

    Attributes:
        m: Rows of A.
        n: Columns of A; 1 by default.
        dtype: Element type.
        lda: Leading dimension of A; the least that is legal by default.
        ldb: Leading dimension of B, likewise.
    """

    transposes: ClassVar[bool]

    m: Extent
    n: Extent = 1
    dtype: Literal["float32", "float64", "float16"] = "float32"
    lda: Extent = Field(default_factory=lambda fields: fields["m"])
    ldb: Extent

    @property
    def moved(self) -> tuple[int, int, int]:
        """Rows, columns and leading dimension of B."""
        return (self.n, self.m, self.ldb) if self.transposes else (self.m, self.n, self.ldb)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name, (rows, columns, leading) in {"A": (self.m, self.n, self.lda), "B": self.moved}.items():
            field = f"ld{name.lower()}"
            check_leading(field, leading, rows)
            check_elements(name, rows, columns, leading, key=f"problem.{field}")
        return self


class CopyProblem(MoveProblem):
    """A matrix to copy: B is m x n."""

    transposes = False

    ldb: Extent = Field(default_factory=lambda fields: fields["m"])


class TransposeProblem(MoveProblem):
    """A matrix to transpose: B is n x m."""

    transposes = True

    ldb: Extent = Field(default_factory=lambda fields: fields["n"])


@dataclass(frozen=True)
class Move(Operator[MoveProblem]):
    """The operators `copy` and `transpose`."""

    name: str
    problem_type: type[MoveProblem]
    merit = Merit.BANDWIDTH

    def inputs(self, problem: MoveProblem, seed: int) -> Inputs:
        """Make standard normal A; NaN between its columns and in all of B."""
        dtype = np.dtype(problem.dtype)
        m, n, lda = problem.m, problem.n, problem.lda
        a = np.full(lda * n, np.nan, dtype)
        matrix(a, m, n, lda)[...] = np.random.default_rng(seed).standard_normal((n, m), dtype=np.float32).T
        _, columns, ldb = problem.moved
        arrays: dict[str, Array] = {"A": a, "B": np.full(ldb * columns, np.nan, dtype)}
        return Inputs(scalars=_scalars(problem), arrays=arrays, outputs=("B",), required=_required(problem))

    def other_problem(self, problem: MoveProblem) -> MoveProblem | None:
        """Return the problem with padding between columns."""
        changes = padded(problem, {"lda": problem.m, "ldb": problem.moved[0]})
        return self.restored({**problem.plain, **changes}) if changes else None

    def indexed_inputs(self, problem: MoveProblem, seed: int) -> IndexedInputs:
        """Draw A page by page, as `inputs` fills it."""
        _, columns, ldb = problem.moved
        a = paged_lines("A", seed, (problem.n, problem.m, problem.lda), problem.dtype, normal(problem.dtype))
        arrays = {"A": a, "B": blank(ldb * columns, problem.dtype)}
        return IndexedInputs(_scalars(problem), arrays, ("B",), _required(problem))

    def reference_at(
        self, problem: MoveProblem, inputs: IndexedInputs, indices: Mapping[str, Index]
    ) -> Mapping[str, Expected]:
        """Return the elements of A expected at selected elements of B; padding must stay NaN."""
        rows, _, ldb = problem.moved
        columns, at = np.divmod(indices["B"], ldb)
        used = at < rows
        i, j = (columns, at) if problem.transposes else (at, columns)
        values = gather(inputs.arrays["A"], (i + j * problem.lda)[used]).astype(np.float64)
        return {"B": expected_of(values, np.ones(len(values)), used, 0.0)}

    def verify_at(
        self,
        problem: MoveProblem,
        reference: Mapping[str, Expected],
        indices: Mapping[str, Index],
        got: Mapping[str, Array],
    ) -> tuple[float, float, str]:
        """Compare selected elements, as `verify` does for all elements."""

        def place(name: str, index: int) -> str:
            return f"{name}[{index % problem.ldb}, {index // problem.ldb}]"

        return verify_chosen(reference, indices, got, place)

    def reference(self, problem: MoveProblem, inputs: Inputs) -> Mapping[str, Expected]:
        """Return A, or its transpose; errors are absolute."""
        m, n, lda = problem.m, problem.n, problem.lda
        a = matrix(inputs.arrays["A"], m, n, lda).astype(np.float64)
        values = a.T if problem.transposes else a
        return {"B": Expected(values, np.broadcast_to(1.0, values.shape))}

    def verify(
        self, problem: MoveProblem, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare element by element: moved values do not change, so the tolerance is 0.

        Padding between columns must be untouched: an element there that is no longer NaN is an error of inf.
        """
        rows, columns, ldb = problem.moved
        got, expected = matrix(outputs["B"], rows, columns, ldb), reference["B"].values
        wrong = np.argwhere(~(got == expected))
        if len(wrong):
            i, j = (int(place) for place in wrong[0])
            largest = float(np.max(np.abs(got[tuple(wrong.T)].astype(np.float64) - expected[tuple(wrong.T)])))
            return largest, 0.0, worst_element(f"B[{i}, {j}]", got[i, j], expected[i, j], len(wrong), got.size)
        strayed = stray_write("B", outputs["B"], (rows, columns, ldb))
        return (float("inf"), 0.0, strayed) if strayed else (0.0, 0.0, "")

    def elementwise(
        self, problem: MoveProblem, reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float]:
        """Lay B out column by column; the padding of a column must stay NaN."""
        ldb, expected = problem.ldb, reference["B"]
        return {"B": Expected(laid_out(expected.values, ldb), laid_out(expected.scale, ldb))}, 0.0

    def flops(self, problem: MoveProblem) -> int:
        """Return 0: nothing is computed."""
        del problem
        return 0

    def bytes_moved(self, problem: MoveProblem) -> int:
        """Count every element read once and written once."""
        return 2 * problem.m * problem.n * np.dtype(problem.dtype).itemsize

    def fma_dtype(self, problem: MoveProblem) -> np.dtype[Any]:
        """Return the element type, though nothing is computed in it."""
        return np.dtype(problem.dtype)


def _scalars(problem: MoveProblem) -> dict[str, Scalar]:
    return {key: problem[key] for key in ("m", "n", "lda", "ldb")}


def _required(problem: MoveProblem) -> tuple[str, ...]:
    """Return B if every element of its buffer is written."""
    rows, _, ldb = problem.moved
    return ("B",) if ldb == rows else ()
