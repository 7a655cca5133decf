"""Origins of moved elements, against NumPy moving their flat indices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.operators.declared.origins import ORIGINS, Flat, flat_indices, padded

SHAPE = (3, 4, 5)
CASES = [
    ("transpose", {}),
    ("transpose", {"axes": (1, -1, 0)}),
    ("swapaxes", {"axis1": 0, "axis2": -1}),
    ("moveaxis", {"source": 0, "destination": -1}),
    ("moveaxis", {"source": 2, "destination": 0}),
    ("reshape", {"new": (6, -1)}),
    ("reshape", {"new": 60}),
    ("ravel", {}),
    ("expand_dims", {"axis": 1}),
    ("expand_dims", {"axis": -1}),
    ("flip", {}),
    ("flip", {"axis": -2}),
    ("roll", {"shift": 7}),
    ("roll", {"shift": -3, "axis": 1}),
    ("roll", {"shift": (1, 2), "axis": (0, 2)}),
    ("roll", {"shift": 2, "axis": (1, 1)}),
    ("repeat", {"repeats": 3}),
    ("repeat", {"repeats": 2, "axis": 1}),
    ("tile", {"reps": 2}),
    ("tile", {"reps": (2, 1, 3, 1)}),
    ("broadcast_to", {"new": (2, 3, 4, 5)}),
]


@pytest.mark.parametrize(("name", "operands"), CASES, ids=[f"{name}-{operands}" for name, operands in CASES])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_chosen_elements_come_from_where_numpy_takes_them(name, operands, data):
    indices = np.arange(60).reshape(SHAPE)
    moved = getattr(np, name)(indices, *operands.values())
    origin = ORIGINS[name](SHAPE, **operands)
    assert origin.shape == moved.shape
    box = tuple(np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=4))) for n in moved.shape)
    if isinstance(origin, Flat):
        found = origin.positions(flat_indices(box, origin.shape))
    else:
        found = origin.placed(indices[np.ix_(*origin.source(box))], box)
    np.testing.assert_array_equal(found, moved[np.ix_(*box)])


def test_squeezed_and_broadcast_axes_read_each_element_once():
    assert [len(one) for one in ORIGINS["squeeze"]((3, 1, 4)).source((np.arange(3), np.arange(4)))] == [3, 1, 4]
    wide = ORIGINS["broadcast_to"]((1, 4), (1000, 4))
    assert [len(one) for one in wide.source((np.arange(1000), np.arange(4)))] == [1, 4]


@pytest.mark.parametrize("offset", [-3, -1, 0, 2, 4])
def test_diagonals(offset):
    indices = np.arange(20).reshape(4, 5)
    origin = ORIGINS["diagonal"]((4, 5), offset)
    wanted = np.diagonal(indices, offset)
    assert origin.shape == wanted.shape
    np.testing.assert_array_equal(origin.positions(np.arange(*origin.shape)), wanted)


@pytest.mark.parametrize(("name", "operands"), [("reshape", {"new": (7, 9)}), ("broadcast_to", {"new": (3, 9)})])
def test_shapes_that_do_not_fit_are_refused(name, operands):
    with pytest.raises(ValueError, match="shape"):
        ORIGINS[name](SHAPE, **operands)


@pytest.mark.parametrize("mode", ["constant", "edge", "wrap", "reflect", "symmetric"])
@pytest.mark.parametrize("extent", [1, 2, 5])
def test_padded_axes(mode, extent):
    wanted = np.pad(np.arange(extent), (7, 9), mode=mode)
    found, inside = padded(extent, 7, mode, np.arange(extent + 16))
    np.testing.assert_array_equal(np.where(inside, found, 0) if mode == "constant" else found, wanted)
    assert inside.sum() == extent
