"""z = a x + y in float32; `rounds` is work that changes nothing."""

import numpy as np
from pydantic import ConfigDict

from lab.measured.timing import Merit
from lab.operators.base import Expected, Inputs, Operator, Problem


class AxpyProblem(Problem):
    model_config = ConfigDict(extra="allow")  # fields that its templates know
    n: int
    a: float


class Axpy(Operator[AxpyProblem]):
    name = "axpy"
    merit = Merit.TFLOPS
    problem_type = AxpyProblem

    def inputs(self, problem, seed):
        x, y = np.random.default_rng(seed).standard_normal((2, problem.n), dtype=np.float32)
        return Inputs(dict(problem), {"x": x, "y": y, "z": np.full_like(x, np.nan)}, ("z",))

    def reference(self, problem, inputs):
        x, y = (inputs.arrays[name].astype(np.float64) for name in "xy")
        values = problem.a * x + y
        return {"z": Expected(values, 1 + np.abs(values))}

    def verify(self, problem, reference, outputs):
        error = np.abs(outputs["z"] - reference["z"].values) / reference["z"].scale
        worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
        passed = error[worst] <= 1e-6
        return float(error[worst]), 1e-6, "" if passed else f"z[{worst}]: got {outputs['z'][worst]}"

    def flops(self, problem):
        return 2 * problem.n

    def bytes_moved(self, problem):
        return 12 * problem.n

    def fma_dtype(self, problem):
        return np.dtype(np.float32)
