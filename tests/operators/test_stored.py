from __future__ import annotations

import numpy as np
import pytest

from lab.operators.stored import UNIT, empty, is_empty, stored, widened

NARROW = ["float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", *NARROW])
def test_an_empty_buffer_is_nan_throughout(dtype):
    assert np.isnan(widened(empty(3, dtype), dtype)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "int32", *NARROW])
def test_what_was_written_no_longer_looks_empty(dtype):
    buffer = empty(3, dtype)
    assert is_empty(buffer, dtype).all()
    buffer[1] = stored(np.ones(1, np.float32), dtype)[0]
    assert is_empty(buffer, dtype).tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_an_element_is_rounded_by_at_most_the_unit_roundoff(dtype):
    values = np.random.default_rng(0).standard_normal((8, 9), dtype=np.float32)
    kept = widened(stored(values, dtype))
    assert (np.abs(kept - values) <= UNIT[dtype] * np.abs(values)).all()


@pytest.mark.parametrize("dtype", ["bfloat16", *NARROW])
def test_a_strided_view_of_bits_is_widened(dtype):
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4) % 5
    bits = stored(numbers, dtype).T
    assert widened(bits, dtype).tolist() == numbers.T.tolist()
