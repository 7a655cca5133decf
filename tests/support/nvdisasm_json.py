"""Reads nvdisasm's own JSON (`--emit-json -g`), with which the reader of its listing must agree."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import NamedTuple

from lab.isa.model import Function, SourceLocation
from lab.isa.sass.lines import LineTable

_BYTES = 16


class Stated(NamedTuple):
    """One instruction as the JSON states it; operands are one text, source lines stand where they change."""

    predicate: str
    opcode: str
    operands: str
    source: SourceLocation | None


def stated(text: str) -> dict[str, list[Stated]]:
    """Every function of the JSON, padding included."""
    files = _files(text)
    return {
        function["function-name"]: [
            Stated(
                item.get("predicate", ""),
                item["opcode"],
                ",".join(part.strip() for part in item.get("operands", "").split(",")),
                SourceLocation(files[item["source-file-id"]], item["source-line"]) if "source-line" in item else None,
            )
            for item in function["sass-instructions"]
        ]
        for function in json.loads(text)[1]
    }


def read(function: Function) -> list[Stated]:
    """A function that `lab` read, in the same form."""
    stated = []
    before: SourceLocation | None = None
    for instruction in function.instructions:
        guard = f"@{'!' if instruction.negated else ''}{instruction.predicate}" if instruction.predicate else ""
        stated.append(
            Stated(
                guard,
                instruction.opcode,
                ",".join(instruction.operands),
                instruction.source if instruction.source != before else None,
            )
        )
        before = instruction.source
    return stated


def line_table(text: str) -> LineTable:
    """The line table that the JSON repeats."""
    files = _files(text)
    places = {path: place for place, path in enumerate(files)}
    return LineTable(
        tuple(files),
        {
            name: {
                _BYTES * index: (places[one.source.file], one.source.line)
                for index, one in enumerate(instructions)
                if one.source is not None
            }
            for name, instructions in stated(text).items()
        },
    )


def changes(instructions: list[Stated]) -> list[Stated]:
    """The same with a source line only where it differs from the one before."""
    compressed = []
    before: SourceLocation | None = None
    for instruction in instructions:
        source = instruction.source or before
        compressed.append(instruction._replace(source=source if source != before else None))
        before = source
    return compressed


def _files(text: str) -> list[str]:
    document = json.loads(text)
    if len(document) < 3:
        return []
    table = document[2]
    return [str(PurePosixPath(table["directories"][file["dir-idx"]], file["file"])) for file in table["files"]]
