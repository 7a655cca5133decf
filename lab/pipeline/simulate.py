"""Issue a loop's instructions on one sub-partition of an SM, cycle by cycle.

A scheduler issues one instruction a cycle from a warp that is ready; it stays with a warp as long as that one can go
on. A warp is ready when its last instruction's stall has passed, the barriers that its next instruction waits for have
fallen, and the unit that it needs has room. Each of the four sub-partitions has a quarter of the SM's data path to
shared memory and L1. What keeps the scheduler idle is what keeps the warp that is ready first.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lab.pipeline.machine import Machine
from lab.pipeline.trace import Slot, Traffic, Unit, passes

SUB_PARTITIONS = 4
_WARM, _COUNTED = 2, 3  # iterations; the loop repeats itself by then


class Cause(StrEnum):
    """What a cycle of the scheduler went into."""

    FMA = "fma"
    OTHER = "other instructions"
    BANKS = "register banks"
    STALL = "fixed latency"
    SHARED = "shared memory"
    GLOBAL = "global memory"
    BARRIER = "block barrier"
    QUEUE = "memory queue"
    PIPE = "busy pipe"
    LATENCY = "other latency"


@dataclass(slots=True)
class _Warp:
    block: int
    asks: bool  # whether it is the warp of its block that asks for bulk copies
    at: int = 0  # instructions issued
    ready: float = 0.0
    why: Cause = Cause.STALL  # what `ready` waits for
    barriers: list[tuple[float, Cause]] = field(default_factory=lambda: [(0.0, Cause.LATENCY)] * 6)
    copies: float = 0.0  # when the last copy of the open group arrives
    groups: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cycles:
    """Where the cycles of one iteration of all warps of a sub-partition go.

    Attributes:
        total: Cycles of one iteration.
        by_cause: Cycles by cause; they add up to `total`.
    """

    total: float
    by_cause: Mapping[Cause, float]


def simulate(path: Sequence[Slot], warps: int, blocks: int, machine: Machine, traffic: Traffic) -> Cycles:
    """Run some iterations of a loop with `warps` warps of `blocks` blocks on one sub-partition.

    Args:
        path: What one warp issues in an iteration.
        warps: Resident warps of the sub-partition.
        blocks: Resident blocks of the SM, among which the warps are divided evenly.
        machine: Latencies and rates.
        traffic: What memory instructions cost.
    """
    return _Simulation(path, warps, blocks, machine, traffic).run()


class _Simulation:
    """State of one sub-partition."""

    def __init__(self, path: Sequence[Slot], warps: int, blocks: int, machine: Machine, traffic: Traffic) -> None:
        self._path, self._machine = path, machine
        clashes = {2: machine.two_in_a_bank, 3: machine.three_in_a_bank}
        self._extra = [clashes.get(slot.clash, 0.0) for slot in path]
        self._passes = [passes(slot, traffic) for slot in path]
        each = max(1, warps // blocks)
        self._warps = [_Warp(i // each, asks=i % each == 0) for i in range(warps)]
        self._bulk: defaultdict[tuple[int, int], float] = defaultdict(float)  # block, iteration: the last copy arrives
        self._each = each
        self._end = len(path) * (_WARM + _COUNTED)
        self._free = {Unit.INTEGER: 0.0, Unit.DOUBLE: 0.0}
        self._data_free = 0.0  # when this sub-partition's share of the data path is free
        self._queue: list[float] = []
        self._arrived: Counter[int] = Counter()
        self._causes: defaultdict[Cause, float] = defaultdict(float)
        self._warm: tuple[float, dict[Cause, float]] = 0.0, {}

    def run(self) -> Cycles:
        """Issue until every warp has done its iterations."""
        now, last = 0.0, 0
        warm, issued = _WARM * sum(warp.asks or not slot.once for warp in self._warps for slot in self._path), 0
        for warp in self._warps:
            self._skip(warp)
        while True:
            chosen, soonest, cause = self._choose(now, last)
            if chosen is None:
                if soonest == math.inf:
                    break
                wait = max(1.0, math.ceil(soonest - now))
                self._causes[cause] += wait
                now += wait
                continue
            slot, extra = self._issue(self._warps[chosen], now)
            last = chosen if slot.control.stall <= 1 else chosen + 1
            self._causes[Cause.FMA if slot.fma else Cause.OTHER] += 1
            self._causes[Cause.BANKS] += extra
            now += 1 + extra
            issued += 1
            if issued == warm:
                self._warm = now, dict(self._causes)
        begin, before = self._warm
        spent = {cause: n - before.get(cause, 0.0) for cause, n in self._causes.items()}
        by_cause = {cause: n / _COUNTED for cause, n in spent.items() if n}
        return Cycles((now - begin) / _COUNTED, by_cause)

    def _choose(self, now: float, last: int) -> tuple[int | None, float, Cause]:
        """The warp that issues, or None with when and why the first one can."""
        soonest, cause = math.inf, Cause.STALL
        count = len(self._warps)
        while self._queue and self._queue[0] <= now:
            heapq.heappop(self._queue)
        for k in range(count):
            place = (last + k) % count
            warp = self._warps[place]
            if warp.at >= self._end or warp.ready == math.inf:
                continue
            ready, why = self._ready(warp)
            if ready <= now:
                return place, now, why
            if ready < soonest:
                soonest, cause = ready, why
        return None, soonest, cause

    def _ready(self, warp: _Warp) -> tuple[float, Cause]:
        slot = self._path[warp.at % len(self._path)]
        ready, why = warp.ready, warp.why
        for number in slot.control.waits:
            time, of = warp.barriers[number]
            if time > ready:
                ready, why = time, of
        if slot.unit in (Unit.SHARED, Unit.GLOBAL, Unit.COPY):
            if len(self._queue) >= self._machine.queue and self._queue[0] > ready:
                ready, why = self._queue[0], Cause.QUEUE
        elif slot.unit in self._free:
            if self._free[slot.unit] > ready:
                ready, why = self._free[slot.unit], Cause.PIPE
        elif slot.unit is Unit.WAIT and len(warp.groups) > slot.left:
            done = max(warp.groups[: len(warp.groups) - slot.left])
            if done > ready:
                ready, why = done, Cause.GLOBAL
        elif slot.unit is Unit.PHASE:
            # the text does not say how many stages there are: two, so the copy was asked for an iteration ago
            done = self._bulk.get((warp.block, warp.at // len(self._path) - 1), 0.0)
            if done > ready:
                ready, why = done, Cause.GLOBAL
        return ready, why

    def _skip(self, warp: _Warp) -> None:
        """Leave out what another warp of the block issues."""
        while not warp.asks and warp.at < self._end and self._path[warp.at % len(self._path)].once:
            warp.at += 1

    def _issue(self, warp: _Warp, now: float) -> tuple[Slot, float]:
        turn, place = divmod(warp.at, len(self._path))
        slot, extra = self._path[place], self._extra[place]
        warp.at += 1
        self._skip(warp)
        warp.ready, warp.why = now + max(1, slot.control.stall) + extra, Cause.STALL
        machine, unit = self._machine, slot.unit
        if unit in (Unit.SHARED, Unit.GLOBAL, Unit.COPY):
            self._access(warp, slot, self._passes[place], now)
        elif unit is Unit.BULK:
            # one thread's copy for the whole block: its passes are the SM's, not a sub-partition's
            self._data_free = max(now, self._data_free) + self._passes[place]
            self._bulk[warp.block, turn] = self._data_free + machine.global_latency
            self._raise(warp, slot, now + machine.variable_latency, now + machine.operands_read, Cause.LATENCY)
        elif unit is Unit.BARRIER:
            self._arrive(warp, now)
        else:
            self._raise(warp, slot, now + machine.variable_latency, now + machine.operands_read, Cause.LATENCY)
        if unit in self._free:  # sixteen lanes of a sub-partition do such an instruction in two cycles
            self._free[unit] = now + 2
        elif unit is Unit.BRANCH:
            warp.ready += machine.branch
        elif unit is Unit.COMMIT:
            warp.groups.append(warp.copies)
        elif unit is Unit.WAIT:
            del warp.groups[: max(0, len(warp.groups) - slot.left)]
        return slot, extra

    def _access(self, warp: _Warp, slot: Slot, taken: float, now: float) -> None:
        """A memory instruction takes its turn on the data path."""
        machine = self._machine
        self._data_free = max(now, self._data_free) + SUB_PARTITIONS * taken
        heapq.heappush(self._queue, self._data_free)
        if slot.unit is Unit.SHARED:
            self._raise(warp, slot, self._data_free + machine.shared_latency, self._data_free, Cause.SHARED)
        else:
            arrives = self._data_free + machine.global_latency
            if slot.unit is Unit.COPY:
                warp.copies = arrives
            self._raise(warp, slot, arrives, self._data_free + machine.operands_read, Cause.GLOBAL)

    def _raise(self, warp: _Warp, slot: Slot, written: float, read: float, cause: Cause) -> None:
        for number, time, why in (
            (slot.control.write_barrier, written, cause),
            (slot.control.read_barrier, read, cause),
        ):
            if number is not None and number < len(warp.barriers) and time > warp.barriers[number][0]:
                warp.barriers[number] = (time, why)

    def _arrive(self, warp: _Warp, now: float) -> None:
        self._arrived[warp.block] += 1
        if self._arrived[warp.block] < self._each:
            warp.ready = math.inf
            return
        self._arrived[warp.block] = 0
        for other in self._warps:
            if other.block == warp.block and (other.ready == math.inf or other is warp):
                other.ready, other.why = now + self._machine.block_barrier, Cause.BARRIER
