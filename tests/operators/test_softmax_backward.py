from __future__ import annotations

import numpy as np
import pytest

from lab.base.errors import UserError
from lab.operators.builtin import operator
from lab.operators.rows import rows_of
from lab.operators.stored import stored, widened

BACKWARD = operator("softmax_backward")


def loaded(**fields):
    problem = BACKWARD.problem({"m": 5, "n": 9, "ldy": 10, "lddy": 12, "lddx": 11, **fields})
    return problem, BACKWARD.inputs(problem, 3)


def test_the_gradient_is_the_jacobian_times_what_arrives() -> None:
    problem, inputs = loaded()
    got = BACKWARD.reference(problem, inputs)["dX"].values
    for row, dy, dx in zip(
        widened(rows_of(inputs.arrays["Y"], 5, 9, 10)),
        widened(rows_of(inputs.arrays["dY"], 5, 9, 12)),
        got,
        strict=True,
    ):
        jacobian = np.diag(row) - np.outer(row, row)
        np.testing.assert_allclose(dx, jacobian @ dy, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_arithmetic_in_float32_is_right_and_a_missing_term_is_not(dtype: str) -> None:
    problem, inputs = loaded(n=700, ldy=700, lddy=700, lddx=700, dtype=dtype)
    reference = BACKWARD.reference(problem, inputs)
    y, dy = (widened(inputs.arrays[name]).reshape(5, 700).astype(np.float32) for name in ("Y", "dY"))
    products = y * dy
    for used, right in ((products, True), (products[:, 1:], False)):
        inputs.arrays["dX"][...] = stored(y * (dy - used.sum(axis=1, keepdims=True)), dtype).reshape(-1)
        error, tolerance, _ = BACKWARD.verify(problem, reference, inputs.arrays)
        assert (error <= tolerance) == right


def test_the_counts() -> None:
    problem, _ = loaded(dtype="float16")
    assert BACKWARD.bytes_moved(problem) == 3 * 2 * 45
    assert BACKWARD.flops(problem) == 4 * 45


@pytest.mark.parametrize("name", ["ldy", "lddy", "lddx"])
def test_rows_may_not_overlap(name: str) -> None:
    with pytest.raises(UserError, match=name):
        loaded(**{name: 8})
