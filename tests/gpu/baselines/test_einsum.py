"""PyTorch's einsum as a baseline, with a PyTorch that computes on the host: device addresses are NumPy's."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from contraction_cases import by_numpy, problems
from fake_torch import FakeTorch
from hypothesis import given

from lab.gpu.baselines.einsum import einsum_baseline
from lab.gpu.device.backend import BaselineMissingError
from lab.operators.builtin import operator

CONTRACTION = operator("contraction")


def made(monkeypatch, fields, **behaviour):
    torch = FakeTorch(**behaviour)
    monkeypatch.setitem(sys.modules, "torch", torch)
    problem = CONTRACTION.problem(fields)
    inputs = CONTRACTION.inputs(problem, 0)
    pointers = {name: array.ctypes.data for name, array in inputs.arrays.items()}
    return torch, problem, inputs, einsum_baseline(problem, pointers, 0)


@given(problems(most=5))
def test_its_check_leaves_the_contraction_in_c(fields):
    with pytest.MonkeyPatch.context() as monkeypatch:
        torch, problem, inputs, baseline = made(monkeypatch, fields)
        expected = by_numpy(problem, inputs)
        before, calls = inputs.arrays["C"].copy(), torch.einsums
        baseline.launch()
        np.testing.assert_array_equal(inputs.arrays["C"], before)
        assert torch.einsums == calls + (problem["alpha"] != 0)
        baseline.check()
        got = inputs.arrays["C"].reshape(expected.shape, order="F")
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3)
        assert (baseline.name, baseline.library) == ("torch", "torch 2.0")


FIELDS: dict[str, Any] = {"einsum": "ik,kj->ij", "i": 3, "j": 4, "k": 5}


def test_what_it_lacks_is_said(monkeypatch):
    with pytest.raises(BaselineMissingError, match="finds no GPU"):
        made(monkeypatch, FIELDS, available=False)
    with pytest.raises(BaselineMissingError, match=r"torch\.einsum fails: CUDA out of memory"):
        made(monkeypatch, FIELDS, fails=True)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BaselineMissingError, match="torch cannot be imported"):
        einsum_baseline(CONTRACTION.problem(FIELDS), {}, 0)
