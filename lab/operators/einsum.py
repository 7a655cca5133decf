"""Tensor contractions of two operands as an einsum: ``ilk,jlk->ijk`` is C[i,j,k] = Σ_l A[i,l,k] B[j,l,k].

Indices are written in the order in which memory holds them: *the first index of a tensor has the shortest stride*, as
in BLAS and Tensile. (NumPy and PyTorch number dimensions the other way round unless an array has `order="F"`.)

An index is a *batch* index if all three tensors hold it, a *free* index of A or of B if C and that operand hold it,
and a *summation* index if A and B hold it. Summation indices are in alphabetical order, which is Tensile's order of
their numbers when numbers become letters from `i` on. Three of the indices are special (D. E. Tanner, Tensile:
Auto-Tuning GEMM GPU Assembly for All Problem Sizes, 2018): *d0* and *d1*, the free index of either operand with the
shortest stride in C, d0 being the one with the shorter; and *dU*, the last summation index.

A kernel treats indices that are neighbours in every tensor that holds them as one index: `Einsum.folded` writes them
as ``(on)``.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lab.base.errors import UserError

MOST_DIMENSIONS = 8
"""The maximum number of dimensions of a tensor."""

_TEXT = re.compile(r"^([a-z()]*),([a-z()]*)->([a-z()]*)$")
_TENSOR = re.compile(r"^(?:[a-z]|\([a-z]{2,}\))*$")
_ACCEPTED = "the indices of A, B and C, one small letter each, shortest stride first: ilk,jlk->ijk"


@dataclass(frozen=True, slots=True)
class Einsum:
    """The indices of a contraction's tensors, shortest stride first.

    An index is a letter, or several letters folded into one index, fastest first.

    Attributes:
        A: Indices of the first operand.
        B: Indices of the second operand.
        C: Indices of the result.
    """

    A: tuple[str, ...]
    B: tuple[str, ...]
    C: tuple[str, ...]

    def __str__(self) -> str:
        a, b, c = ("".join(i if len(i) == 1 else f"({i})" for i in self.of(tensor)) for tensor in "ABC")
        return f"{a},{b}->{c}"

    def of(self, tensor: str) -> tuple[str, ...]:
        """Return the indices of ``A``, ``B`` or ``C``."""
        return {"A": self.A, "B": self.B, "C": self.C}[tensor]

    @property
    def indices(self) -> tuple[str, ...]:
        """Every index once: those of C in its order, then those of the summation."""
        return (*self.C, *reversed(self.depth))

    @property
    def batch(self) -> tuple[str, ...]:
        """Indices shared by A, B and C, in C's order."""
        return tuple(i for i in self.C if i in self.A and i in self.B)

    @property
    def first(self) -> str:
        """The operand that holds d0: ``A`` or ``B``."""
        free = next((i for i in self.C if i not in self.batch), None)
        return "A" if free is None or free in self.A else "B"

    @property
    def second(self) -> str:
        """The other operand, which holds d1."""
        return "B" if self.first == "A" else "A"

    @property
    def rows(self) -> tuple[str, ...]:
        """Free indices of the first operand in C's order; d0 leads, where there is one."""
        return self._free(self.first)

    @property
    def columns(self) -> tuple[str, ...]:
        """Free indices of the second operand in C's order; d1 leads, where there is one."""
        return self._free(self.second)

    @property
    def depth(self) -> tuple[str, ...]:
        """Summation indices, the last one first: dU leads, where there is one."""
        return tuple(sorted((i for i in self.A if i in self.B and i not in self.C), key=max, reverse=True))

    def along_depth(self, operand: str) -> bool:
        """Return whether an operand's stride along dU is shorter than along d0 (first) or d1 (second operand)."""
        free = self._free(operand)
        if not free or not self.depth:
            return bool(self.depth)
        indices = self.of(operand)
        return indices.index(self.depth[0]) < indices.index(free[0])

    def vectors(self, tensor: str) -> bool:
        """Return whether elements adjacent in memory are adjacent along d0, d1 or dU of the tile; for C, d0 only."""
        indices = self.of(tensor)
        led = (self.rows,) if tensor == "C" else (self._free(tensor), self.depth)
        return bool(indices) and any(group and indices[0] == group[0] for group in led)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the kernel arguments: the size and the strides of every index."""
        strides = (self.stride(tensor, i) for tensor in "ABC" for i in self.of(tensor))
        return (*(f"size_{i}" for i in self.indices), *strides)

    @staticmethod
    def stride(tensor: str, index: str) -> str:
        """Return the name of an index's stride in a tensor."""
        return f"stride_{tensor}_{index}"

    def place(self, number: str, indices: Sequence[str], tensor: str) -> str:
        """Return the offset in a tensor of the element with a given linear number over several indices.

        Args:
            number: A CUDA variable of type int, at least 0.
            indices: The indices it counts, fastest first; those the tensor lacks are ignored.
            tensor: ``A``, ``B`` or ``C``.

        Returns:
            A CUDA expression of the arguments' names, an offset in elements.
        """
        terms = [
            f"{self.digit(number, indices, index)} * {self.stride(tensor, index)}"
            for index in indices
            if index in self.of(tensor)
        ]
        return " + ".join(terms) or "0"

    @staticmethod
    def digit(number: str | int, indices: Sequence[str], index: str) -> str:
        """Extract one index from a linear number over several indices, the first one fastest.

        Args:
            number: As `place` takes it; or a constant.
            indices: The indices.
            index: One of them; the last one takes the whole remaining quotient.

        Returns:
            A CUDA expression; a product with it needs no parentheses around it.
        """
        place = list(indices).index(index)
        quotient = " / ".join((str(number), *(f"size_{inner}" for inner in indices[:place])))
        return quotient if place == len(indices) - 1 else f"{quotient} % size_{index}"

    def folded(self, apart: Collection[str] = ()) -> Einsum:
        """Merge indices that are adjacent in every tensor that holds them.

        Args:
            apart: Tensors whose strides are not the products of the preceding sizes: their indices are not merged.
        """
        orders = {tensor: list(self.of(tensor)) for tensor in "ABC"}
        while pair := _neighbours(orders, apart):
            for indices in orders.values():
                if pair[0] in indices:
                    place = indices.index(pair[0])
                    indices[place : place + 2] = ["".join(pair)]
        return Einsum(*(tuple(orders[tensor]) for tensor in "ABC"))

    def _free(self, operand: str) -> tuple[str, ...]:
        other_indices = self.B if operand == "A" else self.A
        return tuple(i for i in self.C if i not in other_indices)


