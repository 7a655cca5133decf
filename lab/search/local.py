"""Strategies without a model of the times: random, exhaustive, annealing, and three that keep a population.

Each is a generator as `lab.search.search.Moves` says, and goes on without end where it can: budgets are the caller's.
Costs are logarithms of times, so that a difference of 0.01 is one per cent.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final

from lab.search.search import Moves
from lab.search.search_space import Place, SearchSpace, in_random_order

_HOT: Final = 0.03
_COLD: Final = 0.005
"""Temperatures at the ends of a cooling: a step that costs 3 % and one that costs 0.5 % pass with probability 1/e.
Neighbours' times differ by tens of per cent, so that a walk with much more heat is a random one."""

_FIRST: Final = 4
"""Points that are drawn before a walk begins at the best of them."""

_COOLING: Final = 60
"""Steps of a cooling; after it the walk begins again at the best point, or at a random one."""

_POPULATION: Final = 8
_PACK: Final = 6
"""Points that live at a time, of a genetic search and of differential evolution, and wolves. A search has some ten to a
hundred measurements: a larger population would spend them before it has learnt anything."""

_MUTATION: Final = 0.15
"""Chance that a child's value is replaced by one of its neighbours."""

_DIFFERENCE: Final = 0.7
_CROSSOVER: Final = 0.6
"""Of differential evolution: the weight of a difference, and the chance to take its value. Storn and Price recommend
0.4 to 1 for both."""

_LEADERS: Final = 3
"""Wolves that the others follow: alpha, beta and delta of Mirjalili's grey wolf optimizer."""

_PATIENCE: Final = 5
"""Generations without progress after which half of a population is drawn anew."""


def at_random(space: SearchSpace, rng: random.Random, batch: int = 1) -> Moves:
    """Points in random order, each as likely as any other."""
    taken: list[Place] = []
    for place in in_random_order(space, rng):
        taken.append(place)
        if len(taken) == batch:
            yield taken
            taken = []
    if taken:
        yield taken


def one_by_one(space: SearchSpace, _rng: random.Random, batch: int = 1) -> Moves:
    """Every point in the experiment's order."""
    points = space.points
    for i in range(0, len(points), batch):
        yield points[i : i + batch]


def annealing(space: SearchSpace, rng: random.Random, _batch: int = 1) -> Moves:
    """A walk over neighbours, which takes worse ones ever less often as it cools; then again from the best point."""
    drawn = space.sample(rng, _FIRST)
    if not drawn:
        return
    costs = {}
    for one in drawn:  # one at a time, so that a slow one is cut short
        (costs[one],) = yield [one]
    here = best = min(drawn, key=lambda one: costs[one])
    cost = least = costs[best]
    while True:
        for step in range(_COOLING):
            near = space.neighbours(here) if rng.random() < 1 / 2 else space.around(here)
            if not near:
                break
            there = rng.choice(near)
            (other,) = yield [there]
            heat = _HOT * (_COLD / _HOT) ** (step / _COOLING)
            if other <= cost or (math.isfinite(other) and rng.random() < math.exp((cost - other) / heat)):
                here, cost = there, other
            if cost < least:
                best, least = here, cost
        if rng.random() < 1 / 2:
            here, cost = best, least
        else:
            (here,) = space.sample(rng, 1)
            (cost,) = yield [here]


