"""Shadow cells covered by an access, and allocation of shadow slots."""

import numpy as np
import pytest

from lab.emulator.memory.cells import Cells, PendingRead


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


def test_tables_of_bulk_copies_are_made_once():
    cells = Cells(16, 2, 4)
    arriving, bulk = cells.still_arriving(), cells.by_bulk()
    assert (arriving.tolist(), bulk.tolist()) == ([0] * 8, [False] * 8)
    assert cells.still_arriving() is arriving is cells.arriving
    assert cells.by_bulk() is bulk is cells.bulk


def test_the_latest_bulk_copy_that_reads_a_cell_is_told():
    cells = Cells(16, 2, 4)
    assert list(cells.pending_reads(np.array([0, 1]))) == []
    assert cells.reads_in_row(0) == []
    first, second = PendingRead(((7, 0),), 5, 1), PendingRead(((8, 2),), 6, 2)
    cells.note_read(np.array([1, 2, 3]), first)
    cells.note_read(np.array([3, 5]), second)
    cells.read_for_another((9, 4))
    wide = PendingRead(((8, 2), (9, 4)), 6, 2)
    found = [(copy, at.tolist()) for copy, at in cells.pending_reads(np.array([0, 1, 3, 2, 5]))]
    assert found == [(first, [1, 3]), (wide, [2, 4])]
    assert cells.reads_in_row(0) == [first, wide]
    assert cells.reads_in_row(1) == [wide]


def test_the_first_and_the_latest_read_only_load_are_kept():
    cells = Cells(16, 1, 4)
    cells.note_read_only(np.array([1, 1, 2]), np.array([10, 11, 12]), 5)
    cells.note_read_only(np.array([1, 3]), np.array([20, 21]), 6)
    assert cells.read_only is not None
    first, latest = cells.read_only
    assert (first.stamps.tolist(), first.at.tolist()) == ([0, 10, 12, 21], [0, 5, 5, 6])
    assert (latest.stamps.tolist(), latest.at.tolist()) == ([0, 20, 12, 21], [0, 6, 5, 6])


def test_cells_of_a_span():
    assert Cells(64, 1, 4).span(8, 12).tolist() == [2, 3, 4]
