"""Happens-before of threads: barriers, warp syncs, fences, releases and acquires.

A launch-wide counter, `now`, advances at each event that can order accesses, and accesses are stamped with it. A
thread's knowledge is then one time per other thread: everything that thread did before this time is ordered. Most of it
needs no table: a block barrier gives one time for all threads of the block, a warp sync one for the warp. The rest
(named barriers, mbarriers, locks, flags, grid sync) is in `KnownTimes`, which threads share.

A stamp is one integer: the time from bit 35 on, then 3 bits for the access's level, then the thread of the launch plus
1. So one comparison with a shifted time tells whether an access came before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Indices, Mask
from lab.emulator.batch import Batch
from lab.emulator.lanes import warp_of
from lab.emulator.memory.locks import LooseLocks
from lab.emulator.memory.mapfences import MapFences
from lab.emulator.memory.order import BY_WARP, CTA, Order

Stamps = NDArray[np.int64]
"""Stamps of accesses, or times shifted for comparison with them."""

SHIFT, LEVEL_SHIFT = 35, 32
THREAD = np.int64((1 << LEVEL_SHIFT) - 1)
FIRST = np.int64(1 << SHIFT)
"""The smallest stamp of an access: lower values mean no access."""

_LEVELS = 7
_MEMO = 4096


def level_of(stamps: Stamps) -> NDArray[np.int64]:
    """Return the levels of accesses from their stamps."""
    levels: NDArray[np.int64] = (stamps >> LEVEL_SHIFT) & _LEVELS
    return levels


class KnownTimes:
    """For threads of some blocks, the time up to which their accesses are known. Immutable.

    Attributes:
        blocks: (threads of a block,) shifted times, by block of the launch.
        warps: (warps of a block,) shifted times, by block of the launch: only reads by whole warps before them are
            known.
    """

    __slots__ = ("blocks", "warps")

    def __init__(self, blocks: Mapping[int, Stamps], warps: Mapping[int, Stamps] | None = None) -> None:
        self.blocks = blocks
        self.warps: Mapping[int, Stamps] = warps or {}

    def covers(self, stamps: Stamps, padded: int) -> Mask:
        """Return which of (count,) stamps are known, for blocks of `padded` threads."""
        threads = (stamps & THREAD) - 1
        blocks = threads // padded
        covered = np.zeros(len(stamps), np.bool_)
        for block in np.unique(blocks).tolist():
            times, by_warp = self.blocks.get(block), self.warps.get(block)
            if times is None and by_warp is None:
                continue
            at = np.flatnonzero(blocks == block)
            local = threads[at] - block * padded
            by_whole_warp = level_of(stamps[at]) == BY_WARP
            if times is not None:
                covered[at] = stamps[at] < times[local]
                if by_whole_warp.any():
                    of_warps = times.reshape(-1, WARP_SIZE).max(axis=1)
                    covered[at] |= by_whole_warp & (stamps[at] < of_warps[warp_of(local)])
            if by_warp is not None:
                covered[at] |= by_whole_warp & (stamps[at] < by_warp[warp_of(local)])
        return covered

    def within(self, block: int) -> KnownTimes | None:
        """Return the known times of one block; None where there are none."""
        times, warps = self.blocks.get(block), self.warps.get(block)
        if times is None and warps is None:
            return None
        return KnownTimes({} if times is None else {block: times}, {} if warps is None else {block: warps})


@dataclass(slots=True, eq=False)
class _Released:
    """The knowledge gained by an acquire of one location.

    Attributes:
        wide: From releases of device scope.
        own: From releases of any scope within a block, by block.
    """

    wide: KnownTimes | None = None
    own: dict[int, KnownTimes | None] = field(default_factory=dict)


def _later(first: Mapping[int, Stamps], second: Mapping[int, Stamps]) -> Mapping[int, Stamps]:
    """Return the element-wise maximum of two tables of times."""
    if not (first and second):
        return first or second
    later = dict(first)
    for block, times in second.items():
        mine = later.get(block)
        if mine is None:
            later[block] = times
        elif mine is not times:
            later[block] = np.maximum(mine, times)
    return later


Place = tuple[object, int, int]
"""An mbarrier: its unit, its number and its block."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusterPhase:
    """The knowledge that a phase of a cluster barrier gives to its waiters.

    Attributes:
        known: The events before the arrivals.
        arrived: Each thread's arrival time: earlier fenced mbarrier initialisations are known.
    """

    known: KnownTimes | None
    arrived: KnownTimes


