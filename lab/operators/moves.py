"""Matrices that are only moved: ``B ← A`` and ``B ← Aᵀ``, column-major with leading dimensions.

A is m x n, m rows lie next to each other in memory. A vector is a matrix of one column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.measured.timing import Merit
from lab.operators.base import Array, Expected, Inputs
from lab.operators.fields import (
    MOST_ELEMENTS,
    check_choice,
    check_given,
    check_integer,
    check_known,
    laid_out,
    matrix,
    stray_write,
    worst_element,
)

DTYPES = ("float32", "float64", "float16")
_KNOWN = ("m", "n", "dtype", "lda", "ldb")


@dataclass(frozen=True, slots=True)
class Move:
    """The operators `copy` and `transpose`."""

    name: str
    transposes: bool
    merit: Merit = Merit.BANDWIDTH

    def problem(self, values: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
        """Check and complete: m is needed, n is 1; leading dimensions default to the least that is legal.

        Raises:
            UserError: an unknown field, a wrong type, a value out of range.
        """
        check_known(self.name, values, _KNOWN)
        check_given(self.name, values, "m")
        full: dict[str, Scalar] = {"m": values["m"], "n": 1, "dtype": "float32", **values}
        check_choice("dtype", full["dtype"], DTYPES)
        for key in ("m", "n"):
            check_integer(key, full[key], least=1)
        for key, rows, columns in (("lda", "m", "n"), ("ldb", *self._rows_and_columns())):
            least = int(full[rows])
            full.setdefault(key, least)
            check_integer(key, full[key], least=least)
            if int(full[key]) * int(full[columns]) > MOST_ELEMENTS:
                raise UserError(
                    f"a matrix of {full[key]} x {full[columns]} elements",
                    key=f"problem.{key}",
                    accepted=f"at most {MOST_ELEMENTS} elements: kernels index with 32-bit integers",
                )
        return full

    def inputs(self, problem: Mapping[str, Scalar], seed: int) -> Inputs:
        """Standard normal A; NaN between its columns and in all of B."""
        dtype = np.dtype(str(problem["dtype"]))
        m, n, lda = (int(problem[key]) for key in ("m", "n", "lda"))
        a = np.full(lda * n, np.nan, dtype)
        matrix(a, m, n, lda)[...] = np.random.default_rng(seed).standard_normal((n, m), dtype=np.float32).T
        _, columns, ldb = self._shape(problem)
        scalars = {key: problem[key] for key in ("m", "n", "lda", "ldb")}
        return Inputs(scalars=scalars, arrays={"A": a, "B": np.full(ldb * columns, np.nan, dtype)}, outputs=("B",))

    def reference(self, problem: Mapping[str, Scalar], inputs: Inputs) -> Mapping[str, Expected]:
        """A, or its transpose; errors are absolute."""
        m, n, lda = (int(problem[key]) for key in ("m", "n", "lda"))
        a = matrix(inputs.arrays["A"], m, n, lda).astype(np.float64)
        values = a.T if self.transposes else a
        return {"B": Expected(values, np.broadcast_to(1.0, values.shape))}

    def verify(
        self, problem: Mapping[str, Scalar], reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare element by element: what is moved does not change, so the tolerance is 0.

        Padding between columns must be untouched: an element there that is not NaN any more is an error of inf.
        """
        rows, columns, ldb = self._shape(problem)
        got, expected = matrix(outputs["B"], rows, columns, ldb), reference["B"].values
        wrong = np.argwhere(~(got == expected))
        if len(wrong):
            i, j = (int(place) for place in wrong[0])
            largest = float(np.max(np.abs(got[tuple(wrong.T)].astype(np.float64) - expected[tuple(wrong.T)])))
            return largest, 0.0, worst_element(f"B[{i}, {j}]", got[i, j], expected[i, j], len(wrong), got.size)
        strayed = stray_write("B", outputs["B"], rows, columns, ldb)
        return (float("inf"), 0.0, strayed) if strayed else (0.0, 0.0, "")

    def elementwise(
        self, problem: Mapping[str, Scalar], reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float]:
        """B column by column; what pads a column must stay NaN."""
        ldb, expected = int(problem["ldb"]), reference["B"]
        return {"B": Expected(laid_out(expected.values, ldb), laid_out(expected.scale, ldb))}, 0.0

    def flops(self, problem: Mapping[str, Scalar]) -> int:
        """None: nothing is computed."""
        del problem
        return 0

    def bytes_moved(self, problem: Mapping[str, Scalar]) -> int:
        """Every element read once and written once."""
        return 2 * int(problem["m"]) * int(problem["n"]) * np.dtype(str(problem["dtype"])).itemsize

    def fma_dtype(self, problem: Mapping[str, Scalar]) -> np.dtype[Any]:
        """The element type, though nothing is computed in it."""
        return np.dtype(str(problem["dtype"]))

    def _rows_and_columns(self) -> tuple[str, str]:
        return ("n", "m") if self.transposes else ("m", "n")

    def _shape(self, problem: Mapping[str, Scalar]) -> tuple[int, int, int]:
        """Rows, columns and leading dimension of B."""
        rows, columns = self._rows_and_columns()
        return int(problem[rows]), int(problem[columns]), int(problem["ldb"])
