"""The Triton kernels, executed with a Triton that is played with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from fake_triton import Pointer, played


@pytest.fixture
def kernels(monkeypatch):
    return played(monkeypatch, "lab.gpu.baselines.softmax_triton")


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
