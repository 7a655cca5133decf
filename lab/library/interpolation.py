"""Times of kernels at sizes between measured ones, so that thresholds can stand where a kernel's time steps.

A product's time does not grow smoothly with m and n. It is a stair: a tile more, and another block runs; an SM more
blocks than it holds, and another wave does. Between two measured sizes a dozen kernels change places, and a tree grown
over measured sizes alone puts its thresholds half way, where nothing happens. So each kernel's measured times are
explained by its own stair: a constant, the waves in which its blocks run (`waves`), and the bytes of the matrices, with
factors of at least 0 that fit its times best (non-negative least squares, Lawson and Hanson 1974). Constant and bytes
count twice, where caches were warm and where they were cold: short kernels are timed warm, and the step from one to the
other is none of the kernel's. Clusters of blocks do not fill every SM, since a cluster lies within one group of SMs;
how many they do fill is fitted, too. What all that leaves unexplained is interpolated among the nearest measured sizes,
nearest above all in the number of blocks and in how many of them the fullest SM has. Dimensions that 4 does not divide
get a factor of their own: kernels copy vectors of 4 elements where they may. The fastest of many guesses is mostly one
that errs, so a time is taken to be longer the less is known of it: far from what was measured, and where 4 does not
divide a dimension and this kernel was not measured so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.spatial import cKDTree

from lab.base.sizes import Size
from lab.library.grid import Grid
from lab.library.tree import VECTOR

LEAST_TIMES = 12
"""A kernel with fewer measured times has no stair to speak of, and is not looked at between sizes."""

_NEAREST = 10
"""Measured sizes whose unexplained rest counts."""

_AROUND = 48
"""A kernel that was measured at none of so many nearest sizes was too slow there to be. Of 6, 12, 24 and 48 the last
lost the least: a kernel that wins where 4 does not divide a dimension may have been left out wherever it does."""

_LEAST_FILLED = 0.7
"""Of the SMs, by clusters: groups of 16 SMs hold two clusters of 6 blocks, on 12 of them."""

_ALIKE = 5
"""Measured sizes that tell by majority whether a time between them would have been taken cold."""

_FINE, _FINE_UNTIL, _COARSE = 16, 512, 64
"""Steps of m and n between which times are interpolated: tiles are multiples of 16, and from 512 on of 64 and more,
or so small that other kernels win."""

_MOST_CELLS = 1 << 14
"""Cells of the grid; beyond, steps are doubled. Each has up to 4 sizes, each with a time a kernel."""

_OTHER_CLASS = 1.0
"""Distance between a size that 4 divides and one that it does not, in doublings of a dimension."""

_SAME_BLOCKS, _SAME_LOAD = 4.0, 4.0
"""Weights of a doubling of the blocks, and of the blocks of the fullest SM, against one of a dimension. Fitted with
219 kernels at some 1300 sizes of an H200: of the weights 1 to 8 of the blocks alone, 8 lost the least at held-out
sizes; half of it for the blocks of the fullest SM lost a fifth less."""

_OTHER_CACHE = 2.0
"""Distance between a size that was timed cold and one that was timed warm."""

_DOUBT = 0.5
"""Share of a kernel's unexplained scatter by which its time is taken to be longer far from all measured sizes."""

_DOUBTED = 84.0
"""Percentile of other kernels' factors that a kernel gets which was never measured in a class: one standard deviation
above the median. With both, 1.6 % instead of 2.0 % were lost over 200 sizes."""

_NEAR = 0.05
"""Distance, in doublings, below which measured sizes count alike."""

Sizes = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Stair:
    """How a kernel fills a GPU.

    Attributes:
        blocks: From sizes (n x 3: m, n, k) to how many blocks run at each.
        at_once: Blocks that an SM holds.
        cluster: Blocks of a cluster.
    """

    blocks: Callable[[Sizes], NDArray[np.int64]]
    at_once: int
    cluster: int = 1


@dataclass(frozen=True)
class Filled:
    """Times at sizes that stand for all sizes around them.

    Attributes:
        grid: Measured sizes, and sizes between them with interpolated times; kernels that are fastest nowhere are left
            out.
        edges: For m, n and k, ascending: a size up to an edge and beyond the one before is in that edge's cell.
    """

    grid: Grid
    edges: tuple[tuple[int, ...], ...]


