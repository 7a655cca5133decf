"""Kernel selection by size: a decision tree of thresholds, grown from measured times.

The tree splits the sizes (m, n, k, and of batches their products) at one threshold of one dimension at a time. Each
node takes the split that loses the least time against always picking the best kernel; splitting goes on until nothing
is lost over the measured sizes, or until a limit that the caller sets. Time lost is relative: a size at which the
picked kernel takes 1.1 times as long as the best one loses 0.1, whether it runs for a microsecond or a second. Times
span six orders of magnitude, and in absolute time the largest sizes alone would decide every split.

A kernel that cannot take every size is a leaf's pick only if it gains on the leaf's sizes that it takes. Elsewhere
another kernel runs in its place, so over all sizes of a leaf it may look like that kernel although it is slow itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import UserError
from lab.base.sizes import AXES, BATCH_AXES, Size, extents
from lab.library.alignment import ALL, VECTOR, Alignment
from lab.library.grid import Floats, Grid, Loss, check_size, loss_of

BATCH_SPLIT = 2 * len(AXES)
"""Index of the batch count in `split_axes`."""


def split_axes(vector: int) -> tuple[str, ...]:
    """Return the quantities that thresholds apply to: dimensions, remainders of m, n and k, the batch count."""
    return (*AXES, *(f"{axis} % {vector}" for axis in AXES), "batch")


_UNMEASURED = 1e6
"""Loss of a kernel at a size where it was not measured: larger than any real loss."""


@dataclass(frozen=True, slots=True)
class Split:
    """One inner node of the tree.

    Attributes:
        axis: Number in `split_axes`.
        threshold: Sizes that are below it there go to `below`, the others to `rest`.
        below: A split's number, or ``~kernel``, which is negative.
        rest: The same.
    """

    axis: int
    threshold: int
    below: int
    rest: int


@dataclass(frozen=True, slots=True)
class Exact:
    """An exact size and the number of its fastest kernel."""

    m: int
    n: int
    k: int
    kernel: int
    batch: int = 1

    @property
    def size(self) -> Size:
        """The dimensions of `BATCH_AXES`."""
        return self.m, self.n, self.k, self.batch


@dataclass(frozen=True)
class Logic:
    """The logic that picks a kernel. A size without a batch count has a batch of 1.

    Attributes:
        kernels: Names of those that can be picked.
        root: Where a size starts: a split's number, or ``~kernel``.
        splits: The tree.
        exact: Sizes that do not go through the tree, in ascending order.
        vector: What remainders are left by.
    """

    kernels: tuple[str, ...]
    root: int
    splits: tuple[Split, ...] = ()
    exact: tuple[Exact, ...] = ()
    vector: int = VECTOR

    def __post_init__(self) -> None:
        """Check a logic from a file: numbers out of range, and splits that form cycles.

        Raises:
            UserError: Something is wrong.
        """
        for name, node, least in [
            ("root", self.root, 0),
            *(("splits", to, i + 1) for i, split in enumerate(self.splits) for to in (split.below, split.rest)),
            *(("exact", ~exact.kernel, len(self.splits)) for exact in self.exact),
        ]:
            if not (least <= node < len(self.splits) or 0 <= ~node < len(self.kernels)):
                accepted = "a later split, or ~kernel"
                raise UserError("the selection tree is broken", code="syntax", key=name, found=node, accepted=accepted)
        if self.vector < 1:
            raise UserError(
                "the selection tree is broken", code="syntax", key="vector", found=self.vector, accepted="at least 1"
            )
        axes = split_axes(self.vector)
        if any(split.axis not in range(len(axes)) for split in self.splits):
            accepted = ", ".join(f"{i}: {name}" for i, name in enumerate(axes))
            raise UserError("the selection tree is broken", code="syntax", key="splits.axis", accepted=accepted)
        order = [exact.size for exact in self.exact]
        if order != sorted(set(order)):
            raise UserError(
                "exact sizes are not in order",
                code="wrong-value",
                key="exact",
                accepted=f"ascending {', '.join(BATCH_AXES)}, each once",
            )

    @property
    def batched(self) -> bool:
        """Return whether the batch count affects the selection."""
        return any(exact.batch != 1 for exact in self.exact) or any(split.axis == BATCH_SPLIT for split in self.splits)

    @cached_property
    def picks(self) -> frozenset[int]:
        """Numbers of the kernels picked for some size."""
        ends = (self.root, *(to for split in self.splits for to in (split.below, split.rest)))
        return frozenset([~to for to in ends if to < 0]) | {exact.kernel for exact in self.exact}

    def renumbered(self, kernels: tuple[str, ...]) -> Logic:
        """Return the same logic with its kernels renumbered.

        Args:
            kernels: Names by their new numbers, this logic's among them.
        """
        number = [kernels.index(name) for name in self.kernels]

        def renumber(to: int) -> int:
            return to if to >= 0 else ~number[~to]

        return Logic(
            kernels,
            renumber(self.root),
            tuple(Split(s.axis, s.threshold, renumber(s.below), renumber(s.rest)) for s in self.splits),
            tuple(replace(exact, kernel=number[exact.kernel]) for exact in self.exact),
            self.vector,
        )

    @cached_property
    def _exact(self) -> dict[Size, int]:
        return {exact.size: exact.kernel for exact in self.exact}

    def select(self, m: int, n: int, k: int, batch: int = 1) -> int:
        """Return the number of the kernel for a size.

        Raises:
            UserError: It is not a size.
        """
        size = check_size(m, n, k, batch)
        number = self._exact.get(size)
        if number is not None:
            return number
        at = self.root
        for split, below in self._way(size):
            at = split.below if below else split.rest
        return ~at

    def reasons(self, m: int, n: int, k: int, batch: int = 1) -> tuple[str, ...]:
        """Return the decision path for a size: one bound per axis, such as ``64 <= m < 128`` or ``k % 4 = 0``.

        Raises:
            UserError: It is not a size.
        """
        size = check_size(m, n, k, batch)
        if size in self._exact:
            return ("the size was measured for itself",)
        bounds: dict[int, tuple[int, int | None]] = {}
        for split, below in self._way(size):
            low, high = bounds.get(split.axis, (0, None))
            if below:
                high = split.threshold if high is None else min(high, split.threshold)
            else:
                low = max(low, split.threshold)
            bounds[split.axis] = low, high
        axes = split_axes(self.vector)
        return tuple(_between(axes[axis], *bounds[axis]) for axis in sorted(bounds))

    def _way(self, size: Size) -> Iterator[tuple[Split, bool]]:
        """Yield the splits on a size's path, and whether it is below their thresholds."""
        m, n, k, batch = size
        along = (m, n, k, m % self.vector, n % self.vector, k % self.vector, batch)
        at = self.root
        while at >= 0:
            split = self.splits[at]
            below = along[split.axis] < split.threshold
            yield split, below
            at = split.below if below else split.rest


