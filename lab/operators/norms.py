"""Layer norm and RMS norm along the rows of a matrix.

Layer norm is ``Y[i, j] = W[j] (X[i, j] - mean X[i, :]) / sqrt(var X[i, :] + epsilon) + B[j]``, with the variance of the
row as a whole (divided by n; Ba, Kiros and Hinton, 2016). RMS norm is ``Y[i, j] = W[j] X[i, j] / sqrt(mean of X[i, :]^2
+ epsilon)`` (Zhang and Sennrich, 2019). X and Y are row-major.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

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


class NormProblem(RowProblem):
    """The rows of a matrix.

    Attributes:
        dtype: Element type.
        m: Rows.
        n: Columns.
        epsilon: Added to the variance or the mean square.
        ldx: Elements from one row of X to the next; n by default.
        ldy: Elements from one row of Y to the next; n by default.
    """

    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    m: Extent
    n: Extent
    epsilon: Annotated[float, Field(gt=0, le=1)] = 1e-5
    ldx: Extent = Field(default_factory=lambda fields: fields["n"])
    ldy: Extent = Field(default_factory=lambda fields: fields["n"])


@dataclass(frozen=True)
class _Norm(RowOperator[NormProblem]):
    """Base class of layer norm and RMS norm.

    Attributes:
        weights: Names of the arrays of n elements.
        operations: Floating-point operations for each element.
    """

    merit = Merit.BANDWIDTH
    problem_type = NormProblem
    output, leading = "Y", "ldy"
    weights: ClassVar[tuple[str, ...]]
    operations: ClassVar[int]

    def inputs(self, problem: NormProblem, seed: int) -> Inputs:
        """Fill X with normal numbers around 1, weights with normal numbers, Y and all padding with NaN."""
        m, n, dtype = problem.m, problem.n, problem.dtype
        rng = np.random.default_rng(seed)
        x, y = (empty(m * stride, dtype) for stride in (problem.ldx, problem.ldy))
        rows_of(x, m, n, problem.ldx)[...] = stored(
            rng.standard_normal((m, n), dtype=np.float32) + np.float32(1), dtype
        )
        weights = {name: stored(rng.standard_normal(n, dtype=np.float32), dtype) for name in self.weights}
        arrays = {"X": x, **weights, "Y": y}
        return self.inputs_of(problem, arrays)

    def indexed_inputs(self, problem: NormProblem, seed: int) -> IndexedInputs:
        """Draw X and the weights page by page, as `inputs` fills them."""
        m, n, dtype = problem.m, problem.n, problem.dtype

        def around_one(rng: np.random.Generator, lines: Index, _: Index) -> Array:
            return stored(rng.standard_normal(len(lines), dtype=np.float32) + np.float32(1), dtype)

        arrays = {"X": paged_lines("X", seed, (m, n, problem.ldx), dtype, around_one)}
        arrays |= {name: paged_lines(name, seed, (1, n, n), dtype, normal(dtype)) for name in self.weights}
        arrays["Y"] = blank(m * problem.ldy, dtype)
        return self.indexed_inputs_of(problem, arrays)

    def expected_rows(self, problem: NormProblem, inputs: IndexedInputs, rows: Index) -> Expected:
        """Compute some rows in float64 from X and the weights as stored, with a bound on each element's error.

        With u = 2^-24 and s = 4 + 2 sqrt(n), a sum of n terms is off by at most s u times the sum of their magnitudes,
        since its rounding errors are independent of each other (Higham and Mary, 2019; `lab.operators.gemm`). With d
        the distance from the mean (of RMS norm, the element itself), and r the scale, ``1 / sqrt(… + epsilon)``, the
        bound is ``|W| r (s u mean |X| + (s + 8) u |d|) + u |B| + (u + v) |Y|``: the mean, of layer norm alone; r, whose
        sum of squares counts half, with quotient, root and reciprocal; the products; the bias; and storing, which
        rounds by v, the unit roundoff of an element type below float32.
        """
        x = block_of(inputs.arrays["X"], rows, np.arange(problem.n), problem.ldx)
        weights = {name: widened(inputs.arrays[name].read(0, problem.n)) for name in self.weights}
        return _expected(problem, widened(x), weights)

    def flops(self, problem: NormProblem) -> int:
        """Count a fixed number of operations per element."""
        return self.operations * problem.m * problem.n

    def bytes_moved(self, problem: NormProblem) -> int:
        """Count X and the weights read once and Y written once."""
        elements = 2 * problem.m * problem.n + len(self.weights) * problem.n
        return elements * ELEMENT_BYTES[problem.dtype]


@dataclass(frozen=True)
class LayerNorm(_Norm):
    """The operator `layer_norm`; it counts sum, difference, square and its sum, and two products and a sum."""

    name = "layer_norm"
    weights = ("W", "B")
    operations = 7


@dataclass(frozen=True)
class RmsNorm(_Norm):
    """The operator `rms_norm`; it counts square and its sum, and two products."""

    name = "rms_norm"
    weights = ("W",)
    operations = 4


def _expected(problem: NormProblem, x: Floats, weights: Mapping[str, Floats]) -> Expected:
    """Compute some rows in float64, and the error bound that `_Norm.expected_rows` explains."""
    n, dtype, u = problem.n, problem.dtype, UNIT["float32"]
    centred, weight = "B" in weights, weights["W"]
    bias = weights["B"] if centred else np.zeros(n)
    distance = x - x.mean(axis=1, keepdims=True) if centred else x
    scale = 1 / np.sqrt((distance**2).mean(axis=1, keepdims=True) + problem.epsilon)
    y = weight * distance * scale + bias
    s = 4 + 2 * np.sqrt(n)
    shifted = s * np.abs(x).mean(axis=1, keepdims=True) if centred else 0.0
    bound = np.abs(weight) * scale * (shifted + (s + 8) * np.abs(distance)) + np.abs(bias) + np.abs(y)
    stored_by = UNIT[dtype] * np.abs(y) if dtype != "float32" else 0.0
    return Expected(y, u * bound + stored_by + LEAST[dtype])
