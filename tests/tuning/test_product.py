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


def test_members_of_a_batch_lie_one_behind_another() -> None:
    problem = product(ProblemType("float32", "tn", batched=True), (5, 7, 9, 4))
    assert (problem.m, problem.n, problem.k, problem.batch) == (5, 7, 9, 4)
    assert [problem[name] for name in ("batches", "stride_a", "stride_b", "stride_c")] == ["strided", 45, 63, 35]
    assert GemmProblem.restored(dict(problem)) == problem
