"""Infers what arrays of indices must hold: row pointers that ascend, and indices within the array that they index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.isa.cuda.body.limits import Limits
from lab.isa.cuda.body.polynomials import ONE, Polynomial, number, product
from lab.isa.cuda.body.symbolic_values import IndexBound, KernelBody, Touch
from lab.templates.plain.inference.arrays import infer_array
from lab.templates.plain.inference.texts import Texts

_OF_A_ROW = 4
"""Elements between two row pointers."""
_MOST_INDEX = 256
"""Length of an indexed array that the host does not say."""


@dataclass(frozen=True, slots=True)
class IndexContents:
    """The contents of an array of indices.

    Attributes:
        elements: Of an array of row pointers, its own elements; of another, the elements of the array that it indexes.
        are_pointers: The numbers ascend in equal steps from 0.
    """

    elements: Polynomial
    are_pointers: bool

    def text(self, texts: Texts) -> str:
        """Return the contents as an argument of an experiment file has them."""
        elements = texts.text(self.elements)
        return f"= {_OF_A_ROW} * arange({elements})" if self.are_pointers else f"uniform 0 {elements.replace(' ', '')}"


def infer_contents(
    body: KernelBody, limits: Limits, assumed: Sequence[IndexBound], lengths: Mapping[str, Polynomial | None]
) -> tuple[dict[str, IndexContents], set[str]]:
    """Return what arrays of indices must hold, and the arrays whose lengths follow from that.

    From then on, `limits` knows the contents.

    Args:
        body: The kernel's body.
        limits: What knows its atoms.
        assumed: As for `infer_array`.
        lengths: Elements that the host allocates for each array; None where they are unknown.
    """
    written = {access.array for access in body.accesses if access.touch is not Touch.LOAD}
    contents = dict[str, IndexContents]()
    for name in sorted(_pointers(body, limits) - written):
        use = infer_array(name, body, limits, assumed)
        if use.shape and not use.is_data_indexed:
            contents[name] = IndexContents(product(use.shape), are_pointers=True)
            limits.hold_contents(name, number(_OF_A_ROW) * (product(use.shape) - ONE))
    followed = {access.array for access in body.accesses if _arrays(access.index, limits) & contents.keys()}
    for name, elements in _indexed(body, limits, assumed, lengths).items():
        if name not in written and name not in contents and elements is not None:
            contents[name] = IndexContents(elements, are_pointers=False)
            limits.hold_contents(name, elements - ONE)
    return contents, followed


def _arrays(value: Polynomial, limits: Limits) -> set[str]:
    """Return the arrays whose elements are atoms of a polynomial."""
    meanings = map(limits.meaning, value.atoms)
    return {meaning.array for meaning in meanings if meaning is not None and meaning.array}


def _pointers(body: KernelBody, limits: Limits) -> set[str]:
    """Return the arrays of which one element is a loop's start and another its end."""
    names = set[str]()
    for bound in (bound for access in body.accesses for bound in access.bounds if bound.excess is not None):
        signs: dict[str, set[bool]] = {}
        for monomial, factor in bound.excess.terms.items() if bound.excess is not None else ():
            meaning = limits.meaning(monomial[0]) if len(monomial) == 1 else None
            if meaning is not None and meaning.array:
                signs.setdefault(meaning.array, set()).add(factor > 0)
        names |= {name for name, of in signs.items() if len(of) > 1}
    return names


def _indexed(
    body: KernelBody, limits: Limits, assumed: Sequence[IndexBound], lengths: Mapping[str, Polynomial | None]
) -> dict[str, Polynomial | None]:
    """Return the arrays whose elements are indices that nothing bounds, with the elements that they select from.

    The elements are None where two arrays of different lengths are indexed, and where the kernel stores there and
    nobody says how many there are: equal indices may race.
    """
    elements: dict[str, Polynomial | None] = {}
    for access in body.accesses:
        if limits.largest(access.index, [*access.bounds, *assumed]) is not None:
            continue
        for name in sorted(access.index.atoms):
            meaning = limits.meaning(name)
            if meaning is None or not meaning.array:
                continue
            stride, length = access.index.coefficient((name,)), lengths.get(access.array)
            free = number(_MOST_INDEX) if access.touch in (Touch.LOAD, Touch.ATOMIC) else None
            own = (length.quotient(stride) if length is not None else free) if stride.terms else None
            elements[meaning.array] = own if elements.get(meaning.array, own) == own else None
    return elements
