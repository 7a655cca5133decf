"""Norms by PyTorch and Triton, both played."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from fake_torch import FakeTorch

from lab.gpu.baselines import norms
from lab.gpu.baselines.norms import norm_baseline, triton_norm_baseline
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


class Kernel:
    """A Triton kernel, played: it remembers its arguments."""

    def __init__(self, name):
        self.fn, self.launched = SimpleNamespace(__name__=name), []

    def __getitem__(self, grid):
        def launch(*arguments, BLOCK, num_warps):  # noqa: N803 - the kernel's own name
            self.launched.append((grid, arguments, BLOCK, num_warps))

        return launch


@pytest.mark.parametrize(("name", "weights"), [("layer_norm", ["W", "B"]), ("rms_norm", ["W"])])
def test_triton_gets_the_arrays_and_sizes_in_its_kernels_order(torch, monkeypatch, name, weights):
    triton, kernel = ModuleType("triton"), Kernel(f"{name}_row")
    vars(triton).update(__version__="3.1")
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setattr(norms, "_triton_kernels", lambda: SimpleNamespace(**{f"{name}_row": kernel}))
    _, problem, inputs, pointers = loaded(name)
    baseline = triton_norm_baseline(name, problem, pointers, 42, lambda launch: 1.0)
    assert baseline.library == "triton 3.1, BLOCK=32, num_warps=1, whole row in registers"
    assert torch.streams == [42]
    ((grid, arguments, block, warps),) = kernel.launched
    assert (grid, block, warps) == ((5,), 32, 1)
    x, *given, y = arguments[: 2 + len(weights)]
    np.testing.assert_array_equal(x, inputs.arrays["X"].reshape(5, 12)[:, :9])
    for array, weight in zip(given, weights, strict=True):
        np.testing.assert_array_equal(array, inputs.arrays[weight])
    assert y.ctypes.data == pointers["Y"]
    assert arguments[2 + len(weights) :] == (9, 12, 10, 0.125)


def test_rows_that_no_program_holds_have_no_triton_baseline(torch, monkeypatch):
    monkeypatch.setattr(norms, "_triton_kernels", SimpleNamespace)
    problem = operator("rms_norm").problem({"m": 1, "n": 32769})
    with pytest.raises(BaselineMissingError, match="at most 32768 columns, not 32769"):
        triton_norm_baseline("rms_norm", problem, {}, 0, lambda launch: 1.0)
