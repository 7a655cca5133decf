"""Tallies of executed instructions and their memory traffic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import astuple, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import LINE_BYTES, WARP_SIZE
from lab.emulator.program import Program
from lab.emulator.results import ExecutedCounts, LineCount, MemoryCount
from lab.hardware.memory import (
    Copy,
    copy_sectors,
    copy_wavefronts,
    global_sectors,
    ideal_wavefronts,
    shared_wavefronts,
    spread,
)

Array = NDArray[Any]

_PATTERNS_KEPT = 8
_FIELDS = len(fields(MemoryCount))


class Counters:
    """Tallies of a launch."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.block_threads = [0] * len(program.blocks)
        self.block_warps = [0] * len(program.blocks)
        self.guarded: dict[int, int] = dict.fromkeys(
            (i for i, (_, instruction) in enumerate(program.code) if instruction.predicate), 0
        )
        self._traffic: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0] * _FIELDS)
        self._patterns: defaultdict[tuple[int, str], list[tuple[Any, ...]]] = defaultdict(list)

    def visit(self, block: int, chosen: Array | None, threads: int) -> None:
        """Note that threads (all `threads` of the batch where None) ran through a block."""
        if chosen is None:
            self.block_threads[block] += threads
            self.block_warps[block] += threads // WARP_SIZE
        else:
            warps = chosen >> 5
            self.block_threads[block] += len(chosen)
            self.block_warps[block] += int(np.count_nonzero(warps[1:] != warps[:-1])) + 1

    def memory(
        self, position: int, key: str, addresses: Array, width: int, chosen: Array | None, *, threads: int
    ) -> None:
        """Note one memory instruction.

        Args:
            position: Index of the instruction.
            key: `shared.load` and so on.
            addresses: Byte addresses of the chosen threads; for shared memory, within the block.
            width: Bytes of a lane's access.
            chosen: Threads that take part, ascending, or None for all.
            threads: Threads of the batch.
        """
        if len(addresses):
            shape = addresses - _line_of(addresses)
            found = self._known(position, key, chosen, shape)
            if found is None:
                found = self._keep(position, key, chosen, shape, _traffic_of(key, addresses, width, chosen, threads))
            self._add(position, key, found)

    def copy(self, position: int, copy: Copy, chosen: Array | None) -> None:
        """Note one cp.async of the chosen threads: both its sides come from one look.

        Args:
            position: Index of the instruction.
            copy: Flat: one entry a thread of the batch.
            chosen: Threads that take part, ascending, or None for all.
        """
        shape = np.concatenate(
            [
                (copy.targets - _line_of(copy.targets[copy.active]))[copy.active],
                np.where(copy.fetched, copy.sources - _line_of(copy.sources[copy.fetched]), -1)[copy.active],
            ]
        )
        found = self._known(position, "shared.copy", chosen, shape)
        if found is None:
            found = self._keep(position, "shared.copy", chosen, shape, _copied(copy))
        self._add(position, "shared.copy", found[:_FIELDS])
        self._add(position, "global.copy", found[_FIELDS:])

    def bulk_copy(self, position: int, shared: MemoryCount, fetched: MemoryCount) -> None:
        """Note one bulk copy: what it wrote to shared memory and read from global memory."""
        for key, count in (("shared.copy", shared), ("global.copy", fetched)):
            self._add(position, key, astuple(count))

    def _known(self, position: int, key: str, chosen: Array | None, shape: Array) -> tuple[int, ...] | None:
        """The traffic of an access of the same shape, of the latest few."""
        return next((kept[2] for kept in self._patterns[position, key] if _matches(kept, chosen, shape)), None)

    def _keep(
        self, position: int, key: str, chosen: Array | None, shape: Array, traffic: tuple[int, ...]
    ) -> tuple[int, ...]:
        kept = self._patterns[position, key]
        kept.insert(0, (chosen, shape, traffic))
        del kept[_PATTERNS_KEPT:]
        return traffic

    def _add(self, position: int, key: str, traffic: tuple[int, ...]) -> None:
        tally = self._traffic[position, key]
        for i, value in enumerate(traffic):
            tally[i] += value

    def traffic(self, position: int) -> dict[str, MemoryCount]:
        """Return the traffic of one instruction."""
        return {key: MemoryCount(*tally) for (at, key), tally in self._traffic.items() if at == position}

    def lines(self) -> tuple[LineCount, ...]:
        """Return every executed instruction."""
        by_position: defaultdict[int, dict[str, MemoryCount]] = defaultdict(dict)
        for (at, key), tally in self._traffic.items():
            by_position[at][key] = MemoryCount(*tally)
        found = []
        for block in self._program.blocks:
            if not self.block_warps[block.index]:
                continue
            stop = block.stop if block.end is None else block.end + 1
            for position in range(block.first, stop):
                _, instruction = self._program.code[position]
                threads = self.guarded.get(position, self.block_threads[block.index])
                found.append(
                    LineCount(
                        instruction.line,
                        instruction.opcode,
                        instruction.cls.value,
                        self.block_warps[block.index],
                        threads,
                        by_position.get(position, {}),
                    )
                )
        return tuple(found)


def _line_of(addresses: Array) -> np.int64:
    """Where the 128-byte line of the first address begins: what an access costs does not depend on it."""
    return np.int64(addresses[0] & -LINE_BYTES) if len(addresses) else np.int64(0)


def _matches(kept: tuple[Any, ...], chosen: Array | None, shape: Array) -> bool:
    if (kept[0] is None) != (chosen is None):
        return False
    return (chosen is None or np.array_equal(kept[0], chosen)) and np.array_equal(kept[1], shape)


def _traffic_of(key: str, addresses: Array, width: int, chosen: Array | None, threads: int) -> tuple[int, ...]:
    active = spread(np.ones(len(addresses), bool), chosen, threads).reshape(-1, WARP_SIZE)
    used = active.any(axis=1)
    by_warp, active = spread(addresses, chosen, threads).reshape(-1, WARP_SIZE)[used], active[used]
    requests, used_bytes = len(by_warp), width * len(addresses)
    if key.startswith("shared"):
        loads = key == "shared.load"
        waves = int(shared_wavefronts(by_warp, width, active, loads=loads).sum())
        return requests, waves, 0, used_bytes, int(ideal_wavefronts(by_warp, width, active, loads=loads).sum())
    return requests, 0, int(global_sectors(by_warp, width, active).sum()), used_bytes, 0


def _copied(copy: Copy) -> tuple[int, ...]:
    """The fields of the shared side, then those of the global side."""
    by_warp = copy.by_warp()
    active, fetched = by_warp.active, by_warp.fetched
    waves = copy_wavefronts(by_warp)
    ideal = np.minimum(waves, ideal_wavefronts(by_warp.targets, copy.width, active, loads=False))
    shared = active.any(axis=1).sum(), waves.sum(), 0, copy.width * active.sum(), ideal.sum()
    read = fetched.any(axis=1).sum(), 0, copy_sectors(by_warp).sum(), copy.width * fetched.sum(), 0
    return tuple(int(value) for value in (*shared, *read))


def summary(lines: Iterable[LineCount], within: Callable[[int], bool] = lambda _line: True) -> ExecutedCounts:
    """Add up the lines that `within` accepts."""
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
