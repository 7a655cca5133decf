"""The geometry of batches."""

import numpy as np
import pytest

from lab.emulator.batch import block_index, make_batch, padded_threads


@pytest.mark.parametrize(("block", "threads"), [((1, 1, 1), 32), ((32, 1, 1), 32), ((33, 1, 1), 64), ((5, 3, 3), 64)])
def test_blocks_are_filled_up_to_whole_warps(block, threads):
    assert padded_threads(block) == threads


def test_threads_and_blocks_along_three_axes():
    batch = make_batch((2, 3, 2), (5, 3, 3), 4, 5)
    assert (batch.threads, batch.warps, batch.block_size) == (5 * 64, 10, 45)
    block, thread = batch.where(64 * 3 + 44)  # the fourth block of the batch is the launch's eighth
    assert block == (1, 0, 1)
    assert thread == (4, 2, 2)
    np.testing.assert_array_equal(batch.exists.reshape(5, 64).sum(axis=1), 45)
    np.testing.assert_array_equal(batch.block_of, np.repeat(np.arange(5), 64))


def test_blocks_are_numbered_cluster_by_cluster():
    grid, cluster = (4, 2, 3), (2, 1, 3)
    batch = make_batch(grid, (32, 1, 1), 6, 12, cluster=cluster)
    assert batch.cluster == 6
    found = [batch.where(32 * i)[0] for i in range(12)]
    assert found == [(x, y, z) for first, y in ((2, 0), (0, 1)) for z in range(3) for x in (first, first + 1)]
    assert [tuple(int(index[32 * i]) for index in batch.ctaid) for i in range(12)] == found
    every = make_batch(grid, (32, 1, 1), 0, 24, cluster=cluster)
    assert len({every.where(32 * i)[0] for i in range(24)}) == 24


def test_lanes_that_fill_up_are_not_everyone_who_runs():
    batch = make_batch((1, 1, 1), (40, 1, 1), 0, 1)
    assert batch.everyone.count == 64
    assert np.flatnonzero(batch.exists).tolist() == list(range(40))


def test_clusters_along_every_axis():
    grid, cluster = (4, 6, 4), (2, 3, 2)
    places = [block_index(i, grid, cluster) for i in range(96)]
    assert len(set(places)) == 96
    assert places[:4] == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
    assert places[12] == (2, 0, 0)  # the second cluster
    assert places[24] == (0, 3, 0)
    assert places[48] == (0, 0, 2)
    assert places[95] == (3, 5, 3)
