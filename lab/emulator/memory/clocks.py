"""Which accesses happen before which threads: barriers, warps that meet, fences, releases and acquires.

One counter of the launch, `now`, goes on at each event that can order accesses, and an access is stamped with it. What
a thread knows is then a time for each other thread: everything that this one did before that time is ordered. Most of
it needs no table: a barrier of the block gives one time for all threads of the block, a warp that meets one for the
warp. The rest (named barriers, mbarriers, locks, flags, whole grids that meet) is `KnownTimes`, which threads share.

A stamp is one integer: the time from bit 35 on, then 3 bits for the access's level, then the thread of the launch plus
1. So one comparison with a time, shifted alike, tells whether an access came before it.
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
"""Stamps of accesses, or times shifted to compare with them."""

SHIFT, LEVEL_SHIFT = 35, 32
THREAD = np.int64((1 << LEVEL_SHIFT) - 1)
FIRST = np.int64(1 << SHIFT)
"""The least stamp of an access: what is below stands for none."""

_LEVELS = 7
_MEMO = 4096


def level_of(stamps: Stamps) -> NDArray[np.int64]:
    """Return the levels of accesses from their stamps."""
    levels: NDArray[np.int64] = (stamps >> LEVEL_SHIFT) & _LEVELS
    return levels


class KnownTimes:
    """For threads of some blocks, the time before which their accesses are known. Immutable.

    Attributes:
        blocks: Block of the launch to (threads of a block,) shifted times.
        warps: Block of the launch to (warps of a block,) shifted times, before which what whole warps read together is
            known, and nothing else of their lanes.
    """

    __slots__ = ("blocks", "warps")

    def __init__(self, blocks: Mapping[int, Stamps], warps: Mapping[int, Stamps] | None = None) -> None:
        self.blocks = blocks
        self.warps: Mapping[int, Stamps] = warps or {}

    def covers(self, stamps: Stamps, padded: int) -> Mask:
        """Return which of (count,) stamps are known, for blocks of `padded` threads."""
        threads = (stamps & THREAD) - 1
        blocks = threads // padded
        known = np.zeros(len(stamps), np.bool_)
        for block in np.unique(blocks).tolist():
            times, by_warp = self.blocks.get(block), self.warps.get(block)
            if times is None and by_warp is None:
                continue
            at = np.flatnonzero(blocks == block)
            local = threads[at] - block * padded
            whole = level_of(stamps[at]) == BY_WARP
            if times is not None:
                known[at] = stamps[at] < times[local]
                if whole.any():
                    of_warps = times.reshape(-1, WARP_SIZE).max(axis=1)
                    known[at] |= whole & (stamps[at] < of_warps[warp_of(local)])
            if by_warp is not None:
                known[at] |= whole & (stamps[at] < by_warp[warp_of(local)])
        return known

    def within(self, block: int) -> KnownTimes | None:
        """Return what is known of one block; None where that is nothing."""
        times, warps = self.blocks.get(block), self.warps.get(block)
        if times is None and warps is None:
            return None
        return KnownTimes({} if times is None else {block: times}, {} if warps is None else {block: warps})


@dataclass(slots=True, eq=False)
class _Released:
    """What an acquire of one place learns.

    Attributes:
        wide: From releases that reach the whole device.
        own: Block to what its own threads learn, from releases of any scope in it.
    """

    wide: KnownTimes | None = None
    own: dict[int, KnownTimes | None] = field(default_factory=dict)


def _later(one: Mapping[int, Stamps], two: Mapping[int, Stamps]) -> Mapping[int, Stamps]:
    """Return the later of the times of two tables, element by element."""
    if not (one and two):
        return one or two
    later = dict(one)
    for block, times in two.items():
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
    """What a phase of a cluster's barrier tells those that wait for it.

    Attributes:
        known: What happened before the arrivals.
        arrived: When each thread arrived: they know fenced initialisations of mbarriers before that.
    """

    known: KnownTimes | None
    arrived: KnownTimes


class LaunchClocks:
    """What orders the threads of different blocks of a launch.

    Attributes:
        now: The time.
        padded: Threads of a block, filled up to whole warps.
        cluster: Blocks of a cluster.
        know: (threads of the launch,) `KnownTimes` or None; None as a whole until some thread learns something.
        map_fences: Who acquired which tensor maps in global memory.
        changed: A memory and a byte in it to the thread and the instruction of the latest strong write by few threads.
        loose: Locks that threads have taken without a fence.
    """

    def __init__(self, blocks: int, padded: int, cluster: int = 1, *, narrow: bool = False) -> None:
        """Begin with nothing ordered.

        Args:
            blocks: Blocks of the launch.
            padded: Threads of a block, filled up to whole warps.
            cluster: Blocks of a cluster.
            narrow: The program has fences or atomics whose scope is the block.
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
        self._keys: dict[Place, int] = {}  # of mbarriers whose phases are asked after, among those of blocks
        self._key = 0
        self.map_fences = MapFences()
        self.changed: dict[tuple[object, int], tuple[int, int]] = {}
        self.loose = LooseLocks(self.join)
        self._memo: dict[tuple[int, int], tuple[KnownTimes, KnownTimes, KnownTimes]] = {}

    def tick(self) -> np.int64:
        """Let time go on; return the new time, shifted."""
        self.now += 1
        return np.int64(self.now << SHIFT)

    def proxy_fences(self) -> Stamps:
        """Return the shifted time of each thread's latest fence of the proxies of global memory."""
        if self._proxy_fences is None:
            self._proxy_fences = np.zeros(self._threads, np.int64)
        return self._proxy_fences

    def fences(self) -> tuple[Stamps, Stamps]:
        """Return the shifted times of each thread's latest fence: of the device's scope, and of any."""
        if self.fence_wide is None or self.fence_any is None:
            self.fence_wide, self.fence_any, self.fence_limit = (np.zeros(self._threads, np.int64) for _ in range(3))
        return self.fence_wide, self.fence_any

    def learn(self, threads: Indices | slice | int, knowledge: KnownTimes | None) -> None:
        """Set what some threads of the launch know."""
        if self.know is None:
            self.know = np.full(self._threads, None, object)
        self.know[threads] = knowledge

    def key_of(self, place: Place) -> int:
        """Return the key under which threads know how many phases of an mbarrier are complete; no block has it."""
        if place not in self._keys:
            self._key -= 1
            self._keys[place] = self._key
        return self._keys[place]

    def forget(self, place: Place) -> None:
        """Forget the phases of an mbarrier that is initialised."""
        self.phases.pop(place, None)
        self._keys.pop(place, None)

    def known_by(self, thread: int) -> KnownTimes | None:
        """Return what a thread of the launch knows beyond its block's barriers."""
        if self.know is None:
            return None
        found: KnownTimes | None = self.know[thread]
        return found

    def join(self, one: KnownTimes | None, two: KnownTimes | None) -> KnownTimes | None:
        """Return what follows from both."""
        if one is None or one is two:
            return two
        if two is None:
            return one
        key = (id(one), id(two))
        found = self._memo.get(key)
        if found is not None:
            return found[2]
        joined = KnownTimes(_later(one.blocks, two.blocks), _later(one.warps, two.warps))
        if len(self._memo) >= _MEMO:
            self._memo.clear()
        self._memo[key] = (one, two, joined)  # both stay alive with their ids
        return joined


