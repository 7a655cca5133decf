"""A search in progress: what to try next, given the known times. A state machine that starts nothing.

`ask` returns points to measure, `tell` takes their times. A strategy is a generator that yields points and is sent
their costs; known costs are answered from memory. So no point is measured twice, and an interrupted search can resume:
given the same times again, it asks for the same next points.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from threadpoolctl import ThreadpoolController

from lab.search.search_space import Place, SearchSpace, in_random_order

Moves = Generator[Sequence[Place], Sequence[float], None]
"""A running strategy. It yields points of the space and is sent a cost for each: the logarithm of the time, or infinity
if there is none. It may yield known points; they are not measured again."""

_MOST_REPEATS: Final = 200
"""Number of consecutive requests for only known points; then an unknown point is drawn at random, and the strategy
continues."""


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


@dataclass
class Search:
    """A strategy and the costs known to it.

    Attributes:
        space: The search space.
        moves: The strategy.
        rng: Draws points if the strategy only asks for known ones.
        costs: Costs by point, in the order in which they became known.
    """

    space: SearchSpace
    moves: Moves
    rng: random.Random
    costs: dict[Place, float] = field(default_factory=dict)
    _wanted: Sequence[Place] | None = None
    _ended: bool = False
    _spare: Generator[Place] | None = None
    _odd: list[Place] = field(default_factory=list)

    def ask(self) -> tuple[Place, ...]:
        """Return the distinct points to measure next; none if the search is over."""
        repeats = 0
        while not self._ended:
            open_ones = self._open()
            if open_ones:
                return open_ones
            if repeats == _MOST_REPEATS:
                repeats = 0
                if not self._draw():
                    break
                continue
            repeats += 1
            self._advance()
        return ()

    def tell(self, costs: Mapping[Place, float]) -> None:
        """Take costs of requested points, or of others, which are used if the strategy asks for them."""
        self.costs.update(costs)

    @property
    def best(self) -> Place | None:
        """The point with the lowest cost so far; None if no point has a time."""
        cheapest = min(self.costs, key=lambda place: self.costs[place], default=None)
        return cheapest if cheapest is not None and math.isfinite(self.costs[cheapest]) else None

    def _open(self) -> tuple[Place, ...]:
        requested = (*(self._wanted or ()), *self._odd)
        return tuple(dict.fromkeys(place for place in requested if place not in self.costs))

    def _advance(self) -> None:
        # Matrices of a hundred rows do not benefit from a second BLAS thread; with busy workers, the threads contend
        # for cores, and a step takes 24 ms instead of 3.
        with _libraries().limit(limits=1, user_api="blas"):
            try:
                if self._wanted is None:
                    self._wanted = next(self.moves)
                else:
                    self._wanted = self.moves.send([self.costs[place] for place in self._wanted])
            except StopIteration:
                self._ended = True

    def _draw(self) -> bool:
        """Request one more unknown point; return whether there was one."""
        if self._spare is None:
            self._spare = (place for place in in_random_order(self.space, self.rng))
        unknown = next((place for place in self._spare if place not in self.costs), None)
        self._odd = [] if unknown is None else [unknown]
        return unknown is not None
