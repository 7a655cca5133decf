"""General matrix product, ``C ← α op(A) op(B) + β C``, column-major with leading dimensions as in BLAS.

`layout` holds BLAS letters: ``nn``, ``nt``, ``tn``, ``tt``; the first letter is A's, the second B's.
op(A) is m x k, op(B) is k x n, C is m x n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from lab.measured.timing import Merit
from lab.operators.base import Array, Expected, Extent, Inputs, Operator, Problem
from lab.operators.matrices import (
    check_elements,
    check_leading,
    laid_out,
    matrix,
    stray_write,
    tolerance_of_sums,
    worst_element,
)


class GemmProblem(Problem):
    """A product of an m x k matrix and a k x n one.

    Attributes:
        dtype: Element type.
        layout: BLAS letters of A and B: `n` as it is, `t` transposed.
        alpha: α.
        beta: β; where it is 0, C is not read.
        m: Rows of C.
        n: Columns of C.
        k: Terms of each sum.
        lda: Leading dimension of A as it is stored; the least that is legal by default.
        ldb: Leading dimension of B, likewise.
        ldc: Leading dimension of C, likewise.
    """

    dtype: Literal["float32", "float64"] = "float32"
    layout: Literal["nn", "nt", "tn", "tt"] = "nn"
    alpha: float = 1.0
    beta: float = 0.0
    m: Extent
    n: Extent
    k: Extent
    lda: Extent = Field(default_factory=lambda known: known["m" if known["layout"][0] == "n" else "k"])
    ldb: Extent = Field(default_factory=lambda known: known["k" if known["layout"][1] == "n" else "n"])
    ldc: Extent = Field(default_factory=lambda known: known["m"])

    @property
    def shapes(self) -> dict[str, tuple[int, int, int]]:
        """Rows, columns and leading dimension of A, B and C as they are stored."""
        a = (self.m, self.k) if self.layout[0] == "n" else (self.k, self.m)
        b = (self.k, self.n) if self.layout[1] == "n" else (self.n, self.k)
        return {"A": (*a, self.lda), "B": (*b, self.ldb), "C": (self.m, self.n, self.ldc)}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name, (rows, _, leading) in self.shapes.items():
            check_leading(f"ld{name.lower()}", leading, rows)
        for name, shape in self.shapes.items():
            check_elements(name, *shape)
        return self


@dataclass(frozen=True)
class Gemm(Operator[GemmProblem]):
    """The operator `gemm`."""

    name = "gemm"
    merit = Merit.TFLOPS
    problem_type = GemmProblem

    def inputs(self, problem: GemmProblem, seed: int) -> Inputs:
        """Make standard normal A and B, and C where β ≠ 0; NaN in every element that must not matter.

        Arrays are 1-D, leading dimension times columns elements long. With β = 0 all of C is NaN, since BLAS
        does not read it then; the same holds for A and B with α = 0.
        """
        dtype = np.dtype(problem.dtype)
        rng = np.random.default_rng(seed)
        read = {"A": problem.alpha != 0, "B": problem.alpha != 0, "C": problem.beta != 0}
        arrays: dict[str, Array] = {}
        for name, (rows, columns, leading) in problem.shapes.items():
            array = np.full(leading * columns, np.nan, dtype)
            if read[name]:
                view = matrix(array, rows, columns, leading)
                # drawn as float32 in any case: a float64 gemm is judged on the same values
                view[...] = rng.standard_normal((columns, rows), dtype=np.float32).T
            arrays[name] = array
        scalars = {key: problem[key] for key in ("m", "n", "k", "alpha", "beta", "lda", "ldb", "ldc")}
        return Inputs(scalars=scalars, arrays=arrays, outputs=("C",))

    def reference(self, problem: GemmProblem, inputs: Inputs) -> Mapping[str, Expected]:
        """C by float64 BLAS through NumPy, m x n, with the scale that `verify` explains."""
        alpha, beta, layout = problem.alpha, problem.beta, problem.layout
        shape, shapes = (problem.m, problem.n), problem.shapes
        values = np.zeros(shape, np.float64)
        scale = np.full(shape, np.finfo(np.float64).tiny)
        if alpha != 0:
            a, b = (matrix(inputs.arrays[name], *shapes[name]).astype(np.float64) for name in "AB")
            a, b = (a if layout[0] == "n" else a.T), (b if layout[1] == "n" else b.T)
            values += alpha * (a @ b)
            scale += abs(alpha) * np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
        if beta != 0:
            scaled = beta * matrix(inputs.arrays["C"], *shapes["C"]).astype(np.float64)
            values += scaled
            scale += np.abs(scaled)
        return {"C": Expected(values, scale)}

    def verify(
        self, problem: GemmProblem, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare element by element.

        The error of C[i, j] is |got - expected| / scale[i, j] with ``scale = |α| ‖op(A)[i, :]‖ ‖op(B)[:, j]‖ +
        |β C[i, j]|``, which by the Cauchy-Schwarz inequality bounds the sum of the terms' magnitudes from above
        for k = 1 and grows like k for normal inputs. Summing k independent zero-mean terms in any order leaves an
        error of at most about 0.4 k u (one standard deviation; partial sums grow like sqrt(k), and so do sums of
        their rounding errors: N. J. Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis,
        2019), so 16 u holds far out in the tail, while one missing term is an error of the order of 1 / k and TF32
        arithmetic one of 1e-5.

        Padding between columns must be untouched: an element there that is not NaN any more is an error of inf.
        """
        m, n = problem.m, problem.n
        expected = reference["C"].values
        whole = outputs["C"]
        got = matrix(whole, m, n, problem.ldc)
        tolerance = tolerance_of_sums(problem.dtype)
        error = np.abs(got.astype(np.float64) - expected) / reference["C"].scale
        row, column = (
            int(i) for i in np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        )
        largest = float(error[row, column])
        if not largest <= tolerance:
            wrong = int(np.count_nonzero(~(error <= tolerance)))
            at = f"C[{row}, {column}]"
            return largest, tolerance, worst_element(at, got[row, column], expected[row, column], wrong, got.size)
        strayed = stray_write("C", whole, m, n, problem.ldc)
        return (float("inf"), tolerance, strayed) if strayed else (largest, tolerance, "")

    def elementwise(
        self, problem: GemmProblem, reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float]:
        """C column by column; what pads a column must stay NaN."""
        ldc, expected = problem.ldc, reference["C"]
        return {"C": Expected(laid_out(expected.values, ldc), laid_out(expected.scale, ldc))}, tolerance_of_sums(
            problem.dtype
        )

    def flops(self, problem: GemmProblem) -> int:
        """2 m n k: one multiplication and one addition a term, as BLAS benchmarks count."""
        return 2 * problem.m * problem.n * problem.k

    def bytes_moved(self, problem: GemmProblem) -> int:
        """A and B read once, C written once, and read once where β ≠ 0."""
        m, n, k = problem.m, problem.n, problem.k
        passes_over_c = 2 if problem.beta != 0 else 1
        return (m * k + k * n + passes_over_c * m * n) * np.dtype(problem.dtype).itemsize

    def fma_dtype(self, problem: GemmProblem) -> np.dtype[Any]:
        """The element type: arithmetic is done in it."""
        return np.dtype(problem.dtype)
