"""General matrix multiplication, ``C ← α op(A) op(B) + β C``, column-major with leading dimensions (BLAS).

`layout` holds BLAS letters: ``nn``, ``nt``, ``tn``, ``tt``; the first letter is A's, the second B's.
op(A) is m x k, op(B) is k x n, C is m x n.

FP16 and BF16 GEMMs are the same operator with another `dtype`: layouts, scalars, edges and the definition are the same,
and kernels declare the types they take. Accumulation, α and β are FP32, and C may have its own type, `out_dtype`.

So are 8-bit GEMMs. FP8 has a scale for each operand, a float32 in device memory as in cuBLASLt, by which α is
multiplied. int8 accumulates in int32, modulo 2^32; α, β and C are integers, too.

A float32 GEMM may name its `precision`: then its operands may be rounded for tensor cores, and `Gemm.verify` accepts
the resulting errors. A kernel of full precision passes, too. An FP8 GEMM may name its accumulation instead.

With a `batch`, the problem is that many GEMMs of one size whose operands lie one after another. For comparison, C is
the matrix of all members' columns. Kernels also take the stride from one member to the next.

Complex elements have complex factors: `alpha_imag` and `beta_imag` are their imaginary parts, and kernels take each
part as an argument. Neither operand is conjugated. For comparison, a complex matrix is the real matrix with twice the
rows in the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from lab.base.elements import ELEMENT_BYTES, PARTS, arithmetic_of, operations
from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.base.sizes import STRIDES
from lab.measured.timing import Merit
from lab.operators.base import Array, Expected, Extent, Inputs, Offered, Operator, Problem
from lab.operators.boxes import Index, boxes, fewer, thinned
from lab.operators.chosen import expected_of, verify_chosen
from lab.operators.epilogues import Epilogue, applied
from lab.operators.factors import check_imaginary, imaginary_default, other_factors
from lab.operators.float8 import FORMATS
from lab.operators.indexed import IndexedArray, IndexedInputs, WholeArray, gather
from lab.operators.matrices import (
    bound_of_half_sums,
    check_elements,
    check_leading,
    laid_out,
    matrix,
    padded,
    stray_write,
    tolerance_of_sums,
    worst_element,
)
from lab.operators.paged_inputs import Draw, blank, block_of, normal, paged_lines, stream
from lab.operators.stored import drawn, empty, parts, stored, wide, widened

_HALF: Final = ("float16", "bfloat16")
SCALARS: Final = (
    "m", "n", "k", "batch", "alpha", "beta", "alpha_imag", "beta_imag", "lda", "ldb", "ldc", *STRIDES
)  # fmt: skip
"""Fields that kernels may take as scalar arguments, if the problem has them."""

_EIGHT: Final = tuple(FORMATS)

_Out = Literal["float16", "bfloat16", "float32", "int32"]
_RESULTS: Final[Mapping[str, tuple[_Out, ...]]] = MappingProxyType(
    {
        "float16": ("float16", "bfloat16", "float32"),
        **dict.fromkeys(("bfloat16", *_EIGHT), ("bfloat16", "float16", "float32")),
        "int8": ("int32",),
    }
)
"""Accepted types of C by the type of A and B, the default first; for other types C has the type of A and B."""

SCALES: Final = ("scale_a", "scale_b")
"""Arrays of one float32 each: the operand scales of FP8 GEMMs."""

PRECISIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"float32": ("tf32", "3xtf32", "bf16x6", "bf16x9"), **dict.fromkeys(_EIGHT, ("fast_accumulation",))}
)
"""Accepted values of a problem's `precision`, by the type of A and B."""

FACTOR_ERRORS: Final[Mapping[str, float]] = MappingProxyType({"tf32": 2.0**-10})
"""Largest relative error of a rounded float32 operand element, by `GemmProblem.precision`."""

_FAR: Final = ("float32", "float64", "bfloat16")
_POWERS: Final = 50
"""Largest power of two of `scaled` data: products and their sums stay far from the limits of float32."""


