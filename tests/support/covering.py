"""Choose the cases that a test runs in the gate: few, yet with every pair of parameter values."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations
from typing import Any

import pytest

Features = AbstractSet[Hashable]


def pairs(*values: Hashable) -> Features:
    """Return the pairs of a case's parameter values, each value with its position."""
    return frozenset(combinations(enumerate(values), 2))


def cover(cases: Sequence[Features]) -> list[int]:
    """Return the positions of few cases that together have every feature, in order.

    Greedy: each next case is one of those with the most features still missing, drawn with a fixed seed, so that what
    no feature asks for varies, too.
    """
    missing = set[Hashable]().union(*cases)
    drawn = random.Random(0).sample(range(len(cases)), len(cases))  # noqa: S311 - no secret
    # a gain only shrinks, so an outdated one is an upper bound, and only few are computed anew
    gains = [(-len(cases[position]), rank, position) for rank, position in enumerate(drawn)]
    heapq.heapify(gains)
    chosen = list[int]()
    while missing:
        bound, rank, position = gains[0]
        gain = len(cases[position] & missing)
        if gain == -bound:
            chosen.append(position)
            missing -= cases[position]
        else:
            heapq.heapreplace(gains, (-gain, rank, position))
    return sorted(chosen)


def gated(cases: Iterable[tuple[Any, ...]], features: Callable[..., Features] = pairs) -> list[Any]:
    """Return the parameters of a test, of which those that `cover` leaves out are thorough.

    Args:
        cases: The arguments of the test, one tuple for each case.
        features: What a case, given as arguments, has to contribute.
    """
    every = list(cases)
    chosen = set(cover([features(*case) for case in every]))
    return [
        pytest.param(*case, id="-".join(map(_shown, case)), marks=() if position in chosen else pytest.mark.thorough)
        for position, case in enumerate(every)
    ]


def _shown(value: object) -> str:
    """Return a value as a part of a test's name."""
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)
