"""Softmax along the rows of a matrix, ``Y[i, j] = exp(X[i, j] - max X[i, :]) / sum_k exp(X[i, k] - max X[i, :])``.

Row-major: element (i, j) of X lies at ``i ldx + j``. Arithmetic is done in float32 for every element type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lab.base.elements import ELEMENT_BYTES
from lab.measured.timing import Merit
from lab.operators.base import Expected, Extent, Floats, Inputs
from lab.operators.boxes import Index
from lab.operators.indexed import IndexedInputs
from lab.operators.paged_inputs import blank, block_of, normal, paged_lines
from lab.operators.rows import RowOperator, RowProblem, rows_of
from lab.operators.stored import LEAST, UNIT, empty, stored, widened

_SPECIAL_ROWS = 10


class SoftmaxProblem(RowProblem):
    """The rows of a matrix.

    Attributes:
        dtype: Element type.
        contents: Contents of X, `values` in a file: ``normal`` numbers, or ``special`` rows that tell implementations
            apart; see `Softmax.inputs`.
        m: Rows.
        n: Columns.
        ldx: Elements from one row of X to the next; n by default.
        ldy: Elements from one row of Y to the next; n by default.
    """

    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    contents: Literal["normal", "special"] = Field("normal", alias="values")
    m: Extent
    n: Extent
    ldx: Extent = Field(default_factory=lambda fields: fields["n"])
    ldy: Extent = Field(default_factory=lambda fields: fields["n"])


@dataclass(frozen=True)
class Softmax(RowOperator[SoftmaxProblem]):
    """The operator `softmax`."""

    name = "softmax"
    merit = Merit.BANDWIDTH
    problem_type = SoftmaxProblem
    output, leading = "Y", "ldy"

    def inputs(self, problem: SoftmaxProblem, seed: int) -> Inputs:
        """Fill X according to `contents`, Y and all padding with NaN; bfloat16 as its bits.

        ``special`` fills row i with, for i % 10: 0 normal numbers; 1 -inf throughout; 2 one +inf; 3 one NaN; 4 the
        same number throughout; 5 very large numbers of both signs; 6 half of it -inf; 7 all but one -inf; 8 very
        negative numbers close together; 9 everything at once.
        """
        m, n, dtype = problem.m, problem.n, problem.dtype
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((m, n), dtype=np.float32)
        if problem.contents == "special":
            _make_special(values, rng, largest=1e38 if dtype != "float16" else 6e4)
        x, y = (empty(m * stride, dtype) for stride in (problem.ldx, problem.ldy))
        rows_of(x, m, n, problem.ldx)[...] = stored(values, dtype)
        arrays = {"X": x, "Y": y}
        return self.inputs_of(problem, arrays)

    def indexed_inputs(self, problem: SoftmaxProblem, seed: int) -> IndexedInputs | None:
        """Draw X page by page; `special` rows are made as `inputs` makes them."""
        if problem.contents == "special":
            return super().indexed_inputs(problem, seed)
        m, n, dtype = problem.m, problem.n, problem.dtype
        x = paged_lines("X", seed, (m, n, problem.ldx), dtype, normal(dtype))
        arrays = {"X": x, "Y": blank(m * problem.ldy, dtype)}
        return self.indexed_inputs_of(problem, arrays)

    def expected_rows(self, problem: SoftmaxProblem, inputs: IndexedInputs, rows: Index) -> Expected:
        """Compute some rows in float64 from X as stored, with a bound on each element's error.

        The bound is, with d the distance of X[i, j] from its row's maximum, u = 2^-24 and v the unit roundoff of the
        element type, ``Y[i, j] (3 u d + u (20 + 2 sqrt(n)) + v)`` (v only below float32):
        the subtraction, the constant log2 e and
        the product with it each round the exponent once, which costs at most u d each; the exponential, the division
        (or a reciprocal and a product) and rescaling by another exponential are good to a few units in the last place
        each (CUDA C++ Programming Guide, mathematical functions; PTX ISA, ex2.approx: 2^-22 = 4 u), together under 20;
        a sum of n positive terms is off by about sqrt(n) u, since its rounding errors are independent of each other
        (Higham and Mary, 2019; `lab.operators.gemm`); and storing the result rounds by v. Results below `LEAST` may
        be flushed.

        A term missing from a long sum is less than v in half precision, and is still detected: among thousands of
        elements, some are then rounded the wrong way and are off by more than v.

        A row with a NaN or a +inf, or of nothing but -inf, is NaN throughout.
        """
        x = block_of(inputs.arrays["X"], rows, np.arange(problem.n), problem.ldx)
        return Expected(*_expected(widened(x), problem.dtype))

    def flops(self, problem: SoftmaxProblem) -> int:
        """Count 5 m n: comparison, subtraction, exponential, addition, division."""
        return 5 * problem.m * problem.n

    def bytes_moved(self, problem: SoftmaxProblem) -> int:
        """Count X read once and Y written once."""
        return 2 * problem.m * problem.n * ELEMENT_BYTES[problem.dtype]


def _expected(x: Floats, dtype: str) -> tuple[Floats, Floats]:
    """Compute softmax of some rows in float64, and the error bound that `Softmax.expected_rows` explains."""
    single, unit, n = UNIT["float32"], UNIT[dtype], x.shape[1]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        distance = x - x.max(axis=1, keepdims=True)
        y = np.exp(distance)
        y /= y.sum(axis=1, keepdims=True)
        # an element of exactly 0 is infinitely far down, and 0 times infinity is NaN
        np.abs(distance, out=distance)
        distance[~(y > 0)] = 0.0
        bound = 3 * single * distance + (single * (20 + 2 * np.sqrt(n)) + (unit if dtype != "float32" else 0.0))
        scale = y * bound + LEAST[dtype]
    return y, np.nan_to_num(scale, nan=LEAST[dtype], copy=False)


def _make_special(values: NDArray[np.float32], rng: np.random.Generator, largest: float) -> None:
    m, n = values.shape
    for i in range(m):
        row, at = values[i], int(rng.integers(n))
        match i % _SPECIAL_ROWS:
            case 1:
                row[:] = -np.inf
            case 2:
                row[at] = np.inf
            case 3:
                row[at] = np.nan
            case 4:
                row[:] = row[0]
            case 5:
                row[:] = np.sign(row) * largest * rng.random(n, dtype=np.float32)
            case 6:
                row[rng.random(n) < 0.5] = -np.inf  # noqa: PLR2004 - half of them
            case 7:
                finite = row[at]
                row[:] = -np.inf
                row[at] = finite
            case 8:
                row -= np.float32(largest / 100)
            case 9:
                row[: n // 2] = -np.inf
                row[at] = largest
