"""A search under way: what it asks for, and that it goes on where it was."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from lab.search import local, surrogate_model
from lab.search.search import Search
from lab.search.search_space import SearchAxis, SearchSpace, in_random_order

SPACE = SearchSpace(
    (SearchAxis("a", tuple(range(8))), SearchAxis("b", tuple(range(8))), SearchAxis("c", ("x", "y", "z"))),
    lambda place: (place[0] * place[1]) % 5 != 3,
)


def cost(place):
    if place[0] == 7 and place[2] == 0:
        return math.inf
    return 0.1 * (place[0] - 5) ** 2 + 0.05 * (place[1] - 2) ** 2 + 0.3 * (place[2] != 1)


PRIOR = surrogate_model.Prior(
    {place: cost(place) * 0.8 if math.isfinite(cost(place)) else 0.5 for place in SPACE.points}
)


def at_random(space, rng, batch=1):
    """Chance, which the strategies have to beat."""
    places = list(in_random_order(space, rng))
    for first in range(0, len(places), batch):
        yield places[first : first + batch]


STRATEGIES = {
    "random": at_random,
    "exhaustive": local.one_by_one,
    "annealing": local.annealing,
    "genetic": local.genetic,
    "differential evolution": local.differential_evolution,
    "tabu with grey wolf": local.tabu_greywolf,
    "surrogate": surrogate_model.surrogate,
    "surrogate with prior": lambda space, rng, batch=1: surrogate_model.surrogate(space, rng, batch, prior=PRIOR),
    "prior": lambda space, rng, batch=1: surrogate_model.in_order(space, rng, batch, prior=PRIOR),
}


def begun(name, seed=3, batch=1):
    rng = random.Random(seed)
    return Search(SPACE, STRATEGIES[name](SPACE, rng, batch), rng)


def taken(search, most):
    """Measure one point after another, and return them in order."""
    order: list[tuple[int, ...]] = []
    while len(order) < most and (asked := search.ask()):
        for place in asked[: most - len(order)]:
            order.append(place)
            search.tell({place: cost(place)})
    return order


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_search_measures_points_of_the_space_and_none_twice(name):
    order = taken(begun(name), 60)
    assert len(order) == len(set(order)) == 60
    assert all(place in SPACE for place in order)


@pytest.mark.parametrize("name", ["random", "exhaustive", "annealing", "surrogate", "prior"])
def test_a_search_without_a_limit_ends_when_everything_is_known(name):
    assert sorted(taken(begun(name, batch=8), 10_000)) == sorted(SPACE.points)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_seed_searches_alike_and_an_interrupted_search_goes_on(name):
    whole = taken(begun(name), 50)
    again = begun(name)
    first = taken(again, 23)
    assert first == whole[:23]
    resumed = begun(name)
    resumed.tell({place: cost(place) for place in first})
    assert taken(resumed, 27) == whole[23:]


@pytest.mark.parametrize("name", ["annealing", "genetic", "differential evolution", "tabu with grey wolf", "surrogate"])
def test_a_strategy_needs_fewer_measurements_than_chance(name):
    def needed(strategy, seed):
        search = begun(strategy, seed)
        return next(i for i in itertools.count() if cost(*taken(search, 1)) <= 0.05)

    seeds = range(8)
    assert sum(needed(name, seed) for seed in seeds) < 0.8 * sum(needed("random", seed) for seed in seeds)


def test_a_prior_is_followed_first():
    best = min(PRIOR.costs, key=PRIOR.costs.__getitem__)
    assert taken(begun("prior"), 1) == taken(begun("surrogate with prior"), 1) == [best]


def test_batches_hold_different_points():
    for name in ("surrogate", "surrogate with prior", "random", "prior"):
        search = begun(name, batch=4)
        taken(search, 8)
        asked = search.ask()
        assert len(asked) == len(set(asked)) == 4


def test_the_best_point_has_a_time():
    search = begun("random")
    assert search.best is None
    search.tell({(7, 0, 0): math.inf})
    assert search.best is None
    search.tell({(5, 2, 1): 0.0, (4, 2, 1): 0.1})
    assert search.best == (5, 2, 1)


def test_a_strategy_that_repeats_itself_is_given_something_new():
    def stubborn(space):
        while True:
            yield [space.points[0]]

    search = Search(SPACE, stubborn(SPACE), random.Random(0))
    assert len(set(taken(search, 5))) == 5
