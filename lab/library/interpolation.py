"""Interpolated kernel times between measured sizes, so that thresholds can follow the steps of the times.

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
"""The least number of measured times for a fit; other kernels are not considered between sizes."""

_NEAREST = 10
"""Number of measured sizes from which the residual is interpolated."""

_AROUND = 48
"""A kernel measured at none of this many nearest sizes is assumed to be too slow.

Of 6, 12, 24 and 48 the last lost the least: a kernel that wins without wide copies may not have been timed where they
are possible.
"""

_AROUND_SCATTERED = 12
"""`_AROUND` for random sizes, where 48 sizes cover most of the box.

With 48 a kernel of 256 x 128 tiles, timed at large sizes alone, was picked for small ones: at 80 held-out sizes of four
layouts (240 measured ones, some 100 kernels of an H200) the loss was 296 %; with 5, 8, 12 and 16 it is 5.4 to 6.3 %.
"""

_LEAST_FILLED = 0.7
"""The least share of SMs filled by clusters: a GPC of 16 SMs holds two clusters of 6 blocks, on 12 SMs."""

_ALIKE = 5
"""Number of measured sizes that vote on whether an interpolated time is for cold caches."""

_FINE, _FINE_UNTIL, _COARSE = 16, 512, 64
"""Steps of m and n between which times are interpolated: tiles are multiples of 16, and from 512 on of 64 and more,
or so small that other kernels win."""

_MOST_CELLS = 1 << 14
"""The most cells of a grid; above it, steps are doubled. A cell has up to 4 sizes with a time per kernel."""

_MOST_DEPTHS = 64
"""More distinct values of k than any grid has: the sizes are random."""

_DRAWN = 1 << 16
"""Number of sizes drawn between random measured ones.

At 40 held-out sizes of each of two layouts (360 measured ones, some 110 kernels of an H200) the ends of 5,415 cells in
all alignments lost 13.2 and 8.4 %, 40,000 random sizes 8.2 and 6.5 %, 80,000 7.1 and 7.4 %.
"""

_OCTAVE, _DEEP_OCTAVE = 8, 4
"""Thresholds in a doubling of m and n, and of the rest: time grows with k without steps."""

_SMALLEST = (1, 2, 4, 8)
"""Thresholds on m and n below the first step, for random sizes."""

_OTHER_CLASS = 1.0
"""Distance, in doublings of a dimension, between sizes of which only one allows wide copies along it."""

_SAME_BLOCKS, _SAME_LOAD = 4.0, 4.0
"""Weights of a doubling of the blocks, and of the blocks of the fullest SM, against one of a dimension. Fitted with
219 kernels at some 1300 sizes of an H200: of the weights 1 to 8 of the blocks alone, 8 lost the least at held-out
sizes; half of it for the blocks of the fullest SM lost a fifth less."""

_OTHER_CACHE = 2.0
"""Distance between a size timed cold and one timed warm."""

_DOUBT = 0.5
"""Share of a kernel's residual scatter added to its time far from all measured sizes."""

_DOUBTED = 84.0
"""Percentile of the other kernels' factors, used for a kernel never measured in a class.

It is one standard deviation above the median. With this and `_DOUBT`, the loss over 200 sizes was 1.6 % instead of 2.0
%.
"""

_NEAR = 0.05
"""Distance, in doublings, below which measured sizes have nearly equal weight."""

_PEERS = 32
"""Number of measured sizes in the fit of kernel losses, which is linear in the logarithms of the dimensions.

At the 80 held-out sizes of `_DRAWN` the mean of 8 sizes lost 7.2 % without a tree; the fit to 16, 24, 32 and 40 lost
7.2, 6.3, 5.7 and 6.8 %.
"""

_FLAT = 0.3
"""Ridge penalty of the loss fit: prefers losses that do not change with a dimension. 0.1 lost as little."""

_STEEP = 0.03
"""Ridge penalty of the fit to the fastest times.

At held-out sizes its median error was 10 %, and 5 % of the fastest times were below 0.65 of it; 0.003, 0.1 and 0.3 had
the same error.
"""

