# ruff: noqa: INP001 - loaded by its path, in no package
"""The operator of fma_ceiling.yaml: one outer product, added up many times.

``C = repeats · a bᵀ``, C column-major m x n. A thread needs its few elements of a and b once and multiplies them
`repeats` times, so that nothing but fma is left to do; a gemm with k = repeats does the same fma and must also bring
new elements for each of them.

The elements of a and b are whole numbers from -8 to 8. Every partial sum is then a whole number below 2^24, which
float32 holds exactly, so that the result does not depend on the order of the sum and must be equal to the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.measured.timing import Merit
from lab.operators.base import Array, Expected, Inputs

_LARGEST = 8
_MOST_REPEATS = 2**24 // _LARGEST**2
_FIELDS = {"m": 2**15, "n": 2**15, "repeats": _MOST_REPEATS}


@dataclass(frozen=True, slots=True)
class RepeatedOuterProduct:
    """``C = repeats · a bᵀ`` in float32."""

    name: str = "repeated outer product"
    merit: Merit = Merit.TFLOPS

    def problem(self, values: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
        """Check: m, n and repeats are needed, dtype is float32.

        Raises:
            UserError: an unknown or missing field, a value out of range.
        """
        for key in values:
            if key not in (*_FIELDS, "dtype"):
                raise UserError("no such problem field", key=f"problem.{key}", accepted=[*_FIELDS, "dtype"])
        for key, most in _FIELDS.items():
            value = values.get(key)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise UserError(
                    "wrong value", key=f"problem.{key}", found=value, accepted=f"an integer from 1 to {most}"
                )
        if values.get("dtype", "float32") != "float32":
            raise UserError("wrong value", key="problem.dtype", found=values["dtype"], accepted="float32")
        return {"dtype": "float32", **values}

    def inputs(self, problem: Mapping[str, Scalar], seed: int) -> Inputs:
        """Whole numbers, uniform from -8 to 8; C is NaN."""
        m, n = int(problem["m"]), int(problem["n"])
        rng = np.random.default_rng(seed)
        arrays: dict[str, Array] = {
            "a": rng.integers(-_LARGEST, _LARGEST, m, endpoint=True).astype(np.float32),
            "b": rng.integers(-_LARGEST, _LARGEST, n, endpoint=True).astype(np.float32),
            "C": np.full(m * n, np.nan, np.float32),
        }
        scalars = {key: problem[key] for key in _FIELDS}
        return Inputs(scalars=scalars, arrays=arrays, outputs=("C",))

    def reference(self, problem: Mapping[str, Scalar], inputs: Inputs) -> Mapping[str, Expected]:
        """C as a flat column-major array; errors are absolute."""
        a, b = (inputs.arrays[name].astype(np.float64) for name in "ab")
        values = int(problem["repeats"]) * np.outer(b, a).ravel()
        return {"C": Expected(values, np.ones_like(values))}

    def verify(
        self, problem: Mapping[str, Scalar], reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Equality: the tolerance is 0."""
        got, expected = outputs["C"], reference["C"].values
        error = np.abs(got - expected)
        worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
        if error[worst] == 0:
            return 0.0, 0.0, ""
        column, row = divmod(worst, int(problem["m"]))
        return float(error[worst]), 0.0, f"C[{row}, {column}]: got {got[worst]!s}, expected {expected[worst]:.9g}"

    def elementwise(
        self,
        problem: Mapping[str, Scalar],  # noqa: ARG002 - every operator has it
        reference: Mapping[str, Expected],
    ) -> tuple[Mapping[str, Expected], float]:
        """As it is: the reference lies like the output."""
        return reference, 0.0

    def flops(self, problem: Mapping[str, Scalar]) -> int:
        """2 m n repeats: the fma that are executed, each an addition and a multiplication."""
        return 2 * int(problem["m"]) * int(problem["n"]) * int(problem["repeats"])

    def bytes_moved(self, problem: Mapping[str, Scalar]) -> int:
        """Both vectors read once, C written once."""
        m, n = int(problem["m"]), int(problem["n"])
        return 4 * (m + n + m * n)

    def fma_dtype(self, problem: Mapping[str, Scalar]) -> np.dtype[Any]:  # noqa: ARG002 - every operator has it
        """float32."""
        return np.dtype(np.float32)
