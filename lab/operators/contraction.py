"""Tensor contractions of two operands, ``C ← α Σ A B + β C``.

A problem names the indices of the three tensors, shortest stride first, in one of two ways::

    {einsum: "ilk,jlk->ijk", i: 512, j: 512, k: 8, l: 512}
    {IndexAssignmentsA: "0,3,2", IndexAssignmentsB: "1,3,2", NumIndicesC: 3, i: 512, j: 512, k: 8, l: 512}

and gives the size of every index under its letter. Tensile's number 0 is `i`, 1 is `j` and so on; assignments are text,
since a list in a problem is swept. Both examples are the batched product of a matrix and a transposed one;
`lab.operators.einsum` defines the terms.

Tensors have no gaps unless `strides_A` or `strides_B` gives an operand's strides in elements, in the order of its
indices: ``"1,66,1,66"``. Such an operand may overlap itself, as the windows of a convolution do, and may repeat itself
with stride 0. List its indices by stride nevertheless: templates copy along the first one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, model_validator

from lab.base.elements import ELEMENT_BYTES, PARTS, SUMS, arithmetic_of, operations
from lab.base.errors import UserError, did_you_mean
from lab.base.expressions import Scalar
from lab.measured.timing import Merit
from lab.operators import einsum
from lab.operators.base import MOST_ELEMENTS, Array, Expected, Extent, Inputs, Operator, Problem
from lab.operators.boxes import Index
from lab.operators.chosen import verify_chosen, whole_at
from lab.operators.einsum import MOST_DIMENSIONS, Einsum
from lab.operators.factors import check_imaginary, imaginary_default, other_factors
from lab.operators.indexed import IndexedInputs
from lab.operators.matrices import bound_of_half_sums, tolerance_of_sums, worst_element
from lab.operators.stored import UNIT, drawn, empty, parts, wide, widened
from lab.operators.tensors import Layout, TensorShapes, distinct

_FACTORS = ("alpha", "beta", "alpha_imag", "beta_imag")
_ASSIGNMENTS = ("IndexAssignmentsA", "IndexAssignmentsB")
_SPELT = ("einsum", *_ASSIGNMENTS, "NumIndicesC")
_DERIVED = ("folded", "d0", "d1", "dU", "rows", "columns", "depth", "batches", "alignment", "compact")


class ContractionProblem(Problem):
    """A contraction problem; the size of each index is a further field, named by the index's letter.

    Attributes:
        dtype: Element type.
        alpha: α; of complex elements, its real part.
        beta: β, likewise; where it is 0, C is not read.
        alpha_imag: Imaginary part of α, for complex elements only.
        beta_imag: Imaginary part of β, likewise.
        einsum: The indices of A, B and C.
        IndexAssignmentsA: The indices of A as Tensile numbers them; None where the file gives an einsum.
        IndexAssignmentsB: The indices of B, likewise.
        NumIndicesC: The number of C's indices, likewise.
        strides_A: Strides of A in elements where it has gaps or overlaps itself; None where it has none.
        strides_B: Strides of B, likewise.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Extent]
    number_lists = (*_ASSIGNMENTS, "strides_A", "strides_B")

    dtype: Literal["float32", "float64", "float16", "bfloat16", "complex64", "complex128"] = "float32"
    alpha: float = 1.0
    beta: float = 0.0
    alpha_imag: float | None = Field(default_factory=imaginary_default)
    beta_imag: float | None = Field(default_factory=imaginary_default)
    einsum: str
    IndexAssignmentsA: str | None = None
    IndexAssignmentsB: str | None = None
    NumIndicesC: int | None = Field(None, ge=0, le=MOST_DIMENSIONS)
    strides_A: str | None = None  # noqa: N815 - the tensor's name
    strides_B: str | None = None  # noqa: N815

    @model_validator(mode="before")
    @classmethod
    def _indices_known(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Derive the einsum, which determines the accepted fields."""
        parsed = _indices(fields)
        accepted_names = [*cls.model_fields, *parsed.indices]
        for name in fields:
            if name not in accepted_names:
                suggestion = did_you_mean(name, accepted_names)
                raise UserError(
                    "unknown key",
                    code="unknown-key",
                    key=f"problem.{name}",
                    accepted=accepted_names,
                    suggestion=suggestion,
                )
        for letter in parsed.indices:
            if letter not in fields:
                accepted = f"an integer from 1 to {MOST_ELEMENTS}, the size of the index {letter}"
                raise UserError("a key is missing", code="missing-key", key=f"problem.{letter}", accepted=accepted)
        return {"einsum": str(parsed), **fields}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_imaginary(self)
        self.shape.check()
        return self

    @property
    def factors(self) -> tuple[complex, complex]:
        """α and β."""
        return complex(self.alpha, self.alpha_imag or 0.0), complex(self.beta, self.beta_imag or 0.0)

    @property
    def half(self) -> bool:
        """Return whether elements have 16 bits and accumulation is FP32."""
        return self.dtype in SUMS

    @classmethod
    def restored(cls, values: Mapping[str, Scalar]) -> Self:
        """Rebuild a problem from its plain form, dropping an einsum derived from index assignments."""
        if not isinstance(values, cls) and any(name in values for name in _ASSIGNMENTS):
            values = {name: value for name, value in values.items() if name != "einsum"}
        return super().restored(values)

    @cached_property
    def shape(self) -> TensorShapes:
        """Indices, sizes and strides."""
        stride_texts = {"A": self.strides_A, "B": self.strides_B}
        strides = {
            tensor: _numbers(f"strides_{tensor}", text, "one stride for each index of the operand, in its order")
            for tensor, text in stride_texts.items()
            if text is not None
        }
        parsed = einsum.parse(self.einsum)
        sizes: Mapping[str, int] = self.model_extra or {}
        return TensorShapes(parsed, {letter: sizes[letter] for letter in parsed.indices}, strides)

    @classmethod
    def derived_names(cls) -> tuple[str, ...]:
        """Return the names of the fields `derived` adds."""
        return _DERIVED

    @property
    def derived(self) -> Mapping[str, Scalar]:
        """Derived fields for templates.

        `folded` is the einsum with neighbouring indices merged; `d0`, `d1` and `dU` are the sizes of these indices of
        it, 1 where there is no such index; `rows`, `columns`, `depth` and `batches` are the numbers of values that the
        free indices on d0's side, those on d1's side, the summation indices and the batch indices take together;
        `alignment` is explained at `TensorShapes.alignment`; and `compact` names the operands without strides of their
        own: `AB`, `A`, `B` or nothing.
        """
        merged = self.shape.folded()
        indices = merged.einsum
        groups = (indices.rows, indices.columns, indices.depth, indices.batch)
        sizes = [merged.count(group[:1]) for group in groups[:3]] + [merged.count(group) for group in groups]
        compact = "".join(operand for operand in "AB" if operand not in merged.given)
        return dict(zip(_DERIVED, (str(indices), *sizes, merged.alignment, compact), strict=True))


@dataclass(frozen=True)
class Contraction(Operator[ContractionProblem]):
    """The operator `contraction`."""

    name = "contraction"
    merit = Merit.TFLOPS
    problem_type = ContractionProblem

    def inputs(self, problem: ContractionProblem, seed: int) -> Inputs:
        """Make standard normal A and B, and C where β ≠ 0; NaN in elements that must not affect the result.

        Scalars are α, β, the number of C's `elements`, and what `Einsum.arguments` of `folded` names.
        """
        shape = problem.shape
        rng, (alpha, beta) = np.random.default_rng(seed), problem.factors
        is_read = {"A": alpha != 0, "B": alpha != 0, "C": beta != 0}
        arrays: dict[str, Array] = {}
        for tensor in "ABC":
            layout = shape.layout(tensor)
            array = empty(layout.elements, problem.dtype)
            if is_read[tensor]:
                used = slice(None) if layout.is_compact else layout.used()
                array[used] = drawn(rng, (layout.elements,), problem.dtype)[used]
            arrays[tensor] = array
        factors = {name: problem[name] for name in _FACTORS if name in problem}
        scalars = {**factors, "elements": shape.layout("C").elements, **shape.folded().arguments}
        return Inputs(scalars=scalars, arrays=arrays, outputs=("C",), required=() if is_read["C"] else ("C",))

    def other_problem(self, problem: ContractionProblem) -> ContractionProblem | None:
        """Return the problem with factors other than 1 and 0."""
        changes = other_factors(problem)
        return self.restored({**problem.plain, **changes}) if changes else None

    def reference(self, problem: ContractionProblem, inputs: Inputs) -> Mapping[str, Expected]:
        """Compute C as ``numpy.einsum`` defines it, in float64 and in C's logical shape, with the scale of `verify`.

        Complex elements are computed in complex128; a leading index selects the real or imaginary part.

        Computed as a batched GEMM, which NumPy leaves to BLAS; its einsum does not if there is a batch.
        """
        shape = problem.shape
        (alpha, beta), indices = problem.factors, shape.einsum
        kind = np.complex128 if problem.dtype in PARTS else np.float64
        if kind is np.float64:
            alpha, beta = alpha.real, beta.real
        values: NDArray[Any] = np.zeros(shape.layout("C").sizes, kind, order="F")
        scale = np.full(values.shape, np.finfo(np.float64).tiny, order="F")
        if alpha != 0:
            # the longest stride first, as in NumPy
            tensor_indices = {tensor: indices.of(tensor)[::-1] for tensor in "ABC"}
            batch, rows, columns, depth = (
                tuple(i for i in tensor_indices[tensor] if i in group)
                for tensor, group in (
                    (indices.first, indices.batch),
                    (indices.first, indices.rows),
                    (indices.second, indices.columns),
                    (indices.first, indices.depth),
                )
            )
            first, second = (
                shape.grouped(operand, wide(inputs.arrays[operand]), groups)
                for operand, groups in (
                    (indices.first, (batch, rows, depth)),
                    (indices.second, (batch, depth, columns)),
                )
            )
            order = (*batch, *rows, *columns)
            back = [order.index(i) for i in indices.C]
            logical = [shape.size[i] for i in order]
            values += alpha * (first @ second).reshape(logical).transpose(back)
            sides = ("brk,brk->br", first), ("bkc,bkc->bc", second)
            lengths = [np.sqrt(np.einsum(s, m, m.conj()).real) for s, m in sides]
            norms = lengths[0][:, :, None] * lengths[1][:, None, :]
            scale += abs(alpha) * norms.reshape(logical).transpose(back)
        if beta != 0:
            scaled = beta * wide(inputs.arrays["C"]).reshape(values.shape, order="F")
            values += scaled
            scale += np.abs(scaled)
        if kind is np.complex128:  # parts are the first index, since they are neighbours in memory
            values = np.stack((values.real, values.imag))
            scale = np.stack((scale, scale))
        if problem.half:
            of_scale, of_value, least = bound_of_half_sums(shape.count(indices.depth), problem.dtype)
            of_scale = max(of_scale, _repeats(problem) * UNIT["float32"])
            scale = of_scale * scale + of_value * np.abs(values) + least
        return {"C": Expected(values, scale)}

    def verify(
        self, problem: ContractionProblem, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare element by element.

        An element of C is a dot product of a vector of A and one of B, as in a GEMM; its error is relative to |α| times
        the product of their norms, plus |β C|. `lab.operators.gemm` derives this and the tolerance; `_tolerance` names
        the cases where it is larger.
        """
        expected, tolerance = reference["C"], _tolerance(problem)
        got = widened(parts(outputs["C"])).reshape(expected.values.shape, order="F")
        error = np.abs(got - expected.values) / expected.scale
        largest = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        if error[largest] <= tolerance:
            return float(error[largest]), tolerance, ""
        place = [int(i) for i in largest]
        component = f"{('real', 'imaginary')[place.pop(0)]} part of " if problem.dtype in PARTS else ""
        at = f"{component}C[{', '.join(map(str, place))}]"
        wrong = int(np.count_nonzero(~(error <= tolerance)))
        worst = worst_element(at, got[largest], expected.values[largest], wrong, got.size)
        return float(error[largest]), tolerance, worst

    def elementwise(
        self, problem: ContractionProblem, reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float]:
        """Lay C out in memory order: its first index varies fastest."""
        expected = reference["C"]
        flat = Expected(expected.values.reshape(-1, order="F"), expected.scale.reshape(-1, order="F"))
        return {"C": flat}, _tolerance(problem)

    def reference_at(
        self, problem: ContractionProblem, inputs: IndexedInputs, indices: Mapping[str, Index]
    ) -> Mapping[str, Expected] | None:
        """Select elements of the reference; None if the tensors are large."""
        return whole_at(self, problem, inputs, indices)

    def verify_at(
        self,
        problem: ContractionProblem,
        reference: Mapping[str, Expected],
        indices: Mapping[str, Index],
        got: Mapping[str, Array],
    ) -> tuple[float, float, str]:
        """Compare selected elements, as `verify` does for all elements."""
        sizes = problem.shape.layout("C").sizes

        def place(name: str, index: int) -> str:
            return f"{name}[{', '.join(str(int(i)) for i in np.unravel_index(index, sizes, order='F'))}]"

        return verify_chosen(reference, indices, got, place)

    def flops(self, problem: ContractionProblem) -> int:
        """Count one multiply and one add per point of the index space; four times as many if complex."""
        return operations(problem.dtype) * math.prod(problem.shape.size.values())

    def bytes_moved(self, problem: ContractionProblem) -> int:
        """Count every used element of A and B read once, C written once, and read once where β ≠ 0."""
        shape = problem.shape
        used = sum(distinct(shape.layout(tensor)) for tensor in "AB")
        passes_over_c = 2 if problem.factors[1] != 0 else 1
        return (used + passes_over_c * shape.layout("C").elements) * ELEMENT_BYTES[problem.dtype]

    def fma_dtype(self, problem: ContractionProblem) -> np.dtype[Any]:
        """Return the arithmetic type."""
        return np.dtype(arithmetic_of(problem.dtype))


def layouts(problem: ContractionProblem) -> dict[str, Layout]:
    """Return the memory layouts of A, B and C."""
    shape = problem.shape
    return {tensor: shape.layout(tensor) for tensor in "ABC"}


def _tolerance(problem: ContractionProblem) -> float:
    """Return the tolerance of sums of independent products, or r u where every product is added r times.

    1 for 16-bit elements, whose scale is a bound already.
    """
    if problem.half:
        return 1.0
    unit = float(np.finfo(problem.dtype).eps) / 2
    return max(tolerance_of_sums(problem.dtype), _repeats(problem) * unit)


def _repeats(problem: ContractionProblem) -> int:
    """Return how many times every product is accumulated.

    Along a summation index on which both operands have stride 0, all products are equal: rounding errors then add up
    instead of cancelling, to at most r u (N. J. Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2).
    """
    shape = problem.shape
    still = [
        {i for i, stride in zip(shape.einsum.of(tensor), shape.layout(tensor).strides, strict=True) if stride == 0}
        for tensor in (shape.einsum.first, shape.einsum.second)
    ]
    return shape.count(tuple(i for i in shape.einsum.depth if all(i in own for own in still)))


def _indices(values: Mapping[str, Any]) -> Einsum:
    """Parse the indices from either notation.

    Args:
        values: Fields of a problem, of any type.

    Raises:
        UserError: Both notations are given, or neither, or the indices do not describe a contraction.
    """
    assigned = [name for name in _SPELT[1:] if name in values]
    if "einsum" in values:
        if assigned:
            raise UserError(
                "the indices are given twice",
                code="duplicate",
                key=f"problem.{assigned[0]}",
                accepted="either einsum, or IndexAssignmentsA, IndexAssignmentsB and NumIndicesC",
            )
        parsed = einsum.parse(str(values["einsum"]))
        if "(" in str(parsed):
            raise UserError(
                "a problem cannot name folded indices",
                code="unsupported",
                key="problem.einsum",
                found=values["einsum"],
                accepted="one letter for each index; lab folds neighbouring indices itself",
            )
        return parsed
    for name in _SPELT[1:]:
        if name not in values:
            accepted = 'einsum: "ilk,jlk->ijk", or IndexAssignmentsA: "0,3,2", IndexAssignmentsB and NumIndicesC'
            raise UserError("a key is missing", code="missing-key", key=f"problem.{name}", accepted=accepted)
    count = values["NumIndicesC"]
    if type(count) is not int or not 0 <= count <= MOST_DIMENSIONS:
        accepted = f"an integer from 0 to {MOST_DIMENSIONS}"
        raise UserError("wrong value", code="wrong-value", key="problem.NumIndicesC", found=count, accepted=accepted)
    a, b = (
        _numbers(name, values[name], 'index numbers, [0, 3, 2] or "0,3,2"; a list of these is swept')
        for name in _ASSIGNMENTS
    )
    return einsum.from_assignments(a, b, count)


def _numbers(name: str, text: object, accepted: str) -> tuple[int, ...]:
    """Parse comma-separated non-negative integers.

    Raises:
        UserError: The text holds anything else.
    """
    if not isinstance(text, str) or not re.fullmatch(r"\s*(\d{1,10}(\s*,\s*\d{1,10})*)?\s*", text, re.ASCII):
        raise UserError(
            "not a list of numbers, separated by commas",
            code="wrong-type",
            key=f"problem.{name}",
            found=text,
            accepted=accepted,
        )
    return tuple(int(number) for number in text.split(",") if number.strip())
