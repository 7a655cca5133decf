"""Buffers as tensors, with a PyTorch that is played."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from fake_torch import FakeTorch

from lab.gpu.baselines.torch import flat_tensor, module, torch_with_cuda
from lab.gpu.device.backend import BaselineMissingError


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_tensor_shares_the_buffers_memory(dtype):
    array = np.arange(6, dtype=dtype)
    tensor = flat_tensor(FakeTorch(), array.ctypes.data, 6, dtype)
    assert (tensor.shape, tensor.dtype) == ((6,), array.dtype)
    tensor[2] = 9
    assert array[2] == 9


def test_bfloat16_is_passed_as_its_bits():
    array = np.array([0x3F80, 0xBF80], np.uint16)
    tensor = flat_tensor(FakeTorch(), array.ctypes.data, 2, "bfloat16")
    assert tensor.tolist() == [0x3F80, 0xBF80]


def test_a_torch_without_a_gpu_is_a_missing_baseline(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(available=False))
    with pytest.raises(BaselineMissingError, match="torch was built without CUDA, or finds no GPU"):
        torch_with_cuda()


def test_a_module_that_is_not_installed_is_a_missing_baseline():
    assert module("json").__name__ == "json"
    with pytest.raises(BaselineMissingError, match="not_installed_here cannot be imported here: No module named"):
        module("not_installed_here")
