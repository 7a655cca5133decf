"""The blocks that stand for a grid."""

import math

import numpy as np
import pytest

from lab.emulator.batch import block_index
from lab.verdict.sampling import neighbouring_blocks, random_blocks, sampled_blocks


def test_a_small_grid_is_executed_whole():
    assert sorted(sampled_blocks((3, 2, 1), (1, 1, 1), 0)) == list(range(6))


@pytest.mark.parametrize("grid", [(7813, 1, 1), (64, 32, 1), (9, 8, 7), (1, 65535, 1)])
def test_the_ends_and_the_middle_of_each_axis_are_among_them(grid):
    chosen = sampled_blocks(grid, (1, 1, 1), 0)
    assert len(chosen) == len(set(chosen))
    places = {block_index(number, grid, (1, 1, 1)) for number in chosen}
    for axis, count in enumerate(grid):
        assert {0, count - 1, count // 2} <= {place[axis] for place in places}
    assert chosen[0] == math.prod(grid) - 1
    # the last one apart, which the far edges may cut off, a few tell the stride along each axis
    axes = sum(count > 1 for count in grid)
    few = np.array([block_index(number, grid, (1, 1, 1)) for number in chosen[1 : axes + 3]])
    assert np.linalg.matrix_rank(few - few[0]) == axes
    assert len(chosen) >= 16


def test_clusters_are_whole():
    chosen = sampled_blocks((64, 64, 1), (2, 4, 1), 0)
    for i in range(0, len(chosen), 8):
        assert chosen[i] % 8 == 0
        assert list(chosen[i : i + 8]) == list(range(chosen[i], chosen[i] + 8))


@pytest.mark.parametrize("grid", [(7813, 1, 1), (64, 32, 1), (9, 8, 7)])
def test_random_blocks_lie_everywhere_in_the_grid(grid):
    chosen = random_blocks(grid, (1, 1, 1), 0, 64)
    assert len(set(chosen)) == 64
    assert np.histogram(chosen, bins=8, range=(0, math.prod(grid)))[0].tolist() == [8] * 8


def test_random_blocks_are_whole_clusters_and_a_small_grid_is_whole():
    chosen = random_blocks((64, 64, 1), (2, 4, 1), 0, 20)
    assert [number - chosen[0] for number in chosen[:8]] == list(range(8))
    assert len(chosen) == 16
    assert random_blocks((5, 1, 1), (1, 1, 1), 0, 20) == (0, 1, 2, 3, 4)


def test_neighbouring_blocks_have_some_threads_together():
    assert neighbouring_blocks((1000, 1, 1), (1, 1, 1), 64) == (500, 501, 502, 503)
    assert neighbouring_blocks((1000, 1, 1), (1, 1, 1), 1024) == (500,)
    assert neighbouring_blocks((3, 1, 1), (1, 1, 1), 32) == (0, 1, 2)
    assert neighbouring_blocks((64, 1, 1), (8, 1, 1), 512) == tuple(range(32, 40))
