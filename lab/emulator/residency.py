"""Detect blocks that wait for each other and so must be resident together.

Blocks of a grid run one after another, each to completion, in both orders. A block that polls memory in vain after all
earlier blocks have exited waits for a later one. Locks and last-block reductions do not: their holders and predecessors
exit by themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache

from lab.emulator.allowance import Outgrown
from lab.emulator.batch import make_batch
from lab.emulator.control import CodeBlock
from lab.emulator.floats import exact_arithmetic
from lab.emulator.machine import Interpreter, LaunchState, StepBudgetSpent
from lab.emulator.program import Program
from lab.emulator.results import BlockWait
from lab.emulator.special import StepClock
from lab.emulator.turns import polls
from lab.isa.model import Instruction

_MOST_WAKES = 64
"""The polls in vain of all a block's threads before it counts as waiting: polls with a timeout end earlier."""

_NAME = re.compile(r"[%$\w.]+")
_NEAR = frozenset({"shared", "shared::cta", "shared::cluster", "local", "param", "const"})
_UNCACHED = frozenset({"cv", "cg"})  # polls in code older than volatile and relaxed loads
_STORES = ("st", "red")


def find_block_waits(fresh: Callable[[], LaunchState]) -> BlockWait:
    """Return which blocks the blocks of a launch wait for.

    Args:
        fresh: Returns the launch in its initial state, each time with its own memory. Its allowance ends a search that
            takes too long; a wait not seen until then is not reported.

    Raises:
        UnsupportedInstruction: the emulator does not support an instruction.
    """
    for backwards, wait in ((False, BlockWait.ANY), (True, BlockWait.EARLIER)):
        if _some_block_waits(fresh(), backwards=backwards):
            return wait
    return BlockWait.NONE


def _some_block_waits(launch: LaunchState, *, backwards: bool) -> bool:
    cluster, clock = math.prod(launch.cluster), StepClock()
    firsts = range(0, math.prod(launch.grid), cluster)
    with exact_arithmetic():
        try:
            for first in reversed(firsts) if backwards else firsts:
                batch = make_batch(launch.grid, launch.block, first, cluster, cluster=launch.cluster)
                if _waits(launch, Interpreter(launch, batch, clock)):
                    return True
        except (Outgrown, StepBudgetSpent):
            pass  # the search took too long
    return False


def _waits(launch: LaunchState, interpreter: Interpreter) -> bool:
    """Run one cluster alone; return whether it cannot finish without other blocks."""
    changes, wakes = -1, 0
    while (turn := interpreter.turn()) != "done":
        if launch.progress.changes != changes:
            changes, wakes = launch.progress.changes, 0
        wakes += 1
        if (turn == "stuck" or wakes > _MOST_WAKES) and not interpreter.nudge():
            return True
    return False


@lru_cache(maxsize=4)  # a kernel is launched repeatedly
def may_wait(program: Program) -> bool:
    """Return whether a kernel's text has a loop that may wait for another block.

    This is a loop with a branch that depends on a strong read of global memory inside it.
    """
    if not any(_polls_far(instruction) for _, instruction in program.code):
        return False
    ranks = program.priority
    for source in program.blocks:
        for head in program.successors(source):
            if ranks[head] <= ranks[source.index]:
                inside = [
                    block
                    for block in program.blocks
                    if block.function == source.function and ranks[head] <= ranks[block.index] <= ranks[source.index]
                ]
                if _branches_on_polls(program, inside):
                    return True
    return False


def _polls_far(instruction: Instruction) -> bool:
    """Return whether an instruction can see a concurrent write of another block."""
    family, *words = instruction.opcode.split(".")
    if family == "call" or not _NEAR.isdisjoint(words):
        return False
    return polls(instruction.opcode) or (family == "ld" and not _UNCACHED.isdisjoint(words))


def _branches_on_polls(program: Program, blocks: list[CodeBlock]) -> bool:
    """Return whether a branch in a loop depends on a value the loop polls; calls count as polls."""
    code = [
        program.code[position][1]
        for block in blocks
        for position in range(block.first, block.stop if block.end is None else block.end + 1)
    ]
    polled: set[str] = set()
    in_memory = False
    before: tuple[int, bool] | None = None
    while before != (len(polled), in_memory):
        before = len(polled), in_memory
        for instruction in code:
            family = instruction.opcode.partition(".")[0]
            sources = instruction.operands if family in _STORES else instruction.operands[1:]
            depends = instruction.predicate in polled or any(polled & set(_NAME.findall(text)) for text in sources)
            if family in _STORES:
                in_memory = in_memory or depends
            elif depends or _polls_far(instruction) or family == "call" or (in_memory and family == "ld"):
                polled.update(name for text in instruction.operands[:1] for name in _NAME.findall(text))
    return any(instruction.predicate in polled and instruction.opcode.startswith("bra") for instruction in code)
