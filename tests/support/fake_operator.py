"""y = 2 x, as an operator file of a user."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from lab.measured.timing import Merit
from lab.operators.base import Expected, Inputs, Operator, Problem


class DoubleProblem(Problem):
    n: int = 16
    dtype: str | None = None


class Double(Operator[DoubleProblem]):
    name = "double"
    merit = Merit.TFLOPS
    problem_type = DoubleProblem
    references = 0

    def inputs(self, problem, seed):
        if problem.n == 13:
            raise ValueError("thirteen")
        if problem.n == 11:
            os._exit(0)
        x = np.random.default_rng(seed).standard_normal(problem.n)
        return Inputs({"n": problem.n}, {"x": x, "y": np.full_like(x, np.nan)}, ("y",))

    def reference(self, problem, inputs):
        type(self).references += 1
        values = 2 * inputs.arrays["x"]
        return {"y": Expected(values, np.ones_like(values))}

    def verify(self, problem, reference, outputs):
        error = np.abs(outputs["y"] - reference["y"].values)
        worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
        passed = error[worst] <= 1e-12
        return float(error[worst]), 1e-12, "" if passed else f"y[{worst}]: got {outputs['y'][worst]}"

    def flops(self, problem):
        return problem.n

    def bytes_moved(self, problem):
        return 16 * problem.n

    def fma_dtype(self, problem):
        return np.dtype(np.float64)


class Required(Double):
    """Every element must be written."""

    def inputs(self, problem, seed):
        return replace(super().inputs(problem, seed), required=("y",))


class LastUncompared(Required):
    """Whatever the last element holds is right, as where the reference is NaN."""

    def verify(self, problem, reference, outputs):
        values = np.append(reference["y"].values[:-1], outputs["y"][-1])
        known = {"y": Expected(np.nan_to_num(values), reference["y"].scale)}
        return super().verify(problem, known, {"y": np.nan_to_num(outputs["y"])})


class ElementwiseDouble(Double):
    def elementwise(self, problem, reference):
        return reference, 1e-12
