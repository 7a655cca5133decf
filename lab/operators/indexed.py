"""Inputs generated on read as functions of the index, for large problems of which little is read.

An element depends only on the array's name, the seed and its index, so elements that no block reads are never made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lab.base.expressions import Scalar

PAGE: Final = 1 << 11
"""Elements generated together: few enough for columns, many enough to amortise starting a random stream."""

HELD_BYTES: Final = 1 << 26
"""Maximum bytes of an array's pages that are cached."""


class IndexedArray(Protocol):
    """An array whose elements are generated when they are read."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element."""

    @property
    def size(self) -> int:
        """The number of elements."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the elements from `start` to `stop`, 1-D."""


@dataclass(frozen=True, slots=True, eq=False)
class WholeArray:
    """An array held in memory."""

    array: NDArray[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element."""
        return self.array.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.array.size

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the elements from `start` to `stop`, 1-D."""
        return self.array[start:stop]


@dataclass(frozen=True, slots=True, eq=False)
class ConstantArray:
    """An array of equal elements.

    Attributes:
        element: Its element, (1,).
        size: The number of elements.
    """

    element: NDArray[Any]
    size: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element."""
        return self.element.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the elements from `start` to `stop`, 1-D."""
        count = max(0, stop - start)
        # The system hands out zeroed memory without touching it
        return np.full(count, self.element, self.dtype) if any(self.element.tobytes()) else np.zeros(count, self.dtype)


@dataclass(frozen=True, eq=False)
class PagedArray:
    """An array generated page by page.

    Attributes:
        dtype: The type of an element.
        size: The number of elements.
        page: Generates the `PAGE` elements of a page from its number.
    """

    dtype: np.dtype[Any]
    size: int
    page: Callable[[int], NDArray[Any]]
    _pages: OrderedDict[int, NDArray[Any]] = field(default_factory=OrderedDict)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the elements from `start` to `stop`, 1-D."""
        first = start // PAGE
        if stop - first * PAGE <= PAGE:
            return self._held(first)[start - first * PAGE : stop - first * PAGE]
        elements = np.empty(max(0, stop - start), self.dtype)
        for number in range(first, -(-stop // PAGE)):
            begin, end = max(start, number * PAGE), min(stop, (number + 1) * PAGE)
            elements[begin - start : end - start] = self._held(number)[begin - number * PAGE : end - number * PAGE]
        return elements

    def _held(self, number: int) -> NDArray[Any]:
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = self.page(number)
            if len(self._pages) * PAGE * self.dtype.itemsize > HELD_BYTES:
                self._pages.popitem(last=False)
        return page


@dataclass(frozen=True, slots=True, eq=False)
class IndexedInputs:
    """The counterpart of `lab.operators.base.Inputs` with indexed arrays.

    Attributes:
        scalars: As of `Inputs`.
        arrays: Name to array.
        outputs: As of `Inputs`.
        required: As of `Inputs`.
        scratch: As of `Inputs`.
        kept: Cached values that depend only on the inputs and are expensive to compute.
    """

    scalars: Mapping[str, Scalar]
    arrays: Mapping[str, IndexedArray]
    outputs: tuple[str, ...]
    required: tuple[str, ...] = ()
    scratch: Mapping[str, bool] = field(default_factory=dict)
    kept: dict[object, Any] = field(default_factory=dict)


def gather(array: IndexedArray, indices: NDArray[np.int64]) -> NDArray[Any]:
    """Return the elements at (count,) indices."""
    if isinstance(array, WholeArray):
        return array.array[indices]
    elements = np.empty(len(indices), array.dtype)
    if not len(indices):
        return elements
    steps = np.diff(indices)
    if np.all(steps == 1):
        return array.read(int(indices[0]), int(indices[-1]) + 1)
    is_ascending = bool(np.all(steps >= 0))
    order = slice(None) if is_ascending else np.argsort(indices, kind="stable")
    ordered = indices[order]
    pages = ordered // PAGE
    starts = np.concatenate([[0], np.flatnonzero(pages[1:] != pages[:-1]) + 1])
    ordered_elements = np.empty(len(indices), array.dtype)
    for first, last, number in zip(
        starts.tolist(), [*starts[1:].tolist(), len(indices)], pages[starts].tolist(), strict=True
    ):
        start = number * PAGE
        ordered_elements[first:last] = array.read(start, min(start + PAGE, array.size))[ordered[first:last] - start]
    elements[order] = ordered_elements
    return elements
