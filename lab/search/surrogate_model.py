"""What is expected of points that were not measured: a Gaussian process over those that were, and the odds it gives.

With a prior, a predicted time of each point, the process learns the difference between prediction and measurement.
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
"""Points that a model rates at a time; of a larger space, others each time, and those around the best."""

_MOST_TOLD: Final = 400
"""Points that a process is told: the fastest of them, where there are more. Its work grows with their cube."""

_REFIT: Final = 1.1
"""Growth of the number of known costs after which lengths are fitted again."""

_FIRST_FIT: Final = 4

_FAR: Final = 1.0
"""Logarithmic distance from the best beyond which differences are compressed: whether a point takes 5 or 50 times as
long says nothing of where the best one is, and a process without this would spend its size on it."""

_AROUND: Final = 4
"""Best points whose surroundings are always candidates."""


@dataclass(frozen=True)
class Prior:
    """What is known of points before they are measured.

    Attributes:
        costs: Predicted costs, logarithms of times. Points without one are not searched.
        facts: Further figures of each of these points, as many for each, which may explain where predictions err;
            empty without.
    """

    costs: Mapping[Place, float]
    facts: Mapping[Place, Sequence[float]] = field(default_factory=dict)


class Surrogate:
    """A model of the costs of a space's points, told ever more of them."""

    def __init__(self, space: SearchSpace, rng: random.Random, prior: Prior | None = None) -> None:
        """Know nothing but the prior.

        Args:
            space: The space.
            rng: Draws candidates of a space that is too large to rate whole.
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
        """Take all costs that are known."""
        mine = [(place, cost) for place, cost in costs.items() if self._knows(place)]
        self._failed = [place for place, cost in mine if not math.isfinite(cost)]
        told = sorted(((place, cost) for place, cost in mine if math.isfinite(cost)), key=lambda one: one[1])
        if not told:
            self._process = None
            return
        told = told[:_MOST_TOLD]
        places = [place for place, _ in told]
        y = np.array([cost for _, cost in told])
        self._best = float(y.min())
        y = _compressed(y - self._best)
        x, lean = self._table(places), self._lean(places)
        self._fitted = self._fitted or Fitted.at_first(x.shape[1])
        if len(told) >= max(_FIRST_FIT, _REFIT * self._fitted_at):
            self._fitted, self._fitted_at = fit(self._fitted, x, y, lean), len(told)
        self._process = condition(self._fitted, x, y, lean)

    def candidates(self, costs: Mapping[Place, float]) -> list[Place]:
        """Points without a cost that come into question next."""
        if self._whole is not None:
            free = [place for place in self._whole if place not in costs]
            if len(free) <= _MOST_CANDIDATES:
                return free
            found = self._rng.sample(free, _MOST_CANDIDATES)
        else:
            found = self._space.sample(self._rng, _MOST_CANDIDATES // 3)
        for best in sorted(costs, key=lambda place: costs[place])[:_AROUND]:
            found += [place for place in self._space.around(best) if self._knows(place)]
        return [place for place in dict.fromkeys(found) if place not in costs]

    def expected(self, places: Sequence[Place]) -> tuple[Floats, Floats]:
        """Mean and standard deviation of how far the cost of each point lies above the best known one's."""
        lean = self._lean(places)
        if self._process is None:
            return lean - float(lean.min()), np.ones(len(places))
        return self._process.expected(self._table(places), lean)

    def works(self, places: Sequence[Place]) -> Floats:
        """The chance that each point does not fail, by whether its neighbours did."""
        if self._process is None or not self._failed:
            return np.ones(len(places))
        table, failed = self._table(places), self._table(self._failed)
        good = self._process.alike(table, self._process.x).sum(axis=1)
        bad = self._process.alike(table, failed).sum(axis=1)
        found: Floats = (good + 1) / (good + bad + 1)
        return found

    def odds(self, places: Sequence[Place], margin: float) -> float:
        """The chance that at least one of some points is better than the best known one by a margin, as a logarithm.

        It takes points as independent, which makes the chance larger than it is.
        """
        if not places:
            return 0.0
        mean, deviation = self.expected(places)
        noise = self._fitted.noise if self._fitted else 0.0
        better = (-margin - mean) / np.sqrt(deviation**2 + noise**2)
        return float(-np.expm1(log_ndtr(-better).sum()))

    @property
    def lengths(self) -> Floats | None:
        """Lengths of the axes' columns, as far as they are known."""
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
        """Coordinates of the axes, then facts, each scaled to 0 to 1 over the space."""
        x = self._space.coordinates(places)
        if self._prior is None or not self._prior.facts:
            return x
        if self._scale is None:
            every = np.array(list(self._prior.facts.values()), dtype=np.float64)
            self._scale = every.min(axis=0), np.maximum(np.ptp(every, axis=0), 1e-12)
        facts = np.array([self._prior.facts[place] for place in places], dtype=np.float64)
        return np.concatenate([x, (facts - self._scale[0]) / self._scale[1]], axis=1)


def _compressed(above: Floats) -> Floats:
    """Distances from the best: as they are up to `_FAR`, logarithmic beyond."""
    return np.where(above <= _FAR, above, _FAR * (1 + np.log(np.maximum(above, _FAR) / _FAR)))


def in_order(space: SearchSpace, _rng: random.Random, batch: int = 1, *, prior: Prior) -> Moves:
    """What the prior predicts to be fastest first."""
    order = sorted(prior.costs, key=lambda place: prior.costs[place])
    for i in range(0, len(order), batch):
        yield [place for place in order[i : i + batch] if place in space]


def surrogate(
    space: SearchSpace, rng: random.Random, batch: int = 1, *, prior: Prior | None = None, first: int = 4
) -> Moves:
    """Always the point that is expected to improve on the best one most, by a model of what was measured so far.

    Without a prior it begins in the middle of the space, from which no value of an axis is far, and at some points that
    are drawn. Until a point has a time, points are drawn.

    Args:
        space: The space.
        rng: Chooses where there is nothing to choose by.
        batch: Points to measure at a time.
        prior: Predicted costs; None for none.
        first: Points that are measured before the model is asked; with a prior, none are.
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
    """Points by expected improvement (Jones, Schonlau and Welch, 1998), the most promising first.

    Further points of a batch are the next ones that differ from those taken in more than one value: measuring two
    points that promise the same tells little more than measuring one.
    """
    mean, deviation = model.expected(free)
    z = -mean / deviation
    gain = model.works(free) * deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
    order = np.lexsort((mean, -gain))
    taken: list[Place] = []
    for i in order:
        if all(sum(a != b for a, b in zip(free[i], other, strict=True)) > 1 for other in taken):
            taken.append(free[i])
        if len(taken) == batch:
            break
    return taken
