"""Simulates the issue of a loop's instructions on the four sub-partitions of an SM.

A scheduler issues one instruction a cycle from a ready warp, and stays with that warp as long as it is ready. A warp is
ready when the stall of its last instruction has passed, the barriers that its next instruction waits for have been
released, and the unit that it needs has room. An arithmetic instruction waits until the read ports of the register
banks have room for its operands. The sub-partitions share the data path to shared memory and L1, on which data arriving
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
    """Cause to which a cycle of the scheduler is attributed."""

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
    asks: bool  # whether it is the warp of its block that requests bulk copies
    at: int = 0  # operations issued, or left to the warp that requests bulk copies
    ready: float = 0.0
    why: Cause = Cause.STALL  # what `ready` waits for
    barriers: list[tuple[float, Cause]] = field(default_factory=lambda: [(0.0, Cause.LATENCY)] * 6)
    copies: float = 0.0  # when the last copy of the open group arrives
    groups: list[float] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Part:
    """A sub-partition."""

    number: int
    warps: list[_Warp] = field(default_factory=list)
    last: int = 0  # warp that is asked first
    latest: _Warp | None = None  # whose instruction issued last: the operand cache holds its registers
    even: float = 0.0  # when the read port of each register bank is free
    odd: float = 0.0
    free: dict[Unit, float] = field(default_factory=lambda: dict.fromkeys(_HALF_RATE, 0.0))
    sent: float = 0.0  # when it may send the next memory instruction's addresses
    queue: list[float] = field(default_factory=list)
    idle: float = 0.0  # since when it waits
    cause: Cause = Cause.STALL  # what for
    waited: defaultdict[Cause, float] = field(default_factory=lambda: defaultdict(float))  # since its last instruction
    due: float = 0.0  # when it looks again
    issued: int = 0  # operations
    warm: int = 0  # of them, those that do not count
    begin: float = 0.0  # when it had issued those that do not count
    before: dict[Cause, float] = field(default_factory=dict)  # cycles by then
    causes: defaultdict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    end: float = 0.0  # when its last instruction had issued


@dataclass(frozen=True, slots=True)
class _Operation:
    """An instruction and its successors that only the register banks can delay.

    Attributes:
        slot: The first instruction.
        passes: Cycles of the data path, if it accesses memory.
        sectors: Sectors from L2.
        run: Registers that each successor reads from the even and from the odd bank.
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
        total: All of them.
        by_cause: Cycles by cause, mean of the sub-partitions. They add up to `total`.
    """

    total: float
    by_cause: Mapping[Cause, float]


def simulate(path: Sequence[Slot], warps: int, blocks: int, machine: SmLatencies, traffic: Traffic) -> Cycles:
    """Simulate some iterations of a loop with `blocks` blocks of `warps` warps on an SM.

    Args:
        path: Instructions of one warp in an iteration.
        warps: Warps of a block, distributed to the sub-partitions in turn.
        blocks: Resident blocks.
        machine: Latencies and rates of the SM.
        traffic: Costs of memory instructions.
    """
    return _Simulation(_operations(path, traffic), warps, blocks, machine).run()


def _operations(path: Sequence[Slot], traffic: Traffic) -> tuple[_Operation, ...]:
    """Divide the path into pieces that issue without a break, since a scheduler stays with a ready warp."""
    starts = [place for place, slot in enumerate(path) if not place or not _follows(path[place - 1], slot)]
    found = []
    for start, end in zip(starts, [*starts[1:], len(path)], strict=True):
        first, rest = path[start], path[start + 1 : end]
        fma = sum(slot.fma > 0 for slot in path[start:end])
        found.append(
            _Operation(first, passes(first, traffic), sectors(first, traffic), tuple(s.reads for s in rest), fma)
        )
    return tuple(found)


def _follows(before: Slot, slot: Slot) -> bool:
    """Return whether an instruction always issues in the cycle after its predecessor in the warp."""
    plain = all(
        one.unit is Unit.NONE
        and not one.once
        and one.control.write_barrier is None
        and one.control.read_barrier is None
        for one in (before, slot)
    )
    return plain and before.control.stall <= 1 and slot.control.stall <= 1 and not slot.control.waits


class _Simulation:
    """The state of an SM, which `run` advances."""

    def __init__(self, path: tuple[_Operation, ...], warps: int, blocks: int, machine: SmLatencies) -> None:
        self._path, self._machine, self._each = path, machine, warps
        self._parts = [_Part(number) for number in range(SUB_PARTITIONS)]
        for number in range(warps * blocks):
            part = self._parts[number % SUB_PARTITIONS]
            part.warps.append(_Warp(number // warps, part, asks=number % warps == 0))
        self._bulk: dict[tuple[int, int], float] = {}  # block, iteration: when the last copy arrives
        self._end = len(path) * (_WARM + _COUNTED)
        self._data_free = 0.0  # when the data path is free
        self._tags_free = 0.0  # when L1's tags can be looked up for another copy
        self._written_free = 0.0  # when registers can be written again
        self._arriving: list[tuple[float, float]] = []  # data on its way from L2: when, passes
        self._waiting = 0.0  # passes of data that has arrived
        self._fill_free = 0.0  # when L2 can send more
        self._arrived: Counter[int] = Counter()
        self._events: list[tuple[float, int]] = []

    def run(self) -> Cycles:
        """Issue until every warp has finished its iterations."""
        for part in self._parts:
            part.warm = _WARM * sum(warp.asks or not one.slot.once for warp in part.warps for one in self._path)
            for warp in part.warps:
                self._skip(warp)
            if part.warps:
                heapq.heappush(self._events, (0.0, part.number))
        while self._events:
            now, number = heapq.heappop(self._events)
            part = self._parts[number]
            if now == part.due:  # otherwise an earlier event has replaced this one
                self._look(part, now)
                if part.due < math.inf:
                    heapq.heappush(self._events, (part.due, number))
        return self._spent()

    def _look(self, part: _Part, now: float) -> None:
        """Issue an operation if a warp is ready, and set when to look again."""
        if now > part.idle:
            part.waited[part.cause] += now - part.idle
        part.idle = now
        chosen, soonest, part.cause = self._choose(part, now)
        if chosen is None:
            part.due = math.ceil(soonest) if soonest < math.inf else math.inf
            return
        for cause, cycles in part.waited.items():
            part.causes[cause] += cycles
        part.waited.clear()
        part.due = part.idle = part.end = self._issue(part, part.warps[chosen], now)
        # it stays with a warp that can go on
        part.last = chosen if part.warps[chosen].ready <= part.end else chosen + 1
        part.issued += 1
        if part.issued == part.warm:
            part.begin, part.before = part.end, dict(part.causes)

    def _spent(self) -> Cycles:
        """Return the cycles since each sub-partition finished the warm-up iterations, by cause."""
        used = [part for part in self._parts if part.warps]
        total = max(part.end - part.begin for part in used)
        spent: defaultdict[Cause, float] = defaultdict(float)
        for part in used:
            for cause, cycles in part.causes.items():
                spent[cause] += cycles - part.before.get(cause, 0.0)
            spent[Cause.BARRIER] += total - (part.end - part.begin)  # done before the others
        return Cycles(total / _COUNTED, {cause: n / len(used) / _COUNTED for cause, n in spent.items() if n > 0})

    def _choose(self, part: _Part, now: float) -> tuple[int | None, float, Cause]:
        """Return the warp that issues; or None, with the time and cause of the first warp to be ready."""
        soonest, cause = math.inf, Cause.BARRIER
        warps, queue = part.warps, part.queue
        count = len(warps)
        while queue and queue[0] <= now:
            heapq.heappop(queue)
        for k in range(count):
            place = (part.last + k) % count
            warp = warps[place]
            if warp.at >= self._end or warp.ready == math.inf:
                continue
            ready, why = self._ready(part, warp)
            if ready <= now:
                return place, now, why
            if ready < soonest:
                soonest, cause = ready, why
        return None, soonest, cause

    def _ready(self, part: _Part, warp: _Warp) -> tuple[float, Cause]:
        slot = self._path[warp.at % len(self._path)].slot
        ready, why = warp.ready, warp.why
        for number in slot.control.waits:
            time, of = warp.barriers[number]
            if time > ready:
                ready, why = time, of
        unit = slot.unit
        if unit in _MEMORY:
            if len(part.queue) >= self._machine.queue and part.queue[0] > ready:
                ready, why = part.queue[0], Cause.QUEUE
        elif unit in _HALF_RATE:
            if part.free[unit] > ready:
                ready, why = part.free[unit], Cause.PIPE
        elif unit is Unit.WAIT and len(warp.groups) > slot.left:
            done = max(warp.groups[: len(warp.groups) - slot.left])
            if done > ready:
                ready, why = done, Cause.GLOBAL
        elif slot.unit is Unit.PHASE:
            # the text does not give the number of stages; with two, the copy was requested an iteration ago
            copied = self._bulk.get((warp.block, warp.at // len(self._path) - 1))
            if copied is not None and copied > ready:
                ready, why = copied, Cause.GLOBAL
        return ready, why

    def _skip(self, warp: _Warp) -> None:
        """Skip operations that another warp of the block issues."""
        while not warp.asks and warp.at < self._end and self._path[warp.at % len(self._path)].slot.once:
            warp.at += 1

    def _issue(self, part: _Part, warp: _Warp, now: float) -> float:
        """Issue an operation, and return when the scheduler is free for the next."""
        operation = self._path[warp.at % len(self._path)]
        slot, machine = operation.slot, self._machine
        warp.at += 1
        self._skip(warp)
        unit = slot.unit
        reads = slot.reads if warp is part.latest else slot.reads_alone
        part.latest = warp
        end = self._read(part, reads, operation.run, now)
        count = 1 + len(operation.run)
        causes = part.causes
        causes[Cause.FMA] += operation.fma
        causes[Cause.OTHER] += count - operation.fma
        if end - now > count:
            causes[Cause.BANKS] += end - now - count
        warp.ready, warp.why = end - 1 + max(1, slot.control.stall), Cause.STALL
        if unit in _MEMORY:
            self._access(part, warp, operation, now)
        elif unit is Unit.BULK:
            # the tensor memory accelerator computes the addresses: none is sent, and no tag is looked up
            turn = (warp.at - 1) // len(self._path)
            self._bulk[warp.block, turn] = self._fetch(operation, now)
            self._raise(warp, slot, now + machine.variable_latency, now + machine.operands_read, Cause.LATENCY)
        elif unit is Unit.BARRIER:
            self._arrive(warp, now)
        else:
            self._raise(warp, slot, now + machine.variable_latency, now + machine.operands_read, Cause.LATENCY)
        if unit in _HALF_RATE:
            part.free[unit] = now + 2
        elif unit is Unit.BRANCH:
            warp.ready += machine.branch
        elif unit is Unit.COMMIT:
            warp.groups.append(warp.copies)
        elif unit is Unit.WAIT:
            del warp.groups[: max(0, len(warp.groups) - slot.left)]
        return end

    def _read(self, part: _Part, first: tuple[int, int], run: tuple[tuple[int, int], ...], now: float) -> float:
        """Reserve the register banks' read ports for some instructions, and return when all have issued.

        Each bank delivers a register a cycle. An instruction issues when both banks can deliver its operands within the
        window in which operands are read.
        """
        even, odd, window = part.even, part.odd, self._machine.read_window
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
        part.even, part.odd = even, odd
        return now

    def _access(self, part: _Part, warp: _Warp, operation: _Operation, now: float) -> None:
        """Send the addresses of a memory instruction, and take its turn on the data path.

        A copy looks up a tag for each line that it reads, which takes as many cycles as its data will on arrival; until
        then its sub-partition sends nothing else. A load's data goes to the registers on a separate path, which
        delivers 4 bytes a lane and cycle even where lanes share data on the data path.
        """
        machine, slot = self._machine, operation.slot
        part.sent = max(now, part.sent) + machine.send
        if slot.unit is Unit.COPY:
            warp.copies = self._fetch(operation, part.sent)
            self._tags_free = max(part.sent - operation.passes, self._tags_free) + operation.passes
            part.sent = max(part.sent, self._tags_free)
            heapq.heappush(part.queue, part.sent)
            self._raise(warp, slot, warp.copies, part.sent + machine.operands_read, Cause.GLOBAL)
            return
        done = self._turn(part.sent, operation.passes)
        if slot.unit is Unit.SHARED and not slot.store:
            self._written_free = max(self._written_free, done - operation.passes) + slot.width / BYTES_A_CYCLE
            done = max(done, self._written_free)
        heapq.heappush(part.queue, done)
        if slot.unit is Unit.SHARED:
            self._raise(warp, slot, done + machine.shared_latency, done, Cause.SHARED)
        else:
            self._fill_free = max(done, self._fill_free) + operation.sectors * SECTOR_BYTES / machine.l2_bytes
            arrives = self._fill_free + machine.global_latency
            self._raise(warp, slot, arrives, done + machine.operands_read, Cause.GLOBAL)

    def _fetch(self, operation: _Operation, now: float) -> float:
        """Request a copy's data from L2, and return when it arrives to take its turn on the data path."""
        self._fill_free = max(now, self._fill_free) + operation.sectors * SECTOR_BYTES / self._machine.l2_bytes
        arrives = self._fill_free + self._machine.global_latency
        heapq.heappush(self._arriving, (arrives, operation.passes))
        return arrives

    def _turn(self, now: float, taken: float) -> float:
        """Reserve the data path for an access, and return when the access is done.

        Data that has arrived from L2 uses the idle time of the path, and takes turns with the access.
        """
        while self._arriving and self._arriving[0][0] <= now:
            self._waiting += heapq.heappop(self._arriving)[1]
        if now > self._data_free:
            self._waiting -= min(self._waiting, now - self._data_free)
            self._data_free = now
        between = min(self._waiting, taken)
        self._waiting -= between
        self._data_free += taken + between
        return self._data_free

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
        released = now + self._machine.block_barrier
        for part in self._parts:
            for other in part.warps:
                if other.block == warp.block and (other.ready == math.inf or other is warp):
                    other.ready, other.why = released, Cause.BARRIER
            if part.warps and part.due > released and part is not warp.part:
                part.due = math.ceil(released)
                heapq.heappush(self._events, (part.due, part.number))
