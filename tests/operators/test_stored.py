from __future__ import annotations

import numpy as np
import pytest

from lab.operators.stored import UNIT, empty, stored, widened


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_an_empty_buffer_is_nan_throughout(dtype):
    assert np.isnan(widened(empty(3, dtype))).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_an_element_is_rounded_by_at_most_the_unit_roundoff(dtype):
    values = np.random.default_rng(0).standard_normal((8, 9), dtype=np.float32)
    kept = widened(stored(values, dtype))
    assert (np.abs(kept - values) <= UNIT[dtype] * np.abs(values)).all()


def test_a_strided_view_of_bits_is_widened():
    bits = stored(np.arange(12, dtype=np.float32), "bfloat16").reshape(3, 4).T
    assert widened(bits).tolist() == np.arange(12.0).reshape(3, 4).T.tolist()
