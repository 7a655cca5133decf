"""PyTorch's norms, played."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fake_torch import FakeTorch

from lab.gpu.baselines.norms import norm_baseline
from lab.gpu.device.backend import BaselineMissingError
from lab.operators.builtin import operator


def layer_norm(x, shape, weight, bias, *, eps):
    assert shape == x.shape[1:]
    distance = x - x.mean(axis=1, keepdims=True)
    return weight * distance / np.sqrt((distance**2).mean(axis=1, keepdims=True) + eps) + bias


def rms_norm(x, shape, weight, *, eps):
    assert shape == x.shape[1:]
    return weight * x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps)


def fails(x, shape, *weights, eps):
    raise RuntimeError("CUDA out of memory")


@pytest.fixture
def torch(monkeypatch):
    played = FakeTorch()
    functional = SimpleNamespace(layer_norm=layer_norm, rms_norm=rms_norm)
    monkeypatch.setattr(played, "nn", SimpleNamespace(functional=functional), raising=False)
    monkeypatch.setitem(sys.modules, "torch", played)
    return played


def loaded(name):
    norm = operator(name)
    problem = norm.problem({"m": 5, "n": 9, "ldx": 12, "ldy": 10, "epsilon": 0.125})
    inputs = norm.inputs(problem, 0)
    return norm, problem, inputs, {key: array.ctypes.data for key, array in inputs.arrays.items()}


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_torch_computes_the_operator_and_leaves_the_padding_alone(torch, name):
    norm, problem, inputs, pointers = loaded(name)
    baseline = norm_baseline(name, problem, pointers, 42)
    assert (baseline.name, baseline.kernel) == ("torch", f"torch.nn.functional.{name}")
    assert torch.streams == [42]
    assert np.isnan(inputs.arrays["Y"]).all()
    assert baseline.check is not None
    baseline.check()
    error, tolerance, worst = norm.verify(problem, norm.reference(problem, inputs), inputs.arrays)
    assert error <= tolerance, worst


def test_a_torch_without_the_function_or_memory_is_a_missing_baseline(torch):
    _, problem, _, pointers = loaded("rms_norm")
    torch.nn.functional.rms_norm = fails
    with pytest.raises(BaselineMissingError, match=r"torch\.nn\.functional\.rms_norm fails: CUDA out of memory"):
        norm_baseline("rms_norm", problem, pointers, 0)
    del torch.nn.functional.rms_norm
    with pytest.raises(BaselineMissingError, match=r"torch 2\.0 has no torch\.nn\.functional\.rms_norm"):
        norm_baseline("rms_norm", problem, pointers, 0)
