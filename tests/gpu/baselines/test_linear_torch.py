"""PyTorch's linear layer as a baseline, with a PyTorch that computes on the host: device addresses are NumPy's."""

from __future__ import annotations

import sys

import pytest
from fake_torch import FakeTorch

from lab.gpu.baselines.linear_torch import linear_baseline
from lab.gpu.device.backend import BaselineMissingError
from lab.operators.builtin import operator

GEMM = operator("gemm")
FIELDS = {"m": 7, "n": 5, "k": 3, "dtype": "float16", "epilogue": "bias"}


def made(monkeypatch, fields, **behaviour):
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(**behaviour))
    problem = GEMM.problem(fields)
    inputs = GEMM.inputs(problem, 0)
    pointers = {name: array.ctypes.data for name, array in inputs.arrays.items()}
    return problem, inputs, linear_baseline(problem, inputs, pointers, 0)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("epilogue", ["bias", "bias_gelu", "bias_gelu_tanh"])
def test_it_leaves_the_layer_in_c(monkeypatch, epilogue, layout):
    fields = {**FIELDS, "epilogue": epilogue, "layout": layout, "lda": 8, "ldb": 9, "ldc": 10}
    problem, inputs, baseline = made(monkeypatch, fields)
    inputs.arrays["C"][:] = float("nan")
    baseline.launch()
    error, tolerance, worst = GEMM.verify(problem, GEMM.reference(problem, inputs), {"C": inputs.arrays["C"]})
    rounded_once = epilogue != "bias_gelu"
    assert error <= tolerance * (1 if rounded_once else 3), worst
    assert baseline.computes == rounded_once
    assert ("rounded" in baseline.note) != rounded_once
    assert (baseline.name, baseline.library) == ("torch", "torch 2.0")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"alpha": 2.0}, "alpha = 1"),
        ({"beta": 1.0}, "beta = 0"),
        ({"out_dtype": "float32"}, "type"),
        ({"epilogue": None}, "cublas computes the others"),
    ],
)
def test_what_a_linear_layer_does_not_compute_is_refused(monkeypatch, changed, words):
    with pytest.raises(BaselineMissingError, match=words):
        made(monkeypatch, {**FIELDS, **changed})


def test_what_it_lacks_is_said(monkeypatch):
    with pytest.raises(BaselineMissingError, match="finds no GPU"):
        made(monkeypatch, FIELDS, available=False)
    with pytest.raises(BaselineMissingError, match=r"torch\.addmm fails: CUDA out of memory"):
        made(monkeypatch, FIELDS, fails=True)
