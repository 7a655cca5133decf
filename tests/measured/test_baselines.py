from __future__ import annotations

from lab.measured.baselines import BASELINES, COPY, CUBLAS, TORCH, TORCH_COMPILE, TORCH_JIT, TORCH_NAIVE, TRITON
from lab.operators.builtin import BUILT_IN


def test_every_name_is_in_the_table_once():
    assert list(BASELINES) == [CUBLAS, COPY, TORCH, TORCH_NAIVE, TORCH_JIT, TORCH_COMPILE, TRITON]


def test_baselines_compute_operators_that_exist():
    assert {operator for operators in BASELINES.values() for operator in operators} <= set(BUILT_IN)