_LEAST_OF_FASTEST = 0.6
"""Lower bound of a stair's time, relative to the expected fastest time; guards against bad extrapolation.

Far from a dozen measured times, a stair may promise more than the GPU's peak. At the 80 held-out sizes of `_DRAWN` the
bound does not matter.
"""

_SHARES = (0.0, 1 / 3, 1 / 2, 2 / 3, 4 / 5)
"""Candidate weights of the losses in the logarithm of a time; the rest is the stair's.

On a dense grid with exact stairs the losses blur the steps. At the held-out sizes of `_DRAWN` stairs alone lost 21.5 %,
and a mean with a share of 2/3 of 8 sizes' losses 7.2 %.
"""

_FOLDS = 4
"""Cross-validation folds of the measured sizes, for choosing the weight from `_SHARES`."""

_COMPLETE = 0.5
"""Least share of kernels timed at a size for it to be held out.

Where races left out more kernels, the loss of a wrong pick is unknown.
"""

_ABSENT = 0.8
"""Assumed log slowdown of a kernel that was not timed at a size: races drop slow kernels.

At complete sizes that were held out in turn, 0.6, 0.8 and 1.0 lost 4.3, 3.2 and 3.2 %.
"""

_PEERS_CLASS = 0.5**0.5
"""Distance, in doublings of a dimension, between sizes of which only one allows wide copies along it."""

_PEERS_NEAR = 0.5
"""Distance, in doublings, below which measured sizes have nearly equal weight."""

_Sizes = NDArray[np.int64]


@dataclass(frozen=True)
class Stair:
    """A kernel's occupancy model: its blocks at each size, and how they fill a GPU.

    Attributes:
        blocks: From sizes (n x axes: m, n, k, and of batches their products) to how many blocks run at each.
        at_once: Blocks that an SM holds.
        cluster: Blocks of a cluster.
        takes: From sizes to whether the kernel computes each; None for one that computes all.
        others: From sizes to the launches beside the product (`lab.library.batch_expressions.others`), n x 2; None for
            none.
    """

    blocks: Callable[[_Sizes], NDArray[np.int64]]
    at_once: int
    cluster: int = 1
    takes: Callable[[_Sizes], NDArray[np.bool_]] | None = None
    others: Callable[[_Sizes], Floats | None] = lambda _: None


