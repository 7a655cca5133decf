"""Arithmetic against exact rationals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lab.emulator import floats

SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=True)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
MODES = st.sampled_from(["rn", "rz", "rm", "rp"])
MANY = settings(max_examples=400)


def exact32(x: Fraction, mode: str) -> float:
    return floats.round_fraction(x, mode, 24, -149, 128)


@st.composite
def near_ties(draw):
    """Operands whose sum lies within a hair of half-way between two singles."""
    c = np.float32(draw(st.integers(2**23, 2**24 - 1)) * 2.0 ** draw(st.integers(-140, 20)))
    ulp = float(np.spacing(c))
    half = np.float32(math.sqrt(0.5))
    a = np.float32(draw(st.sampled_from([0.5, 1.0, float(half), 1.0 + 2.0**-23])) * 2.0 ** draw(st.integers(-3, 3)))
    b = np.float32(ulp * 0.5 / float(a))
    b = np.nextafter(b, np.float32(draw(st.sampled_from([-1.0, 0.0, 1.0])) * 1e30)) if draw(st.booleans()) else b
    return float(a), float(b), float(c)


def fma32(a, b, c):
    out = np.empty(1, np.float32)
    with floats.exact_arithmetic():
        floats.fma32(out, *(np.array([x], np.float32) for x in (a, b, c)))
    return out[0]


@MANY
@given(st.one_of(st.tuples(SINGLES, SINGLES, SINGLES), near_ties()))
@example((2.0**-75, 2.0**-75, 2.0**-149))  # half a quantum below the least subnormal
@example((2.0**-75 * (1 + 2.0**-23), 2.0**-75, 2.0**-149))
@example((1 + 2.0**-23, 1 + 2.0**-23, 2.0**-60))
def test_fma32_rounds_once(operands):
    exact = Fraction(operands[0]) * Fraction(operands[1]) + Fraction(operands[2])
    wanted = exact32(exact, "rn") if exact else 0.0
    found = fma32(*operands)
    assert found == np.float32(wanted)


def test_fma32_on_random_arrays():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 3000), np.float32)
    c = (-a.astype(float) * b * rng.choice([1, 1 + 2e-7, 0.5, 1e-9], 3000)).astype(np.float32)
    out = np.empty_like(a)
    with floats.exact_arithmetic():
        floats.fma32(out, a, b, c)
    for x, y, z, r in zip(a, b, c, out, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert float(r) == (exact32(exact, "rn") if exact else 0.0)


def test_fma32_may_write_over_an_operand():
    c = np.array([1.0, 2.0], np.float32)
    with floats.exact_arithmetic():
        floats.fma32(c, np.array([2.0, 3.0], np.float32), np.array([4.0], np.float32), c)
    assert c.tolist() == [9.0, 14.0]


def test_nan_is_canonical():
    assert fma32(np.inf, 0.0, 1.0).view(np.uint32) == 0x7FFFFFFF
    assert fma32(np.nan, 1.0, 1.0).view(np.uint32) == 0x7FFFFFFF


@MANY
@given(SINGLES, SINGLES, SINGLES, st.sampled_from(["rz", "rm", "rp"]))
def test_fma32_directed(a, b, c, mode):
    with floats.exact_arithmetic():
        x, y, z = (np.array([value], np.float32) for value in (a, b, c))
        found = floats.fma32_directed(x, y, z, mode)[0]
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        assert float(found) == exact32(exact, mode)
    else:
        assert found == 0


@MANY
@given(SINGLES, SINGLES, st.sampled_from(["rz", "rm", "rp"]))
def test_division_and_root_directed(a, b, mode):
    x, y = np.array([a], np.float32), np.array([b], np.float32)
    with floats.exact_arithmetic():
        if a and b:
            found = floats.div32_directed(x, y, mode)[0]
            assert float(found) == exact32(Fraction(a) / Fraction(b), mode)
        root = float(floats.sqrt32_directed(np.abs(x), mode)[0])
    square, value = Fraction(root) ** 2, abs(Fraction(a))
    above = Fraction(float(np.nextafter(np.float32(root), np.float32(np.inf)))) ** 2
    if mode == "rp":
        assert square >= value
    else:
        assert square <= value < above


@MANY
@given(DOUBLES, DOUBLES, DOUBLES)
@example(2.0**-540, 2.0**-540, 2.0**-1074)
@example(1.7e308, 2.0, -1.7e308)
@example(1 + 2.0**-52, 1 - 2.0**-53, -1.0)
def test_fma64_rounds_once(a, b, c):
    out = np.empty(1)
    with floats.exact_arithmetic():
        floats.fma64(out, np.array([a]), np.array([b]), np.array([c]))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assert out[0] == (floats.round_fraction(exact, "rn") if exact else 0.0)


@pytest.mark.parametrize("a", [0.0, -0.0])
@pytest.mark.parametrize("c", [0.0, -0.0, 1.5, math.inf, 5e-324])
def test_fma64_of_zeros(a, c):
    out = np.empty(1)
    with floats.exact_arithmetic():
        floats.fma64(out, np.array([a]), np.array([2.0]), np.array([c]))
    assert out.tobytes() == np.array([a * 2.0 + c]).tobytes()


def test_fma64_on_random_arrays():
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, 2000))
    c = -a * b * rng.choice([1.0, 1 + 2.0**-52, 0.5, 1e-20], 2000)
    out = np.empty(2000)
    with floats.exact_arithmetic():
        floats.fma64(out, a, b, c)
    for x, y, z, r in zip(a, b, c, out, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert float(r) == (floats.round_fraction(exact, "rn") if exact else 0.0)


@pytest.mark.parametrize(("a", "b", "c"), [(math.inf, 0.0, 1.0), (math.inf, 1.0, -math.inf), (math.nan, 1.0, 1.0)])
def test_fma64_invalid(a, b, c):
    out = np.empty(1)
    with floats.exact_arithmetic():
        floats.fma64(out, np.array([a]), np.array([b]), np.array([c]))
    assert out.view(np.uint64)[0] == 0x7FFFFFFFFFFFFFFF


@MANY
@given(DOUBLES, DOUBLES, MODES)
def test_each64(a, b, mode):
    x, y = np.array([a]), np.array([b])
    with floats.exact_arithmetic():
        for name, exact in (("add", Fraction(a) + Fraction(b)), ("mul", Fraction(a) * Fraction(b))):
            found = floats.each64(name, mode, x, y)[0]
            assert found == (floats.round_fraction(exact, mode) if exact else 0.0)


@MANY
@given(
    st.floats(width=16, allow_nan=False, allow_infinity=False),
    st.floats(width=16, allow_nan=False, allow_infinity=False),
    st.floats(width=16, allow_nan=False, allow_infinity=False),
)
def test_half_fma_rounds_once(a, b, c):
    with floats.exact_arithmetic():
        odd = floats.narrow_fma(*(np.array([x], np.float32) for x in (a, b, c)))
        found = floats.f32_to_f16(odd)[0]
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assert float(found) == (floats.round_fraction(exact, "rn", 11, -24, 16) if exact else 0.0)


@MANY
@given(SINGLES, MODES)
@example(1 + 2.0**-8, "rn")  # half-way to an odd number
@example(1 + 3 * 2.0**-8, "rn")  # half-way from an odd number
@example(-1 - 2.0**-8 - 2.0**-23, "rn")
@example(1 + 2.0**-23, "rp")
@example(-1 - 2.0**-23, "rm")
def test_bfloat16(x, mode):
    with floats.exact_arithmetic():
        found = floats.bf16_to_32(floats.f32_to_bf16(np.array([x], np.float32), mode))[0]
    assert float(found) == (floats.round_fraction(Fraction(x), mode, 8, -133, 128) if x else 0.0)


@given(DOUBLES, MODES)
def test_round_fraction_agrees_with_the_hardware(x, mode):
    if x:
        assert floats.round_fraction(Fraction(x), mode) == x


def test_special_values_in_half_precision():
    values = np.array([np.inf, -np.inf, np.nan, -0.0], np.float32)
    for mode in ("rn", "rz", "rm", "rp"):
        with floats.exact_arithmetic():
            assert floats.f32_to_bf16(values, mode).tolist() == [0x7F80, 0xFF80, 0x7FFF, 0x8000]
            assert floats.f32_to_f16(values, mode).view(np.uint16).tolist() == [0x7C00, 0xFC00, 0x7FFF, 0x8000]


@MANY
@given(st.floats(-60000, 60000, width=32), MODES)
def test_float16(x, mode):
    with floats.exact_arithmetic():
        found = floats.f32_to_f16(np.array([x], np.float32), mode)[0]
    assert float(found) == (floats.round_fraction(Fraction(x), mode, 11, -24, 16) if x else 0.0)


@pytest.mark.parametrize(
    ("operation", "operands", "mode", "wanted"),
    [
        ("add", (1.0, -1.0), "rm", -0.0),
        ("add", (1.0, -1.0), "rp", 0.0),
        ("add", (-0.0, -0.0), "rp", -0.0),
        ("add", (0.0, 0.0), "rm", 0.0),
        ("add", (0.0, -0.0), "rm", -0.0),
        ("mul", (0.0, -3.0), "rp", -0.0),
        ("fma", (2.0, 3.0, -6.0), "rm", -0.0),
        ("fma", (2.0, 3.0, -6.0), "rz", 0.0),
        ("fma", (0.0, 3.0, 0.0), "rm", 0.0),
        ("fma", (0.0, -3.0, 0.0), "rm", -0.0),
        ("fma", (3.0, 0.0, -0.0), "rm", -0.0),
        ("fma", (0.0, -3.0, -0.0), "rp", -0.0),
        ("div", (1.0, 0.0), "rz", math.inf),
        ("div", (math.inf, 2.0), "rm", math.inf),
        ("sqrt", (4.0,), "rp", 2.0),
        ("sqrt", (2.0,), "rm", float(np.nextafter(math.sqrt(2), 0))),
        ("sqrt", (2.0,), "rp", math.sqrt(2)),
        ("sqrt", (-0.0,), "rm", -0.0),
        ("sqrt", (math.inf,), "rz", math.inf),
    ],
)
def test_zeros_and_infinities_of_directed_doubles(operation, operands, mode, wanted):
    with floats.exact_arithmetic():
        found = floats.each64(operation, mode, *(np.array([x]) for x in operands))
    assert found.tobytes() == np.array([wanted]).tobytes()


def test_flushes_and_saturation():
    least = np.float32(2.0**-126)
    below = np.nextafter(least, np.float32(0))
    assert floats.flush32(np.array([least, -least, below, -below], np.float32)).view(np.uint32).tolist() == [
        0x00800000, 0x80800000, 0, 0x80000000,
    ]  # fmt: skip
    halves = np.array([0x0400, 0x8400, 0x03FF, 0x83FF], np.uint16).view(np.float16)
    assert floats.flush16(halves).view(np.uint16).tolist() == [0x0400, 0x8400, 0, 0x8000]
    values = np.array([-0.5, -0.0, 0.25, 1, 1.5, np.inf, -np.inf, np.nan], np.float32)
    floats.saturate(values)
    assert values.tolist() == [0, 0, 0.25, 1, 1, 1, 0, 0]