class LaunchClocks:
    """The order of threads across the blocks of a launch.

    Attributes:
        now: The time.
        padded: Threads per block, padded to whole warps.
        cluster: Blocks per cluster.
        know: (threads of the launch,) `KnownTimes` or None; None as a whole until some thread learns something.
        map_fences: Acquired tensor maps in global memory, by thread.
        changed: Thread and instruction of the latest strong write by few threads, by memory and byte.
        loose: Locks that threads have taken without a fence.
    """

    def __init__(self, blocks: int, padded: int, cluster: int = 1, *, narrow: bool = False) -> None:
        """Start with nothing ordered.

        Args:
            blocks: Blocks of the launch.
            padded: Threads per block, padded to whole warps.
            cluster: Blocks per cluster.
            narrow: The program has fences or atomics of block scope.
        """
        self.now, self.padded, self.cluster, self.narrow = 1, padded, cluster, narrow
        self._threads = blocks * padded
        self.know: NDArray[Any] | None = None
        self.pending: dict[int, tuple[KnownTimes | None, KnownTimes | None]] = {}
        self._proxy_fences: Stamps | None = None
        self.fence_wide: Stamps | None = None
        self.fence_any: Stamps | None = None
        self.fence_limit: Stamps | None = None
        self.released: dict[object, dict[int, _Released]] = {}
        self.phases: dict[Place, dict[int, KnownTimes | None]] = {}
        self._keys: dict[Place, int] = {}  # keys of mbarriers with tracked phases
        self._key = 0
        self.map_fences = MapFences()
        self.changed: dict[tuple[object, int], tuple[int, int]] = {}
        self.loose = LooseLocks(self.join)
        self._memo: dict[tuple[int, int], tuple[KnownTimes, KnownTimes, KnownTimes]] = {}

    def tick(self) -> np.int64:
        """Advance the clock and return the new time, shifted."""
        self.now += 1
        return np.int64(self.now << SHIFT)

    def proxy_fences(self) -> Stamps:
        """Return the shifted time of each thread's latest proxy fence of global memory."""
        if self._proxy_fences is None:
            self._proxy_fences = np.zeros(self._threads, np.int64)
        return self._proxy_fences

    def fences(self) -> tuple[Stamps, Stamps]:
        """Return the shifted times of each thread's latest fence: of device scope, and of any scope."""
        if self.fence_wide is None or self.fence_any is None:
            self.fence_wide, self.fence_any, self.fence_limit = (np.zeros(self._threads, np.int64) for _ in range(3))
        return self.fence_wide, self.fence_any

    def learn(self, threads: Indices | slice | int, knowledge: KnownTimes | None) -> None:
        """Set the knowledge of some threads of the launch."""
        if self.know is None:
            self.know = np.full(self._threads, None, object)
        self.know[threads] = knowledge

    def key_of(self, place: Place) -> int:
        """Return the key for completed phases of an mbarrier in threads' knowledge, distinct from all blocks."""
        if place not in self._keys:
            self._key -= 1
            self._keys[place] = self._key
        return self._keys[place]

    def forget(self, place: Place) -> None:
        """Drop the phases of an mbarrier that is initialised."""
        self.phases.pop(place, None)
        self._keys.pop(place, None)

    def known_by(self, thread: int) -> KnownTimes | None:
        """Return a thread's knowledge beyond its block's barriers."""
        if self.know is None:
            return None
        knowledge: KnownTimes | None = self.know[thread]
        return knowledge

    def join(self, first: KnownTimes | None, second: KnownTimes | None) -> KnownTimes | None:
        """Return the union of two threads' knowledge."""
        if first is None or first is second:
            return second
        if second is None:
            return first
        key = (id(first), id(second))
        cached = self._memo.get(key)
        if cached is not None:
            return cached[2]
        joined = KnownTimes(_later(first.blocks, second.blocks), _later(first.warps, second.warps))
        if len(self._memo) >= _MEMO:
            self._memo.clear()
        self._memo[key] = (first, second, joined)  # keeps both alive, so their ids stay valid
        return joined


