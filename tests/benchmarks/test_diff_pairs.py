"""`benchmarks/diff_pairs.py`: which variants are a pair, and when a sign is right."""

from __future__ import annotations

from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def script(benchmark_script):
    return benchmark_script("diff_pairs")


def record(**parameters):
    return SimpleNamespace(kernel="k", problem={"n": 1}, arch="sm_90", compiler="nvrtc", parameters=parameters)


def test_one_parameter_differs(script):
    assert script.differing(record(a=1, b=2), record(a=1, b=3)) == ["b"]
    assert script.differing(record(a=1, b=2), record(a=2, b=3)) == ["a", "b"]
    other = record(a=1)
    other.arch = "sm_80"
    assert len(script.differing(record(a=2), other)) == 2


@pytest.mark.parametrize(
    ("measured", "predicted", "right"), [(1.1, 1.01, True), (1.1, 0.9, False), (0.9, 1.0, False), (1.1, None, False)]
)
def test_signs(script, measured, predicted, right):
    assert script.Pair("run", "change", measured, predicted).right is right
