"""Times of kernels at sizes between measured ones, so that thresholds can stand where a kernel's time steps.

The time of a product does not grow smoothly with m and n. It is a stair: one more tile needs another block, and one
more block than the SMs hold needs another wave. Between two measured sizes a dozen kernels change places, and a tree
grown over measured sizes alone puts its thresholds half way, where nothing happens. So each kernel's measured times
are explained by a stair of its own: a constant, the waves in which its blocks run (`waves`), and the bytes of the
matrices, with factors of at least 0 that fit its times best (non-negative least squares, Lawson and Hanson 1974). The
constant and the bytes have one factor for warm caches and one for cold ones: short kernels are timed warm, and the
step between the two does not come from the kernel. Launches beside the product, which pack operands whose columns begin
anywhere or add up parts of sums, have a factor for each launch and one for their threads. Clusters of blocks do not
fill every SM, since a cluster lies within one group of SMs; how many SMs they fill is fitted too. The rest is
interpolated among the nearest measured sizes, where the number of blocks and the blocks of the fullest SM weigh most.
Sizes along which wide copies do not reach (`lab.library.alignment`) get a factor of their own. The fastest of many
guesses is likely to be wrong, so a time is assumed to be longer the less is known of it: far from measured sizes, and
where wide copies do not reach along a dimension and the kernel was never measured in that case.

A stair errs by some tenths where few of a kernel's times are near, and among hundreds of kernels one whose stair is too
low wins. What the kernels lost at the nearest measured sizes, each against the fastest there, errs less, and knows no
steps. A time between sizes is a mean of the two, in logarithms, with the share that loses least at measured sizes that
are left out in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.spatial import cKDTree

from lab.base.sizes import Size
from lab.library.alignment import ALL, Alignment
from lab.library.grid import Floats, Grid

LEAST_TIMES = 12
"""A kernel with fewer measured times is not fitted, and is not considered between sizes."""

_NEAREST = 10
"""How many measured sizes the unexplained rest is interpolated from."""

_AROUND = 48
"""A kernel that was measured at none of this many nearest sizes is taken to be too slow there. Of 6, 12, 24 and 48 the
last lost the least: a kernel that wins where wide copies do not reach may have been left out where they do."""

_AROUND_SCATTERED = 12
"""The same between random sizes, where 48 reach over most of the box. With 48 a kernel of 256 x 128 tiles, timed at
large products alone, was picked for small ones: at 80 held-out sizes of four layouts (240 measured ones, some 100
kernels of an H200) the loss was 296 %; with 5, 8, 12 and 16 it is 5.4 to 6.3 %."""

_LEAST_FILLED = 0.7
"""The least share of the SMs that clusters fill: groups of 16 SMs hold two clusters of 6 blocks, on 12 of them."""

_ALIKE = 5
"""How many measured sizes decide by majority whether a time between them would have been taken cold."""

_FINE, _FINE_UNTIL, _COARSE = 16, 512, 64
"""Steps of m and n between which times are interpolated: tiles are multiples of 16, and from 512 on of 64 and more,
or so small that other kernels win."""

_MOST_CELLS = 1 << 14
"""The most cells of a grid; beyond, steps are doubled. A cell has up to 4 sizes, each with a time for each kernel."""

_MOST_DEPTHS = 64
"""More different k than grids have: sizes were drawn at random."""

_DRAWN = 1 << 16
"""Sizes that are drawn between random ones. At 40 held-out sizes of each of two layouts (360 measured ones, some 110
kernels of an H200) the ends of 5,415 cells in all alignments lost 13.2 and 8.4 %, 40,000 random sizes 8.2 and 6.5 %,
80,000 7.1 and 7.4 %."""

_OCTAVE, _DEEP_OCTAVE = 8, 4
"""Thresholds in a doubling of m and n, and of the rest: time grows with k without steps."""

_SMALLEST = (1, 2, 4, 8)
"""Thresholds on m and n below the first step, between random sizes."""

_OTHER_CLASS = 1.0
"""Distance between sizes of which wide copies reach along one alone, in doublings of a dimension."""

_SAME_BLOCKS, _SAME_LOAD = 4.0, 4.0
"""Weights of a doubling of the blocks, and of the blocks of the fullest SM, against one of a dimension. Fitted with
219 kernels at some 1300 sizes of an H200: of the weights 1 to 8 of the blocks alone, 8 lost the least at held-out
sizes; half of it for the blocks of the fullest SM lost a fifth less."""

_OTHER_CACHE = 2.0
"""Distance between a size that was timed cold and one that was timed warm."""

_DOUBT = 0.5
"""Share of a kernel's unexplained scatter by which its time is taken to be longer far from all measured sizes."""

