"""The masked Triton kernel, executed with a Triton that is played with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from fake_triton import Pointer, Values, played

from lab.operators.builtin import operator

MASKED = operator("masked_softmax")


@pytest.mark.parametrize("mask", ["none", "causal", "additive"])
def test_rows_are_scaled_masked_and_normalised(monkeypatch, mask):
    kernels = played(monkeypatch, "lab.gpu.baselines.masked_softmax_triton")
    fields = {"m": 10, "n": 7, "queries": 4, "scale": -0.5, "ldx": 9, "ldm": 8, "ldy": 10, "mask": mask}
    problem = MASKED.problem(fields)
    inputs = MASKED.inputs(problem, 3)
    x, m, y = (inputs.arrays.get(name, np.full(1, np.nan)).view(Values) for name in ("X", "M", "Y"))
    for row in range(10):
        kernels.program[0] = row
        kernels.made.masked_row(
            Pointer(x), Pointer(m), Pointer(y), 7, 4, -0.5, 9, 8, 10,
            CAUSAL=mask == "causal", ADDED=mask == "additive", BLOCK=8,
        )  # fmt: skip
    error, tolerance, worst = MASKED.verify(problem, MASKED.reference(problem, inputs), inputs.arrays)
    assert error <= tolerance, worst
