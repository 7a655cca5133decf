"""A masked softmax by PyTorch and Triton, both played."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from fake_torch import FakeTorch

from lab.gpu.baselines import masked_softmax
from lab.gpu.baselines.masked_softmax import masked_torch_baseline, masked_triton_baseline
from lab.gpu.device.backend import BaselineMissingError
from lab.operators.builtin import operator

MASKED = operator("masked_softmax")


@pytest.fixture
def torch(monkeypatch):
    played = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", played)
    return played


def loaded(**fields):
    problem = MASKED.problem({"m": 12, "n": 9, "queries": 4, "ldx": 12, "ldm": 11, "ldy": 10, "scale": 0.3, **fields})
    inputs = MASKED.inputs(problem, 0)
    return problem, inputs, {name: array.ctypes.data for name, array in inputs.arrays.items()}


@pytest.mark.parametrize("mask", ["none", "causal", "additive"])
def test_torch_computes_the_operator_and_leaves_the_padding_alone(torch, mask):
    problem, inputs, pointers = loaded(mask=mask)
    baseline = masked_torch_baseline(problem, pointers, 42)
    assert (baseline.name, baseline.library, baseline.kernel) == ("torch", "torch 2.0", "torch.softmax")
    assert torch.streams == [42]
    error, tolerance, worst = MASKED.verify(problem, MASKED.reference(problem, inputs), inputs.arrays)
    assert error <= tolerance, worst


def test_torch_wants_whole_matrices_and_scores_that_it_does_not_round(torch):
    problem, _, pointers = loaded(m=13)
    with pytest.raises(BaselineMissingError, match="whole matrices of 4 queries, and 13 rows are not a multiple"):
        masked_torch_baseline(problem, pointers, 0)
    for fields in ({"scale": 0.3}, {"mask": "additive", "scale": 0.25}):
        problem, _, pointers = loaded(dtype="float16", **fields)
        with pytest.raises(BaselineMissingError, match="PyTorch would round scores to float16"):
            masked_torch_baseline(problem, pointers, 0)
    problem, inputs, pointers = loaded(dtype="float16", scale=-0.25)
    masked_torch_baseline(problem, pointers, 0)
    error, tolerance, worst = MASKED.verify(problem, MASKED.reference(problem, inputs), inputs.arrays)
    assert error <= tolerance, worst


def test_a_torch_that_fails_is_a_missing_baseline(torch):
    torch.fails = True
    problem, _, pointers = loaded()
    with pytest.raises(BaselineMissingError, match="torch's operations fail: CUDA out of memory"):
        masked_torch_baseline(problem, pointers, 0)


class Kernel:
    """A Triton kernel, played: it remembers its arguments."""

    fn = SimpleNamespace(__name__="masked_row")

    def __init__(self):
        self.launched = []

    def __getitem__(self, grid):
        def launch(*arguments, **options):
            self.launched.append((grid, arguments, options))

        return launch


@pytest.mark.parametrize("mask", ["none", "causal", "additive"])
def test_triton_gets_the_arrays_and_sizes_in_its_kernels_order(torch, monkeypatch, mask):
    triton, kernel = ModuleType("triton"), Kernel()
    vars(triton).update(__version__="3.1")
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setattr(masked_softmax, "_triton_kernels", lambda: SimpleNamespace(masked_row=kernel))
    problem, _, pointers = loaded(mask=mask)
    baseline = masked_triton_baseline(problem, pointers, 42, lambda launch: 1.0)
    assert baseline.library == "triton 3.1, BLOCK=32, num_warps=1, whole row in registers"
    ((grid, (x, added, y, *sizes), options),) = kernel.launched
    expected = [pointers["X"], pointers["M" if mask == "additive" else "X"], pointers["Y"]]
    assert [one.ctypes.data for one in (x, added, y)] == expected
    assert (grid, sizes) == ((12,), [9, 4, 0.3, 12, 11, 10])
    causal, additive = mask == "causal", mask == "additive"
    assert options == {"CAUSAL": causal, "ADDED": additive, "BLOCK": 32, "num_warps": 1}


def test_rows_that_no_program_holds_have_no_triton_baseline(torch, monkeypatch):
    monkeypatch.setattr(masked_softmax, "_triton_kernels", SimpleNamespace)
    with pytest.raises(BaselineMissingError, match="at most 32768 columns, not 32769"):
        masked_triton_baseline(MASKED.problem({"m": 1, "n": 32769}), {}, 0, lambda launch: 1.0)


def test_without_triton_the_baseline_is_missing(torch, monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    problem, _, pointers = loaded()
    with pytest.raises(BaselineMissingError, match="triton cannot be imported here"):
        masked_triton_baseline(problem, pointers, 0, lambda launch: 1.0)


def test_the_array_is_not_read_beyond_its_rows(torch):
    problem, inputs, pointers = loaded(m=1, n=1, queries=1, ldx=1, ldm=1, ldy=1)
    masked_torch_baseline(problem, pointers, 0)
    assert inputs.arrays["Y"].tolist() == [1.0]
    assert np.isfinite(inputs.arrays["X"]).all()