def sizes(einsum: Einsum, of_letter: Mapping[str, int]) -> dict[str, int]:
    """Return the size of every index of an einsum, given the sizes of the letters."""
    index_sizes = {}
    for index in einsum.indices:
        index_sizes[index] = 1
        for letter in index:
            index_sizes[index] *= of_letter[letter]
    return index_sizes


def compact(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a tensor without gaps: each is the product of the sizes before it."""
    return tuple(itertools.accumulate(sizes, operator.mul, initial=1))[: len(sizes)]


def parse(text: str, *, key: str = "problem.einsum") -> Einsum:
    """Parse an einsum; spaces are ignored, and ``(on)`` is an index folded from two.

    Raises:
        UserError: The text is not an einsum of two operands, or it has a trace or a one-sided sum.
    """
    match = _TEXT.match("".join(text.split()))
    if match is None or not all(_TENSOR.match(group) for group in match.groups()):
        raise UserError("not an einsum of two operands", code="syntax", key=key, found=text, accepted=_ACCEPTED)
    a, b, c = (
        tuple(letters.strip("()") for letters in re.findall(r"[a-z]|\([a-z]+\)", group)) for group in match.groups()
    )
    parsed = Einsum(a, b, c)
    _check(parsed, text, key)
    return parsed


def from_assignments(a: Sequence[int], b: Sequence[int], indices_c: int) -> Einsum:
    """Return the einsum that Tensile's index assignments describe: number 0 becomes `i`, 1 `j` and so on.

    Args:
        a: The number of each index of A, shortest stride first: below `indices_c` an index of C, else a summation
            index.
        b: The same for B.
        indices_c: How many indices C has: `NumIndicesC`.

    Raises:
        UserError: The numbers do not describe a contraction; `key` names the field.
    """
    for key, numbers in (("IndexAssignmentsA", a), ("IndexAssignmentsB", b)):
        if len(numbers) > MOST_DIMENSIONS:
            raise UserError(
                f"a tensor has {len(numbers)} dimensions",
                code="mismatch",
                key=f"problem.{key}",
                accepted=f"at most {MOST_DIMENSIONS}",
            )
    present = {*a, *b}
    missing = sorted({*range(max(present, default=-1) + 1), *range(indices_c)} - present)
    if missing:
        kind = "index of C" if missing[0] < indices_c else "summation index"
        raise UserError(
            f"{kind} {missing[0]} is in neither operand",
            code="mismatch",
            key="problem.NumIndicesC" if missing[0] < indices_c else "problem.IndexAssignmentsA",
            found=indices_c if missing[0] < indices_c else ",".join(map(str, a)),
            accepted="indices 0 to NumIndicesC - 1 for C, followed without gaps by the summation indices",
        )
    letters = [chr(ord("i") + number) for number in range(max(len(present), indices_c))]
    words = ["".join(letters[number] for number in numbers) for numbers in (a, b, range(indices_c))]
    return parse(f"{words[0]},{words[1]}->{words[2]}", key="problem.IndexAssignmentsA")


def _neighbours(orders: Mapping[str, list[str]], apart: Collection[str]) -> tuple[str, str] | None:
    """Find two indices that can be merged, the faster one first."""
    for tensor, indices in orders.items():
        for pair in itertools.pairwise(indices):
            of_pair = [name for name, order in orders.items() if pair[0] in order or pair[1] in order]
            if tensor not in apart and all(
                name not in apart and pair in itertools.pairwise(orders[name]) for name in of_pair
            ):
                return pair
    return None


def _check(einsum: Einsum, text: str, key: str) -> None:
    """Reject an einsum that is not a contraction of two operands."""

    def refuse(message: str, accepted: str) -> UserError:
        return UserError(message, code="syntax", key=key, found=text, accepted=accepted)

    for tensor in "ABC":
        letters = "".join(einsum.of(tensor))
        if len(letters) > MOST_DIMENSIONS:
            raise refuse(f"{tensor} has {len(letters)} dimensions", f"at most {MOST_DIMENSIONS}")
        repeated = next((letter for letter in letters if letters.count(letter) > 1), None)
        if repeated:
            raise refuse(
                f"{tensor} has the index {repeated} twice",
                "each index at most once in a tensor: traces are not supported",
            )
    for index in einsum.C:
        if index not in einsum.A and index not in einsum.B:
            raise refuse(f"C has the index {index}, which neither operand has", "indices of A or B")
    for tensor, other_indices in (("A", einsum.B), ("B", einsum.A)):
        for index in einsum.of(tensor):
            if index not in einsum.C and index not in other_indices:
                raise refuse(
                    f"only {tensor} has the index {index}",
                    "indices that are also in C, or in both operands to be summed over",
                )
