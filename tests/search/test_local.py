"""Strategies without a model; what all strategies have in common is in test_search."""

from __future__ import annotations

import random

from lab.search import local
from lab.search.search_space import SearchAxis, SearchSpace

SPACE = SearchSpace((SearchAxis("a", tuple(range(6))), SearchAxis("b", ("x", "y"))), lambda place: place != (0, 0))


def moves(strategy, cost, most):
    """The points that a strategy asks for, with its repetitions."""
    visited: list[tuple[int, ...]] = []
    going = strategy(SPACE, random.Random(5))
    asked = next(going)
    while len(visited) < most:
        visited += asked
        try:
            asked = going.send([cost(place) for place in asked])
        except StopIteration:
            break
    return visited


def test_every_point_is_taken_in_the_order_of_the_experiment():
    assert moves(local.one_by_one, lambda _: 0.0, 100) == list(SPACE.points)


def test_annealing_walks_from_a_point_to_one_that_differs_in_one_axis():
    visited = moves(local.annealing, lambda place: float(place[0]), 40)
    here = visited[0]
    for there in visited[1:30]:
        assert sum(a != b for a, b in zip(here, there, strict=True)) <= 2  # a refused step leaves it where it was
        here = there if there[0] <= here[0] else here


def test_a_pack_does_not_stand_still():
    visited = moves(local.tabu_greywolf, lambda place: float(place[0]), 11)
    assert len(set(visited)) == 11


def test_a_space_of_one_point_ends_no_strategy_with_an_error():
    one = SearchSpace((SearchAxis("a", (1,)),), lambda _: True)
    for strategy in (local.annealing, local.genetic, local.differential_evolution, local.tabu_greywolf):
        going = strategy(one, random.Random(0))
        asked = next(going)
        for _ in range(30):
            try:
                asked = going.send([0.0] * len(asked))
            except StopIteration:
                break
