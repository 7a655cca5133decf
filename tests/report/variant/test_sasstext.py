"""The compact form of a SASS listing keeps every line in its place."""

from __future__ import annotations

import re

from lab.report.variant.sasstext import STEP, compact

LISTING = """\t.target\tsm_90
                                        // +-------+--------+
                                        // | GPR   | PRED   |
k:                                      // |       |        |
        /*0000*/                   LDC R1, c[0x0][0x28] ;     // |   2   |        |
        /*0010*/              @!P0 BRA `(.L_x_0) ;            // |  11   |   1    |
.L_x_0:                                 // |  12   |        |
        /*0020*/                   EXIT ;                     // |  12   |        |
.L_x_1:                                 // +.......+........+
other:                                  // |       |        |
        /*0000*/                   EXIT ;                     // |   1   |        |
        /*0040*/                   NOP ;                      // |   1   |        |
        /*0050*/                   NOP ;
"""


def expand(packed):
    """Expand packed SASS as page.js does: lines without nvdisasm's columns, and live registers."""
    body, counts = packed.split("\0")
    address, live, expanded = -STEP, 0, []
    for line, difference in zip(body.split("\n"), counts.split(","), strict=True):
        live += int(difference or 0)
        raw = re.match(r"\s*/\*([0-9a-f]+)\*/\s*(.*)", line)
        shown = line
        if raw or line.startswith("\x01"):
            address = int(raw.group(1), 16) if raw else address + STEP
            shown = f"/*{address:04x}*/ {raw.group(2) if raw else line[1:]}"
        expanded.append((shown, live))
    return expanded


def test_every_line_keeps_its_number_address_instruction_and_registers():
    lines = expand(compact(LISTING))
    assert len(lines) == LISTING.count("\n") + 1
    assert lines[4:8] == [
        ("/*0000*/ LDC R1, c[0x0][0x28] ;", 2),
        ("/*0010*/ @!P0 BRA `(.L_x_0) ;", 11),
        (".L_x_0:", 12),
        ("/*0020*/ EXIT ;", 12),
    ]
    assert lines[10:13] == [("/*0000*/ EXIT ;", 1), ("/*0040*/ NOP ;", 1), ("/*0050*/ NOP ;", 0)]
    assert lines[0][0] == "\t.target\tsm_90"


def test_predictable_addresses_and_columns_are_gone():
    packed = compact(LISTING)
    assert packed.count("/*") == 2
    assert "// |" not in packed
