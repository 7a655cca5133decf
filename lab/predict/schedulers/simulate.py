"""Simulates the issue of a loop's instructions on the four sub-partitions of an SM.

A scheduler issues one instruction per cycle from a ready warp, and stays with that warp as long as it is ready. A warp
is ready when the stall count of its last instruction has elapsed, the barriers its next instruction waits for are
released, and the required unit is free. An arithmetic instruction waits until the read ports of the register banks are
free for its operands. The sub-partitions share the data path to shared memory and L1, on which data arriving
from L2 takes turns with loads. A scheduler's idle cycles count for the cause that delays the first warp to be ready.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lab.base.warp import SECTOR_BYTES
from lab.hardware.latencies import SmLatencies
from lab.predict.schedulers.loop import BYTES_A_CYCLE, Slot, Traffic, Unit, passes, sectors

SUB_PARTITIONS = 4
_WARM, _COUNTED = 1, 2  # iterations: by then the loop is periodic
_MEMORY = frozenset({Unit.SHARED, Unit.GLOBAL, Unit.COPY})
_HALF_RATE = frozenset({Unit.INTEGER, Unit.DOUBLE})  # sixteen lanes of a sub-partition take two cycles


class Cause(StrEnum):
    """The cause of a scheduler cycle."""

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


@dataclass(slots=True, eq=False)
class _Warp:
    block: int
    part: _Part
    asks: bool  # whether it issues its block's bulk copies
    at: int = 0  # operations issued, or left to the warp that issues bulk copies
    ready: float = 0.0
    why: Cause = Cause.STALL  # what `ready` waits for
    barriers: list[tuple[float, Cause]] = field(default_factory=lambda: [(0.0, Cause.LATENCY)] * 6)
    copies: float = 0.0  # arrival of the open group's last copy
    groups: list[float] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Part:
    """A sub-partition."""

    number: int
    warps: list[_Warp] = field(default_factory=list)
    last: int = 0  # warp to try first
    latest: _Warp | None = None  # warp that issued last: the operand cache holds its registers
    even: float = 0.0  # when the read port of each register bank is free
    odd: float = 0.0
    free: dict[Unit, float] = field(default_factory=lambda: dict.fromkeys(_HALF_RATE, 0.0))
    sent: float = 0.0  # earliest send of the next memory instruction's addresses
    queue: list[float] = field(default_factory=list)
    idle: float = 0.0  # start of the wait
    cause: Cause = Cause.STALL  # cause of the wait
    waited: defaultdict[Cause, float] = field(default_factory=lambda: defaultdict(float))  # since its last instruction
    due: float = 0.0  # next time to try to issue
    issued: int = 0  # operations
    warm: int = 0  # warm-up operations
    begin: float = 0.0  # end of the warm-up
    before: dict[Cause, float] = field(default_factory=dict)  # cycles by the end of the warm-up
    causes: defaultdict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    end: float = 0.0  # issue time of its last instruction


@dataclass(frozen=True, slots=True)
class _Operation:
    """An instruction and its successors that only the register banks can delay.

    Attributes:
        slot: The first instruction.
        passes: Cycles of the data path, if it accesses memory.
        sectors: Sectors from L2.
        run: Registers that each successor reads from the even and the odd bank.
        fma: Number of these instructions that are fma.
    """

    slot: Slot
    passes: float
    sectors: float
    run: tuple[tuple[int, int], ...]
    fma: int


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of one iteration of all warps of an SM.

    Attributes:
        total: Their sum.
        by_cause: Cycles by cause, mean of the sub-partitions. They add up to `total`.
    """

    total: float
    by_cause: Mapping[Cause, float]


def simulate(path: Sequence[Slot], warps: int, blocks: int, machine: SmLatencies, traffic: Traffic) -> Cycles:
    """Simulate some iterations of a loop with `blocks` blocks of `warps` warps on an SM.

    Args:
        path: Instructions of one warp in an iteration.
        warps: Warps of a block, distributed round-robin over the sub-partitions.
        blocks: Resident blocks.
        machine: Latencies and rates of the SM.
        traffic: Costs of memory instructions.
    """
    return _Simulation(_operations(path, traffic), warps, blocks, machine).run()


