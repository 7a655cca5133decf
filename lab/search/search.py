"""A search under way: what to try next, given the times that are known. A state machine that starts nothing.

`ask` names points to measure, `tell` gives their times. A strategy is a generator that yields points and is sent their
costs; points that were measured before are answered from memory. So no point is measured twice, and a search that was
interrupted goes on where it was: told the same times again, it asks for what comes next.
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
"""A strategy at work. It yields points, each of the space, and is sent a cost for each: the logarithm of the time, or
infinity where there is none. It may yield known points; they cost nothing."""

_MOST_REPEATS: Final = 200
"""Times in a row that a strategy may ask for known points alone; then an unknown one is drawn at random, and the
strategy goes on from what it had."""


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


@dataclass
class Search:
    """A strategy, and what it was told.

    Attributes:
        space: Where it searches.
        moves: The strategy.
        rng: Draws points where the strategy asks only for known ones.
        costs: Point to its cost, in the order in which they were told.
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
        """Points that are wanted next and have no cost yet, each once; none where the search has come to its end."""
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
        """Take costs of points that were asked for, or of others: a strategy that asks for them gets these."""
        self.costs.update(costs)

    @property
    def best(self) -> Place | None:
        """The point with the least cost so far; None without any that has a time."""
        found = min(self.costs, key=lambda place: self.costs[place], default=None)
        return found if found is not None and math.isfinite(self.costs[found]) else None

    def _open(self) -> tuple[Place, ...]:
        wanted = (*(self._wanted or ()), *self._odd)
        return tuple(dict.fromkeys(place for place in wanted if place not in self.costs))

    def _advance(self) -> None:
        # Matrices of a hundred rows gain nothing by a second thread; beside busy workers threads wait for each other,
        # and a step takes 24 ms instead of 3.
        with _libraries().limit(limits=1, user_api="blas"):
            try:
                if self._wanted is None:
                    self._wanted = next(self.moves)
                else:
                    self._wanted = self.moves.send([self.costs[place] for place in self._wanted])
            except StopIteration:
                self._ended = True

    def _draw(self) -> bool:
        """Ask for one unknown point besides; whether there was one."""
        if self._spare is None:
            self._spare = (place for place in in_random_order(self.space, self.rng))
        found = next((place for place in self._spare if place not in self.costs), None)
        self._odd = [] if found is None else [found]
        return found is not None
