from __future__ import annotations

import numpy as np
import pytest

from lab.operators.stored import UNIT, drawn, empty, is_empty, parts, stored, wide, widened

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


def test_complex_numbers_are_drawn_in_both_parts_alike_for_both_types():
    single, double = (drawn(np.random.default_rng(0), (300, 2), dtype) for dtype in ("complex64", "complex128"))
    assert single.dtype == np.complex64
    assert (single == double).all()
    assert 0.8 < np.std(single.real) < 1.2
    assert 0.8 < np.std(single.imag) < 1.2
    assert wide(single).dtype == np.complex128
    assert wide(single.real).dtype == np.float64


def test_a_complex_buffer_is_that_of_its_parts():
    buffer = np.array([1 + 2j, 3 - 4j], np.complex64)
    assert parts(buffer).tolist() == [1, 2, 3, -4]
    assert parts(buffer).dtype == np.float32
    assert parts(buffer.real) is not buffer
    assert np.isnan(parts(empty(2, "complex128"))).all()


@pytest.mark.parametrize("dtype", ["bfloat16", *NARROW])
def test_a_strided_view_of_bits_is_widened(dtype):
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4) % 5
    bits = stored(numbers, dtype).T
    assert widened(bits, dtype).tolist() == numbers.T.tolist()