class GemmProblem(Problem):
    """A product of an m x k matrix and a k x n one.

    Attributes:
        dtype: Element type of A and B; of C, too, unless `out_dtype` says otherwise.
        out_dtype: Element type of C: theirs by default for 16-bit A and B, bfloat16 for floats of eight bits, int32
            for int8, and float32 for a named `precision` of float32. Without a value for other types, whose problems
            therefore keep their identity.
        precision: What float32 factors may become: `tf32` rounds them to 11 significant bits. The others split them
            into parts whose products keep the tolerance of FP32: `3xtf32` into two of 11 bits, of whose four products
            the least is left out; `bf16x6` and `bf16x9` into three of 8 bits, with six or all nine products. Without a
            value nothing is said of factors, and such problems keep their identity. For floats of eight bits,
            `fast_accumulation` allows sums that keep 13 bits behind the first; without a value at most 128 terms may be
            added so.
        data: How A and B are drawn: `normal`, or `scaled`, with rows of op(A) and columns of op(B) multiplied by powers
            of two from 2^-50 to 2^50. Standard normal without a value, and such problems keep their identity.
        epilogue: What is done to the result before it is stored, for 16-bit A and B only; `lab.operators.epilogues` has
            the definitions. Without a value, nothing.
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
        batch: Number of GEMMs of this size; one without a value, and kernels take no batch. Otherwise the problem has
            derived fields: `batches`, which is `strided`, and `STRIDES`.
    """

    extensions = ("epilogue", "batches")

    dtype: Literal[
        "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8",
        "complex64", "complex128",
    ] = "float32"  # fmt: skip
    precision: Literal["tf32", "3xtf32", "bf16x6", "bf16x9", "fast_accumulation"] | None = None
    out_dtype: _Out | None = Field(
        default_factory=lambda fields: next(iter(_results(fields["dtype"], fields["precision"])), None)
    )
    epilogue: Epilogue | None = None
    data: Literal["normal", "scaled"] | None = None
    layout: Literal["nn", "nt", "tn", "tt"] = "nn"
    alpha: float = 1.0
    beta: float = 0.0
    alpha_imag: float | None = Field(default_factory=imaginary_default)
    beta_imag: float | None = Field(default_factory=imaginary_default)
    m: Extent
    n: Extent
    k: Extent
    lda: Extent = Field(default_factory=lambda fields: fields["m" if fields["layout"][0] == "n" else "k"])
    ldb: Extent = Field(default_factory=lambda fields: fields["k" if fields["layout"][1] == "n" else "n"])
    ldc: Extent = Field(default_factory=lambda fields: fields["m"])
    batch: Extent | None = None

    @classmethod
    def derived_names(cls) -> tuple[str, ...]:
        """Return `batches` and `STRIDES`, the derived fields of batched problems."""
        return ("batches", *STRIDES)

    @property
    def derived(self) -> Mapping[str, Scalar]:
        """See `derived_names`."""
        if self.batch is None:
            return {}
        apart = (columns * leading for _, columns, leading in self.shapes.values())
        return {"batches": "strided", **dict(zip(STRIDES, apart, strict=True))}

    @property
    def members(self) -> int:
        """Number of GEMMs in the batch; 1 without a batch."""
        return self.batch or 1

    @property
    def whole(self) -> dict[str, tuple[int, int, int]]:
        """`shapes` with the columns of all batch members."""
        return {name: (rows, columns * self.members, ld) for name, (rows, columns, ld) in self.shapes.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, int, int]]:
        """Rows, columns and leading dimension of A, B and C as stored; of one member if the problem is batched."""
        a = (self.m, self.k) if self.layout[0] == "n" else (self.k, self.m)
        b = (self.k, self.n) if self.layout[1] == "n" else (self.n, self.k)
        return {"A": (*a, self.lda), "B": (*b, self.ldb), "C": (self.m, self.n, self.ldc)}

    @property
    def factors(self) -> tuple[complex, complex]:
        """α and β."""
        return complex(self.alpha, self.alpha_imag or 0.0), complex(self.beta, self.beta_imag or 0.0)

    @property
    def parts(self) -> int:
        """Real numbers per element of C: 2 if it is complex."""
        return 2 if self.dtype in PARTS else 1

    @property
    def half(self) -> bool:
        """Return whether A and B have 16-bit elements and accumulation is FP32."""
        return self.dtype in _HALF

    @property
    def bounded(self) -> bool:
        """Return whether each element's error is judged against its own bound, as tensor cores accumulate."""
        return self.half or self.has_scales or self.precision in FACTOR_ERRORS

    @property
    def has_scales(self) -> bool:
        """Return whether A and B have a scale each: FP8."""
        return self.dtype in _EIGHT

    @property
    def exact(self) -> bool:
        """Return whether arithmetic is exact: integers."""
        return self.dtype == "int8"

    @property
    def dtypes(self) -> dict[str, str]:
        """Element types of A, B and C."""
        return {"A": self.dtype, "B": self.dtype, "C": self.out_dtype or self.dtype}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        results = _results(self.dtype, self.precision)
        if self.out_dtype not in (results or (None,)):
            accepted = f"one of {', '.join(results)}" if results else f"no value with dtype {self.dtype}"
            raise UserError(
                "wrong value", code="wrong-value", key="problem.out_dtype", found=self.out_dtype, accepted=accepted
            )
        precisions = PRECISIONS.get(self.dtype, ())
        if self.precision not in (None, *precisions):
            accepted = " or ".join([*precisions, f"no value with dtype {self.dtype}"])
            raise UserError(
                "wrong value", code="wrong-value", key="problem.precision", found=self.precision, accepted=accepted
            )
        for factor in ("alpha", "beta"):
            if self.exact and not float(getattr(self, factor)).is_integer():
                accepted = f"an integer with dtype {self.dtype}"
                raise UserError(
                    "wrong value",
                    code="wrong-value",
                    key=f"problem.{factor}",
                    found=getattr(self, factor),
                    accepted=accepted,
                )
        check_imaginary(self)
        if self.data == "scaled" and self.dtype not in _FAR:
            accepted = f"normal, or no value: {self.dtype} lacks the range"
            raise UserError("wrong value", code="wrong-value", key="problem.data", found=self.data, accepted=accepted)
        if self.epilogue is not None and not self.half:
            accepted = f"no value with dtype {self.dtype}"
            raise UserError(
                "wrong value", code="wrong-value", key="problem.epilogue", found=self.epilogue, accepted=accepted
            )
        for name, (rows, _, leading) in self.shapes.items():
            check_leading(f"ld{name.lower()}", leading, rows)
        if self.batch is not None and self.epilogue is not None:
            raise UserError(
                "wrong value",
                code="wrong-value",
                key="problem.batch",
                found=self.batch,
                accepted="no value with an epilogue",
            )
        for name, shape in self.whole.items():
            check_elements(name, *shape)
        return self


