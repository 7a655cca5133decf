"""General matrix product, ``C ← α op(A) op(B) + β C``, column-major with leading dimensions as in BLAS.

`layout` holds BLAS letters: ``nn``, ``nt``, ``tn``, ``tt``; the first letter is A's, the second B's.
op(A) is m x k, op(B) is k x n, C is m x n.
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
    check_number,
    laid_out,
    matrix,
    stray_write,
    tolerance_of_sums,
    worst_element,
)

DTYPES = ("float32", "float64")
LAYOUTS = ("nn", "nt", "tn", "tt")
_DIMENSIONS = ("m", "n", "k")
_LEADING = ("lda", "ldb", "ldc")


@dataclass(frozen=True, slots=True)
class Gemm:
    """The operator `gemm`."""

    name: str = "gemm"
    merit: Merit = Merit.TFLOPS

    def problem(self, values: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
        """Check and complete: m, n, k are needed; leading dimensions default to the least that is legal.

        Raises:
            UserError: an unknown field, a wrong type, a value out of range.
        """
        defaults: dict[str, Scalar] = {"dtype": "float32", "layout": "nn", "alpha": 1.0, "beta": 0.0}
        known = [*_DIMENSIONS, *defaults, *_LEADING]
        check_known(self.name, values, known)
        for key in _DIMENSIONS:
            check_given(self.name, values, key)
        full = {**defaults, **values}
        for key in (*_DIMENSIONS, *(name for name in _LEADING if name in full)):
            check_integer(key, full[key], least=1)
        check_choice("dtype", full["dtype"], DTYPES)
        check_choice("layout", full["layout"], LAYOUTS)
        for key in ("alpha", "beta"):
            full[key] = check_number(key, full[key])
        for key, least in zip(_LEADING, _least_leading(full), strict=True):
            full.setdefault(key, least)
            check_integer(key, full[key], least=least)
        for name, (rows, columns, leading) in _shapes(full).items():
            if leading * columns > MOST_ELEMENTS:
                raise UserError(
                    f"{name} has {leading * columns} elements ({rows} x {columns}, leading dimension {leading})",
                    key="problem",
                    accepted=f"at most {MOST_ELEMENTS}: kernels index with 32-bit integers",
                )
        return full

    def inputs(self, problem: Mapping[str, Scalar], seed: int) -> Inputs:
        """Standard normal A and B, and C where β ≠ 0; NaN in every element that must not matter.

        Arrays are 1-D, leading dimension times columns elements long. With β = 0 all of C is NaN, since BLAS
        does not read it then; the same holds for A and B with α = 0.
        """
        dtype = np.dtype(str(problem["dtype"]))
        rng = np.random.default_rng(seed)
        read = {"A": problem["alpha"] != 0, "B": problem["alpha"] != 0, "C": problem["beta"] != 0}
        arrays: dict[str, Array] = {}
        for name, (rows, columns, leading) in _shapes(problem).items():
            array = np.full(leading * columns, np.nan, dtype)
            if read[name]:
                view = matrix(array, rows, columns, leading)
                # drawn as float32 in any case: a float64 gemm is judged on the same values
                view[...] = rng.standard_normal((columns, rows), dtype=np.float32).T
            arrays[name] = array
        scalars = {key: problem[key] for key in (*_DIMENSIONS, "alpha", "beta", *_LEADING)}
        return Inputs(scalars=scalars, arrays=arrays, outputs=("C",))

    def reference(self, problem: Mapping[str, Scalar], inputs: Inputs) -> Mapping[str, Expected]:
        """C by float64 BLAS through NumPy, m x n, with the scale that `verify` explains."""
        alpha, beta = float(problem["alpha"]), float(problem["beta"])
        shape = (int(problem["m"]), int(problem["n"]))
        values = np.zeros(shape, np.float64)
        scale = np.full(shape, np.finfo(np.float64).tiny)
        shapes, layout = _shapes(problem), str(problem["layout"])
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
        self, problem: Mapping[str, Scalar], reference: Mapping[str, Expected], outputs: Mapping[str, Array]
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
        m, n, _ = (int(problem[key]) for key in _DIMENSIONS)
        expected = reference["C"].values
        whole = outputs["C"]
        got = matrix(whole, m, n, int(problem["ldc"]))
        tolerance = tolerance_of_sums(str(problem["dtype"]))
        error = np.abs(got.astype(np.float64) - expected) / reference["C"].scale
        row, column = (
            int(i) for i in np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        )
        largest = float(error[row, column])
        if not largest <= tolerance:
            wrong = int(np.count_nonzero(~(error <= tolerance)))
            at = f"C[{row}, {column}]"
            return largest, tolerance, worst_element(at, got[row, column], expected[row, column], wrong, got.size)
        strayed = stray_write("C", whole, m, n, int(problem["ldc"]))
        return (float("inf"), tolerance, strayed) if strayed else (largest, tolerance, "")

    def elementwise(
        self, problem: Mapping[str, Scalar], reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float]:
        """C column by column; what pads a column must stay NaN."""
        ldc, expected = int(problem["ldc"]), reference["C"]
        return {"C": Expected(laid_out(expected.values, ldc), laid_out(expected.scale, ldc))}, tolerance_of_sums(
            str(problem["dtype"])
        )

    def flops(self, problem: Mapping[str, Scalar]) -> int:
        """2 m n k: one multiplication and one addition a term, as BLAS benchmarks count."""
        m, n, k = (int(problem[key]) for key in _DIMENSIONS)
        return 2 * m * n * k

    def bytes_moved(self, problem: Mapping[str, Scalar]) -> int:
        """A and B read once, C written once, and read once where β ≠ 0."""
        m, n, k = (int(problem[key]) for key in _DIMENSIONS)
        passes_over_c = 2 if problem["beta"] != 0 else 1
        return (m * k + k * n + passes_over_c * m * n) * np.dtype(str(problem["dtype"])).itemsize

    def fma_dtype(self, problem: Mapping[str, Scalar]) -> np.dtype[Any]:
        """The element type: arithmetic is done in it."""
        return np.dtype(str(problem["dtype"]))


def _shapes(problem: Mapping[str, Scalar]) -> dict[str, tuple[int, int, int]]:
    """Rows, columns and leading dimension of A, B and C as they are stored."""
    m, n, k = (int(problem[key]) for key in _DIMENSIONS)
    layout = str(problem["layout"])
    a = (m, k) if layout[0] == "n" else (k, m)
    b = (k, n) if layout[1] == "n" else (n, k)
    return {
        "A": (*a, int(problem["lda"])),
        "B": (*b, int(problem["ldb"])),
        "C": (m, n, int(problem["ldc"])),
    }


def _least_leading(problem: Mapping[str, Scalar]) -> tuple[int, int, int]:
    m, n, k = (int(problem[key]) for key in _DIMENSIONS)
    layout = str(problem["layout"])
    return (m if layout[0] == "n" else k, k if layout[1] == "n" else n, m)
