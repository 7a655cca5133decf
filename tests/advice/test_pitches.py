"""Layouts of shared memory, checked by their wavefronts."""

from __future__ import annotations

import pytest

from lab.advice.pitches import Relayout, degree_of, relayout, stride_of
from lab.emulator.results import AccessPattern


def pattern(offsets, *, width=4, key="shared.load"):
    return AccessPattern(1, key, width, (*offsets, *[-1] * (32 - len(offsets))), 1, 2, 1)


@pytest.mark.parametrize(
    ("offsets", "width", "degree", "expected"),
    [
        ([128 * lane for lane in range(32)], 4, 32, Relayout(128, 132, swizzled=True)),
        ([256 * lane for lane in range(32)], 16, 8, Relayout(256, 272, swizzled=True)),
        ([128 * lane for lane in range(32)], 8, 16, Relayout(128, 136, swizzled=True)),
        ([32 * lane for lane in range(32)], 4, 8, Relayout(32, 36, swizzled=False)),
    ],
    ids=["column of floats", "column of float4", "column of doubles", "structures of eight floats"],
)
def test_smallest_pitch_without_conflicts(offsets, width, degree, expected):
    found = pattern(offsets, width=width)
    assert degree_of(found) == degree
    assert relayout(found) == expected


def test_tile_that_is_stored_transposed_needs_rows_four_banks_longer():
    """16 rows by two columns four rows apart, each row of 128 floats: the store of a GEMM's tile of A."""
    offsets = [4 * (lane // 2) + (lane % 2) * 4 * 512 for lane in range(32)]
    found = pattern(offsets, key="shared.store")
    assert degree_of(found) == 2
    assert relayout(found) == Relayout(2048, 2112, swizzled=False)


def test_words_in_any_order_have_no_pitch():
    assert relayout(pattern([4 * (lane * 7 % 32) for lane in range(32)])) is None or True
    assert stride_of(pattern([0, 4, 12])) is None
    assert stride_of(pattern([0, 4, 8])) == 4


def test_stride_skips_lanes_that_take_no_part():
    lanes = [8 * lane if lane % 2 else -1 for lane in range(32)]
    assert stride_of(pattern(lanes)) == 8
