"""Collecting faults: each kind once for a PTX line, with its first occurrence and a count."""

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
"""Kinds of faults that end a launch on a GPU."""

MOST_REPEATS: Final = 10_000
"""Times that one instruction may be at such a fault. Launches whose threads are each at fault once stay far below; a
loop that has left its array does not, and learns nothing more."""


class Findings:
    """The faults of a launch.

    Attributes:
        repeated: Index of an instruction that was at a fault more than `MOST_REPEATS` times, each of which ends a
            launch on a GPU; None while there is none.
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
        other: OtherSide | None = None,
        count: int | None = None,
        variable: str = "",
        remedy: str = "",
    ) -> None:
        """Note a fault, or add to the count of the same one.

        Args:
            kind: What is wrong.
            position: Index of the instruction; None where no instruction is to blame.
            detail: One sentence.
            batch: The batch of the threads.
            threads: The batch's indices of the threads at fault, the one to show first.
            address: The address that the first of them used.
            other: The other side of a race.
            count: Occurrences; None for the number of threads, or 1 without threads.
            variable: The variable and the element that the first of them touched.
            remedy: What would put it right.
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
            None if other is None or batch is None else self._access(other, batch, instruction),
            number,
            variable,
            remedy,
            warp,
            own_calls(instruction) if instruction else (),
        )

    def _access(self, other: OtherSide, batch: Batch, instruction: Instruction | None) -> Access:
        there = self._program.code[other.position][1] if other.position >= 0 else None
        at = there or instruction
        block, thread = batch.whereabouts(other.thread)
        return Access(
            other.kind,
            at.line if at else 0,
            thread,
            own_line(at) if at else None,
            block,
            batch.warp_of(other.thread - batch.first_thread),
            own_calls(at) if at else (),
        )

    def element(self, space: str, region: str, offset: int, width: int) -> str:
        """Name the variable and the element at an offset.

        Args:
            space: `shared`, `local` or `global`.
            region: The region's name, which is that of a buffer.
            offset: Bytes from the start of the space as a thread sees it, or of the buffer.
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
        """Return where an instruction stands, in words: its PTX line, and its source line where that is known."""
        instruction = self._program.code[position][1]
        source = own_line(instruction)
        return f"PTX line {instruction.line}" + (f" ({source.file}:{source.line})" if source else "")

    @property
    def stuck(self) -> bool:
        """Whether some threads could not go on, so that what they would have done is not known."""
        return any(kind in _STUCK for kind, _, _ in self._found)

    def all(self) -> tuple[Finding, ...]:
        """Return what was found, in the order of first occurrence."""
        return tuple(self._found.values())


def source_name(name: str) -> str:
    """Return the name that a variable of a function has in its source, from its mangled one."""
    if name.startswith("_ZN"):
        return _last_of(name[3:]) or name
    found = _LOCAL_NAME.search(name)
    return found[2][: int(found[1])] if name.startswith("_ZZ") and found else name


def _last_of(nested: str) -> str:
    """Return the last part of a name in namespaces: `smem` of `2ns4smemE`; empty where it is none, as of templates."""
    last = ""
    while found := _LENGTH.match(nested):
        end = found.end() + int(found[0])
        last, nested = nested[found.end() : end], nested[end:]
    return last if nested == "E" else ""


@dataclass(frozen=True, slots=True)
class BatchFindings:
    """The faults of a launch, noted by threads of one batch.

    Attributes:
        findings: Those of the launch.
        batch: The batch whose threads are at fault.
    """

    findings: Findings
    batch: Batch

    def element(self, space: str, region: str, offset: int, width: int) -> str:
        """Name the variable and the element at an offset. Arguments as in `Findings.element`."""
        return self.findings.element(space, region, offset, width)

    def line(self, position: int) -> str:
        """Return where an instruction stands, in words."""
        return self.findings.line(position)

    def add(
        self,
        kind: FindingKind,
        position: int,
        detail: str,
        threads: Indices,
        *,
        address: int | None = None,
        other: OtherSide | None = None,
        variable: str = "",
        remedy: str = "",
    ) -> None:
        """Note a fault of some threads of the batch, (count,) indices. Arguments as in `Findings.add`."""
        self.findings.add(
            kind,
            position,
            detail,
            batch=self.batch,
            threads=threads,
            address=address,
            other=other,
            variable=variable,
            remedy=remedy,
        )
