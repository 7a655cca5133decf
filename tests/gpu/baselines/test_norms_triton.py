"""The norms' Triton kernels, executed with a Triton that is played with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from fake_triton import Pointer, Values, played


@pytest.fixture
def kernels(monkeypatch):
    return played(monkeypatch, "lab.gpu.baselines.norms_triton")


@pytest.mark.parametrize("n", [1, 5, 8])
@pytest.mark.parametrize("centred", [True, False])
def test_rows_are_norms_and_the_padding_stays(kernels, centred, n):
    rng = np.random.default_rng(0)
    rows, ldx, ldy, epsilon = 3, n + 2, n + 1, 0.125
    x, weight, bias = rng.standard_normal((rows, ldx)) + 1, rng.standard_normal(n), rng.standard_normal(n)
    x[:, n:] = np.nan
    y = np.full((rows, ldy), np.nan)
    for row in range(rows):
        kernels.program[0] = row
        arrays = [Pointer(array.reshape(-1).view(Values)) for array in (x, weight, bias, y)]
        if centred:
            kernels.made.layer_norm_row(*arrays, n, ldx, ldy, epsilon, BLOCK=8)
        else:
            kernels.made.rms_norm_row(arrays[0], arrays[1], arrays[3], n, ldx, ldy, epsilon, BLOCK=8)
    distance = x[:, :n] - (x[:, :n].mean(axis=1, keepdims=True) if centred else 0)
    expected = weight * distance / np.sqrt((distance**2).mean(axis=1, keepdims=True) + epsilon) + centred * bias
    np.testing.assert_allclose(y[:, :n], expected, rtol=1e-12)
    assert np.isnan(y[:, n:]).all()
