from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.errors import ReaderError
from lab.isa.sass.listing_reader import FunctionListing, Listing, read_listing

GOLDEN = Path(__file__).parents[1] / "golden"
MIXED = (GOLDEN / "sm_100_mixed.lst").read_text()
HEAD = '\t.target\tsm_90\n\t.section\t.text.k,"ax",@progbits\n'


def function(lines: str) -> FunctionListing:
    return read_listing(HEAD + lines).functions["k"]


def test_an_instruction_in_full() -> None:
    title = "          // | GPR   | PRED  |"
    line = "        /*0010*/   @!UP0 LDS.128 R4, [R2+0x10] ; // |  12   |   1   |"
    (found,) = function(f"{title}\n{line}").instructions
    assert found.table == ()
    assert found == (16, 4, "UP0", True, "LDS.128", "R4, [R2+0x10] ", 12)


def test_an_instruction_alone() -> None:
    (found,) = function("/*0000*/ EXIT ;").instructions
    assert found == (0, 3, "", False, "EXIT", "", None)


def test_numbers_of_another_table_are_no_live_registers() -> None:
    assert function("/*0000*/ EXIT ; // |  12   |").instructions[0].live is None


def test_labels_name_the_instruction_behind_them() -> None:
    found = function('.L_x_1:\n"k$quoted":\n/*0000*/ NOP ;\n.L_x_2:\n/*0010*/ EXIT ;\n.L_x_3:\n')
    assert found.labels == {".L_x_1": 0, "k$quoted": 0, ".L_x_2": 16}


def test_labels_do_not_reach_into_the_next_section() -> None:
    found = read_listing(f"{HEAD}.L_x_1:\n\t.section\t.text.other\n/*0000*/ EXIT ;\n")
    assert found.functions["other"].labels == {}
    assert found.functions["k"] == FunctionListing()


def test_jump_tables() -> None:
    (found,) = function('/*0000*/ BRX R4 -0x1a0 (*"BRANCH_TARGETS .L_x_1,.L_x_2"*) ;').instructions
    assert found.table == (".L_x_1", ".L_x_2")


def test_data_and_lines_before_any_section_are_passed_over() -> None:
    assert function("/*0000*/ .byte 0x00, 0x01").instructions == []
    assert read_listing("/*0000*/ garbage") == Listing()


@pytest.mark.parametrize("line", ["/*0000*/ EXIT", "/*0000*/ exit ;", "/*0000*/", "/*0000*/ @P0 ;"])
def test_an_instruction_that_cannot_be_read_is_refused(line: str) -> None:
    with pytest.raises(ReaderError, match=r"^k\.lst:3: this instruction cannot be read"):
        read_listing(HEAD + line, "k.lst")


@pytest.mark.parametrize("text", ["", "\n", "Usage  : nvdisasm [options] <image file>", "{}", "\x00", "//|GPR\n" * 3])
def test_other_text_gives_an_empty_result(text: str) -> None:
    assert read_listing(text) == Listing()


def test_entries_of_a_golden_listing() -> None:
    found = read_listing(MIXED)
    assert found.entries <= found.functions.keys()
    assert found.target == "sm_100"
    for listed in found.functions.values():
        assert [instruction.offset for instruction in listed.instructions] == list(
            range(0, 16 * len(listed.instructions), 16)
        )


@pytest.mark.parametrize(
    ("flags", "target"),
    [
        ("EF_CUDA_64BIT_ADDRESS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)", "sm_90"),
        ("EF_CUDA_ACCELERATORS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)", "sm_90a"),
        ("EF_CUDA_64BIT_ADDRESS", ""),
    ],
)
def test_images_from_before_cuda_13_name_their_machine_in_their_flags(flags: str, target: str) -> None:
    assert read_listing(f'\t.headerflags\t@"{flags}"\n').target == target


def test_live_registers_where_the_table_counts_them() -> None:
    title = "          // | GPR   | PRED  |"
    first, second = function(f"{title}\n/*0000*/ NOP ; // |  3  |\n/*0010*/ EXIT ; // |   |").instructions
    assert (first.live, second.live) == (3, None)
    assert read_listing(f"{title}\n{HEAD}/*0000*/ EXIT ; // | 2 |").functions["k"].instructions[0].live == 2


def test_a_section_that_goes_on_keeps_its_instructions_but_not_its_labels() -> None:
    text = f"{HEAD}/*0000*/ NOP ;\n.L_1:\n\t.section\t.text.other\n\t.section\t.text.k\n/*0010*/ EXIT ;"
    found = read_listing(text).functions
    assert [instruction.offset for instruction in found["k"].instructions] == [0, 16]
    assert found["k"].labels == {}
    assert found["other"] == FunctionListing()


def test_an_instruction_without_a_guard_is_not_negated() -> None:
    plain, guarded, negated = function("/*0000*/ NOP ;\n/*0010*/ @P0 NOP ;\n/*0020*/ @!P0 EXIT ;").instructions
    assert [(one.predicate, one.negated, one.line) for one in (plain, guarded, negated)] == [
        *(("", False, 3), ("P0", False, 4), ("P0", True, 5))
    ]


def test_blanks_in_a_jump_table() -> None:
    (found,) = function('/*0000*/ BRX R4 (*"BRANCH_TARGETS .L_1 , .L_2"*) ;').instructions
    assert found.table == (".L_1", ".L_2")


@settings(max_examples=150)
@given(st.integers(0, len(MIXED)), st.integers(0, 40), st.text("|/*.:#; 0x19R\n", max_size=3))
def test_a_mutated_listing_is_read_or_refused(place: int, cut: int, inserted: str) -> None:
    with suppress(ReaderError):
        read_listing(MIXED[:place] + inserted + MIXED[place + cut :])
