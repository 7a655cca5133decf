"""Give a cubin's listing a layout that is independent of the cubins disassembled with it.

The layout of nvdisasm depends on all kernels of an image, and on parts that it does not print. Its table of live
registers has a column for every kind of register that any kernel uses, with the width of the largest number. The table,
and remarks such as `(*"SpillRefill"*)`, come after the longest instruction with all its operands. Some labels have
numbers but are not printed. Here the table has only the columns that this listing fills, with the widths of its own
numbers, and comes after the longest line of this listing; remarks follow their instructions; and labels are numbered
without gaps in nvdisasm's order. Only spaces, empty columns and the numbers of labels differ from nvdisasm's output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_LABEL = re.compile(r"\.L_x_(\d+)")
_COMMENT = " // "
_REMARK = re.compile(r" +\(\*")
_SPACE = 6
"""Columns between the longest line and the table, as nvdisasm leaves where it prints everything."""


def laid_out(listing: str) -> str:
    """Return a cubin's listing in the layout of this module.

    Args:
        listing: Output of ``nvdisasm -c``, with live registers (``-plr -lrm count``) or without.
    """
    numbers = sorted({int(number) for number in _LABEL.findall(listing)})
    if not numbers or numbers[-1] >= len(numbers):
        places = {str(number): f".L_x_{place}" for place, number in enumerate(numbers)}
        listing = _LABEL.sub(lambda match: places[match[1]], listing)
    listing = _REMARK.sub("  (*", listing)
    parts = [line.partition(_COMMENT) for line in listing.split("\n")]
    table = _table({after for _, _, after in parts})
    code = [before.rstrip() if mark else before for before, mark, _ in parts]
    width = _SPACE - 1 + max((len(text) for text, (_, mark, _) in zip(code, parts, strict=True) if mark), default=0)
    return "\n".join(
        text.ljust(width) + mark + table.get(after, after) if mark else text
        for text, (_, mark, after) in zip(code, parts, strict=True)
    )


def _table(rows: Iterable[str]) -> Mapping[str, str]:
    """Map the rows, borders and titles of the table to their new texts."""
    cells = {row: row.split(row[0])[1:-1] for row in rows if row.startswith(("|", "+"))}
    used: dict[int, int] = {}  # column to most digits
    for row in cells.values():
        for column, cell in enumerate(row):
            if (number := cell.strip()).isdigit():
                used[column] = max(used.get(column, 0), len(number))
    return {row: _row(row[0], own, used) for row, own in cells.items()}


def _row(corner: str, cells: list[str], used: Mapping[int, int]) -> str:
    """Return a row with only the used columns. A number is right-aligned in a centred field of its column's digits."""
    pieces = [corner]
    for column, cell in enumerate(cells):
        if column not in used:
            continue
        word, width, digits = cell.strip(), len(cell), used[column]
        if word == "#" or word.isdigit():
            cell = word.rjust((width - digits) // 2 + digits).ljust(width)  # noqa: PLW2901 - a cell anew
        pieces += [cell, corner]
    return "".join(pieces)
