"""Source lines of a listing's instructions, where the listing itself does not give them.

PTX has them in its `.loc` directives, SASS in the cubin's line table. Committed results hold no cubins, so the table
of the shown kernel is kept beside its listing, as `kernel.lines`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from lab.base.folder import Folder
from lab.toolchain.cubin.debug_lines import line_table

LINES: Final = "kernel.lines"
"""File of a published variant: a line `<byte offset, hexadecimal> <source line>` where a source line begins."""

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)


def source_number(ptx: str, sources: Collection[str]) -> int:
    """Return the number the `.loc` directives use for the source; 1 where no `.file` directive gives it.

    Args:
        ptx: The whole module.
        sources: Possible names of its source file, without folders.
    """
    numbers = [int(number) for number, name in _FILE.findall(ptx) if PurePosixPath(name).name in sources]
    return numbers[0] if numbers else 1


def sass_places(folder: Folder, function: str, sources: Collection[str]) -> tuple[tuple[int, int], ...]:
    """Return the byte offsets of a function at which a source line begins, with that line.

    Args:
        folder: The variant's folder, with `kernel.cubin` or `kernel.lines`.
        function: The kernel's symbol.
        sources: Possible names of the source file, without folders.

    Returns:
        In ascending order; line 0 stands for instructions of other files. Empty where nothing is known: without a
        cubin, without a line table, or with a damaged one.
    """
    try:
        starts = line_table(folder.read("kernel.cubin") or b"").starts(function)
    except ValueError:
        return _parse(folder.read_text(LINES) or "")
    lines = (
        (at, location.line if PurePosixPath(location.file).name in sources else 0)
        for at, location in sorted(starts.items())
    )
    return tuple(_changes(lines))


def text_of(places: tuple[tuple[int, int], ...]) -> str:
    """Return the text of `kernel.lines`."""
    return "".join(f"{offset:04x} {line}\n" for offset, line in places)


def _parse(text: str) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((int(offset, 16), int(line)) for offset, line in map(str.split, text.splitlines()))
    except ValueError:
        return ()


def _changes(lines: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return only the places at which the line changes."""
    return (place for before, place in pairwise(((0, 0), *lines)) if place[1] != before[1])