def fill(measured: Grid, stairs: Mapping[str, Stair], sms: int, cold: Collection[Size] = ()) -> Filled | None:
    """Times between measured sizes.

    Args:
        measured: At least one size; times in ms.
        stairs: Of its kernels; those without one keep their measured times alone.
        sms: Of the GPU.
        cold: Measured sizes whose times are of cold caches; the others' are of warm ones.

    Returns:
        None where no kernel was measured often enough.
    """
    sizes = np.array(measured.sizes, dtype=np.int64)
    known = _Points(sizes, np.array([size in cold for size in measured.sizes], dtype=np.bool_))
    times = np.array(measured.times, dtype=np.float64)
    often = np.isfinite(times).sum(axis=0) >= LEAST_TIMES
    kernels = [i for i, name in enumerate(measured.kernels) if often[i] and name in stairs]
    if not kernels:
        return None
    edges = _edges(sizes)
    points = known.joined(_alike(known, _between(edges, sizes)))
    fitted = {i: _fit(known, times[:, i], stairs[measured.kernels[i]], sms) for i in kernels}
    usual = _usual([one.factors for one in fitted.values()])
    filled = np.full((len(points), len(measured.kernels)), np.nan)
    near = _neighbours(sizes, points.sizes, _AROUND)
    for i, one in fitted.items():
        tried = np.asarray(np.isfinite(times[:, i])[near].any(axis=1))
        filled[tried, i] = one.at(points.some(tried), usual)
    rows = np.isfinite(times)
    filled[: len(known)][rows] = times[rows]
    some = np.isfinite(filled).any(axis=1)
    wins = sorted(set(np.nanargmin(filled[some], axis=1).tolist()))
    grid = Grid(
        tuple((int(m), int(n), int(k)) for m, n, k in points.sizes[some]),
        tuple(measured.kernels[i] for i in wins),
        tuple(map(tuple, filled[np.ix_(some, wins)].tolist())),
    )
    return Filled(grid, edges)


def waves(blocks: NDArray[np.int64], at_once: int, sms: int) -> Floats:
    """The waves in which blocks run, as features of a time.

    Args:
        blocks: How many, at each of n sizes.
        at_once: That an SM holds.
        sms: SMs.

    Returns:
        n x `at_once`: how often the fullest SM runs a wave of at least 1, 2, … blocks. Full waves hold `at_once`; the
        last one, evenly spread, what is left.
    """
    full, rest = np.divmod(blocks, sms * at_once)
    last = -(-rest // sms)
    held = np.arange(1, at_once + 1)
    counted: Floats = full[:, None] + (held[None, :] <= last[:, None]).astype(np.float64)
    return counted


_CLASSES = 8
"""Of sizes: which of m, n and k `VECTOR` divides, a bit each."""

_WHOLE = _CLASSES - 1
"""The class of sizes that it divides in all three."""


@dataclass(frozen=True)
class _Points:
    """Sizes, n x 3, and whether times there are of cold caches, n."""

    sizes: Sizes
    cold: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.sizes)

    def some(self, which: NDArray[np.bool_]) -> _Points:
        return _Points(self.sizes[which], self.cold[which])

    def joined(self, others: _Points) -> _Points:
        return _Points(np.concatenate([self.sizes, others.sizes]), np.concatenate([self.cold, others.cold]))


