from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from lab.operators.float8 import FORMATS, FP8_NAN, from_float32, to_float32

EVERY = pytest.mark.parametrize("name", FORMATS)


def by_hand(code, exponent, fraction, bias):
    """The number of a code, from the definition of the format; None for a NaN, infinite where there is infinity."""
    sign = -1 if code & 0x80 else 1
    power, digits = (code >> fraction) & (2**exponent - 1), code & (2**fraction - 1)
    if (exponent, power) == (5, 31):  # as IEEE has it
        return None if digits else sign * float("inf")
    if (exponent, code & 0x7F) == (4, 0x7F):
        return None
    whole = digits if power == 0 else digits + 2**fraction
    return sign * Fraction(whole) * Fraction(2) ** (max(power, 1) - bias - fraction)


TABLES = {
    "float8_e4m3fn": [by_hand(code, 4, 3, 7) for code in range(256)],
    "float8_e5m2": [by_hand(code, 5, 2, 15) for code in range(256)],
}


@EVERY
def test_every_code_stands_for_the_number_of_its_definition(name):
    values = to_float32(np.arange(256, dtype=np.uint8).reshape(16, 16), name)
    assert values.shape == (16, 16)
    for got, expected in zip(values.ravel(), TABLES[name], strict=True):
        assert np.isnan(got) if expected is None else got == expected
    assert np.signbit(values.ravel()[0x80])


@EVERY
def test_every_number_of_the_format_keeps_its_code(name):
    codes = np.arange(256, dtype=np.uint8)
    values = to_float32(codes, name)
    kept = np.isfinite(values)
    np.testing.assert_array_equal(from_float32(values, name)[kept], codes[kept])
    assert (from_float32(values[np.isnan(values)], name) == FP8_NAN).all()


@EVERY
def test_the_nearest_number_is_taken_and_ties_go_to_even(name):
    table = [(value, code) for code, value in enumerate(TABLES[name][:128]) if value not in (None, float("inf"))]
    for (low, below), (high, above) in itertools.pairwise(table):
        middle = float(low + high) / 2
        near = np.nextafter(np.float32(middle), np.array([0, np.inf], np.float32))
        for sign, bit in ((1, 0), (-1, 0x80)):
            at_tie = from_float32(np.array([sign * middle], np.float32), name)[0]
            assert at_tie == (below if below % 2 == 0 else above) | bit
            assert from_float32(sign * near, name).tolist() == [below | bit, above | bit]


@EVERY
def test_what_is_too_large_becomes_the_largest_number(name):
    form = FORMATS[name]
    assert form.largest == {"float8_e4m3fn": 448, "float8_e5m2": 57344}[name]
    beyond = np.array([form.largest * 1.5, np.inf, np.float32(3.4e38)], np.float32)
    assert (to_float32(from_float32(beyond, name), name) == form.largest).all()
    assert (to_float32(from_float32(-beyond, name), name) == -form.largest).all()


@EVERY
def test_facts_of_a_format(name):
    form = FORMATS[name]
    assert to_float32(np.array([1], np.uint8), name)[0] == form.least
    one = from_float32(np.ones(1, np.float32), name)
    assert to_float32(one + np.uint8(1), name)[0] == 1 + 2 * form.unit
