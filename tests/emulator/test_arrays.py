"""Helpers on arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lab.emulator.arrays import distinct


@given(st.lists(st.integers(-5, 5)))
def test_distinct_numbers_are_in_order(values):
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
