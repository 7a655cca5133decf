"""Element types: widening, storing and poison."""

from __future__ import annotations

import numpy as np
import pytest

from lab.operators.bfloat16 import from_float32
from lab.operators.declared.elements import ELEMENT_TYPES, ElementKind

EVERY = pytest.mark.parametrize("element", ELEMENT_TYPES.values(), ids=lambda one: one.name)


@EVERY
def test_stored_values_are_widened_without_loss(element):
    small = np.array([0, 1, 2, 96]).astype(np.bool_ if element.kind is ElementKind.BOOL else np.int64)
    stored = element.stored(small)
    assert stored.dtype == element.dtype
    wide = element.widened(stored)
    assert wide.dtype == element.wide
    np.testing.assert_array_equal(wide, small)


@EVERY
def test_nothing_that_a_kernel_writes_is_taken_for_poison(element):
    poison = element.poison(5)
    assert poison.shape == (5,)
    assert poison.dtype == element.dtype
    assert element.is_poison(poison).all()
    poison[2] = element.stored(np.ones(1))[0]
    assert element.is_poison(poison).tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("name", [one.name for one in ELEMENT_TYPES.values() if not one.is_exact])
def test_a_nan_that_a_kernel_computes_is_not_taken_for_poison(name):
    element = ELEMENT_TYPES[name]
    assert np.isnan(element.widened(element.poison(3))).all()
    with np.errstate(invalid="ignore"):
        computed = np.array([np.nan, np.inf - np.inf, 0.0 * np.inf])
    assert not element.is_poison(element.stored(computed)).any()
    if element.dtype.kind == "f":  # the bits of a NaN that a GPU makes
        bits = np.full(3, 2 ** (8 * element.dtype.itemsize - 1) - 1, f"u{element.dtype.itemsize}")
        assert not element.is_poison(bits.view(element.dtype)).any()


def test_integers_wrap_around_as_in_c():
    values = np.array([2**31, 300, -1], np.int64)
    assert ELEMENT_TYPES["int32"].stored(values).tolist() == [-(2**31), 300, -1]
    assert ELEMENT_TYPES["uint8"].stored(values).tolist() == [0, 44, 255]
    assert ELEMENT_TYPES["uint64"].stored(values)[2] == 2**64 - 1


def test_bfloat16_is_its_bits():
    element = ELEMENT_TYPES["bfloat16"]
    values = np.array([1.0, 3.1415927, np.inf])
    np.testing.assert_array_equal(element.stored(values), from_float32(values.astype(np.float32)))
    assert element.widened(element.stored(values)).tolist() == [1.0, 3.140625, np.inf]


def test_floats_of_eight_bits_saturate():
    values = np.array([1.0, 3.1415927, 1e6])
    for name, expected in (("float8_e4m3fn", [1.0, 3.25, 448.0]), ("float8_e5m2", [1.0, 3.0, 57344.0])):
        element = ELEMENT_TYPES[name]
        assert element.widened(element.stored(values)).tolist() == expected
        assert element.saturates


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"])
def test_the_unit_roundoff_is_half_the_distance_after_one(name):
    element = ELEMENT_TYPES[name]
    unit = element.storing.unit
    next_one = element.widened(element.stored(np.array([1 + 2 * unit, 1 + 0.99 * unit])))
    assert next_one.tolist() == [1 + 2 * unit, 1.0]
    with np.errstate(over="ignore"):
        stored = element.widened(element.stored(np.array([element.largest, element.largest * 1.01])))
    assert stored.tolist() == [element.largest, element.largest if element.saturates else np.inf]
