"""Spaces under constraints: every point that is drawn, repaired or beside another one is valid."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.search.search_space import SearchAxis, SearchSpace, in_random_order

AXES = (
    SearchAxis("a", (1, 2, 4, 8)),
    SearchAxis("b", (False, True)),
    SearchAxis("c", ("x", "y", "z")),
    SearchAxis("d", (5,)),
)


def made(limit=None, axes=AXES):
    space = SearchSpace(axes, lambda place: place[0] + 2 * place[1] + place[2] <= 4)
    if limit is not None:
        space = SearchSpace((*axes, *(SearchAxis(f"e{i}", tuple(range(10))) for i in range(limit))), space.allowed)
    return space


def test_axes_lie_between_0_and_1():
    assert AXES[0].coordinates[:, 0].tolist() == [0, 1 / 3, 2 / 3, 1]
    assert AXES[1].coordinates[:, 0].tolist() == [0, 1]
    words = AXES[2].coordinates
    assert np.allclose(np.linalg.norm(words[0] - words[1:], axis=1), 1)
    assert SearchAxis("f", (3, 1, 2)).coordinates[:, 0].tolist() == [1, 0, 0.5]


def test_numbers_have_neighbours_in_value_and_words_have_all_others():
    assert SearchAxis("f", (4, 1, 2)).beside(2) == (1, 0)
    assert AXES[0].beside(0) == (1,)
    assert AXES[2].beside(1) == (0, 2)


def test_a_listed_space_has_every_point_once():
    space = made()
    assert space.is_listed
    assert (
        len(space.points)
        == len(set(space.points))
        == sum(a + 2 * b + c <= 4 for a in range(4) for b in range(2) for c in range(3))
    )
    assert sorted(in_random_order(space, random.Random(1))) == sorted(space.points)
    assert space.coordinates(space.points).shape == (len(space.points), 5)  # an axis of one value says nothing


@pytest.mark.parametrize("limit", [None, 6])
@given(seed=st.integers(0, 1000), place=st.tuples(*(st.integers(0, len(axis.values) - 1) for axis in AXES)))
@settings(max_examples=30)
def test_nothing_outside_the_constraints_is_proposed(limit, seed, place):
    space, rng = made(limit), random.Random(seed)
    place = (*place, *([3] * (limit or 0)))
    repaired = space.repaired(place, rng)
    assert repaired in space
    if place in space:
        assert repaired == place
    drawn = space.draw(rng)
    assert all(one in space for one in (drawn, *space.neighbours(drawn), *space.around(drawn), *space.sample(rng, 5)))


def test_a_repaired_point_is_as_near_as_possible():
    space = made()
    assert sum(a != b for a, b in zip(space.repaired((3, 1, 2, 0), random.Random(0)), (3, 1, 2, 0), strict=True)) == 1


def test_a_centre_lies_in_the_middle_of_what_is_valid():
    numbers = tuple(SearchAxis(f"e{i}", tuple(range(11))) for i in range(2))
    assert SearchSpace(numbers, lambda _: True).centre(random.Random(0)) == (5, 5)
    assert SearchSpace(numbers, lambda place: place[0] >= 6).centre(random.Random(0)) == (8, 5)
    large = SearchSpace(tuple(SearchAxis(f"e{i}", tuple(range(11))) for i in range(7)), lambda _: True)
    assert large.centre(random.Random(0)) == (5,) * 7


def test_an_empty_space_gives_nothing():
    listed = SearchSpace(AXES, lambda _: False)
    large = SearchSpace((*AXES, *(SearchAxis(f"e{i}", tuple(range(10))) for i in range(6))), lambda _: False)
    for space in (listed, large):
        assert space.draw(random.Random(0)) is None
        assert space.centre(random.Random(0)) is None
        assert space.repaired((0,) * len(space.axes), random.Random(0)) is None
        assert list(in_random_order(space, random.Random(0))) == []


def test_constraints_are_asked_once_a_combination():
    checked_places = []

    def allowed(place):
        checked_places.append(place)
        return True

    space = SearchSpace(AXES, allowed)
    for _ in range(3):
        assert len(space.points) == 24
        space.draw(random.Random(0))
        space.neighbours((0, 0, 0, 0))
    assert len(checked_places) == len(set(checked_places)) == 24