_DOUBTED = 84.0
"""A kernel that was never measured in a class gets this percentile of the other kernels' factors: one standard
deviation above the median. With this and `_DOUBT`, 1.6 % instead of 2.0 % were lost over 200 sizes."""

_NEAR = 0.05
"""Distance, in doublings, below which measured sizes have nearly the same weight."""

_PEERS = 32
"""How many measured sizes tell what kernels lose against the fastest, by a fit that is linear in the logarithms of m, n
and k. At the 80 held-out sizes of `_DRAWN` the mean of 8 sizes lost 7.2 % without a tree, the fit to 16, 24, 32 and 40
lost 7.2, 6.3, 5.7 and 6.8 %."""

_FLAT = 0.3
"""How much the fit prefers losses that do not change with a dimension (ridge). 0.1 lost as little."""

_STEEP = 0.03
"""The same for the fit to the fastest times. At sizes that were left out it erred by 10 % (median), and 5 % of the
fastest times were below 0.65 of it; 0.003, 0.1 and 0.3 erred as much."""

_LEAST_OF_FASTEST = 0.6
"""A stair that promises less than this share of the expected fastest time is wrong: with a dozen times, far away, it
may promise more than the GPU's peak. At those 80 held-out sizes it does not matter."""

_SHARES = (0.0, 1 / 3, 1 / 2, 2 / 3, 4 / 5)
"""What share these losses may have in the logarithm of a time; the rest is the stair's. On a dense grid with exact
stairs they blur the steps; at the held-out sizes of `_DRAWN` stairs alone lost 21.5 %, and a mean with a share of 2/3
of 8 sizes' losses 7.2 %."""

_FOLDS = 4
"""Parts of the measured sizes; each is left out in turn and the share is taken that loses least there."""

_COMPLETE = 0.5
"""Least share of the kernels that were timed at a size which is left out: where races left out more, what a wrong
kernel loses is unknown."""

_ABSENT = 0.8
"""Logarithm of the slowdown of a kernel that was left out at a size: races leave out what is slow. At complete sizes
that were left out in turn, 0.6, 0.8 and 1.0 lost 4.3, 3.2 and 3.2 %."""

_PEERS_CLASS = 0.5**0.5
"""Distance, in doublings of a dimension, between sizes of which wide copies reach along one alone."""

_PEERS_NEAR = 0.5
"""Distance, in doublings, below which their sizes have nearly the same weight."""

_Sizes = NDArray[np.int64]


@dataclass(frozen=True)
class Stair:
    """How a kernel fills a GPU.

    Attributes:
        blocks: From sizes (n x axes: m, n, k, and of batches their products) to how many blocks run at each.
        at_once: Blocks that an SM holds.
        cluster: Blocks of a cluster.
        takes: From sizes to whether the kernel computes each; None for one that computes all.
        others: From sizes to the launches beside the product (`lab.library.arrays.others`), n x 2; None for none.
    """

    blocks: Callable[[_Sizes], NDArray[np.int64]]
    at_once: int
    cluster: int = 1
    takes: Callable[[_Sizes], NDArray[np.bool_]] | None = None
    others: Callable[[_Sizes], Floats | None] = lambda _: None


@dataclass(frozen=True)
class Filled:
    """Times at sizes that stand for all sizes around them.

    Attributes:
        grid: Measured sizes, and sizes between them with interpolated times; kernels that are fastest nowhere are left
            out.
        edges: For each dimension, ascending: a size up to an edge and beyond the one before is in that edge's cell.
    """

    grid: Grid
    edges: tuple[tuple[int, ...], ...]


