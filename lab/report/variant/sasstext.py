"""The compact form of nvdisasm's listing for the page, line for line.

Three quarters of a listing with live-register counts are columns: addresses that increase by 16, and register counts
beside every line. Each line keeps its place, so that line numbers are those of `kernel.sass`.

::

    compact form     text lines, NUL, live general-purpose registers
    text line        SOH, then the instruction: its address is the last one plus 16 (the first one is 0)
                     anything else: the line as it is, without the register columns
    live registers   comma-separated, one a line: the difference from the line before, empty for 0
"""

from __future__ import annotations

import re
from typing import Final

STEP: Final = 16
"""Bytes of an instruction since compute capability 7.0 (CUDA Binary Utilities, "Instruction Set Reference")."""

_COLUMNS = re.compile(r"\s*// [|+]\s*(\d*).*\Z")
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]+)\*/\s*(\S.*)\Z")


def compact(listing: str) -> str:
    """Return the compact form, which `page.js` expands."""
    lines, live, expected, before = [], [], 0, 0
    for line in listing.split("\n"):
        columns = _COLUMNS.search(line)
        text = line[: columns.start()] if columns else line
        count = int(columns.group(1) or 0) if columns else 0
        live.append(str(count - before) if count != before else "")
        before = count
        instruction = _INSTRUCTION.match(text)
        if instruction:
            address = int(instruction.group(1), 16)
            if address == expected:
                text = f"\x01{instruction.group(2)}"
            expected = address + STEP
        lines.append(text)
    return "\n".join(lines) + "\0" + ",".join(live)
