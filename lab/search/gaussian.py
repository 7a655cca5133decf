"""A Gaussian process over the points of a space: mean and uncertainty of each point's cost.

The covariance is a Matérn 5/2 kernel with one length scale per axis (Rasmussen and Williams, Gaussian Processes for
Machine Learning, 2006, sections 2.2, 4.2 and 5.4.1); axes that matter little get long length scales. Length scales,
amplitude and noise maximise the posterior density; L-BFGS finds them.
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
"""Prior means and standard deviations of the logarithms of length scale, amplitude and noise: along an axis the time
changes by tens of per cent, and unexplained noise is one or two per cent."""

_SLOPE: Final = 0.3
"""Standard deviation of the slope of a predicted cost: the measured cost is the prediction times 1 ± 0.3."""

_JITTER: Final = 1e-8
_MOST_STEPS: Final = 40


@dataclass(frozen=True, slots=True)
class Fitted:
    """Hyperparameters: length scales, amplitude and noise.

    Attributes:
        lengths: Length scale of each axis: the distance at which points are nearly uncorrelated.
        size: Standard deviation of the costs.
        noise: Standard deviation of the noise.
    """

    lengths: Floats
    size: float
    noise: float

    @classmethod
    def at_first(cls, axes: int) -> Fitted:
        """Return the initial hyperparameters."""
        return cls(np.full(axes, np.exp(_LENGTH[0]) * np.sqrt(axes) / 2), float(np.exp(_SIZE[0])), 0.015)


@dataclass(frozen=True, slots=True)
class Process:
    """A Gaussian process conditioned on known costs.

    Attributes:
        fitted: Its hyperparameters.
        x: Points with known costs, one per row.
        lean: Their costs predicted by a prior, as logarithms; zeros without one.
        mean: Mean of the residuals.
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
        """Return the posterior mean and standard deviation of the cost of each point, without noise.

        Args:
            x: The points, one per row.
            lean: Their costs predicted by the prior.
        """
        cross = _covariance(self.fitted, x, self.x) + _slope(lean, self.lean)
        mean = lean + self.mean + cross @ self.weights
        inner = solve_triangular(self.factor, cross.T, lower=True, check_finite=False)
        own = self.fitted.size**2 + _SLOPE**2 * lean**2
        return mean, np.sqrt(np.maximum(own - np.sum(inner * inner, axis=0), 1e-12))

    def alike(self, first: Floats, second: Floats) -> Floats:
        """Return the correlation of points, 0 to 1: a row per point of the first, a column per point of the second."""
        return _covariance(self.fitted, first, second) / self.fitted.size**2


def condition(fitted: Fitted, x: Floats, y: Floats, lean: Floats) -> Process:
    """Condition a process on the costs `y` of the points `x`, given predictions `lean`."""
    residual = y - lean
    covariance = _covariance(fitted, x, x) + _slope(lean, lean)
    covariance[np.diag_indices_from(covariance)] += fitted.noise**2 + _JITTER
    factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    solved_ones = cho_solve((factor, True), np.ones(len(y)), check_finite=False)
    mean = float(solved_ones @ residual / solved_ones.sum())
    return Process(fitted, x, lean, mean, factor, cho_solve((factor, True), residual - mean, check_finite=False))


def fit(start: Fitted, x: Floats, y: Floats, lean: Floats) -> Fitted:
    """Find the hyperparameters with the largest posterior density, starting from an earlier fit."""
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
        row_sums = inverse.sum(axis=1)
        centred = residual - row_sums @ residual / row_sums.sum()
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
    optimum = minimize(density, begin, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": _MOST_STEPS}).x
    return Fitted(np.exp(optimum[:axes]), float(np.exp(optimum[-2])), float(np.exp(optimum[-1])))


def _covariance(fitted: Fitted, first: Floats, second: Floats) -> Floats:
    a, b = first / fitted.lengths, second / fitted.lengths
    # |a - b|² = a² + b² - 2ab: a GEMM instead of a three-dimensional array
    square = np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2 * a @ b.T, 0)
    distance = np.sqrt(5 * square)
    covariance: Floats = fitted.size**2 * (1 + distance + 5 * square / 3) * np.exp(-distance)
    return covariance


def _slope(first: Floats, second: Floats) -> Floats:
    covariance: Floats = _SLOPE**2 * np.outer(first, second)
    return covariance
