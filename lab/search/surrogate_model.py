"""A surrogate model of unmeasured points: a Gaussian process over the measured ones, and odds derived from it.

With a prior (a predicted time of each point), the process learns the difference between prediction and measurement.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from lab.search.gaussian import Fitted, Process, condition, fit
from lab.search.search import Moves
from lab.search.search_space import Place, SearchSpace

Floats = NDArray[np.float64]

_MOST_CANDIDATES: Final = 6000
"""Number of points a model rates per step; in a larger space, a new sample each time plus those around the best."""

_MOST_TOLD: Final = 400
"""Largest number of points a process is conditioned on, the fastest ones; its work grows with the cube."""

_REFIT: Final = 1.1
"""Growth of the number of known costs after which the length scales are refitted."""

_FIRST_FIT: Final = 4

_FAR: Final = 1.0
"""Logarithmic distance from the best beyond which differences are compressed: whether a point takes 5 or 50 times as
long does not help to locate the best one, but would inflate the amplitude of the process."""

_AROUND: Final = 4
"""Number of best points whose neighbourhoods are always candidates."""


@dataclass(frozen=True)
class Prior:
    """Information on points before they are measured.

    Attributes:
        costs: Predicted costs, logarithms of times. Points without one are not searched.
        facts: Further figures of these points, equally many for each, which may explain prediction errors; may be
            empty.
    """

    costs: Mapping[Place, float]
    facts: Mapping[Place, Sequence[float]] = field(default_factory=dict)


class Surrogate:
    """A model of the costs of a space's points, updated with known costs."""

    def __init__(self, space: SearchSpace, rng: random.Random, prior: Prior | None = None) -> None:
        """Start with nothing but the prior.

        Args:
            space: The space.
            rng: Draws candidates of a space that is too large to rate as a whole.
            prior: Predicted costs; None for none.
        """
        self._space, self._rng, self._prior = space, rng, prior
        self._whole = list(prior.costs) if prior else list(space.points) if space.is_listed else None
        self._rows: dict[Place, Floats] = {}
        self._fitted: Fitted | None = None
        self._fitted_at = 0
        self._process: Process | None = None
        self._scale: tuple[Floats, Floats] | None = None
        if self._whole is not None and len(self._whole) <= _MOST_CANDIDATES:
            self._rows = dict(zip(self._whole, self._features(self._whole), strict=True))
        leans = np.array(list(prior.costs.values())) if prior else np.zeros(1)
        self._least, self._centre = float(leans.min()), float(np.mean(_compressed(leans - leans.min())))
        self._best = 0.0
        self._failed: list[Place] = []

    def tell(self, costs: Mapping[Place, float]) -> None:
        """Take all known costs."""
        own_costs = [(place, cost) for place, cost in costs.items() if self._knows(place)]
        self._failed = [place for place, cost in own_costs if not math.isfinite(cost)]
        finite = sorted(
            ((place, cost) for place, cost in own_costs if math.isfinite(cost)),
            key=lambda place_and_cost: place_and_cost[1],
        )
        if not finite:
            self._process = None
            return
        finite = finite[:_MOST_TOLD]
        places = [place for place, _ in finite]
        y = np.array([cost for _, cost in finite])
        self._best = float(y.min())
        y = _compressed(y - self._best)
        x, lean = self._table(places), self._lean(places)
        self._fitted = self._fitted or Fitted.at_first(x.shape[1])
        if len(finite) >= max(_FIRST_FIT, _REFIT * self._fitted_at):
            self._fitted, self._fitted_at = fit(self._fitted, x, y, lean), len(finite)
        self._process = condition(self._fitted, x, y, lean)

    def candidates(self, costs: Mapping[Place, float]) -> list[Place]:
        """Return points without a known cost to rate next."""
        if self._whole is not None:
            free = [place for place in self._whole if place not in costs]
            if len(free) <= _MOST_CANDIDATES:
                return free
            points = self._rng.sample(free, _MOST_CANDIDATES)
        else:
            points = self._space.sample(self._rng, _MOST_CANDIDATES // 3)
        for best in sorted(costs, key=lambda place: costs[place])[:_AROUND]:
            points += [place for place in self._space.around(best) if self._knows(place)]
        return [place for place in dict.fromkeys(points) if place not in costs]

    def expected(self, places: Sequence[Place]) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of each point's cost relative to the best known cost."""
        lean = self._lean(places)
        if self._process is None:
            return lean - float(lean.min()), np.ones(len(places))
        return self._process.expected(self._table(places), lean)

    def works(self, places: Sequence[Place]) -> Floats:
        """Return the probability that each point does not fail, given which of its neighbours failed."""
        if self._process is None or not self._failed:
            return np.ones(len(places))
        table, failed = self._table(places), self._table(self._failed)
        good = self._process.alike(table, self._process.x).sum(axis=1)
        bad = self._process.alike(table, failed).sum(axis=1)
        probability: Floats = (good + 1) / (good + bad + 1)
        return probability

    def odds(self, places: Sequence[Place], margin: float) -> float:
        """Return the probability that any of some points beats the best known cost by a margin (a logarithm).

        It treats points as independent, which overestimates the probability.
        """
        if not places:
            return 0.0
        mean, deviation = self.expected(places)
        noise = self._fitted.noise if self._fitted else 0.0
        better = (-margin - mean) / np.sqrt(deviation**2 + noise**2)
        return float(-np.expm1(log_ndtr(-better).sum()))

    @property
    def lengths(self) -> Floats | None:
        """Length scales of the axes' columns; None before the first fit."""
        return None if self._fitted is None else self._fitted.lengths

    def _knows(self, place: Place) -> bool:
        return self._prior is None or place in self._prior.costs

    def _lean(self, places: Sequence[Place]) -> Floats:
        if self._prior is None:
            return np.zeros(len(places))
        costs = np.array([self._prior.costs[place] for place in places])
        return _compressed(costs - self._least) - self._centre

    def _table(self, places: Sequence[Place]) -> Floats:
        if all(place in self._rows for place in places):
            return np.array([self._rows[place] for place in places])
        return self._features(places)

    def _features(self, places: Sequence[Place]) -> Floats:
        """Return the coordinates of the axes, then the facts, each scaled to 0 to 1 over the space."""
        x = self._space.coordinates(places)
        if self._prior is None or not self._prior.facts:
            return x
        if self._scale is None:
            every = np.array(list(self._prior.facts.values()), dtype=np.float64)
            self._scale = every.min(axis=0), np.maximum(np.ptp(every, axis=0), 1e-12)
        facts = np.array([self._prior.facts[place] for place in places], dtype=np.float64)
        return np.concatenate([x, (facts - self._scale[0]) / self._scale[1]], axis=1)


def _compressed(above: Floats) -> Floats:
    """Compress distances from the best: linear up to `_FAR`, logarithmic beyond."""
    return np.where(above <= _FAR, above, _FAR * (1 + np.log(np.maximum(above, _FAR) / _FAR)))


def in_order(space: SearchSpace, _rng: random.Random, batch: int = 1, *, prior: Prior) -> Moves:
    """Yield points in order of their predicted costs, the fastest first."""
    order = sorted(prior.costs, key=lambda place: prior.costs[place])
    for i in range(0, len(order), batch):
        yield [place for place in order[i : i + batch] if place in space]


def surrogate(
    space: SearchSpace, rng: random.Random, batch: int = 1, *, prior: Prior | None = None, first: int = 4
) -> Moves:
    """Yield the point with the largest expected improvement, by a model of the measurements so far.

    Without a prior it starts at the centre of the space, from which no value of an axis is far, and at some random
    points. Until a point has a time, points are drawn at random.

    Args:
        space: The space.
        rng: Makes the random choices.
        batch: Number of points to measure at a time.
        prior: Predicted costs; None for none.
        first: Number of points measured before the model is used; with a prior, none are.
    """
    model, costs = Surrogate(space, rng, prior), dict[Place, float]()
    middle = space.centre(rng) if prior is None else None
    if middle is not None:
        begin = list(dict.fromkeys([middle, *space.sample(rng, first)]))[:first]
        costs.update(zip(begin, (yield begin), strict=True))
    while True:
        model.tell(costs)
        free = model.candidates(costs)
        if not free:
            return
        nothing_known = prior is None and not any(map(math.isfinite, costs.values()))
        chosen = rng.sample(free, min(batch, len(free))) if nothing_known else _most_promising(model, free, batch)
        costs.update(zip(chosen, (yield chosen), strict=True))


def _most_promising(model: Surrogate, free: Sequence[Place], batch: int) -> list[Place]:
    """Return points by expected improvement (Jones, Schonlau and Welch, 1998), the most promising first.

    Further points of a batch must differ from those chosen in more than one value: measuring two similar points yields
    little more information than measuring one.
    """
    mean, deviation = model.expected(free)
    z = -mean / deviation
    gain = model.works(free) * deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
    order = np.lexsort((mean, -gain))
    chosen: list[Place] = []
    for i in order:
        if all(sum(a != b for a, b in zip(free[i], earlier, strict=True)) > 1 for earlier in chosen):
            chosen.append(free[i])
        if len(chosen) == batch:
            break
    return chosen
