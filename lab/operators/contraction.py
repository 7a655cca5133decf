"""Tensor contractions of two operands, ``C ← α Σ A B + β C``.

A problem names the indices of the three tensors, shortest stride first, in one of two ways,

::

    {einsum: "ilk,jlk->ijk", i: 512, j: 512, k: 8, l: 512}
    {IndexAssignmentsA: "0,3,2", IndexAssignmentsB: "1,3,2", NumIndicesC: 3, i: 512, j: 512, k: 8, l: 512}

and the size of every index under its letter; Tensile's number 0 is `i`, 1 is `j` and so on. Assignments are text, for a
list in a problem is swept. Both are the batched product of a matrix with a transposed one (the
words are in `lab.operators.einsum`).

Tensors have no gaps unless `strides_A` or `strides_B` gives an operand's strides in elements, in the order of its
indices: ``"1,66,1,66"``. Such an operand may overlap itself, as the windows of a convolution do, and may repeat itself
with stride 0. Its indices are best listed by stride all the same: templates copy along the first one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.measured.timing import Merit
from lab.operators import einsum
from lab.operators.base import Array, Expected, Inputs
from lab.operators.einsum import Einsum
from lab.operators.fields import (
    MOST_ELEMENTS,
    check_choice,
    check_given,
    check_integer,
    check_known,
    check_number,
    tolerance_of_sums,
    worst_element,
)

DTYPES = ("float32", "float64")
_ASSIGNMENTS = ("IndexAssignmentsA", "IndexAssignmentsB")
_STRIDES = ("strides_A", "strides_B")
_WIDEST = 16
"""Elements; what `alignment` says beyond that is of use to no kernel."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """The operator `contraction`."""

    name: str = "contraction"
    merit: Merit = Merit.TFLOPS

    def problem(self, values: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
        """Check and complete.

        Derived are what templates ask for: `folded`, the einsum with neighbouring indices merged, and of its indices
        the sizes `d0`, `d1` and `dU` (1 where there is no such index); `rows`, `columns`, `depth` and `batches`, the
        numbers of values that the free indices on d0's side, those on d1's side, the summation indices and the batch
        indices take together; and `alignment`, see `_alignment`.

        Raises:
            UserError: an unknown field, a wrong type, a value out of range, indices of no contraction.
        """
        defaults: dict[str, Scalar] = {"dtype": "float32", "alpha": 1.0, "beta": 0.0}
        spelt = {"einsum": values.get("einsum"), **{key: values.get(key) for key in (*_ASSIGNMENTS, "NumIndicesC")}}
        parsed = _indices(values)
        letters = parsed.indices
        check_known(self.name, values, [*spelt, *letters, *defaults, *_STRIDES])
        full = {**defaults, "einsum": str(parsed), **values}
        for letter in letters:
            check_given(self.name, values, letter)
            check_integer(letter, full[letter], least=1)
        check_choice("dtype", full["dtype"], DTYPES)
        for key in ("alpha", "beta"):
            full[key] = check_number(key, full[key])
        shape = _Shape.of(full)
        _check_sizes(shape)
        return {**full, **_derived(shape)}

    def inputs(self, problem: Mapping[str, Scalar], seed: int) -> Inputs:
        """Standard normal A and B, and C where β ≠ 0; NaN in every element that must not matter.

        Scalars are α, β, the number of C's `elements`, and what `Einsum.arguments` of `folded` names.
        """
        shape = _Shape.of(problem)
        dtype, rng = np.dtype(str(problem["dtype"])), np.random.default_rng(seed)
        read = {"A": problem["alpha"] != 0, "B": problem["alpha"] != 0, "C": problem["beta"] != 0}
        arrays: dict[str, Array] = {}
        for tensor in "ABC":
            layout = shape.layout(tensor)
            array = np.full(layout.elements, np.nan, dtype)
            if read[tensor]:
                used = slice(None) if layout.is_compact else layout.used()
                # drawn as float32 in any case: float64 is judged on the same values
                array[used] = rng.standard_normal(layout.elements, dtype=np.float32)[used]
            arrays[tensor] = array
        factors = {"alpha": problem["alpha"], "beta": problem["beta"]}
        scalars = {**factors, "elements": shape.layout("C").elements, **_arguments(shape)}
        return Inputs(scalars=scalars, arrays=arrays, outputs=("C",))

    def reference(self, problem: Mapping[str, Scalar], inputs: Inputs) -> Mapping[str, Expected]:
        """C as ``numpy.einsum`` defines it, in float64 and in C's logical shape, with the scale of `verify`.

        Computed as a batch of matrix products, which NumPy leaves to BLAS; its einsum does not where there is a batch.
        """
        shape = _Shape.of(problem)
        alpha, beta, indices = float(problem["alpha"]), float(problem["beta"]), shape.einsum
        values = np.zeros(shape.layout("C").sizes, np.float64, order="F")
        scale = np.full(values.shape, np.finfo(np.float64).tiny, order="F")
        if alpha != 0:
            # the longest stride first, as NumPy's own order has it
            held = {tensor: indices.of(tensor)[::-1] for tensor in "ABC"}
            batch, rows, columns, depth = (
                tuple(i for i in held[tensor] if i in group)
                for tensor, group in (
                    (indices.first, indices.batch),
                    (indices.first, indices.rows),
                    (indices.second, indices.columns),
                    (indices.first, indices.depth),
                )
            )
            first = shape.matrices(indices.first, inputs, (batch, rows, depth))
            second = shape.matrices(indices.second, inputs, (batch, depth, columns))
            order = (*batch, *rows, *columns)
            back = [order.index(i) for i in indices.C]
            logical = [shape.size[i] for i in order]
            values += alpha * (first @ second).reshape(logical).transpose(back)
            lengths = [np.sqrt(np.einsum(s, m, m)) for s, m in (("brk,brk->br", first), ("bkc,bkc->bc", second))]
            norms = lengths[0][:, :, None] * lengths[1][:, None, :]
            scale += abs(alpha) * norms.reshape(logical).transpose(back)
        if beta != 0:
            scaled = beta * inputs.arrays["C"].astype(np.float64).reshape(values.shape, order="F")
            values += scaled
            scale += np.abs(scaled)
        return {"C": Expected(values, scale)}

    def verify(
        self, problem: Mapping[str, Scalar], reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare element by element.

        An element of C is a sum of products as in a matrix product, of a vector of A and one of B; its error is
        relative to |α| times the product of their norms, plus |β C|. `lab.operators.gemm` says why, and why the
        tolerance is what it is; `_tolerance`, where it is more.
        """
        expected, tolerance = reference["C"], _tolerance(problem)
        got = outputs["C"].reshape(expected.values.shape, order="F")
        error = np.abs(got.astype(np.float64) - expected.values) / expected.scale
        largest = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        if error[largest] <= tolerance:
            return float(error[largest]), tolerance, ""
        at = f"C[{', '.join(map(str, map(int, largest)))}]"
        wrong = int(np.count_nonzero(~(error <= tolerance)))
        worst = worst_element(at, got[largest], expected.values[largest], wrong, got.size)
        return float(error[largest]), tolerance, worst

    def elementwise(
        self, problem: Mapping[str, Scalar], reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float]:
        """C in memory's order: its first index varies fastest."""
        expected = reference["C"]
        flat = Expected(expected.values.reshape(-1, order="F"), expected.scale.reshape(-1, order="F"))
        return {"C": flat}, _tolerance(problem)

    def flops(self, problem: Mapping[str, Scalar]) -> int:
        """One multiplication and one addition for every value of all indices together."""
        return 2 * math.prod(_Shape.of(problem).size.values())

    def bytes_moved(self, problem: Mapping[str, Scalar]) -> int:
        """Every element of A and B that is used read once, C written once, and read once where β ≠ 0."""
        shape = _Shape.of(problem)
        used = sum(_distinct(shape.layout(tensor)) for tensor in "AB")
        passes_over_c = 2 if problem["beta"] != 0 else 1
        return (used + passes_over_c * shape.layout("C").elements) * np.dtype(str(problem["dtype"])).itemsize

    def fma_dtype(self, problem: Mapping[str, Scalar]) -> np.dtype[Any]:
        """The element type: arithmetic is done in it."""
        return np.dtype(str(problem["dtype"]))


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in its buffer: sizes and strides in elements, in the order of its indices.

    Attributes:
        sizes: At least 1 each.
        strides: At least 0 each.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Elements from the first to the last one."""
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))

    @property
    def is_compact(self) -> bool:
        """Whether each stride is the product of the sizes before it."""
        return self.strides == einsum.compact(self.sizes)

    def used(self) -> Array:
        """Which elements any index reaches, from the first to the last one."""
        reached = np.zeros(self.elements, np.bool_)
        as_strided(reached, self.sizes, self.strides)[...] = True  # a bool is one byte
        return reached

    def view(self, buffer: Array) -> Array:
        """The tensor in its buffer."""
        return as_strided(buffer, self.sizes, [stride * buffer.itemsize for stride in self.strides])


def layouts(problem: Mapping[str, Scalar]) -> dict[str, Layout]:
    """How A, B and C of a complete problem lie in their buffers."""
    shape = _Shape.of(problem)
    return {tensor: shape.layout(tensor) for tensor in "ABC"}


@dataclass(frozen=True)
class _Shape:
    """A contraction with numbers.

    Attributes:
        einsum: Its indices.
        size: Size of every index.
        given: Strides of the operands that have their own.
    """

    einsum: Einsum
    size: Mapping[str, int]
    given: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, problem: Mapping[str, Scalar]) -> _Shape:
        """The shape of a problem whose sizes were checked."""
        parsed = einsum.parse(str(problem["einsum"]))
        given = {
            key[-1]: _numbers(key, problem[key], "one for each index of the operand, in its order")
            for key in _STRIDES
            if key in problem
        }
        return cls(parsed, {letter: int(problem[letter]) for letter in parsed.indices}, given)

    def folded(self) -> _Shape:
        """The same with neighbouring indices merged, those of operands with strides of their own excepted."""
        merged = self.einsum.folded(apart=self.given.keys())
        return _Shape(merged, einsum.sizes(merged, self.size), self.given)

    def layout(self, tensor: str) -> Layout:
        sizes = tuple(self.size[i] for i in self.einsum.of(tensor))
        return Layout(sizes, self.given[tensor] if tensor in self.given else einsum.compact(sizes))

    def count(self, indices: tuple[str, ...]) -> int:
        """Values that several indices take together."""
        return math.prod(self.size[i] for i in indices)

    def matrices(self, operand: str, inputs: Inputs, groups: tuple[tuple[str, ...], ...]) -> Array:
        """An operand in float64, its indices in three groups, each group one dimension."""
        view = self.layout(operand).view(inputs.arrays[operand].astype(np.float64))
        held = self.einsum.of(operand)
        ordered = view.transpose([held.index(i) for group in groups for i in group])
        result: Array = ordered.reshape([self.count(group) for group in groups])
        return result


def _tolerance(problem: Mapping[str, Scalar]) -> float:
    """That of sums of independent products, or r u where every product is added r times.

    Along a summation index on which both operands have a stride of 0 all products are equal: roundings then add up
    instead of cancelling, to at most r u (N. J. Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2).
    """
    shape, dtype = _Shape.of(problem), str(problem["dtype"])
    still = [
        {i for i, stride in zip(shape.einsum.of(tensor), shape.layout(tensor).strides, strict=True) if stride == 0}
        for tensor in (shape.einsum.first, shape.einsum.second)
    ]
    repeats = shape.count(tuple(i for i in shape.einsum.depth if all(i in own for own in still)))
    return max(tolerance_of_sums(dtype), repeats * float(np.finfo(dtype).eps) / 2)


def _indices(values: Mapping[str, Scalar]) -> Einsum:
    """The indices in either spelling.

    Raises:
        UserError: both, neither, or wrong ones.
    """
    assigned = [key for key in (*_ASSIGNMENTS, "NumIndicesC") if key in values]
    if "einsum" in values:
        if assigned:
            raise UserError(
                "the indices are given twice",
                key=f"problem.{assigned[0]}",
                accepted="either einsum, or IndexAssignmentsA, IndexAssignmentsB and NumIndicesC",
            )
        parsed = einsum.parse(str(values["einsum"]))
        if "(" in str(parsed):
            raise UserError(
                "folded indices in a problem",
                key="problem.einsum",
                found=values["einsum"],
                accepted="one letter an index; neighbours are folded where that can be",
            )
        return parsed
    for key in (*_ASSIGNMENTS, "NumIndicesC"):
        if key not in values:
            accepted = 'einsum: "ilk,jlk->ijk", or IndexAssignmentsA: "0,3,2", IndexAssignmentsB and NumIndicesC'
            raise UserError("contraction needs this problem field", key=f"problem.{key}", accepted=accepted)
    check_integer("NumIndicesC", values["NumIndicesC"], least=0)
    if int(values["NumIndicesC"]) > einsum.MOST_DIMENSIONS:
        accepted = f"0 to {einsum.MOST_DIMENSIONS}"
        raise UserError(
            "too many dimensions", key="problem.NumIndicesC", found=values["NumIndicesC"], accepted=accepted
        )
    a, b = (_numbers(key, values[key], 'index numbers as text, "0,3,2"; a list is swept') for key in _ASSIGNMENTS)
    return einsum.from_assignments(a, b, int(values["NumIndicesC"]))


def _numbers(key: str, value: Scalar, accepted: str) -> tuple[int, ...]:
    """Numbers of at least 0 from text.

    Raises:
        UserError: it holds anything else; the message ends in `accepted`.
    """
    if not isinstance(value, str) or not re.fullmatch(r"\s*(\d{1,10}(\s*,\s*\d{1,10})*)?\s*", value, re.ASCII):
        raise UserError("not numbers with commas between", key=f"problem.{key}", found=value, accepted=accepted)
    return tuple(int(number) for number in value.split(",") if number.strip())


def _check_sizes(shape: _Shape) -> None:
    """Refuse what 32-bit numbers of elements do not hold, and strides that do not fit the operand.

    Raises:
        UserError: it names the tensor.
    """
    for tensor, strides in shape.given.items():
        wanted = len(shape.einsum.of(tensor))
        if len(strides) != wanted:
            raise UserError(
                f"{tensor} has {wanted} indices",
                key=f"problem.strides_{tensor}",
                found=",".join(map(str, strides)),
                accepted=f"{wanted} strides",
            )
    numbers = {f"{tensor} has": shape.layout(tensor).elements for tensor in "ABC"}
    numbers["the summation takes"] = shape.count(shape.einsum.depth)
    for what, count in numbers.items():
        if count > MOST_ELEMENTS:
            accepted = f"at most {MOST_ELEMENTS}: kernels index with 32-bit integers"
            raise UserError(f"{what} {count} elements", key="problem", accepted=accepted)


def _derived(shape: _Shape) -> dict[str, Scalar]:
    """What `Contraction.problem` says."""
    merged = shape.folded()
    indices = merged.einsum
    groups = {"rows": indices.rows, "columns": indices.columns, "depth": indices.depth, "batches": indices.batch}
    special = {"d0": indices.rows, "d1": indices.columns, "dU": indices.depth}
    return {
        "folded": str(indices),
        **{name: merged.count(group[:1]) for name, group in special.items()},
        **{name: merged.count(group) for name, group in groups.items()},
        "alignment": _alignment(merged),
    }


def _alignment(merged: _Shape) -> int:
    """The most elements, a power of two up to `_WIDEST`, by which all tensors can be moved along the tile.

    It divides, for each tensor whose first index is d0, d1 or dU, that index's size and the strides of the others.
    Other tensors are moved element by element and do not matter.
    """
    common = _WIDEST
    for tensor in "ABC":
        if merged.einsum.vectors(tensor):
            layout = merged.layout(tensor)
            matter = [s for n, s in zip(layout.sizes[1:], layout.strides[1:], strict=True) if n > 1]
            common = math.gcd(common, layout.sizes[0], *matter) if layout.strides[0] == 1 else 1
    return common


def _arguments(shape: _Shape) -> dict[str, Scalar]:
    """Sizes and strides of the folded indices by the names that kernels know them by."""
    merged = shape.folded()
    found: dict[str, Scalar] = {f"size_{index}": size for index, size in merged.size.items()}
    for tensor in "ABC":
        for index, stride in zip(merged.einsum.of(tensor), merged.layout(tensor).strides, strict=True):
            found[merged.einsum.stride(tensor, index)] = stride
    return found


@lru_cache(maxsize=256)
def _distinct(layout: Layout) -> int:
    """How many elements of a tensor are used; a sweep asks for each variant."""
    return layout.elements if layout.is_compact else int(np.count_nonzero(layout.used()))
