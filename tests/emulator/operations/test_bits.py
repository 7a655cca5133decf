"""Logic, shifts and bit fields against Python integers."""

import numpy as np
import pytest
from alu import QUICK, U32, run, signed, wrap
from hypothesis import given
from hypothesis import strategies as st
from small_ptx import execute


@QUICK
@given(U32, U32, U32)
def test_bits(a, b, c):
    assert run("and.b32", a, b) == a & b
    assert run("not.b32", a) == wrap(~a)
    table = c & 0xFF
    expected = sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i for i in range(32))
    assert run("lop3.b32", a, b, c, table) == expected
    assert run("popc.b32", a) == a.bit_count()
    assert run("clz.b32", a) == 32 - a.bit_length()
    assert run("brev.b32", a) == int(f"{a:032b}"[::-1], 2)
    assert run("bfind.u32", a) == a.bit_length() - 1
    magnitude = a if a < 2**31 else wrap(~a)
    assert run("bfind.s32", a) == magnitude.bit_length() - 1


@QUICK
@given(U32, U32, st.integers(0, 80))
def test_shifts(a, b, n):
    assert run("shl.b32", a, n) == wrap(a << n)
    assert run("shr.u32", a, n) == a >> n
    assert run("shr.s32", a, n) == signed(a) >> n
    pair = b << 32 | a
    assert run("shf.l.wrap.b32", a, b, n) == wrap((pair << (n % 32)) >> 32)
    assert run("shf.r.wrap.b32", a, b, n) == wrap(pair >> (n % 32))
    assert run("shf.l.clamp.b32", a, b, n) == wrap((pair << min(n, 32)) >> 32)
    assert run("shf.r.clamp.b32", a, b, n) == wrap(pair >> min(n, 32))


@QUICK
@given(U32, U32, st.integers(0, 40), st.integers(0, 40))
def test_bit_fields(a, b, position, length):
    expected = 0  # as the pseudocode of PTX ISA's bfe reads
    last = min(position + length - 1, 31)
    sign = a >> last & 1 if length else 0
    for i in range(32):
        inside = i < length and position + i <= 31
        expected |= (a >> (position + i) & 1 if inside else sign) << i
    unsigned = (a >> position) & (2**length - 1)
    assert run("bfe.u32", a, position, length) == unsigned
    assert wrap(run("bfe.s32", a, position, length)) == expected
    mask = wrap((2 ** min(length, 32) - 1) << position)
    assert run("bfi.b32", a, b, position, length) == (wrap(a << position) & mask) | (b & ~mask)


@QUICK
@given(U32, U32, U32)
def test_bytes(a, b, c):
    pair = (b << 32 | a).to_bytes(8, "little")
    expected = 0
    for i in range(4):
        nibble = c >> (4 * i) & 15
        byte = pair[nibble & 7]
        expected |= ((0xFF if byte >> 7 else 0) if nibble & 8 else byte) << (8 * i)
    assert run("prmt.b32", a, b, c) == expected
    xs, ys = a.to_bytes(4, "little"), b.to_bytes(4, "little")
    assert run("dp4a.u32.u32", a, b, c) == wrap(c + sum(x * y for x, y in zip(xs, ys, strict=True)))
    assert run("dp4a.s32.s32", a, b, c) == signed(
        wrap(c + sum(signed(x, 8) * signed(y, 8) for x, y in zip(xs, ys, strict=True)))
    )


@pytest.mark.parametrize(
    ("opcode", "a", "amount", "wanted"),
    [
        ("shl.b32", 1, 32, 0),
        ("shl.b32", 0xFFFFFFFF, 0xFFFFFFFF, 0),  # amounts are unsigned and clamp
        ("shr.u32", 0x80000000, 32, 0),
        ("shr.s32", 0x80000000, 99, 0xFFFFFFFF),  # the sign fills the word
        ("shr.b64", 2**63, 63, 1),
        ("shl.b16", 0xFFFF, 15, 0x8000),
        ("shl.b16", 0xFFFF, 16, 0),
    ],
)
def test_shifts_by_the_width_and_more(opcode, a, amount, wanted):
    assert wrap(run(opcode, a, amount), int(opcode[-2:])) == wanted


