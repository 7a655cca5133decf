"""Barriers of a whole block that some warps skip: they end later, so that the others go on, and were never there.

`__syncthreads()` in code that not all threads of the block reach is undefined (CUDA programming guide, synchronization
functions), and threads that have ended are not waited for (PTX ISA, `exit`). So a warp that returns early is no fault.
One that goes on with the code behind the barrier is, and so is one that leaves a loop with a barrier in it before the
others do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np

from lab.emulator.arrays import Indices, Mask
from lab.emulator.control import CodeBlock
from lab.emulator.lanes import Lanes
from lab.isa.model import Instruction

_EFFECTS = frozenset({"st", "atom", "red", "call", "cp", "stmatrix", "wmma", "bar", "barrier"})
_WENT_ON = "the others go on behind this barrier without it"
_LEFT = "the others have left the loop after fewer rounds"


class BarrierCode(Protocol):
    """The part of `lab.emulator.program.Program` that shows how blocks of code follow each other."""

    code: list[tuple[int, Instruction]]
    blocks: list[CodeBlock]
    entries: list[int]

    def successors(self, block: CodeBlock) -> list[int]:
        """Return the blocks of the same function that can follow a block."""


def behind_barriers(program: BarrierCode, positions: Collection[int]) -> Mapping[int, frozenset[int]]:
    """Return the code that shows that a thread has skipped a barrier.

    Args:
        program: The code.
        positions: Barriers that all threads of a block must reach, each at the end of a block of code.

    Returns:
        Position to the blocks of code that have an effect, follow the barrier, never lead to it and can be reached
        without it. Barriers without such code are left out.
    """
    follow = {block.index: program.successors(block) for block in program.blocks}
    lead: dict[int, list[int]] = {index: [] for index in follow}
    for index, targets in follow.items():
        for target in targets:
            lead[target].append(index)
    found: dict[int, frozenset[int]] = {}
    for block in program.blocks:
        if block.end is None or block.end not in positions:
            continue
        behind = _reached(follow, follow[block.index], block.index)
        around = _reached(follow, [program.entries[block.function]], block.index)
        before = _reached(lead, lead[block.index], -1)
        some = [index for index in (behind & around) - before if _has_effect(program, program.blocks[index])]
        if some:
            found[block.end] = frozenset(some)
    return found


def _reached(follow: Mapping[int, Sequence[int]], starts: Sequence[int], without: int) -> set[int]:
    """Return the blocks that can be reached from some, these included, on ways without a certain block."""
    found: set[int] = set()
    todo = list(starts)
    while todo:
        index = todo.pop()
        if index not in found and index != without:
            found.add(index)
            todo += follow[index]
    return found


def _has_effect(program: BarrierCode, block: CodeBlock) -> bool:
    stop = block.stop if block.end is None else block.end + 1
    opcodes = [program.code[position][1].opcode.split(".") for position in range(block.first, stop)]
    return any(family in _EFFECTS and "warp" not in words for family, *words in opcodes)


class SkippedBarriers:
    """The threads of a batch that have been at its barriers, and behind them.

    Attributes:
        tracked: Blocks of code whose visits are noted.
    """

    def __init__(self, behind: Mapping[int, frozenset[int]], threads: int) -> None:
        """Begin; `behind` is what `behind_barriers` returns."""
        self._behind, self._threads = behind, threads
        self.tracked = frozenset[int]().union(*behind.values())
        self._visited: dict[int, Mask] = {}
        self._passed: dict[int, Mask] = {}

    def visit(self, block: int, lanes: Lanes) -> None:
        """Note that threads execute a block of code."""
        self._note(self._visited, block, lanes.rows)

    def pass_barrier(self, position: int, threads: Indices | slice) -> None:
        """Note that threads go on behind a barrier."""
        self._note(self._passed, position, threads)

    def _note(self, table: dict[int, Mask], key: int, threads: Indices | slice) -> None:
        if key not in table:
            table[key] = np.zeros(self._threads, np.bool_)
        table[key][threads] = True

    def why(self, position: int, missing: Indices) -> str:
        """Say why (count,) threads that have ended are to blame for missing a barrier; empty where they are not."""
        visits = [self._visited[block] for block in self._behind.get(position, ()) if block in self._visited]
        if any(visited[missing].any() for visited in visits):
            return _WENT_ON
        passed = self._passed.get(position)
        return _LEFT if passed is not None and passed[missing].any() else ""
