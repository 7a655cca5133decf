"""Matrices that are drawn page by page."""

import numpy as np
import pytest

from lab.operators.indexed import PAGE
from lab.operators.paged_inputs import blank, block_of, normal, paged_lines, stream
from lab.operators.stored import is_empty


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_lines_are_drawn_and_what_lies_between_them_is_empty(dtype):
    array = paged_lines("A", 3, (700, 9, 11), dtype, normal(dtype))
    assert array.size == 7700
    held = array.read(0, array.size).reshape(700, 11)
    assert is_empty(held[:, 9:], dtype).all()
    assert not is_empty(held[:, :9], dtype).any()
    again = paged_lines("A", 3, (700, 9, 11), dtype, normal(dtype)).read(PAGE - 5, PAGE + 5)
    np.testing.assert_array_equal(again, held.reshape(-1)[PAGE - 5 : PAGE + 5])


def test_elements_follow_name_seed_and_page():
    first = paged_lines("A", 3, (1, 4 * PAGE, 4 * PAGE), "float32", normal("float32")).read(0, 4 * PAGE)
    assert abs(first.mean()) < 0.05
    assert abs(first.std() - 1) < 0.05
    assert not np.array_equal(first[:PAGE], first[PAGE : 2 * PAGE])
    for name, seed in (("B", 3), ("A", 4)):
        other = paged_lines(name, seed, (1, PAGE, PAGE), "float32", normal("float32")).read(0, PAGE)
        assert not np.array_equal(first[:PAGE], other)
    assert stream("A", 1).random() == stream("A", 1, 0).random()


def test_elements_are_drawn_with_their_places():
    array = paged_lines("A", 0, (1 << 20, 5, 8), "float64", lambda _, lines, places: lines + places / 10)
    block = block_of(array, np.array([7, 1 << 19]), np.array([4, 0]), 8)
    assert block.tolist() == [[7.4, 7.0], [(1 << 19) + 0.4, 1 << 19]]


def test_blank_arrays_cost_one_page():
    array = blank(1 << 40, "float16")
    assert is_empty(array.read((1 << 40) - 3, 1 << 40)).all()
    assert array.page(0) is array.page(77)
