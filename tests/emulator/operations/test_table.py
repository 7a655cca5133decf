"""The complete tables of operations."""

import re

import pytest

from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.table import ALU, MODULES, SYSTEM


@pytest.mark.parametrize(
    "opcode", ["add.rq.f32", "fma.rn.relu.f32", "cvt.f32.s32", "setp.ltu.s32", "mul.hi.b32", "add.sat.u32"]
)
def test_unknown_forms_are_refused(opcode):
    op = Opcode(opcode)
    with pytest.raises(UnknownForm):
        ALU[op.family](op, 3)


def test_every_module_enters_its_operations():
    for families, table in (
        (("add", "addc", "fma", "setp", "shl", "cvt", "mov", "cvta"), ALU),
        (("ld", "st", "atom", "cp", "shfl", "mma", "mbarrier", "fence"), SYSTEM),
    ):
        for family in families:
            assert table[family].__module__ in {module.__name__ for module in MODULES}


def test_a_family_is_in_one_table():
    assert not set(ALU) & set(SYSTEM)


@pytest.mark.parametrize("family", ["add", "fma", "setp", "cvt", "mov", "cvta"])
def test_builders_refuse_unknown_words(family):
    with pytest.raises(UnknownForm):
        ALU[family](Opcode(f"{family}.whatever"), 3)


CONTROL = {"bra", "brx", "call", "ret", "exit", "trap", "brkpt"}


def test_the_page_on_ptx_lists_every_family(root):
    page = (root / "docs" / "reference" / "ptx.md").read_text()
    table, refused = page.partition("Refused:")[::2]
    listed = set(re.findall(r"`(\w+)`", table)) - {"printf", "assert"}
    textures = set(re.findall(r"`(\w+)`", refused.partition(")")[0]))
    assert (listed | textures) - CONTROL == set(ALU) | set(SYSTEM)
    assert listed >= CONTROL