@dataclass(frozen=True)
class Filled:
    """Times at sample sizes, one or more per cell.

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
    measured_points = _Points(sizes, np.array([size in cold for size in measured.sizes], dtype=np.bool_), alignment)
    times = np.array(measured.times, dtype=np.float64)
    often = np.isfinite(times).sum(axis=0) >= LEAST_TIMES
    kernels = [i for i, name in enumerate(measured.kernels) if often[i] and name in stairs]
    if not kernels:
        return None
    fitting = _Fitting(times[:, kernels], tuple(stairs[measured.kernels[i]] for i in kernels), measured_points, sms)
    edges = _edges(sizes)
    points = measured_points.joined(_alike(measured_points, _between(edges, measured_points)))
    filled = np.full((len(points), len(measured.kernels)), np.nan)
    filled[:, kernels] = _mixed(fitting.stairs_at(points), fitting.losses_at(points), _share(fitting))
    rows = np.isfinite(times)
    filled[: len(measured_points)][rows] = times[rows]
    for i in kernels:
        takes = stairs[measured.kernels[i]].takes
        if takes is not None:
            filled[~takes(points.sizes), i] = np.nan
    covered = np.isfinite(filled).any(axis=1)
    wins = sorted(set(np.nanargmin(filled[covered], axis=1).tolist()))
    grid = Grid(
        tuple(tuple(map(int, size)) for size in points.sizes[covered]),
        tuple(measured.kernels[i] for i in wins),
        tuple(map(tuple, filled[np.ix_(covered, wins)].tolist())),
    )
    return Filled(grid, edges)


def waves(blocks: NDArray[np.int64], at_once: int, sms: int) -> Floats:
    """Return the waves of a launch as features of its time.

    Args:
        blocks: Number of blocks at each of n sizes.
        at_once: Blocks that an SM holds.
        sms: SMs.

    Returns:
        n x `at_once`: how often the fullest SM runs a wave of at least 1, 2, … blocks. Full waves hold `at_once`; the
        last one, evenly spread, what is left.
    """
    full, remainder = np.divmod(blocks, sms * at_once)
    last = -(-remainder // sms)
    levels = np.arange(1, at_once + 1)
    counted: Floats = full[:, None] + (levels[None, :] <= last[:, None]).astype(np.float64)
    return counted


_CLASSES = 8
"""Number of size classes: one bit each for wide copies along m, n and k."""

_WHOLE = _CLASSES - 1
"""The class of sizes with wide copies along all three dimensions."""


@dataclass(frozen=True)
class _Points:
    """Sizes (n x axes), whether their times are for cold caches (n), and their alignment."""

    sizes: _Sizes
    cold: NDArray[np.bool_]
    alignment: Alignment = ALL

    def __len__(self) -> int:
        return len(self.sizes)

    def some(self, which: NDArray[np.bool_]) -> _Points:
        return replace(self, sizes=self.sizes[which], cold=self.cold[which])

    def joined(self, further: _Points) -> _Points:
        sizes, cold = np.concatenate([self.sizes, further.sizes]), np.concatenate([self.cold, further.cold])
        return replace(self, sizes=sizes, cold=cold)

    @property
    def divided(self) -> NDArray[np.bool_]:
        """Return whether wide copies are possible along m, n and k: n x 3."""
        return self.alignment.divided(self.sizes)

    @property
    def classes(self) -> NDArray[np.intp]:
        """Return the class of each size."""
        class_numbers: NDArray[np.intp] = self.divided @ np.array([1, 2, 4])
        return class_numbers


@dataclass(frozen=True)
class _Fit:
    """The fitted time model of one kernel.

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
        """Return times in ms; `usual` holds other kernels' factors, for classes without measurements of this one."""
        if not len(points):
            return np.empty(0)
        blocks = self.stair.blocks(points.sizes)
        other_launches = self.stair.others(points.sizes)
        explained = np.log(_features(points, blocks, other_launches, self.stair.at_once, self.sms) @ self.weights)
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
        """Return coordinates: logarithms of dimensions and blocks, wide copies, the state of the cache."""
        load = -(-blocks // self.sms)
        alike = [_SAME_BLOCKS * np.log2(blocks), _SAME_LOAD * np.log2(load), _OTHER_CACHE * points.cold]
        return np.column_stack([np.log2(points.sizes), _OTHER_CLASS * points.divided, *alike])


def _fit(points: _Points, times: Floats, stair: Stair, sms: int) -> _Fit:
    """Return the fit with the least residual, over the numbers of SMs that clusters may fill."""
    timed = np.isfinite(times)
    points, times = points.some(timed), times[timed]
    blocks, classes = stair.blocks(points.sizes), points.classes
    home = classes == _WHOLE
    # launches beside the product run where copies are narrow: they explain those times, which are fitted, too
    other_launches = stair.others(points.sizes)
    explained = other_launches is not None
    if explained or home.sum() < LEAST_TIMES:
        home[:] = True

    def on(filled_sms: int) -> _Fit:
        features = _features(points, blocks, other_launches, stair.at_once, filled_sms)
        # relative errors: times span orders of magnitude
        weights, _ = nnls(features[home] / times[home, None], np.ones(int(home.sum())))
        residual = np.log(times) - np.log(np.maximum(features @ weights, np.finfo(float).tiny))
        factors = np.full(_CLASSES, 0.0 if explained else np.nan)
        factors[_WHOLE] = 0.0
        for size_class in set(classes.tolist()) - {_WHOLE}:
            own = residual[classes == size_class]
            if len(own) >= 3 and (explained or not home.all()):  # noqa: PLR2004 - a median of less says nothing
                factors[size_class] = np.median(own)
        residual -= np.nan_to_num(factors)[classes]
        return _Fit(stair, filled_sms, weights, factors, points, blocks, residual)

    filled = range(sms // stair.cluster * stair.cluster, int(_LEAST_FILLED * sms), -stair.cluster)
    fits = map(on, filled if stair.cluster > 1 else (sms,))
    return min(fits, key=lambda fit: float(np.square(fit.rest).sum()))


@dataclass(frozen=True)
class _Fitting:
    """Measured times of the kernels with stairs, from which times are interpolated.

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
        """Return times by the kernels' stairs, points x kernels; NaN for kernels assumed too slow."""
        often = np.flatnonzero(np.isfinite(self.times).sum(axis=0) >= LEAST_TIMES)
        fitted = {i: _fit(self.known, self.times[:, i], self.stairs[i], self.sms) for i in often.tolist()}
        usual = _usual([fit.factors for fit in fitted.values()])
        stair_times = np.full((len(points), len(self.stairs)), np.nan)
        around = _AROUND_SCATTERED if _scattered(self.known.sizes) else _AROUND
        near = _neighbours(self.known.sizes, points.sizes, around)
        for i, fit in fitted.items():
            near_measured = np.asarray(np.isfinite(self.times[:, i])[near].any(axis=1))
            stair_times[near_measured, i] = fit.at(points.some(near_measured), usual)
        least = _LEAST_OF_FASTEST * self.fastest_at(points)[:, None]
        return np.where(stair_times < least, least, stair_times)

    def losses_at(self, points: _Points) -> Floats:
        """Return the kernels' losses against the fastest around points: logarithms, points x kernels."""
        lost = np.nan_to_num(self.lost, nan=_ABSENT)
        shares, near = self._fits(points, _FLAT)
        losses = np.zeros((len(points), len(self.stairs)))
        for own, of in zip(shares.T, near.T, strict=True):
            losses += own[:, None] * lost[of]
        return losses

    def fastest_at(self, points: _Points) -> Floats:
        """Return the expected time of the fastest kernel at points."""
        times = np.where(np.isfinite(self.times), self.times, np.nan)
        fastest = np.log(np.fmin.reduce(times, axis=1))
        shares, near = self._fits(points, _STEEP)
        expected: Floats = np.exp((shares * fastest[near]).sum(axis=1))
        return expected

    def _fits(self, points: _Points, flat: float) -> tuple[Floats, NDArray[np.intp]]:
        """Return the weights and indices of measured sizes in a local fit at points: points x sizes.

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
        """The kernels' losses against the fastest, sizes x kernels: logarithms, NaN where not measured."""
        times = np.where(np.isfinite(self.times), self.times, np.nan)
        losses: Floats = np.log(times / np.fmin.reduce(times, axis=1)[:, None])
        return losses


def _peers(points: _Points) -> Floats:
    return np.column_stack([np.log2(points.sizes), _PEERS_CLASS * points.divided])


def _mixed(stairs: Floats, losses: Floats, share: float) -> Floats:
    """Return weighted geometric means, n x kernels, of the stairs' times and those by nearby losses."""
    fastest = np.fmin.reduce(np.log(stairs), axis=1)[:, None]
    mixed: Floats = np.exp((1 - share) * np.log(stairs) + share * (fastest + losses))
    return mixed


def _share(fitting: _Fitting) -> float:
    """Return the weight from `_SHARES` that loses least in cross-validation."""
    complete = np.flatnonzero(np.isfinite(fitting.times).mean(axis=1) >= _COMPLETE)
    total = dict.fromkeys(_SHARES, 0.0)
    for fold in np.array_split(np.random.default_rng(0).permutation(complete), _FOLDS):
        out = np.isin(np.arange(len(fitting.known)), fold)
        training, points = fitting.without(out), fitting.known.some(out)
        if not len(points) or not len(training.known):
            continue
        stairs, losses = training.stairs_at(points), training.losses_at(points)
        covered = np.isfinite(stairs).any(axis=1)
        real = np.nan_to_num(fitting.lost[out][covered], nan=_ABSENT)
        for share in _SHARES:
            picked = np.nanargmin(_mixed(stairs, losses, share)[covered], axis=1)
            total[share] += float(real[np.arange(len(picked)), picked].sum())
    return min(total, key=lambda share: (total[share], share))


def _usual(fitted_factors: Sequence[Floats]) -> Floats:
    """Return a rather high percentile of the kernels' factors for each class; 0 without any."""
    usual = np.zeros(_CLASSES)
    for size_class, factors in enumerate(np.array(fitted_factors).T):
        measured = factors[~np.isnan(factors)]
        if len(measured):
            usual[size_class] = np.percentile(measured, _DOUBTED)
    return usual


def _features(
    points: _Points, blocks: NDArray[np.int64], other_launches: Floats | None, at_once: int, sms: int
) -> Floats:
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
    features = [scaled, scaled * points.cold[:, None], ran, ran * (k / 2**10)[:, None]]
    if other_launches is not None:
        features += [other_launches, other_launches[:, 1:] * points.cold[:, None]]
    return np.hstack(features)


def _neighbours(measured: _Sizes, sizes: _Sizes, count: int) -> NDArray[np.intp]:
    """Return the indices of the nearest measured sizes in any class, n x neighbours."""
    _, near = cKDTree(np.log2(measured)).query(np.log2(sizes), k=min(count, len(measured)), workers=-1)
    neighbours: NDArray[np.intp] = near.reshape(len(sizes), -1)
    return neighbours


def _alike(timed: _Points, sizes: _Sizes) -> _Points:
    """Return sizes with the cache state of the measured sizes around them."""
    if not len(sizes):
        return replace(timed, sizes=sizes, cold=np.empty(0, np.bool_))
    return replace(timed, sizes=sizes, cold=timed.cold[_neighbours(timed.sizes, sizes, _ALIKE)].mean(axis=1) > 0.5)  # noqa: PLR2004 - most


def _edges(measured: _Sizes) -> tuple[tuple[int, ...], ...]:
    """Return cells: m and n by tile multiples, other dimensions by measured values and half way between."""
    if _scattered(measured):
        return _scattered_edges(measured)
    coarser = 1
    while True:
        m, n = (_steps(int(measured[:, axis].max()), coarser) for axis in (0, 1))
        edges = (m, n, *map(_halves, measured[:, 2:].T))
        if np.prod([len(own) for own in edges]) <= _MOST_CELLS or coarser > 1 << 20:
            return edges
        coarser *= 2


def _scattered(measured: _Sizes) -> bool:
    """Return whether the sizes are random, not a grid."""
    return len(np.unique(measured[:, 2])) > _MOST_DEPTHS


def _scattered_edges(measured: _Sizes) -> tuple[tuple[int, ...], ...]:
    """Return threshold positions for random sizes: logarithmic beyond 8 steps."""
    last = measured.max(axis=0)
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
    """Return measured values, each the end of a cell, and the geometric means of neighbours."""
    measured = sorted({int(x) for x in values})
    between = [round((a * b) ** 0.5) for a, b in pairwise(measured)]
    return tuple(sorted({*measured, *between}))


def _between(edges: Sequence[Sequence[int]], points: _Points) -> _Sizes:
    """Return sizes between measured ones.

    Of a grid these are the end of every cell, and one less along m and n where such a size was measured. Of random
    sizes, further ones of the same kind: even in the logarithms, with as many multiples of a vector.
    """
    measured, vector = points.sizes, points.alignment.vector
    if _scattered(measured):
        return _drawn(measured, vector)
    divisibility = set(map(tuple, (measured[:, :2] % vector == 0).tolist()))
    measured_sizes = set(map(tuple, measured.tolist()))
    sizes: list[Size] = []
    for whole_m, whole_n in sorted(divisibility):
        for m, n, *tail in product(*edges):
            size = (m if whole_m else m - 1, n if whole_n else n - 1, *tail)
            if size not in measured_sizes:
                sizes.append(size)
    return np.array(sizes, dtype=np.int64).reshape(-1, measured.shape[1])


def _drawn(measured: _Sizes, vector: int) -> _Sizes:
    rng = np.random.default_rng(0)
    low, high = measured.min(axis=0), measured.max(axis=0)
    drawn = np.exp(rng.uniform(np.log(low), np.log(high + 1), (_DRAWN, measured.shape[1]))).astype(np.int64)
    divisible = rng.random(drawn.shape) < (measured % vector == 0).mean(axis=0)
    drawn = np.clip(np.where(divisible, np.maximum(drawn // vector, 1) * vector, drawn), low, high)
    measured_sizes = set(map(tuple, measured.tolist()))
    sizes = [size for size in dict.fromkeys(map(tuple, drawn.tolist())) if size not in measured_sizes]
    return np.array(sizes, dtype=np.int64).reshape(-1, measured.shape[1])
