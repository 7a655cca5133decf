"""Softmax along the rows of a matrix, ``Y[i, j] = exp(X[i, j] - max X[i, :]) / sum_k exp(X[i, k] - max X[i, :])``.

Row-major: element (i, j) of X lies at ``i ldx + j``. Arithmetic is float32 whatever the element type.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from lab.measured.timing import Merit
from lab.operators.base import STORED_AS, Array, Expected, Extent, Floats, Inputs, Operator, Problem
from lab.operators.bfloat16 import BF16_NAN, from_float32, to_float32
from lab.operators.matrices import check_leading, worst_element

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Unit roundoff of each element type: half the distance from 1 to the next larger number."""
LEAST = {"float32": 2.0**-126, "float16": 2.0**-25, "bfloat16": 2.0**-126}
"""Absolute error of a result too small to have its full precision: half the least subnormal of float16; the least
normal number of the others, since CUDA's fast exponential flushes subnormal results to zero."""
_SPECIAL_ROWS = 10
_CHUNK = 1 << 19
"""Elements that the reference computes at a time: a few arrays of them stay in a core's cache."""


class SoftmaxProblem(Problem):
    """The rows of a matrix.

    Attributes:
        dtype: Element type.
        contents: What X holds, `values` in a file: ``normal`` numbers, or ``special`` rows that tell implementations
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
    ldx: Extent = Field(default_factory=lambda known: known["n"])
    ldy: Extent = Field(default_factory=lambda known: known["n"])

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_leading("ldx", self.ldx, self.n)
        check_leading("ldy", self.ldy, self.n)
        return self


@dataclass(frozen=True)
class Softmax(Operator[SoftmaxProblem]):
    """The operator `softmax`."""

    name = "softmax"
    merit = Merit.BANDWIDTH
    problem_type = SoftmaxProblem

    def inputs(self, problem: SoftmaxProblem, seed: int) -> Inputs:
        """X with `values`, Y and all padding NaN; bfloat16 as its bits.

        ``special`` fills row i with, for i % 10: 0 normal numbers; 1 -inf throughout; 2 one +inf; 3 one NaN; 4 the
        same number throughout; 5 very large numbers of both signs; 6 half of it -inf; 7 all but one -inf; 8 very
        negative numbers close together; 9 everything at once.
        """
        m, n, dtype = problem.m, problem.n, problem.dtype
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((m, n), dtype=np.float32)
        if problem.contents == "special":
            _make_special(values, rng, largest=1e38 if dtype != "float16" else 6e4)
        x, y = (_empty(m * stride, dtype) for stride in (problem.ldx, problem.ldy))
        _rows(x, m, n, problem.ldx)[...] = _stored(values, dtype)
        scalars = {key: problem[key] for key in ("m", "n", "ldx", "ldy")}
        return Inputs(scalars=scalars, arrays={"X": x, "Y": y}, outputs=("Y",))

    def reference(self, problem: SoftmaxProblem, inputs: Inputs) -> Mapping[str, Expected]:
        """Softmax in float64, of X as it is stored, with the error bound that `verify` explains as its scale."""
        m, n, dtype = problem.m, problem.n, problem.dtype
        x = _rows(inputs.arrays["X"], m, n, problem.ldx)
        values, scale = np.empty((m, n)), np.empty((m, n))
        step = max(1, _CHUNK // n)

        def some(first: int) -> None:
            rows = slice(first, first + step)
            values[rows], scale[rows] = _expected(_values(x[rows]), dtype)

        with ThreadPoolExecutor() as pool:  # NumPy computes outside Python's lock
            list(pool.map(some, range(0, m, step)))
        return {"Y": Expected(values, scale)}

    def verify(
        self, problem: SoftmaxProblem, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare element by element.

        The error of Y[i, j] is |got - expected| over a bound of it, so the tolerance is 1. The bound is, with d the
        distance of X[i, j] from its row's maximum, u = 2^-24 and v the unit roundoff of the element type,
        ``Y[i, j] (3 u d + u (20 + 2 sqrt(n)) + v)`` (v only below float32): the subtraction, the constant log2 e and
        the product with it each round the exponent once, which costs at most u d each; the exponential, the division
        (or a reciprocal and a product) and rescaling by another exponential are good to a few units in the last place
        each (CUDA C++ Programming Guide, mathematical functions; PTX ISA, ex2.approx: 2^-22 = 4 u), together under 20;
        a sum of n positive terms is off by about sqrt(n) u, since its rounding errors are independent of each other
        (Higham and Mary, 2019; `lab.operators.gemm`); and storing the result rounds by v. Results below `LEAST` may
        be flushed.

        A term that is missing from a long sum is less than v in half precision, and shows nevertheless: among thousands
        of elements some then are rounded the wrong way, and off by more than v.

        A NaN must be where NumPy has one: throughout a row with a NaN, a +inf, or nothing but -inf, and nowhere else.
        Padding between rows must be untouched.
        """
        m, n = problem.m, problem.n
        whole, stride = outputs["Y"], problem.ldy
        got, expected = _values(_rows(whole, m, n, stride)), reference["Y"].values
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(got - expected) / reference["Y"].scale
        error[np.isnan(got) & np.isnan(expected)] = 0.0
        error[np.isnan(got) != np.isnan(expected)] = np.inf
        row, column = (int(i) for i in np.unravel_index(np.argmax(error), error.shape))
        largest = float(error[row, column])
        if largest > 1.0:
            wrong = int(np.count_nonzero(error > 1.0))
            at, value = f"Y[{row}, {column}]", f"{got[row, column]:.9g}"
            return largest, 1.0, worst_element(at, value, expected[row, column], wrong, got.size)
        strayed = _stray_write(whole, m, n, stride)
        return (float("inf"), 1.0, strayed) if strayed else (largest, 1.0, "")

    def elementwise(
        self, problem: SoftmaxProblem, reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float]:
        """Y row by row; the padding behind a row and rows that NumPy makes NaN must be NaN."""
        n, stride = problem.n, problem.ldy
        values, scale = reference["Y"].values, reference["Y"].scale
        nowhere = np.isnan(values[:, 0])  # NumPy makes whole rows NaN
        if nowhere.any():
            scale = np.where(nowhere[:, None], np.nan, scale)
        if stride > n:
            values, scale = (
                np.pad(matrix, ((0, 0), (0, stride - n)), constant_values=np.nan) for matrix in (values, scale)
            )
        return {"Y": Expected(values.reshape(-1), scale.reshape(-1))}, 1.0

    def flops(self, problem: SoftmaxProblem) -> int:
        """5 m n: comparison, subtraction, exponential, addition, division."""
        return 5 * problem.m * problem.n

    def bytes_moved(self, problem: SoftmaxProblem) -> int:
        """X read once, Y written once."""
        return 2 * problem.m * problem.n * ITEM_BYTES[problem.dtype]

    def fma_dtype(self, problem: SoftmaxProblem) -> np.dtype[Any]:
        """float32: arithmetic is done in it whatever the element type."""
        del problem
        return np.dtype(np.float32)


