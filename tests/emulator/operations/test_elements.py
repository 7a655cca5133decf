"""Bits of matrix elements and what they mean."""

import numpy as np
import pytest

from lab.emulator.operations.elements import container, decode, encode, per_register


def words(*values):
    return np.array([values], np.uint32)


@pytest.mark.parametrize(
    ("code", "value"), [(0x38, 1.0), (0x7E, 448.0), (0x01, 2.0**-9), (0x08, 2.0**-6), (0xC4, -3.0), (0x80, -0.0)]
)
def test_e4m3(code, value):
    assert decode(words(code), "e4m3")[0, 0] == value
    assert np.isnan(decode(words(0x7F), "e4m3")[0, 0])


@pytest.mark.parametrize(
    ("code", "value"), [(0x3C, 1.0), (0x7B, 57344.0), (0x01, 2.0**-16), (0x04, 2.0**-14), (0xC2, -3.0), (0x7C, np.inf)]
)
def test_e5m2(code, value):
    assert decode(words(code), "e5m2")[0, 0] == value
    assert np.isnan(decode(words(0x7D), "e5m2")[0, 0])


def test_elements_lie_low_bits_first():
    assert decode(words(0xFEDCBA98), "s4").tolist() == [[-8, -7, -6, -5, -4, -3, -2, -1]]
    assert decode(words(0xFEDCBA98), "u4").tolist() == [[8, 9, 10, 11, 12, 13, 14, 15]]
    assert decode(words(0x80FF7F01), "s8").tolist() == [[1, 127, -1, -128]]
    assert decode(words(0b101), "b1")[0, :4].tolist() == [1, 0, 1, 0]
    assert decode(words(0x3F80_4000), "bf16").tolist() == [[2.0, 1.0]]
    assert decode(words(0x3F80_1FFF), "tf32").tolist() == [[1.0]]  # the lower 13 bits do not count
    assert [per_register(t) for t in ("b1", "s4", "e4m3", "f16", "tf32", "f64")] == [32, 8, 4, 2, 1, 1]
    assert (container("f64"), container("f16")) == ("b64", "b32")


def test_results_are_rounded_to_their_type():
    assert encode(np.array([[1 + 2.0**-11, 1 + 3 * 2.0**-11]]), "f16").tolist() == [[0x3C02_3C00]]
    assert encode(np.array([[-1.0]]), "s32").tolist() == [[0xFFFFFFFF]]
    assert encode(np.array([[np.nan]]), "f32").tolist() == [[0x7FFFFFFF]]
    assert encode(np.array([[np.nan]]), "f64").tolist() == [[0x7FFFFFFFFFFFFFFF]]
