from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.isa.sass.listing_reader import read_listing
from lab.toolchain.base import CompileRequest
from lab.toolchain.disassembly import nvdisasm as disassembler
from lab.toolchain.disassembly.stable_layout import laid_out
from lab.toolchain.select import toolchain

SOURCE = """extern "C" __global__ void k(float* a, int n) {
    for (int i = 0; i < n; ++i) a[i] = a[i] * a[1] + 2.0f;
}"""
LISTING = """\
\t.target\tsm_90
.text.k:                                                  // +-------+--------+---------+
                                                          // | GPR   | PRED   | UGPR    |
                                                          // |    #  |   #    |    #    |
                                                          // +-------+--------+---------+
.L_x_7:                                                   // |       |        |         |
        /*0000*/                   LDC R1, c[0x0][0x28] ; // |    9  |        |         |
        /*0010*/              @!P0 BRA `(.L_x_12) ;       // |   12  |        |         |
        /*0020*/                   BRA `(.L_x_7)    (*"x"*) ;
.L_x_12:                                                  // |    8  |        |         |
"""


@pytest.fixture(scope="module")
def printed():
    """Return nvdisasm's output with live registers."""
    cubin = toolchain("nvrtc").compile(CompileRequest(SOURCE, "k.cu", "sm_90")).cubin
    tool, _ = disassembler._find()
    return disassembler._run(tool, (*disassembler._LISTING, *disassembler._LIVE), cubin).decode()


def words(listing):
    return re.sub(r"[\s|+-]|\.L_x_\d+|UGPR|PRED|#", "", listing)


def test_nothing_but_spaces_empty_columns_and_numbers_of_labels_differs(printed):
    made = laid_out(printed)
    assert words(made) == words(printed)
    before, after = read_listing(printed).functions["k"], read_listing(made).functions["k"]
    assert [(instruction.line, instruction.live) for instruction in after.instructions] == [
        (instruction.line, instruction.live) for instruction in before.instructions
    ]
    assert list(after.labels.values()) == list(before.labels.values())
    assert any(instruction.live for instruction in after.instructions)


def test_labels_are_numbered_without_gaps_and_unused_columns_are_gone():
    longest = "        /*0000*/                   LDC R1, c[0x0][0x28] ;"
    table = {
        ".text.k:": "+-------+",
        " ": "| GPR   |",
        "  ": "|   #   |",
        "   ": "+-------+",
        ".L_x_0:": "|       |",
        longest: "|   9   |",
        "        /*0010*/              @!P0 BRA `(.L_x_1) ;": "|  12   |",
    }
    assert laid_out(LISTING).split("\n") == [
        "\t.target\tsm_90",
        *(f"{code.ljust(len(longest) + 5)} // {row}" for code, row in table.items()),
        '        /*0020*/                   BRA `(.L_x_0)  (*"x"*) ;',
        f"{'.L_x_1:'.ljust(len(longest) + 5)} // |   8   |",
        "",
    ]


def test_it_changes_nothing_twice(printed):
    assert laid_out(laid_out(printed)) == laid_out(printed)
    assert laid_out(laid_out(LISTING)) == laid_out(LISTING)


@given(st.lists(st.sampled_from(["//", " // ", "|", "+", "-", " 7 ", "#", ".L_x_3", ".L_x_", "  (*", "\n", "²", "k"])))
def test_any_text_is_laid_out(pieces):
    made = laid_out("".join(pieces))
    assert laid_out(made) == made
    assert made.count("\n") == pieces.count("\n")
