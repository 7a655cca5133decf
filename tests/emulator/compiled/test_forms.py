import pytest
import random_ptx

from lab.emulator.compiled import forms
from lab.emulator.compiled.decoding import MODULES
from lab.emulator.compiled.forms import FORMS
from lab.emulator.compiled.ir import Code
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


def test_a_form_writes_each_result():
    for family, opcode, sources in (("add", "add.u32", 2), ("sub", "sub.cc.u32", 2), ("mov", "mov.u32", 1)):
        form, code = FORMS[family](Opcode(opcode), sources + 1), Code()
        results = form.emit(code, [f"%a{i}" for i in range(sources)])
        assert len(results) == len(form.outs)
        assert all(isinstance(result, str) for result in results)


def test_a_builder_is_entered_under_each_family_and_keeps_its_name(monkeypatch):
    monkeypatch.setattr(forms, "FORMS", {})

    @forms.form("mov", "copy")
    def build(_op: Opcode, _count: int) -> forms.Form:
        return forms.Form(forms.one(lambda _code, a: a), ("u32",), ("u32",))

    assert {"mov": build, "copy": build} == forms.FORMS
    assert build(Opcode("mov.u32"), 2).emit(Code(), ["%a"]) == ("%a",)
