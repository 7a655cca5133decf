"""Polynomials with integer coefficients over named atoms, in which indices and bounds of a kernel are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

Monomial = tuple[str, ...]
"""Atoms in order, one for each power; the constant term has none."""


@dataclass(frozen=True)
class Polynomial:
    """A sum of monomials.

    Attributes:
        terms: Coefficients other than 0.
    """

    terms: Mapping[Monomial, int] = field(default_factory=dict)

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return Polynomial({monomial: factor for monomial, factor in terms.items() if factor})

    def __neg__(self) -> Polynomial:
        return Polynomial({monomial: -factor for monomial, factor in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                monomial = tuple(sorted((*left, *right)))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return Polynomial({monomial: factor for monomial, factor in terms.items() if factor})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(frozenset(self.terms.items()))

    @cached_property
    def atoms(self) -> frozenset[str]:
        """All atoms."""
        return frozenset(atom for monomial in self.terms for atom in monomial)

    @property
    def constant(self) -> int:
        """The constant term."""
        return self.terms.get((), 0)

    @property
    def number(self) -> int | None:
        """The value of a polynomial without atoms; None for others."""
        return self.constant if not self.atoms else None

    @property
    def degree(self) -> int:
        """The largest number of atoms in a monomial."""
        return max(map(len, self.terms), default=0)

    def select(self, keep: Callable[[Monomial], bool]) -> Polynomial:
        """Return the sum of the terms whose monomials satisfy a condition."""
        return Polynomial({monomial: factor for monomial, factor in self.terms.items() if keep(monomial)})

    def quotient(self, divisor: Polynomial) -> Polynomial | None:
        """Return the quotient of an exact division, or None."""
        if not divisor.terms:
            return None
        rest, result = self, Polynomial()
        lead = max(divisor.terms, key=_order)
        while rest.terms:
            top = max(rest.terms, key=_order)
            monomial, factor = without(top, lead), divisor.terms[lead]
            if monomial is None or rest.terms[top] % factor:
                return None
            step = Polynomial({monomial: rest.terms[top] // factor})
            result += step
            rest -= step * divisor
        return result

    def coefficient(self, monomial: Monomial) -> Polynomial:
        """Return the factor of a monomial: the sum of all terms that it divides, each divided by it."""
        parts = ((without(term, monomial), factor) for term, factor in self.terms.items())
        return Polynomial({rest: factor for rest, factor in parts if rest is not None})

    def substitute(self, values: Mapping[str, Polynomial]) -> Polynomial:
        """Return the polynomial with atoms replaced by polynomials."""
        if not self.atoms & values.keys():
            return self
        result = Polynomial()
        for monomial, factor in self.terms.items():
            result += product((number(factor), *(values.get(item) or atom(item) for item in monomial)))
        return result

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Return the value for given atoms."""
        total = 0
        for monomial, factor in self.terms.items():
            for item in monomial:
                factor *= values[item]  # noqa: PLW2901 - the term's value grows
            total += factor
        return total


def _order(monomial: Monomial) -> tuple[int, Monomial]:
    return len(monomial), monomial


def without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """Return a monomial divided by another, or None where it is not a multiple."""
    rest = list(monomial)
    for item in factor:
        if item not in rest:
            return None
        rest.remove(item)
    return tuple(rest)


def number(value: int) -> Polynomial:
    """Return a constant."""
    return Polynomial({(): value} if value else {})


def atom(name: str) -> Polynomial:
    """Return a single atom."""
    return Polynomial({(name,): 1})


def product(factors: Iterable[Polynomial]) -> Polynomial:
    """Return the product of polynomials."""
    result = ONE
    for factor in factors:
        result *= factor
    return result


ZERO, ONE = number(0), number(1)
