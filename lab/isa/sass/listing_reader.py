"""Reads the text of nvdisasm's listing: sections, instructions, labels, jump tables, live registers, entry points.

The listing is that of ``nvdisasm -c -plr -lrm count``, or without the live registers. An instruction's line begins with
its byte offset as a comment, ``/*01e0*/``, and may end in a table of live registers whose first column holds the
general-purpose ones.

Nothing is resolved here: operands and labels stay text. `lab.isa.sass.module` builds the instruction model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.base.errors import Location, ReaderError

_SECTION = re.compile(r'\s*+\.section\s++"?\.text\.([^,"\s]++)')
_ENTRY = re.compile(r'\s*+\.other\s++"?([^,"\s]++)"?,\s*+@"STO_CUDA_ENTRY')
_TARGET = re.compile(r"\s*+\.target\s++(\w++)")
_FLAGS = re.compile(r"\s*+\.headerflags\s")
"""Before CUDA 13 an image had no `.target`. The flags of its ELF header name it, and `a` as `ACCELERATORS`."""
_FLAG_SM = re.compile(r"\bEF_CUDA_SM(\d++)")
_LABEL = re.compile(r'"?([^\s:"/]++)"?:(?:\s|\Z)')
_OFFSET = re.compile(r"\s*+/\*([0-9a-f]{1,16})\*/\s*+(?!\.)")  # data, such as `.byte`, is not an instruction
_INSTRUCTION = re.compile(r"(?:@(!?)([A-Z0-9]++)\s++)?([A-Z][\w.]*+)\s*+([^;]*+);")
_TABLES = re.compile(r'BRANCH_TARGETS ([^"]*+)"')
_LIVE = re.compile(r"//\s*+\|\s*+(\d{1,9})")
_GPR_FIRST = re.compile(r"\s*+//\s*+\|\s*+GPR\b")


class ListedInstruction(NamedTuple):
    """One instruction of the listing.

    Attributes:
        offset: Byte offset in the section.
        line: Line of the listing, from 1.
        predicate: Guard register without ``@`` and ``!``; empty without a guard.
        negated: The guard is negated.
        opcode: With every modifier: ``LDS.128``.
        operands: Text between the opcode and the semicolon, remarks such as ``(*"BRANCH_TARGETS …"*)`` included.
        live: Live general-purpose registers, or None if the listing does not count them.
    """

    offset: int
    line: int
    predicate: str
    negated: bool
    opcode: str
    operands: str
    live: int | None

    @property
    def table(self) -> tuple[str, ...]:
        """The labels that an indexed branch can reach."""
        match = _TABLES.search(self.operands)
        return tuple(label.strip() for label in match[1].split(",")) if match else ()


@dataclass
class FunctionListing:
    """One `.text` section.

    Attributes:
        instructions: In listing order.
        labels: Maps a label to the byte offset of the instruction after it.
    """

    instructions: list[ListedInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


@dataclass
class Listing:
    """The listing of a cubin.

    Attributes:
        target: ``sm_90a``; empty if the listing does not name it.
        functions: Maps a section's name without `.text.` to its contents.
        entries: Symbols of the kernels.
    """

    target: str = ""
    functions: dict[str, FunctionListing] = field(default_factory=dict)
    entries: set[str] = field(default_factory=set)


def read_listing(text: str, file: str = "<sass>") -> Listing:
    """Read a listing. Any other text gives an empty result.

    Args:
        text: The listing.
        file: Its name, for messages.

    Raises:
        ReaderError: A line of a `.text` section starts like an instruction but cannot be parsed.
    """
    listing = Listing()
    current: FunctionListing | None = None
    pending: list[str] = []  # labels of the next instruction
    counted = False
    for number, line in enumerate(text.split("\n"), start=1):
        if match := _OFFSET.match(line):
            if current is None:
                continue
            instruction = _instruction(line, match, number, counted=counted)
            if instruction is None:
                raise ReaderError("this instruction cannot be read", Location(file, number))
            current.instructions.append(instruction)
            if pending:
                current.labels.update(dict.fromkeys(pending, instruction.offset))
                pending = []
        elif match := _SECTION.match(line):
            current = listing.functions.setdefault(match[1], FunctionListing())
            pending = []
        elif match := _LABEL.match(line):
            pending.append(match[1])
        elif match := _ENTRY.match(line):
            listing.entries.add(match[1])
        elif match := _TARGET.match(line):
            listing.target = match[1]
        elif _FLAGS.match(line) and (machine := _FLAG_SM.search(line)):
            listing.target = f"sm_{machine[1]}" + ("a" if "EF_CUDA_ACCELERATORS" in line else "")
        elif _GPR_FIRST.match(line):
            counted = True
    return listing


def _instruction(line: str, offset: re.Match[str], number: int, *, counted: bool) -> ListedInstruction | None:
    match = _INSTRUCTION.match(line, offset.end())
    if match is None:
        return None
    live = _LIVE.search(line, match.end()) if counted else None
    return ListedInstruction(
        offset=int(offset[1], 16),
        line=number,
        predicate=match[2] or "",
        negated=bool(match[1]),
        opcode=match[3],
        operands=match[4],
        live=int(live[1]) if live else None,
    )
