"""Tolerances declared by the user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.operators.base import Floats

_BLOCK: Final = 256
"""Number of elements that count as neighbours."""

_LONG_ROW: Final = 64
"""Minimum length of a row whose neighbours are taken from the row alone."""

_CHUNK: Final = 1 << 20
"""Elements sorted at a time."""

_QUANTILES: Final = ((1 / 4, 0.31864), (1 / 8, 0.15731))
"""Lower quantiles, each with that quantile of |z|, z standard normal."""

_MEDIAN: Final = ((1 / 2, 0.67449),)
"""The same for too few neighbours to have small quantiles."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of an output.

    Attributes:
        relative: Share of each value; without `absolute`, of the typical size of its neighbours if that is larger.
        absolute: Absolute part, as `atol` of ``numpy.allclose``; None if the file gives none. Infinite for an array
            whose contents are not compared.
    """

    relative: float
    absolute: float | None = None

    @property
    def ignores_contents(self) -> bool:
        """Return whether an output may hold anything, and may stay unwritten."""
        return self.absolute == math.inf

    def bound(self, values: NDArray[Any]) -> Floats:
        """Return the largest accepted error of each value.

        Without an absolute part, elements that are small because larger ones cancel in them are judged by the typical
        size of their neighbours: see `typical_sizes`.
        """
        with np.errstate(all="ignore"):
            size = np.abs(values.astype(np.complex128 if values.dtype.kind == "c" else np.float64))
            if self.absolute is not None:
                return np.asarray(self.absolute + self.relative * size, np.float64)
            return np.asarray(self.relative * np.maximum(size, typical_sizes(size)), np.float64)


def typical_sizes(size: Floats) -> Floats:
    """Return the typical size of each element's neighbours, from the elements' absolute values, any shape.

    Neighbours are up to `_BLOCK` consecutive elements of a row, or of several rows where these are short. Their typical
    size is the least of their root mean square and of two lower quantiles of those that are finite and not 0, each
    divided by that of |z|, z standard normal. All three are the standard deviation where elements are normal numbers
    around 0, as sums are in which terms cancel. Where sizes span orders of magnitude, the quantiles are small, and a
    few large elements do not matter. Of few neighbours, it is the median.
    """
    if not size.size:
        return size
    length = size.shape[-1] if size.ndim and size.shape[-1] >= _LONG_ROW else size.size
    rows = np.ascontiguousarray(size).reshape(-1, length)
    full_blocks = length - length % _BLOCK
    typical = np.empty_like(rows)
    typical[:, :full_blocks] = _of_blocks(rows[:, :full_blocks].reshape(-1, _BLOCK)).reshape(len(rows), full_blocks)
    if full_blocks < length:  # the last block of a row overlaps with the one before it
        typical[:, full_blocks:] = _of_blocks(rows[:, -_BLOCK:])[:, -(length - full_blocks) :]
    return typical.reshape(size.shape)


def _of_blocks(blocks: Floats) -> Floats:
    """Return the typical size of each row, once per element of the row."""
    typical = np.empty(len(blocks))
    step = max(1, _CHUNK // blocks.shape[1])
    for begin in range(0, len(blocks), step):
        chunk = blocks[begin : begin + step]
        finite = np.isfinite(chunk)
        finite_sizes = np.where(finite, chunk, 0.0)
        mean_square = (finite_sizes * finite_sizes).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
        ordered = np.sort(np.where(finite_sizes > 0, finite_sizes, np.inf), axis=1)
        count = (finite_sizes > 0).sum(axis=1)
        estimates = [np.sqrt(mean_square)]
        for share, of_normal in _QUANTILES if blocks.shape[1] >= _LONG_ROW else _MEDIAN:
            estimates.append(_quantile(ordered, count, share) / of_normal)
        typical[begin : begin + step] = np.min(estimates, axis=0)
    return np.broadcast_to(typical[:, None], blocks.shape)


def _quantile(ordered: Floats, count: NDArray[np.int64], share: float) -> Floats:
    """Return a quantile of the first elements of each row, which are in order; 0 where there are none."""
    last = np.maximum(count - 1, 0)
    place = share * last
    low = np.floor(place).astype(np.int64)
    below, above = (np.take_along_axis(ordered, at[:, None], axis=1)[:, 0] for at in (low, np.minimum(low + 1, last)))
    weight = place - low
    return np.where(count > 0, (1 - weight) * below + weight * np.where(weight > 0, above, 0.0), 0.0)
