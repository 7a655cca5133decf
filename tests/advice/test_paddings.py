"""Edits that lengthen the rows of arrays in shared memory."""

from __future__ import annotations

import pytest

from lab.advice.paddings import padded_arrays, pads_of
from lab.emulator.results import AccessPattern

SOURCE = """__global__ void k()
{
    __shared__ float tile[ROWS][32];
    __shared__ __align__(16) unsigned int  count[4][8][N * 2];
    __shared__ double flat[64];
    __shared__ Particle other[4][4];
}
"""


def column(pitch: int, key: str = "shared.load") -> AccessPattern:
    return AccessPattern(1, key, 4, tuple(pitch * lane for lane in range(32)), 1, 32, 1)


def test_pads_are_those_of_the_layout_and_parts_of_them():
    assert pads_of([column(128)]) == (1, 2, 4)
    halves = AccessPattern(1, "shared.store", 4, tuple(4 * (i // 2) + i % 2 * 2048 for i in range(32)), 1, 2, 1)
    assert pads_of([halves]) == (8, 16, 32, 64)
    assert pads_of([column(4), column(128, "global.load")]) == ()


def test_last_dimension_of_each_array_is_lengthened_the_smallest_pad_first():
    padded = list(padded_arrays(SOURCE, (2, 4, 8)))
    assert [(array, elements) for array, elements, _ in padded] == [
        ("tile", 1),
        ("count", 1),
        ("tile", 2),
        ("count", 2),
    ]
    assert "float tile[ROWS][32 + 1];" in padded[0][2]
    assert "count[4][8][(N * 2) + 1];" in padded[1][2]
    assert all(len(text.splitlines()) == len(SOURCE.splitlines()) for _, _, text in padded)


@pytest.mark.parametrize("source", ["", "__shared__ float a[32];", "extern __shared__ float a[];", "float a[4][4];"])
def test_without_rows_in_shared_memory_there_is_nothing_to_pad(source):
    assert list(padded_arrays(source, (4,))) == []