class BatchClocks:
    """What orders the threads of one batch of blocks.

    Attributes:
        launch: What orders different blocks.
        limit: (threads,) shifted time of the latest barrier of each thread's block.
        ids: (threads,) threads of the launch, plus 1.
        apart: Threads of different blocks can reach the same shared memory.
    """

    def __init__(self, launch: LaunchClocks, batch: Batch) -> None:
        self.launch, self._batch = launch, batch
        self.base = batch.first_thread
        self.ids: Stamps = np.arange(batch.threads, dtype=np.int64) + (self.base + 1)
        self.limit: Stamps = np.full(batch.threads, launch.now << SHIFT, np.int64)
        self.apart = batch.cluster > 1
        self._cluster_limit: Stamps | None = None
        self._begun: Mask | None = None  # threads that have met their cluster
        self._arrived: NDArray[Any] | None = None  # what they know of when threads arrived at the cluster's barrier
        self._warp_limit: Stamps | None = None
        self._lane_limit: Stamps | None = None  # (threads, 32)

    # --- stamps ---------------------------------------------------------------------------------------------------

    def stamps(self, who: Indices | slice, order: Order) -> Stamps:
        """Return the stamps of accesses that some threads make now."""
        stamps: Stamps = self.ids[who] + np.int64((self.launch.now << SHIFT) | (order.level << LEVEL_SHIFT))
        return stamps

    def unordered(self, stamps: Stamps, who: Indices) -> Indices:
        """Return the positions of (count,) accesses of others that do not happen before what (count,) threads do."""
        batch = self._batch
        other = (stamps & THREAD) - (1 + self.base)
        at = np.flatnonzero((stamps >= FIRST) & (other != who))
        if not len(at):
            return at
        stamps, other, who = stamps[at], other[at], who[at]
        inside = (other >= 0) & (other < batch.threads)
        near = np.where(inside, other, 0)
        blocks, mine = batch.block_of[near], batch.block_of[who]
        same_block = inside & (blocks == mine)
        done = same_block & (stamps < self.limit[who])
        if self._cluster_limit is not None:
            same_cluster = inside & (blocks // batch.cluster == mine // batch.cluster)
            done |= same_cluster & (stamps < self._cluster_limit[who])
        same_warp = same_block & (warp_of(near) == warp_of(who))
        done |= same_warp & (level_of(stamps) == BY_WARP)
        if self._warp_limit is not None:
            done |= same_warp & (stamps < self._warp_limit[who])
        if self._lane_limit is not None:
            done |= same_warp & (stamps < self._lane_limit[who, near % WARP_SIZE])
        if self.launch.know is not None:
            rest = np.flatnonzero(~done)
            known = self._known(self.launch.know, stamps[rest], who[rest], base=self.base)
            if self.launch.loose:
                known = self._known_strictly(known, stamps[rest], who[rest])
            done[rest] = known
        late: Indices = at[~done]
        return late

    def has_begun(self, who: Indices, rows: Indices) -> Mask:
        """Return whether (count,) threads know that (count,) blocks of the batch have begun."""
        begun: Mask = np.zeros(len(who), np.bool_) if self._begun is None else self._begun[who]
        know = self.launch.know
        if know is not None:
            blocks = rows + self.base // self.launch.padded
            for i in np.flatnonzero(~begun).tolist():
                held = know[who[i] + self.base]
                begun[i] = held is not None and int(blocks[i]) in held.blocks
        return begun

    def _known(self, know: NDArray[Any], stamps: Stamps, who: Indices, *, base: int) -> Mask:
        known: Mask = np.zeros(len(stamps), np.bool_)
        threads, place = np.unique(who, return_inverse=True)  # far fewer than accesses
        groups: dict[int, int] = {}
        held = know[threads + base].tolist()
        group = np.array([groups.setdefault(id(one), len(groups)) for one in held], np.int64)[place]
        order = group.argsort(kind="stable")
        for at in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
            if len(at) and (one := held[place[at[0]]]) is not None:
                known[at] = one.covers(stamps[at], self.launch.padded)
        return known

    def _known_strictly(self, known: Mask, stamps: Stamps, who: Indices) -> Mask:
        """Return which of (count,) known accesses stay known, and note the locks without a fence that others rely on.

        Where a fence of the block's scope follows such a lock, what another block did is not known.
        """
        loose, padded = self.launch.loose, self.launch.padded
        for thread in np.unique(who).tolist():
            if thread + self.base not in loose:
                continue
            lock = loose.held_by(thread + self.base)
            at = np.flatnonzero(known & (who == thread))
            if lock.strict is not None:
                at = at[~lock.strict.covers(stamps[at], padded)]
            if not len(at):
                continue
            if lock.narrow:
                known[at] = False
            else:
                loose.used[lock.position] = None
        return known

    def closeness(self, one: Indices, two: Indices) -> NDArray[np.int64]:
        """Return how close (count,) threads of the launch are to others: `SAME_WARP` to `APART`, each one more."""
        padded, cluster = self.launch.padded, self.launch.cluster
        first, second = one // padded, two // padded
        near: NDArray[np.int64] = (warp_of(one) != warp_of(two)).astype(np.int64)
        apart = first != second
        near += apart
        near += apart if cluster == 1 else first // cluster != second // cluster
        return near

    # --- barriers -------------------------------------------------------------------------------------------------

    def order_blocks(self, threads: Indices | Mask | slice, blocks: Indices) -> None:
        """Order all that threads of whole blocks did: (blocks,) rows of the batch, and their threads."""
        self.limit[threads] = self.launch.tick()
        if self.launch.know is not None:
            for block in blocks.tolist():
                first = self.base + block * self.launch.padded
                self._share(np.arange(first, first + self.launch.padded))

    def _share(self, ids: Indices) -> None:
        """Let some threads of the launch know what each of them knows."""
        know = self.launch.know
        if know is None:
            return
        if self.launch.loose:
            self.launch.loose.share(ids.tolist(), know[ids].tolist())
        joined: KnownTimes | None = None
        for one in {id(one): one for one in know[ids].tolist()}.values():
            joined = self.launch.join(joined, one)
        if joined is not None:
            know[ids] = joined

    def order_clusters(self, blocks: Indices) -> None:
        """Order all that the threads of whole clusters did, (count,) rows of their blocks."""
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

    def _meet(self, who: Indices | Mask) -> None:
        """Note that some threads know that all blocks of their clusters have begun."""
        if self._begun is None:
            self._begun = np.zeros(self._batch.threads, np.bool_)
        self._begun[who] = True

    def arrivals(self, blocks: Indices, who: Indices, times: Stamps, relaxed: Mask) -> ClusterPhase:
        """Return what arrivals at the barrier of a cluster tell those that wait for it.

        Args:
            blocks: Rows of the cluster's blocks.
            who: (count,) the threads.
            times: (count,) the shifted time of each one's arrival.
            relaxed: (count,) whether it orders no more than the thread fenced before.
        """
        learnt: KnownTimes | None = None
        padded = self.launch.padded
        arrived = np.zeros(self._batch.threads, np.int64)
        arrived[who] = times
        by_block = {block + self.base // padded: arrived.reshape(-1, padded)[block] for block in blocks.tolist()}
        for block in blocks.tolist():
            mine = self._batch.block_of[who] == block
            firm = mine & ~relaxed
            if firm.any():
                learnt = self.launch.join(learnt, self._knowledge(who[firm], times[firm]))
            fences = self.launch.fence_wide
            if fences is None:
                continue
            for thread in who[mine & relaxed & (fences[who + self.base] >= FIRST)].tolist():
                learnt = self.launch.join(learnt, self._fenced(np.array([thread]), fences))
        return ClusterPhase(learnt, KnownTimes(by_block))

    def see_arrivals(self, who: Indices, phase: ClusterPhase) -> None:
        """Let (count,) threads of a cluster know what a phase of its barrier tells."""
        self._meet(who)
        if self._arrived is None:
            self._arrived = np.full(self._batch.threads, None, object)
        self._arrived[who] = phase.arrived
        if phase.known is not None:
            self._teach(who, phase.known)

    def know_initialised(self, stamps: Stamps, who: Indices) -> Mask:
        """Return whether (count,) threads know initialisations of mbarriers that a fence of their own kind ordered."""
        if self._arrived is None:
            return np.zeros(len(who), np.bool_)
        return self._known(self._arrived, stamps, who, base=0)

    def arrival(self) -> np.int64:
        """Return the shifted time of an arrival: what its threads do from now on is not part of it."""
        return self.launch.tick()

    def knows_arrivals(self, members: Indices, warps: Indices, times: Stamps) -> bool:
        """Return whether a lane of a warp knows that (count,) warps arrived at a barrier.

        Args:
            members: The lanes of the warp, by their numbers in the batch.
            warps: (count,) the warps.
            times: (count,) the shifted time of each one's arrival.
        """
        others = np.flatnonzero(warps != warp_of(members[:1]))
        before = times[others] - np.int64((1 << SHIFT) - (BY_WARP << LEVEL_SHIFT))
        stamps = before + self.ids[warps[others] * WARP_SIZE]
        return any(not len(self.unordered(stamps, np.full(len(others), lane))) for lane in members.tolist())

    def order_some(self, waiters: Indices, arrived: Indices, times: Stamps) -> None:
        """Order a barrier of some of a block's threads.

        Args:
            waiters: (count,) the threads that waited.
            arrived: (others,) the threads that arrived, those that waited included.
            times: (others,) the shifted time of each one's arrival.
        """
        learnt: KnownTimes | None = self._knowledge(arrived, times)
        self._teach(waiters, learnt)

    def order_warps_reads(self, waiters: Indices, warps: Indices, time: np.int64) -> None:
        """Let threads know what whole warps of their block read together before a time, and of nothing else of these.

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

    def order_warps(self, who: Indices, masks: NDArray[np.uint32]) -> None:
        """Order the lanes of warps that met.

        Args:
            who: (count,) the threads.
            masks: (count,) the lanes of its warp that each one names.
        """
        time, batch = self.launch.tick(), self._batch
        here = np.zeros(batch.threads, np.bool_)
        here[who] = True
        missing = (batch.exists & ~here).reshape(-1, WARP_SIZE).any(axis=1)
        named = np.zeros(batch.threads, np.uint32)
        named[who] = masks
        by_warp = named.reshape(-1, WARP_SIZE)
        agreed = (by_warp == by_warp[:, :1]).all(axis=1)
        full = ~missing & agreed & ((~by_warp[:, 0] & _existing(batch)) == 0)
        if full.any():
            if self._warp_limit is None:
                self._warp_limit = np.zeros(batch.threads, np.int64)
            self._warp_limit[np.repeat(full, WARP_SIZE) & here] = time
        part = who[~full[warp_of(who)]]
        if len(part):
            self._order_lanes(part, named, time)
        if self.launch.know is not None:
            self._share_warps(self.launch.know, who, named)

    def _order_lanes(self, who: Indices, named: NDArray[np.uint32], time: np.int64) -> None:
        """Order lanes of warps of which not all lanes met under one mask."""
        if self._lane_limit is None:
            self._lane_limit = np.zeros((self._batch.threads, WARP_SIZE), np.int64)
        by_lane = self._lane_limit.reshape(-1, WARP_SIZE, WARP_SIZE)
        warp_limit = self._warp_limit
        for mask in np.unique(named[who]).tolist():
            lanes = np.flatnonzero((mask >> np.arange(WARP_SIZE)) & 1)
            if not mask:  # who names nobody waits for nobody
                continue
            mine = who[named[who] == mask]
            warps = np.unique(warp_of(mine))
            rows = by_lane[np.ix_(warps, lanes)].max(axis=1)  # (warps, 32)
            rows[:, lanes] = time
            if warp_limit is not None:
                rows = np.maximum(rows, warp_limit.reshape(-1, WARP_SIZE)[warps].max(axis=1)[:, None])
            members = np.intersect1d((warps[:, None] * WARP_SIZE + lanes).reshape(-1), mine)
            self._lane_limit[members] = rows[np.searchsorted(warps, warp_of(members))]

    def _share_warps(self, know: NDArray[Any], who: Indices, named: NDArray[np.uint32]) -> None:
        some = who[[one is not None for one in know[who + self.base].tolist()]]
        for warp in np.unique(warp_of(some)).tolist():
            members = who[warp_of(who) == warp]
            for mask in np.unique(named[members]).tolist():
                self._share(members[named[members] == mask] + self.base)

    # --- what a thread knows ----------------------------------------------------------------------------------------

    def _times(self, who: Indices, own: Stamps | np.int64, limit: Stamps | np.int64) -> tuple[int, Stamps]:
        """Return what (count,) threads of one block know of its threads, together: the launch's block, and the times.

        Args:
            who: The threads.
            own: (count,) the time that stands for each one's own accesses, or one for all.
            limit: What the block's barriers ordered, for all of its threads or for each one.
        """
        padded = self.launch.padded
        first = int(who[0]) // padded * padded
        local = who - first
        times = np.zeros(padded, np.int64) + limit
        shape = (-1, WARP_SIZE)
        if self._warp_limit is not None:
            spread = np.zeros(padded, np.int64)
            spread[local] = self._warp_limit[who]
            times = np.maximum(times, np.repeat(spread.reshape(shape).max(axis=1), WARP_SIZE))
        if self._lane_limit is not None:
            by_lane = np.zeros((padded, WARP_SIZE), np.int64)
            by_lane[local] = self._lane_limit[who]
            times = np.maximum(times, by_lane.reshape(-1, WARP_SIZE, WARP_SIZE).max(axis=1).reshape(-1))
        times[local] = own
        return (first + self.base) // padded, times

    def _knowledge(
        self, who: Indices, own: Stamps | np.int64, limit: Stamps | np.int64 | None = None
    ) -> KnownTimes | None:
        """Return what (count,) threads of one block know together, their own accesses included.

        Args:
            who: The threads.
            own: (count,) the time that stands for each one's own accesses, or one for all.
            limit: What the block's barriers ordered, for each of its threads; None: what they ordered until now.
        """
        block, times = self._times(who, own, self.limit[who].max() if limit is None else limit)
        met = 0 if self._cluster_limit is None else int(self._cluster_limit[who].max())
        peers = self._peers(block) if met else ()
        known: KnownTimes | None = KnownTimes({block: times} | {one: np.full(len(times), met) for one in peers})
        know = self.launch.know
        if know is not None:
            for one in {id(one): one for one in know[who + self.base].tolist()}.values():
                known = self.launch.join(known, one)
        return known

    def _peers(self, block: int) -> list[int]:
        """Return the other blocks of a cluster, by their numbers in the launch."""
        first = self.base // self.launch.padded
        row = block - first
        start = row - row % self._batch.cluster
        return [first + one for one in range(start, start + self._batch.cluster) if one != row]

    def _teach(self, who: Indices, knowledge: KnownTimes | None, *, loosely: bool = False) -> None:
        """Merge clocks into (count,) threads of the batch; loosely where only the leniency for locks says so."""
        ids = who + self.base
        if self.launch.loose and not loosely:
            for thread in ids.tolist():
                self.launch.loose.learn(thread, knowledge)
        if self.launch.know is None:
            self.launch.learn(ids, knowledge)
            return
        held = self.launch.know[ids].tolist()
        alike = all(one is held[0] for one in held)
        if alike:
            self.launch.learn(ids, self.launch.join(held[0], knowledge))
            return
        for thread, one in zip(ids.tolist(), held, strict=True):
            self.launch.learn(thread, self.launch.join(one, knowledge))

    # --- mbarriers --------------------------------------------------------------------------------------------------

    def arrive(self, place: Place, phase: int, who: Indices, *, relaxed: bool = False) -> None:
        """Note that (count,) threads of one block arrived in a phase of an mbarrier; relaxed: with what they fenced."""
        released: KnownTimes | None = None
        if not relaxed:
            released = self._knowledge(who, self.launch.tick())
        elif self.launch.fence_any is not None:
            for thread in who.tolist():
                released = self.launch.join(released, self._fenced(np.array([thread]), self.launch.fence_any))
        phases = self.launch.phases.setdefault(place, {})
        phases[phase] = self.launch.join(phases.get(phase), released)

    def see(self, place: Place, phase: int, who: Indices, *, relaxed: bool = False) -> None:
        """Let (count,) threads learn what the arrivals before a phase of an mbarrier released.

        They learn it now; relaxed, at their next fence.
        """
        phases = self.launch.phases.get(place)
        if not phases:
            return
        learnt: KnownTimes | None = None
        for old in [one for one in phases if one < phase]:
            learnt = self.launch.join(learnt, phases.pop(old))
        if learnt is None:
            return
        phases[phase - 1] = learnt
        if relaxed:
            self._await_fence(who, learnt, learnt)
        else:
            self._teach(who, learnt)

    def arrived_after(self, place: Place, phase: int, stamps: Stamps) -> Mask:
        """Return which (count,) events happened before some arrival in a phase of an mbarrier."""
        released = self.launch.phases.get(place, {}).get(phase)
        return np.zeros(len(stamps), np.bool_) if released is None else released.covers(stamps, self.launch.padded)

    def forget(self, place: Place) -> None:
        """Forget the phases of an mbarrier that is initialised."""
        self.launch.forget(place)

    def announce(self, place: Place, phase: int) -> int:
        """Let whoever learns of a phase of an mbarrier know that it is complete; return the key for `have_seen`."""
        key = self.launch.key_of(place)
        phases = self.launch.phases.setdefault(place, {})
        phases[phase] = self.launch.join(phases.get(phase), KnownTimes({key: np.array([phase + 1], np.int64)}))
        return key

    def have_seen(self, who: Indices, key: int, phase: int) -> Mask:
        """Return whether (count,) threads know that an announced phase is complete."""
        know = self.launch.know
        if know is None:
            return np.zeros(len(who), np.bool_)
        seen = []
        for one in know[who + self.base].tolist():
            phases = None if one is None else one.blocks.get(key)
            seen.append(phases is not None and int(phases[0]) > phase)
        return np.array(seen, np.bool_)

    # --- fences, releases, acquires -----------------------------------------------------------------------------------

    def fence(self, who: Indices, *, wide: bool) -> None:
        """Note a fence of (count,) threads, of the block's scope or a wider one."""
        launch = self.launch
        time = launch.tick()
        fence_wide, fence_any = launch.fences()
        ids = who + self.base
        fence_any[ids] = time
        if launch.fence_limit is not None:
            launch.fence_limit[ids] = self.limit[who]
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

    def fence_proxies(self, who: Indices) -> None:
        """Note a fence of (count,) threads between the proxies of global memory."""
        self.launch.proxy_fences()[who + self.base] = self.launch.tick()

    def unfenced(self, stamps: Stamps, reader: int) -> Mask:
        """Return which (count,) writes no fence of the proxies can have come behind, before a thread's bulk copy.

        The fence may be the writer's, or that of a thread of the reader's block behind a barrier.
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
        who: Indices,
        order: Order,
        *,
        shared: bool,
        reads: bool,
        wrote: Mask | bool,
        position: int = -1,
    ) -> None:
        """Let strong accesses acquire what was released at their places, and release, thread after thread.

        Args:
            memory: Which memory it is.
            places: (count,) bytes in it.
            who: (count,) the threads, in the order in which their accesses took place.
            order: How strong the accesses are.
            shared: The memory is that of one block, so that every scope is wide enough.
            reads: The accesses read.
            wrote: (count,) whether each one wrote, or one answer for all.
            position: Index of the instruction.
        """
        launch = self.launch
        writes = np.broadcast_to(wrote, who.shape)
        releases = order.release or (
            launch.fence_any is not None and bool(launch.fence_any[who + self.base].any()) and bool(writes.any())
        )
        table = launch.released.get(memory)
        if not releases and (not table or table.keys().isdisjoint(np.unique(places).tolist())):
            return
        if table is None:
            table = launch.released[memory] = {}
        if not writes.any():
            for place in np.unique(places).tolist():
                if place in table:
                    self._acquire(table[place], who[places == place], order, shared=shared, position=position)
            return
        if order.release:
            launch.tick()
        for place, thread, writing in zip(places.tolist(), who.tolist(), writes.tolist(), strict=True):
            held = table.get(place) if reads else None
            if held is not None:
                self._acquire(held, np.array([thread]), order, shared=shared, position=position)
            if writing:
                self._leave(table, place, held, self._release(thread, order, shared=shared))

    def _leave(self, table: dict[int, _Released], place: int, held: _Released | None, made: _Released) -> None:
        """Note what a strong write releases at a place; `held` is what it goes on with, if it is an update."""
        if held is not None:
            held.wide = self.launch.join(held.wide, made.wide)
            for block, one in made.own.items():
                held.own[block] = self.launch.join(held.own.get(block), one)
        elif made.wide is not None or made.own:
            table[place] = made
        else:
            table.pop(place, None)

    def _acquire(self, held: _Released, who: Indices, order: Order, *, shared: bool, position: int) -> None:
        """Let (count,) threads read what was released at a place: they learn it now, or at their next fence."""
        launch = self.launch
        blocks = (who + self.base) // launch.padded
        for block in np.unique(blocks).tolist():
            own = held.wide if shared else held.own.get(block)
            learnt = own if order.level == CTA else launch.join(held.wide, own)
            if learnt is None:
                continue
            mine = who[blocks == block]
            if order.acquire:
                if order.locks:
                    for ident in (mine + self.base).tolist():
                        launch.loose.take(ident, position, launch.known_by(ident), own)
                self._teach(mine, learnt, loosely=order.locks)
                continue
            self._await_fence(mine, learnt, own)

    def _await_fence(self, who: Indices, wide: KnownTimes | None, narrow: KnownTimes | None) -> None:
        """Let (count,) threads learn at their next fence: by one of the device's scope, and by one of any scope."""
        launch = self.launch
        for ident in (who + self.base).tolist():
            held = launch.pending.get(ident, (None, None))
            launch.pending[ident] = (launch.join(held[0], wide), launch.join(held[1], narrow))

    def _release(self, thread: int, order: Order, *, shared: bool) -> _Released:
        """Return what a strong write of a thread releases: all before it, or all before the latest fence."""
        launch, ident = self.launch, thread + self.base
        who = np.array([thread])
        made = _Released()
        if order.release:
            known = self._knowledge(who, np.int64(launch.now << SHIFT))
            if shared or order.level != CTA:
                made.wide = known
            if launch.narrow and not shared:
                made.own[ident // launch.padded] = known
            return made
        fence_wide, fence_any = launch.fences()
        if shared:
            made.wide = self._fenced(who, fence_any)
            return made
        if order.level != CTA:
            made.wide = self._fenced(who, fence_wide)
        if launch.narrow:
            narrow = self._fenced(who, fence_any)
            if narrow is not None:
                made.own[ident // launch.padded] = narrow
        return made

    def _fenced(self, who: Indices, fences: Stamps) -> KnownTimes | None:
        """Return what a thread knew at its latest fence, and what others of its block that it knows of had fenced.

        What it learnt otherwise than by a barrier of the block counts by time alone: if it happened before the fence.
        """
        padded, ident, limits = self.launch.padded, who[0] + self.base, self.launch.fence_limit
        block, time = int(ident) // padded, fences[ident]
        theirs = fences[block * padded : (block + 1) * padded]
        before = limits[ident] if limits is not None else np.int64(0)
        barriers = np.minimum(self.limit[who], np.maximum(theirs, before if time else 0))
        known = self._knowledge(who, time, np.zeros(1, np.int64))
        if known is None:
            return None
        capped = np.maximum(barriers, np.minimum(known.blocks[block], np.maximum(theirs, time)))
        return KnownTimes({**known.blocks, block: capped}, known.warps) if int(capped.max()) >= FIRST else None


def _existing(batch: Batch) -> NDArray[np.uint32]:
    """Return the lanes of each warp that are threads of the launch, (warps,) masks."""
    bits = batch.exists.reshape(-1, WARP_SIZE).astype(np.uint32) << np.arange(WARP_SIZE, dtype=np.uint32)
    return np.asarray(bits.sum(axis=1, dtype=np.uint32))
