"""The operator of fma_ceiling.yaml: one outer product, added up many times.

``C = repeats · a bᵀ``, C column-major m x n. A thread needs its few elements of a and b once and multiplies them
`repeats` times, so that nothing but fma is left to do; a gemm with k = repeats does the same fma and must also bring
new elements for each of them.

The elements of a and b are whole numbers from -8 to 8. Every partial sum is then a whole number below 2^24, which
float32 holds exactly, so that the result does not depend on the order of the sum and must be equal to the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from lab.measured.timing import Merit
from lab.operators.base import Array, Expected, Inputs, Operator, Problem

_LARGEST = 8
_MOST_REPEATS = 2**24 // _LARGEST**2
_Extent = Annotated[int, Field(ge=1, le=2**15)]


class OuterProductProblem(Problem):
    """m x n elements of C, and how often the product is added up."""

    dtype: Literal["float32"] = "float32"
    m: _Extent
    n: _Extent
    repeats: int = Field(ge=1, le=_MOST_REPEATS)


class RepeatedOuterProduct(Operator[OuterProductProblem]):
    """``C = repeats · a bᵀ`` in float32."""

    name = "repeated outer product"
    merit = Merit.TFLOPS
    problem_type = OuterProductProblem

    def inputs(self, problem: OuterProductProblem, seed: int) -> Inputs:
        """Whole numbers, uniform from -8 to 8; C is NaN."""
        m, n = problem.m, problem.n
        rng = np.random.default_rng(seed)
        arrays: dict[str, Array] = {
            "a": rng.integers(-_LARGEST, _LARGEST, m, endpoint=True).astype(np.float32),
            "b": rng.integers(-_LARGEST, _LARGEST, n, endpoint=True).astype(np.float32),
            "C": np.full(m * n, np.nan, np.float32),
        }
        scalars = {"m": m, "n": n, "repeats": problem.repeats}
        return Inputs(scalars=scalars, arrays=arrays, outputs=("C",))

    def reference(self, problem: OuterProductProblem, inputs: Inputs) -> Mapping[str, Expected]:
        """C as a flat column-major array; errors are absolute."""
        a, b = (inputs.arrays[name].astype(np.float64) for name in "ab")
        values = problem.repeats * np.outer(b, a).ravel()
        return {"C": Expected(values, np.ones_like(values))}

    def verify(
        self, problem: OuterProductProblem, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Equality: the tolerance is 0."""
        got, expected = outputs["C"], reference["C"].values
        error = np.abs(got.astype(np.float64) - expected)
        worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
        if error[worst] == 0:
            return 0.0, 0.0, ""
        column, row = divmod(worst, problem.m)
        return float(error[worst]), 0.0, f"C[{row}, {column}]: got {got[worst]!s}, expected {expected[worst]:.9g}"

    def elementwise(
        self,
        problem: OuterProductProblem,  # noqa: ARG002 - every operator has it
        reference: Mapping[str, Expected],
    ) -> tuple[Mapping[str, Expected], float]:
        """As it is: the reference lies like the output."""
        return reference, 0.0

    def flops(self, problem: OuterProductProblem) -> int:
        """2 m n repeats: the fma that are executed, each an addition and a multiplication."""
        return 2 * problem.m * problem.n * problem.repeats

    def bytes_moved(self, problem: OuterProductProblem) -> int:
        """Both vectors read once, C written once."""
        m, n = problem.m, problem.n
        return 4 * (m + n + m * n)

    def fma_dtype(self, problem: OuterProductProblem) -> np.dtype[Any]:  # noqa: ARG002 - every operator has it
        """float32."""
        return np.dtype(np.float32)