class BatchClocks:
    """The order of threads within one batch of blocks.

    Attributes:
        launch: The order across blocks.
        limit: (threads,) shifted time of the latest barrier of each thread's block.
        ids: (threads,) threads of the launch, plus 1.
        apart: Threads of different blocks can access the same shared memory.
    """

    def __init__(self, launch: LaunchClocks, batch: Batch) -> None:
        self.launch, self._batch = launch, batch
        self.base = batch.first_thread
        self.ids: Stamps = np.arange(batch.threads, dtype=np.int64) + (self.base + 1)
        self.limit: Stamps = np.full(batch.threads, launch.now << SHIFT, np.int64)
        self.apart = batch.cluster > 1
        self._cluster_limit: Stamps | None = None
        self._begun: Mask | None = None  # threads that have synced with their cluster
        self._arrived: NDArray[Any] | None = None  # known arrival times at the cluster barrier
        self._warp_limit: Stamps | None = None
        self._lane_limit: Stamps | None = None  # (threads, 32)

    # --- stamps ---------------------------------------------------------------------------------------------------

    def stamps(self, threads: Indices | slice, order: Order) -> Stamps:
        """Return the stamps of accesses that some threads make now."""
        stamps: Stamps = self.ids[threads] + np.int64((self.launch.now << SHIFT) | (order.level << LEVEL_SHIFT))
        return stamps

    def unordered(self, stamps: Stamps, threads: Indices) -> Indices:
        """Return the positions of (count,) accesses that do not happen before those of (count,) threads."""
        batch = self._batch
        accessors = (stamps & THREAD) - (1 + self.base)
        at = np.flatnonzero((stamps >= FIRST) & (accessors != threads))
        if not len(at):
            return at
        stamps, accessors, threads = stamps[at], accessors[at], threads[at]
        inside = (accessors >= 0) & (accessors < batch.threads)
        near = np.where(inside, accessors, 0)
        blocks, mine = batch.block_of[near], batch.block_of[threads]
        same_block = inside & (blocks == mine)
        ordered = same_block & (stamps < self.limit[threads])
        if self._cluster_limit is not None:
            same_cluster = inside & (blocks // batch.cluster == mine // batch.cluster)
            ordered |= same_cluster & (stamps < self._cluster_limit[threads])
        same_warp = same_block & (warp_of(near) == warp_of(threads))
        ordered |= same_warp & (level_of(stamps) == BY_WARP)
        if self._warp_limit is not None:
            ordered |= same_warp & (stamps < self._warp_limit[threads])
        if self._lane_limit is not None:
            ordered |= same_warp & (stamps < self._lane_limit[threads, near % WARP_SIZE])
        if self.launch.know is not None:
            undecided = np.flatnonzero(~ordered)
            covered = self._known(self.launch.know, stamps[undecided], threads[undecided], base=self.base)
            if self.launch.loose:
                covered = self._known_strictly(covered, stamps[undecided], threads[undecided])
            ordered[undecided] = covered
        late: Indices = at[~ordered]
        return late

    def has_begun(self, threads: Indices, rows: Indices) -> Mask:
        """Return whether (count,) threads know that (count,) blocks of the batch have begun."""
        started: Mask = np.zeros(len(threads), np.bool_) if self._begun is None else self._begun[threads]
        know = self.launch.know
        if know is not None:
            blocks = rows + self.base // self.launch.padded
            for i in np.flatnonzero(~started).tolist():
                knowledge = know[threads[i] + self.base]
                started[i] = knowledge is not None and int(blocks[i]) in knowledge.blocks
        return started

    def _known(self, know: NDArray[Any], stamps: Stamps, observers: Indices, *, base: int) -> Mask:
        covered: Mask = np.zeros(len(stamps), np.bool_)
        threads, place = np.unique(observers, return_inverse=True)  # far fewer than accesses
        groups: dict[int, int] = {}
        knowledge = know[threads + base].tolist()
        group = np.array([groups.setdefault(id(times), len(groups)) for times in knowledge], np.int64)[place]
        order = group.argsort(kind="stable")
        for at in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
            if len(at) and (times := knowledge[place[at[0]]]) is not None:
                covered[at] = times.covers(stamps[at], self.launch.padded)
        return covered

    def _known_strictly(self, covered: Mask, stamps: Stamps, threads: Indices) -> Mask:
        """Return which of (count,) known accesses stay known, recording fence-less locks that others rely on.

        If a block-scope fence follows such a lock, other blocks' accesses are not known.
        """
        loose, padded = self.launch.loose, self.launch.padded
        for thread in np.unique(threads).tolist():
            if thread + self.base not in loose:
                continue
            lock = loose.held_by(thread + self.base)
            at = np.flatnonzero(covered & (threads == thread))
            if lock.strict is not None:
                at = at[~lock.strict.covers(stamps[at], padded)]
            if not len(at):
                continue
            if lock.narrow:
                covered[at] = False
            else:
                loose.used[lock.position] = None
        return covered

    def closeness(self, threads: Indices, other_threads: Indices) -> NDArray[np.int64]:
        """Return the distance between pairs of (count,) threads of the launch: `SAME_WARP` to `APART`."""
        padded, cluster = self.launch.padded, self.launch.cluster
        first, second = threads // padded, other_threads // padded
        near: NDArray[np.int64] = (warp_of(threads) != warp_of(other_threads)).astype(np.int64)
        apart = first != second
        near += apart
        near += apart if cluster == 1 else first // cluster != second // cluster
        return near

    # --- barriers -------------------------------------------------------------------------------------------------

    def order_blocks(self, threads: Indices | Mask | slice, blocks: Indices) -> None:
        """Order everything the threads of whole blocks did: (blocks,) rows of the batch, and their threads."""
        self.limit[threads] = self.launch.tick()
        if self.launch.know is not None:
            for block in blocks.tolist():
                first = self.base + block * self.launch.padded
                self._share(np.arange(first, first + self.launch.padded))

    def _share(self, ids: Indices) -> None:
        """Share knowledge among some threads of the launch."""
        know = self.launch.know
        if know is None:
            return
        if self.launch.loose:
            self.launch.loose.share(ids.tolist(), know[ids].tolist())
        joined: KnownTimes | None = None
        for knowledge in {id(knowledge): knowledge for knowledge in know[ids].tolist()}.values():
            joined = self.launch.join(joined, knowledge)
        if joined is not None:
            know[ids] = joined

    def order_clusters(self, blocks: Indices) -> None:
        """Order everything the threads of whole clusters did, (count,) rows of their blocks."""
        if self._cluster_limit is None:
            self._cluster_limit = np.zeros(self._batch.threads, np.int64)
        time = self.launch.tick()
        threads = np.isin(self._batch.block_of, blocks)
        self._meet(threads)
        self._cluster_limit[threads] = self.limit[threads] = time
        if self.launch.know is not None:
            clusters = self._batch.block_of // self._batch.cluster
            for cluster in np.unique(blocks // self._batch.cluster).tolist():
                self._share(np.flatnonzero(clusters == cluster) + self.base)

    def _meet(self, threads: Indices | Mask) -> None:
        """Record that some threads know that all blocks of their clusters have begun."""
        if self._begun is None:
            self._begun = np.zeros(self._batch.threads, np.bool_)
        self._begun[threads] = True

    def arrivals(self, blocks: Indices, threads: Indices, times: Stamps, relaxed: Mask) -> ClusterPhase:
        """Return the knowledge that arrivals at a cluster barrier give to its waiters.

        Args:
            blocks: Rows of the cluster's blocks.
            threads: (count,) the threads.
            times: (count,) the shifted time of each one's arrival.
            relaxed: (count,) whether it only orders accesses the thread fenced before.
        """
        learnt: KnownTimes | None = None
        padded = self.launch.padded
        arrived = np.zeros(self._batch.threads, np.int64)
        arrived[threads] = times
        by_block = {block + self.base // padded: arrived.reshape(-1, padded)[block] for block in blocks.tolist()}
        for block in blocks.tolist():
            mine = self._batch.block_of[threads] == block
            firm = mine & ~relaxed
            if firm.any():
                learnt = self.launch.join(learnt, self._knowledge(threads[firm], times[firm]))
            fences = self.launch.fence_wide
            if fences is None:
                continue
            for thread in threads[mine & relaxed & (fences[threads + self.base] >= FIRST)].tolist():
                learnt = self.launch.join(learnt, self._fenced(np.array([thread]), fences))
        return ClusterPhase(learnt, KnownTimes(by_block))

    def see_arrivals(self, threads: Indices, phase: ClusterPhase) -> None:
        """Give (count,) threads of a cluster the knowledge of a phase of its barrier."""
        self._meet(threads)
        if self._arrived is None:
            self._arrived = np.full(self._batch.threads, None, object)
        self._arrived[threads] = phase.arrived
        if phase.known is not None:
            self._teach(threads, phase.known)

    def know_initialised(self, stamps: Stamps, threads: Indices) -> Mask:
        """Return whether (count,) threads know mbarrier initialisations ordered by `fence.mbarrier_init`."""
        if self._arrived is None:
            return np.zeros(len(threads), np.bool_)
        return self._known(self._arrived, stamps, threads, base=0)

    def arrival(self) -> np.int64:
        """Return the shifted time of an arrival, which does not cover its threads' later accesses."""
        return self.launch.tick()

    def knows_arrivals(self, members: Indices, warps: Indices, times: Stamps) -> bool:
        """Return whether a lane of a warp knows that (count,) warps arrived at a barrier.

        Args:
            members: The lanes of the warp, as thread indices within the batch.
            warps: (count,) the warps.
            times: (count,) the shifted time of each one's arrival.
        """
        other_warps = np.flatnonzero(warps != warp_of(members[:1]))
        before = times[other_warps] - np.int64((1 << SHIFT) - (BY_WARP << LEVEL_SHIFT))
        stamps = before + self.ids[warps[other_warps] * WARP_SIZE]
        return any(not len(self.unordered(stamps, np.full(len(other_warps), lane))) for lane in members.tolist())

    def order_some(self, waiters: Indices, arrived: Indices, times: Stamps) -> None:
        """Order a barrier among some of a block's threads.

        Args:
            waiters: (count,) the threads that waited.
            arrived: (others,) the threads that arrived, including those that waited.
            times: (others,) the shifted time of each one's arrival.
        """
        learnt: KnownTimes | None = self._knowledge(arrived, times)
        self._teach(waiters, learnt)

    def order_warps_reads(self, waiters: Indices, warps: Indices, time: np.int64) -> None:
        """Give threads the knowledge of reads by whole warps of their block before a time, and of nothing else.

        Args:
            waiters: (count,) the threads.
            warps: The warps of the batch.
            time: The shifted time.
        """
        of_block = self.launch.padded // WARP_SIZE
        row = int(warps[0]) // of_block
        times = np.zeros(of_block, np.int64)
        times[warps - row * of_block] = time
        self._teach(waiters, KnownTimes({}, {row + self.base // self.launch.padded: times}))

    def order_warps(self, threads: Indices, masks: NDArray[np.uint32]) -> None:
        """Order the lanes of synced warps.

        Args:
            threads: (count,) the threads.
            masks: (count,) each one's member mask.
        """
        time, batch = self.launch.tick(), self._batch
        present = np.zeros(batch.threads, np.bool_)
        present[threads] = True
        missing = (batch.exists & ~present).reshape(-1, WARP_SIZE).any(axis=1)
        lane_masks = np.zeros(batch.threads, np.uint32)
        lane_masks[threads] = masks
        by_warp = lane_masks.reshape(-1, WARP_SIZE)
        agreed = (by_warp == by_warp[:, :1]).all(axis=1)
        full = ~missing & agreed & ((~by_warp[:, 0] & _existing(batch)) == 0)
        if full.any():
            if self._warp_limit is None:
                self._warp_limit = np.zeros(batch.threads, np.int64)
            self._warp_limit[np.repeat(full, WARP_SIZE) & present] = time
        incomplete = threads[~full[warp_of(threads)]]
        if len(incomplete):
            self._order_lanes(incomplete, lane_masks, time)
        if self.launch.know is not None:
            self._share_warps(self.launch.know, threads, lane_masks)

    def _order_lanes(self, threads: Indices, lane_masks: NDArray[np.uint32], time: np.int64) -> None:
        """Order lanes of warps that did not all sync under one mask."""
        if self._lane_limit is None:
            self._lane_limit = np.zeros((self._batch.threads, WARP_SIZE), np.int64)
        by_lane = self._lane_limit.reshape(-1, WARP_SIZE, WARP_SIZE)
        warp_limit = self._warp_limit
        for mask in np.unique(lane_masks[threads]).tolist():
            lanes = np.flatnonzero((mask >> np.arange(WARP_SIZE)) & 1)
            if not mask:  # an empty mask waits for nobody
                continue
            mine = threads[lane_masks[threads] == mask]
            warps = np.unique(warp_of(mine))
            rows = by_lane[np.ix_(warps, lanes)].max(axis=1)  # (warps, 32)
            rows[:, lanes] = time
            if warp_limit is not None:
                rows = np.maximum(rows, warp_limit.reshape(-1, WARP_SIZE)[warps].max(axis=1)[:, None])
            members = np.intersect1d((warps[:, None] * WARP_SIZE + lanes).reshape(-1), mine)
            self._lane_limit[members] = rows[np.searchsorted(warps, warp_of(members))]

    def _share_warps(self, know: NDArray[Any], threads: Indices, lane_masks: NDArray[np.uint32]) -> None:
        informed = threads[[knowledge is not None for knowledge in know[threads + self.base].tolist()]]
        for warp in np.unique(warp_of(informed)).tolist():
            members = threads[warp_of(threads) == warp]
            for mask in np.unique(lane_masks[members]).tolist():
                self._share(members[lane_masks[members] == mask] + self.base)

    # --- what a thread knows ----------------------------------------------------------------------------------------

    def _times(self, threads: Indices, own: Stamps | np.int64, limit: Stamps | np.int64) -> tuple[int, Stamps]:
        """Return the joint knowledge of (count,) threads about their block: its number, and the times.

        Args:
            threads: The threads.
            own: (count,) the time of each one's own accesses, or one for all.
            limit: The time ordered by the block's barriers, for all of its threads or for each one.
        """
        padded = self.launch.padded
        first = int(threads[0]) // padded * padded
        local = threads - first
        times = np.zeros(padded, np.int64) + limit
        shape = (-1, WARP_SIZE)
        if self._warp_limit is not None:
            spread = np.zeros(padded, np.int64)
            spread[local] = self._warp_limit[threads]
            times = np.maximum(times, np.repeat(spread.reshape(shape).max(axis=1), WARP_SIZE))
        if self._lane_limit is not None:
            by_lane = np.zeros((padded, WARP_SIZE), np.int64)
            by_lane[local] = self._lane_limit[threads]
            times = np.maximum(times, by_lane.reshape(-1, WARP_SIZE, WARP_SIZE).max(axis=1).reshape(-1))
        times[local] = own
        return (first + self.base) // padded, times

    def _knowledge(
        self, threads: Indices, own: Stamps | np.int64, limit: Stamps | np.int64 | None = None
    ) -> KnownTimes | None:
        """Return the joint knowledge of (count,) threads of one block, including their own accesses.

        Args:
            threads: The threads.
            own: (count,) the time of each one's own accesses, or one for all.
            limit: The time ordered by the block's barriers, for each of its threads; None for the current one.
        """
        block, times = self._times(threads, own, self.limit[threads].max() if limit is None else limit)
        met = 0 if self._cluster_limit is None else int(self._cluster_limit[threads].max())
        peers = self._peers(block) if met else ()
        knowledge: KnownTimes | None = KnownTimes(
            {block: times} | {shared: np.full(len(times), met) for shared in peers}
        )
        know = self.launch.know
        if know is not None:
            for shared in {id(one): one for one in know[threads + self.base].tolist()}.values():
                knowledge = self.launch.join(knowledge, shared)
        return knowledge

    def _peers(self, block: int) -> list[int]:
        """Return the other blocks of a cluster, by their numbers in the launch."""
        first = self.base // self.launch.padded
        row = block - first
        start = row - row % self._batch.cluster
        return [first + one for one in range(start, start + self._batch.cluster) if one != row]

    def _teach(self, threads: Indices, knowledge: KnownTimes | None, *, loosely: bool = False) -> None:
        """Merge knowledge into (count,) threads of the batch; loosely if only the leniency for locks justifies it."""
        ids = threads + self.base
        if self.launch.loose and not loosely:
            for thread in ids.tolist():
                self.launch.loose.learn(thread, knowledge)
        if self.launch.know is None:
            self.launch.learn(ids, knowledge)
            return
        current = self.launch.know[ids].tolist()
        alike = all(times is current[0] for times in current)
        if alike:
            self.launch.learn(ids, self.launch.join(current[0], knowledge))
            return
        for thread, previous in zip(ids.tolist(), current, strict=True):
            self.launch.learn(thread, self.launch.join(previous, knowledge))

    # --- mbarriers --------------------------------------------------------------------------------------------------

    def arrive(self, place: Place, phase: int, threads: Indices, *, relaxed: bool = False) -> None:
        """Record arrivals of (count,) threads of one block in an mbarrier phase; relaxed: only fenced accesses."""
        released: KnownTimes | None = None
        if not relaxed:
            released = self._knowledge(threads, self.launch.tick())
        elif self.launch.fence_any is not None:
            for thread in threads.tolist():
                released = self.launch.join(released, self._fenced(np.array([thread]), self.launch.fence_any))
        phases = self.launch.phases.setdefault(place, {})
        phases[phase] = self.launch.join(phases.get(phase), released)

    def see(self, place: Place, phase: int, threads: Indices, *, relaxed: bool = False) -> None:
        """Give (count,) threads the knowledge released by arrivals before an mbarrier phase.

        It takes effect now; for relaxed waits, at their next fence.
        """
        phases = self.launch.phases.get(place)
        if not phases:
            return
        learnt: KnownTimes | None = None
        for old in [number for number in phases if number < phase]:
            learnt = self.launch.join(learnt, phases.pop(old))
        if learnt is None:
            return
        phases[phase - 1] = learnt
        if relaxed:
            self._await_fence(threads, learnt, learnt)
        else:
            self._teach(threads, learnt)

    def arrived_after(self, place: Place, phase: int, stamps: Stamps) -> Mask:
        """Return which (count,) events happened before some arrival in a phase of an mbarrier."""
        released = self.launch.phases.get(place, {}).get(phase)
        return np.zeros(len(stamps), np.bool_) if released is None else released.covers(stamps, self.launch.padded)

    def forget(self, place: Place) -> None:
        """Drop the phases of an mbarrier that is initialised."""
        self.launch.forget(place)

    def announce(self, place: Place, phase: int) -> int:
        """Make the completion of an mbarrier phase part of knowledge; return the key for `have_seen`."""
        key = self.launch.key_of(place)
        phases = self.launch.phases.setdefault(place, {})
        phases[phase] = self.launch.join(phases.get(phase), KnownTimes({key: np.array([phase + 1], np.int64)}))
        return key

    def have_seen(self, threads: Indices, key: int, phase: int) -> Mask:
        """Return whether (count,) threads know that an announced phase is complete."""
        know = self.launch.know
        if know is None:
            return np.zeros(len(threads), np.bool_)
        results = []
        for knowledge in know[threads + self.base].tolist():
            phases = None if knowledge is None else knowledge.blocks.get(key)
            results.append(phases is not None and int(phases[0]) > phase)
        return np.array(results, np.bool_)

    # --- fences, releases, acquires -----------------------------------------------------------------------------------

    def fence(self, threads: Indices, *, wide: bool) -> None:
        """Record a fence of (count,) threads, of block scope or wider."""
        launch = self.launch
        time = launch.tick()
        fence_wide, fence_any = launch.fences()
        ids = threads + self.base
        fence_any[ids] = time
        if launch.fence_limit is not None:
            launch.fence_limit[ids] = self.limit[threads]
        if wide:
            fence_wide[ids] = time
        if launch.loose:
            for thread in ids.tolist():
                launch.loose.fence(thread, wide=wide)
        if not launch.pending:
            return
        for thread in ids.tolist():
            waiting = launch.pending.get(thread)
            if waiting is not None:
                learnt = waiting[0] if wide else waiting[1]
                launch.learn(thread, launch.join(launch.known_by(thread), learnt))
                if wide:
                    del launch.pending[thread]

    def fence_proxies(self, threads: Indices) -> None:
        """Record a global-memory proxy fence of (count,) threads."""
        self.launch.proxy_fences()[threads + self.base] = self.launch.tick()

    def unfenced(self, stamps: Stamps, reader: int) -> Mask:
        """Return which (count,) writes cannot have been followed by a proxy fence before a thread's bulk copy.

        The fence may be the writer's, or that of a thread of the reader's block after a barrier.
        """
        fences, padded = self.launch.proxy_fences(), self.launch.padded
        first = (reader + self.base) // padded * padded
        latest = np.maximum(fences[(stamps & THREAD) - 1], fences[first : first + padded].max())
        late: Mask = (stamps >= FIRST) & (stamps >= latest)
        return late

    def synchronise(
        self,
        memory: object,
        places: Indices,
        threads: Indices,
        order: Order,
        *,
        shared: bool,
        reads: bool,
        wrote: Mask | bool,
        position: int = -1,
    ) -> None:
        """Process the acquires and releases of strong accesses, thread after thread.

        Args:
            memory: The memory.
            places: (count,) bytes in it.
            threads: (count,) the threads, in the order in which their accesses took place.
            order: Their memory order.
            shared: The memory belongs to one block, so that every scope is wide enough.
            reads: The accesses read.
            wrote: (count,) whether each one wrote, or one value for all.
            position: Index of the instruction.
        """
        launch = self.launch
        writes = np.broadcast_to(wrote, threads.shape)
        releases = order.release or (
            launch.fence_any is not None and bool(launch.fence_any[threads + self.base].any()) and bool(writes.any())
        )
        table = launch.released.get(memory)
        if not releases and (not table or table.keys().isdisjoint(np.unique(places).tolist())):
            return
        if table is None:
            table = launch.released[memory] = {}
        if not writes.any():
            for place in np.unique(places).tolist():
                if place in table:
                    self._acquire(table[place], threads[places == place], order, shared=shared, position=position)
            return
        if order.release:
            launch.tick()
        for place, thread, writing in zip(places.tolist(), threads.tolist(), writes.tolist(), strict=True):
            released = table.get(place) if reads else None
            if released is not None:
                self._acquire(released, np.array([thread]), order, shared=shared, position=position)
            if writing:
                self._leave(table, place, released, self._release(thread, order, shared=shared))

    def _leave(self, table: dict[int, _Released], place: int, released: _Released | None, added: _Released) -> None:
        """Store the knowledge a strong write releases at a location; an update adds to the earlier release."""
        if released is not None:
            released.wide = self.launch.join(released.wide, added.wide)
            for block, knowledge in added.own.items():
                released.own[block] = self.launch.join(released.own.get(block), knowledge)
        elif added.wide is not None or added.own:
            table[place] = added
        else:
            table.pop(place, None)

    def _acquire(self, released: _Released, threads: Indices, order: Order, *, shared: bool, position: int) -> None:
        """Give (count,) threads the knowledge released at a location, now or at their next fence."""
        launch = self.launch
        blocks = (threads + self.base) // launch.padded
        for block in np.unique(blocks).tolist():
            own = released.wide if shared else released.own.get(block)
            learnt = own if order.level == CTA else launch.join(released.wide, own)
            if learnt is None:
                continue
            mine = threads[blocks == block]
            if order.acquire:
                if order.locks:
                    for ident in (mine + self.base).tolist():
                        launch.loose.take(ident, position, launch.known_by(ident), own)
                self._teach(mine, learnt, loosely=order.locks)
                continue
            self._await_fence(mine, learnt, own)

    def _await_fence(self, threads: Indices, wide: KnownTimes | None, narrow: KnownTimes | None) -> None:
        """Give (count,) threads knowledge at their next fence: of device scope, and of any scope."""
        launch = self.launch
        for ident in (threads + self.base).tolist():
            waiting = launch.pending.get(ident, (None, None))
            launch.pending[ident] = (launch.join(waiting[0], wide), launch.join(waiting[1], narrow))

    def _release(self, thread: int, order: Order, *, shared: bool) -> _Released:
        """Return the knowledge a thread's strong write releases: everything before it or before the latest fence."""
        launch, ident = self.launch, thread + self.base
        threads = np.array([thread])
        released = _Released()
        if order.release:
            knowledge = self._knowledge(threads, np.int64(launch.now << SHIFT))
            if shared or order.level != CTA:
                released.wide = knowledge
            if launch.narrow and not shared:
                released.own[ident // launch.padded] = knowledge
            return released
        fence_wide, fence_any = launch.fences()
        if shared:
            released.wide = self._fenced(threads, fence_any)
            return released
        if order.level != CTA:
            released.wide = self._fenced(threads, fence_wide)
        if launch.narrow:
            narrow = self._fenced(threads, fence_any)
            if narrow is not None:
                released.own[ident // launch.padded] = narrow
        return released

    def _fenced(self, threads: Indices, fences: Stamps) -> KnownTimes | None:
        """Return a thread's knowledge at its latest fence, including fences of other threads of its block.

        Knowledge not from a block barrier counts if its time is before the fence.
        """
        padded, ident, limits = self.launch.padded, threads[0] + self.base, self.launch.fence_limit
        block, time = int(ident) // padded, fences[ident]
        theirs = fences[block * padded : (block + 1) * padded]
        before = limits[ident] if limits is not None else np.int64(0)
        barriers = np.minimum(self.limit[threads], np.maximum(theirs, before if time else 0))
        knowledge = self._knowledge(threads, time, np.zeros(1, np.int64))
        if knowledge is None:
            return None
        capped = np.maximum(barriers, np.minimum(knowledge.blocks[block], np.maximum(theirs, time)))
        return KnownTimes({**knowledge.blocks, block: capped}, knowledge.warps) if int(capped.max()) >= FIRST else None


def _existing(batch: Batch) -> NDArray[np.uint32]:
    """Return the lanes of each warp that exist in the launch, (warps,) masks."""
    bits = batch.exists.reshape(-1, WARP_SIZE).astype(np.uint32) << np.arange(WARP_SIZE, dtype=np.uint32)
    return np.asarray(bits.sum(axis=1, dtype=np.uint32))
