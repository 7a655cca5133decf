"""Lifetime checks of distributed shared memory: whether the block still exists when a peer accesses it.

The blocks of a cluster run concurrently, but neither start nor exit together. A block may only access a peer's shared
memory once it knows that the peer has started, and the peer must stay until then: `cluster.sync()` before the first and
after the last access ensures both.

CUDA C++ Programming Guide, Distributed Shared Memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Indices
from lab.emulator.batch import Batch
from lab.emulator.findings import BatchFindings
from lab.emulator.memory.clocks import FIRST, BatchClocks, Stamps
from lab.emulator.memory.order import PLAIN

_AFTER = "call cluster.sync() after the last access to another block's shared memory, so that the block stays alive"
_BEFORE = "call cluster.sync() before the first access to another block's shared memory, so that the block has started"


class PeerLifetimes:
    """The uses of shared memory by other blocks of the cluster, for one batch."""

    def __init__(self, batch: Batch, clocks: BatchClocks, findings: BatchFindings) -> None:
        """Start without uses."""
        self._batch, self._clocks, self._findings = batch, clocks, findings
        self._shape = (batch.blocks, batch.cluster * (batch.threads // batch.blocks))
        self._stamps: Stamps | None = None  # (blocks, threads of the cluster) the latest use of a block's memory
        self._at: NDArray[np.int32] = np.zeros((0, 0), np.int32)
        self._arrivals: dict[int, tuple[Indices, Stamps]] = {}  # by cluster: threads and their arrival times
        self._left = np.zeros(batch.blocks, np.bool_)
        self._leavers: dict[int, list[Indices]] = {}

    def use(self, position: int, threads: Indices, rows: Indices, *, awaited: bool = False) -> None:
        """Check and record threads' accesses to shared memory of blocks of the batch.

        Args:
            position: Index of the instruction.
            threads: (count,) the threads.
            rows: (count,) the blocks.
            awaited: The accessed block waits for it, as for a copy that completes on its own mbarrier.
        """
        batch = self._batch
        foreign = np.flatnonzero(batch.block_of[threads] != rows)
        if not len(foreign):
            return
        threads, rows = threads[foreign], rows[foreign]
        for bad, state, remedy in (
            (self._left[rows], "has ended", _AFTER),
            (~self._clocks.has_begun(threads, rows), "may not have started yet", _BEFORE),
        ):
            at = np.flatnonzero(bad)
            if len(at):
                self._find(position, threads[at], int(rows[at[0]]), state, remedy)
        if awaited:
            return
        if self._stamps is None:
            self._stamps, self._at = np.zeros(self._shape, np.int64), np.zeros(self._shape, np.int32)
        within = threads % self._shape[1]
        self._stamps[rows, within] = self._clocks.stamps(threads, PLAIN)
        self._at[rows, within] = position

    def arrive(self, rows: Indices, threads: Indices, times: Stamps) -> None:
        """Record that all threads of a cluster have arrived at its barrier, which does not end a use by itself.

        Args:
            rows: The blocks of the cluster.
            threads: (count,) indices within the batch.
            times: (count,) the shifted time of each one's arrival.
        """
        self._arrivals[int(rows[0]) // self._batch.cluster] = threads % self._shape[1], times

    def wait(self, threads: Indices) -> None:
        """Drop completed uses: those whose users arrived before the block's thread waited.

        Args:
            threads: (count,) the threads that have waited for their cluster's latest arrivals.
        """
        if self._stamps is None:
            return
        for row in np.unique(self._batch.block_of[threads]).tolist():
            within, times = self._arrivals[row // self._batch.cluster]
            stamps = self._stamps[row, within]
            self._stamps[row, within] = np.where(stamps < times, 0, stamps)

    def _find(self, position: int, threads: Indices, row: int, state: str, remedy: str) -> None:
        block = self._batch.where(row * (self._batch.threads // self._batch.blocks))[0]
        detail = f"the shared memory of block {block} of the cluster is used, but that block {state}"
        self._findings.add("missing-cluster-sync", position, detail, threads, remedy=remedy)

    def leave(self, threads: Indices, alive: NDArray[np.bool_]) -> None:
        """Check, as (count,) threads exit, that no peer may still use the shared memory of an exited block.

        Args:
            threads: Indices within the batch.
            alive: (threads,) whether each thread is still alive; these are not.
        """
        batch = self._batch
        size = batch.threads // batch.blocks
        for row in np.unique(batch.block_of[threads]).tolist():
            self._leavers.setdefault(row, []).append(threads[batch.block_of[threads] == row])
            if alive[row * size : (row + 1) * size].any():
                continue
            self._left[row] = True
            self._end(row, np.concatenate(self._leavers.pop(row)))

    def _end(self, row: int, threads: Indices) -> None:
        """Check that each use of a block's memory happened before the exit of one of its threads."""
        if self._stamps is None:
            return
        users = np.flatnonzero(self._stamps[row] >= FIRST)
        for thread in threads.tolist():
            if not len(users):
                return
            stamps = self._stamps[row, users]
            users = users[self._clocks.unordered(stamps, np.full(len(users), thread))]
        if not len(users):
            return
        batch = self._batch
        first = row // batch.cluster * batch.cluster * (batch.threads // batch.blocks)
        self._find(int(self._at[row, users[0]]), first + users, row, "may have ended already", _AFTER)