def fill(
    measured: Grid,
    stairs: Mapping[str, Stair],
    sms: int,
    cold: Collection[Size] = (),
    alignment: Alignment = ALL,
) -> Filled | None:
    """Interpolate times between measured sizes.

    Args:
        measured: At least one size; times in ms.
        stairs: How its kernels fill the GPU; kernels without a stair keep only their measured times.
        sms: SMs of the GPU.
        cold: Measured sizes whose times are of cold caches; the others' are of warm ones.
        alignment: Along which dimensions wide copies reach.

    Returns:
        Measured and interpolated times; None where no kernel was measured often enough.
    """
    sizes = np.array(measured.sizes, dtype=np.int64)
    known = _Points(sizes, np.array([size in cold for size in measured.sizes], dtype=np.bool_), alignment)
    times = np.array(measured.times, dtype=np.float64)
    often = np.isfinite(times).sum(axis=0) >= LEAST_TIMES
    kernels = [i for i, name in enumerate(measured.kernels) if often[i] and name in stairs]
    if not kernels:
        return None
    fitting = _Fitting(times[:, kernels], tuple(stairs[measured.kernels[i]] for i in kernels), known, sms)
    edges = _edges(sizes)
    points = known.joined(_alike(known, _between(edges, known)))
    filled = np.full((len(points), len(measured.kernels)), np.nan)
    filled[:, kernels] = _mixed(fitting.stairs_at(points), fitting.losses_at(points), _share(fitting))
    rows = np.isfinite(times)
    filled[: len(known)][rows] = times[rows]
    for i in kernels:
        takes = stairs[measured.kernels[i]].takes
        if takes is not None:
            filled[~takes(points.sizes), i] = np.nan
    some = np.isfinite(filled).any(axis=1)
    wins = sorted(set(np.nanargmin(filled[some], axis=1).tolist()))
    grid = Grid(
        tuple(tuple(map(int, size)) for size in points.sizes[some]),
        tuple(measured.kernels[i] for i in wins),
        tuple(map(tuple, filled[np.ix_(some, wins)].tolist())),
    )
    return Filled(grid, edges)