def _between(axis: str, low: int, high: int | None) -> str:
    if high is not None and high == low + 1:
        return f"{axis} = {low}"
    return f"{f'{low} <= ' if low else ''}{axis}{f' < {high}' if high is not None else ''}"


Edges = Sequence[Sequence[int]]
"""For each dimension of a size, in ascending order: the ends of its cells."""


def build(
    ranges: Grid | None,
    exact: Grid | None = None,
    *,
    most_leaves: int = 0,
    tolerance: float = 0.0,
    edges: Edges | None = None,
    gains: Mapping[str, Floats] | None = None,
    alignment: Alignment = ALL,
) -> Logic:
    """Build the logic from measured ranges and exact sizes.

    Args:
        ranges: What the tree is grown over; None grows it over the exact sizes, for the sizes between them.
        exact: Sizes that map to their fastest kernel, whatever the tree says.
        most_leaves: The most leaves of the tree; 0 means no limit.
        tolerance: A node whose mean loss is no more than this share is not split further; nor may the mean be more over
            the sizes that kernels with requirements take.
        edges: Where thresholds on a dimension may stand; further thresholds separate the m, n and k along which wide
            copies reach. Without edges, thresholds stand half way between sizes.
        gains: For each kernel that cannot take every size, what it gains at each size of the ranges on the kernel that
            runs where it cannot, as a share of the best kernel's time; NaN where it cannot take the size, minus
            infinity where it can but has no time.
        alignment: Along which dimensions wide copies reach.

    Returns:
        The logic, without kernels that are never picked.

    Raises:
        UserError: There is neither a range nor an exact size.
    """
    grown_over = ranges or exact
    if grown_over is None:
        raise UserError(
            "nothing was measured", code="nothing-left", accepted="a grid of ranges, of exact sizes, or both"
        )
    if grown_over is not ranges:
        edges = gains = None
    root, splits = _grow(
        _costs(grown_over, gains or {}), grown_over.sizes, most_leaves, tolerance, edges, alignment=alignment
    )
    fastest = dict(zip(exact.sizes, exact.fastest(), strict=True)) if exact else {}
    names = grown_over.kernels
    picked = [names[~to] for to in (root, *(to for s in splits for to in (s.below, s.rest))) if to < 0]
    kernels = tuple(dict.fromkeys([*picked, *fastest.values()]))
    number = {name: i for i, name in enumerate(kernels)}

    def renumbered(to: int) -> int:
        return to if to >= 0 else ~number[names[~to]]

    return Logic(
        kernels,
        renumbered(root),
        tuple(Split(s.axis, s.threshold, renumbered(s.below), renumbered(s.rest)) for s in splits),
        tuple(_exact(size, number[name]) for size, name in sorted(fastest.items())),
        alignment.vector,
    )


