"""Scheduling of loops: when looping threads must yield to others.

A thread that polls memory waits for another one, perhaps one that the schedule holds back. So a loop with a volatile or
atomic read yields after some iterations without a memory change, until everything else has run. A loop without such a
read cannot wait for anyone. It yields only if its registers repeat, so that it never ends: after 1, 2, 4, 8, … further
iterations, as in a search through a full hash table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.emulator.memory.order import order_of
from lab.emulator.pool import Location
from lab.emulator.program import Program
from lab.emulator.progress import MemoryProgress

POLLS_BEFORE_REST = 8
"""Iterations of a polling loop without a memory change before it yields."""

ROUNDS_BEFORE_LOOK = 1024
"""Iterations of any other loop before its registers are recorded, and before stores check for changes."""

Verdict = Literal["go", "rest", "note", "compare"]
"""The outcome of an iteration: continue; yield; record the registers; yield if they equal the recorded ones."""


@dataclass(frozen=True, slots=True)
class Poll:
    """A loop that may wait for another thread.

    Attributes:
        reads: Positions of its volatile and atomic reads.
    """

    reads: tuple[int, ...]


class Turns:
    """A counter of loop iterations without progress, for one batch."""

    def __init__(self, program: Program, progress: MemoryProgress) -> None:
        self._program, self._progress = program, progress
        self._loops: dict[tuple[int, int], Poll] = {}
        self._rounds: dict[Location, tuple[int, int]] = {}  # memory changes, iterations since
        self._total: dict[Location, int] = {}
        self.polled: dict[int, Poll] = {}

    def is_back(self, source: int, target: int) -> bool:
        """Return whether a branch between two blocks is a back edge."""
        ranks, blocks = self._program.priority, self._program.blocks
        return ranks[target] <= ranks[source] and blocks[target].function == blocks[source].function

    def round(self, source: int, at: Location) -> Verdict:
        """Count an iteration of the loop back to a location; return the verdict."""
        changes, rounds = self._rounds.get(at, (-1, 0))
        rounds = rounds + 1 if changes == self._progress.changes else 1
        self._rounds[at] = (self._progress.changes, rounds)
        total = self._total[at] = self._total.get(at, 0) + 1
        if total >= ROUNDS_BEFORE_LOOK:
            self._progress.exact = True
        if self._poll(source, at[1]).reads:
            return "rest" if rounds >= POLLS_BEFORE_REST else "go"
        if rounds < ROUNDS_BEFORE_LOOK:
            return "go"
        since = rounds - (1 << rounds.bit_length() - 1)
        if since == 0:
            return "note"
        return "compare" if since & since - 1 == 0 else "go"

    def rested(self, at: Location) -> None:
        """Restart the count for threads that have yielded."""
        self._rounds.pop(at, None)

    def _poll(self, source: int, head: int) -> Poll:
        poll = self._loops.get((source, head))
        if poll is None:
            poll = self._loops[source, head] = Poll(tuple(self._polling(source, head)))
            positions = self.polled.get(head, Poll(())).reads
            self.polled[head] = Poll((*positions, *(at for at in poll.reads if at not in positions)))
        return poll

    def _polling(self, source: int, head: int) -> list[int]:
        """Return the positions of volatile and atomic reads between a loop's head and its end."""
        program = self._program
        ranks, function = program.priority, program.blocks[head].function
        inside = [
            block
            for block in program.blocks
            if block.function == function and ranks[head] <= ranks[block.index] <= ranks[source]
        ]
        return [
            position
            for block in inside
            for position in range(block.first, block.stop if block.end is None else block.end + 1)
            if polls(program.code[position][1].opcode)
        ]


def polls(opcode: str) -> bool:
    """Return whether an instruction can see another thread's concurrent write: a strong read or a call."""
    family, *words = opcode.split(".")
    if family in ("atom", "call"):
        return True
    return family == "ld" and order_of(words).strong
