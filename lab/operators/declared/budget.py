"""Work limits for evaluating a reference at selected elements, about two seconds' worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from lab.base import syntax
from lab.operators.boxes import Index, Shape
from lab.operators.indexed import HELD_BYTES, PAGE, IndexedArray, WholeArray

MOST_WHOLE: Final = 1 << 22
"""Maximum elements of the arrays in a node that is evaluated whole."""

MOST_HELD: Final = 1 << 24
"""Maximum elements of one intermediate array."""

_MOST_COMPUTED: Final = 1 << 26
"""Maximum elements of all intermediate arrays together."""

_MOST_PRODUCTS: Final = 1 << 32
"""Maximum multiply-adds of GEMMs, about a second's worth."""

_MOST_SLOW_PRODUCTS: Final = 1 << 29
"""Maximum multiply-adds computed without BLAS."""

_MOST_PAGES: Final = 1 << 16
"""Maximum pages of arrays that are generated."""

_SLOW: Final = ("convolve", "correlate", "correlate2d", "einsum")


class UnrestrictedError(Exception):
    """The expression cannot be evaluated at selected elements."""


class WorkBudgetError(UnrestrictedError):
    """The expression could be evaluated at selected elements, but that takes too long."""


class EvaluationBudget:
    """The elements, pages and multiply-adds that one evaluation has used so far.

    Attributes:
        computed: Elements that were computed.
    """

    def __init__(self) -> None:
        """Start with nothing used."""
        self.computed = self._products = 0
        self._pages: dict[int, int] = {}

    def compute(self, elements: int) -> None:
        """Count elements that are computed.

        Raises:
            WorkBudgetError: They are too many.
        """
        self.computed += elements
        if self.computed > _MOST_COMPUTED:
            raise WorkBudgetError("its reference needs too many elements")

    def multiply(self, products: int) -> None:
        """Count multiply-adds of a GEMM.

        Raises:
            WorkBudgetError: They are too many.
        """
        self._products += products
        if self._products > _MOST_PRODUCTS:
            raise WorkBudgetError("its reference takes too many multiplications")

    def read(self, source: IndexedArray, flat: Index) -> None:
        """Count the pages an array's elements lie on, repeated reads included unless all pages are cached.

        Raises:
            WorkBudgetError: They are too many.
        """
        if flat.size:
            pages = flat.reshape(-1) // PAGE
            self._read(source, 1 + int(np.count_nonzero(pages[1:] != pages[:-1])))

    def read_all(self, source: IndexedArray) -> None:
        """Count all pages of an array, as `read` does.

        Raises:
            WorkBudgetError: They are too many.
        """
        self._read(source, -(-source.size // PAGE))

    def _read(self, source: IndexedArray, pages: int) -> None:
        if isinstance(source, WholeArray):
            return
        used = self._pages.get(id(source), 0) + pages
        is_kept = source.size * source.dtype.itemsize <= HELD_BYTES
        self._pages[id(source)] = min(used, -(-source.size // PAGE)) if is_kept else used
        if sum(self._pages.values()) > _MOST_PAGES:
            raise WorkBudgetError("its reference reads too many elements of the arrays")

    def whole(self, tree: syntax.Part, elements: int, shape: Callable[[syntax.Part], Shape]) -> None:
        """Count a node that is evaluated whole.

        Args:
            tree: The node.
            elements: Number of elements of the arrays in it.
            shape: Returns the shape of a node.

        Raises:
            UnrestrictedError: It takes too long.
        """
        if elements > MOST_WHOLE:
            raise UnrestrictedError("its reference needs whole arrays")
        for node in syntax.walk(tree):
            if isinstance(node, syntax.Application) and isinstance(node.function, syntax.NameOf):
                operands = (operand for operand in node.arguments if not isinstance(operand, syntax.Constant))
                slow = node.function.name in _SLOW
                if slow and math.prod(math.prod(shape(operand)) for operand in operands) > _MOST_SLOW_PRODUCTS:
                    raise UnrestrictedError("its reference takes too many multiplications")
        self.compute(elements)
