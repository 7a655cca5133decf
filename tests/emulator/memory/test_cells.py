"""Where accesses fall, and which slots there are."""

import numpy as np
import pytest

from lab.emulator.memory.cells import Cells


def test_accesses_cover_whole_cells():
    cells = Cells(16, 2, 4)
    assert (cells.per_row, cells.total) == (4, 8)
    assert cells.covered(np.array([4, 16]), 8).tolist() == [[1, 2], [4, 5]]
    assert cells.covered(np.array([4]), 4).tolist() == [[1]]
    assert Cells(16, 1, 1).covered(np.array([2]), 2).tolist() == [[2, 3]]
    assert cells.row(1) == slice(4, 8)


@pytest.mark.parametrize("granule", [1, 2, 4])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 8, 16])
def test_cells_under_spans_are_told_once_in_order(granule, size):
    cells = Cells(1 << 20, 1, granule)
    for offsets in ([40, 8, 3, 9, 8], [1_000_000, 3], []):
        under = cells.under(np.array(offsets, np.int64), size)
        assert under.tolist() == sorted({(start + i) // granule for start in offsets for i in range(size)})
        both, again = cells.under_each(np.array([offsets, offsets[::-1]], np.int64), size)
        assert both.tolist() == [0] * len(under) + [1] * len(under)
        assert again.tolist() == [*under.tolist()] * 2


def test_slots_are_made_when_they_are_first_used():
    cells = Cells(16, 1, 4)
    assert (cells.readers, cells.atomics, cells.watchers) == (None, None, None)
    assert cells.reading() is cells.reading() is cells.readers
    assert cells.updating() is cells.atomics
    assert cells.watching() is cells.watchers
    first, second = cells.reading()
    assert len(first.stamps) == len(second.at) == 4
