import pytest
import random_ptx

from lab.emulator.compiled.decoding import MODULES
from lab.emulator.compiled.forms import FORMS
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.table import ALU


def test_every_form_is_one_of_the_interpreters_operations():
    assert MODULES
    assert set(FORMS) <= set(ALU)


def test_a_form_has_the_operands_of_the_interpreters_operation():
    """What the two read and write of an opcode decides how registers are converted."""
    for one in (part for group in random_ptx.OPERATIONS for part in group.split("; ")):
        opcode, _, rest = one.partition(" ")
        family, count = opcode.split(".")[0], len(rest.replace("|", ",").split(","))
        if "{" in rest or family not in FORMS:
            continue
        form, alu = FORMS[family](Opcode(opcode), count), ALU[family](Opcode(opcode), count)
        assert (form.outs, form.ins) == (alu.outs, alu.ins), opcode


@pytest.mark.parametrize(
    "opcode", ["add.rz.f64", "mad.hi.cc.u32", "cvt.rn.bf16.f32", "setp.num.s32", "min.f16", "frob.u32"]
)
def test_an_unknown_form_is_refused(opcode):
    op = Opcode(opcode)
    with pytest.raises((UnknownForm, KeyError)):
        FORMS[op.family](op, 3)
