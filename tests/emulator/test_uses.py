"""Uses of a loaded value."""

import pytest
from small_ptx import kernel

from lab.emulator.program import Program
from lab.emulator.uses import ValueUses, uses_of
from lab.isa.ptx.module import read_ptx

LOAD = "mov.u64 %rd0, 0; mov.u64 %rd1, 0;\nld.global.u32 %r0, [%rd0];\n"


def uses(body):
    program = Program(read_ptx(kernel(LOAD + body)), "k")
    position = next(at for at, (_, one) in enumerate(program.code) if one.opcode == "ld.global.u32")
    return program, uses_of(program, position)


@pytest.mark.parametrize(
    ("body", "sinks"),
    [
        ("st.global.u32 [%rd1], %r0;", ["st.global.u32"]),
        ("add.u32 %r1, %r0, 1; mov.b64 %rd2, {%r1, %r1}; red.global.add.u64 [%rd1], %rd2;", ["red.global.add.u64"]),
        ("add.u32 %r1, %r2, 1; st.global.u32 [%rd1], %r1;", []),
        ("atom.global.exch.b32 %r1, [%rd1], %r0; st.global.u32 [%rd1], %r1;", ["atom.global.exch.b32"]),
    ],
)
def test_where_a_value_ends(body, sinks):
    program, found = uses(body)
    assert [program.code[at][1].opcode for at in sorted(found.sinks)] == sinks
    assert found.only_sinks == (found.sinks or None)
    assert found.data == bool(sinks)


@pytest.mark.parametrize(
    ("body", "use"),
    [
        ("setp.eq.u32 %p0, %r0, 0; @%p0 bra A; mov.u32 %r1, 0; A:", "branches"),
        ("setp.eq.u32 %p0, %r0, 0; @%p0 st.global.u32 [%rd1], 1;", "guards"),
        ("cvt.u64.u32 %rd2, %r0; st.global.u32 [%rd2], 1;", "addresses"),
        ("shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; st.global.u32 [%rd1], %r1;", "crosses"),
        ("st.local.u32 [%rd1], %r0;", "unknown"),
        ("atom.global.cas.b32 %r1, [%rd1], %r0, 1;", "compares"),
    ],
)
def test_what_else_a_value_does(body, use):
    _, found = uses(body)
    assert getattr(found, use)
    assert use == "compares" or found.only_sinks is None


def test_a_value_that_a_swap_stores_is_no_guess():
    program, found = uses("atom.global.cas.b32 %r1, [%rd1], 1, %r0;")
    assert found.sinks
    assert not found.compares
    assert not program.guess_reads


@pytest.mark.parametrize(
    ("found", "sinks"),
    [
        (ValueUses({3}), frozenset({3})),
        (ValueUses({3}, compares={3}), frozenset({3})),
        (ValueUses({3}, branches={4}), None),
        (ValueUses({3}, addresses=True), None),
        (ValueUses({3}, crosses=True), None),
        (ValueUses({3}, unknown=True), None),
        (ValueUses({3}, guards=True), None),
        (ValueUses(), None),
    ],
)
def test_what_makes_a_value_more_than_stored(found, sinks):
    assert found.only_sinks == sinks
    assert found.data == bool(found.sinks)
    assert ValueUses(addresses=True).data
    assert not ValueUses(branches={3}).data


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        ("mov.u32 %r1, %r0; LOOP: st.global.u32 [%rd1], %r2; mov.u32 %r2, %r1; bra LOOP;", True),  # a round later
        ("ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1], %r1;", False),
        ("cvt.u64.u32 %rd2, %r0; ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd1], %r1;", False),
        ("@%p1 mov.u32 %r1, %r0; st.global.u32 [%rd1], %r1;", True),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 mov.u32 %r1, 5; st.global.u32 [%rd1], %r1;", True),
    ],
)
def test_values_are_followed_through_registers(body, stored):
    assert bool(uses(body)[1].sinks) == stored
