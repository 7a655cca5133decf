"""Taking opcodes apart."""

import pytest

from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm


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