@dataclass(frozen=True)
class _Fit:
    """A kernel's times explained.

    Attributes:
        stair: Its blocks.
        sms: SMs that they fill.
        weights: Of the features.
        factors: Logarithms by class of the sizes, 0 of those that 4 divides; NaN where it was not measured.
        known: Where it was measured.
        blocks: How many ran there.
        rest: What is left there unexplained: logarithms.
    """

    stair: Stair
    sms: int
    weights: Floats
    factors: Floats
    known: _Points
    blocks: NDArray[np.int64]
    rest: Floats

    def at(self, points: _Points, usual: Floats) -> Floats:
        """Times in ms; `usual` are other kernels' factors, for classes this one was not measured in."""
        if not len(points):
            return np.empty(0)
        blocks = self.stair.blocks(points.sizes)
        explained = np.log(_features(points, blocks, self.stair.at_once, self.sms) @ self.weights)
        explained += np.where(np.isnan(self.factors), usual, self.factors)[_classes(points.sizes)]
        tree = cKDTree(self._places(self.known, self.blocks))
        distance, near = tree.query(self._places(points, blocks), k=min(_NEAREST, len(self.known)), workers=-1)
        distance, near = distance.reshape(len(points), -1), near.reshape(len(points), -1)
        weight = 1 / (distance + _NEAR)
        explained += (weight * self.rest[near]).sum(axis=1) / weight.sum(axis=1)
        nearest = distance.min(axis=1)
        times: Floats = np.exp(explained + _DOUBT * float(np.std(self.rest)) * nearest / (nearest + 1))
        return times

    def _places(self, points: _Points, blocks: NDArray[np.int64]) -> Floats:
        """Logarithms of dimensions, blocks and blocks of an SM; whether `VECTOR` divides; the cache's state."""
        load = -(-blocks // self.sms)
        alike = [_SAME_BLOCKS * np.log2(blocks), _SAME_LOAD * np.log2(load), _OTHER_CACHE * points.cold]
        return np.column_stack([np.log2(points.sizes), _OTHER_CLASS * (points.sizes % VECTOR == 0), *alike])


def _fit(points: _Points, times: Floats, stair: Stair, sms: int) -> _Fit:
    """The fit that leaves the least unexplained, over the SMs that clusters may fill."""
    there = np.isfinite(times)
    points, times = points.some(there), times[there]
    blocks, classes = stair.blocks(points.sizes), _classes(points.sizes)
    home = classes == _WHOLE
    if home.sum() < LEAST_TIMES:
        home[:] = True

    def on(held: int) -> _Fit:
        features = _features(points, blocks, stair.at_once, held)
        # relative errors: times span orders of magnitude
        weights, _ = nnls(features[home] / times[home, None], np.ones(int(home.sum())))
        rest = np.log(times) - np.log(np.maximum(features @ weights, np.finfo(float).tiny))
        factors = np.full(_CLASSES, np.nan)
        factors[_WHOLE] = 0.0
        for one in set(classes.tolist()) - {_WHOLE}:
            own = rest[classes == one]
            if len(own) >= 3 and not home.all():  # noqa: PLR2004 - a median of less says nothing
                factors[one] = np.median(own)
        rest -= np.nan_to_num(factors)[classes]
        return _Fit(stair, held, weights, factors, points, blocks, rest)

    filled = range(sms // stair.cluster * stair.cluster, int(_LEAST_FILLED * sms), -stair.cluster)
    fits = map(on, filled if stair.cluster > 1 else (sms,))
    return min(fits, key=lambda one: float(np.square(one.rest).sum()))


def _usual(known: Sequence[Floats]) -> Floats:
    """Over the kernels that have a factor: a rather high one; 0 where none has."""
    usual = np.zeros(_CLASSES)
    for one, factors in enumerate(np.array(known).T):
        measured = factors[~np.isnan(factors)]
        if len(measured):
            usual[one] = np.percentile(measured, _DOUBTED)
    return usual


def _features(points: _Points, blocks: NDArray[np.int64], at_once: int, sms: int) -> Floats:
    """N x features: a constant and bytes of the matrices, warm and cold, waves, and waves times k; all at least 0."""
    m, n, k = points.sizes.T.astype(np.float64)
    ran = waves(blocks, at_once, sms)
    # scaled alike, or the least squares would be ill-conditioned
    scaled = np.column_stack([np.ones(len(points)), m * n / 2**20, m * k / 2**20, n * k / 2**20])
    return np.hstack([scaled, scaled * points.cold[:, None], ran, ran * (k / 2**10)[:, None]])


def _classes(sizes: Sizes) -> NDArray[np.intp]:
    found: NDArray[np.intp] = (sizes % VECTOR == 0) @ np.array([1, 2, 4])
    return found


def _neighbours(known: Sizes, sizes: Sizes, most: int) -> NDArray[np.intp]:
    """Indices of the nearest measured sizes, of any class: n x neighbours."""
    _, near = cKDTree(np.log2(known)).query(np.log2(sizes), k=min(most, len(known)), workers=-1)
    found: NDArray[np.intp] = near.reshape(len(sizes), -1)
    return found


def _alike(known: _Points, sizes: Sizes) -> _Points:
    """Sizes with the state of the cache that measured ones around them had."""
    if not len(sizes):
        return _Points(sizes, np.empty(0, np.bool_))
    return _Points(sizes, known.cold[_neighbours(known.sizes, sizes, _ALIKE)].mean(axis=1) > 0.5)  # noqa: PLR2004 - most


def _edges(known: Sizes) -> tuple[tuple[int, ...], ...]:
    """Cells of m and n as kernels' tiles make them; of k as it was measured, and half way between."""
    coarser = 1
    while True:
        m, n = (_steps(int(known[:, axis].max()), coarser) for axis in (0, 1))
        found = (m, n, _halves(known[:, 2]))
        if np.prod([len(own) for own in found]) <= _MOST_CELLS or coarser > 1 << 20:
            return found
        coarser *= 2


def _steps(last: int, coarser: int) -> tuple[int, ...]:
    fine, coarse = _FINE * coarser, _COARSE * coarser
    low = range(fine, min(last, _FINE_UNTIL * coarser) + fine, fine)
    return (*low, *range(low[-1] + coarse, last + coarse, coarse))


def _halves(values: NDArray[np.int64]) -> tuple[int, ...]:
    """Measured values, each the end of a cell, and their geometric means."""
    measured = sorted({int(x) for x in values})
    between = [round((a * b) ** 0.5) for a, b in pairwise(measured)]
    return tuple(sorted({*measured, *between}))


def _between(edges: Sequence[Sequence[int]], known: Sizes) -> Sizes:
    """Sizes of every cell: at its end, and one less along each dimension where a measured size is of that class."""
    seen = set(map(tuple, (known[:, :2] % VECTOR == 0).tolist()))
    sizes: list[Size] = []
    taken = {tuple(size) for size in known.tolist()}
    for whole_m, whole_n in sorted(seen):
        for m, n, k in product(*edges):
            size = (m if whole_m else m - 1, n if whole_n else n - 1, k)
            if size not in taken:
                sizes.append(size)
    return np.array(sizes, dtype=np.int64).reshape(-1, 3)
