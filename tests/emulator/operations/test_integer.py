"""Integer arithmetic against Python integers."""

import numpy as np
import pytest
from alu import QUICK, U32, U64, run, signed, wrap
from hypothesis import given
from hypothesis import strategies as st
from small_ptx import execute

from lab.emulator.opcodes import UnknownForm


@QUICK
@given(U32, U32, U32)
def test_integer_arithmetic(a, b, c):
    sa, sb = signed(a), signed(b)
    assert run("add.u32", a, b) == wrap(a + b)
    assert run("sub.s32", a, b) == signed(wrap(a - b))
    assert run("mul.lo.s32", a, b) == signed(wrap(sa * sb))
    assert run("mul.hi.s32", a, b) == (sa * sb) >> 32
    assert run("mul.hi.u32", a, b) == (a * b) >> 32
    assert run("mul.wide.s32", a, b) == sa * sb
    assert run("mul.wide.u32", a, b) == a * b
    assert run("mad.lo.s32", a, b, c) == signed(wrap(sa * sb + c))
    assert run("mad.wide.u32", a, b, c) == a * b + c
    assert run("mad.hi.u32", a, b, c) == wrap(((a * b) >> 32) + c)
    assert run("add.sat.s32", a, b) == max(-(2**31), min(2**31 - 1, sa + sb))
    assert run("sad.u32", a, b, c) == wrap(c + abs(a - b))
    assert run("sad.s32", a, b, c) == signed(wrap(c + abs(sa - sb)))
    assert run("min.s32", a, b) == min(sa, sb)
    assert run("max.u32", a, b) == max(a, b)
    assert run("mul24.lo.u32", a, b) == wrap((a & 0xFFFFFF) * (b & 0xFFFFFF))


@QUICK
@given(U64, U64)
def test_wide_products(a, b):
    assert run("mul.hi.u64", a, b) == (a * b) >> 64
    assert run("mul.hi.s64", a, b) == (signed(a, 64) * signed(b, 64)) >> 64
    assert run("mul.lo.u64", a, b) == wrap(a * b, 64)


@QUICK
@given(U32, U32, st.booleans())
def test_carry(a, b, carry):
    assert run("add.cc.u32", a, b) == [wrap(a + b), a + b >= 2**32]
    assert run("addc.cc.u32", a, b, carry) == [wrap(a + b + carry), a + b + carry >= 2**32]
    assert run("sub.cc.u32", a, b) == [wrap(a - b), a >= b]  # the flag says that nothing was borrowed
    assert run("subc.cc.u32", a, b, carry) == [wrap(a - b - (not carry)), a >= b + (not carry)]
    assert run("subc.u32", a, b, carry) == wrap(a - b - (not carry))


@QUICK
@given(U32, U32)
def test_division(a, b):
    sa, sb = signed(a), signed(b)
    if b:
        assert run("div.u32", a, b) == a // b
        assert run("rem.u32", a, b) == a % b
        quotient = abs(sa) // abs(sb) * (1 if (sa < 0) == (sb < 0) else -1)
        assert run("div.s32", a, b) == signed(wrap(quotient))
        assert run("rem.s32", a, b) == signed(wrap(sa - quotient * sb))


@pytest.mark.parametrize(
    ("opcode", "a", "b", "wanted"),
    [
        ("div.s32", 0x80000000, 0xFFFFFFFF, 0x80000000),  # the least integer by -1 wraps
        ("div.s32", 7, 0, 0xFFFFFFFF),  # hardware gives all ones
        ("div.u64", 7, 0, 2**64 - 1),
        ("rem.s32", 0xFFFFFFF9, 2, 0xFFFFFFFF),  # -7 rem 2 is -1: the dividend's sign
        ("rem.u32", 7, 0, 7),
        ("div.u16", 0xFFFF, 0x10, 0xFFF),
        ("mul.hi.s16", 0x8000, 0x8000, 0x4000),
    ],
)
def test_awkward_division_and_products(opcode, a, b, wanted):
    bits = int(opcode[-2:])
    assert wrap(run(opcode, a, b), bits) == wanted


def test_24_bit_products_ignore_the_upper_byte():
    assert run("mul24.lo.u32", 0xFF000003, 0xAB000005) == 15
    assert run("mul24.hi.u32", 0xFFFFFF, 0xFFFFFF) == (0xFFFFFF**2) >> 16
    assert run("mul24.lo.s32", 0xFFFFFF, 2) == -2  # bit 23 is the sign
    assert run("mad24.lo.u32", 3, 5, 7) == 22


def test_a_128_bit_sum_carries_from_register_to_register():
    a = np.array([2**64 - 1, 5, 2**63], np.uint64)
    b = np.array([1, 6, 2**63], np.uint64)
    emulation, (low, high) = execute("add.cc.u64 %o0, %i0, %i1; addc.u64 %o1, 0, 0;", a, b, out="u8", outputs=2)
    np.testing.assert_array_equal(low, [0, 11, 0])
    np.testing.assert_array_equal(high, [1, 0, 1])
    assert emulation.clean


