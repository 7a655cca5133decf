"""Evaluate launch expressions for many sizes at once, in NumPy's 64-bit integers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import Location
from lab.base.expressions import Scalar
from lab.library.meaning import Meaning, interpreted
from lab.library.package import BATCH_SIZES, SIZES, LibraryKernel, LibraryLaunch
from lab.templates.launches import RESIDENT_BLOCKS

Numbers = NDArray[np.int64]
"""Values of one expression, including truth values: one per size, or a single one for all."""

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
"""An upper bound on resident blocks. It makes the grid of a persistent kernel one block per tile."""


def blocks(kernel: LibraryKernel, layout: str, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the blocks of the main launch. For persistent kernels, count tiles.

    Of a sequence that declares no such launch it is the largest.

    Args:
        kernel: The kernel.
        layout: BLAS letters of A and B.
        sizes: n x axes: m, n, k, and of batches their products; matrices have no padding.

    Returns:
        n blocks, at least 1 each.

    Raises:
        UserError: An expression has an operation that is not defined on sizes.
    """
    block_counts, alike = np.ones(len(sizes), dtype=np.int64), not _has_others(kernel)
    for launch, count, _ in _launched(kernel, layout, sizes):
        if launch.main or alike:
            block_counts = np.maximum(block_counts, count)
    return block_counts


def others(kernel: LibraryKernel, layout: str, sizes: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Count the auxiliary launches: those that pack operands or reduce partial sums.

    Args:
        kernel: The kernel.
        layout: BLAS letters of A and B.
        sizes: As for `blocks`.

    Returns:
        n x 2: how many there are, and the 2^20 threads that they have together; None for a kernel without any.

    Raises:
        UserError: An expression has an operation that is not defined on sizes.
    """
    if not _has_others(kernel):
        return None
    totals = np.zeros((len(sizes), 2))
    for launch, count, threads in _launched(kernel, layout, sizes):
        if not launch.main:
            totals += np.column_stack([count > 0, threads / 2**20])
    return totals


def _has_others(kernel: LibraryKernel) -> bool:
    return any(launch.main for launch in kernel.launches) and not all(launch.main for launch in kernel.launches)


def _launched(
    kernel: LibraryKernel, layout: str, sizes: NDArray[np.int64]
) -> Iterator[tuple[LibraryLaunch, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield each launch with its blocks and threads at each size, 0 where it is skipped."""
    names = _names(layout, sizes)
    m = names["m"]
    names |= {"alpha": np.ones_like(m), "beta": np.ones_like(m), RESIDENT_BLOCKS: np.full_like(m, _MANY)}

    def volume(extents: tuple[str, str, str]) -> NDArray[np.int64]:
        x, y, z = (np.broadcast_to(over(extent, names), m.shape) for extent in extents)
        return x * y * z

    for launch in kernel.launches:
        active = np.broadcast_to(over(launch.when, names) if launch.when else np.asarray(1), m.shape)
        count = np.where(active, volume(launch.grid), 0)
        yield launch, count, count * volume(launch.block)


def takes(kernel: LibraryKernel, layout: str, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether a kernel's requirements are met by matrices without padding.

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
    holds = over(kernel.requires, _names(layout, sizes))
    return np.broadcast_to(holds.astype(np.bool_), len(sizes))


def _names(layout: str, sizes: NDArray[np.int64]) -> dict[str, Numbers]:
    """Return the names a launch knows, for sizes without padding: `SIZES`, and `BATCH_SIZES` for batches."""
    m, n, k, *batch = sizes.T
    lda, ldb = (m if layout[0] == "n" else k), (k if layout[1] == "n" else n)
    names: dict[str, Numbers] = dict(zip(SIZES, (m, n, k, lda, ldb, m), strict=True))
    return names | (dict(zip(BATCH_SIZES, (*batch, m * k, k * n, m * n), strict=True)) if batch else {})


def over(expression: str, names: Mapping[str, Numbers]) -> Numbers:
    """Evaluate an expression for many sizes.

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

    def comparison(self, first: Numbers, following: Sequence[tuple[str, Numbers]]) -> Numbers | None:
        if any(symbol not in _COMPARISONS for symbol, _ in following):
            return None
        operands = [first, *(value for _, value in following)]
        results = [
            _COMPARISONS[symbol](left, right) for left, (symbol, right) in zip(operands, following, strict=False)
        ]
        return functools.reduce(np.logical_and, results)

    def choice(self, test: Numbers, then: Callable[[], Numbers], otherwise: Callable[[], Numbers]) -> Numbers:
        return np.where(test, then(), otherwise())

    def call(self, function: str, arguments: Sequence[Numbers]) -> Numbers:
        return _FUNCTIONS[function](*arguments)
