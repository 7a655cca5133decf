"""The gradient of softmax along rows, ``dX[i, j] = Y[i, j] (dY[i, j] - sum_k Y[i, k] dY[i, k])``.

Y is the softmax of the forward pass (`lab.operators.softmax`), dY the incoming gradient. All three are row-major.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from lab.base.elements import ELEMENT_BYTES
from lab.measured.timing import Merit
from lab.operators.base import Array, Expected, Extent, Floats, Inputs
from lab.operators.boxes import Index
from lab.operators.indexed import IndexedInputs
from lab.operators.paged_inputs import blank, block_of, normal, paged_lines
from lab.operators.rows import RowOperator, RowProblem, rows_of
from lab.operators.stored import LEAST, UNIT, empty, stored, widened


class SoftmaxBackwardProblem(RowProblem):
    """The rows of three matrices.

    Attributes:
        dtype: Element type.
        m: Rows.
        n: Columns.
        ldy: Elements from one row of Y to the next; n by default.
        lddy: The same of dY.
        lddx: The same of dX.
    """

    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    m: Extent
    n: Extent
    ldy: Extent = Field(default_factory=lambda fields: fields["n"])
    lddy: Extent = Field(default_factory=lambda fields: fields["n"])
    lddx: Extent = Field(default_factory=lambda fields: fields["n"])


@dataclass(frozen=True)
class SoftmaxBackward(RowOperator[SoftmaxBackwardProblem]):
    """The operator `softmax_backward`."""

    name = "softmax_backward"
    merit = Merit.BANDWIDTH
    problem_type = SoftmaxBackwardProblem
    output, leading = "dX", "lddx"

    def inputs(self, problem: SoftmaxBackwardProblem, seed: int) -> Inputs:
        """Fill Y with the softmax of normal numbers, dY with normal numbers, dX and all padding with NaN."""
        m, n, dtype = problem.m, problem.n, problem.dtype
        rng = np.random.default_rng(seed)
        powers = np.exp(rng.standard_normal((m, n), dtype=np.float32))
        arrays = {name: empty(m * int(problem[f"ld{name.lower()}"]), dtype) for name in ("Y", "dY", "dX")}
        rows_of(arrays["Y"], m, n, problem.ldy)[...] = stored(powers / powers.sum(axis=1, keepdims=True), dtype)
        rows_of(arrays["dY"], m, n, problem.lddy)[...] = stored(rng.standard_normal((m, n), dtype=np.float32), dtype)
        return self.inputs_of(problem, arrays)

    def indexed_inputs(self, problem: SoftmaxBackwardProblem, seed: int) -> IndexedInputs:
        """Draw Y and dY page by page; rows of Y are exponentials over their expected sum, and add up to about 1."""
        m, n, dtype = problem.m, problem.n, problem.dtype

        def powers(rng: np.random.Generator, lines: Index, _: Index) -> Array:
            exponentials = np.exp(rng.standard_normal(len(lines), dtype=np.float32) - np.float32(0.5))
            return stored(exponentials / np.float32(n), dtype)

        arrays = {
            "Y": paged_lines("Y", seed, (m, n, problem.ldy), dtype, powers),
            "dY": paged_lines("dY", seed, (m, n, problem.lddy), dtype, normal(dtype)),
            "dX": blank(m * problem.lddx, dtype),
        }
        return self.indexed_inputs_of(problem, arrays)

    def expected_rows(self, problem: SoftmaxBackwardProblem, inputs: IndexedInputs, rows: Index) -> Expected:
        """Compute some rows in float64 from Y and dY as stored, with a bound on each element's error.

        With u = 2^-24, s the sum, and t the sum of |Y dY|, the bound is ``|Y| (u (4 + 2 sqrt(n)) t + 3 u (|dY| + |s|))
        + v |dX|``: products and additions of the sum round by u each, and the errors of n additions are independent of
        each other, so that they grow as sqrt(n) (Higham and Mary, 2019; `lab.operators.gemm`); the difference and the
        product round once each; and storing rounds by v, the unit roundoff of an element type below float32. Results
        below `lab.operators.stored.LEAST` may be flushed.
        """
        along = np.arange(problem.n)
        y = block_of(inputs.arrays["Y"], rows, along, problem.ldy)
        dy = block_of(inputs.arrays["dY"], rows, along, problem.lddy)
        return _expected(widened(y), widened(dy), problem.dtype)

    def flops(self, problem: SoftmaxBackwardProblem) -> int:
        """Count 4 m n: a product and an addition for the sum, a difference and a product for the result."""
        return 4 * problem.m * problem.n

    def bytes_moved(self, problem: SoftmaxBackwardProblem) -> int:
        """Count Y and dY read once and dX written once."""
        return 3 * problem.m * problem.n * ELEMENT_BYTES[problem.dtype]


def _expected(y: Floats, dy: Floats, dtype: str) -> Expected:
    """Compute some rows in float64, and the error bound that `SoftmaxBackward.expected_rows` explains."""
    products, single, n = y * dy, UNIT["float32"], y.shape[1]
    total = products.sum(axis=1, keepdims=True)
    dx = y * (dy - total)
    summed = (4 + 2 * np.sqrt(n)) * np.abs(products).sum(axis=1, keepdims=True)
    scale = single * np.abs(y) * (summed + 3 * (np.abs(dy) + np.abs(total))) + LEAST[dtype]
    if dtype != "float32":
        scale += UNIT[dtype] * np.abs(dx)
    return Expected(dx, scale)
