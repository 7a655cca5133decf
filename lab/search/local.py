"""Strategies without a surrogate model: exhaustive, annealing, and three population-based ones.

Each is a generator of type `lab.search.search.Moves` and, if possible, never ends: the caller limits the budget.
Costs are logarithms of times, so a difference of 0.01 is one per cent.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final

from lab.search.search import Moves
from lab.search.search_space import Place, SearchSpace

_HOT: Final = 0.03
_COLD: Final = 0.005
"""First and last temperature of a cooling schedule: a step that costs 3 % or 0.5 % is accepted with probability 1/e.
Neighbours' times differ by tens of per cent, so at much higher temperatures the walk is random."""

_FIRST: Final = 4
"""Number of random points; the walk starts at the best of them."""

_COOLING: Final = 60
"""Steps of a cooling schedule; then the walk restarts at the best point or at a random one."""

_POPULATION: Final = 8
_PACK: Final = 6
"""Population of a genetic search and of differential evolution, and number of wolves. A search has ten to a
hundred measurements: a larger population would use them up before any selection."""

_MUTATION: Final = 0.15
"""Probability that a child's value is replaced by one of its neighbours."""

_DIFFERENCE: Final = 0.7
_CROSSOVER: Final = 0.6
"""Differential weight and crossover probability of differential evolution. Storn and Price recommend 0.4 to 1 for
both."""

_LEADERS: Final = 3
"""Number of leading wolves: alpha, beta and delta of Mirjalili's grey wolf optimizer."""

_PATIENCE: Final = 5
"""Generations without progress after which half of a population is replaced by random points."""


def one_by_one(space: SearchSpace, _rng: random.Random, batch: int = 1) -> Moves:
    """Yield every point in the experiment's order."""
    points = space.points
    for i in range(0, len(points), batch):
        yield points[i : i + batch]


def annealing(space: SearchSpace, rng: random.Random, _batch: int = 1) -> Moves:
    """Walk over neighbours, accepting worse ones ever more rarely as it cools; then restart from the best point."""
    drawn = space.sample(rng, _FIRST)
    if not drawn:
        return
    costs = {}
    for start in drawn:  # singly, so that a slow one is cut short
        (costs[start],) = yield [start]
    current = best = min(drawn, key=lambda candidate: costs[candidate])
    cost = least = costs[best]
    while True:
        for step in range(_COOLING):
            near = space.neighbours(current) if rng.random() < 1 / 2 else space.around(current)
            if not near:
                break
            proposed = rng.choice(near)
            (proposed_cost,) = yield [proposed]
            heat = _HOT * (_COLD / _HOT) ** (step / _COOLING)
            if proposed_cost <= cost or (
                math.isfinite(proposed_cost) and rng.random() < math.exp((cost - proposed_cost) / heat)
            ):
                current, cost = proposed, proposed_cost
            if cost < least:
                best, least = current, cost
        if rng.random() < 1 / 2:
            current, cost = best, least
        else:
            (current,) = space.sample(rng, 1)
            (cost,) = yield [current]


def genetic(space: SearchSpace, rng: random.Random, _batch: int = 1) -> Moves:
    """Cross tournament winners value by value, mutate the children, and keep the best of both generations."""
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
    """Challenge each point with the best one plus a difference of two others, and keep the faster one."""
    living = space.sample(rng, _POPULATION)
    costs = list((yield living))
    still = 0
    while len(living) > _LEADERS:
        best = living[min(range(len(living)), key=lambda i: costs[i])]
        challengers = [_challenger(space, incumbent, best, rng.sample(living, 2), rng) for incumbent in living]
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


def _challenger(
    space: SearchSpace, incumbent: Place, best: Place, donors: Sequence[Place], rng: random.Random
) -> Place:
    first, second = donors
    trial = list(incumbent)
    for i, axis in enumerate(space.axes):
        if rng.random() >= _CROSSOVER:
            continue
        if axis.ordered:
            step = _DIFFERENCE * (first[i] - second[i]) + rng.uniform(-0.5, 0.5)
            trial[i] = min(max(round(best[i] + step), 0), len(axis.values) - 1)
        else:
            trial[i] = rng.choice((best[i], first[i], second[i]))
    repaired = space.repaired(_mutated(space, tuple(trial), rng, _MUTATION / 3), rng)
    return incumbent if repaired is None else repaired


def tabu_greywolf(space: SearchSpace, rng: random.Random, _batch: int = 1) -> Moves:
    """Let a pack follow its three best wolves value by value; visited points are tabu."""
    pack = space.sample(rng, _PACK)
    costs = list((yield pack))
    visited = dict(zip(pack, costs, strict=True))
    best, still = min(costs, default=math.inf), 0
    while pack:
        pack, costs = _fittest(pack, costs, len(pack))
        leaders, moved_pack = pack[:_LEADERS], list[Place]()
        for wolf in pack:
            place = tuple(
                rng.choice((*(leader[i] for leader in leaders), value)) if rng.random() < 0.9 else value  # noqa: PLR2004 - 1 in 10 values is kept
                for i, value in enumerate(wolf)
            )
            repaired = space.repaired(_mutated(space, place, rng), rng)
            moved_pack.append(_not_tabu(space, wolf if repaired is None else repaired, {*visited, *moved_pack}, rng))
        of_moved = list((yield moved_pack))
        visited.update(zip(moved_pack, of_moved, strict=True))
        pack, costs = _fittest([*pack, *moved_pack], [*costs, *of_moved], len(pack))
        still = 0 if costs[0] < best else still + 1
        best = min(best, costs[0])
        if still >= _PATIENCE:
            survivors = len(pack) // 2
            fresh = space.sample(rng, len(pack) - survivors)
            costs = [*costs[:survivors], *(yield fresh)]
            pack, still = [*pack[:survivors], *fresh], 0


def _not_tabu(space: SearchSpace, place: Place, tabu: set[Place], rng: random.Random) -> Place:
    """Return the point, or an unvisited neighbour (first near, then farther); the point itself if there is none."""
    if place not in tabu:
        return place
    for near in (space.neighbours, space.around):
        free = [neighbour for neighbour in near(place) if neighbour not in tabu]
        if free:
            return rng.choice(free)
    return place


def _tournament(living: Sequence[Place], costs: Sequence[float], rng: random.Random) -> Place:
    first, second = rng.randrange(len(living)), rng.randrange(len(living))
    return living[first if costs[first] <= costs[second] else second]


def _mutated(space: SearchSpace, place: Place, rng: random.Random, chance: float = _MUTATION) -> Place:
    mutant = list(place)
    for i, axis in enumerate(space.axes):
        if len(axis.values) > 1 and rng.random() < chance:
            mutant[i] = rng.choice(axis.beside(mutant[i]))
    return tuple(mutant)


def _fittest(living: Sequence[Place], costs: Sequence[float], count: int) -> tuple[list[Place], list[float]]:
    """Return the distinct points with the lowest costs, best first."""
    by_point = dict(zip(living, costs, strict=True))
    order = sorted(by_point, key=lambda place: by_point[place])[:count]
    return order, [by_point[place] for place in order]
