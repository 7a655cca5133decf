"""Taking opcodes apart."""

import pytest

from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm, begins_later, chosen_by_sign, element_of


def test_parts_are_taken_one_by_one():
    op = Opcode("ld.shared::cta.v2.b32")
    assert op.family == "ld"
    assert op.flag("shared::cta")
    assert not op.flag("shared::cta")
    assert op.one_of(("v2", "v4"), "v1") == "v2"
    assert op.one_of(("v2", "v4"), "v1") == "v1"
    assert op.type() == "b32"
    op.finish()


def test_the_first_of_two_types_is_taken():
    op = Opcode("cvt.u32.f32")
    assert (op.type(), op.type()) == ("u32", "f32")


def test_what_is_left_is_refused():
    op = Opcode("add.rn.wide.f32")
    op.one_of(("rn",))
    with pytest.raises(UnknownForm, match=r"modifier \.wide\.f32"):
        op.finish()
    with pytest.raises(UnknownForm, match=r"none of \.lo, \.hi"):
        op.one_of(("lo", "hi"))


@pytest.mark.parametrize(("t", "width"), [("b8", 1), ("f16", 2), ("bf16x2", 4), ("s64", 8), ("pred", 1), ("f32x2", 8)])
def test_widths(t, width):
    assert DTYPES[t].itemsize == width


@pytest.mark.parametrize(
    ("opcode", "chosen", "control", "ftz"),
    [("slct.u32.s32", "u32", "s32", False), ("slct.ftz.f64.f32", "f64", "f32", True)],
)
def test_the_last_type_of_a_slct_decides(opcode, chosen, control, ftz):
    assert chosen_by_sign(Opcode(opcode)) == (chosen, control, ftz)


@pytest.mark.parametrize("opcode", ["slct.u32.u32", "slct.f32.f64", "slct.wide.u32.s32"])
def test_other_forms_of_slct_are_refused(opcode):
    with pytest.raises(UnknownForm):
        chosen_by_sign(Opcode(opcode))


@pytest.mark.parametrize(
    ("opcode", "later"),
    [
        ("tcgen05.mma.cta_group::1", True),
        ("mma.sync.aligned.kind::f8f6f4.m16n8k32", True),
        ("cp.async.bulk.tensor.2d.tile::gather4", True),
        ("mma.sync.aligned.m16n8k32", False),
        ("tcgen05x.mma", False),
    ],
)
def test_what_begins_with_later_hardware(opcode, later):
    assert begins_later(opcode) is later


@pytest.mark.parametrize(
    ("t", "count", "element"),
    [("b64", 2, "b32"), ("u64", 4, "b16"), ("b32", 4, "b8"), ("u32", 1, "b32")],
)
def test_elements_of_packed_registers(t, count, element):
    assert element_of(t, count) == element


@pytest.mark.parametrize(("t", "count"), [("b64", 0), ("f32", 2), ("s64", 2), ("b64", 3), ("b16", 4)])
def test_registers_that_are_not_packed(t, count):
    with pytest.raises(UnknownForm, match=r"a vector|elements of"):
        element_of(t, count)
