"""A space of settings under constraints, for searches: points are tuples of places on axes, and each point is valid.

A space of up to `MOST_LISTED` combinations is listed once. Of a larger one points are drawn and looked at one by one,
so that it may be of any size; what needs a list (a model that rates every candidate) gets a sample of it.
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
"""A point: for each axis, the place of its value."""

MOST_LISTED: Final = 100_000
"""Combinations, before constraints, that are looked at one by one: some ten seconds of evaluating constraints."""

_MOST_DRAWS: Final = 20_000
"""Combinations that are drawn for one valid point; where all of them are invalid, the space counts as empty."""

_MOST_STEPS: Final = 30
"""Steps of a random walk from an invalid point of a space that is not listed, before a point is drawn instead."""

_ALIKE: Final = 1e-9
"""Difference of squared distances up to which two points are as near as each other."""

_WIDE: Final = 4
"""Largest over smallest value from which an axis of positive numbers counts in powers of two: 1, 2, 4, 8."""


@dataclass(frozen=True, slots=True)
class SearchAxis:
    """One thing that varies.

    Attributes:
        name: Its name.
        values: Its values, in the experiment's order.
    """

    name: str
    values: tuple[Scalar, ...]

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers, of which some lie between others; switches and words are not."""
        return not any(isinstance(value, bool | str) for value in self.values)

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """Where each value lies between 0 and 1, a row for each; any two words are 1 apart."""
        if not self.ordered:
            words = len(self.values)
            return np.eye(words) / np.sqrt(2) if words > 2 else np.arange(words, dtype=np.float64)[:, None]  # noqa: PLR2004
        numbers = np.array([float(value) for value in self.values])
        if numbers.min() > 0 and numbers.max() >= _WIDE * numbers.min():
            numbers = np.log2(numbers)
        width = float(np.ptp(numbers))
        return ((numbers - numbers.min()) / width if width else np.zeros(len(numbers)))[:, None]

    def beside(self, place: int) -> tuple[int, ...]:
        """Places of the neighbouring values: the next number below and above, or every other word."""
        if not self.ordered:
            return tuple(other for other in range(len(self.values)) if other != place)
        order = sorted(range(len(self.values)), key=lambda one: float(self.values[one]))
        at = order.index(place)
        return tuple(order[i] for i in (at - 1, at + 1) if 0 <= i < len(order))


@dataclass
class SearchSpace:
    """The valid points.

    Attributes:
        axes: What varies, each with at least one value.
        allowed: Whether a combination is a point; asked once for each.
    """

    axes: tuple[SearchAxis, ...]
    allowed: Callable[[Place], bool]
    _known: dict[Place, bool] = field(default_factory=dict)
    _listed: tuple[Place, ...] | None = None
    _table: NDArray[np.int64] | None = None

    @property
    def combinations(self) -> int:
        """How many there are before constraints."""
        return math.prod(len(axis.values) for axis in self.axes)

    @property
    def is_listed(self) -> bool:
        """Whether every point is known one by one."""
        return self.combinations <= MOST_LISTED

    @property
    def points(self) -> tuple[Place, ...]:
        """Every point, the last axis varying fastest; only of a listed space."""
        assert self.is_listed  # noqa: S101 - callers ask first
        if self._listed is None:
            every = itertools.product(*(range(len(axis.values)) for axis in self.axes))
            self._listed = tuple(place for place in every if place in self)
        return self._listed

    def __contains__(self, place: Place) -> bool:
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = self.allowed(place)
        return known

    def setting(self, place: Place) -> dict[str, Scalar]:
        """The values at a place, by the names of their axes."""
        return {axis.name: axis.values[i] for axis, i in zip(self.axes, place, strict=True)}

    def draw(self, rng: random.Random) -> Place | None:
        """Draw a point, each as likely as any other; None where there seems to be none."""
        if self.is_listed:
            return rng.choice(self.points) if self.points else None
        for _ in range(_MOST_DRAWS):
            place = tuple(rng.randrange(len(axis.values)) for axis in self.axes)
            if place in self:
                return place
        return None

    def centre(self, rng: random.Random) -> Place | None:
        """Draw one of the points nearest to the middle of the space; None where there seems to be none.

        The middle is the mean of the points of a listed space, and the middle value of each axis of a larger one, of
        which the point may be further away.
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
        """Draw different points; fewer where there are not so many."""
        if self.is_listed:
            return rng.sample(self.points, min(count, len(self.points)))
        found: dict[Place, None] = {}
        for _ in range(2 * count):
            place = self.draw(rng)
            if place is None or len(found) == count:
                break
            found[place] = None
        return list(found)

    def neighbours(self, place: Place) -> list[Place]:
        """The points that differ in one axis by one value, or in one word."""
        found = []
        for i, axis in enumerate(self.axes):
            for other in axis.beside(place[i]):
                near = (*place[:i], other, *place[i + 1 :])
                if near in self:
                    found.append(near)
        return found

    def around(self, place: Place) -> list[Place]:
        """The points that differ in one axis, by any value."""
        found = []
        for i, axis in enumerate(self.axes):
            for other in range(len(axis.values)):
                near = (*place[:i], other, *place[i + 1 :])
                if other != place[i] and near in self:
                    found.append(near)
        return found

    def repaired(self, place: Place, rng: random.Random) -> Place | None:
        """A point that differs from a combination in as few axes as possible; the combination itself where it is one.

        Of a space that is not listed, a random walk from the combination may end further away.
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
        """Where points lie: a row for each, and for each axis the columns of `SearchAxis.coordinates`."""
        columns = [axis.coordinates for axis in self.axes if len(axis.values) > 1]
        varying = [i for i, axis in enumerate(self.axes) if len(axis.values) > 1]
        listed = list(places)
        table = np.array(listed, dtype=np.int64).reshape(len(listed), len(self.axes))
        return np.concatenate(
            [np.zeros((len(listed), 0)), *(one[table[:, i]] for i, one in zip(varying, columns, strict=True))], axis=1
        )


def _middle(axis: SearchAxis) -> int:
    x = axis.coordinates
    return int(((x - (x.min(axis=0) + x.max(axis=0)) / 2) ** 2).sum(axis=1).argmin())


def in_random_order(space: SearchSpace, rng: random.Random) -> Iterator[Place]:
    """Every point of a listed space once, in random order; of a larger one, different points without end in sight."""
    if space.is_listed:
        yield from rng.sample(space.points, len(space.points))
        return
    seen: set[Place] = set()
    misses = 0
    while misses < _MOST_DRAWS:
        place = space.draw(rng)
        if place is None:
            return
        if place in seen:
            misses += 1
            continue
        misses = 0
        seen.add(place)
        yield place
