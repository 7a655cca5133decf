from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.operators.bfloat16 import BF16_NAN, from_float32, to_float32


@settings(max_examples=200)
@given(st.floats(width=32, allow_nan=False))
def test_bfloat16_is_the_nearest_of_its_neighbours(value):
    single = np.float32(value)
    near = to_float32(from_float32(np.array([single])))[0]
    low = to_float32(np.array([single.view(np.uint32) >> 16], np.uint16))[0]  # towards zero
    high = to_float32(np.array([(single.view(np.uint32) >> 16) + 1], np.uint16))[0]
    assert near in (low, high)
    if np.isfinite(high):
        exact = [abs(float(single) - float(x)) for x in (near, low, high)]
        assert exact[0] == min(exact[1:])


def test_bfloat16_ties_go_to_even_and_nan_stays():
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF], np.uint32)
    assert from_float32(bits.view(np.float32)).tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7F80]
    assert from_float32(np.array([np.nan, -np.nan], np.float32)).tolist() == [BF16_NAN] * 2
