"""Which source line each instruction of a listing comes from, as far as the listing itself does not say it.

PTX says it in its `.loc` directives. SASS does not: the cubin's line table does. Committed results hold no cubins, so
the table of the kernel that is shown stands beside its listing, as `kernel.lines`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from lab.base.folder import Folder
from lab.toolchain.cubin.lines import line_table

LINES: Final = "kernel.lines"
"""File of a published variant: a line `<byte offset, hexadecimal> <source line>` where a source line begins."""

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)


def source_number(ptx: str, sources: Collection[str]) -> int:
    """The number by which the `.loc` directives of a module name its source; 1 where no `.file` directive says it.

    Args:
        ptx: The whole module.
        sources: What its source file may be called, without folders.
    """
    numbers = [int(number) for number, name in _FILE.findall(ptx) if PurePosixPath(name).name in sources]
    return numbers[0] if numbers else 1


def sass_places(folder: Folder, function: str, sources: Collection[str]) -> tuple[tuple[int, int], ...]:
    """Byte offsets of a function at which a line of the source begins, with that line.

    Args:
        folder: The variant's folder, with `kernel.cubin` or `kernel.lines`.
        function: The kernel's symbol.
        sources: What the source file may be called, without folders.

    Returns:
        In ascending order; line 0 stands for instructions of other files. Empty where nothing is known: without a
        cubin, without a line table, or with a damaged one.
    """
    try:
        starts = line_table(folder.read("kernel.cubin") or b"").starts(function)
    except ValueError:
        return _parse(folder.read_text(LINES) or "")
    lines = ((at, one.line if PurePosixPath(one.file).name in sources else 0) for at, one in sorted(starts.items()))
    return tuple(_changes(lines))


def text_of(places: tuple[tuple[int, int], ...]) -> str:
    """The text of `kernel.lines`."""
    return "".join(f"{offset:04x} {line}\n" for offset, line in places)


def _parse(text: str) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((int(offset, 16), int(line)) for offset, line in map(str.split, text.splitlines()))
    except ValueError:
        return ()


def _changes(lines: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Only the places at which the line is another one than before."""
    return (one for before, one in pairwise(((0, 0), *lines)) if one[1] != before[1])
