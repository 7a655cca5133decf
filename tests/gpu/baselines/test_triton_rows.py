"""Triton kernels of one row a program, played."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from fake_torch import FakeTorch

from lab.gpu.baselines.triton_rows import RowLaunch, block_of, fastest, warp_counts
from lab.gpu.device.backend import BaselineMissingError


@pytest.mark.parametrize(
    ("block", "warps"),
    [(32, (1,)), (64, (1, 2)), (2048, (1, 2, 4, 8, 16, 32)), (4096, (2, 4, 8, 16, 32)), (32768, (16, 32))],
)
def test_a_thread_holds_at_least_one_and_at_most_64_elements(block, warps):
    assert warp_counts(block) == warps


@pytest.mark.parametrize(("n", "block"), [(1, 32), (32, 32), (33, 64), (1000, 1024), (1024, 1024), (1025, 2048)])
def test_a_program_holds_the_next_power_of_two_of_columns(n, block):
    assert block_of(n) == block


class Kernel:
    """A Triton kernel: computes nothing, and remembers how it was launched."""

    def __init__(self, error=None):
        self.fn, self.launched, self.error = SimpleNamespace(__name__="some_rows"), [], error

    def __getitem__(self, grid):
        def launch(*arguments, **options):
            if self.error:
                raise self.error
            self.launched.append((grid, arguments, options))
            return SimpleNamespace(asm={"ptx": f"// {options['num_warps']} warps"})

        return launch


@pytest.fixture
def torch(monkeypatch):
    torch, triton = FakeTorch(), ModuleType("triton")
    vars(triton).update(__version__="3.1")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "triton", triton)
    return torch


def test_the_fastest_number_of_warps_is_launched_with_all_arguments(torch):
    kernel, times = Kernel(), iter([3.0, 1.0, 2.0])
    launch = RowLaunch(kernel, 5, (1, "y"), {"BLOCK": 128, "FORM": 2}, "in words")
    made = fastest(launch, 7, lambda queue: next(times))
    assert (made.name, made.kernel, made.ptx) == ("triton", "some_rows", "// 2 warps")
    assert made.library == "triton 3.1, BLOCK=128, num_warps=2, in words"
    assert torch.streams == [7]
    kernel.launched.clear()
    made.launch()
    assert kernel.launched == [((5,), (1, "y"), {"BLOCK": 128, "FORM": 2, "num_warps": 2})]


def test_whatever_triton_raises_is_a_missing_baseline(torch):
    with pytest.raises(BaselineMissingError, match="the Triton kernel fails: ValueError: no such target"):
        fastest(RowLaunch(Kernel(ValueError("no such target")), 1, (), {"BLOCK": 64}, ""), 7, lambda queue: 1.0)
