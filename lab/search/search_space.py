"""A constrained search space: a point is a tuple of indices, one per axis, and satisfies the constraints.

A space of up to `MOST_LISTED` combinations is enumerated once. A larger one can have any size: its points are drawn and
checked individually, and code that needs a list (a model that rates every candidate) gets a sample.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.base.expressions import Scalar

Place = tuple[int, ...]
"""A point: the index of its value on each axis."""

MOST_LISTED: Final = 100_000
"""Largest number of combinations that is enumerated: some ten seconds of evaluating constraints."""

_MOST_DRAWS: Final = 20_000
"""Draws for one valid point; if all of them are invalid, the space counts as empty."""

_MOST_STEPS: Final = 30
"""Steps of a random walk from an invalid point of a space that is not enumerated, before a point is drawn."""

_ALIKE: Final = 1e-9
"""Tolerance of squared distances: points within it are equally near."""

_WIDE: Final = 4
"""Ratio of largest to smallest value from which an axis of positive numbers is logarithmic, such as 1, 2, 4, 8."""


@dataclass(frozen=True, slots=True)
class SearchAxis:
    """One axis of the space.

    Attributes:
        name: Its name.
        values: Its values, in the experiment's order.
    """

    name: str
    values: tuple[Scalar, ...]

    @property
    def ordered(self) -> bool:
        """True if the values are numbers; booleans and words have no order."""
        return not any(isinstance(value, bool | str) for value in self.values)

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """Position of each value between 0 and 1, one row per value; any two words are 1 apart."""
        if not self.ordered:
            words = len(self.values)
            return np.eye(words) / np.sqrt(2) if words > 2 else np.arange(words, dtype=np.float64)[:, None]  # noqa: PLR2004
        numbers = np.array([float(value) for value in self.values])
        if numbers.min() > 0 and numbers.max() >= _WIDE * numbers.min():
            numbers = np.log2(numbers)
        width = float(np.ptp(numbers))
        return ((numbers - numbers.min()) / width if width else np.zeros(len(numbers)))[:, None]

    def beside(self, place: int) -> tuple[int, ...]:
        """Return the indices of the neighbouring values: the next number below and above, or every other word."""
        if not self.ordered:
            return tuple(neighbour for neighbour in range(len(self.values)) if neighbour != place)
        order = sorted(range(len(self.values)), key=lambda index: float(self.values[index]))
        rank = order.index(place)
        return tuple(order[i] for i in (rank - 1, rank + 1) if 0 <= i < len(order))


@dataclass
class SearchSpace:
    """The points that satisfy the constraints.

    Attributes:
        axes: The axes, each with at least one value.
        allowed: Whether a combination is valid; called once per combination.
    """

    axes: tuple[SearchAxis, ...]
    allowed: Callable[[Place], bool]
    _known: dict[Place, bool] = field(default_factory=dict)
    _listed: tuple[Place, ...] | None = None
    _table: NDArray[np.int64] | None = None

    @property
    def combinations(self) -> int:
        """Number of combinations before constraints."""
        return math.prod(len(axis.values) for axis in self.axes)

    @property
    def is_listed(self) -> bool:
        """True if the points are enumerated."""
        return self.combinations <= MOST_LISTED

    @property
    def points(self) -> tuple[Place, ...]:
        """Every point, the last axis varying fastest; only for an enumerated space."""
        assert self.is_listed  # noqa: S101 - callers ask first
        if self._listed is None:
            every = itertools.product(*(range(len(axis.values)) for axis in self.axes))
            self._listed = tuple(place for place in every if place in self)
        return self._listed

    def __contains__(self, place: Place) -> bool:
        is_valid = self._known.get(place)
        if is_valid is None:
            is_valid = self._known[place] = self.allowed(place)
        return is_valid

    def setting(self, place: Place) -> dict[str, Scalar]:
        """Return the values at a place, by axis name."""
        return {axis.name: axis.values[i] for axis, i in zip(self.axes, place, strict=True)}

    def draw(self, rng: random.Random) -> Place | None:
        """Draw a point uniformly at random; None if there seems to be none."""
        if self.is_listed:
            return rng.choice(self.points) if self.points else None
        for _ in range(_MOST_DRAWS):
            place = tuple(rng.randrange(len(axis.values)) for axis in self.axes)
            if place in self:
                return place
        return None

    def centre(self, rng: random.Random) -> Place | None:
        """Draw one of the points nearest to the centre of the space; None if there seems to be none.

        The centre is the mean of the points of an enumerated space, or else the middle value of each axis, from which
        the point may be further away.
        """
        if not self.is_listed:
            return self.repaired(tuple(_middle(axis) for axis in self.axes), rng)
        if not self.points:
            return None
        x = self.coordinates(self.points)
        apart = ((x - x.mean(axis=0)) ** 2).sum(axis=1)
        nearest = np.flatnonzero(apart <= apart.min() + _ALIKE)
        return self.points[int(nearest[rng.randrange(len(nearest))])]

    def sample(self, rng: random.Random, count: int) -> list[Place]:
        """Draw distinct points; fewer if the space has fewer."""
        if self.is_listed:
            return rng.sample(self.points, min(count, len(self.points)))
        drawn: dict[Place, None] = {}
        for _ in range(2 * count):
            place = self.draw(rng)
            if place is None or len(drawn) == count:
                break
            drawn[place] = None
        return list(drawn)

    def neighbours(self, place: Place) -> list[Place]:
        """Return the points that differ on one axis by one step, or in one word."""
        points = []
        for i, axis in enumerate(self.axes):
            for index in axis.beside(place[i]):
                near = (*place[:i], index, *place[i + 1 :])
                if near in self:
                    points.append(near)
        return points

    def around(self, place: Place) -> list[Place]:
        """Return the points that differ on one axis, by any number of steps."""
        points = []
        for i, axis in enumerate(self.axes):
            for index in range(len(axis.values)):
                near = (*place[:i], index, *place[i + 1 :])
                if index != place[i] and near in self:
                    points.append(near)
        return points

    def repaired(self, place: Place, rng: random.Random) -> Place | None:
        """Return a point that differs from a combination on as few axes as possible, on none if it is valid.

        In a space that is not enumerated, a random walk from the combination may end further away.
        """
        if place in self:
            return place
        if self.is_listed:
            if not self.points:
                return None
            if self._table is None:
                self._table = np.array(self.points, dtype=np.int64)
            apart = np.count_nonzero(self._table != np.array(place), axis=1)
            nearest = np.flatnonzero(apart == apart.min())
            return self.points[int(nearest[rng.randrange(len(nearest))])]
        for _ in range(_MOST_STEPS):
            i = rng.randrange(len(self.axes))
            place = (*place[:i], rng.randrange(len(self.axes[i].values)), *place[i + 1 :])
            if place in self:
                return place
        return self.draw(rng)

    def coordinates(self, places: Iterable[Place]) -> NDArray[np.float64]:
        """Return the positions of points: one row per point, with the columns of `SearchAxis.coordinates` per axis."""
        columns = [axis.coordinates for axis in self.axes if len(axis.values) > 1]
        varying = [i for i, axis in enumerate(self.axes) if len(axis.values) > 1]
        listed = list(places)
        table = np.array(listed, dtype=np.int64).reshape(len(listed), len(self.axes))
        return np.concatenate(
            [
                np.zeros((len(listed), 0)),
                *(positions[table[:, i]] for i, positions in zip(varying, columns, strict=True)),
            ],
            axis=1,
        )


def _middle(axis: SearchAxis) -> int:
    x = axis.coordinates
    return int(((x - (x.min(axis=0) + x.max(axis=0)) / 2) ** 2).sum(axis=1).argmin())


def in_random_order(space: SearchSpace, rng: random.Random) -> Iterator[Place]:
    """Yield every point of an enumerated space in random order; of a larger one, distinct points without end."""
    if space.is_listed:
        yield from rng.sample(space.points, len(space.points))
        return
    drawn: set[Place] = set()
    misses = 0
    while misses < _MOST_DRAWS:
        place = space.draw(rng)
        if place is None:
            return
        if place in drawn:
            misses += 1
            continue
        misses = 0
        drawn.add(place)
        yield place
