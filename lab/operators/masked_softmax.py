"""Softmax of scaled and masked scores, as in attention: ``Y[i, :] = softmax(scale X[i, :] + mask[i, :])``.

The rows of X are the scores of one matrix of queries after another, of a head and a sequence each; a query scores n
keys. All matrices are row-major and have one element type; arithmetic is done in float32.

A mask is one of:

- ``none``: nothing is added.
- ``causal``: a query sees the keys up to its own position and no later one, where the queries are the last positions:
  query q of `queries` sees the first ``n - queries + q + 1`` keys. What it may not see has the result 0.
- ``additive``: a matrix M of `queries` x n numbers, the same for every matrix of queries; -inf hides a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from lab.base.elements import ELEMENT_BYTES
from lab.measured.timing import Merit
from lab.operators.base import Array, Expected, Extent, Floats, Inputs
from lab.operators.boxes import Index
from lab.operators.indexed import IndexedInputs
from lab.operators.paged_inputs import blank, block_of, paged_lines
from lab.operators.rows import RowOperator, RowProblem, rows_of
from lab.operators.stored import LEAST, UNIT, empty, stored, widened

_HIDDEN_SHARE = 0.125
"""Share of the elements of an additive mask that are -inf."""


class MaskedSoftmaxProblem(RowProblem):
    """The rows of a matrix of scores.

    Attributes:
        dtype: Element type of X, M and Y.
        mask: ``none``, ``causal`` or ``additive``; see the module.
        m: Rows, of all matrices of queries together.
        n: Columns: the keys that a query scores.
        queries: Rows of one matrix; the least of m and n by default. Of a causal mask at most n.
        scale: Factor of X, rounded to float32.
        ldx: Elements from one row of X to the next; n by default.
        ldm: The same of M.
        ldy: The same of Y.
    """

    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    mask: Literal["none", "causal", "additive"] = "causal"
    m: Extent
    n: Extent
    queries: Extent = Field(default_factory=lambda fields: min(fields["m"], fields["n"]))
    scale: Annotated[float, Field(gt=-1e6, lt=1e6, allow_inf_nan=False)] = 1.0
    ldx: Extent = Field(default_factory=lambda fields: fields["n"])
    ldm: Extent = Field(default_factory=lambda fields: fields["n"])
    ldy: Extent = Field(default_factory=lambda fields: fields["n"])

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.mask == "causal" and self.queries > self.n:
            raise ValueError(f"queries is {self.queries}, but a causal mask needs at most n, {self.n}")
        return self

    @property
    def visible(self) -> NDArray[np.int64]:
        """Number of visible elements per row (all, unless the mask is causal), int64, (m,)."""
        return _visible(self, np.arange(self.m))


@dataclass(frozen=True)
class MaskedSoftmax(RowOperator[MaskedSoftmaxProblem]):
    """The operator `masked_softmax`."""

    name = "masked_softmax"
    merit = Merit.BANDWIDTH
    problem_type = MaskedSoftmaxProblem
    output, leading = "Y", "ldy"

    def inputs(self, problem: MaskedSoftmaxProblem, seed: int) -> Inputs:
        """Fill X and M with normal numbers, an eighth of M with -inf, Y and all padding with NaN.

        Elements of X hidden by a causal mask are NaN, so that a kernel that reads them is caught.
        """
        m, n, dtype = problem.m, problem.n, problem.dtype
        rng = np.random.default_rng(seed)
        arrays = {"X": empty(m * problem.ldx, dtype)}
        scores = rng.standard_normal((m, n), dtype=np.float32)
        scores[np.arange(n) >= problem.visible[:, None]] = np.nan
        rows_of(arrays["X"], m, n, problem.ldx)[...] = stored(scores, dtype)
        if problem.mask == "additive":
            added = rng.standard_normal((problem.queries, n), dtype=np.float32)
            added[rng.random((problem.queries, n)) < _HIDDEN_SHARE] = -np.inf
            arrays["M"] = empty(problem.queries * problem.ldm, dtype)
            rows_of(arrays["M"], problem.queries, n, problem.ldm)[...] = stored(added, dtype)
        arrays["Y"] = empty(m * problem.ldy, dtype)
        return self.inputs_of(problem, arrays)

    def indexed_inputs(self, problem: MaskedSoftmaxProblem, seed: int) -> IndexedInputs:
        """Draw X and M page by page, as `inputs` fills them."""
        m, n, dtype = problem.m, problem.n, problem.dtype

        def scores(rng: np.random.Generator, lines: Index, places: Index) -> Array:
            values = rng.standard_normal(len(lines), dtype=np.float32)
            return stored(np.where(places < _visible(problem, lines), values, np.float32(np.nan)), dtype)

        def added(rng: np.random.Generator, lines: Index, _: Index) -> Array:
            values = rng.standard_normal(len(lines), dtype=np.float32)
            return stored(np.where(rng.random(len(lines)) < _HIDDEN_SHARE, np.float32(-np.inf), values), dtype)

        arrays = {"X": paged_lines("X", seed, (m, n, problem.ldx), dtype, scores)}
        if problem.mask == "additive":
            arrays["M"] = paged_lines("M", seed, (problem.queries, n, problem.ldm), dtype, added)
        arrays["Y"] = blank(m * problem.ldy, dtype)
        return self.indexed_inputs_of(problem, arrays)

    def expected_rows(self, problem: MaskedSoftmaxProblem, inputs: IndexedInputs, rows: Index) -> Expected:
        """Compute some rows in float64 from X and M as stored, with a bound on each element's error.

        The bound is that of `lab.operators.softmax.Softmax.expected_rows` plus the rounding of the scores, s = scale X
        + mask: a product and a sum in float32 leave s within ``e = u (2 |scale X| + |mask|)`` of what it is, with
        u = 2^-24. An element's exponential is off by its own e, relatively, and the sum by the mean of all e, weighted
        by Y. A row that sees no finite score is NaN.
        """
        along, mask = np.arange(problem.n), inputs.arrays.get("M")
        x = widened(block_of(inputs.arrays["X"], rows, along, problem.ldx))
        added = None if mask is None else widened(block_of(mask, rows % problem.queries, along, problem.ldm))
        return Expected(*_expected(problem, x, added, _visible(problem, rows)))

    def flops(self, problem: MaskedSoftmaxProblem) -> int:
        """Count six operations per element, a product and softmax's five, and one more for an additive mask."""
        return (7 if problem.mask == "additive" else 6) * problem.m * problem.n

    def bytes_moved(self, problem: MaskedSoftmaxProblem) -> int:
        """Count the visible elements of X and all of M read once, and Y written once."""
        added = min(problem.queries, problem.m) * problem.n if problem.mask == "additive" else 0
        elements = int(problem.visible.sum()) + added + problem.m * problem.n
        return elements * ELEMENT_BYTES[problem.dtype]


