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
"""The most dimensions of one tensor."""

_TEXT = re.compile(r"^([a-z()]*),([a-z()]*)->([a-z()]*)$")
_TENSOR = re.compile(r"^(?:[a-z]|\([a-z]{2,}\))*$")
_ACCEPTED = "the indices of A, B and C, one small letter each, shortest stride first: ilk,jlk->ijk"


@dataclass(frozen=True, slots=True)
class Einsum:
    """The indices of a contraction's tensors, shortest stride first.

    An index is a letter, or several letters, fastest first, that were folded into one index.

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
        """Indices of ``A``, ``B`` or ``C``."""
        return {"A": self.A, "B": self.B, "C": self.C}[tensor]

    @property
    def indices(self) -> tuple[str, ...]:
        """Every index once: those of C in its order, then those of the summation."""
        return (*self.C, *reversed(self.depth))

    @property
    def batch(self) -> tuple[str, ...]:
        """Indices that A, B and C hold, in C's order."""
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
        """Whether an operand's stride along dU is shorter than along d0 (first operand) or d1 (second operand)."""
        free = self._free(operand)
        if not free or not self.depth:
            return bool(self.depth)
        held = self.of(operand)
        return held.index(self.depth[0]) < held.index(free[0])

    def vectors(self, tensor: str) -> bool:
        """Whether neighbours in memory are neighbours along a direction of the tile: d0, d1 or dU; in C d0 alone."""
        held = self.of(tensor)
        led = (self.rows,) if tensor == "C" else (self._free(tensor), self.depth)
        return bool(held) and any(group and held[0] == group[0] for group in led)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments that a kernel needs: the size of every index, and its strides."""
        strides = (self.stride(tensor, i) for tensor in "ABC" for i in self.of(tensor))
        return (*(f"size_{i}" for i in self.indices), *strides)

    @staticmethod
    def stride(tensor: str, index: str) -> str:
        """Return the name of an index's stride in a tensor."""
        return f"stride_{tensor}_{index}"

    def place(self, number: str, indices: Sequence[str], tensor: str) -> str:
        """Return the offset in a tensor of the element with a given number, which counts several indices together.

        Args:
            number: A CUDA variable of type int, at least 0.
            indices: The indices that it counts, fastest first; those that the tensor lacks do not matter.
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
        """Return the value of one of the indices that a number counts, the first one fastest.

        Args:
            number: As `place` takes it; or a constant.
            indices: The indices.
            index: One of them; the last one takes what the others leave, however much that is.

        Returns:
            A CUDA expression; a product with it needs no parentheses around it.
        """
        place = list(indices).index(index)
        rest = " / ".join((str(number), *(f"size_{other}" for other in indices[:place])))
        return rest if place == len(indices) - 1 else f"{rest} % size_{index}"

    def folded(self, apart: Collection[str] = ()) -> Einsum:
        """Merge neighbouring indices: those that follow one another in every tensor that holds them.

        Args:
            apart: Tensors whose strides are not the products of the sizes before: their indices stay apart.
        """
        held = {tensor: list(self.of(tensor)) for tensor in "ABC"}
        while pair := _neighbours(held, apart):
            for indices in held.values():
                if pair[0] in indices:
                    place = indices.index(pair[0])
                    indices[place : place + 2] = ["".join(pair)]
        return Einsum(*(tuple(held[tensor]) for tensor in "ABC"))

    def _free(self, operand: str) -> tuple[str, ...]:
        other = self.B if operand == "A" else self.A
        return tuple(i for i in self.C if i not in other)


def sizes(einsum: Einsum, of_letter: Mapping[str, int]) -> dict[str, int]:
    """Return the size of every index of an einsum, given the sizes of the letters."""
    found = {}
    for index in einsum.indices:
        found[index] = 1
        for letter in index:
            found[index] *= of_letter[letter]
    return found


def compact(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a tensor without gaps: each is the product of the sizes before it."""
    return tuple(itertools.accumulate(sizes, operator.mul, initial=1))[: len(sizes)]


def parse(text: str, *, key: str = "problem.einsum") -> Einsum:
    """Read an einsum. Spaces do not matter; ``(on)`` is an index that was folded from two.

    Raises:
        UserError: The text is not an einsum of two operands, or it has a trace or a one-sided sum.
    """
    match = _TEXT.match("".join(text.split()))
    if match is None or not all(_TENSOR.match(part) for part in match.groups()):
        raise UserError("not an einsum of two operands", code="syntax", key=key, found=text, accepted=_ACCEPTED)
    a, b, c = (
        tuple(letters.strip("()") for letters in re.findall(r"[a-z]|\([a-z]+\)", part)) for part in match.groups()
    )
    made = Einsum(a, b, c)
    _check(made, text, key)
    return made


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


def _neighbours(held: Mapping[str, list[str]], apart: Collection[str]) -> tuple[str, str] | None:
    """Find two indices that can be merged, the faster one first."""
    for tensor, indices in held.items():
        for pair in itertools.pairwise(indices):
            of_pair = [name for name, others in held.items() if pair[0] in others or pair[1] in others]
            if tensor not in apart and all(
                name not in apart and pair in itertools.pairwise(held[name]) for name in of_pair
            ):
                return pair
    return None


def _check(einsum: Einsum, text: str, key: str) -> None:
    """Refuse an einsum that is not a contraction of two operands."""

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
    for tensor, other in (("A", einsum.B), ("B", einsum.A)):
        for index in einsum.of(tensor):
            if index not in einsum.C and index not in other:
                raise refuse(
                    f"only {tensor} has the index {index}",
                    "indices that are also in C, or in both operands to be summed over",
                )
