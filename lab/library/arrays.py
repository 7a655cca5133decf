"""A launch's expressions for many sizes at once, in NumPy's 64-bit integers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import Location
from lab.base.expressions import Scalar
from lab.library.meaning import Meaning, interpreted
from lab.library.package import BATCH_SIZES, SIZES, LibraryKernel
from lab.templates.launches import RESIDENT_BLOCKS

Numbers = NDArray[np.int64]
"""Values of one expression, truth values among them: one for each size, or a single one for all."""

_BINARY: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "and": np.logical_and,
    "or": np.logical_or,
}
_COMPARISONS: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_FUNCTIONS: dict[str, Callable[..., Numbers]] = {
    "ceil_div": lambda a, b: -(-a // b),
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
}

_MANY = 1 << 40
"""More blocks than any launch has: a grid of at most so many as the GPU holds is one of a block for each tile."""


def blocks(kernel: LibraryKernel, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the blocks of a kernel's largest launch. Where blocks stay for several tiles, tiles are counted.

    Args:
        kernel: The kernel.
        sizes: n x axes: m, n, k, and of batches their products; leading dimensions are m, n and m, those of layout nt
            without padding.

    Returns:
        n blocks, at least 1 each.

    Raises:
        UserError: An expression has an operation that is not defined on sizes.
    """
    names = _names("nt", sizes)
    m = names["m"]
    names |= {"alpha": np.ones_like(m), "beta": np.ones_like(m), RESIDENT_BLOCKS: np.full_like(m, _MANY)}
    found = np.ones(len(sizes), dtype=np.int64)
    for launch in kernel.launches:
        grid = [np.broadcast_to(over(axis, names), found.shape) for axis in launch.grid]
        there = over(launch.when, names) if launch.when else np.asarray(1)
        found = np.where(there, np.maximum(found, grid[0] * grid[1] * grid[2]), found)
    return found


def takes(kernel: LibraryKernel, layout: str, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether a kernel's requirements hold, of matrices without padding.

    Args:
        kernel: The kernel.
        layout: BLAS letters of A and B.
        sizes: n x axes: m, n, k, and of batches their products.

    Returns:
        n truth values.

    Raises:
        UserError: An expression has an operation that is not defined on sizes.
    """
    if not kernel.requires:
        return np.ones(len(sizes), dtype=np.bool_)
    held = over(kernel.requires, _names(layout, sizes))
    return np.broadcast_to(held.astype(np.bool_), len(sizes))


def _names(layout: str, sizes: NDArray[np.int64]) -> dict[str, Numbers]:
    """Return what a launch knows of sizes without padding: `SIZES`, and of batches `BATCH_SIZES`."""
    m, n, k, *batch = sizes.T
    lda, ldb = (m if layout[0] == "n" else k), (k if layout[1] == "n" else n)
    names: dict[str, Numbers] = dict(zip(SIZES, (m, n, k, lda, ldb, m), strict=True))
    return names | (dict(zip(BATCH_SIZES, (*batch, m * k, k * n, m * n), strict=True)) if batch else {})


def over(expression: str, names: Mapping[str, Numbers]) -> Numbers:
    """Compute an expression for many sizes.

    Raises:
        UserError: It has an operation that is not defined on sizes, or an unknown name.
    """
    return interpreted(expression, _Computed(names), at=Location("<library>"), key=expression)


@dataclass(frozen=True)
class _Computed(Meaning[Numbers]):
    names: Mapping[str, Numbers]

    def constant(self, value: Scalar) -> Numbers | None:
        return None if isinstance(value, str) else np.asarray(value)

    def name(self, name: str) -> Numbers | None:
        return self.names.get(name)

    def negative(self, value: Numbers) -> Numbers:
        return np.negative(value)

    def inverse(self, value: Numbers) -> Numbers:
        return np.logical_not(value)

    def binary(self, symbol: str, left: Numbers, right: Numbers) -> Numbers | None:
        return _BINARY[symbol](left, right) if symbol in _BINARY else None

    def comparison(self, first: Numbers, others: Sequence[tuple[str, Numbers]]) -> Numbers | None:
        if any(symbol not in _COMPARISONS for symbol, _ in others):
            return None
        operands = [first, *(value for _, value in others)]
        held = [_COMPARISONS[symbol](left, right) for left, (symbol, right) in zip(operands, others, strict=False)]
        return functools.reduce(np.logical_and, held)

    def choice(self, test: Numbers, then: Callable[[], Numbers], otherwise: Callable[[], Numbers]) -> Numbers:
        return np.where(test, then(), otherwise())

    def call(self, function: str, arguments: Sequence[Numbers]) -> Numbers:
        return _FUNCTIONS[function](*arguments)