def _visible(problem: MaskedSoftmaxProblem, rows: Index) -> Index:
    """Return the number of visible elements of some rows."""
    if problem.mask != "causal":
        return np.full(len(rows), problem.n)
    return problem.n - problem.queries + rows % problem.queries + 1


def _expected(
    problem: MaskedSoftmaxProblem, x: Floats, added: Floats | None, visible: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Compute some rows in float64, and the error bound that `MaskedSoftmax.expected_rows` explains."""
    n, single = x.shape[1], UNIT["float32"]
    unit = 0.0 if problem.dtype == "float32" else UNIT[problem.dtype]
    with np.errstate(invalid="ignore", under="ignore"):
        product = float(np.float32(problem.scale)) * x
        scores = product if added is None else product + added
        scores = np.where(np.arange(n) >= visible[:, None], -np.inf, scores)
        distance = scores - scores.max(axis=1, keepdims=True)
        y = np.exp(distance)
        y /= y.sum(axis=1, keepdims=True)
        is_visible = y > 0  # what is infinitely far down has the result 0, and 0 times infinity is NaN
        rounded = 2 * np.abs(product) if added is None else 2 * np.abs(product) + np.abs(added)
        rounded = single * np.where(is_visible, rounded, 0.0)
        rounded += (y * rounded).sum(axis=1, keepdims=True)
        bound = rounded + 3 * single * np.where(is_visible, np.abs(distance), 0.0)
        scale = y * (bound + single * (20 + 2 * np.sqrt(n)) + unit) + LEAST[problem.dtype]
    return y, np.nan_to_num(scale, nan=LEAST[problem.dtype], copy=False)