def _expected(x: Floats, dtype: str) -> tuple[Floats, Floats]:
    """Softmax of some rows in float64, and the error bound that `Softmax.verify` explains."""
    single, unit, n = UNIT["float32"], UNIT[dtype], x.shape[1]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        distance = x - x.max(axis=1, keepdims=True)
        y = np.exp(distance)
        y /= y.sum(axis=1, keepdims=True)
        # an element of exactly 0 is infinitely far down, and 0 times that is no number
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
                kept = row[at]
                row[:] = -np.inf
                row[at] = kept
            case 8:
                row -= np.float32(largest / 100)
            case 9:
                row[: n // 2] = -np.inf
                row[at] = largest


def _empty(count: int, dtype: str) -> Array:
    """A 1-D buffer of NaN."""
    if dtype in STORED_AS:
        return np.full(count, BF16_NAN, STORED_AS[dtype])
    return np.full(count, np.nan, dtype)


def _stored(values: NDArray[np.float32], dtype: str) -> Array:
    """Round to the element type; bfloat16 as its bits."""
    return from_float32(values) if dtype == "bfloat16" else values.astype(dtype)


def _values(stored: Array) -> Floats:
    """Convert elements to float64; 16-bit integers are the bits of bfloat16."""
    return (to_float32(stored.view(np.uint16)) if stored.dtype == np.uint16 else stored).astype(np.float64)


def _rows(array: Array, m: int, n: int, stride: int) -> Array:
    """Return a row-major matrix as an m x n view of its buffer."""
    return array.reshape(m, stride)[:, :n]


def _stray_write(whole: Array, m: int, n: int, stride: int) -> str:
    """Where a kernel wrote between the rows of Y; empty where it did not."""
    padding = whole.reshape(m, stride)[:, n:]
    untouched = padding == BF16_NAN if padding.dtype == np.uint16 else np.isnan(padding.astype(np.float64))
    written = np.argwhere(~untouched)
    if not len(written):
        return ""
    row, beyond = (int(i) for i in written[0])
    return f"Y[{row}, {n + beyond}]: written, but Y has {n} columns"
