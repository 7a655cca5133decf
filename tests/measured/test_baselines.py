from __future__ import annotations

from lab.measured.baselines import (
    BASELINES,
    COPY,
    CUBLAS,
    TORCH,
    TORCH_COMPILE,
    TORCH_JIT,
    TORCH_NAIVE,
    TRITON,
    declared_bytes,
    unfused_softmax_elements,
)
from lab.operators.builtin import BUILT_IN


def test_every_name_is_in_the_table_once():
    assert list(BASELINES) == [CUBLAS, COPY, TORCH, TORCH_NAIVE, TORCH_JIT, TORCH_COMPILE, TRITON]


def test_baselines_compute_operators_that_exist():
    assert {operator for operators in BASELINES.values() for operator in operators} <= set(BUILT_IN)


def test_five_operations_move_8mn_and_4m_elements():
    m, n = 5, 9
    steps = [(m * n, m), (m * n + m, m * n), (m * n, m * n), (m * n, m), (m * n + m, m * n)]
    assert unfused_softmax_elements(m, n) == sum(map(sum, steps))


def test_the_bytes_of_a_baseline_are_known_where_its_operations_are():
    assert declared_bytes(TORCH_NAIVE, "softmax", {"m": 5, "n": 9, "dtype": "float32"}) == 4 * (8 * 45 + 20)
    assert declared_bytes(TORCH_COMPILE, "softmax", {"m": 5, "n": 9}) is None
    assert declared_bytes(TORCH, "contraction", {}) is None
