"""Where accesses fall, and which slots there are."""

import numpy as np

from lab.emulator.memory.cells import Cells


def test_accesses_cover_whole_cells():
    cells = Cells(16, 2, 4)
    assert (cells.per_row, cells.total) == (4, 8)
    assert cells.covered(np.array([4, 16]), 8).tolist() == [[1, 2], [4, 5]]
    assert cells.covered(np.array([4]), 4).tolist() == [[1]]
    assert Cells(16, 1, 1).covered(np.array([2]), 2).tolist() == [[2, 3]]
    assert cells.row(1) == slice(4, 8)


def test_slots_are_made_when_they_are_first_used():
    cells = Cells(16, 1, 4)
    assert (cells.readers, cells.atomics, cells.watchers) == (None, None, None)
    assert cells.reading() is cells.reading() is cells.readers
    assert cells.updating() is cells.atomics
    assert cells.watching() is cells.watchers
    first, second = cells.reading()
    assert len(first.stamps) == len(second.at) == 4
