"""Spearman's rank correlation and Student's intervals, here because importing SciPy takes longer than most reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_FEWEST = 3
"""Minimum number of pairs for a significance test, and of ratios for an interval of their mean."""
_FEWEST_INTERVAL = 4
"""Minimum number of pairs for an interval of a correlation, whose variance divides by n - 3."""
_CONFIDENCE = 0.95
_NORMAL = 1.959964
"""Two-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """Spearman's rank correlation of two sequences.

    Attributes:
        rho: -1 to 1; NaN if all values of one sequence are equal, or one is NaN.
        p: Two-sided p-value under no correlation, by Student's distribution of
            `rho * sqrt((n - 2) / (1 - rho**2))` with n - 2 degrees of freedom; NaN with fewer than three pairs.
        n: Pairs.
    """

    rho: float
    p: float
    n: int = 0

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of `rho`; None with fewer than four pairs, or where the ranks agree or disagree entirely.

        Fisher's transformation with the variance (1 + rho**2 / 2) / (n - 3): Bonett and Wright, Psychometrika 65
        (2000), 23.
        """
        if not abs(self.rho) < 1 or self.n < _FEWEST_INTERVAL:
            return None
        middle = math.atanh(self.rho)
        half = _NORMAL * math.sqrt((1 + self.rho**2 / 2) / (self.n - 3))
        return math.tanh(middle - half), math.tanh(middle + half)


@dataclass(frozen=True, slots=True)
class MeanRatio:
    """The geometric mean of ratios.

    Attributes:
        ratio: The mean.
        interval: Its 95 % interval, Student's on the logarithms; None for fewer than three ratios, of which it says
            next to nothing.
        n: Ratios.
    """

    ratio: float
    interval: tuple[float, float] | None
    n: int


def mean_ratio(ratios: Sequence[float]) -> MeanRatio:
    """Return the geometric mean of one or more ratios above 0, with its interval."""
    logs = np.log(np.asarray(ratios, np.float64))
    n, middle = len(logs), float(logs.mean())
    if n < _FEWEST:
        return MeanRatio(math.exp(middle), None, n)
    half = student_quantile(n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
    return MeanRatio(math.exp(middle), (math.exp(middle - half), math.exp(middle + half)), n)


@lru_cache(maxsize=128)
def student_quantile(freedom: int) -> float:
    """Return the t whose size Student's distribution exceeds with a probability of 5 %."""
    low, high = 0.0, 1.0
    for _ in range(60):  # bisection of a probability that grows with rho
        rho = (low + high) / 2
        low, high = (rho, high) if _within(rho, freedom) < _CONFIDENCE else (low, rho)
    return low * math.sqrt(freedom / ((1 - low) * (1 + low)))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> RankCorrelation:
    """Correlate the ranks of two sequences of equal length; equal values share the mean of their ranks."""
    x, y = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if len(x) < 2 or np.isnan(x).any() or np.isnan(y).any():  # noqa: PLR2004 - a pair of values
        return RankCorrelation(math.nan, math.nan, len(x))
    of_x, of_y = _ranks(x), _ranks(y)
    spread = math.sqrt(float(of_x @ of_x) * float(of_y @ of_y))
    if not spread:
        return RankCorrelation(math.nan, math.nan, len(x))
    rho = min(1.0, max(-1.0, float(of_x @ of_y) / spread))
    return RankCorrelation(rho, _p(rho, len(x)), len(x))


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
