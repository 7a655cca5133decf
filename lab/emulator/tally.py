"""Counters of executed instructions and their memory traffic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, fields, replace

import numpy as np

from lab.base.warp import LINE_BYTES, WARP_SIZE
from lab.emulator.arrays import Addresses, Indices
from lab.emulator.lanes import Lanes
from lab.emulator.program import Program
from lab.emulator.results import ExecutedCounts, LineCount, MemoryCount
from lab.hardware.memory import (
    CHUNK_BYTES,
    LARGEST_COPY,
    Copy,
    atomic_updates,
    copy_sectors,
    copy_wavefronts,
    global_sectors,
    ideal_wavefronts,
    shared_wavefronts,
)

_PATTERNS_KEPT = 8
_FIELDS = len(fields(MemoryCount))


@dataclass(frozen=True, slots=True, eq=False)
class _Pattern:
    """A counted access pattern.

    Attributes:
        lanes: The threads.
        shape: Their addresses relative to the first one's cache line.
        traffic: Its traffic, in the order of `MemoryCount`'s fields.
    """

    lanes: Lanes
    shape: Addresses
    traffic: tuple[int, ...]

    def matches(self, lanes: Lanes, shape: Addresses) -> bool:
        """Return whether an access of these threads has the same traffic."""
        return self.lanes.same(lanes) and np.array_equal(self.shape, shape)


class Counters:
    """The counters of a launch.

    Attributes:
        guarded: Threads with a true guard, for each guarded instruction.
        fetched: Bytes of the boxes that bulk tensor copies fetched, by tensor address.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._block_threads = [0] * len(program.blocks)
        self._block_warps = [0] * len(program.blocks)
        self.guarded: dict[int, int] = dict.fromkeys(
            (i for i, (_, instruction) in enumerate(program.code) if instruction.predicate), 0
        )
        self.fetched: Counter[int] = Counter()
        self._traffic: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0] * _FIELDS)
        self._chunks: defaultdict[int, set[int]] = defaultdict(set)
        self._patterns: defaultdict[tuple[int, str], list[_Pattern]] = defaultdict(list)

    def visit(self, block: int, lanes: Lanes) -> None:
        """Count threads that ran through a block of the program."""
        self._block_threads[block] += lanes.count
        self._block_warps[block] += lanes.warps

    def memory(self, position: int, key: str, addresses: Addresses, width: int, lanes: Lanes) -> None:
        """Count one memory instruction.

        Args:
            position: Index of the instruction.
            key: A key of `ExecutedCounts.memory`, such as `shared.load`.
            addresses: (count,) byte addresses; for shared memory, within the block.
            width: Bytes of a lane's access.
            lanes: The threads.
        """
        if len(addresses):
            shape = addresses - _line_of(addresses)
            traffic = self._known(position, key, lanes, shape)
            if traffic is None:
                traffic = self._keep(position, key, _Pattern(lanes, shape, _traffic_of(key, addresses, width, lanes)))
            self._add(position, key, traffic)
            if key == "global.atomic":
                self._chunks[position].update(np.unique(addresses // CHUNK_BYTES).tolist())

    def copy(self, position: int, copy: Copy, lanes: Lanes) -> None:
        """Count one cp.async: both its sides are computed together.

        Args:
            position: Index of the instruction.
            copy: Flat: one element per thread of the batch.
            lanes: The threads that take part.
        """
        matter = copy.active if copy.width == LARGEST_COPY else copy.fetched  # sources that its cost depends on
        shape = np.concatenate(
            [
                (copy.targets - _line_of(copy.targets[copy.active]))[copy.active],
                np.where(matter, copy.sources - _line_of(copy.sources[matter]), -1)[copy.active],
                copy.fetched[copy.active],
            ]
        )
        traffic = self._known(position, "shared.copy", lanes, shape)
        if traffic is None:
            traffic = self._keep(position, "shared.copy", _Pattern(lanes, shape, _copied(copy)))
        self._add(position, "shared.copy", traffic[:_FIELDS])
        self._add(position, "global.copy", traffic[_FIELDS:])

    def add_visits(self, block: int, warps: int, threads: int) -> None:
        """Add visits of a block of the program counted elsewhere."""
        self._block_warps[block] += warps
        self._block_threads[block] += threads

    def add_traffic(self, position: int, key: str, count: MemoryCount) -> None:
        """Add an instruction's traffic counted elsewhere; `key` as in `memory`."""
        self._add(position, key, astuple(count))

    def add_chunks(self, position: int, chunks: Indices) -> None:
        """Add (count,) chunks of global memory touched by an atomic, counted elsewhere."""
        self._chunks[position].update(chunks.tolist())

    def bulk_copy(self, position: int, shared: MemoryCount, fetched: MemoryCount, *, tensor: int | None = None) -> None:
        """Count one bulk copy: its shared-memory writes and global-memory reads.

        Args:
            position: Index of the instruction.
            shared: Traffic of shared memory.
            fetched: Traffic of global memory.
            tensor: Address of the source tensor; None for another source, and for a copy out.
        """
        if tensor is not None and fetched.requests:
            self.fetched[tensor] += shared.bytes_used
        for key, count in (("shared.copy", shared), ("global.copy", fetched)):
            self._add(position, key, astuple(count))

    def _known(self, position: int, key: str, lanes: Lanes, shape: Addresses) -> tuple[int, ...] | None:
        """Return the traffic of a recent access with the same threads and shape; None if there is none."""
        patterns = self._patterns[position, key]
        return next((pattern.traffic for pattern in patterns if pattern.matches(lanes, shape)), None)

    def _keep(self, position: int, key: str, pattern: _Pattern) -> tuple[int, ...]:
        patterns = self._patterns[position, key]
        patterns.insert(0, pattern)
        del patterns[_PATTERNS_KEPT:]
        return pattern.traffic

    def _add(self, position: int, key: str, traffic: tuple[int, ...]) -> None:
        tally = self._traffic[position, key]
        for i, value in enumerate(traffic):
            tally[i] += value

    def lines(self) -> tuple[LineCount, ...]:
        """Return the counts of every executed instruction, in listing order."""
        by_position: defaultdict[int, dict[str, MemoryCount]] = defaultdict(dict)
        for (at, key), tally in self._traffic.items():
            count = MemoryCount(*tally)
            by_position[at][key] = replace(count, chunks=len(self._chunks[at])) if key == "global.atomic" else count
        counts = []
        for block in self._program.blocks:
            if not self._block_warps[block.index]:
                continue
            stop = block.stop if block.end is None else block.end + 1
            for position in range(block.first, stop):
                _, instruction = self._program.code[position]
                threads = self.guarded.get(position, self._block_threads[block.index])
                counts.append(
                    LineCount(
                        instruction.line,
                        instruction.opcode,
                        instruction.cls.value,
                        self._block_warps[block.index],
                        threads,
                        by_position.get(position, {}),
                    )
                )
        return tuple(counts)


def _line_of(addresses: Addresses) -> np.int64:
    """Return the start of the first address's cache line, which does not affect the traffic."""
    return np.int64(addresses[0] & -LINE_BYTES) if len(addresses) else np.int64(0)


def _traffic_of(key: str, addresses: Addresses, width: int, lanes: Lanes) -> tuple[int, ...]:
    """Return the `MemoryCount` fields of one access; arguments as in `Counters.memory`."""
    active = lanes.present().reshape(-1, WARP_SIZE)
    used = active.any(axis=1)
    by_warp, active = lanes.spread(addresses).reshape(-1, WARP_SIZE)[used], active[used]
    requests, used_bytes = len(by_warp), width * len(addresses)
    updates = int(atomic_updates(by_warp, active, shared=key.startswith("shared")).sum()) if "atomic" in key else 0
    if key.startswith("shared"):
        loads = key == "shared.load"
        waves = int(shared_wavefronts(by_warp, width, active, loads=loads).sum())
        return (
            requests,
            waves,
            0,
            used_bytes,
            int(ideal_wavefronts(by_warp, width, active, loads=loads).sum()),
            updates,
            0,
            0,
        )
    return requests, 0, int(global_sectors(by_warp, width, active).sum()), used_bytes, 0, updates, 0, 0


def _copied(copy: Copy) -> tuple[int, ...]:
    """Return the `MemoryCount` fields of a copy's shared side, then of its global side."""
    by_warp = copy.by_warp()
    active, fetched = by_warp.active, by_warp.fetched
    waves = copy_wavefronts(by_warp)
    ideal = np.minimum(waves, ideal_wavefronts(by_warp.targets, copy.width, active, loads=False))
    shared = active.any(axis=1).sum(), waves.sum(), 0, copy.width * active.sum(), ideal.sum(), 0, 0, 0
    global_side = fetched.any(axis=1).sum(), 0, copy_sectors(by_warp).sum(), copy.width * fetched.sum(), 0, 0, 0, 0
    return tuple(int(value) for value in (*shared, *global_side))


def summary(lines: Iterable[LineCount], within: Callable[[int], bool] = lambda _line: True) -> ExecutedCounts:
    """Sum the counts of instructions whose PTX line `within` accepts."""
    warps_class: Counter[str] = Counter()
    threads_class: Counter[str] = Counter()
    warps_opcode: Counter[str] = Counter()
    threads_opcode: Counter[str] = Counter()
    memory: dict[str, MemoryCount] = {}
    for line in lines:
        if not within(line.line):
            continue
        warps_class[line.cls] += line.warps
        threads_class[line.cls] += line.threads
        warps_opcode[line.opcode] += line.warps
        threads_opcode[line.opcode] += line.threads
        for key, value in line.memory.items():
            memory[key] = memory.get(key, MemoryCount()) + value
    return ExecutedCounts(
        sum(warps_class.values()),
        sum(threads_class.values()),
        dict(warps_class),
        dict(threads_class),
        dict(warps_opcode),
        dict(threads_opcode),
        memory,
    )
