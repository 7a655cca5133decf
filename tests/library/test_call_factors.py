from __future__ import annotations

import numpy as np
import pytest
from library_support import ADDRESS, OnGpu, small_library
from mistakes import coded

from lab.base.errors import UserError
from lab.library.call_factors import gpu_factors, host_factors, host_numbers, is_number
from lab.library.calls import sized_form

FORM = sized_form(5, 3, 7, (8, 9, 11), small_library())
PLACES = (ADDRESS, 2 * ADDRESS, 3 * ADDRESS)


def test_numbers_of_the_host_are_floats():
    for value in (2, 2.0, np.float32(2), np.int8(2), True):
        assert is_number(value)
        assert host_factors(value, 1, "float16") == (float(value), 1.0)
    for other in ("2", np.ones(1), None):
        assert not is_number(other)
        with pytest.raises(UserError, check=coded("wrong-type", key="beta")):
            host_factors(1.0, other, "float32")


def test_complex_factors_are_two_numbers_each():
    assert host_factors(2 + 1j, np.float32(0.5), "complex64") == (2.0, 0.5, 1.0, 0.0)
    assert host_factors(np.complex64(1j), 0, "complex128") == (0.0, 0.0, 1.0, 0.0)
    assert host_numbers(1j, 0, "float32") is None
    with pytest.raises(UserError, check=coded("wrong-type", key="alpha", found="str")) as caught:
        host_factors("1", 1j, "complex64")
    assert "real or complex" in str(caught.value.accepted)


def test_a_factor_may_lie_in_the_padding_of_c_and_not_in_its_elements():
    padding = 3 * ADDRESS + 4 * 5  # behind the first column's 5 elements, before the second's
    alpha = OnGpu(np.ones((1, 1), "f4"), address=padding)
    read = gpu_factors((alpha, 2), "float32", FORM, PLACES, None)
    assert read.places == ((padding, 0.0), (0, 2.0))
    assert list(read.operands) == ["alpha"]
    for place in (3 * ADDRESS, 3 * ADDRESS + 4 * 4, 3 * ADDRESS + 4 * (2 * 11 + 4)):
        with pytest.raises(UserError, check=coded("duplicate", key="beta")):
            gpu_factors((1.0, OnGpu(np.ones(1, "f4"), address=place)), "float32", FORM, PLACES, None)


def test_a_type_without_such_factors_is_named():
    with pytest.raises(UserError, check=coded("unsupported", found="float16")):
        gpu_factors((1.0, OnGpu(np.ones(1, "f2"))), "float16", FORM, PLACES, None)
