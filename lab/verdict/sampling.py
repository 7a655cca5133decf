"""Sampling of the blocks of a large grid for emulation."""

from __future__ import annotations

import math
from itertools import product
from typing import Final

import numpy as np

Index3 = tuple[int, int, int]

_RANDOM: Final = 16
"""Random blocks, or clusters, besides those at the edges and in the middle."""


def sampled_blocks(grid: Index3, cluster: Index3, seed: int) -> tuple[int, ...]:
    """Return the numbers of the blocks to execute, the most informative first.

    They are the last, the first and the middle block along each axis, in every combination, their second neighbours
    from the origin, and 16 at random. A small grid is executed whole.

    Args:
        grid: Blocks along x, y, z.
        cluster: Blocks of a cluster along x, y, z, which divide the grid; whole clusters are executed.
        seed: Seed of the random ones.

    Returns:
        Numbers as of `lab.emulator.batch.Batch`: cluster by cluster, x first.
    """
    x, y, z = (size // per_cluster for size, per_cluster in zip(grid, cluster, strict=True))
    total, size = x * y * z, math.prod(cluster)
    ends = [tuple(dict.fromkeys((count - 1, 0, count // 2))) for count in (x, y, z)]
    corners = [place[::-1] for place in product(*ends[::-1])]
    corners += [(min(1, x - 1), 0, 0), (0, min(1, y - 1), 0), (0, 0, min(1, z - 1))]
    chosen = [i + x * (j + y * k) for i, j, k in corners]
    # The last, the first and the middle block come first, then those away from the first one along one axis: they
    # reveal strides where the grid's far edges are clipped.
    apart = [x // 2, x * (y // 2), x * y * (z // 2)]
    chosen = list(dict.fromkeys([total - 1, 0, sum(apart), *apart, *chosen]))
    if total <= len(chosen) + _RANDOM:
        chosen = list(dict.fromkeys([*chosen, *range(total)]))
    else:
        rng = np.random.default_rng([seed, total])
        chosen = list(dict.fromkeys([*chosen, *rng.integers(0, total, _RANDOM).tolist()]))
    return tuple(number * size + i for number in chosen for i in range(size))


def random_blocks(grid: Index3, cluster: Index3, seed: int, most: int) -> tuple[int, ...]:
    """Return the numbers of distinct random blocks in whole clusters; of all blocks of a small grid.

    Args:
        grid: Blocks along x, y, z.
        cluster: Blocks of a cluster along x, y, z, which divide the grid.
        seed: Seed of the choice.
        most: Most blocks, but at least one cluster.
    """
    total, size = math.prod(grid), math.prod(cluster)
    clusters = total // size
    chosen = max(1, most // size)
    if clusters <= chosen:
        return tuple(range(total))
    rng = np.random.default_rng([seed, total])
    # one in each of as many equal stretches of the grid, so that work which changes along it is met everywhere
    edges = np.linspace(0, clusters, chosen + 1).astype(np.int64)
    numbers = rng.integers(edges[:-1], edges[1:]).tolist()
    return tuple(number * size + i for number in numbers for i in range(size))


def neighbouring_blocks(grid: Index3, cluster: Index3, threads: int) -> tuple[int, ...]:
    """Return the numbers of neighbouring blocks in the middle of a grid: `_NEIGHBOURS` threads, and a cluster at least.

    Args:
        grid: Blocks along x, y, z.
        cluster: Blocks of a cluster along x, y, z, which divide the grid.
        threads: Threads of a block.
    """
    total, size = math.prod(grid), math.prod(cluster)
    count = min(total, max(1, _NEIGHBOURS // (threads * size)) * size)
    first = min(total // 2 // size * size, total - count)
    return tuple(range(first, first + count))


_NEIGHBOURS: Final = 256
