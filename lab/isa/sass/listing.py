"""What nvdisasm's text listing says beyond its JSON: lines, labels, jump tables, live registers, entry points.

The listing is that of ``nvdisasm -c -plr -lrm count``. Its instruction lines begin with the byte offset as a
comment, ``/*01e0*/``, and end in a table of live registers whose first column is the general-purpose ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SECTION = re.compile(r'\s*+\.section\s++"?\.text\.([^,"\s]++)')
_ENTRY = re.compile(r'\s*+\.other\s++"?([^,"\s]++)"?,\s*+@"STO_CUDA_ENTRY')
_TARGET = re.compile(r"\s*+\.target\s++(\w++)")
_FLAGS = re.compile(r"\s*+\.headerflags\s++(.*+)")
"""Before CUDA 13 an image had no `.target`: its ELF header's flags name it, and `a` as `ACCELERATORS`."""
_FLAG_SM = re.compile(r"\bEF_CUDA_SM(\d++)")
_LABEL = re.compile(r'"?([^\s:"/]++)"?:(?:\s|\Z)')
_INSTRUCTION = re.compile(r"\s*+/\*([0-9a-f]{1,16})\*/")
_TABLES = re.compile(r'BRANCH_TARGETS ([^"]*+)"')
_LIVE = re.compile(r"//\s*+\|\s*+(\d{1,9})")
_GPR_FIRST = re.compile(r"\s*+//\s*+\|\s*+GPR\b")


@dataclass
class FunctionListing:
    """One `.text` section; every map's keys or values are byte offsets in it.

    Attributes:
        lines: Offset to line of the listing, from 1.
        live: Offset to live general-purpose registers.
        labels: Label to offset.
        tables: Offset of an indexed branch to the labels that it can reach.
    """

    lines: dict[int, int] = field(default_factory=dict)
    live: dict[int, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class Listing:
    """The listing of a cubin.

    Attributes:
        target: ``sm_90a``; empty where the listing does not say.
        functions: Section name without `.text.` to what stands there.
        entries: Symbols of the kernels.
    """

    target: str = ""
    functions: dict[str, FunctionListing] = field(default_factory=dict)
    entries: set[str] = field(default_factory=set)


def read_listing(text: str) -> Listing:
    """Collect what a listing says; text of any other kind gives an empty result."""
    listing = Listing()
    current = FunctionListing()
    pending: list[str] = []  # labels that wait for the instruction behind them
    counted = False
    for number, line in enumerate(text.split("\n"), start=1):
        if match := _INSTRUCTION.match(line):
            offset = int(match[1], 16)
            _read_instruction(current, line, offset, number, counted=counted)
            current.labels.update(dict.fromkeys(pending, offset))
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
        elif (match := _FLAGS.match(line)) and (machine := _FLAG_SM.search(match[1])):
            listing.target = f"sm_{machine[1]}" + ("a" if "EF_CUDA_ACCELERATORS" in match[1] else "")
        elif _GPR_FIRST.match(line):
            counted = True
    return listing


def _read_instruction(current: FunctionListing, line: str, offset: int, number: int, *, counted: bool) -> None:
    current.lines[offset] = number
    if counted and (live := _LIVE.search(line)):
        current.live[offset] = int(live[1])
    if table := _TABLES.search(line):
        current.tables[offset] = tuple(label.strip() for label in table[1].split(","))
