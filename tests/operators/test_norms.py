from __future__ import annotations

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.operators.builtin import operator
from lab.operators.rows import rows_of
from lab.operators.stored import stored, widened


def loaded(name, **fields):
    problem = operator(name).problem({"m": 6, "n": 700, "ldx": 704, **fields})
    return operator(name), problem, operator(name).inputs(problem, 1)


def arrays(inputs, dtype=np.float64):
    x = widened(rows_of(inputs.arrays["X"], 6, 700, 704)).astype(dtype)
    return x, *(widened(inputs.arrays[key]).astype(dtype) for key in "WB" if key in inputs.arrays)


def test_layer_norm_row_by_row() -> None:
    norm, problem, inputs = loaded("layer_norm", epsilon=0.25)
    x, w, b = arrays(inputs)
    wanted = [w * (row - row.mean()) / np.sqrt(row.var() + 0.25) + b for row in x]
    np.testing.assert_allclose(norm.reference(problem, inputs)["Y"].values, wanted, rtol=1e-12)


def test_rms_norm_row_by_row() -> None:
    norm, problem, inputs = loaded("rms_norm", epsilon=0.25)
    x, w = arrays(inputs)
    wanted = [w * row / np.sqrt((row @ row) / 700 + 0.25) for row in x]
    np.testing.assert_allclose(norm.reference(problem, inputs)["Y"].values, wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_arithmetic_in_float32_is_right_and_a_divisor_that_is_off_is_not(name, dtype) -> None:
    norm, problem, inputs = loaded(name, dtype=dtype)
    reference = norm.reference(problem, inputs)
    x, w, *b = arrays(inputs, np.float32)
    distance = x - x.mean(axis=1, keepdims=True) if b else x
    for divisor, right in ((700, True), (690, False)):
        mean = (distance**2).sum(axis=1, keepdims=True) / np.float32(divisor)
        y = distance / np.sqrt(mean + np.float32(1e-5)) * w + (b[0] if b else 0)
        inputs.arrays["Y"][...] = stored(y, dtype).reshape(-1)
        error, tolerance, worst = norm.verify(problem, reference, inputs.arrays)
        assert (error <= tolerance) == right, worst


def test_the_counts() -> None:
    for name, weights, operations in (("layer_norm", 2, 7), ("rms_norm", 1, 4)):
        norm, problem, _ = loaded(name, dtype="float16")
        assert norm.bytes_moved(problem) == 2 * (2 * 6 * 700 + weights * 700)
        assert norm.flops(problem) == operations * 6 * 700


def test_epsilon_is_positive_and_rows_may_not_overlap() -> None:
    with pytest.raises(UserError, check=coded("wrong-value", key="problem.epsilon", found=0)):
        loaded("layer_norm", epsilon=0)
    with pytest.raises(UserError, check=coded("wrong-value", key="problem.ldy", found=4)):
        loaded("rms_norm", ldy=4)
