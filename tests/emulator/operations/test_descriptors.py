"""Addresses of operands against the layouts of the PTX ISA, element by element."""

import numpy as np
import pytest

from lab.emulator.operations import descriptors

WIDTHS = {0: 16, 1: 128, 2: 64, 3: 32}  # mode to bytes of a row of the pattern


def encoded(start, leading, stride, mode, base=0):
    return np.array([start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base << 49 | mode << 62], np.uint64)


def swizzled(address, mode, base=0):
    mask = WIDTHS[mode] // 16 - 1
    return address ^ ((((address >> 7) - base) & mask) << 4)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_rows_along_k(mode):
    addresses = descriptors.along_k(descriptors.decode(encoded(1024, 144, 4096, mode)), 24, 2)
    assert addresses.shape == (1, 24, 2)
    for row in range(24):
        for piece in range(2):
            plain = 1024 + row % 8 * WIDTHS[mode] + row // 8 * 4096 + piece * (144 if mode == 0 else 16)
            assert addresses[0, row, piece] == swizzled(plain, mode)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_rows_across_k(mode):
    addresses = descriptors.across_k(descriptors.decode(encoded(2048, 8192, 1024, mode)), 16, 8)
    in_row = WIDTHS[mode] // 16
    for k in range(16):
        for piece in range(8):
            outer_k, outer_piece = (8192, 1024) if mode == 0 else (1024, 8192)
            plain = 2048 + piece % in_row * 16 + piece // in_row * outer_piece + k % 8 * WIDTHS[mode] + k // 8 * outer_k
            assert addresses[0, k, piece] == swizzled(plain, mode)


def test_a_step_along_k_within_a_pattern():
    whole = descriptors.along_k(descriptors.decode(encoded(1024, 0, 1024, 1)), 64, 8)
    for step in range(4):
        part = descriptors.along_k(descriptors.decode(encoded(1024 + 32 * step, 0, 1024, 1)), 64, 2)
        np.testing.assert_array_equal(part, whole[:, :, 2 * step : 2 * step + 2])


def test_fields_are_cut_to_14_bits():
    decoded = descriptors.decode(np.array([2**64 - 1], np.uint64))
    assert (decoded.start[0], decoded.leading[0], decoded.stride[0], decoded.base[0], decoded.pieces[0]) == (
        0x3FFF * 16, 0x3FFF * 16, 0x3FFF * 16, 7, 2,
    )  # fmt: skip
