"""The access map of a variant as a picture: element by element, coloured by the thread that touches it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from lab.base.errors import UserError
from lab.report.charts import style
from lab.store.model import VariantRecord
from lab.templates.mapping.model import ThreadMapping
from lab.templates.mapping.text import parse

COLUMNS, ROWS = 32, 16
"""Elements of the picture: the first ones, read like a text."""

_CELL: Final = 26
"""Width of an element in the picture's own units; its text has 9."""


def access_maps(record: VariantRecord) -> list[dict[str, str]]:
    """Name, notation, caption and picture of each mapping of a variant."""
    made = []
    for name in record.mappings:
        try:
            mapping = parse(str(record.parameters.get(name)))
        except UserError:
            continue  # written by a version whose notation was another
        made.append({"name": name, "text": str(mapping), "caption": _caption(mapping), "svg": svg(mapping)})
    return made


def _caption(mapping: ThreadMapping) -> str:
    shown = min(COLUMNS * ROWS, mapping.offset + mapping.size)
    first = "" if shown == mapping.offset + mapping.size else f"; the first {shown:,} elements of the tensor"
    return f"{mapping.threads:,} threads x {mapping.items:,} items, the number is the thread{first}"


def svg(mapping: ThreadMapping) -> str:
    """The map's first elements, neighbours of one thread joined. Nothing but numbers is written into it."""
    owners = mapping.access_map(min(COLUMNS * ROWS, mapping.offset + mapping.size)).tolist()
    rows = [owners[at : at + COLUMNS] for at in range(0, len(owners), COLUMNS)]
    width, height = _CELL * max(map(len, rows)), _CELL * len(rows)
    body = "".join(cell for y, row in enumerate(rows) for cell in _cells(y, row))
    label = f"Thread of each of the first {len(owners)} elements"
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{label}">{body}</svg>'


def _cells(y: int, row: list[int]) -> Iterator[str]:
    x = 0
    for owner, run in groupby(row):
        length = len(list(run))
        if owner >= 0:
            place = f'x="{x * _CELL + 1}" y="{y * _CELL + 1}" width="{length * _CELL - 2}" height="{_CELL - 2}"'
            yield f'<rect {place} fill="{style.series_colour(owner)}"/>'
            yield f'<text x="{x * _CELL + length * _CELL // 2}" y="{y * _CELL + 17}">{owner}</text>'
        x += length
