"""The geometry of a batch: the threads and blocks that run together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Indices, Mask
from lab.emulator.lanes import Lanes

Index3 = tuple[int, int, int]

T = TypeVar("T", int, Indices)

ALONE: Index3 = (1, 1, 1)
"""The shape of a single-block cluster."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Consecutive blocks of a launch, in whole clusters, executed together.

    Blocks are numbered cluster by cluster, x first, and so are the clusters of a launch. Threads are numbered block by
    block. Every block is padded to whole warps with lanes that never run.

    Attributes:
        grid: Blocks of the launch along x, y, z.
        block: Threads of a block along x, y, z.
        shape: Blocks of a cluster along x, y, z.
        first_thread: Launch-wide number of the batch's first thread, with every block padded to whole warps.
        chosen: (blocks of the launch,) grid number of each block, where only part of the grid is executed;
            None where all are. Threads are numbered through the chosen blocks.
        blocks: Blocks of the batch.
        threads: Threads of the batch, lanes that never run included.
        block_of: (threads,) block of each thread, counted within the batch.
        tid: Index of each thread in its block along x, y, z, (threads,) each.
        ctaid: Index of each thread's block in the grid along x, y, z, (threads,) each.
        exists: (threads,) whether the thread belongs to the launch and is not padding.
        everyone: All threads of the batch.
    """

    grid: Index3
    block: Index3
    shape: Index3
    first_thread: int
    chosen: Indices | None
    blocks: int
    threads: int
    block_of: Indices
    tid: tuple[Indices, Indices, Indices]
    ctaid: tuple[Indices, Indices, Indices]
    exists: Mask
    everyone: Lanes

    @property
    def cluster(self) -> int:
        """The number of blocks per cluster; they have consecutive numbers."""
        return math.prod(self.shape)

    @property
    def block_size(self) -> int:
        """The number of threads per block in the launch."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """The number of warps in the batch."""
        return self.threads // WARP_SIZE

    def where(self, thread: int) -> tuple[Index3, Index3]:
        """Return the block and thread index of a thread of the batch."""
        return self.whereabouts(self.first_thread + thread)

    def whereabouts(self, ident: int) -> tuple[Index3, Index3]:
        """Return the block and thread index of a thread of the launch, from any batch."""
        block, within = divmod(ident, padded_threads(self.block))
        number = block if self.chosen is None else int(self.chosen[block])
        return block_index(number, self.grid, self.shape), _three(within, self.block)

    def warp_of(self, thread: int) -> int:
        """Return the warp number, within its block, of a thread of the batch."""
        return (self.first_thread + thread) % padded_threads(self.block) // WARP_SIZE


def _three(linear: T, size: Index3) -> tuple[T, T, T]:
    """Convert a linear index, x first, to an index along x, y, z."""
    x, y, _ = size
    return linear % x, linear // x % y, linear // (x * y)


def block_index(number: T, grid: Index3, shape: Index3) -> tuple[T, T, T]:
    """Convert a block number to its index in the grid.

    Args:
        number: The block number, as in `Batch`.
        grid: Blocks of the launch along x, y, z.
        shape: Blocks of a cluster along x, y, z, which divide those of the grid.
    """
    size = math.prod(shape)
    x, y, z = _three(number // size, (grid[0] // shape[0], grid[1] // shape[1], grid[2] // shape[2]))
    i, j, k = _three(number % size, shape)
    return x * shape[0] + i, y * shape[1] + j, z * shape[2] + k


def padded_threads(block: Index3) -> int:
    """Return the threads per block, padded to whole warps."""
    return -(-block[0] * block[1] * block[2] // WARP_SIZE) * WARP_SIZE


def make_batch(
    grid: Index3,
    block: Index3,
    first_block: int,
    blocks: int,
    *,
    cluster: Index3 = ALONE,
    chosen: Indices | None = None,
) -> Batch:
    """Lay out a batch of blocks.

    Args:
        grid: Blocks of the launch along x, y, z.
        block: Threads of a block along x, y, z.
        first_block: Number of the batch's first block among those that are executed.
        blocks: Blocks of the batch, whole clusters.
        cluster: Blocks of a cluster along x, y, z.
        chosen: As in `Batch`.
    """
    threads_per_block = padded_threads(block)
    block_of = np.repeat(np.arange(blocks), threads_per_block)
    within = np.tile(np.arange(threads_per_block), blocks)
    numbers = first_block + block_of if chosen is None else chosen[first_block + block_of]
    x, y, z = block
    return Batch(
        grid,
        block,
        cluster,
        first_block * threads_per_block,
        chosen,
        blocks,
        blocks * threads_per_block,
        block_of,
        _three(within, block),
        block_index(numbers, grid, cluster),
        within < x * y * z,
        Lanes(blocks * threads_per_block),
    )
