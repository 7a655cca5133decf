"""Input arrays of built-in operators, drawn page by page; see `lab.operators.indexed`."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from lab.operators.base import Array
from lab.operators.boxes import Index
from lab.operators.indexed import PAGE, IndexedArray, PagedArray, gather
from lab.operators.stored import drawn, empty

Draw = Callable[[np.random.Generator, Index, Index], Array]
"""Draws the elements at given lines and at given positions in them."""


def stream(name: str, seed: int, page: int = 0) -> np.random.Generator:
    """Return the random generator for a page of an array."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), page])


def normal(dtype: str) -> Draw:
    """Return a function that draws standard normal elements of a type."""
    return lambda rng, lines, _: drawn(rng, (len(lines),), dtype)


def blank(size: int, dtype: str) -> PagedArray:
    """Return a poisoned array, as `lab.operators.stored.empty` makes it."""
    page = empty(PAGE, dtype)
    return PagedArray(page.dtype, size, lambda _: page)


def paged_lines(name: str, seed: int, shape: tuple[int, int, int], dtype: str, draw: Draw) -> PagedArray:
    """Return a matrix drawn page by page, poisoned between its lines.

    Args:
        name: Its name.
        seed: Seed of its elements.
        shape: Lines, elements of a line, and elements from one line to the next. A line is a row of a row-major matrix,
            or a column of a column-major one.
        dtype: Element type.
        draw: Makes its elements.
    """
    count, length, apart = shape
    size, nothing = count * apart, empty(1, dtype)[0]

    def page(number: int) -> Array:
        flat = np.arange(number * PAGE, min((number + 1) * PAGE, size))
        lines, places = np.divmod(flat, apart)
        elements = draw(stream(name, seed, number), lines, places)
        return elements if apart == length else np.where(places < length, elements, nothing)

    return PagedArray(nothing.dtype, size, page)


def block_of(array: IndexedArray, lines: Index, places: Index, apart: int) -> Array:
    """Return the submatrix of some lines and positions: (lines, places).

    Args:
        array: The matrix's buffer.
        lines: Lines, as of `paged_lines`.
        places: Places in these.
        apart: Elements from one line to the next.
    """
    return gather(array, np.add.outer(lines * apart, places).reshape(-1)).reshape(len(lines), len(places))
