"""Floats of eight, six and four bits, against fractions, over every number of half precision."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from alu import run
from small_ptx import execute

from lab.emulator.opcodes import UnknownForm
from lab.emulator.operations.narrow import FORMATS, is_narrow

HALVES = np.arange(65536, dtype=np.uint16)
# exponent bits, fraction bits, bias, numbers without a sign, code of a NaN (the OCP specifications of FP8 and MX)
DEFINED = {
    "e4m3": (4, 3, 7, 127, 0x7F),
    "e5m2": (5, 2, 15, 124, 0x7F),
    "e2m3": (2, 3, 1, 32, None),
    "e3m2": (3, 2, 3, 32, None),
    "e2m1": (2, 1, 1, 8, None),
}
LARGEST = {"e4m3": 448, "e5m2": 57344, "e2m3": 7.5, "e3m2": 28, "e2m1": 6}


@cache
def number(name, code):
    _, fraction, bias, _, _ = DEFINED[name]
    power, digits = divmod(code, 2**fraction)
    if power == 0:
        return Fraction(digits, 2**fraction) * Fraction(2) ** (1 - bias)
    return (1 + Fraction(digits, 2**fraction)) * Fraction(2) ** (power - bias)


def nearest(name, x):
    """Return the code of a finite or infinite number, to nearest even, clamped."""
    numbers = [number(name, code) for code in range(DEFINED[name][3])]
    size = abs(x)
    if size >= numbers[-1]:
        return len(numbers) - 1
    return min(range(len(numbers)), key=lambda code: (abs(numbers[code] - Fraction(size)), code % 2))


@pytest.mark.parametrize("name", DEFINED)
def test_the_largest_number(name):
    assert FORMATS[name].values[-1] == LARGEST[name]
    assert len(FORMATS[name].values) == DEFINED[name][3]


@pytest.mark.parametrize("name", DEFINED)
def test_every_half_is_rounded_and_comes_back(name):
    halves = HALVES[::7]
    exponent, fraction, _, _, nan = DEFINED[name]
    bits = 1 + exponent + fraction
    holder = 4 if bits == 4 else 8
    pairs = halves.astype(np.uint32) << 16 | 0x3C00  # the lower one is 1.0
    form = FORMATS[name]
    codes = form.encoded(halves.view(np.float16).astype(np.float64))
    for half, code in zip(halves[::11].view(np.float16), codes[::11].tolist(), strict=True):
        if np.isnan(half):
            assert code == (nan if nan is not None else DEFINED[name][3] - 1)
        elif np.isinf(half):
            assert code & (2 ** (bits - 1) - 1) == DEFINED[name][3] - 1
        else:
            assert code == nearest(name, Fraction(float(half))) | np.signbit(half) << (bits - 1)
    for pair, code in zip(pairs[:3].tolist(), codes[:3].tolist(), strict=True):
        assert run(f"cvt.rn.satfinite.{name}x2.f16x2", pair) == code << holder | nearest(name, 1)


@pytest.mark.parametrize("name", DEFINED)
def test_every_code_is_exact_in_half_precision(name):
    exponent, fraction, _, count, _ = DEFINED[name]
    sign = 2 ** (exponent + fraction)
    step = 4 if sign == 8 else 8
    for code in range(2 * sign):
        converted = run(f"cvt.rn.f16x2.{name}x2", code << step | 1)
        high = np.array([converted >> 16], np.uint16).view(np.float16)[0]
        if code % sign < count:
            assert Fraction(float(high)) == number(name, code % sign) * (-1 if code >= sign else 1)
            assert np.signbit(high) == (code >= sign)
        elif name == "e5m2" and code % sign == count:
            assert np.isinf(high)
        else:
            assert converted >> 16 == 0x7FFF
        assert Fraction(float(np.array([converted], np.uint32).view(np.float16)[0])) == number(name, 1)


def test_exact_values():
    assert run("cvt.rn.satfinite.e4m3x2.f32", 1.0, -2.0) == 0x38C0
    assert run("cvt.rn.satfinite.e4m3x2.f32", 1e9, float("-inf")) == 0x7EFE
    assert run("cvt.rn.satfinite.e5m2x2.f32", float("inf"), float("nan")) == 0x7B7F
    assert run("cvt.rn.satfinite.e2m1x2.f32", 2.5, -5.0) == 0x4E  # ties to even: 2 and -4
    assert run("cvt.rn.satfinite.relu.e4m3x2.f32", -3.0, 3.0) == 0x0044
    assert run("cvt.rn.relu.f16x2.e4m3x2", 0xB838) == 0x3C00
    assert run("cvt.rn.satfinite.e4m3x2.f32", 2.0**-10, 2.0**-10 * 1.001) == 0x0001  # half of the least number


def test_pairs_of_exponents():
    assert run("cvt.rz.satfinite.ue8m0x2.f32", 1.5, 4.0) == 0x7F81
    assert run("cvt.rp.satfinite.ue8m0x2.f32", 1.5, -4.0) == 0x8081
    assert run("cvt.rp.ue8m0x2.f32", float("inf"), float("nan")) == 0xFFFF
    assert run("cvt.rp.satfinite.ue8m0x2.f32", float("inf"), 0.0) == 0xFE00
    assert run("cvt.rp.satfinite.ue8m0x2.f32", 2.0**-127, 1.5 * 2.0**-127) == 0x0001
    assert run("cvt.rz.ue8m0x2.bf16x2", 0x3FC04080) == 0x7F81
    assert run("cvt.rn.bf16x2.ue8m0x2", 0x7F81) == 0x3F804080
    assert run("cvt.rn.bf16x2.ue8m0x2", 0x00FF) == 0x00407FFF


def test_a_kernel_packs_and_unpacks():
    x = np.linspace(-9, 9, 32, dtype=np.float32)
    body = """.reg .b8 %b; cvt.rn.satfinite.e2m1x2.f32 %b, %i0, 0f3F800000; cvt.rn.f16x2.e2m1x2 %r1, %b;
    mov.b32 {%h1, %h2}, %r1; cvt.f32.f16 %o0, %h2;"""
    _, out = execute(body, x, out="f4")
    assert out.tolist() == [float(np.copysign(float(number("e2m1", nearest("e2m1", float(v)))), v)) for v in x]


@pytest.mark.parametrize(
    "opcode",
    [
        "cvt.rn.e4m3x2.f32",
        "cvt.satfinite.e4m3x2.f32",
        "cvt.rz.satfinite.e5m2x2.f32",
        "cvt.rn.satfinite.e4m3x2.f64",
        "cvt.rn.f32.e4m3x2",
        "cvt.rn.ue8m0x2.f32",
        "cvt.rn.ftz.f16x2.e4m3x2",
    ],
)
def test_forms_that_there_are_not(opcode):
    with pytest.raises(UnknownForm):
        run(opcode, 1.0, 1.0)


def test_names():
    assert is_narrow("e4m3x2")
    assert is_narrow("ue8m0x2")
    assert not is_narrow("f16x2")


@pytest.mark.parametrize(
    ("opcode", "why"),
    [
        ("cvt.rz.satfinite.e4m3x2.f32", r"\.rz"),
        ("cvt.satfinite.e4m3x2.f32", "a conversion without a rounding"),
        ("cvt.f16x2.e4m3x2", "a conversion without a rounding"),
        ("cvt.rn.satfinite.f16x2.e4m3x2", "cvt"),
        ("cvt.rn.f32.e4m3x2", "cvt"),
    ],
)
def test_narrow_conversions_that_do_not_exist(opcode, why):
    with pytest.raises(UnknownForm, match=why):
        run(opcode, *([0] * (2 if opcode.endswith("f32") else 1)), operands=3 if opcode.endswith(".f32") else 2)


@pytest.mark.parametrize(("name", "narrow"), [("e4m3x2", True), ("e2m1x2", True), ("ue8m0x2", True), ("f16x2", False)])
def test_names_of_narrow_pairs(name, narrow):
    assert is_narrow(name) is narrow
