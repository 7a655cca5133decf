"""What executed instructions cost: shared-memory wavefronts, global-memory sectors, and their tallies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.program import Program
from lab.emulator.results import ExecutedCounts, LineCount, MemoryCount

Array = NDArray[Any]

BANKS, BANK_BYTES, SECTOR_BYTES, LANES = 32, 4, 32, 32
_PATTERNS_KEPT = 8


def phase_lanes(width: int) -> int:
    """Lanes that shared memory serves together: 32 up to 4 bytes a lane, 16 at 8, 8 at 16."""
    return {8: 16, 16: 8}.get(width, LANES)


def shared_wavefronts(addresses: Array, width: int, active: Array) -> Array:
    """Return the passes through shared memory that each warp's request takes.

    In each phase every bank delivers one 4-byte word a pass; lanes that touch the same word share it. So a
    phase takes as many passes as the busiest bank has distinct words.

    Args:
        addresses: Byte addresses, (warps, 32).
        width: Bytes of a lane's access: 1, 2, 4, 8 or 16.
        active: Lanes that take part, (warps, 32).

    Returns:
        Wavefronts of each warp, 0 where no lane is active.
    """
    warps = len(addresses)
    lanes = phase_lanes(width)
    words_each = max(1, width // BANK_BYTES)
    first = (addresses // BANK_BYTES).reshape(-1, lanes)
    words = (first[:, :, None] + np.arange(words_each)).reshape(len(first), -1)
    on = np.repeat(active.reshape(-1, lanes), words_each, axis=1)
    result: Array = _busiest_bank(words, on).reshape(warps, -1).sum(axis=1)
    return result


def _busiest_bank(words: Array, on: Array) -> Array:
    """Return, for each row, the largest number of distinct words in one bank."""
    ordered = np.sort(np.where(on, words, -1), axis=1)
    distinct = ordered >= 0
    distinct[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    rows = np.repeat(np.arange(len(words)), words.shape[1])[distinct.reshape(-1)]
    banks = ordered[distinct] % BANKS
    counts = np.bincount(rows * BANKS + banks, minlength=len(words) * BANKS)
    result: Array = counts.reshape(-1, BANKS).max(axis=1)
    return result


def ideal_wavefronts(width: int, active: Array) -> Array:
    """Return the passes without bank conflicts: one for each phase with an active lane. Arguments as above."""
    result: Array = active.reshape(len(active), -1, phase_lanes(width)).any(axis=2).sum(axis=1)
    return result


def global_sectors(addresses: Array, width: int, active: Array) -> Array:
    """Return the distinct 32-byte sectors that each warp's request touches. Arguments as above."""
    first, last = addresses // SECTOR_BYTES, (addresses + width - 1) // SECTOR_BYTES
    both = np.concatenate([first, last], axis=1)
    on = np.concatenate([active, active], axis=1)
    ordered = np.sort(np.where(on, both, -1), axis=1)
    distinct = ordered >= 0
    distinct[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    result: Array = distinct.sum(axis=1)
    return result


class Counters:
    """Tallies of a launch."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.block_threads = [0] * len(program.blocks)
        self.block_warps = [0] * len(program.blocks)
        self.guarded: dict[int, int] = dict.fromkeys(
            (i for i, (_, instruction) in enumerate(program.code) if instruction.predicate), 0
        )
        self._traffic: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0] * 5)
        self._patterns: defaultdict[tuple[int, str], list[tuple[Any, ...]]] = defaultdict(list)

    def visit(self, block: int, chosen: Array | None, threads: int) -> None:
        """Note that threads (all `threads` of the batch where None) ran through a block."""
        if chosen is None:
            self.block_threads[block] += threads
            self.block_warps[block] += threads // LANES
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
        if not len(addresses):
            return
        relative = addresses - addresses[0]
        phase = int(addresses[0]) % (BANKS * BANK_BYTES)
        kept = self._patterns[position, key]
        result = next((entry[3] for entry in kept if _matches(entry, phase, chosen, relative)), None)
        if result is None:
            result = _traffic_of(key, addresses, width, chosen, threads=threads)
            kept.insert(0, (phase, chosen, relative, result))
            del kept[_PATTERNS_KEPT:]
        tally = self._traffic[position, key]
        for i, value in enumerate(result):
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


def _matches(entry: tuple[Any, ...], phase: int, chosen: Array | None, relative: Array) -> bool:
    if entry[0] != phase or (entry[1] is None) != (chosen is None):
        return False
    return (chosen is None or np.array_equal(entry[1], chosen)) and np.array_equal(entry[2], relative)


def _traffic_of(key: str, addresses: Array, width: int, chosen: Array | None, *, threads: int) -> tuple[int, ...]:
    if chosen is None:
        by_warp, active = addresses.reshape(-1, LANES), np.ones((threads // LANES, LANES), bool)
    else:
        full, on = np.zeros(threads, np.int64), np.zeros(threads, bool)
        full[chosen], on[chosen] = addresses, True
        by_warp, active = full.reshape(-1, LANES), on.reshape(-1, LANES)
        used = active.any(axis=1)
        by_warp, active = by_warp[used], active[used]
    requests, used_bytes = len(by_warp), width * len(addresses)
    if key.startswith("shared"):
        waves = shared_wavefronts(by_warp, width, active).sum()
        return requests, int(waves), 0, used_bytes, int(ideal_wavefronts(width, active).sum())
    return requests, 0, int(global_sectors(by_warp, width, active).sum()), used_bytes, 0


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
