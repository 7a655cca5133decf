"""The operator softmax: inputs, reference, and a comparison that passes what is right and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from narrowing import known

from lab.base.errors import UserError
from lab.measured.timing import Merit
from lab.operators.bfloat16 import from_float32, to_float32
from lab.operators.builtin import operator

SOFTMAX = operator("softmax")


def setting(dtype="float32", m=12, n=700, **fields):
    problem = SOFTMAX.problem({"m": m, "n": n, "dtype": dtype, **fields})
    inputs = SOFTMAX.inputs(problem, 0)
    return problem, inputs, SOFTMAX.reference(problem, inputs)


def matrix(problem, inputs):
    x = inputs.arrays["X"].reshape(problem["m"], problem["ldx"])[:, : problem["n"]]
    return (to_float32(x) if problem["dtype"] == "bfloat16" else x).astype(np.float32)


def stable_softmax(x):
    """NumPy's stable softmax in float32."""
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)


def judged(problem, inputs, reference, y):
    stored = from_float32(y.astype(np.float32)) if problem["dtype"] == "bfloat16" else y.astype(problem["dtype"])
    out = inputs.arrays["Y"].copy()
    out.reshape(problem["m"], problem["ldy"])[:, : problem["n"]] = stored
    return SOFTMAX.verify(problem, reference, {"Y": out})


DTYPES = pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])


@DTYPES
@pytest.mark.parametrize("values", ["normal", "special"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (20, 1), (20, 2), (31, 781), (10, 5000)])
def test_numpys_stable_softmax_in_single_precision_passes(dtype, values, m, n):
    problem, inputs, reference = setting(dtype, m, n, values=values, ldx=n + 3, ldy=n + 1)
    error, tolerance, worst = judged(problem, inputs, reference, stable_softmax(matrix(problem, inputs)))
    assert error <= tolerance == 1.0, worst
    assert worst == ""


@DTYPES
def test_special_rows_are_nan_where_numpy_says_so(dtype):
    problem, inputs, reference = setting(dtype, 20, 50, values="special")
    wrong = np.isnan(reference["Y"].values)
    assert [i for i in range(10) if wrong[i].all()] == [1, 2, 3]
    assert [i for i in range(10) if wrong[i].any()] == [1, 2, 3]
    np.testing.assert_array_equal(wrong, np.isnan(stable_softmax(matrix(problem, inputs))))
    assert np.all(reference["Y"].scale > 0)


@DTYPES
def test_wrong_outputs_fail(dtype):
    problem, inputs, reference = setting(dtype, ldy=707)
    right = stable_softmax(matrix(problem, inputs))
    without_last = np.exp(matrix(problem, inputs)[:, :-1]).sum(axis=1, keepdims=True)
    mutants = {
        "a missing term": right * (np.exp(matrix(problem, inputs)).sum(axis=1, keepdims=True) / without_last),
        "no maximum": np.full_like(right, 1 / 700),
        "swapped rows": right[::-1],
        "unwritten": np.where(np.arange(700) == 13, np.nan, right),
        "too large": right * 1.01,
    }
    for name, mutant in mutants.items():
        error, tolerance, worst = judged(problem, inputs, reference, mutant)
        assert error > tolerance, name
        assert worst != "", name


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_missing_term_of_a_long_row_shows_in_half_precision(dtype):
    problem, inputs, reference = setting(dtype, 16, 12672)
    x = matrix(problem, inputs).astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    assert judged(problem, inputs, reference, e / e.sum(axis=1, keepdims=True))[0] <= 1
    assert judged(problem, inputs, reference, e / e[:, :-1].sum(axis=1, keepdims=True))[0] > 1


@DTYPES
def test_padding_must_be_untouched(dtype):
    problem, inputs, reference = setting(dtype, 3, 5, ldy=8)
    out = inputs.arrays["Y"].copy()
    out.reshape(3, 8)[:, :5] = (from_float32 if dtype == "bfloat16" else lambda v: v)(
        stable_softmax(matrix(problem, inputs))
    )
    assert SOFTMAX.verify(problem, reference, {"Y": out})[2] == ""
    out[2 * 8 + 6] = 0
    assert SOFTMAX.verify(problem, reference, {"Y": out})[2] == "Y[2, 6]: written, but Y has 5 columns"


def test_a_nan_too_many_or_too_few_fails():
    problem, inputs, reference = setting(m=10, n=40, values="special")
    right = stable_softmax(matrix(problem, inputs))
    for row, value in ((1, 0.0), (0, np.nan)):
        changed = right.copy()
        changed[row, 7] = value
        assert judged(problem, inputs, reference, changed)[0] == np.inf


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_elementwise_form_finds_the_same_error(dtype):
    problem, inputs, reference = setting(dtype, 20, 77, ldy=80, values="special")
    expected, tolerance = known(SOFTMAX.elementwise(problem, reference))
    right = stable_softmax(matrix(problem, inputs))
    for scale in (1.0, 1.01):
        out = inputs.arrays["Y"].copy()
        out.reshape(20, 80)[:, :77] = (right * scale).astype(dtype)
        with np.errstate(invalid="ignore"):
            error = np.abs(out.astype(np.float64) - expected["Y"].values) / expected["Y"].scale
        must_be_nan = np.isnan(expected["Y"].scale)
        assert np.isnan(out[must_be_nan]).all()
        largest = error[~must_be_nan].max()
        assert largest == pytest.approx(SOFTMAX.verify(problem, reference, {"Y": out})[0])
        assert (largest <= tolerance) == (scale == 1.0)


def test_figures():
    problem = SOFTMAX.problem({"m": 4096, "n": 256, "dtype": "bfloat16"})
    assert SOFTMAX.bytes_moved(problem) == 2 * 4096 * 256 * 2
    assert SOFTMAX.flops(problem) == 5 * 4096 * 256
    assert SOFTMAX.merit is Merit.BANDWIDTH
    assert SOFTMAX.fma_dtype(problem) == np.float32
    assert (problem["ldx"], problem["ldy"]) == (256, 256)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"n": 4}, "problem.m"),
        ({"m": 4}, "problem.n"),
        ({"m": 0, "n": 4}, "problem.m"),
        ({"m": 4, "n": 4, "ldx": 3}, "problem.ldx"),
        ({"m": 4, "n": 4, "dtype": "float64"}, "problem.dtype"),
        ({"m": 4, "n": 4, "values": "odd"}, "problem.values"),
        ({"m": 4, "n": 4, "k": 4}, "problem.k"),
        ({"m": 4, "n": True}, "problem.n"),
    ],
)
def test_wrong_problems_are_named(fields, key):
    with pytest.raises(UserError) as caught:
        SOFTMAX.problem(fields)
    assert caught.value.key == key
