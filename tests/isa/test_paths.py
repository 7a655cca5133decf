"""Code between cuts, by paths that no guard contradicts; whole kernels are in test_roles.py."""

from __future__ import annotations

from lab.isa.cfg import control_flow
from lab.isa.paths import Paths
from lab.isa.ptx.module import read_ptx

HEAD = ".version 8.0\n.target sm_80\n.entry k() { .reg .pred %p<4>; .reg .b32 %r<9>; setp.eq.s32 %p0, 1, 2; "
CUT = "nanosleep.u32 0;"


def paths(body: str) -> Paths:
    (kernel,) = read_ptx(f"{HEAD}{body} }}").kernels
    cuts = frozenset(instruction.index for instruction in kernel.instructions if instruction.opcode == "nanosleep.u32")
    return Paths(kernel, control_flow(kernel), cuts)


def added(found) -> set[str]:
    """The constants that are added in what was found."""
    return {one.operands[2] for one in found if one.opcode == "add.s32"}


def step(number: int) -> str:
    return f"add.s32 %r1, %r1, {number};"


def after(body: str) -> list[set[str]]:
    found = paths(body)
    return [added(found.after(cut)) for cut in sorted(found.cuts)]


def test_a_path_ends_at_the_next_cut():
    body = f"{step(1)} {CUT} {step(2)} {CUT} {step(3)} ret;"
    assert after(body) == [{"2"}, {"3"}]
    assert added(paths(body).uncut()) == set()


def test_a_guard_decides_those_with_the_same_condition():
    assert after(f"@%p0 bra A; {CUT} A: @%p0 bra B; {step(1)} bra C; B: {step(2)} C: ret;") == [{"1"}]
    assert after(f"@%p0 {CUT} @%p0 {step(1)} @!%p0 {step(2)} ret;") == [{"1"}]
    assert after(f"@%p1 bra A; {CUT} A: @%p1 bra B; {step(1)} bra C; B: {step(2)} C: ret;") == [{"1", "2"}]


def test_a_cut_that_is_met_twice_knows_both_ways():
    body = f"@%p0 bra A; {step(1)} A: {CUT} @%p0 bra B; {step(2)} ret; B: {step(3)} ret;"
    assert after(body) == [{"2", "3"}]


def test_ways_without_a_cut_lead_to_an_end():
    body = f"{step(1)} @%p0 bra A; {step(2)} {CUT} ret; A: {step(3)} ret;"
    assert added(paths(body).uncut()) == {"1", "3"}
    endless = f"@%p0 bra A; {CUT} ret; A: {step(3)} bra A;"
    assert added(paths(endless).uncut()) == set()
    guarded = f"@%p1 ret; {step(1)} {CUT} ret;"
    assert added(paths(guarded).uncut()) == {"1"}


def test_a_loop_comes_back_to_the_cut():
    assert after(f"A: {CUT} {step(1)} @%p1 bra A; {step(2)} ret;") == [{"1", "2"}]


def test_code_that_nothing_leads_to_is_read_as_well():
    assert after(f"ret; {step(1)} {CUT} {step(2)} ret;") == [{"2"}]