def waves(blocks: NDArray[np.int64], at_once: int, sms: int) -> Floats:
    """Return the waves in which blocks run, as features of a time.

    Args:
        blocks: Number of blocks at each of n sizes.
        at_once: Blocks that an SM holds.
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
"""Of sizes: along which of m, n and k wide copies reach, a bit each."""

_WHOLE = _CLASSES - 1
"""The class of sizes along which they reach in all three."""


@dataclass(frozen=True)
class _Points:
    """Sizes, n x axes, whether times there are of cold caches, n, and along which dimensions wide copies may reach."""

    sizes: _Sizes
    cold: NDArray[np.bool_]
    alignment: Alignment = ALL

    def __len__(self) -> int:
        return len(self.sizes)

    def some(self, which: NDArray[np.bool_]) -> _Points:
        return replace(self, sizes=self.sizes[which], cold=self.cold[which])

    def joined(self, others: _Points) -> _Points:
        sizes, cold = np.concatenate([self.sizes, others.sizes]), np.concatenate([self.cold, others.cold])
        return replace(self, sizes=sizes, cold=cold)

    @property
    def divided(self) -> NDArray[np.bool_]:
        """Whether wide copies reach along m, n and k: n x 3."""
        return self.alignment.divided(self.sizes)

    @property
    def classes(self) -> NDArray[np.intp]:
        """The class of each size."""
        found: NDArray[np.intp] = self.divided @ np.array([1, 2, 4])
        return found


@dataclass(frozen=True)
class _Fit:
    """A kernel's times explained.

    Attributes:
        stair: Its blocks.
        sms: SMs that they fill.
        weights: Of the features.
        factors: Logarithms by class of the sizes, 0 of the class that the weights are fitted to; NaN where the kernel
            was not measured.
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
        """Return times in ms; `usual` are other kernels' factors, for classes in which this one was not measured."""
        if not len(points):
            return np.empty(0)
        blocks = self.stair.blocks(points.sizes)
        others = self.stair.others(points.sizes)
        explained = np.log(_features(points, blocks, others, self.stair.at_once, self.sms) @ self.weights)
        explained += np.where(np.isnan(self.factors), usual, self.factors)[points.classes]
        tree = cKDTree(self._places(self.known, self.blocks))
        distance, near = tree.query(self._places(points, blocks), k=min(_NEAREST, len(self.known)), workers=-1)
        distance, near = distance.reshape(len(points), -1), near.reshape(len(points), -1)
        weight = 1 / (distance + _NEAR)
        explained += (weight * self.rest[near]).sum(axis=1) / weight.sum(axis=1)
        nearest = distance.min(axis=1)
        times: Floats = np.exp(explained + _DOUBT * float(np.std(self.rest)) * nearest / (nearest + 1))
        return times

    def _places(self, points: _Points, blocks: NDArray[np.int64]) -> Floats:
        """Return coordinates: logarithms of dimensions and blocks, where wide copies reach, the cache's state."""
        load = -(-blocks // self.sms)
        alike = [_SAME_BLOCKS * np.log2(blocks), _SAME_LOAD * np.log2(load), _OTHER_CACHE * points.cold]
        return np.column_stack([np.log2(points.sizes), _OTHER_CLASS * points.divided, *alike])


def _fit(points: _Points, times: Floats, stair: Stair, sms: int) -> _Fit:
    """Return the fit that leaves the least unexplained, over the numbers of SMs that clusters may fill."""
    there = np.isfinite(times)
    points, times = points.some(there), times[there]
    blocks, classes = stair.blocks(points.sizes), points.classes
    home = classes == _WHOLE
    # launches beside the product run where copies are narrow: they explain those times, which are fitted, too
    others = stair.others(points.sizes)
    explained = others is not None
    if explained or home.sum() < LEAST_TIMES:
        home[:] = True

    def on(held: int) -> _Fit:
        features = _features(points, blocks, others, stair.at_once, held)
        # relative errors: times span orders of magnitude
        weights, _ = nnls(features[home] / times[home, None], np.ones(int(home.sum())))
        rest = np.log(times) - np.log(np.maximum(features @ weights, np.finfo(float).tiny))
        factors = np.full(_CLASSES, 0.0 if explained else np.nan)
        factors[_WHOLE] = 0.0
        for one in set(classes.tolist()) - {_WHOLE}:
            own = rest[classes == one]
            if len(own) >= 3 and (explained or not home.all()):  # noqa: PLR2004 - a median of less says nothing
                factors[one] = np.median(own)
        rest -= np.nan_to_num(factors)[classes]
        return _Fit(stair, held, weights, factors, points, blocks, rest)

    filled = range(sms // stair.cluster * stair.cluster, int(_LEAST_FILLED * sms), -stair.cluster)
    fits = map(on, filled if stair.cluster > 1 else (sms,))
    return min(fits, key=lambda one: float(np.square(one.rest).sum()))


@dataclass(frozen=True)
class _Fitting:
    """What is known of kernels that have stairs.

    Attributes:
        times: Sizes x kernels, in ms; NaN or infinity where a kernel was not measured.
        stairs: Of the kernels.
        known: The sizes.
        sms: SMs of the GPU.
    """

    times: Floats
    stairs: tuple[Stair, ...]
    known: _Points
    sms: int

    def without(self, left_out: NDArray[np.bool_]) -> _Fitting:
        return replace(self, times=self.times[~left_out], known=self.known.some(~left_out))

    def stairs_at(self, points: _Points) -> Floats:
        """Return times by the kernels' stairs, points x kernels; NaN where a kernel is taken to be too slow."""
        often = np.flatnonzero(np.isfinite(self.times).sum(axis=0) >= LEAST_TIMES)
        fitted = {i: _fit(self.known, self.times[:, i], self.stairs[i], self.sms) for i in often.tolist()}
        usual = _usual([one.factors for one in fitted.values()])
        found = np.full((len(points), len(self.stairs)), np.nan)
        around = _AROUND_SCATTERED if _scattered(self.known.sizes) else _AROUND
        near = _neighbours(self.known.sizes, points.sizes, around)
        for i, one in fitted.items():
            tried = np.asarray(np.isfinite(self.times[:, i])[near].any(axis=1))
            found[tried, i] = one.at(points.some(tried), usual)
        least = _LEAST_OF_FASTEST * self.fastest_at(points)[:, None]
        return np.where(found < least, least, found)

    def losses_at(self, points: _Points) -> Floats:
        """Return what kernels lose against the fastest around points: logarithms, points x kernels."""
        lost = np.nan_to_num(self.lost, nan=_ABSENT)
        shares, near = self._fits(points, _FLAT)
        found = np.zeros((len(points), len(self.stairs)))
        for own, of in zip(shares.T, near.T, strict=True):
            found += own[:, None] * lost[of]
        return found

    def fastest_at(self, points: _Points) -> Floats:
        """Return the time that the fastest kernel is expected to take at points."""
        times = np.where(np.isfinite(self.times), self.times, np.nan)
        fastest = np.log(np.fmin.reduce(times, axis=1))
        shares, near = self._fits(points, _STEEP)
        found: Floats = np.exp((shares * fastest[near]).sum(axis=1))
        return found

    def _fits(self, points: _Points, flat: float) -> tuple[Floats, NDArray[np.intp]]:
        """Return the shares that measured sizes have in a local fit at points, and their indices: points x sizes.

        The fit is linear in the logarithms of the dimensions, and prefers by `flat` not to change with them.
        """
        tree = cKDTree(_peers(self.known))
        distance, near = tree.query(_peers(points), k=min(_PEERS, len(self.known)), workers=-1)
        distance, near = distance.reshape(len(points), -1), near.reshape(len(points), -1)
        weight = 1 / np.square(distance + _PEERS_NEAR)
        weight /= weight.sum(axis=1, keepdims=True)
        away = np.log2(self.known.sizes)[near] - np.log2(points.sizes)[:, None]
        features = np.concatenate([np.ones((*near.shape, 1)), away], axis=2)
        weighted = (weight[:, :, None] * features).transpose(0, 2, 1)
        normal = weighted @ features + np.diag([0.0, *[flat] * self.known.sizes.shape[1]])
        return np.linalg.solve(normal, weighted)[:, 0], near  # the constant is the fit at the point

    @cached_property
    def lost(self) -> Floats:
        """What kernels lose against the fastest, sizes x kernels: logarithms, NaN where one was not measured."""
        times = np.where(np.isfinite(self.times), self.times, np.nan)
        found: Floats = np.log(times / np.fmin.reduce(times, axis=1)[:, None])
        return found


def _peers(points: _Points) -> Floats:
    return np.column_stack([np.log2(points.sizes), _PEERS_CLASS * points.divided])


def _mixed(stairs: Floats, losses: Floats, share: float) -> Floats:
    """Return means of two times, n x kernels: the stairs', and the fastest of these with what kernels lose nearby."""
    fastest = np.fmin.reduce(np.log(stairs), axis=1)[:, None]
    mixed: Floats = np.exp((1 - share) * np.log(stairs) + share * (fastest + losses))
    return mixed


def _share(fitting: _Fitting) -> float:
    """Return the share of `_SHARES` that loses least at measured sizes that are left out in turn."""
    complete = np.flatnonzero(np.isfinite(fitting.times).mean(axis=1) >= _COMPLETE)
    total = dict.fromkeys(_SHARES, 0.0)
    for fold in np.array_split(np.random.default_rng(0).permutation(complete), _FOLDS):
        out = np.isin(np.arange(len(fitting.known)), fold)
        kept, points = fitting.without(out), fitting.known.some(out)
        if not len(points) or not len(kept.known):
            continue
        stairs, losses = kept.stairs_at(points), kept.losses_at(points)
        some = np.isfinite(stairs).any(axis=1)
        real = np.nan_to_num(fitting.lost[out][some], nan=_ABSENT)
        for share in _SHARES:
            picked = np.nanargmin(_mixed(stairs, losses, share)[some], axis=1)
            total[share] += float(real[np.arange(len(picked)), picked].sum())
    return min(total, key=lambda share: (total[share], share))


def _usual(known: Sequence[Floats]) -> Floats:
    """Return a rather high factor of the kernels that have one, for each class; 0 where no kernel has one."""
    usual = np.zeros(_CLASSES)
    for one, factors in enumerate(np.array(known).T):
        measured = factors[~np.isnan(factors)]
        if len(measured):
            usual[one] = np.percentile(measured, _DOUBTED)
    return usual


def _features(points: _Points, blocks: NDArray[np.int64], others: Floats | None, at_once: int, sms: int) -> Floats:
    """Return n x features, at least 0: a constant and the matrices' bytes, warm and cold, waves, and waves times k.

    Of other launches, what `Stair.others` counts, and their threads once more for cold caches.
    """
    m, n, k, *batch = points.sizes.T.astype(np.float64)
    ran = waves(blocks, at_once, sms)
    # scaled alike, or the least squares would be ill-conditioned
    scaled = np.column_stack([m * n, m * k, n * k]) / 2**20
    for products in batch:
        scaled *= products[:, None]
    scaled = np.column_stack([np.ones(len(points)), scaled])
    found = [scaled, scaled * points.cold[:, None], ran, ran * (k / 2**10)[:, None]]
    if others is not None:
        found += [others, others[:, 1:] * points.cold[:, None]]
    return np.hstack(found)


def _neighbours(known: _Sizes, sizes: _Sizes, most: int) -> NDArray[np.intp]:
    """Return the indices of the nearest measured sizes of any class, n x neighbours."""
    _, near = cKDTree(np.log2(known)).query(np.log2(sizes), k=min(most, len(known)), workers=-1)
    found: NDArray[np.intp] = near.reshape(len(sizes), -1)
    return found


def _alike(known: _Points, sizes: _Sizes) -> _Points:
    """Give sizes the state of the cache that measured sizes around them had."""
    if not len(sizes):
        return replace(known, sizes=sizes, cold=np.empty(0, np.bool_))
    return replace(known, sizes=sizes, cold=known.cold[_neighbours(known.sizes, sizes, _ALIKE)].mean(axis=1) > 0.5)  # noqa: PLR2004 - most


def _edges(known: _Sizes) -> tuple[tuple[int, ...], ...]:
    """Return cells: of m and n as kernels' tiles divide them, of the rest as it was measured, and half way between."""
    if _scattered(known):
        return _scattered_edges(known)
    coarser = 1
    while True:
        m, n = (_steps(int(known[:, axis].max()), coarser) for axis in (0, 1))
        found = (m, n, *map(_halves, known[:, 2:].T))
        if np.prod([len(own) for own in found]) <= _MOST_CELLS or coarser > 1 << 20:
            return found
        coarser *= 2


def _scattered(known: _Sizes) -> bool:
    """Say whether sizes form no grid."""
    return len(np.unique(known[:, 2])) > _MOST_DEPTHS


def _scattered_edges(known: _Sizes) -> tuple[tuple[int, ...], ...]:
    """Return where thresholds may stand between sizes that form no grid: even in the logarithms beyond 8 steps."""
    last = known.max(axis=0)
    low = (*_SMALLEST, *range(_FINE, 9 * _FINE, _FINE))

    def along(axis: int) -> tuple[int, ...]:
        steps = math.ceil(_OCTAVE * math.log2(max(1.0, last[axis] / low[-1])))
        beyond = (low[-1] * 2 ** (step / _OCTAVE) for step in range(1, steps + 1))
        return (*low, *(-(-round(edge) // _FINE) * _FINE for edge in beyond))

    def smooth(axis: int) -> tuple[int, ...]:
        steps = range(math.ceil(_DEEP_OCTAVE * math.log2(last[axis])) + 1)
        return tuple(sorted({round(2 ** (step / _DEEP_OCTAVE)) for step in steps}))

    return along(0), along(1), *map(smooth, range(2, len(last)))


def _steps(last: int, coarser: int) -> tuple[int, ...]:
    fine, coarse = _FINE * coarser, _COARSE * coarser
    low = range(fine, min(last, _FINE_UNTIL * coarser) + fine, fine)
    return (*low, *range(low[-1] + coarse, last + coarse, coarse))


def _halves(values: NDArray[np.int64]) -> tuple[int, ...]:
    """Return measured values, each the end of a cell, and their geometric means."""
    measured = sorted({int(x) for x in values})
    between = [round((a * b) ** 0.5) for a, b in pairwise(measured)]
    return tuple(sorted({*measured, *between}))


def _between(edges: Sequence[Sequence[int]], points: _Points) -> _Sizes:
    """Return sizes between measured ones.

    Of a grid these are the end of every cell, and one less along m and n where such a size was measured. Of random
    sizes, further ones of the same kind: even in the logarithms, with as many multiples of a vector.
    """
    known, vector = points.sizes, points.alignment.vector
    if _scattered(known):
        return _drawn(known, vector)
    seen = set(map(tuple, (known[:, :2] % vector == 0).tolist()))
    taken = set(map(tuple, known.tolist()))
    sizes: list[Size] = []
    for whole_m, whole_n in sorted(seen):
        for m, n, *rest in product(*edges):
            size = (m if whole_m else m - 1, n if whole_n else n - 1, *rest)
            if size not in taken:
                sizes.append(size)
    return np.array(sizes, dtype=np.int64).reshape(-1, known.shape[1])


def _drawn(known: _Sizes, vector: int) -> _Sizes:
    rng = np.random.default_rng(0)
    low, high = known.min(axis=0), known.max(axis=0)
    drawn = np.exp(rng.uniform(np.log(low), np.log(high + 1), (_DRAWN, known.shape[1]))).astype(np.int64)
    whole = rng.random(drawn.shape) < (known % vector == 0).mean(axis=0)
    drawn = np.clip(np.where(whole, np.maximum(drawn // vector, 1) * vector, drawn), low, high)
    taken = set(map(tuple, known.tolist()))
    sizes = [size for size in dict.fromkeys(map(tuple, drawn.tolist())) if size not in taken]
    return np.array(sizes, dtype=np.int64).reshape(-1, known.shape[1])
