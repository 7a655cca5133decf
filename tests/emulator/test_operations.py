"""Operations of the table against models in Python integers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lab.emulator.operations.table  # noqa: F401  fills the table
from lab.emulator.floats import exact_arithmetic, round_fraction
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm
from lab.emulator.operations.base import ALU

U32 = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1]))
U64 = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]))
QUICK = settings(max_examples=150, deadline=None)


def run(opcode, *values, operands=None):
    """Run an operation on Python numbers: bits for integers, numbers for floats."""
    op = Opcode(opcode)
    alu = ALU[op.family](op, operands or 1 + len(values))
    ins = [_array(value, t) for value, t in zip(values, alu.ins, strict=True)]
    outs = [np.empty(1, DTYPES[t]) for t in alu.outs]
    with exact_arithmetic():
        alu.compute(*outs, *ins)
    results = [out[0].item() for out in outs]
    return results[0] if len(results) == 1 else results


def _array(value, t):
    dtype = DTYPES[t]
    if dtype.kind in "fb":
        return np.array([value], dtype)
    return np.array([value & (2 ** (8 * dtype.itemsize) - 1)], f"u{dtype.itemsize}").view(dtype)


def signed(x, bits=32):
    return x - 2**bits if x >> (bits - 1) else x


def wrap(x, bits=32):
    return x % 2**bits


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
    assert run("sub.cc.u32", a, b) == [wrap(a - b), a < b]
    assert run("subc.u32", a, b, carry) == wrap(a - b - carry)


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


@QUICK
@given(U32, U32, U32)
def test_bits(a, b, c):
    assert run("and.b32", a, b) == a & b
    assert run("not.b32", a) == wrap(~a)
    table = c & 0xFF
    wanted = sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i for i in range(32))
    assert run("lop3.b32", a, b, c, table) == wanted
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
    wanted = 0  # as the pseudocode of PTX ISA's bfe reads
    last = min(position + length - 1, 31)
    sign = a >> last & 1 if length else 0
    for i in range(32):
        inside = i < length and position + i <= 31
        wanted |= (a >> (position + i) & 1 if inside else sign) << i
    unsigned = (a >> position) & (2**length - 1)
    assert run("bfe.u32", a, position, length) == unsigned
    assert wrap(run("bfe.s32", a, position, length)) == wanted
    mask = wrap((2 ** min(length, 32) - 1) << position)
    assert run("bfi.b32", a, b, position, length) == (wrap(a << position) & mask) | (b & ~mask)


@QUICK
@given(U32, U32, U32)
def test_bytes(a, b, c):
    pair = (b << 32 | a).to_bytes(8, "little")
    wanted = 0
    for i in range(4):
        nibble = c >> (4 * i) & 15
        byte = pair[nibble & 7]
        wanted |= ((0xFF if byte >> 7 else 0) if nibble & 8 else byte) << (8 * i)
    assert run("prmt.b32", a, b, c) == wanted
    xs, ys = a.to_bytes(4, "little"), b.to_bytes(4, "little")
    assert run("dp4a.u32.u32", a, b, c) == wrap(c + sum(x * y for x, y in zip(xs, ys, strict=True)))
    assert run("dp4a.s32.s32", a, b, c) == signed(
        wrap(c + sum(signed(x, 8) * signed(y, 8) for x, y in zip(xs, ys, strict=True)))
    )


FLOATS = st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan]))


@QUICK
@given(FLOATS, FLOATS)
def test_comparisons(a, b):
    unordered = math.isnan(a) or math.isnan(b)
    pairs = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    for name, holds in pairs.items():
        assert run(f"setp.{name}.f32", a, b) is (holds and not unordered)
        assert run(f"setp.{name}u.f32", a, b) is (holds or unordered)
    assert run("setp.nan.f32", a, b) is unordered
    assert run("setp.num.f32", a, b) is not unordered


@QUICK
@given(FLOATS, FLOATS)
def test_extrema(a, b):
    low, high = run("min.f32", a, b), run("max.f32", a, b)
    if math.isnan(a) and math.isnan(b):
        assert math.isnan(low)
        assert math.isnan(high)
    elif math.isnan(a) or math.isnan(b):
        assert low == high == (b if math.isnan(a) else a)
        assert math.isnan(run("min.NaN.f32", a, b))
    else:
        assert (low, high) == (min(a, b), max(a, b))
        if a == b == 0:
            signs = sorted([math.copysign(1, a), math.copysign(1, b)])
            assert [math.copysign(1, low), math.copysign(1, high)] == signs


def test_setp_combines_and_has_two_results():
    assert run("setp.lt.and.s32", 1, 2, True, operands=5) == [True, False]
    assert run("setp.lt.and.s32", 1, 2, False, operands=5) == [False, False]
    assert run("setp.ge.or.s32", 1, 2, False, operands=4) is False
    assert run("setp.lo.u32", 1, 2**32 - 1) is True


@QUICK
@given(st.floats(width=32))
def test_float_to_integer(x):
    rounded = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    for mode, function in rounded.items():
        for t, low, high in (
            ("s32", -(2**31), 2**31 - 1),
            ("u32", 0, 2**32 - 1),
            ("u8", 0, 255),
            ("s64", -(2**63), 2**63 - 1),
        ):
            if math.isnan(x):
                wanted = -(2**63) if t == "s64" else 0
            else:
                wanted = (high if x > 0 else low) if math.isinf(x) else max(low, min(high, function(x)))
            assert run(f"cvt.{mode}.{t}.f32", x) == wanted


@QUICK
@given(U64, st.sampled_from(["rn", "rz", "rm", "rp"]))
def test_integer_to_float(x, mode):
    for t, value in (("u64", x), ("s64", signed(x, 64))):
        wanted = round_fraction(Fraction(value), mode, 24, -149, 128) if value else 0.0
        assert run(f"cvt.{mode}.f32.{t}", x) == wanted
        wanted = round_fraction(Fraction(value), mode) if value else 0.0
        assert run(f"cvt.{mode}.f64.{t}", x) == wanted


@QUICK
@given(st.floats(allow_nan=False), st.sampled_from(["rn", "rz", "rm", "rp"]))
def test_double_to_single(x, mode):
    wanted = x if math.isinf(x) or x == 0 else round_fraction(Fraction(x), mode, 24, -149, 128)
    assert run(f"cvt.{mode}.f32.f64", x) == wanted


def test_narrow_integers():
    assert run("cvt.s32.s8", 0xFF) == -1
    assert run("cvt.u32.u8", 0xFF) == 255
    assert run("cvt.sat.u8.s32", -5) == 0
    assert run("cvt.sat.s8.s32", 300) == 127
    assert run("cvt.u16.u32", 0x12345) == 0x2345


def test_flush_and_saturate():
    assert run("mul.ftz.f32", 2.0**-100, 2.0**-40) == 0.0
    assert run("mul.f32", 2.0**-100, 2.0**-40) == 2.0**-140
    assert run("add.ftz.f32", 2.0**-140, 0.0) == 0.0
    assert run("add.sat.f32", 0.75, 0.75) == 1.0
    assert run("add.sat.f32", math.nan, 0.75) == 0.0
    assert run("fma.rn.ftz.f32", 2.0**-140, 1.0, 0.0) == 0.0


def test_halves():
    assert run("cvt.rn.bf16x2.f32", 1.0, 2.0) == 0x3F804000
    assert run("cvt.rn.f16x2.f32", 1.0, 2.0) == 0x3C004000
    assert run("fma.rn.f16x2", 0x3C003C00, 0x40004000, 0x3C003C00) == 0x42004200
    assert run("cvt.rna.tf32.f32", 1.0 + 2.0**-11) == 0x3F802000
    assert run("neg.bf16x2", 0x3F804000) == 0xBF80C000


@pytest.mark.parametrize("x", [0.1, 1.5, -3.25, 100.0, 1e-20])
def test_special_functions(x):
    assert run("ex2.approx.f32", x) == pytest.approx(2.0**x, rel=1e-6)
    assert run("sin.approx.f32", x) == pytest.approx(math.sin(x), abs=1e-6)
    assert run("rcp.rn.f32", x) == np.float32(1) / np.float32(x)
    assert run("rsqrt.approx.f32", abs(x)) == pytest.approx(abs(x) ** -0.5, rel=1e-6)
    assert run("lg2.approx.f32", abs(x)) == pytest.approx(math.log2(abs(x)), rel=1e-6)


@pytest.mark.parametrize(
    "opcode", ["add.rq.f32", "fma.rn.relu.f32", "cvt.f32.s32", "setp.ltu.s32", "mul.hi.b32", "add.sat.u32"]
)
def test_unknown_forms_are_refused(opcode):
    op = Opcode(opcode)
    with pytest.raises(UnknownForm):
        ALU[op.family](op, 3)
