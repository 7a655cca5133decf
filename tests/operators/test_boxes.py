"""Chosen elements as boxes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lab.operators.boxes import boxes, fewer, thinned

SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)


@st.composite
def chosen(draw):
    shape = draw(SHAPES)
    size = int(np.prod(shape))
    return shape, np.array(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1))))


@given(chosen())
def test_boxes_hold_each_element_once_at_its_place(made):
    shape, elements = made
    seen = []
    for box, places in boxes(elements, shape):
        flat = np.ravel_multi_index(np.ix_(*box), shape)
        np.testing.assert_array_equal(flat.reshape(-1), elements[places])
        seen += places.reshape(-1).tolist()
    assert sorted(seen) == list(range(len(elements)))


def test_tiles_are_one_box_each():
    tile = np.add.outer(100 * np.arange(8), np.arange(4))
    both = np.sort(np.concatenate([tile.reshape(-1), 100 * 50 + 40 + tile.reshape(-1)]))
    assert [tuple(map(len, box)) for box, _ in boxes(both, (100, 100))] == [(8, 4), (8, 4)]


def test_thinned_boxes_keep_their_ends():
    tile = np.add.outer(100 * np.arange(50), np.arange(60)).reshape(-1)
    kept = thinned(tile, (100, 100), 3)
    assert len(kept) == 9
    assert {0, 59, 4900, 4959} <= set(kept.tolist())
    assert thinned(tile[:2], (100, 100), 3).tolist() == [0, 1]


def test_fewer_boxes_keep_the_first_and_the_last():
    scattered = np.arange(0, 100 * 100, 101)
    kept = fewer(scattered, (100, 100), 5)
    assert len(kept) == 5
    assert kept[[0, -1]].tolist() == [0, 9999]
    tile = np.add.outer(100 * np.arange(8), np.arange(4)).reshape(-1)
    assert fewer(tile, (100, 100), 1).tolist() == tile.tolist()


def test_many_runs_are_thinned_before_they_are_split():
    scattered = np.arange(0, 1 << 26, 1025)
    kept = fewer(scattered, (1 << 13, 1 << 13), 64)
    assert len(kept) == 64
    assert kept[[0, -1]].tolist() == [0, scattered[-1]]