def test_mad_carry_forms():
    assert run("mad.lo.cc.u32", 0xFFFFFFFF, 2, 2) == [0, True]
    assert run("madc.hi.u32", 0xFFFFFFFF, 0xFFFFFFFF, 1, True) == 0xFFFFFFFE + 2 - 2**32 * (0xFFFFFFFE + 2 >= 2**32)


@pytest.mark.parametrize("opcode", ["add.sat.u32", "mad.sat.lo.s32", "madc.wide.u32", "mul.wide.u64", "div.b32"])
def test_unknown_forms(opcode):
    with pytest.raises((UnknownForm, KeyError)):
        run(opcode, 1, 1, 1)


WORDS = np.array([[0, 1], [1, 0], [5, 5], [2**32 - 1, 1], [0, 2**32 - 1], [7, 3]], np.uint32)


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_chains_mix_sums_and_differences(engine):
    a, b = (np.ascontiguousarray(column) for column in WORDS.T)
    body = "sub.cc.u32 %o0, %i0, %i1; addc.u32 %o1, 0, 0; add.cc.u32 %r1, %i0, %i1; subc.u32 %o2, 10, 0;"
    _, found = execute(body, a, b, outputs=3, engine=engine, check=False, block=6)
    np.testing.assert_array_equal(found[1], a >= b)
    carried = a.astype(np.uint64) + b >= 2**32
    np.testing.assert_array_equal(found[2], np.where(carried, 10, 9))


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_128_bits_are_added_and_subtracted_word_by_word(engine):
    rng = np.random.default_rng(1)
    words = rng.integers(0, 2**63, (4, 32), np.uint64) * np.uint64(2)
    words[2:, ::3] = words[:2, ::3]
    for name, sign in (("add", 1), ("sub", -1)):
        body = f"{name}.cc.u64 %o0, %i0, %i2; {name}c.cc.u64 %o1, %i1, %i3; {name}c.s64 %o2, 0, 0;"
        _, found = execute(body, *words, out="u8", outputs=3, engine=engine, check=False)
        for lane in range(32):
            low, high, other_low, other_high = (int(word[lane]) for word in words)
            total = (low | high << 64) + sign * (other_low | other_high << 64)
            got = sum(int(found[i, lane]) << (64 * i) for i in range(3))
            assert got == total % 2**192


def test_a_product_of_128_bits_through_the_carry():
    a, b = 0xFEDCBA9876543210, 0xF0E1D2C3B4A59687
    halves = [np.full(32, x, np.uint32) for x in (a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32)]
    body = """
    mul.lo.u32 %o0, %i0, %i2; mul.hi.u32 %o1, %i0, %i2;
    mad.lo.cc.u32 %o1, %i0, %i3, %o1; madc.hi.u32 %o2, %i0, %i3, 0;
    mad.lo.cc.u32 %o1, %i1, %i2, %o1; madc.hi.cc.u32 %o2, %i1, %i2, %o2; madc.hi.u32 %o3, %i1, %i3, 0;
    mad.lo.cc.u32 %o2, %i1, %i3, %o2; addc.u32 %o3, %o3, 0;
    """
    _, found = execute(body, *halves, outputs=4, check=False)
    assert sum(int(found[i, 0]) << (32 * i) for i in range(4)) == a * b


@pytest.mark.parametrize(
    ("a", "b", "c", "wanted"),
    [(2**30, 8, 5, 7), (2**31 - 1, 2**31 - 1, 2**31 - 1, 2**31 - 1), (-(2**31), 2**31 - 1, -(2**31), -(2**31))],
)
def test_a_product_is_saturated(a, b, c, wanted):
    assert run("mad.hi.sat.s32", a, b, c) == wanted


@QUICK
@given(U32, U32)
def test_pairs_of_16_bits(a, b):
    def halves(x, sign):
        return [signed(part, 16) if sign else part for part in (x & 0xFFFF, x >> 16)]

    def packed(low, high):
        return low % 2**16 | high % 2**16 << 16

    for t, sign in (("u16x2", False), ("s16x2", True)):
        x, y = halves(a, sign), halves(b, sign)
        assert run(f"add.{t}", a, b) == packed(x[0] + y[0], x[1] + y[1])
        assert run(f"max.{t}", a, b) == packed(max(x[0], y[0]), max(x[1], y[1]))
        assert run(f"min.{t}", a, b) == packed(min(x[0], y[0]), min(x[1], y[1]))
    x, y = halves(a, True), halves(b, True)
    assert run("min.relu.s16x2", a, b) == packed(max(min(x[0], y[0]), 0), max(min(x[1], y[1]), 0))
    assert run("max.relu.s32", a, b) == max(signed(a), signed(b), 0)


def test_24_bits_are_saturated():
    assert run("mad24.hi.sat.s32", 0x7FFFFF, 0x7FFFFF, 0x7FFFFFFF) == 2**31 - 1
    assert run("mad24.hi.sat.s32", 0x7FFFFF, 2, 3) == (0x7FFFFF * 2 >> 16) + 3
    for opcode in ("mad24.lo.sat.s32", "max.relu.u32", "add.sat.u16x2"):
        with pytest.raises(UnknownForm):
            run(opcode, 1, 2, 3)
