"""The GEMM of a problem type at one size."""

from __future__ import annotations

from lab.base.sizes import Size
from lab.operators.gemm import GemmProblem
from lab.store.tuning_model import ProblemType


def product(of: ProblemType, size: Size) -> GemmProblem:
    """Return the GEMM at a size, with minimal leading dimensions; α is 1 and β is 0.

    The members of a batch lie one behind another.
    """
    return GemmProblem.of({**dict(zip(of.axes, size, strict=True)), "dtype": of.dtype, "layout": of.layout})
