"""Collecting faults: each kind once a PTX line, with the first occurrence and a count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from lab.emulator.program import Program, text_of
from lab.emulator.results import Access, Finding, FindingKind

Array = NDArray[Any]
Index3 = tuple[int, int, int]


class Findings:
    """The faults of a launch."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._found: dict[tuple[str, int, str], Finding] = {}

    def add(
        self,
        kind: FindingKind,
        position: int | None,
        detail: str,
        *,
        where: Callable[[int], tuple[Index3, Index3]] | None = None,
        threads: Array | None = None,
        address: int | None = None,
        other: tuple[str, int, int] | None = None,
        count: int | None = None,
    ) -> None:
        """Note a fault.

        Args:
            kind: What is wrong.
            position: Index of the instruction, or None.
            detail: One sentence.
            where: Maps the machine's thread index to block and thread indices.
            threads: Threads at fault.
            address: Address that the first of them used.
            other: The other side of a race: kind, instruction index or -1, thread.
            count: Occurrences, where they are not the threads.
        """
        number = count if count is not None else (len(threads) if threads is not None else 1)
        key = (kind, -1 if position is None else position, "" if position is not None else detail)
        if key in self._found:
            old = self._found[key]
            self._found[key] = replace(old, count=old.count + number)
            return
        instruction = None if position is None else self._program.code[position][1]
        block, thread = where(int(threads[0])) if where and threads is not None and len(threads) else (None, None)
        side = None
        if other is not None and where is not None:
            there = self._program.code[other[1]][1] if other[1] >= 0 else None
            line = there.line if there else (instruction.line if instruction else 0)
            side = Access(other[0], line, where(other[2])[1], there.source if there else None)
        self._found[key] = Finding(
            kind,
            instruction.line if instruction else 0,
            text_of(instruction) if instruction else "",
            instruction.source if instruction else None,
            block,
            thread,
            address,
            detail,
            side,
            number,
        )

    def all(self) -> tuple[Finding, ...]:
        """Return what was found, in order."""
        return tuple(self._found.values())