def _operations(path: Sequence[Slot], traffic: Traffic) -> tuple[_Operation, ...]:
    """Divide the path into runs that issue back to back, since a scheduler stays with a ready warp."""
    starts = [place for place, slot in enumerate(path) if not place or not _follows(path[place - 1], slot)]
    operations = []
    for start, end in zip(starts, [*starts[1:], len(path)], strict=True):
        first, successors = path[start], path[start + 1 : end]
        fma = sum(slot.fma > 0 for slot in path[start:end])
        operations.append(
            _Operation(first, passes(first, traffic), sectors(first, traffic), tuple(s.reads for s in successors), fma)
        )
    return tuple(operations)


def _follows(before: Slot, slot: Slot) -> bool:
    """Return whether an instruction always issues in the cycle after its predecessor in the warp."""
    plain = all(
        instruction.unit is Unit.NONE
        and not instruction.once
        and instruction.control.write_barrier is None
        and instruction.control.read_barrier is None
        for instruction in (before, slot)
    )
    return plain and before.control.stall <= 1 and slot.control.stall <= 1 and not slot.control.waits


class _Simulation:
    """The state of an SM, advanced by `run`."""

    def __init__(self, path: tuple[_Operation, ...], warps: int, blocks: int, machine: SmLatencies) -> None:
        self._path, self._machine, self._each = path, machine, warps
        self._parts = [_Part(number) for number in range(SUB_PARTITIONS)]
        for number in range(warps * blocks):
            partition = self._parts[number % SUB_PARTITIONS]
            partition.warps.append(_Warp(number // warps, partition, asks=number % warps == 0))
        self._bulk: dict[tuple[int, int], float] = {}  # arrival of the last copy by block and iteration
        self._end = len(path) * (_WARM + _COUNTED)
        self._data_free = 0.0  # when the data path is free
        self._tags_free = 0.0  # when the L1 tag stage is free for another copy
        self._written_free = 0.0  # when the register write port is free
        self._arriving: list[tuple[float, float]] = []  # data in flight from L2: arrival time, passes
        self._waiting = 0.0  # passes of data that has arrived
        self._fill_free = 0.0  # when L2 can send more
        self._arrived: Counter[int] = Counter()
        self._events: list[tuple[float, int]] = []

    def run(self) -> Cycles:
        """Issue until every warp has finished its iterations."""
        for partition in self._parts:
            partition.warm = _WARM * sum(
                warp.asks or not operation.slot.once for warp in partition.warps for operation in self._path
            )
            for warp in partition.warps:
                self._skip(warp)
            if partition.warps:
                heapq.heappush(self._events, (0.0, partition.number))
        while self._events:
            now, number = heapq.heappop(self._events)
            partition = self._parts[number]
            if now == partition.due:  # otherwise an earlier event has replaced this one
                self._look(partition, now)
                if partition.due < math.inf:
                    heapq.heappush(self._events, (partition.due, number))
        return self._spent()

    def _look(self, partition: _Part, now: float) -> None:
        """Issue an operation if a warp is ready, and set the time of the next attempt."""
        if now > partition.idle:
            partition.waited[partition.cause] += now - partition.idle
        partition.idle = now
        chosen, soonest, partition.cause = self._choose(partition, now)
        if chosen is None:
            partition.due = math.ceil(soonest) if soonest < math.inf else math.inf
            return
        for cause, cycles in partition.waited.items():
            partition.causes[cause] += cycles
        partition.waited.clear()
        partition.due = partition.idle = partition.end = self._issue(partition, partition.warps[chosen], now)
        # the scheduler stays with a warp that can continue
        partition.last = chosen if partition.warps[chosen].ready <= partition.end else chosen + 1
        partition.issued += 1
        if partition.issued == partition.warm:
            partition.begin, partition.before = partition.end, dict(partition.causes)

    def _spent(self) -> Cycles:
        """Return the cycles since each sub-partition finished the warm-up iterations, by cause."""
        active = [partition for partition in self._parts if partition.warps]
        total = max(partition.end - partition.begin for partition in active)
        spent: defaultdict[Cause, float] = defaultdict(float)
        for partition in active:
            for cause, cycles in partition.causes.items():
                spent[cause] += cycles - partition.before.get(cause, 0.0)
            spent[Cause.BARRIER] += total - (partition.end - partition.begin)  # finished before the others
        return Cycles(total / _COUNTED, {cause: n / len(active) / _COUNTED for cause, n in spent.items() if n > 0})

    def _choose(self, partition: _Part, now: float) -> tuple[int | None, float, Cause]:
        """Return the warp to issue from; or None, with time and cause of the first warp to become ready."""
        soonest, cause = math.inf, Cause.BARRIER
        warps, queue = partition.warps, partition.queue
        count = len(warps)
        while queue and queue[0] <= now:
            heapq.heappop(queue)
        for k in range(count):
            place = (partition.last + k) % count
            warp = warps[place]
            if warp.at >= self._end or warp.ready == math.inf:
                continue
            ready, reason = self._ready(partition, warp)
            if ready <= now:
                return place, now, reason
            if ready < soonest:
                soonest, cause = ready, reason
        return None, soonest, cause

    def _ready(self, partition: _Part, warp: _Warp) -> tuple[float, Cause]:
        slot = self._path[warp.at % len(self._path)].slot
        ready, cause = warp.ready, warp.why
        for number in slot.control.waits:
            time, barrier_cause = warp.barriers[number]
            if time > ready:
                ready, cause = time, barrier_cause
        unit = slot.unit
        if unit in _MEMORY:
            if len(partition.queue) >= self._machine.queue and partition.queue[0] > ready:
                ready, cause = partition.queue[0], Cause.QUEUE
        elif unit in _HALF_RATE:
            if partition.free[unit] > ready:
                ready, cause = partition.free[unit], Cause.PIPE
        elif unit is Unit.WAIT and len(warp.groups) > slot.left:
            arrival = max(warp.groups[: len(warp.groups) - slot.left])
            if arrival > ready:
                ready, cause = arrival, Cause.GLOBAL
        elif slot.unit is Unit.PHASE:
            # the code does not show the number of stages; with two, the copy was issued one iteration ago
            copied = self._bulk.get((warp.block, warp.at // len(self._path) - 1))
            if copied is not None and copied > ready:
                ready, cause = copied, Cause.GLOBAL
        return ready, cause

    def _skip(self, warp: _Warp) -> None:
        """Skip operations that another warp of the block issues."""
        while not warp.asks and warp.at < self._end and self._path[warp.at % len(self._path)].slot.once:
            warp.at += 1

    def _issue(self, partition: _Part, warp: _Warp, now: float) -> float:
        """Issue an operation, and return when the scheduler is free for the next."""
        operation = self._path[warp.at % len(self._path)]
        slot, machine = operation.slot, self._machine
        warp.at += 1
        self._skip(warp)
        unit = slot.unit
        reads = slot.reads if warp is partition.latest else slot.reads_alone
        partition.latest = warp
        end = self._read(partition, reads, operation.run, now)
        count = 1 + len(operation.run)
        causes = partition.causes
        causes[Cause.FMA] += operation.fma
        causes[Cause.OTHER] += count - operation.fma
        if end - now > count:
            causes[Cause.BANKS] += end - now - count
        warp.ready, warp.why = end - 1 + max(1, slot.control.stall), Cause.STALL
        if unit in _MEMORY:
            self._access(partition, warp, operation, now)
        elif unit is Unit.BULK:
            # TMA computes the addresses: none is sent, and no tag is looked up
            turn = (warp.at - 1) // len(self._path)
            self._bulk[warp.block, turn] = self._fetch(operation, now)
            self._raise(warp, slot, now + machine.variable_latency, now + machine.operands_read, Cause.LATENCY)
        elif unit is Unit.BARRIER:
            self._arrive(warp, now)
        else:
            self._raise(warp, slot, now + machine.variable_latency, now + machine.operands_read, Cause.LATENCY)
        if unit in _HALF_RATE:
            partition.free[unit] = now + 2
        elif unit is Unit.BRANCH:
            warp.ready += machine.branch
        elif unit is Unit.COMMIT:
            warp.groups.append(warp.copies)
        elif unit is Unit.WAIT:
            del warp.groups[: max(0, len(warp.groups) - slot.left)]
        return end

    def _read(self, partition: _Part, first: tuple[int, int], run: tuple[tuple[int, int], ...], now: float) -> float:
        """Reserve the register banks' read ports for some instructions, and return when all have issued.

        Each bank delivers one register per cycle. An instruction issues when both banks can deliver its operands within
        the operand read window.
        """
        even, odd, window = partition.even, partition.odd, self._machine.read_window
        for a, b in (first, *run):
            if a and even + a - window > now:
                now = even + a - window
            if b and odd + b - window > now:
                now = odd + b - window
            if a:
                even = max(even, now) + a
            if b:
                odd = max(odd, now) + b
            now += 1
        partition.even, partition.odd = even, odd
        return now

    def _access(self, partition: _Part, warp: _Warp, operation: _Operation, now: float) -> None:
        """Send the addresses of a memory instruction, and reserve the data path for it.

        A copy looks up one tag per line it reads, which takes as many cycles as its data on arrival; until then its
        sub-partition sends nothing else. A load's data goes to the registers on a separate path, which delivers 4 bytes
        per lane and cycle even if lanes share data on the data path.
        """
        machine, slot = self._machine, operation.slot
        partition.sent = max(now, partition.sent) + machine.send
        if slot.unit is Unit.COPY:
            warp.copies = self._fetch(operation, partition.sent)
            self._tags_free = max(partition.sent - operation.passes, self._tags_free) + operation.passes
            partition.sent = max(partition.sent, self._tags_free)
            heapq.heappush(partition.queue, partition.sent)
            self._raise(warp, slot, warp.copies, partition.sent + machine.operands_read, Cause.GLOBAL)
            return
        finish = self._turn(partition.sent, operation.passes)
        if slot.unit is Unit.SHARED and not slot.store:
            self._written_free = max(self._written_free, finish - operation.passes) + slot.width / BYTES_A_CYCLE
            finish = max(finish, self._written_free)
        heapq.heappush(partition.queue, finish)
        if slot.unit is Unit.SHARED:
            self._raise(warp, slot, finish + machine.shared_latency, finish, Cause.SHARED)
        else:
            self._fill_free = max(finish, self._fill_free) + operation.sectors * SECTOR_BYTES / machine.l2_bytes
            arrives = self._fill_free + machine.global_latency
            self._raise(warp, slot, arrives, finish + machine.operands_read, Cause.GLOBAL)

    def _fetch(self, operation: _Operation, now: float) -> float:
        """Request a copy's data from L2, and return when it arrives for the data path."""
        self._fill_free = max(now, self._fill_free) + operation.sectors * SECTOR_BYTES / self._machine.l2_bytes
        arrives = self._fill_free + self._machine.global_latency
        heapq.heappush(self._arriving, (arrives, operation.passes))
        return arrives

    def _turn(self, now: float, cycles: float) -> float:
        """Reserve the data path for an access, and return when the access is done.

        Data that has arrived from L2 uses the path's idle time, and is interleaved with the access.
        """
        while self._arriving and self._arriving[0][0] <= now:
            self._waiting += heapq.heappop(self._arriving)[1]
        if now > self._data_free:
            self._waiting -= min(self._waiting, now - self._data_free)
            self._data_free = now
        between = min(self._waiting, cycles)
        self._waiting -= between
        self._data_free += cycles + between
        return self._data_free

    def _raise(self, warp: _Warp, slot: Slot, write_time: float, read_time: float, cause: Cause) -> None:
        for number, time, barrier_cause in (
            (slot.control.write_barrier, write_time, cause),
            (slot.control.read_barrier, read_time, cause),
        ):
            if number is not None and number < len(warp.barriers) and time > warp.barriers[number][0]:
                warp.barriers[number] = (time, barrier_cause)

    def _arrive(self, warp: _Warp, now: float) -> None:
        self._arrived[warp.block] += 1
        if self._arrived[warp.block] < self._each:
            warp.ready = math.inf
            return
        self._arrived[warp.block] = 0
        released = now + self._machine.block_barrier
        for partition in self._parts:
            for resident_warp in partition.warps:
                if resident_warp.block == warp.block and (resident_warp.ready == math.inf or resident_warp is warp):
                    resident_warp.ready, resident_warp.why = released, Cause.BARRIER
            if partition.warps and partition.due > released and partition is not warp.part:
                partition.due = math.ceil(released)
                heapq.heappush(self._events, (partition.due, partition.number))
