"""Which predicates have one value throughout, and when two of them agree."""

from __future__ import annotations

import pytest

from lab.isa.cfg import control_flow
from lab.isa.invariant_predicates import conditions, names
from lab.isa.ptx.module import read_ptx
from lab.isa.sass.module import read_sass


def known(body: str) -> dict[str, tuple[str, bool]]:
    head = ".version 8.0\n.target sm_80\n.entry k() { .reg .pred %p<4>; .reg .b32 %r<9>; .reg .f32 %f<4>;"
    (kernel,) = read_ptx(f"{head} {body} ret; }}").kernels
    return conditions(kernel, control_flow(kernel))


@pytest.mark.parametrize(
    ("comparison", "condition", "opposite"),
    [
        ("setp.eq.s32 %p0, %r1, 3", "eq.s32 %r1, 3", False),
        ("setp.ne.s32 %p0, %r1, 3", "eq.s32 %r1, 3", True),
        ("setp.ge.u32 %p0, %r1, %r2", "lt.u32 %r1, %r2", True),
        ("setp.gt.u32 %p0, %r1, %r2", "le.u32 %r1, %r2", True),
        ("setp.ge.f32 %p0, %f1, %f2", "%p0", False),  # of a NaN neither holds
        ("setp.eq.and.s32 %p0, %r1, 3, %p1", "%p0", False),
        ("setp.eq.s32 %p0|%p1, %r1, 3", "%p0", False),
        ("setp.eq.s32 %p0, %r7, 3", "%p0", False),  # written nowhere
        ("setp.eq.s32 %p0, %r3, 3", "%p0", False),  # written twice
        ("elect.sync %r6|%p0, -1", "%p0", False),
    ],
)
def test_what_a_predicate_means(comparison, condition, opposite):
    written = "mov.u32 %r1, %tid.x; mov.u32 %r2, 5; mov.u32 %r3, 1; mov.u32 %r3, 2;"
    assert known(f"{written} {comparison}; @%p0 bra A; A:") == {"%p0": (condition, opposite)}


def test_what_a_loop_writes_has_many_values():
    assert known("mov.u32 %r1, 1; A: setp.eq.s32 %p0, %r1, 3; @%p0 bra A;") == {}
    inside = known("A: add.s32 %r1, %r2, 1; @%p1 bra A; setp.eq.s32 %p0, %r1, 3; @%p0 bra B; B:")
    assert inside == {"%p0": ("%p0", False)}


def test_what_is_written_twice_or_by_nothing_is_not_known():
    again = "setp.eq.s32 %p0, %r1, 3; setp.eq.s32 %p0, %r1, 4; @%p0 bra A; A: @%p1 bra B; B:"
    assert known(again) == {}


def test_machine_code_uses_its_predicates_again():
    text = "\t.target\tsm_90\n\t.section\t.text.k\n/*0000*/ ISETP.EQ.AND P0, PT, R1, 0x3, PT ;\n/*0010*/ @P0 EXIT ;\n"
    (kernel,) = read_sass(text).kernels
    assert conditions(kernel, control_flow(kernel)) == {}


def test_names_in_an_operand():
    assert names("{%r1, %rd2}") == ("%r1", "%rd2")
    assert names("[%rd1+16]") == ("%rd1", "16")
    assert names("`($__internal_0)") == ("$__internal_0",)
