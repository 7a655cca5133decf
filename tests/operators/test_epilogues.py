"""Epilogues of products: GELU against its definition and PyTorch's published values, and bounds that miss no fault."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.base.errors import UserError
from lab.operators.base import Expected
from lab.operators.builtin import operator
from lab.operators.epilogues import applied, gelu
from lab.operators.matrices import matrix
from lab.operators.stored import stored, widened

GEMM = operator("gemm")
FIELDS = {"m": 33, "n": 17, "k": 65, "dtype": "bfloat16", "ldc": 40, "beta": 0.5, "alpha": 0.25, "layout": "tn"}


def test_gelu_at_known_points():
    x = np.array([-10.0, -1.0, 0.0, 1.0, 10.0])
    np.testing.assert_allclose(gelu(x, tanh=False), [0, -0.15865525393, 0, 0.84134474607, 10], atol=1e-10)
    np.testing.assert_allclose(gelu(x, tanh=True), [0, -0.15880800939, 0, 0.84119199061, 10], atol=1e-10)


@pytest.mark.parametrize("tanh", [False, True])
def test_no_slope_is_steeper_than_the_bound_takes_it(tanh):
    x = np.linspace(-20, 20, 400001)
    assert 1.128 < np.max(np.abs(np.diff(gelu(x, tanh=tanh)) / np.diff(x))) < 1.13


@pytest.mark.parametrize("epilogue", ["bias_gelu", "bias_gelu_tanh"])
def test_gelu_in_single_precision_stays_within_its_bound(epilogue):
    x = np.linspace(-12, 12, 20001, dtype=np.float32)
    product = Expected(x[:, np.newaxis].astype(np.float64), np.full((x.size, 1), 1e-300))
    applied_epilogue = applied(epilogue, product, np.zeros(x.size))
    if epilogue == "bias_gelu":
        erf = np.array([math.erf(value) for value in x * np.float32(0.70710678)], np.float32)
        got = x * np.float32(0.5) * (np.float32(1) + erf)
    else:
        with np.errstate(over="ignore"):
            got = x / (1 + np.exp(x * (np.float32(-1.5957691) + np.float32(-0.071354816) * (x * x))))
    assert got.dtype == np.float32
    error = np.abs(got.astype(np.float64) - applied_epilogue.values[:, 0]) / applied_epilogue.scale[:, 0]
    assert error.max() <= 1


@pytest.mark.parametrize("epilogue", ["bias", "bias_gelu", "bias_gelu_tanh"])
def test_the_reference_is_the_definition_and_misses_no_bias(epilogue):
    problem = GEMM.problem({**FIELDS, "epilogue": epilogue})
    inputs = GEMM.inputs(problem, 3)
    a, b, c = (widened(matrix(inputs.arrays[name], *problem.shapes[name])) for name in "ABC")
    bias = widened(inputs.arrays["bias"])
    product = 0.25 * (a.T @ b) + 0.5 * c
    reference = GEMM.reference(problem, inputs)
    found = {
        "right": product + bias[:, np.newaxis],
        "a bias of the next row": product + np.roll(bias, 1)[:, np.newaxis],
        "none": product,
    }
    for words, x in found.items():
        values = x if epilogue == "bias" else gelu(x, tanh=epilogue == "bias_gelu_tanh")
        whole = np.full((problem.n, problem.ldc), np.nan, np.float32)
        whole[:, : problem.m] = values.T
        error, tolerance, _ = GEMM.verify(problem, reference, {"C": stored(whole.reshape(-1), "bfloat16")})
        assert (error <= tolerance) == (words == "right")


def test_a_product_without_one_keeps_its_identity_and_inputs():
    plain, biased = (GEMM.problem({**FIELDS, **more}) for more in ({}, {"epilogue": "bias"}))
    assert "epilogue" not in plain
    assert biased["epilogue"] == "bias"
    before, after = GEMM.inputs(plain, 5).arrays, GEMM.inputs(biased, 5).arrays
    assert after.keys() - before.keys() == {"bias"}
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert GEMM.bytes_moved(biased) - GEMM.bytes_moved(plain) == 2 * biased["m"]


@pytest.mark.parametrize(
    ("given", "accepted"),
    [({"dtype": "float32", "epilogue": "bias"}, "no value"), ({"epilogue": "relu"}, "bias_gelu")],
)
def test_what_no_kernel_does_is_refused(given, accepted):
    with pytest.raises(UserError) as caught:
        GEMM.problem({**FIELDS, **given})
    assert caught.value.key == "problem.epilogue"
    assert accepted in str(caught.value)
