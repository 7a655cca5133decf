"""When threads that go round a loop have to let others run.

A thread that polls memory waits for another one, perhaps for one that the order of execution holds back. So a loop that
reads memory with a volatile or atomic instruction rests after some rounds in which no memory changed, until everything
else has had its turn. A loop without such a read cannot wait for anyone; it rests only where its registers are what
they were before, so that it will never end: a round before, or 2, 4, 8 and so on, as a search goes round a full table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.emulator.memory.order import order_of
from lab.emulator.pool import Location
from lab.emulator.program import Program
from lab.emulator.progress import MemoryProgress

POLLS_BEFORE_REST = 8
"""Rounds of a polling loop without a change of memory."""

ROUNDS_BEFORE_LOOK = 1024
"""Rounds of any other loop before its registers are noted, then twice as many, and so on; and the rounds after which
stores look whether they change memory."""

Verdict = Literal["go", "rest", "note", "compare"]
"""What a round leads to: on; let others run; note the registers; rest if they are as noted."""


@dataclass(frozen=True, slots=True)
class Poll:
    """A loop that may wait for another thread.

    Attributes:
        reads: Positions of its volatile and atomic reads.
    """

    reads: tuple[int, ...]


class Turns:
    """Counts the rounds of loops without progress, for one batch."""

    def __init__(self, program: Program, progress: MemoryProgress) -> None:
        self._program, self._progress = program, progress
        self._loops: dict[tuple[int, int], Poll] = {}
        self._rounds: dict[Location, tuple[int, int]] = {}  # changes of memory, rounds since
        self._total: dict[Location, int] = {}
        self.polled: dict[int, Poll] = {}

    def is_back(self, source: int, target: int) -> bool:
        """Return whether a branch between two blocks goes back to the head of a loop."""
        ranks, blocks = self._program.priority, self._program.blocks
        return ranks[target] <= ranks[source] and blocks[target].function == blocks[source].function

    def round(self, source: int, at: Location) -> Verdict:
        """Count a round of the loop from a block back to a location; return what it leads to."""
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
        """Begin to count anew for threads that have had to rest."""
        self._rounds.pop(at, None)

    def _poll(self, source: int, head: int) -> Poll:
        found = self._loops.get((source, head))
        if found is None:
            found = self._loops[source, head] = Poll(tuple(self._polling(source, head)))
            known = self.polled.get(head, Poll(())).reads
            self.polled[head] = Poll((*known, *(at for at in found.reads if at not in known)))
        return found

    def _polling(self, source: int, head: int) -> list[int]:
        """Return the positions of volatile and atomic reads in the blocks from a loop's head to its end."""
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
    """Return whether an instruction can see what another thread writes meanwhile: a strong read, or a call."""
    family, *words = opcode.split(".")
    if family in ("atom", "call"):
        return True
    return family == "ld" and order_of(words).strong