def test_counts_of_zero():
    assert run("clz.b32", 0) == 32
    assert run("clz.b64", 0) == 64
    assert run("popc.b64", 2**64 - 1) == 64
    assert wrap(run("bfind.u32", 0)) == 2**32 - 1
    assert wrap(run("bfind.s32", 0xFFFFFFFF)) == 2**32 - 1  # nothing but sign
    assert run("bfind.shiftamt.u32", 1) == 31


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("f4e", [0x03020100, 0x04030201, 0x05040302, 0x06050403]),
        ("b4e", [0x05060700, 0x06070001, 0x07000102, 0x00010203]),
        ("rc8", [0x00000000, 0x01010101, 0x02020202, 0x03030303]),
        ("ecl", [0x03020100, 0x03020101, 0x03020202, 0x03030303]),
        ("ecr", [0x00000000, 0x01010100, 0x02020100, 0x03020100]),
        ("rc16", [0x01000100, 0x03020302, 0x01000100, 0x03020302]),
    ],
)
def test_permutation_modes(mode, wanted):
    """The tables of PTX ISA's prmt, on bytes that say their own number."""
    assert [run(f"prmt.b32.{mode}", 0x03020100, 0x07060504, c) for c in range(4)] == wanted


def test_masks_and_extensions():
    assert run("bmsk.clamp.b32", 4, 8) == 0xFF0
    assert run("bmsk.clamp.b32", 28, 8) == 0xF0000000
    assert run("bmsk.wrap.b32", 33, 2) == 6
    assert run("szext.clamp.s32", 0x80, 8) == -128
    assert run("szext.clamp.u32", 0x180, 8) == 0x80
    assert run("szext.wrap.s32", 0xFFFFFFFF, 32) == 0


def test_dp2a_takes_half_of_the_bytes():
    a, b = 0x00020003, 0x04050607  # halves 3 and 2; bytes 7, 6, 5, 4
    assert run("dp2a.lo.u32.u32", a, b, 100) == 100 + 3 * 7 + 2 * 6
    assert run("dp2a.hi.u32.u32", a, b, 100) == 100 + 3 * 5 + 2 * 4
    assert run("dp2a.lo.s32.u32", 0xFFFF0000, 0xFF00, 0) == -255


def test_logic_on_predicates():
    x = np.arange(8, dtype=np.uint32)
    body = """
    setp.gt.u32 %p0, %i0, 2; setp.lt.u32 %p1, %i0, 6; and.pred %p2, %p0, %p1; not.pred %p3, %p2; xor.pred %p4, %p3, %p0;
    selp.u32 %o0, 1, 0, %p2; selp.u32 %o1, 1, 0, %p3; selp.u32 %o2, 1, 0, %p4; cnot.b32 %o3, %i0;
    """
    _, (both, neither, other, zero) = execute(body, x, outputs=4)
    inside = (x > 2) & (x < 6)
    np.testing.assert_array_equal(both, inside)
    np.testing.assert_array_equal(neither, ~inside)
    np.testing.assert_array_equal(other, ~inside ^ (x > 2))
    np.testing.assert_array_equal(zero, x == 0)


@QUICK
@given(U32, U32, U32, st.booleans())
def test_three_inputs_with_a_predicate(a, b, c, q):
    table = c & 0xFF
    expected = run("lop3.b32", a, b, c, table)
    assert run("lop3.or.b32", a, b, c, table, q, operands=7) == [expected, bool(expected) or q]
    assert run("lop3.and.b32", a, b, c, table, q, operands=7) == [expected, bool(expected) and q]


def test_the_predicate_alone():
    x = np.arange(32, dtype=np.uint32)
    _, out = execute("setp.eq.u32 %p1, 0, 1; lop3.or.b32 _|%p2, %i0, 1, 0, 0xC0, %p1; selp.u32 %o0, 1, 0, %p2;", x)
    np.testing.assert_array_equal(out, x & 1)


@QUICK
@given(U32, st.integers(0, 31), st.integers(-33, 33))
def test_the_nth_set_bit(mask, base, offset):
    upwards, downwards = list(range(base, 32)), list(range(base, -1, -1))
    places = {0: [base], 1: upwards, -1: downwards}[(offset > 0) - (offset < 0)]
    hits = [place for place in places if mask >> place & 1]
    count = max(abs(offset), 1)
    assert run("fns.b32", mask, base, offset) == (hits[count - 1] if len(hits) >= count else 0xFFFFFFFF)
