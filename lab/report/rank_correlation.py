"""Spearman's rank correlation, implemented here because importing SciPy takes longer than most reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FEWEST = 3
"""Minimum number of pairs for a significance test."""


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """Spearman's rank correlation of two sequences.

    Attributes:
        rho: -1 to 1; NaN if all values of one sequence are equal, or one is NaN.
        p: Two-sided p-value under no correlation, by Student's distribution of
            `rho * sqrt((n - 2) / (1 - rho**2))` with n - 2 degrees of freedom; NaN with fewer than three pairs.
    """

    rho: float
    p: float


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> RankCorrelation:
    """Correlate the ranks of two sequences of equal length; equal values share the mean of their ranks."""
    x, y = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if len(x) < 2 or np.isnan(x).any() or np.isnan(y).any():  # noqa: PLR2004 - a pair of values
        return RankCorrelation(math.nan, math.nan)
    of_x, of_y = _ranks(x), _ranks(y)
    spread = math.sqrt(float(of_x @ of_x) * float(of_y @ of_y))
    if not spread:
        return RankCorrelation(math.nan, math.nan)
    rho = min(1.0, max(-1.0, float(of_x @ of_y) / spread))
    return RankCorrelation(rho, _p(rho, len(x)))


def _p(rho: float, n: int) -> float:
    if n < _FEWEST:
        return math.nan
    if abs(rho) == 1:
        return 0.0
    return max(0.0, 1 - _within(abs(rho), n - 2))


def _within(rho: float, freedom: int) -> float:
    """Return the probability that |t| ≤ x for Student's t, where x is `rho * sqrt(freedom / (1 - rho**2))`.

    For whole degrees of freedom it is a finite sum in the angle whose sine is `rho`: Abramowitz and Stegun, Handbook of
    Mathematical Functions, 26.7.3 and 26.7.4.
    """
    cosine_squared = (1 - rho) * (1 + rho)
    odd = freedom % 2
    term = math.sqrt(cosine_squared) if odd else 1.0
    total = 0.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine_squared * (power + 1) / (power + 2)
    if odd:
        return 2 / math.pi * (math.asin(rho) + rho * total)
    return rho * total


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks of values, (n,), less their mean."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = last - (counts - 1) / 2
    return np.asarray(ranks[place] - (len(values) + 1) / 2, np.float64)
