"""The Triton kernels, executed with a Triton that is played with NumPy."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest


class Pointer:
    """An address, or a block of addresses, in an array; stores beyond the mask would fail."""

    def __init__(self, array, offset=0):
        self.array, self.offset = array, offset
        self.dtype = SimpleNamespace(element_ty=array.dtype)

    def __add__(self, step):
        return Pointer(self.array, self.offset + step)


class Values(np.ndarray):
    """A block of values; `to` is Triton's conversion."""

    def to(self, dtype):
        return self.astype(dtype)


def load(pointer, mask, other):
    inside = np.where(mask, pointer.offset, 0)
    return np.where(mask, pointer.array[inside], other).astype(np.float64).view(Values)


def store(pointer, values, mask):
    pointer.array[pointer.offset[mask]] = values[mask]


@pytest.fixture
def kernels(monkeypatch):
    program = [0]
    language = ModuleType("triton.language")
    members = {
        "constexpr": int, "int64": np.int64, "float32": np.float64, "load": load, "store": store, "exp": np.exp,
        "maximum": np.maximum, "where": np.where, "arange": np.arange, "zeros": np.zeros,
        "full": lambda shape, value, dtype: np.full(shape, value, dtype).view(Values),
        "max": lambda x, axis: np.max(np.asarray(x), axis=axis),
        "sum": lambda x, axis: np.sum(np.asarray(x), axis=axis),
        "program_id": lambda axis: SimpleNamespace(to=lambda dtype: program[axis]),
    }  # fmt: skip
    vars(language).update(members)
    triton = ModuleType("triton")
    triton.jit, triton.language = (lambda function: function), language
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", language)
    monkeypatch.delitem(sys.modules, "lab.gpu.baselines.softmax_triton", raising=False)
    made = importlib.import_module("lab.gpu.baselines.softmax_triton")
    yield SimpleNamespace(made=made, program=program)
    del sys.modules["lab.gpu.baselines.softmax_triton"]


@pytest.mark.parametrize(("name", "n", "block"), [("whole_row", 5, 8), ("two_passes", 8, 8), ("two_passes", 21, 8)])
def test_rows_are_softmax_and_the_padding_stays(kernels, name, n, block):
    rows, ldx, ldy = 3, n + 2, n + 1
    x = np.random.default_rng(0).standard_normal((rows, ldx))
    x[0, 1], x[1, :n] = -np.inf, 700.0  # would overflow without the largest taken off
    x[:, n:] = np.nan
    y = np.full((rows, ldy), np.nan)
    for row in range(rows):
        kernels.program[0] = row
        getattr(kernels.made, name)(Pointer(x.ravel()), Pointer(y.reshape(-1)), n, ldx, ldy, BLOCK=block)
    exponentials = np.exp(x[:, :n] - x[:, :n].max(axis=1, keepdims=True))
    np.testing.assert_allclose(y[:, :n], exponentials / exponentials.sum(axis=1, keepdims=True), rtol=1e-12)
    assert np.isnan(y[:, n:]).all()
