"""Expected time of a library's kernel at an untuned size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lab.base.sizes import Size
from lab.library.alignment import ALL, Alignment
from lab.library.package import MeasuredSize

_NEAREST = 8
"""Number of measured sizes in the fit.

Of 8, 16 and 32 sizes, 8 had the least error: a median of 8 %, against 10 and 13 %, leaving out each of 130 sizes of an
H200 in turn.
"""

_NEAR = 0.25
"""Distance, in doublings of a dimension, below which measured sizes have nearly equal weight."""

_OTHER_CLASS = 0.5
"""Squared distance added per dimension along which only one of two sizes allows wide copies."""

_FLAT = 0.1
"""Ridge penalty of the fit: prefers times that do not change with a dimension where few sizes tell."""


def expected_ms(
    measured: Sequence[MeasuredSize],
    size: Size,
    alignment: Alignment = ALL,
) -> float | None:
    """Return the expected time in ms; None if nothing was measured.

    It is that of a power law in m, n, k and the products of a batch, fitted to the best times at the nearest measured
    sizes.

    Args:
        measured: What the library's kernels reached.
        size: Of a product or of a batch.
        alignment: Along which dimensions wide copies reach.
    """
    if not measured:
        return None
    sizes = np.array([measurement.size[: len(size)] for measurement in measured], dtype=np.int64)
    away: NDArray[np.float64] = np.log2(sizes) - np.log2(size)
    own = alignment.divided(np.array([size], dtype=np.int64))
    differing = (alignment.divided(sizes) != own).sum(axis=1)
    distance = np.sqrt(np.square(away).sum(axis=1) + _OTHER_CLASS * differing)
    near = np.argsort(distance, kind="stable")[:_NEAREST]
    weight = 1 / np.square(distance[near] + _NEAR)
    weight /= weight.sum()
    features = np.column_stack([np.ones(len(near)), away[near]])
    times = np.log([measured[i].ms for i in near])
    normal = features.T @ (weight[:, None] * features) + np.diag([0.0, *[_FLAT] * len(size)])
    return float(np.exp(np.linalg.solve(normal, features.T @ (weight * times))[0]))
