"""Whole-block barriers skipped by warps that exit later, so that the others are released without them.

`__syncthreads()` in code that not all threads of the block reach is undefined (CUDA programming guide, synchronization
functions), and exited threads don't count at barriers (PTX ISA, `exit`). So a warp that returns early is not a fault.
A warp that executes code after the barrier is, and so is one that leaves a loop with a barrier before the others do.
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
_WENT_ON = "the others continue past this barrier without waiting"
_LEFT = "the others left the loop after fewer iterations"


class BarrierCode(Protocol):
    """The part of `lab.emulator.program.Program` that has the control flow."""

    code: list[tuple[int, Instruction]]
    blocks: list[CodeBlock]
    entries: list[int]

    def successors(self, block: CodeBlock) -> list[int]:
        """Return the successors of a block within its function."""


def behind_barriers(program: BarrierCode, positions: Collection[int]) -> Mapping[int, frozenset[int]]:
    """Return the code whose execution shows that a thread has skipped a barrier.

    Args:
        program: The code.
        positions: Whole-block barriers, each at the end of a basic block.

    Returns:
        By position, the basic blocks with an effect that follow the barrier, never lead to it and are reachable without
        it. Barriers without such code are omitted.
    """
    follow = {block.index: program.successors(block) for block in program.blocks}
    lead: dict[int, list[int]] = {index: [] for index in follow}
    for index, targets in follow.items():
        for target in targets:
            lead[target].append(index)
    by_position: dict[int, frozenset[int]] = {}
    for block in program.blocks:
        if block.end is None or block.end not in positions:
            continue
        behind = _reached(follow, follow[block.index], block.index)
        around = _reached(follow, [program.entries[block.function]], block.index)
        before = _reached(lead, lead[block.index], -1)
        evidence = [index for index in (behind & around) - before if _has_effect(program, program.blocks[index])]
        if evidence:
            by_position[block.end] = frozenset(evidence)
    return by_position


def _reached(follow: Mapping[int, Sequence[int]], starts: Sequence[int], without: int) -> set[int]:
    """Return the blocks reachable from some, including these, without passing a certain block."""
    reached: set[int] = set()
    todo = list(starts)
    while todo:
        index = todo.pop()
        if index not in reached and index != without:
            reached.add(index)
            todo += follow[index]
    return reached


def _has_effect(program: BarrierCode, block: CodeBlock) -> bool:
    stop = block.stop if block.end is None else block.end + 1
    opcodes = [program.code[position][1].opcode.split(".") for position in range(block.first, stop)]
    return any(family in _EFFECTS and "warp" not in words for family, *words in opcodes)


class SkippedBarriers:
    """The threads of a batch that have been at its barriers and past them.

    Attributes:
        tracked: Basic blocks whose visits are recorded.
    """

    def __init__(self, behind: Mapping[int, frozenset[int]], threads: int) -> None:
        """Set up tracking; `behind` comes from `behind_barriers`."""
        self._behind, self._threads = behind, threads
        self.tracked = frozenset[int]().union(*behind.values())
        self._visited: dict[int, Mask] = {}
        self._passed: dict[int, Mask] = {}

    def visit(self, block: int, lanes: Lanes) -> None:
        """Record that threads execute a basic block."""
        self._note(self._visited, block, lanes.rows)

    def pass_barrier(self, position: int, threads: Indices | slice) -> None:
        """Record that threads pass a barrier."""
        self._note(self._passed, position, threads)

    def _note(self, table: dict[int, Mask], key: int, threads: Indices | slice) -> None:
        if key not in table:
            table[key] = np.zeros(self._threads, np.bool_)
        table[key][threads] = True

    def why(self, position: int, missing: Indices) -> str:
        """Explain why (count,) exited threads wrongly miss a barrier; empty if they don't."""
        visits = [self._visited[block] for block in self._behind.get(position, ()) if block in self._visited]
        if any(visited[missing].any() for visited in visits):
            return _WENT_ON
        passed = self._passed.get(position)
        return _LEFT if passed is not None and passed[missing].any() else ""