def _exact(size: Size, kernel: int) -> Exact:
    m, n, k, batch = extents(size)
    return Exact(m, n, k, kernel, batch)


def evaluate(logic: Logic, grid: Grid) -> Loss:
    """Return the loss of the logic at the sizes of a grid: those it was grown over, or held-out ones."""
    return loss_of(grid, [logic.kernels[logic.select(*size)] for size in grid.sizes])


@dataclass(slots=True)
class _Node:
    """A set of sizes during growth of the tree; a leaf if it has no cut."""

    points: NDArray[np.intp]
    kernel: int
    lost: float
    cut: tuple[int, int, _Node, _Node] | None = None


@dataclass(frozen=True)
class _Costs:
    """Kernel losses at sizes.

    Attributes:
        losses: Sizes x kernels.
        partial: Columns of the kernels that cannot take every size.
        gains: Sizes x those kernels, 0 where one cannot take the size.
        taken: Whether one of them takes a size.
    """

    losses: Floats
    partial: tuple[int, ...]
    gains: Floats
    taken: NDArray[np.bool_]

    def at(self, points: NDArray[np.intp] | slice) -> _Costs:
        """Return the costs of some sizes; a slice is a view."""
        return _Costs(self.losses[points], self.partial, self.gains[points], self.taken[points])

    def total(self) -> Floats:
        """Return each kernel's total loss if picked for all sizes; infinity if it may not be."""
        return self._allowed(self.losses.sum(axis=0), self.gains.sum)

    def running(self) -> Floats:
        """Return `total` for the first size alone, the first two, and so on."""
        return self._allowed(self.losses.cumsum(axis=0), self.gains.cumsum)

    def lost_where_taken(self, kernel: int) -> float:
        """Return a kernel's mean loss at the sizes taken by kernels with requirements; 0 without any.

        They count for themselves, since they may be a small part of all sizes.
        """
        return float(self.losses[self.taken, kernel].mean()) if self.taken.any() else 0.0

    def _allowed(self, lost: Floats, gained: Callable[[int], Floats]) -> Floats:
        if self.partial:
            lost[..., self.partial] = np.where(gained(0) > 0, lost[..., self.partial], np.inf)
        return lost


def _costs(grid: Grid, gains: Mapping[str, Floats]) -> _Costs:
    partial = tuple(i for i, name in enumerate(grid.kernels) if name in gains)
    gained = np.array([gains[grid.kernels[i]] for i in partial]).reshape(len(partial), len(grid.sizes)).T
    losses = np.nan_to_num(grid.losses, nan=_UNMEASURED)
    return _Costs(losses, partial, np.where(np.isnan(gained), 0, gained), ~np.isnan(gained).all(axis=1))


def _grow(
    costs: _Costs,
    sizes: Sequence[Size],
    most_leaves: int,
    tolerance: float,
    edges: Edges | None,
    *,
    alignment: Alignment,
) -> tuple[int, tuple[Split, ...]]:
    """Grow the tree, with kernels numbered as in the grid. Leaves with the most loss are split first."""
    places = _halfway(sizes) if edges is None else _in_cells(sizes, edges, alignment)
    root = _node(np.arange(len(sizes)), costs)
    heap = [(-root.lost, 0, root)]
    leaves = pushed = 1
    while heap and (not most_leaves or leaves < most_leaves):
        _, _, node = heapq.heappop(heap)
        own = costs.at(node.points)
        if node.lost <= tolerance * len(node.points) and own.lost_where_taken(node.kernel) <= tolerance:
            continue
        cut = _cut(places, node.points, own)
        if cut is None:
            continue  # all of one cell
        axis, last = cut
        under = places.along[node.points, axis] <= last
        parts = _node(node.points[under], costs), _node(node.points[~under], costs)
        node.cut = (axis, places.threshold(axis, last, node.points), *parts)
        leaves += 1
        for child in parts:
            pushed += 1  # an order of their own for nodes that lose the same; nodes do not compare
            heapq.heappush(heap, (-child.lost, pushed, child))
    return _flatten(root)


