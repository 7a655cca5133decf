"""A picture of a mapping: the first elements of the tensor, coloured by the thread that touches each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from lab.base.errors import UserError
from lab.recorded.run_records import VariantRecord
from lab.report.charts import style
from lab.templates.mapping.mapping_model import ThreadMapping
from lab.templates.mapping.text import parse

COLUMNS, ROWS = 32, 16
"""Columns and rows of the picture, in elements; it shows the first ones in reading order."""

_CELL: Final = 26
"""Width and height of an element in the SVG's units."""


def access_maps(record: VariantRecord) -> list[dict[str, str]]:
    """Return name, notation, caption and SVG of each mapping of a variant."""
    maps = []
    for name in record.mappings:
        try:
            mapping = parse(str(record.parameters.get(name)))
        except UserError:
            continue  # written by a version with another notation
        maps.append({"name": name, "text": str(mapping), "caption": _caption(mapping), "svg": svg(mapping)})
    return maps


def _caption(mapping: ThreadMapping) -> str:
    visible = min(COLUMNS * ROWS, mapping.offset + mapping.size)
    first = "" if visible == mapping.offset + mapping.size else f"; the first {visible:,} elements of the tensor"
    return f"{mapping.threads:,} threads x {mapping.items:,} items; numbers are threads{first}"


def svg(mapping: ThreadMapping) -> str:
    """Draw the first elements as SVG, joining neighbours of one thread. Its text is numbers, so nothing is escaped."""
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
