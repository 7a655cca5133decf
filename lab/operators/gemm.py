"""General matrix product, ``C ← α op(A) op(B) + β C``, column-major with leading dimensions as in BLAS.

`layout` holds BLAS letters: ``nn``, ``nt``, ``tn``, ``tt``; the first letter is A's, the second B's.
op(A) is m x k, op(B) is k x n, C is m x n.

A product of 16-bit elements is the same operator with another `dtype`: layouts, scalars, edges and the definition are
those of any gemm, and kernels declare the types that they take. What differs is that its sums, α and β are FP32, and
that C may have a type of its own, `out_dtype`.

Complex elements have complex factors: `alpha_imag` and `beta_imag` are their imaginary parts, and kernels take each
part as an argument. Neither operand is conjugated. Where elements are compared, a complex matrix is the real one of
twice the rows that lies in the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from lab.base.elements import ELEMENT_BYTES, PARTS, arithmetic_of, operations
from lab.base.errors import UserError
from lab.measured.timing import Merit
from lab.operators.base import Array, Expected, Extent, Inputs, Operator, Problem
from lab.operators.factors import check_imaginary, imaginary_default
from lab.operators.matrices import (
    bound_of_half_sums,
    check_elements,
    check_leading,
    laid_out,
    matrix,
    stray_write,
    tolerance_of_sums,
    worst_element,
)
from lab.operators.stored import UNIT, drawn, empty, parts, wide, widened

_HALF: Final = ("float16", "bfloat16")
SCALARS: Final = ("m", "n", "k", "alpha", "beta", "alpha_imag", "beta_imag", "lda", "ldb", "ldc")


class GemmProblem(Problem):
    """A product of an m x k matrix and a k x n one.

    Attributes:
        dtype: Element type of A and B; of C, too, unless `out_dtype` says otherwise.
        out_dtype: Element type of C, for 16-bit A and B only; theirs by default. Without a value for other types, whose
            problems therefore keep their identity.
        layout: BLAS letters of A and B: `n` as it is, `t` transposed.
        alpha: α; of complex elements, its real part.
        beta: β, likewise; where it is 0, C is not read.
        alpha_imag: Imaginary part of α, for complex elements only.
        beta_imag: Imaginary part of β, likewise.
        m: Rows of C.
        n: Columns of C.
        k: Terms of each sum.
        lda: Leading dimension of A as it is stored; the least that is legal by default.
        ldb: Leading dimension of B, likewise.
        ldc: Leading dimension of C, likewise.
    """

    dtype: Literal["float32", "float64", "float16", "bfloat16", "complex64", "complex128"] = "float32"
    out_dtype: Literal["float16", "bfloat16", "float32"] | None = Field(
        default_factory=lambda known: known["dtype"] if known["dtype"] in _HALF else None
    )
    layout: Literal["nn", "nt", "tn", "tt"] = "nn"
    alpha: float = 1.0
    beta: float = 0.0
    alpha_imag: float | None = Field(default_factory=imaginary_default)
    beta_imag: float | None = Field(default_factory=imaginary_default)
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

    @property
    def factors(self) -> tuple[complex, complex]:
        """α and β."""
        return complex(self.alpha, self.alpha_imag or 0.0), complex(self.beta, self.beta_imag or 0.0)

    @property
    def parts(self) -> int:
        """Real numbers of an element of C: 2 where it is complex."""
        return 2 if self.dtype in PARTS else 1

    @property
    def half(self) -> bool:
        """Whether A and B have 16 bits an element, and sums are FP32."""
        return self.dtype in _HALF

    @property
    def dtypes(self) -> dict[str, str]:
        """Element types of A, B and C."""
        return {"A": self.dtype, "B": self.dtype, "C": self.out_dtype or self.dtype}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.half != (self.out_dtype is not None):
            accepted = f"one of {', '.join(UNIT)}" if self.half else f"no value with dtype {self.dtype}"
            raise UserError("wrong value", key="problem.out_dtype", found=self.out_dtype, accepted=accepted)
        check_imaginary(self)
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
        rng = np.random.default_rng(seed)
        alpha, beta = problem.factors
        read = {"A": alpha != 0, "B": alpha != 0, "C": beta != 0}
        arrays: dict[str, Array] = {}
        for name, (rows, columns, leading) in problem.shapes.items():
            dtype = problem.dtypes[name]
            array = empty(leading * columns, dtype)
            if read[name]:
                matrix(array, rows, columns, leading)[...] = drawn(rng, (columns, rows), dtype).T
            arrays[name] = array
        scalars = {key: problem[key] for key in SCALARS if key in problem}
        return Inputs(scalars=scalars, arrays=arrays, outputs=("C",))

    def reference(self, problem: GemmProblem, inputs: Inputs) -> Mapping[str, Expected]:
        """Compute C, m x n, by float64 BLAS through NumPy, with the scale that `verify` explains.

        Of complex elements in complex128; rows 2 i and 2 i + 1 of what is returned are the parts of row i of C.
        """
        (alpha, beta), layout = problem.factors, problem.layout
        shape, shapes = (problem.m, problem.n), problem.shapes
        values: NDArray[Any] = np.zeros(shape, np.complex128 if problem.parts > 1 else np.float64)
        if problem.parts == 1:
            alpha, beta = alpha.real, beta.real
        scale = np.full(shape, np.finfo(np.float64).tiny)
        if alpha != 0:
            a, b = (wide(matrix(inputs.arrays[name], *shapes[name])) for name in "AB")
            a, b = (a if layout[0] == "n" else a.T), (b if layout[1] == "n" else b.T)
            values += alpha * (a @ b)
            scale += abs(alpha) * np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
        if beta != 0:
            scaled = beta * wide(matrix(inputs.arrays["C"], *shapes["C"]))
            values += scaled
            scale += np.abs(scaled)
        if problem.parts > 1:
            values = np.stack((values.real, values.imag), axis=1).reshape(-1, problem.n)
            scale = np.repeat(scale, problem.parts, axis=0)
        of_scale, of_value, least = bound_of(problem)
        if least:
            scale = of_scale * scale + of_value * np.abs(values) + least
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

        For 16-bit elements the error is |got - expected| over a bound of it, so the tolerance is 1. Their products are
        exact in FP32. Tensor cores truncate where they align terms (M. Fasi, N. J. Higham, M. Mikaitis and S. Pranesh,
        Numerical behavior of NVIDIA tensor cores, 2021), so errors add up instead of cancelling: k terms lose up to an
        ulp, 2 u, of a partial sum of size sqrt(k) each, u on average, which against a scale of k is sqrt(k) u. The
        bound is ``(16 + sqrt(k)) u scale + v |expected| + s``: u is 2^-24, v the unit roundoff of C's type, s half its
        least subnormal or, where that may be flushed, its least normal number.

        A part of a complex element is a sum of 2 k real products, and the norms above are those of its 2 k factors:
        what is said of a real element holds for it.

        Padding between columns must be untouched: an element there that is no longer NaN is an error of inf.
        """
        rows, n, leading = problem.m * problem.parts, problem.n, problem.ldc * problem.parts
        expected = reference["C"].values
        whole = outputs["C"]
        tolerance = tolerance_of(problem)
        got = widened(matrix(parts(whole), rows, n, leading))
        error = np.abs(got - expected) / reference["C"].scale
        row, column = (
            int(i) for i in np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        )
        largest = float(error[row, column])
        if not largest <= tolerance:
            wrong = int(np.count_nonzero(~(error <= tolerance)))
            part = f"{('real', 'imaginary')[row % 2]} part of " if problem.parts > 1 else ""
            at = f"{part}C[{row // problem.parts}, {column}]"
            return largest, tolerance, worst_element(at, got[row, column], expected[row, column], wrong, got.size)
        strayed = stray_write("C", whole, problem.m, n, problem.ldc)
        return (float("inf"), tolerance, strayed) if strayed else (largest, tolerance, "")

    def elementwise(
        self, problem: GemmProblem, reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float] | None:
        """Lay C out column by column; the padding of a column must stay NaN. None for bfloat16, held as bits."""
        if problem.dtypes["C"] == "bfloat16":
            return None
        ldc, expected = problem.ldc * problem.parts, reference["C"]
        laid = Expected(laid_out(expected.values, ldc), laid_out(expected.scale, ldc))
        return {"C": laid}, tolerance_of(problem)

    def flops(self, problem: GemmProblem) -> int:
        """Count 2 m n k: one multiplication and one addition for each term, as BLAS benchmarks do.

        Complex elements take four times as many.
        """
        return operations(problem.dtype) * problem.m * problem.n * problem.k

    def bytes_moved(self, problem: GemmProblem) -> int:
        """Count A and B read once, C written once, and read once where β ≠ 0."""
        m, n, k = problem.m, problem.n, problem.k
        passes_over_c = 2 if problem.factors[1] != 0 else 1
        item = {name: ELEMENT_BYTES[dtype] for name, dtype in problem.dtypes.items()}
        return m * k * item["A"] + k * n * item["B"] + passes_over_c * m * n * item["C"]

    def fma_dtype(self, problem: GemmProblem) -> np.dtype[Any]:
        """Return the type of the sums: float32 for 16-bit elements, that of the parts of complex ones, else theirs."""
        return np.dtype(arithmetic_of(problem.dtype))


def bound_of(problem: GemmProblem) -> tuple[float, float, float]:
    """Return what errors are divided by: x, y and z of x scale + y |expected| + z, as `Gemm.verify` explains them."""
    if not problem.half:
        return 1.0, 0.0, 0.0
    return bound_of_half_sums(problem.k, problem.dtypes["C"])


def tolerance_of(problem: GemmProblem) -> float:
    """Return the largest error that `Gemm.verify` accepts."""
    return 1.0 if problem.half else tolerance_of_sums(problem.dtype)
