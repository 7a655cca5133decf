"""The operations that PyTorch compiles, by a PyTorch that NumPy plays."""

from __future__ import annotations

import importlib
import sys

import numpy as np
from fake_torch import FakeTorch


def test_the_operations_compute_a_softmax(monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "lab.gpu.baselines.softmax_torch", raising=False)
    functions = importlib.import_module("lab.gpu.baselines.softmax_torch")
    monkeypatch.delitem(sys.modules, "lab.gpu.baselines.softmax_torch")
    x = np.array([[1.0, 2.0, 4.0], [0.0, 0.0, 90.0]], np.float32)
    y = np.full_like(x, np.nan)
    functions.softmax_into(x, y)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(axis=1, keepdims=True), rtol=1e-6)
