"""Buffers of which only touched pages exist."""

import numpy as np
import pytest

from lab.emulator.allowance import Outgrown
from lab.emulator.memory import paged
from lab.emulator.memory.paged import PagedRegion


class Counting:
    """Elements that hold their own index."""

    dtype = np.dtype(np.int64)

    def __init__(self, size):
        self.size, self.read_spans = size, []

    def read(self, start, stop):
        self.read_spans.append((start, stop))
        return np.arange(start, stop)


def test_elements_far_apart_hold_what_the_source_says():
    source = Counting(5_000_000_000)
    region = PagedRegion("x", 1 << 36, source)
    assert region.size == 40_000_000_000
    offsets = 8 * np.array([0, 4_999_999_999, 2_500_000_000, 1])
    (found,) = region.load(region.places(offsets, slice(None)), 8, 1)
    assert found.tolist() == [0, 4_999_999_999, 2_500_000_000, 1]
    assert len(source.read_spans) == 3
    assert all(stop - start <= 512 for start, stop in source.read_spans)


def test_stores_stay():
    region = PagedRegion("x", 1 << 36, Counting(1 << 30))
    region.store(region.places(np.array([8 << 20]), slice(None)), 8, [np.array([7], np.uint64)])
    again = region.load(region.places(np.array([8 << 20, 0]), slice(None)), 8, 1)[0]
    assert again.tolist() == [7, 0]


def test_a_kernel_that_touches_too_much_is_given_up(monkeypatch):
    monkeypatch.setattr(paged, "_MOST_BYTES", 1 << 14)
    region = PagedRegion("x", 1 << 36, Counting(1 << 20))
    region.places(np.arange(0, 1 << 14, 4096), slice(None))
    with pytest.raises(Outgrown):
        region.places(np.array([1 << 16]), slice(None))
