"""Conversions against exact rationals."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from alu import QUICK, U64, run, signed
from hypothesis import given
from hypothesis import strategies as st
from small_ptx import execute

from lab.emulator.floats import round_fraction
from lab.emulator.opcodes import UnknownForm


@QUICK
@given(st.floats(width=32))
def test_float_to_integer(x):
    rounded: dict[str, Callable[[float], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
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


@pytest.mark.parametrize(
    ("opcode", "x", "wanted"),
    [
        ("cvt.rzi.s32.f64", math.nan, -(2**31)),  # PTX ISA, cvt: only f32 sources turn NaN into 0
        ("cvt.rzi.s32.f32", math.nan, 0),
        ("cvt.rzi.u32.f32", -0.5, 0),
        ("cvt.rni.s32.f32", 2.5, 2),
        ("cvt.rni.s32.f32", -3.5, -4),
        ("cvt.rzi.s8.f32", 1e10, 127),
        ("cvt.rpi.f32.f32", 1.25, 2.0),
        ("cvt.rmi.f64.f64", -1.25, -2.0),
        ("cvt.sat.f32.f32", 1.5, 1.0),
        ("cvt.sat.f32.f32", math.nan, 0.0),
        ("cvt.ftz.f64.f32", 2.0**-140, 0.0),
        ("cvt.rn.f32.f64", 1e300, math.inf),
        ("cvt.rz.f32.f64", 1e300, 3.4028234663852886e38),
        ("cvt.rn.f16.f32", 65520.0, math.inf),
        ("cvt.rz.f16.f32", 65535.0, 65504.0),
    ],
)
def test_awkward_numbers(opcode, x, wanted):
    assert run(opcode, x) == wanted


def test_signs_of_zero_and_canonical_nan():
    x = np.array([-0.0, 0.0, np.nan, -np.nan, -np.inf, 2.0**-149], np.float32)
    _, wide = execute("cvt.f64.f32 %o0, %i0;", x, out="f8")
    assert np.signbit(wide).tolist()[:2] == [True, False]
    assert wide.view(np.uint64)[2] == wide.view(np.uint64)[3] == 0x7FFFFFFFFFFFFFFF
    assert wide[4] == -np.inf
    assert wide[5] == 2.0**-149
    _, bits = execute("cvt.rn.bf16x2.f32 %o0, %i0, 0f3F800000;", x)
    np.testing.assert_array_equal(bits >> 16, [0x8000, 0, 0x7FFF, 0x7FFF, 0xFF80, 0])
    np.testing.assert_array_equal(bits & 0xFFFF, 0x3F80)


def test_halves_and_relu():
    assert run("cvt.rn.relu.f16.f32", -2.0) == 0.0
    assert run("cvt.rn.relu.bf16.f32", 1.0) == 0x3F80
    assert math.isnan(run("cvt.rn.relu.f16.f32", math.nan))
    assert run("cvt.rn.relu.f16x2.f32", -1.0, 1.0) == 0x00003C00
    assert run("cvt.rn.bf16.f64", 1.0 + 2.0**-8 + 2.0**-40) == 0x3F81  # one rounding, not two
    assert run("cvt.f32.bf16", 0xC040) == -3.0


def test_tf32_roundings():
    halfway = 1.0 + 2.0**-11
    assert run("cvt.rna.tf32.f32", halfway) == 0x3F802000
    assert run("cvt.rn.tf32.f32", halfway) == 0x3F800000
    assert run("cvt.rz.tf32.f32", 1.0 + 2.0**-10 + 2.0**-12) == 0x3F802000
    assert run("cvt.rna.tf32.f32", math.inf) == 0x7F800000


def test_packing_integers():
    assert run("cvt.pack.sat.u16.s32", 70000, -3) == 0xFFFF0000
    assert run("cvt.pack.sat.s8.s32.b32", 300, -300, 0xABCD) == 0xABCD7F80


@pytest.mark.parametrize(
    "opcode", ["cvt.f16.f32", "cvt.s32.f32", "cvt.rn.s32.u32", "cvt.ftz.f32.s32", "cvt.rn.f32.tf32", "cvt.rna.f16.s32"]
)
def test_missing_roundings_are_refused(opcode):
    with pytest.raises(UnknownForm):
        run(opcode, 1)


def test_a_minus_zero_keeps_its_sign_when_it_is_narrowed():
    assert math.copysign(1, run("cvt.rn.f32.f64", -0.0)) == -1


def towards(x, mode, bits, smallest, largest):
    """Round a double to a narrower format exactly, by `round_fraction`, which knows nothing of formats."""
    return round_fraction(Fraction(x), mode, bits, smallest, largest) if x else x


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("x", [1.00048828125, -1.0001, 3e-8, -3e-8, 65519.9, -65520.0, 1 / 3, 70000.0, 2.0**-25])
def test_halves_are_rounded_every_way(mode, x):
    single = float(np.float32(x))
    assert run(f"cvt.{mode}.f16.f32", single) == towards(single, mode, 11, -24, 16)
    assert run(f"cvt.{mode}.f16.f64", x) == towards(x, mode, 11, -24, 16)
    wanted = np.array([towards(single, mode, 8, -133, 128)], np.float32).view(np.uint32)[0] >> 16
    assert run(f"cvt.{mode}.bf16.f32", single) == wanted


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("x", [0, 1, -2049, 4099, 65519, 2**31 - 1, -(2**31)])
def test_integers_become_halves(mode, x):
    assert run(f"cvt.{mode}.f16.s32", x) == towards(x, mode, 11, -24, 16)
    wanted = np.array([towards(x, mode, 8, -133, 128)], np.float32).view(np.uint32)[0] >> 16
    assert run(f"cvt.{mode}.bf16.s32", x) == wanted


def test_largest_numbers_instead_of_infinity():
    assert run("cvt.rn.satfinite.f16.f32", 1e9) == 65504
    assert run("cvt.rn.satfinite.bf16.f32", float("-inf")) == 0xFF7F
    assert run("cvt.rn.satfinite.f16x2.f32", -1e9, 2.0) == 0xFBFF4000
    assert run("cvt.rn.relu.satfinite.bf16x2.f32", -1e9, float("inf")) == 0x00007F7F
    assert run("cvt.rna.satfinite.tf32.f32", float("inf")) == 0x7F7FE000
    assert run("cvt.rn.relu.tf32.f32", -1.5) == 0
    assert np.isnan(run("cvt.rn.satfinite.f16.f32", float("nan")))


def test_between_the_half_formats():
    assert run("cvt.rn.bf16.f16", 1.0009765625) == 0x3F80
    assert run("cvt.rn.f16.bf16", 0x3FC0) == 1.5
    assert run("cvt.rmi.bf16.bf16", 0xBFC0) == 0xC000


@pytest.mark.parametrize(
    ("opcode", "values", "wanted"),
    [
        ("cvt.pack.sat.u4.s32.b32", (99, -3, 0x123), 0x123F0),
        ("cvt.pack.sat.s4.s32.b32", (99, -3, 0), 0x7D),
        ("cvt.pack.sat.s2.s32.b32", (-99, 1, 0xF), 0xF9),
    ],
)
def test_small_integers_are_packed(opcode, values, wanted):
    assert run(opcode, *values) == wanted


@pytest.mark.parametrize("t", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_doubles_at_the_ends_of_integers(t):
    bits = int(t[1:]) - (t[0] == "s")
    low, high = (-(2**bits) if t[0] == "s" else 0), 2**bits - 1
    for x in (2.0**bits, 2.0**bits * 1.25, 2.0 ** (bits + 1), 1e300, math.inf):
        assert run(f"cvt.rzi.{t}.f64", x) == high
        assert run(f"cvt.rzi.{t}.f64", -x) == low
    if bits < 53:
        assert run(f"cvt.rzi.{t}.f64", high + 0.5) == high
        assert run(f"cvt.rni.{t}.f64", high - 0.75) == high - 1
        assert run(f"cvt.rmi.{t}.f64", low - 0.25) == low
        assert run(f"cvt.rmi.{t}.f64", low + 1.25) == low + 1
    assert run(f"cvt.rzi.{t}.f64", math.nan) == (-(2**bits) if t[0] == "s" else 2 ** (bits - 1))


@pytest.mark.parametrize(("to", "of"), [("u8", "s64"), ("s8", "u64"), ("s64", "u64"), ("u64", "s64"), ("s16", "u16")])
def test_integers_at_the_ends_of_others(to, of):
    def ends(t):
        bits = int(t[1:]) - (t[0] == "s")
        return (-(2**bits) if t[0] == "s" else 0), 2**bits - 1

    for x in (*ends(of), *(end + step for end in ends(to) for step in (-1, 0, 1))):
        if ends(of)[0] <= x <= ends(of)[1]:
            raw = x % 2 ** int(of[1:])
            assert run(f"cvt.sat.{to}.{of}", raw) == min(max(x, ends(to)[0]), ends(to)[1])
