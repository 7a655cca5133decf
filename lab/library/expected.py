"""The time that a library's kernel is expected to take at a size where nothing was timed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lab.base.sizes import Size
from lab.library.alignment import ALL, Alignment
from lab.library.package import MeasuredSize

_NEAREST = 8
"""How many measured sizes a time follows from. Of 8, 16 and 32 the least erred least (median 8 % where each of 130
sizes of an H200 was left out in turn, against 10 and 13 %)."""

_NEAR = 0.25
"""Distance, in doublings of a dimension, below which measured sizes have nearly the same weight."""

_OTHER_CLASS = 0.5
"""Square of the distance that a dimension adds along which wide copies reach at one size alone."""

_FLAT = 0.1
"""How much the fit prefers times that do not change with a dimension (ridge), where few sizes say how they do."""


def expected_ms(
    measured: Sequence[MeasuredSize],
    size: Size,
    alignment: Alignment = ALL,
) -> float | None:
    """Return a time in ms; None where nothing was measured.

    It is that of a power law in m, n, k and the products of a batch, fitted to the best times at the nearest measured
    sizes.

    Args:
        measured: What the library's kernels reached.
        size: Of a product or of a batch.
        alignment: Along which dimensions wide copies reach.
    """
    if not measured:
        return None
    sizes = np.array([one.size[: len(size)] for one in measured], dtype=np.int64)
    away: NDArray[np.float64] = np.log2(sizes) - np.log2(size)
    own = alignment.divided(np.array([size], dtype=np.int64))
    other = (alignment.divided(sizes) != own).sum(axis=1)
    distance = np.sqrt(np.square(away).sum(axis=1) + _OTHER_CLASS * other)
    near = np.argsort(distance, kind="stable")[:_NEAREST]
    weight = 1 / np.square(distance[near] + _NEAR)
    weight /= weight.sum()
    features = np.column_stack([np.ones(len(near)), away[near]])
    times = np.log([measured[i].ms for i in near])
    normal = features.T @ (weight[:, None] * features) + np.diag([0.0, *[_FLAT] * len(size)])
    return float(np.exp(np.linalg.solve(normal, features.T @ (weight * times))[0]))
