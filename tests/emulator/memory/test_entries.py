"""Entries of shared memory."""

import numpy as np
import pytest

from lab.emulator.memory.entries import make_entries


@pytest.mark.parametrize(
    ("granule", "width", "wanted", "pieces"),
    [(4, 4, [1, 5], 1), (4, 8, [1, 2, 5, 6], 2), (4, 2, [1, 5], 1), (1, 4, [4, 5, 6, 7, 20, 21, 22, 23], 4)],
)
def test_which_entries_an_access_covers(granule, width, wanted, pieces):
    entries = make_entries(64, 2, granule, 64)
    found, each = entries.covered(np.array([4, 20]), width)
    assert (found.tolist(), each) == (wanted, pieces)


def test_blocks_have_their_own_entries():
    entries = make_entries(64, 3, 4, 96)
    assert (entries.total, entries.block(2)) == (48, slice(32, 48))
    for names in (entries.writer, entries.reader, entries.other_reader):
        names[:] = 1
    entries.order_blocks(np.array([0, 2]))
    assert np.flatnonzero(entries.writer).tolist() == list(range(16, 32))
    entries.order_blocks(slice(None))
    assert not entries.reader.any()


def test_a_barrier_of_some_threads_forgets_their_accesses_only():
    entries = make_entries(64, 1, 4, 64)
    entries.writer[:4] = [1, 2, 33, 0]  # threads 0, 1 and 32
    entries.order_threads(np.array([1, 32]))
    assert entries.writer[:4].tolist() == [1, 0, 0, 0]
