"""nvdisasm's JSON, made from its listing and the image's line table.

nvdisasm prints live registers in its listing alone, and takes a third of a second of processor time for any call, three
quarters of it before it looks at the image. A second call for `--emit-json` would say nothing that the listing and
`.debug_line` do not, so there is none: the document here has the same functions, opcodes, predicates, operands and
source lines (`tests/toolchain/disassembly/test_sass_json.py` holds the two against each other).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from lab.isa.sass.listing import FunctionListing, read_listing
from lab.toolchain.cubin.lines import LineTable

_SECTION = re.compile(r'\s*+\.section\s++"?\.text\.([^,"\s]++)')
_INSTRUCTION = re.compile(r"\s*+/\*([0-9a-f]{1,16})\*/\s++(?:(@!?[A-Z0-9]++)\s++)?([A-Z][\w.]*+)\s*+([^;]*+);")
_SYMBOL = re.compile(r"`\(([^()`]++)\)")
_MACHINE = re.compile(r"sm_(\d+?)(\d)[af]?\Z")


def sass_json(listing: str, table: LineTable, version: str) -> str:
    """The document.

    Args:
        listing: Output of ``nvdisasm -c -plr -lrm count``.
        table: The image's line table.
        version: nvdisasm's version.
    """
    read = read_listing(listing)
    functions: dict[str, list[dict[str, object]]] = {}
    name = ""
    rows: Mapping[int, tuple[int, int]] = {}
    for line in listing.split("\n"):
        if name in read.functions and (match := _INSTRUCTION.match(line)):
            offset, predicate, opcode, operands = match.groups()
            item: dict[str, object] = {"predicate": predicate} if predicate else {}
            item["opcode"] = opcode
            if operands := operands.strip():
                item["operands"] = _operands(operands, read.functions[name])
            if (row := rows.get(int(offset, 16))) is not None:
                item |= {"source-file-id": row[0], "source-line": row[1]}
            functions[name].append(item)
        elif match := _SECTION.match(line):
            name = match[1]
            rows = table.rows.get(name, {})
            functions.setdefault(name, [])
    machine = _MACHINE.match(read.target)
    facts = {
        "SM": {"version": {"major": int(machine[1]), "minor": int(machine[2])}} if machine else {},
        "Producer": f"nvdisasm {version}",
    }
    made = [
        {"function-name": key, "start": 0, "length": 16 * len(items), "sass-instructions": items}
        for key, items in functions.items()
    ]
    folders = list(dict.fromkeys(folder for folder, _ in table.files))
    files = [{"file": name, "dir-idx": folders.index(folder)} for folder, name in table.files]
    return json.dumps([facts, made, {"files": files, "directories": folders}], separators=(",", ":"))


def _operands(text: str, listed: FunctionListing) -> str:
    """Operands as the JSON writes them: commas alone between them, labels as byte offsets, other symbols plain."""

    def symbol(match: re.Match[str]) -> str:
        place = listed.labels.get(match[1]) if match[1].startswith(".L") else None
        return match[1] if place is None else f"{place:#x}"

    plain = _SYMBOL.sub(symbol, text.partition("(*")[0].rstrip())
    return re.sub(r"(?<=[\w\])]) ++(?=[\w$.-])|,\s++", ",", plain)
