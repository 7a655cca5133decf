"""Operators of kernels without an fma loop: vector addition, stencil, histogram."""

from __future__ import annotations

import numpy as np

from lab.measured.timing import Merit
from lab.operators.base import Expected, Inputs, Operator, Problem


class VectorProblem(Problem):
    n: int


class _Vectors(Operator[VectorProblem]):
    merit = Merit.BANDWIDTH
    problem_type = VectorProblem

    def computed(self, x):
        raise NotImplementedError

    def verify(self, problem, reference, outputs):
        wanted = reference["y"]
        error = np.abs(outputs["y"].astype(np.float64) - wanted.values) / wanted.scale
        worst = float(np.max(np.where(np.isnan(error), np.inf, error)))
        return worst, 1e-5, "" if worst <= 1e-5 else f"y[{int(np.argmax(error))}]"

    def reference(self, problem, inputs):
        values = self.computed(inputs.arrays["x"].astype(np.float64))
        return {"y": Expected(values, 1 + np.abs(values))}

    def inputs(self, problem, seed):
        x = np.random.default_rng(seed).standard_normal(problem.n, dtype=np.float32)
        return Inputs(dict(problem), {"x": x, "y": np.full_like(x, np.nan)}, ("y",))

    def flops(self, problem):
        return 0

    def bytes_moved(self, problem):
        return 8 * problem.n

    def fma_dtype(self, problem):
        return np.dtype(np.float32)


class Increment(_Vectors):
    name = "increment"

    def computed(self, x):
        return x + 1


class Stencil(_Vectors):
    name = "stencil"

    def computed(self, x):
        return sum(np.roll(x, shift) for shift in (-2, -1, 0, 1, 2))


class Histogram(_Vectors):
    name = "histogram"
    BINS = 64

    def inputs(self, problem, seed):
        x = np.random.default_rng(seed).integers(0, self.BINS, problem.n, dtype=np.int32)
        return Inputs(dict(problem), {"x": x, "y": np.zeros(self.BINS, np.int32)}, ("y",))

    def computed(self, x):
        return np.bincount(x.astype(np.int64), minlength=self.BINS).astype(np.float64)

    def bytes_moved(self, problem):
        return 4 * problem.n
