from __future__ import annotations

import numpy as np
import pytest

from lab.base.errors import UserError
from lab.measured.timing import Merit
from lab.operators.builtin import operator

NAMES = ["copy", "transpose"]


def moved(name, **values):
    move = operator(name)
    problem = move.problem({"m": 5, "n": 3, **values})
    inputs = move.inputs(problem, 1)
    return move, problem, inputs, move.reference(problem, inputs)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_what_is_expected_element_by_element(dtype):
    for name, ldb in (("copy", 7), ("transpose", 4)):
        move, problem, inputs, reference = moved(name, dtype=dtype, lda=6, ldb=ldb)
        a, b = inputs.arrays["A"], inputs.arrays["B"].copy()
        assert a.dtype == b.dtype == np.dtype(dtype)
        assert np.isnan(a.reshape(3, 6)[:, 5:]).all()
        assert np.isnan(b).all()
        for i in range(5):
            for j in range(3):
                b[i + j * ldb if name == "copy" else j + i * ldb] = a[i + j * 6]
        assert move.verify(problem, reference, {"B": b}) == (0.0, 0.0, "")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_written_and_one_wrong_element_are_found(name):
    move, problem, inputs, reference = moved(name, ldb=6)
    blank = inputs.arrays["B"].copy()
    largest, tolerance, worst = move.verify(problem, reference, {"B": blank})
    assert not largest <= tolerance
    assert "got nan" in worst
    assert "15 of 15" in worst
    right = np.full_like(blank, np.nan)
    values = reference["B"].values
    right.reshape(-1, 6)[:, : len(values)] = values.T
    assert move.verify(problem, reference, {"B": right}) == (0.0, 0.0, "")
    wrong = right.copy()
    wrong[6] = np.nextafter(wrong[6], np.float32(np.inf))
    assert 0 < move.verify(problem, reference, {"B": wrong})[0] < 1e-6
    strayed = right.copy()
    strayed[5] = 1
    assert move.verify(problem, reference, {"B": strayed}) == (
        np.inf,
        0.0,
        f"B[5, 0]: written, but B has {len(values)} rows",
    )


@pytest.mark.parametrize("name", NAMES)
def test_bytes_count(name):
    move, problem, _, _ = moved(name, dtype="float16", lda=9)
    assert move.merit is Merit.BANDWIDTH
    assert (move.bytes_moved(problem), move.flops(problem)) == (2 * 2 * 15, 0)


def test_defaults():
    assert operator("copy").problem({"m": 9}) == {"m": 9, "n": 1, "dtype": "float32", "lda": 9, "ldb": 9}
    assert operator("transpose").problem({"m": 9, "n": 4})["ldb"] == 4


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({}, "problem.m"),
        ({"m": 0}, "problem.m"),
        ({"m": 4, "n": True}, "problem.n"),
        ({"m": 4, "k": 4}, "problem.k"),
        ({"m": 4, "dtype": "int8"}, "problem.dtype"),
        ({"m": 4, "lda": 3}, "problem.lda"),
        ({"m": 4, "n": 4, "ldb": 3}, "problem.ldb"),
        ({"m": 2**20, "n": 2**12}, "problem.lda"),
    ],
)
def test_wrong_problems_name_their_field(name, values, key):
    with pytest.raises(UserError) as caught:
        operator(name).problem(values)
    assert caught.value.key == key