_FEW_BOXES: Final = 9
"""Maximum number of blocks of C whose reference is computed at the full problem size."""

_LARGE: Final = 1 << 28
"""Elements of C from which only one block is computed: its columns lie on many pages."""

_FEW_SIDES: Final = 16
"""Maximum number of rows, and of columns, of each block computed at the full problem size."""


@dataclass(frozen=True)
class Gemm(Operator[GemmProblem]):
    """The operator `gemm`."""

    name = "gemm"
    merit = Merit.TFLOPS
    problem_type = GemmProblem

    def inputs(self, problem: GemmProblem, seed: int) -> Inputs:
        """Make normal A and B, scaled by `data`, C where β ≠ 0, and a bias; NaN in elements that must not matter.

        Integers are uniform over int8, with `POISON_BYTE` where other types have NaN. Arrays are
        1-D, leading dimension times columns elements long. With β = 0 all of C is NaN, since BLAS does not read it
        then; the same holds for A and B with α = 0. The scales, one float32 each, lie between 0.5 and 1.5.
        """
        rng = np.random.default_rng(seed)
        alpha, beta = problem.factors
        is_read = {"A": alpha != 0, "B": alpha != 0, "C": beta != 0}
        arrays: dict[str, Array] = {}
        for name, (rows, columns, leading) in problem.whole.items():
            dtype = problem.dtypes[name]
            array = empty(leading * columns, dtype)
            if is_read[name]:
                view = matrix(array, rows, columns, leading)
                if problem.exact:
                    view[...] = rng.integers(-128, 128, (columns, rows), np.int8).T
                else:
                    view[...] = drawn(rng, (columns, rows), dtype).T
            arrays[name] = array
        if problem.has_scales:
            arrays |= {name: rng.uniform(0.5, 1.5, 1).astype(np.float32) for name in SCALES}
        if problem.data == "scaled" and problem.alpha != 0:
            _scale(problem, arrays, rng)
        if problem.epilogue is not None:
            arrays["bias"] = stored(rng.standard_normal(problem.m, dtype=np.float32), problem.dtype)
        return Inputs(_scalars(problem), arrays, ("C",), _required(problem))

    def indexed_inputs(self, problem: GemmProblem, seed: int) -> IndexedInputs:
        """Draw the matrices page by page, as `inputs` fills them; cached for the last problem."""
        return _indexed(problem, seed)

    def other_problem(self, problem: GemmProblem) -> GemmProblem | None:
        """Return the problem with factors other than 1 and 0, and with padding."""
        least = {f"ld{name.lower()}": rows for name, (rows, _, _) in problem.shapes.items()}
        changes = {**other_factors(problem, integers=problem.exact), **padded(problem, least)}
        return self.restored({**problem.plain, **changes}) if changes else None

    def offered(self, problem: GemmProblem) -> Offered:
        """Return the arguments available to kernels without generating the matrices."""
        scales = dict.fromkeys(SCALES, "float32") if problem.has_scales else {}
        bias = {"bias": problem.dtype} if problem.epilogue is not None else {}
        return Offered(_scalars(problem), {**problem.dtypes, **scales, **bias}, ("C",))

    def reference(self, problem: GemmProblem, inputs: Inputs) -> Mapping[str, Expected]:
        """Compute C, m x n, with NumPy's float64 BLAS, and the scale that `verify` explains.

        The columns of a batch's members stand side by side.

        Complex elements are computed in complex128; rows 2 i and 2 i + 1 of the result are the parts of row i of C.
        """
        (alpha, beta), layout = problem.factors, problem.layout
        shape, shapes = (problem.m, problem.n * problem.members), problem.whole
        # column by column, as in C's buffer: nothing is transposed in memory, and a large matrix is read few times
        values: NDArray[Any] = np.zeros(shape, np.complex128 if problem.parts > 1 else np.float64, order="F")
        if problem.parts == 1:
            alpha, beta = alpha.real, beta.real
        scale = np.zeros(shape, order="F")
        if alpha != 0:
            if problem.has_scales:
                alpha *= math.prod(float(inputs.arrays[name][0]) for name in SCALES)
            a, b = (wide(matrix(inputs.arrays[name], *shapes[name]), problem.dtype) for name in "AB")
            for i in range(problem.members):
                x, y = _member(a, i, problem.members), _member(b, i, problem.members)
                x, y = (x if layout[0] == "n" else x.T), (y if layout[1] == "n" else y.T)
                rows = slice(i * problem.n, (i + 1) * problem.n)  # of the transposed result
                np.matmul(y.T, x.T, out=values.T[rows])
                rows_of_a, columns_of_b = np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=0)
                np.multiply.outer(columns_of_b, abs(alpha) * rows_of_a, out=scale.T[rows])
            if alpha != 1:
                values *= alpha
        scale += np.finfo(np.float64).tiny
        if beta != 0:
            scaled = beta * wide(matrix(inputs.arrays["C"], *shapes["C"]))
            values += scaled
            scale += np.abs(scaled)
        if problem.parts > 1:
            values = np.stack((values.real, values.imag), axis=1).reshape(-1, shape[1])
            scale = np.repeat(scale, problem.parts, axis=0)
        if problem.exact:
            return {"C": Expected(np.mod(values + 2.0**31, 2.0**32) - 2.0**31, np.ones(shape))}
        if problem.bounded:
            of_scale, of_value, least = bound_of(problem)
            scale *= of_scale
            if problem.epilogue is not None:
                result = applied(problem.epilogue, Expected(values, scale), widened(inputs.arrays["bias"]))
                values, scale = result.values, result.scale
            of_values = np.abs(values)
            of_values *= of_value
            of_values += least
            scale += of_values
        return {"C": Expected(values, scale)}

    def representative(self, problem: GemmProblem, indices: Mapping[str, Index]) -> Mapping[str, Index]:
        """Return a few rows and columns of each block."""
        columns, rows = laid = problem.n * problem.members, problem.ldc
        max_boxes = max(1, min(_FEW_BOXES, _LARGE // (columns * rows)))
        return {name: thinned(fewer(elements, laid, max_boxes), laid, _FEW_SIDES) for name, elements in indices.items()}

    def reference_at(
        self, problem: GemmProblem, inputs: IndexedInputs, indices: Mapping[str, Index]
    ) -> Mapping[str, Expected] | None:
        """Compute selected elements of C from their rows and columns; padding must stay unchanged."""
        columns, rows = np.divmod(indices["C"], problem.ldc)
        used = rows < problem.m
        values, scale = np.empty((2, int(used.sum()), problem.parts))
        flat = (columns * problem.m + rows)[used]
        for (of_columns, of_rows), places in boxes(flat, (problem.n * problem.members, problem.m)):
            at = places.reshape(len(of_columns), len(of_rows))
            for member in np.unique(of_columns // problem.n):
                own = of_columns // problem.n == member
                block = self._part(problem, inputs, int(member), of_rows, of_columns[own] % problem.n)
                sizes = int(own.sum()), len(of_rows), problem.parts
                values[at[own]], scale[at[own]] = (array.T.reshape(sizes) for array in (block.values, block.scale))
        return {"C": expected_of(values, scale, used, tolerance_of(problem))}

    def _part(self, problem: GemmProblem, inputs: IndexedInputs, member: int, rows: Index, columns: Index) -> Expected:
        """Compute some rows and columns of one batch member, as `reference` does for all of C."""
        along = np.arange(problem.k)
        a, b = ("A", rows, along), ("B", along, columns)
        selection = {"C": (rows, columns + member * problem.n)}
        for (name, of_rows, of_columns), letter in zip((a, b), problem.layout, strict=True):
            lines = (of_columns, of_rows) if letter == "n" else (of_rows, of_columns)  # stored columns come first
            selection[name] = lines[1], lines[0] + member * problem.shapes[name][1]
        arrays = {name: array.read(0, array.size) for name, array in inputs.arrays.items() if name in SCALES}
        leading: dict[str, int] = {}
        for name, (of_rows, of_columns) in selection.items():
            apart = problem.shapes[name][2]
            arrays[name] = block_of(inputs.arrays[name], of_columns, of_rows, apart).reshape(-1)
            leading[f"ld{name.lower()}"] = len(of_rows)
        if "bias" in inputs.arrays:
            arrays["bias"] = gather(inputs.arrays["bias"], rows)
        small = problem.model_copy(update={"m": len(rows), "n": len(columns), "batch": None, **leading})
        return self.reference(small, Inputs(inputs.scalars, arrays, ("C",)))["C"]

    def verify_at(
        self,
        problem: GemmProblem,
        reference: Mapping[str, Expected],
        indices: Mapping[str, Index],
        got: Mapping[str, Array],
    ) -> tuple[float, float, str]:
        """Compare selected elements, as `verify` does for all elements."""

        def place(name: str, index: int) -> str:
            column, row = divmod(index, problem.ldc)
            member = "" if problem.batch is None else f" of member {column // problem.n}"
            return f"{name}[{row}, {column % problem.n}]{member}"

        return verify_chosen(reference, indices, got, place, problem.dtypes["C"])

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
        least subnormal or, where that may be flushed, its least normal number. An epilogue changes the first term:
        `lab.operators.epilogues.applied`.

        A part of a complex element is a sum of 2 k real products, and the norms above are those of its 2 k factors:
        what is said of a real element holds for it.

        The same holds for float32 factors that a `precision` rounds, and the bound has the errors of factors, too. A
        relative error w of both factors changes a term by 2 w of its size, and all terms, if they have one sign, by
        ``2 w scale``. Errors of k independent terms add up to w times the root of the sum of the terms' squares, which
        is about ``scale / sqrt(k)``: ``min(2, 8 / sqrt(k)) w scale`` is added. Tensor cores read the upper 19 bits of a
        float32, so an operand that nobody rounds is cut off: w is 2^-10 for `tf32`; rounding to nearest halves it.

        Tensor cores add products of floats of eight bits to sums with 13 bits behind the first
        (docs/explanation/tensor-cores.md): each of 32 products, and the sum before, is cut off at 2^-13 of the largest
        of them. Sums of at most 128 terms, which are then added in FP32, are about four times a term when they lose
        most, so w is 2^-11. Where all k terms are added so (`fast_accumulation`), a sum of size sqrt(p) after p terms
        loses 2^-14 of it on average with each 32 terms: sqrt(k) / 96 times 2^-13 of a scale of k in all. The terms' own
        losses are about 2^-13 of the scale.
        The bound has more, ``(2 + sqrt(k) / 32) 2^-13 scale``: random sums with k from 1 to 8192 reach a third of it.

        Integers must be equal.

        Padding between columns must be untouched: an element there that is no longer NaN, or of integers `POISON_BYTE`,
        is an error of inf.
        """
        rows, leading = problem.m * problem.parts, problem.ldc * problem.parts
        n = problem.n * problem.members
        expected = reference["C"].values
        buffer = outputs["C"]
        tolerance = tolerance_of(problem)
        out = problem.dtypes["C"]
        got = widened(matrix(parts(buffer), rows, n, leading), out)
        error = np.abs(got - expected) / reference["C"].scale
        row, column = (
            int(i) for i in np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        )
        largest = float(error[row, column])
        if not largest <= tolerance:
            wrong = int(np.count_nonzero(~(error <= tolerance)))
            component = f"{('real', 'imaginary')[row % 2]} part of " if problem.parts > 1 else ""
            member = "" if problem.batch is None else f" of member {column // problem.n}"
            at = f"{component}C[{row // problem.parts}, {column % problem.n}]{member}"
            return largest, tolerance, worst_element(at, got[row, column], expected[row, column], wrong, got.size)
        strayed = stray_write("C", buffer, (problem.m, n, problem.ldc), out)
        return (float("inf"), tolerance, strayed) if strayed else (largest, tolerance, "")

    def elementwise(
        self, problem: GemmProblem, reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float]:
        """Lay C out column by column; the padding of a column must stay unchanged."""
        ldc, expected = problem.ldc * problem.parts, reference["C"]
        laid = Expected(laid_out(expected.values, ldc), laid_out(expected.scale, ldc))
        return {"C": laid}, tolerance_of(problem)

    def flops(self, problem: GemmProblem) -> int:
        """Count 2 m n k, one multiply and one add per term, as BLAS benchmarks do; the epilogue is not counted.

        Complex elements take four times as many. All members of a batch are counted.
        """
        return operations(problem.dtype) * problem.m * problem.n * problem.k * problem.members

    def bytes_moved(self, problem: GemmProblem) -> int:
        """Count A, B and a bias read once, C written once, and read once where β ≠ 0."""
        m, n, k = problem.m, problem.n, problem.k
        passes_over_c = 2 if problem.factors[1] != 0 else 1
        item = {name: ELEMENT_BYTES[dtype] for name, dtype in problem.dtypes.items()}
        bias = m * item["A"] if problem.epilogue is not None else 0
        return problem.members * (m * k * item["A"] + k * n * item["B"] + passes_over_c * m * n * item["C"]) + bias

    def fma_dtype(self, problem: GemmProblem) -> np.dtype[Any]:
        """Return the accumulation type: float32 for narrower elements, whose native rate is that of tensor cores.

        For complex elements it is the type of their parts.
        """
        return np.dtype("float64" if arithmetic_of(problem.dtype) == "float64" else "float32")


def _scalars(problem: GemmProblem) -> dict[str, Scalar]:
    """Return the scalar kernel arguments by name."""
    return {key: problem[key] for key in SCALARS if key in problem}


def _required(problem: GemmProblem) -> tuple[str, ...]:
    """Return C if it is not read and every element of its buffer is written."""
    return ("C",) if problem.factors[1] == 0 and problem.ldc == problem.m else ()


@lru_cache(maxsize=1)  # the variants of a sweep share a problem
def _indexed(problem: GemmProblem, seed: int) -> IndexedInputs:
    alpha, beta = problem.factors
    is_read = {"A": alpha != 0, "B": alpha != 0, "C": beta != 0}
    arrays: dict[str, IndexedArray] = {}
    for name, (rows, columns, leading) in problem.whole.items():
        dtype = problem.dtypes[name]
        shape = columns, rows, leading
        draw = _draw(problem, name, seed)
        array = paged_lines(name, seed, shape, dtype, draw) if is_read[name] else blank(leading * columns, dtype)
        arrays[name] = array
    if problem.has_scales:
        for name in SCALES:
            arrays[name] = WholeArray(stream(name, seed).uniform(0.5, 1.5, 1).astype(np.float32))
    if problem.epilogue is not None:
        arrays["bias"] = WholeArray(drawn(stream("bias", seed), (problem.m,), problem.dtype))
    return IndexedInputs(_scalars(problem), arrays, ("C",), _required(problem))


def _draw(problem: GemmProblem, name: str, seed: int) -> Draw:
    """Return the function that draws a matrix's elements; its lines are its columns."""
    dtype = problem.dtypes[name]
    if problem.exact:
        return lambda rng, lines, _: rng.integers(-128, 128, len(lines), np.int8).astype(dtype)
    if problem.data != "scaled" or name == "C":
        return normal(dtype)
    plain = problem.layout["AB".index(name)] == "nt"["AB".index(name)]  # rows have a power each, else columns
    rows, columns, _ = problem.whole[name]
    powers = np.exp2(stream(f"powers of {name}", seed).integers(-_POWERS, _POWERS + 1, rows if plain else columns))

    def scaled(rng: np.random.Generator, lines: Index, places: Index) -> Array:
        values = widened(drawn(rng, (len(lines),), dtype), dtype)
        return stored((values * powers[np.minimum(places, rows - 1) if plain else lines]).astype(np.float32), dtype)

    return scaled


def _member(columns: NDArray[Any], i: int, members: int) -> NDArray[Any]:
    """Return the columns of one batch member."""
    width = columns.shape[1] // members
    return columns[:, i * width : (i + 1) * width]


def bound_of(problem: GemmProblem) -> tuple[float, float, float]:
    """Return x, y and z of the error bound x scale + y |expected| + z, as `Gemm.verify` explains it."""
    if not problem.bounded:
        return 1.0, 0.0, 0.0
    of_scale, of_value, least = bound_of_half_sums(problem.k, problem.dtypes["C"])
    return of_scale + _of_terms(problem), of_value, least


def tolerance_of(problem: GemmProblem) -> float:
    """Return the largest error that `Gemm.verify` accepts."""
    if problem.exact:
        return 0.5
    return 1.0 if problem.bounded else tolerance_of_sums(problem.dtype)


def _results(dtype: str, precision: str | None) -> tuple[_Out, ...]:
    """Return the accepted types of C, the default first; empty if C has the type of A and B."""
    return ("float32",) if dtype == "float32" and precision else _RESULTS.get(dtype, ())


def _of_terms(problem: GemmProblem) -> float:
    """Return the error added by rounding the terms, relative to the scale that `Gemm.verify` explains."""
    root = math.sqrt(problem.k)
    if problem.precision == "fast_accumulation":
        return (2 + root / 32) * 2.0**-13
    error = 2.0**-11 if problem.has_scales else FACTOR_ERRORS.get(problem.precision or "", 0.0)
    return min(2.0, 8 / root) * error


def _scale(problem: GemmProblem, arrays: Mapping[str, Array], rng: np.random.Generator) -> None:
    """Multiply each row of op(A) and each column of op(B) by a power of two, which changes no significant bit."""
    for name, plain in (("A", problem.layout[0] == "n"), ("B", problem.layout[1] == "t")):
        rows, columns, leading = problem.whole[name]
        view, dtype = matrix(arrays[name], rows, columns, leading), problem.dtypes[name]
        powers = np.exp2(rng.integers(-_POWERS, _POWERS + 1, rows if plain else columns))
        scaled = widened(view, dtype) * (powers[:, None] if plain else powers)
        view[...] = stored(scaled.astype(np.float32), dtype)  # exact: all was drawn as float32