def genetic(space: SearchSpace, rng: random.Random, _batch: int = 1) -> Moves:
    """Parents that win a tournament cross value by value; children mutate, and the best of both generations stay."""
    living = space.sample(rng, _POPULATION)
    costs = list((yield living))
    still = 0
    while living:
        children = []
        for _ in range(_POPULATION):
            mother, father = (_tournament(living, costs, rng) for _ in range(2))
            child = tuple(rng.choice(pair) for pair in zip(mother, father, strict=True))
            repaired = space.repaired(_mutated(space, child, rng), rng)
            if repaired is not None:
                children.append(repaired)
        before = min(costs)
        of_children = list((yield children))
        living, costs = _fittest([*living, *children], [*costs, *of_children], _POPULATION)
        still = 0 if min(costs) < before else still + 1
        if still >= _PATIENCE:
            living, costs = living[: _POPULATION // 2], costs[: _POPULATION // 2]
            fresh = space.sample(rng, _POPULATION // 2)
            costs += list((yield fresh))
            living, still = [*living, *fresh], 0


def differential_evolution(space: SearchSpace, rng: random.Random, _batch: int = 1) -> Moves:
    """Each point is challenged by the best one plus a difference of two others; whichever is faster stays."""
    living = space.sample(rng, _POPULATION)
    costs = list((yield living))
    still = 0
    while len(living) > _LEADERS:
        best = living[min(range(len(living)), key=lambda i: costs[i])]
        challengers = [_challenger(space, one, best, rng.sample(living, 2), rng) for one in living]
        of_challengers = yield challengers
        before = min(costs)
        for i, (challenger, cost) in enumerate(zip(challengers, of_challengers, strict=True)):
            if cost < costs[i]:
                living[i], costs[i] = challenger, cost
        still = 0 if min(costs) < before else still + 1
        if still >= _PATIENCE:
            order = sorted(range(len(living)), key=lambda i: costs[i])[_POPULATION // 2 :]
            fresh = space.sample(rng, len(order))
            of_fresh = yield fresh
            for i, place, cost in zip(order, fresh, of_fresh, strict=False):
                living[i], costs[i] = place, cost
            still = 0


def _challenger(space: SearchSpace, one: Place, best: Place, others: Sequence[Place], rng: random.Random) -> Place:
    first, second = others
    moved = list(one)
    for i, axis in enumerate(space.axes):
        if rng.random() >= _CROSSOVER:
            continue
        if axis.ordered:
            step = _DIFFERENCE * (first[i] - second[i]) + rng.uniform(-0.5, 0.5)
            moved[i] = min(max(round(best[i] + step), 0), len(axis.values) - 1)
        else:
            moved[i] = rng.choice((best[i], first[i], second[i]))
    found = space.repaired(_mutated(space, tuple(moved), rng, _MUTATION / 3), rng)
    return one if found is None else found


def tabu_greywolf(space: SearchSpace, rng: random.Random, _batch: int = 1) -> Moves:
    """A pack follows its three best wolves value by value; places where it was are tabu, so that it always moves on."""
    pack = space.sample(rng, _PACK)
    costs = list((yield pack))
    seen = dict(zip(pack, costs, strict=True))
    best, still = min(costs, default=math.inf), 0
    while pack:
        pack, costs = _fittest(pack, costs, len(pack))
        leaders, moved = pack[:_LEADERS], list[Place]()
        for one in pack:
            place = tuple(
                rng.choice((*(leader[i] for leader in leaders), value)) if rng.random() < 0.9 else value  # noqa: PLR2004 - 1 in 10 stays
                for i, value in enumerate(one)
            )
            found = space.repaired(_mutated(space, place, rng), rng)
            moved.append(_not_tabu(space, one if found is None else found, {*seen, *moved}, rng))
        of_moved = list((yield moved))
        seen.update(zip(moved, of_moved, strict=True))
        pack, costs = _fittest([*pack, *moved], [*costs, *of_moved], len(pack))
        still = 0 if costs[0] < best else still + 1
        best = min(best, costs[0])
        if still >= _PATIENCE:
            kept = len(pack) // 2
            fresh = space.sample(rng, len(pack) - kept)
            costs = [*costs[:kept], *(yield fresh)]
            pack, still = [*pack[:kept], *fresh], 0


def _not_tabu(space: SearchSpace, place: Place, tabu: set[Place], rng: random.Random) -> Place:
    """The place, or an unseen neighbour of it, or of one of those; the place itself where there is none."""
    if place not in tabu:
        return place
    for near in (space.neighbours, space.around):
        free = [one for one in near(place) if one not in tabu]
        if free:
            return rng.choice(free)
    return place


def _tournament(living: Sequence[Place], costs: Sequence[float], rng: random.Random) -> Place:
    first, second = rng.randrange(len(living)), rng.randrange(len(living))
    return living[first if costs[first] <= costs[second] else second]


def _mutated(space: SearchSpace, place: Place, rng: random.Random, chance: float = _MUTATION) -> Place:
    moved = list(place)
    for i, axis in enumerate(space.axes):
        if len(axis.values) > 1 and rng.random() < chance:
            moved[i] = rng.choice(axis.beside(moved[i]))
    return tuple(moved)


def _fittest(living: Sequence[Place], costs: Sequence[float], most: int) -> tuple[list[Place], list[float]]:
    """The different points with the least costs, best first."""
    known = dict(zip(living, costs, strict=True))
    order = sorted(known, key=lambda place: known[place])[:most]
    return order, [known[place] for place in order]