@dataclass(frozen=True)
class _Places:
    """Positions of sizes along the axes of thresholds.

    Attributes:
        along: Sizes x axes, integers.
        edges: For each axis what each integer of `along` ends at, so that a threshold stands behind it; None puts it
            half way between two of them.
    """

    along: NDArray[np.int64]
    edges: tuple[tuple[int, ...], ...] | None

    def threshold(self, axis: int, last: int, points: NDArray[np.intp]) -> int:
        """Return the threshold that separates the points up to `last` along the axis from the others."""
        if self.edges is not None:
            return self.edges[axis][last] + 1
        along = self.along[points, axis]
        return (last + int(along[along > last].min()) + 1) // 2


def _halfway(sizes: Sequence[Size]) -> _Places:
    raw = np.array(sizes, dtype=np.int64)
    return _Places(_by_split_axis(raw, np.zeros_like(raw[:, : len(AXES)])), None)


def _in_cells(sizes: Sequence[Size], edges: Edges, alignment: Alignment) -> _Places:
    """Return positions in cells. Sizes beyond the last edge belong to the last cell."""
    raw = np.array(sizes, dtype=np.int64)
    cells = [np.minimum(np.searchsorted(own, raw[:, i]), len(own) - 1) for i, own in enumerate(edges)]
    uneven = (~alignment.divided(raw)).astype(np.int64)
    ends = [tuple(own) for own in edges]
    remainders = ((0, alignment.vector - 1) for _ in AXES)
    return _Places(
        _by_split_axis(np.column_stack(cells), uneven), (*ends[: len(AXES)], *remainders, *ends[len(AXES) :])
    )


def _by_split_axis(along: NDArray[np.int64], remainders: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return sizes x split axes, in the order of `split_axes`; without a batch the last axis is absent."""
    ordered: NDArray[np.int64] = np.column_stack([along[:, : len(AXES)], remainders, along[:, len(AXES) :]])
    return ordered.astype(np.int64)


def _node(points: NDArray[np.intp], costs: _Costs) -> _Node:
    total = costs.at(points).total()
    kernel = int(total.argmin())
    return _Node(points, kernel, float(total[kernel]))


def _cut(places: _Places, points: NDArray[np.intp], costs: _Costs) -> tuple[int, int] | None:
    """Find the cut whose two sides lose least: its axis and the last position below it.

    Of equal ones the most even cut wins, which keeps the tree flat. None where all points lie in one place.
    """
    best: tuple[float, int, int, int] | None = None
    for axis in range(places.along.shape[1]):
        positions = places.along[points, axis]
        if positions.min() == positions.max():
            continue
        order = positions.argsort(kind="stable")
        along = positions[order]
        (last,) = (along[:-1] < along[1:]).nonzero()  # of the points below a possible threshold
        ordered = costs.at(order)
        below = ordered.running()[last].min(axis=1)
        above = ordered.at(slice(None, None, -1)).running()[::-1][last + 1].min(axis=1)
        uneven = np.abs(2 * (last + 1) - len(along))
        i = _least(below + above, uneven)
        candidate = (float(below[i] + above[i]), int(uneven[i]), axis, int(along[last[i]]))
        best = candidate if best is None else min(best, candidate)
    return None if best is None else best[2:]


def _least(lost: Floats, uneven: NDArray[np.int64]) -> int:
    return int(np.lexsort((uneven, lost))[0])


def _flatten(root: _Node) -> tuple[int, tuple[Split, ...]]:
    """Return the root of the tree and its splits, parents first."""
    tree = _simplified(root)
    cuts = [tree] if isinstance(tree, _Cut) else []
    for cut in cuts:  # grows while it is read
        cuts.extend(side for side in (cut.below, cut.rest) if isinstance(side, _Cut))
    number = {id(cut): i for i, cut in enumerate(cuts)}

    def to(side: int | _Cut) -> int:
        return number[id(side)] if isinstance(side, _Cut) else ~side

    return to(tree), tuple(Split(cut.axis, cut.threshold, to(cut.below), to(cut.rest)) for cut in cuts)


@dataclass(frozen=True, slots=True)
class _Cut:
    axis: int
    threshold: int
    below: int | _Cut
    rest: int | _Cut


def _simplified(root: _Node) -> int | _Cut:
    """Return the tree with kernels as leaves, without cuts that have the same kernel on both sides.

    Without recursion: a tree may be as deep as it has sizes.
    """
    simplified: dict[int, int | _Cut] = {}
    for node in reversed(list(_walk(root))):
        if node.cut is None:
            simplified[id(node)] = node.kernel
            continue
        axis, threshold, below, above = node.cut
        left, right = simplified[id(below)], simplified[id(above)]
        simplified[id(node)] = left if isinstance(left, int) and left == right else _Cut(axis, threshold, left, right)
    return simplified[id(root)]


def _walk(root: _Node) -> Iterable[_Node]:
    """Yield parents before their children."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        if node.cut:
            pending.extend(node.cut[2:])
