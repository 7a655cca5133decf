"""Predictions of a search model at unmeasured points."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from lab.search.search_space import SearchAxis, SearchSpace
from lab.search.surrogate_model import Prior, Surrogate, surrogate

SPACE = SearchSpace((SearchAxis("a", tuple(range(12))), SearchAxis("b", (False, True))), lambda _: True)


def cost(place):
    return 0.08 * abs(place[0] - 4) + 0.2 * place[1]


def told(places, prior=None):
    model = Surrogate(SPACE, random.Random(0), prior)
    costs = {place: cost(place) for place in places}
    model.tell(costs)
    return model, costs


def test_odds_are_high_at_first_and_low_when_all_around_is_known():
    model, costs = told(SPACE.points[:2])
    assert model.odds(model.candidates(costs), 0.01) > 0.5
    model, costs = told([place for place in SPACE.points if place not in {(11, 1), (0, 1), (9, 1)}])
    assert model.odds(model.candidates(costs), 0.01) < 0.01
    model, costs = told(SPACE.points)
    assert model.odds(model.candidates(costs), 0.01) == 0.0


def test_points_beside_failures_are_less_likely_to_work():
    model = Surrogate(SPACE, random.Random(0))
    model.tell({(0, 0): 0.3, (4, 0): 0.0, (10, 1): math.inf, (11, 1): math.inf})
    near, far = model.works([(9, 1), (3, 0)])
    assert near < 0.7 < far


def test_failures_alone_say_nothing():
    model = Surrogate(SPACE, random.Random(0))
    model.tell({(0, 0): math.inf})
    mean, deviation = model.expected([(1, 0), (2, 0)])
    assert mean.tolist() == [0, 0]
    assert deviation.tolist() == [1, 1]


def test_a_prior_decides_before_anything_is_measured():
    prior = Prior({place: cost(place) for place in SPACE.points})
    model = Surrogate(SPACE, random.Random(0), prior)
    mean, _ = model.expected(SPACE.points)
    assert SPACE.points[int(np.argmin(mean))] == (4, 0)


def test_points_without_a_prediction_are_not_searched():
    prior = Prior({place: cost(place) for place in SPACE.points[:10]})
    model = Surrogate(SPACE, random.Random(0), prior)
    assert sorted(model.candidates({})) == sorted(prior.costs)


def test_facts_explain_where_predictions_err():
    """A prior that misses a cost which a fact names is corrected after a few measurements."""
    wrong = {place: 0.01 * place[0] for place in SPACE.points}
    facts = {place: (abs(place[0] - 4), place[1]) for place in SPACE.points}
    seen = SPACE.points[::3]

    def error(prior):
        model, _ = told(seen, prior)
        mean, _ = model.expected(SPACE.points)
        return np.abs(mean - np.array([cost(place) for place in SPACE.points])).mean()

    assert error(Prior(wrong, facts)) < error(Prior(wrong))


def test_a_space_too_large_to_list_has_candidates_around_the_best():
    space = SearchSpace(
        tuple(SearchAxis(f"x{i}", tuple(range(10))) for i in range(7)), lambda place: sum(place) % 2 == 0
    )
    model = Surrogate(space, random.Random(0))
    costs: dict[tuple[int, ...], float] = {(0,) * 7: 0.0, (2,) * 7: 0.1}
    model.tell(costs)
    found = model.candidates(costs)
    assert set(space.around((0,) * 7)) <= set(found)
    assert all(place in space and place not in costs for place in found)
    assert model.expected(found)[0].shape == (len(found),)


def test_far_points_are_compressed():
    model = Surrogate(SPACE, random.Random(0))
    model.tell({(0, 0): 0.0, (5, 0): 8.0})
    assert model.expected([(5, 0)])[0][0] == pytest.approx(1 + math.log(8), rel=0.05)


def test_a_search_without_a_prior_begins_in_the_middle():
    going = surrogate(SPACE, random.Random(0))
    middle, *drawn = next(going)
    assert middle[0] in {5, 6}
    assert len({middle, *drawn}) == 4


def test_a_search_draws_points_until_one_has_a_time():
    """The first points of the space may all fail, so after a failed centre the draw must not follow space order."""
    going = surrogate(SPACE, random.Random(0))
    begin = list(next(going))
    found = list(going.send([math.inf] * 4))
    for _ in range(8):
        found += going.send([math.inf])
    assert found != [place for place in SPACE.points if place not in begin][:9]
    assert len({*begin, *found}) == 13
