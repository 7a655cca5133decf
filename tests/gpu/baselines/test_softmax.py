"""Softmax by PyTorch and Triton, both played."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from fake_torch import FakeTorch

from lab.gpu.baselines import softmax
from lab.gpu.baselines.softmax import (
    compiled_baseline,
    naive_baseline,
    torch_baseline,
    triton_baseline,
)
from lab.gpu.device.backend import BaselineMissingError
from lab.operators.builtin import operator

SOFTMAX = operator("softmax")


@pytest.fixture
def torch(monkeypatch):
    played = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", played)
    return played


def loaded(**fields):
    problem = SOFTMAX.problem({"m": 5, "n": 9, "ldx": 12, "ldy": 10, **fields})
    inputs = SOFTMAX.inputs(problem, 0)
    return problem, inputs, {name: array.ctypes.data for name, array in inputs.arrays.items()}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_torch_computes_the_operator_and_leaves_the_padding_alone(torch, dtype):
    problem, inputs, pointers = loaded(dtype=dtype)
    baseline = torch_baseline(problem, pointers, 42)
    assert (baseline.name, baseline.library, baseline.kernel) == ("torch", "torch 2.0", "torch.softmax")
    assert torch.streams == [42]
    error, tolerance, worst = SOFTMAX.verify(problem, SOFTMAX.reference(problem, inputs), inputs.arrays)
    assert error <= tolerance, worst


def test_a_torch_that_fails_is_a_missing_baseline(torch):
    torch.fails = True
    problem, _, pointers = loaded()
    with pytest.raises(BaselineMissingError, match=r"torch\.softmax fails: CUDA out of memory"):
        torch_baseline(problem, pointers, 0)


def test_five_operations_compute_the_operator_too(torch):
    problem, inputs, pointers = loaded()
    baseline = naive_baseline(problem, pointers, 42)
    assert (baseline.name, baseline.note) == ("torch-naive", "five operations, which move 1520 bytes")
    assert torch.streams == [42]
    error, tolerance, worst = SOFTMAX.verify(problem, SOFTMAX.reference(problem, inputs), inputs.arrays)
    assert error <= tolerance, worst


def test_five_operations_are_for_single_precision_and_may_fail(torch):
    problem, _, pointers = loaded(dtype="float16")
    with pytest.raises(BaselineMissingError, match="torch-naive computes float32, not float16"):
        naive_baseline(problem, pointers, 0)
    torch.fails = True
    problem, _, pointers = loaded()
    with pytest.raises(BaselineMissingError, match="torch's operations fail: CUDA out of memory"):
        naive_baseline(problem, pointers, 0)


@pytest.fixture
def compilers(monkeypatch, torch):
    """PyTorch's two compilers, which give a function back as it is, and what they were asked."""
    calls: list[object] = []

    def reset():
        calls.append("reset")

    def compiled(function, **options):
        calls.append(options)
        return function

    def into(x, y):
        powers = torch.exp(torch.sub(x, torch.amax(x, 1, keepdim=True)))
        torch.div(powers, torch.sum(powers, 1, keepdim=True), out=y)

    torch.jit = SimpleNamespace(script=compiled)
    torch.compile, torch.compiler = compiled, SimpleNamespace(reset=reset)
    monkeypatch.setattr(softmax, "_torch_functions", lambda: SimpleNamespace(softmax_into=into))
    return calls


@pytest.mark.parametrize(
    ("name", "by", "asked"),
    [
        ("torch-jit", "torch.jit.script", [{}]),
        ("torch-compile", "torch.compile", ["reset", {"fullgraph": True, "dynamic": False}]),
    ],
)
def test_operations_that_torch_compiles_compute_the_operator(torch, compilers, name, by, asked):
    problem, inputs, pointers = loaded()
    baseline = compiled_baseline(problem, pointers, 42, name)
    assert (baseline.name, baseline.library, baseline.kernel) == (name, "torch 2.0", by)
    assert compilers == asked
    assert torch.streams == [42]
    error, tolerance, worst = SOFTMAX.verify(problem, SOFTMAX.reference(problem, inputs), inputs.arrays)
    assert error <= tolerance, worst


def test_what_torch_cannot_compile_is_a_missing_baseline(torch, compilers):
    problem, _, pointers = loaded(dtype="float16")
    with pytest.raises(BaselineMissingError, match="torch-jit computes float32, not float16"):
        compiled_baseline(problem, pointers, 0, "torch-jit")
    torch.fails = True
    problem, _, pointers = loaded()
    with pytest.raises(BaselineMissingError, match="torch-compile fails: RuntimeError: CUDA out of memory"):
        compiled_baseline(problem, pointers, 0, "torch-compile")


class Kernel:
    """A Triton kernel: computes nothing, and remembers how it was launched."""

    def __init__(self, name):
        self.fn, self.launched, self.error = SimpleNamespace(__name__=name), [], None

    def __getitem__(self, grid):
        def launch(x, y, n, ldx, ldy, *, BLOCK, num_warps):  # noqa: N803 - the kernel's own name
            if self.error:
                raise self.error
            self.launched.append((grid, n, ldx, ldy, BLOCK, num_warps))
            return SimpleNamespace(asm={"ptx": f"// {num_warps} warps"})

        return launch


@pytest.fixture
def kernels(monkeypatch, torch):
    played = SimpleNamespace(whole_row=Kernel("whole_row"), two_passes=Kernel("two_passes"))
    triton = ModuleType("triton")
    vars(triton).update(__version__="3.1")
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setattr(softmax, "_triton_kernels", lambda: played)
    return played


def test_the_fastest_number_of_warps_is_taken(kernels):
    problem, _, pointers = loaded(n=1000, ldx=1000, ldy=1000)
    times = iter([5.0, 4.0, 2.0, 3.0, 6.0, 7.0])
    baseline = triton_baseline(problem, pointers, 0, lambda launch: next(times))
    assert baseline.library == "triton 3.1, BLOCK=1024, num_warps=4, whole row in registers"
    assert (baseline.kernel, baseline.ptx) == ("whole_row", "// 4 warps")
    kernels.whole_row.launched.clear()
    baseline.launch()
    assert kernels.whole_row.launched == [((5,), 1000, 1000, 1000, 1024, 4)]


def test_long_rows_are_read_twice(kernels):
    problem, _, pointers = loaded(n=40_000, ldx=40_000, ldy=40_000)
    baseline = triton_baseline(problem, pointers, 0, lambda launch: 1.0)
    assert baseline.library.endswith("BLOCK=8192, num_warps=4, row read twice")
    assert [warps for *_, warps in kernels.two_passes.launched] == [4, 8, 16, 32]


def test_whatever_triton_raises_is_a_missing_baseline(kernels):
    kernels.whole_row.error = ValueError("no such target")
    problem, _, pointers = loaded()
    with pytest.raises(BaselineMissingError, match="the Triton kernel fails: ValueError: no such target"):
        triton_baseline(problem, pointers, 0, lambda launch: 1.0)


def test_without_triton_the_baseline_is_missing(torch, monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    problem, _, pointers = loaded()
    with pytest.raises(BaselineMissingError, match="triton cannot be imported here"):
        triton_baseline(problem, pointers, 0, lambda launch: 1.0)


def test_the_array_is_not_read_beyond_its_rows(torch):
    problem, inputs, pointers = loaded(m=1, n=1, ldx=1, ldy=1)
    torch_baseline(problem, pointers, 0)
    assert inputs.arrays["Y"].tolist() == [1.0]
    assert np.isfinite(inputs.arrays["X"]).all()
