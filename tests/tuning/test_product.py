"""The problem of one size."""

from __future__ import annotations

import pytest

from lab.operators.gemm import GemmProblem
from lab.store.tuning_model import ProblemType
from lab.tuning.product import product


@pytest.mark.parametrize(("layout", "lda", "ldb"), [("nn", 5, 9), ("nt", 5, 7), ("tn", 9, 9), ("tt", 9, 7)])
def test_leading_dimensions_are_the_least(layout: str, lda: int, ldb: int) -> None:
    problem = product(ProblemType("float32", layout), (5, 7, 9))
    assert isinstance(problem, GemmProblem)
    assert (problem.m, problem.n, problem.k, problem.layout) == (5, 7, 9, layout)
    assert (problem.lda, problem.ldb, problem.ldc) == (lda, ldb, 5)
    assert (problem.alpha, problem.beta) == (1.0, 0.0)
