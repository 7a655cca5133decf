"""Halving in step 7: skip kernels that are slow at nearby sizes or predicted to be slow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lab.base.sizes import Size
from lab.tuning.file.size_lists import Sizes

Ms = Mapping[str, Mapping[Size, float]]
"""Times in ms by kernel and size."""


def coarse(sizes: Sizes, every: int, most_gflop: float = 0.0) -> tuple[Size, ...]:
    """Choose the coarse sizes, at which all kernels run.

    Among sizes of grids, those of which each number is an every-th value of its dimension, or its last. Among
    random and exact sizes, which may lie anywhere, one in `every`, each as far as possible from those chosen before it
    in the logarithms of the dimensions.

    Args:
        sizes: All sizes of step 7.
        every: Stride along each dimension, at least 1.
        most_gflop: Sizes of more than this many 10^9 operations are left out unless no other is left; 0 sets no limit.
    """
    grids = [size for size in sizes.ranges if size not in sizes.scattered]
    axes = [sorted(set(values)) for values in zip(*grids, strict=True)]
    picked = [{*values[::every], *values[-1:]} for values in axes]
    of_grids = [size for size in grids if all(x in own for x, own in zip(size, picked, strict=True))]
    anywhere = [size for size in sizes.ranges if size in sizes.scattered], sizes.exact
    spread = (size for own in anywhere for size in _spread(own, -(-len(own) // every)))
    chosen = tuple(dict.fromkeys([*of_grids, *spread]))
    light = tuple(size for size in chosen if not most_gflop or 2e-9 * math.prod(size) <= most_gflop)
    return light or chosen


def _spread(sizes: Sequence[Size], count: int) -> list[Size]:
    """Choose sizes far from each other, the largest first (farthest-point sampling)."""
    if not sizes:
        return []
    places = _logarithms(sizes)
    chosen = [int(np.argmax(places.sum(axis=1)))]
    distance = np.full(len(sizes), np.inf)
    while len(chosen) < min(count, len(sizes)):
        distance = np.minimum(distance, ((places - places[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(np.argmax(distance)))
    return [sizes[i] for i in chosen]


def survivors(size: Size, coarse_times: Ms, at: Sequence[Size], *, nearest: int, keep: float) -> frozenset[str]:
    """Return the kernels worth running at a size: those that are fast at a coarse size nearby.

    Args:
        size: The size.
        coarse_times: Times at coarse sizes.
        at: The coarse sizes.
        nearest: How many coarse sizes count: those nearest in the logarithms of the dimensions that have a time.
        keep: A kernel is good that is at most this share slower than the fastest at the coarse size.
    """
    distance = ((_logarithms(at) - _logarithms([size])[0]) ** 2).sum(axis=1)
    order = np.argsort(distance, kind="stable")
    good: set[str] = set()
    around = 0
    for i in order:
        times = {name: own[at[i]] for name, own in coarse_times.items() if at[i] in own}
        if not times:
            continue
        limit = (1 + keep) * min(times.values())
        good.update(name for name, ms in times.items() if ms <= limit)
        around += 1
        if around == nearest:
            break
    return frozenset(good)


def promising(predicted: Mapping[str, float], times: float) -> frozenset[str]:
    """Return the names with a prediction of at most `times` the least one, in ms; with 0 all names."""
    if not times or not predicted:
        return frozenset(predicted)
    limit = times * min(predicted.values())
    return frozenset(name for name, ms in predicted.items() if ms <= limit)


def between(sizes: Iterable[Size], count: int, seed: int) -> tuple[Size, ...]:
    """Draw random sizes in the bounding box of the given sizes, log-uniformly.

    Args:
        sizes: At least one size; none of them is drawn.
        count: How many to draw; a small box may give fewer.
        seed: Seed of the draw.
    """
    excluded = set(sizes)
    along = np.array(sorted(excluded), dtype=float)
    low, high = along.min(axis=0), along.max(axis=0)
    rng = np.random.default_rng(seed)
    draws: dict[Size, None] = {}
    for _ in range(100 * count):
        drawn = np.exp(rng.uniform(np.log(low), np.log(high + 1)))
        size = tuple(int(x) for x in np.clip(drawn, low, high))
        if size not in excluded:
            draws[size] = None
        if len(draws) == count:
            break
    return tuple(draws)


def _logarithms(sizes: Sequence[Size]) -> NDArray[np.float64]:
    """Return binary logarithms: sizes x dimensions."""
    return np.log2(np.array(sizes, dtype=np.float64))
