"""Collection of faults: each kind once per PTX line, with its first occurrence and a count."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from lab.emulator.arrays import Indices
from lab.emulator.batch import Batch
from lab.emulator.errors import text_of
from lab.emulator.program import Program
from lab.emulator.results import Access, Finding, FindingKind
from lab.emulator.sources import own_calls, own_line
from lab.isa.model import Instruction

_LOCAL_NAME = re.compile(r".*E(\d+)(\D.*)$")  # the part after the function that holds it: _ZZ1kPjE4tile

_LENGTH = re.compile(r"\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class OtherSide:
    """The other access of a race.

    Attributes:
        kind: `read`, `write` or `atomic`.
        position: Index of its instruction, or -1 where it is the same instruction.
        thread: Its thread, numbered through the launch.
    """

    kind: str
    position: int
    thread: int


_STUCK = ("mbarrier-deadlock", "deadlock", "endless-loop", "unfinished")

_ENDS_LAUNCH: Final = ("out-of-bounds", "misaligned")
"""Fault kinds that end a launch on a GPU."""

MOST_REPEATS: Final = 10_000
"""The limit of such faults per instruction."""


class Findings:
    """The faults of a launch.

    Attributes:
        repeated: Index of an instruction with more than `MOST_REPEATS` faults that end a launch on a GPU; None while
            there is none.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._found: dict[tuple[str, int, str], Finding] = {}
        self._repeats: Counter[int] = Counter()  # by instruction
        self.repeated: int | None = None

    def add(
        self,
        kind: FindingKind,
        position: int | None,
        detail: str,
        *,
        batch: Batch | None = None,
        threads: Indices | None = None,
        address: int | None = None,
        other_side: OtherSide | None = None,
        count: int | None = None,
        variable: str = "",
        remedy: str = "",
    ) -> None:
        """Record a fault, or increase the count of an existing one.

        Args:
            kind: The kind of fault.
            position: Index of the instruction; None where the fault has no instruction.
            detail: One sentence.
            batch: The batch of the threads.
            threads: Indices within the batch of the faulting threads; the first one is shown.
            address: The address the first of them used.
            other_side: The other side of a race.
            count: Occurrences; None for the number of threads, or 1 without threads.
            variable: The variable and element the first of them accessed.
            remedy: A suggested fix.
        """
        number = count if count is not None else (len(threads) if threads is not None else 1)
        key = (kind, -1 if position is None else position, "" if position is not None else detail)
        if position is not None and kind in _ENDS_LAUNCH:
            self._repeats[position] += 1
            if self._repeats[position] > MOST_REPEATS:
                self.repeated = position
        if key in self._found:
            old = self._found[key]
            self._found[key] = replace(old, count=old.count + number)
            return
        instruction = None if position is None else self._program.code[position][1]
        block = thread = warp = None
        if batch is not None and threads is not None and len(threads):
            (block, thread), warp = batch.where(int(threads[0])), batch.warp_of(int(threads[0]))
        self._found[key] = Finding(
            kind,
            instruction.line if instruction else 0,
            text_of(instruction) if instruction else "",
            own_line(instruction) if instruction else None,
            block,
            thread,
            address,
            detail,
            None if other_side is None or batch is None else self._access(other_side, batch, instruction),
            number,
            variable,
            remedy,
            warp,
            own_calls(instruction) if instruction else (),
        )

    def _access(self, other_side: OtherSide, batch: Batch, instruction: Instruction | None) -> Access:
        other_instruction = self._program.code[other_side.position][1] if other_side.position >= 0 else None
        at = other_instruction or instruction
        block, thread = batch.whereabouts(other_side.thread)
        return Access(
            other_side.kind,
            at.line if at else 0,
            thread,
            own_line(at) if at else None,
            block,
            batch.warp_of(other_side.thread - batch.first_thread),
            own_calls(at) if at else (),
        )

    def element(self, space: str, region: str, offset: int, width: int) -> str:
        """Return a description of the variable and element at an offset.

        Args:
            space: `shared`, `local` or `global`.
            region: The region's name: the buffer's.
            offset: Byte offset in the space as a thread sees it, or in the buffer.
            width: Bytes of an element.
        """
        if space == "global":
            return f"{region}[{offset // width}], elements of {width} bytes"
        for (_, name), place in self._program.places.items():
            if (
                place.space == space
                and place.offset <= offset
                and (offset < place.offset + place.size or not place.size)
            ):
                short, size = source_name(name), place.size // width
                extent = f"{short}[{size}]" if place.size else f"dynamic {short}[]"
                return f"{short}[{(offset - place.offset) // width}] of {extent}, elements of {width} bytes"
        return ""

    def line(self, position: int) -> str:
        """Describe an instruction's location: its PTX line and, if known, its source line."""
        instruction = self._program.code[position][1]
        source = own_line(instruction)
        return f"PTX line {instruction.line}" + (f" ({source.file}:{source.line})" if source else "")

    @property
    def stuck(self) -> bool:
        """Return whether some threads could not continue, so that their further effects are unknown."""
        return any(kind in _STUCK for kind, _, _ in self._found)

    def all(self) -> tuple[Finding, ...]:
        """Return all findings in order of first occurrence."""
        return tuple(self._found.values())


def source_name(name: str) -> str:
    """Return the source name of a function's variable from its mangled name."""
    if name.startswith("_ZN"):
        return _last_of(name[3:]) or name
    match = _LOCAL_NAME.search(name)
    return match[2][: int(match[1])] if name.startswith("_ZZ") and match else name


def _last_of(nested: str) -> str:
    """Return the last component of a nested mangled name (`smem` of `2ns4smemE`); empty for templates."""
    last = ""
    while match := _LENGTH.match(nested):
        end = match.end() + int(match[0])
        last, nested = nested[match.end() : end], nested[end:]
    return last if nested == "E" else ""


@dataclass(frozen=True, slots=True)
class BatchFindings:
    """The faults of a launch, recorded by threads of one batch.

    Attributes:
        findings: The launch's findings.
        batch: The batch of the faulting threads.
    """

    findings: Findings
    batch: Batch

    def element(self, space: str, region: str, offset: int, width: int) -> str:
        """Return a description of the variable and element at an offset. Arguments as in `Findings.element`."""
        return self.findings.element(space, region, offset, width)

    def line(self, position: int) -> str:
        """Describe an instruction's location."""
        return self.findings.line(position)

    def add(
        self,
        kind: FindingKind,
        position: int,
        detail: str,
        threads: Indices,
        *,
        address: int | None = None,
        other_side: OtherSide | None = None,
        variable: str = "",
        remedy: str = "",
    ) -> None:
        """Record a fault of some threads of the batch, (count,) indices. Arguments as in `Findings.add`."""
        self.findings.add(
            kind,
            position,
            detail,
            batch=self.batch,
            threads=threads,
            address=address,
            other_side=other_side,
            variable=variable,
            remedy=remedy,
        )
