"""Regions and the address space."""

import numpy as np
import pytest

from lab.emulator.memory.memory import FIRST_BUFFER, SEGMENT_SHIFT, SHARED_SEGMENT, AddressSpace, Region


def region(size=64, rows=1):
    return Region("buffer", "global", 0, size, row_count=rows)


@pytest.mark.parametrize(("width", "vector"), [(1, 1), (1, 4), (2, 1), (2, 2), (2, 8), (4, 1), (4, 4), (8, 1), (8, 2)])
def test_what_is_stored_is_loaded(width, vector):
    memory_region, step = region(), width * vector
    offsets = np.array([2, 0, 3], np.int64) * step
    values = [np.array([1, 2, 3], f"u{width}") + i for i in range(vector)]
    memory_region.store(offsets, width, values)
    for loaded, value in zip(memory_region.load(offsets, width, vector), values, strict=True):
        np.testing.assert_array_equal(loaded, value)
    assert not memory_region.data[step : 2 * step].any()


def test_the_last_of_colliding_stores_wins():
    memory_region = region()
    memory_region.store(np.array([8, 8, 8], np.int64), 4, [np.array([5, 6, 7], np.uint32)])
    assert memory_region.load(np.array([8], np.int64), 4, 1)[0].tolist() == [7]


def test_views_of_16_bytes_are_not_integers():
    assert region().view(16).dtype.kind == "V"
    assert len(region(5).view(16)) == 1  # padded, so that the widest access always has room


def test_each_thread_has_its_row():
    memory_region = region(20, rows=3)
    memory_region.give_rows(np.array([0, 0, 2], np.int64))
    assert memory_region.stride == 32
    assert memory_region.places(np.array([4, 4], np.int64), np.array([1, 2])).tolist() == [4, 68]
    assert region().places(np.array([4, 4], np.int64), slice(None)).tolist() == [4, 4]


def test_every_buffer_has_a_segment_of_its_own():
    space = AddressSpace()
    first, second = space.allocate("a", "global", 100), space.allocate("b", "const", 1)
    assert (first.base, second.base) == (FIRST_BUFFER << SEGMENT_SHIFT, (FIRST_BUFFER + 1) << SEGMENT_SHIFT)
    assert space.at(first.base + 99) is first
    assert space.at(first.base + 10**9) is first  # out of its bounds, and still not in the next buffer
    assert space.at(12345) is None
    window = region()
    space.place(SHARED_SEGMENT, window)
    assert space.at(SHARED_SEGMENT << SEGMENT_SHIFT) is window


@pytest.mark.parametrize(("size", "stride"), [(0, 16), (1, 16), (16, 16), (17, 32)])
def test_a_region_is_one_padded_row_and_may_be_written(size, stride):
    memory_region = Region("buffer", "global", 0, size)
    assert (memory_region.size, memory_region.stride, len(memory_region.data)) == (size, stride, stride)
    assert not memory_region.readonly
    assert (memory_region.rows, memory_region.shadow, memory_region.cells, memory_region.log) == (
        None,
        None,
        None,
        None,
    )
    assert memory_region.view(4) is memory_region.view(4)
