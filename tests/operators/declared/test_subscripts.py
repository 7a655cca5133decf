"""Indices between brackets, against NumPy's."""

import numpy as np
import pytest

from lab.operators.declared.origins import Separable
from lab.operators.declared.subscripts import ArrayIndex, Gathered, picked, positions_within

SHAPE = (4, 5, 6)
ROWS, GRID = np.array([2, 0, 3]), np.array([[1, 2, 0], [3, 1, 1]])
CASES = [
    (1,),
    (-1, slice(None), 2),
    (slice(1, None, 2), None, slice(None, None, -1)),
    (None, slice(-3, -1)),
    (ROWS,),
    (slice(None), ROWS),
    (0, slice(None), ROWS),
    (0, ROWS),
    (slice(None), 1, ROWS),
    (ROWS, slice(None), ROWS),
    (ROWS, None, ROWS),
    (None, ROWS, ROWS),
    (GRID, ROWS),
    (GRID, slice(None), 3),
    (slice(None), GRID),
]


def described(index):
    return [ArrayIndex(one.shape, one) if isinstance(one, np.ndarray) else one for one in index]


@pytest.mark.parametrize("index", CASES, ids=str)
def test_indices_pick_what_numpy_picks(index):
    indices = np.arange(120).reshape(SHAPE)
    expected, picked_indices = indices[index], picked(SHAPE, described(index))
    assert picked_indices.shape == expected.shape
    box = tuple(np.arange(n) for n in expected.shape)
    if isinstance(picked_indices, Separable):
        gathered = picked_indices.placed(indices[np.ix_(*picked_indices.source(box))], box)
    else:
        assert isinstance(picked_indices, Gathered)
        chosen = {axis: one.part if isinstance(one, ArrayIndex) else one for axis, one in picked_indices.indices}
        places = []
        for i, follows in enumerate(picked_indices.axes):
            if follows is None:
                at = np.broadcast_to(chosen[i], picked_indices.shared)
                behind = len(expected.shape) - picked_indices.first - len(picked_indices.shared)
                places.append(at.reshape((1,) * picked_indices.first + at.shape + (1,) * behind))
            else:
                places.append(
                    follows.positions(box[follows.axis]).reshape(
                        [-1 if j == follows.axis else 1 for j in range(len(box))]
                    )
                )
        gathered = indices[tuple(np.broadcast_arrays(*places))]
    np.testing.assert_array_equal(gathered, expected)


@pytest.mark.parametrize("index", [(0, 0, 0, 0), (4,), (0, -6)])
def test_indices_that_do_not_fit_are_refused(index):
    with pytest.raises(ValueError, match="ax"):
        picked(SHAPE, index)


def test_positions_count_from_the_end():
    assert positions_within(np.array([0, -1, 4]), 5).tolist() == [0, 4, 4]
    with pytest.raises(ValueError, match="beyond"):
        positions_within(np.array([5]), 5)
