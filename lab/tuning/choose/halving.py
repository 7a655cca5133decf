"""What step 7 need not run: a kernel that is slow at all measured sizes around is not run at the sizes between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lab.base.sizes import Size
from lab.tuning.file.sizes import Sizes

Ms = Mapping[str, Mapping[Size, float]]
"""Times by kernel and size."""


def coarse(sizes: Sizes, every: int, most_gflop: float = 0.0) -> tuple[Size, ...]:
    """The sizes that see all kernels; those of more than `most_gflop` 10^9 operations only if there is no other.

    Of ranges those whose every coordinate is an every-th value along its dimension, or the last; of exact sizes, which
    lie anywhere, as many as one in `every`, each as far as can be from those before it in the logarithms of m, n, k.
    """
    axes = [sorted({size[axis] for size in sizes.ranges}) for axis in range(3)]
    picked = [{*values[::every], *values[-1:]} for values in axes]
    of_ranges = [size for size in sizes.ranges if all(x in own for x, own in zip(size, picked, strict=True))]
    of_exact = _spread(sizes.exact, -(-len(sizes.exact) // every))
    found = tuple(dict.fromkeys([*of_ranges, *of_exact]))
    light = tuple(size for size in found if not most_gflop or 2e-9 * math.prod(size) <= most_gflop)
    return light or found


def _spread(sizes: Sequence[Size], count: int) -> list[Size]:
    """Farthest points: the largest size first."""
    if not sizes:
        return []
    places = _logarithms(sizes)
    chosen = [int(np.argmax(places.sum(axis=1)))]
    distance = np.full(len(sizes), np.inf)
    while len(chosen) < min(count, len(sizes)):
        distance = np.minimum(distance, ((places - places[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(np.argmax(distance)))
    return [sizes[i] for i in chosen]


def survivors(size: Size, known: Ms, at: Sequence[Size], *, nearest: int, keep: float) -> frozenset[str]:
    """The kernels that are worth running at a size.

    Args:
        size: The size.
        known: Times at coarse sizes.
        at: The coarse sizes.
        nearest: How many of them count: those nearest in the logarithms of m, n, k.
        keep: A kernel is worth it that is no more than this share slower than the fastest at one of them.
    """
    distance = ((_logarithms(at) - _logarithms([size])[0]) ** 2).sum(axis=1)
    order = np.argsort(distance, kind="stable")
    found: set[str] = set()
    around = 0
    for i in order:
        times = {name: own[at[i]] for name, own in known.items() if at[i] in own}
        if not times:
            continue
        limit = (1 + keep) * min(times.values())
        found.update(name for name, ms in times.items() if ms <= limit)
        around += 1
        if around == nearest:
            break
    return frozenset(found)


def promising(predicted: Mapping[str, float], times: float) -> frozenset[str]:
    """Names whose prediction is at most `times` the least; with 0 all of them."""
    if not times or not predicted:
        return frozenset(predicted)
    limit = times * min(predicted.values())
    return frozenset(name for name, ms in predicted.items() if ms <= limit)


def between(sizes: Iterable[Size], count: int, seed: int) -> tuple[Size, ...]:
    """Random sizes within the box of some sizes, spread evenly over the logarithms, that are none of them."""
    known = set(sizes)
    low, high = (np.array([f(size[axis] for size in known) for axis in range(3)], dtype=float) for f in (min, max))
    rng = np.random.default_rng(seed)
    found: dict[Size, None] = {}
    for _ in range(100 * count):
        drawn = np.exp(rng.uniform(np.log(low), np.log(high + 1)))
        m, n, k = (int(x) for x in np.clip(drawn, low, high))
        if (m, n, k) not in known:
            found[m, n, k] = None
        if len(found) == count:
            break
    return tuple(found)


def _logarithms(sizes: Sequence[Size]) -> NDArray[np.float64]:
    return np.log2(np.array(sizes, dtype=np.float64).reshape(-1, 3))


def geometric_mean(values: Iterable[float]) -> float | None:
    """None of no values."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None
