"""A Gaussian process over the points of a space: what it expects of a point's cost, and how sure it is.

The covariance of two points is a Matérn function of order 5/2 of their distance, each axis with a length of its own
(Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, sections 2.2, 4.2 and 5.4.1); axes that matter
little get long lengths. Lengths, size and noise are those of the largest posterior density, found by L-BFGS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

Floats = NDArray[np.float64]

_LENGTH: Final = (np.log(1.0), 0.8)
_SIZE: Final = (np.log(0.4), 0.7)
_NOISE: Final = (np.log(0.015), 0.7)
"""Means and standard deviations of the logarithms before anything is known: an axis changes the time over its whole
width by some tenths, and what no parameter explains is one or two per cent."""

_SLOPE: Final = 0.3
"""Standard deviation of the trust in a prior: its logarithm times 1 ± 0.3 is what is expected."""

_JITTER: Final = 1e-8
_MOST_STEPS: Final = 40


@dataclass(frozen=True, slots=True)
class Fitted:
    """Lengths, size and noise.

    Attributes:
        lengths: Of each axis: distance at which points tell little of each other.
        size: Standard deviation of the costs.
        noise: Standard deviation of what the axes do not explain.
    """

    lengths: Floats
    size: float
    noise: float

    @classmethod
    def at_first(cls, axes: int) -> Fitted:
        """What is assumed before anything is known."""
        return cls(np.full(axes, np.exp(_LENGTH[0]) * np.sqrt(axes) / 2), float(np.exp(_SIZE[0])), 0.015)


@dataclass(frozen=True, slots=True)
class Process:
    """A Gaussian process that was told some costs.

    Attributes:
        fitted: Its lengths, size and noise.
        x: Points that were told, a row for each.
        lean: What a prior says of them, as logarithms; zeros without one.
        mean: Of the residuals.
        factor: Cholesky factor of the covariance.
        weights: Its inverse times the residuals.
    """

    fitted: Fitted
    x: Floats
    lean: Floats
    mean: float
    factor: Floats
    weights: Floats

    def expected(self, x: Floats, lean: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the cost of each point, noise left out.

        Args:
            x: The points, a row for each.
            lean: What the prior says of them.
        """
        cross = _covariance(self.fitted, x, self.x) + _slope(lean, self.lean)
        mean = lean + self.mean + cross @ self.weights
        inner = solve_triangular(self.factor, cross.T, lower=True, check_finite=False)
        own = self.fitted.size**2 + _SLOPE**2 * lean**2
        return mean, np.sqrt(np.maximum(own - np.sum(inner * inner, axis=0), 1e-12))

    def alike(self, first: Floats, second: Floats) -> Floats:
        """How alike points are, from 0 to 1: a row for each of the first, a column for each of the second."""
        return _covariance(self.fitted, first, second) / self.fitted.size**2


def condition(fitted: Fitted, x: Floats, y: Floats, lean: Floats) -> Process:
    """Tell a process the costs `y` of the points `x`, of which a prior says `lean`."""
    residual = y - lean
    covariance = _covariance(fitted, x, x) + _slope(lean, lean)
    covariance[np.diag_indices_from(covariance)] += fitted.noise**2 + _JITTER
    factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    ones = cho_solve((factor, True), np.ones(len(y)), check_finite=False)
    mean = float(ones @ residual / ones.sum())
    return Process(fitted, x, lean, mean, factor, cho_solve((factor, True), residual - mean, check_finite=False))


def fit(start: Fitted, x: Floats, y: Floats, lean: Floats) -> Fitted:
    """Find the lengths, size and noise of the largest posterior density, from those of an earlier fit."""
    residual, axes = y - lean, x.shape[1]
    apart = (x[:, None, :] - x[None, :, :]) ** 2
    slope = _slope(lean, lean)
    centre = np.concatenate([np.full(axes, _LENGTH[0] + np.log(np.sqrt(axes) / 2)), [_SIZE[0], _NOISE[0]]])
    width = np.concatenate([np.full(axes, _LENGTH[1]), [_SIZE[1], _NOISE[1]]])

    def density(logs: Floats) -> tuple[float, Floats]:
        lengths, size, noise = np.exp(logs[:axes]), np.exp(logs[-2]), np.exp(logs[-1])
        square = apart @ (1 / lengths**2)
        distance = np.sqrt(5 * square)
        bell = np.exp(-distance)
        matern = size**2 * (1 + distance + 5 * square / 3) * bell
        covariance = matern + slope
        covariance[np.diag_indices_from(covariance)] += noise**2 + _JITTER
        factor = np.linalg.cholesky(covariance)
        inverse = cho_solve((factor, True), np.eye(len(y)), check_finite=False)
        ones = inverse.sum(axis=1)
        centred = residual - ones @ residual / ones.sum()
        weights = inverse @ centred
        outer = inverse - np.outer(weights, weights)
        value = 0.5 * centred @ weights + np.log(np.diag(factor)).sum() + 0.5 * np.sum(((logs - centre) / width) ** 2)
        # derivative of the Matérn function by the logarithm of a length: size² 5/3 (1 + distance) e^-distance d²/l²
        shared = outer * (size**2 * 5 / 3 * (1 + distance) * bell)
        by_length = 0.5 * np.einsum("ij,ijk->k", shared, apart) / lengths**2
        by_size = np.sum(outer * matern)
        by_noise = noise**2 * np.trace(outer)
        return value, np.concatenate([by_length, [by_size, by_noise]]) + (logs - centre) / width**2

    begin = np.log(np.concatenate([start.lengths, [start.size, start.noise]]))
    limits = [(-3.0, 5.0)] * axes + [(-5.0, 2.0), (-6.5, 0.0)]
    found = minimize(density, begin, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": _MOST_STEPS}).x
    return Fitted(np.exp(found[:axes]), float(np.exp(found[-2])), float(np.exp(found[-1])))


def _covariance(fitted: Fitted, first: Floats, second: Floats) -> Floats:
    a, b = first / fitted.lengths, second / fitted.lengths
    # |a - b|² = a² + b² - 2ab: a product of matrices instead of a cube
    square = np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2 * a @ b.T, 0)
    distance = np.sqrt(5 * square)
    found: Floats = fitted.size**2 * (1 + distance + 5 * square / 3) * np.exp(-distance)
    return found


def _slope(first: Floats, second: Floats) -> Floats:
    found: Floats = _SLOPE**2 * np.outer(first, second)
    return found
