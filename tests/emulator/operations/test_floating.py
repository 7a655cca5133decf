"""Floating-point operations."""

import math
from fractions import Fraction

import numpy as np
import pytest
from alu import QUICK, run
from hypothesis import given
from hypothesis import strategies as st
from small_ptx import execute

from lab.emulator.opcodes import UnknownForm
from lab.emulator.operations.floating import float_extremum

FLOATS = st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan]))


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


AWKWARD = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 2.0**-149, 3.4e38, -3.4e38], np.float32)


@pytest.mark.parametrize(("name", "ufunc"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)])
def test_singles_against_numpy_in_a_partial_warp(name, ufunc):
    a, b = (x.reshape(-1) for x in np.meshgrid(AWKWARD, AWKWARD))
    emulation, found = execute(f"{name}.f32 %o0, %i0, %i1;", a, b, out="f4")
    with np.errstate(all="ignore"):
        wanted = ufunc(a, b)
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(found.view(np.uint32)[~nan], wanted.view(np.uint32)[~nan])
    assert (found.view(np.uint32)[nan] == 0x7FFFFFFF).all()  # PTX's canonical NaN
    assert emulation.clean


def test_signs_move_bits_alone():
    _, (negative, positive) = execute("neg.f32 %o0, %i0; abs.f32 %o1, %i0;", AWKWARD, out="f4", outputs=2)
    np.testing.assert_array_equal(negative.view(np.uint32), AWKWARD.view(np.uint32) ^ 0x80000000)
    np.testing.assert_array_equal(positive.view(np.uint32), AWKWARD.view(np.uint32) & 0x7FFFFFFF)
    assert run("neg.s32", 0x80000000) == -(2**31)  # wraps
    assert run("neg.ftz.f32", 2.0**-140) == 0.0
    assert run("copysign.f32", -0.0, 3.0) == -3.0


@pytest.mark.parametrize(
    ("opcode", "values", "wanted"),
    [
        ("add.rz.f32", (1.0, 2.0**-30), 1.0),
        ("add.rp.f32", (1.0, 2.0**-30), 1.0 + 2.0**-23),
        ("sub.rm.f64", (1.0, 2.0**-60), 1.0 - 2.0**-53),
        ("mul.rp.f64", (1.0 + 2.0**-52, 1.0 + 2.0**-52), 1.0 + 2.0**-51 + 2.0**-52),
        ("fma.rm.f64", (2.0, 3.0, -6.0), -0.0),
        ("div.rz.f32", (1.0, 3.0), 0.3333333134651184),
        ("div.rn.f32", (1.0, 0.0), math.inf),
        ("div.rp.f64", (1.0, 3.0), 0.33333333333333337),
        ("div.approx.f32", (1.0, 2.0**127), 0.0),
        ("rcp.rp.f32", (3.0,), 0.3333333432674408),
        ("rcp.approx.ftz.f64", (2.0,), 0.5),
        ("rsqrt.approx.ftz.f64", (2.0,), float.fromhex("0x1.6a09ep-1")),  # 20 bits behind the point
        ("sqrt.rm.f32", (2.0,), 1.41421354),
        ("sqrt.rn.f64", (2.0,), math.sqrt(2.0)),
        ("rsqrt.approx.f64", (4.0,), 0.5),
        ("fma.rn.sat.f32", (2.0, 3.0, -7.0), 0.0),
    ],
)
def test_roundings(opcode, values, wanted):
    found = run(opcode, *values)
    assert found == np.float32(wanted) if opcode.endswith("32") else found == wanted
    assert math.copysign(1, found) == math.copysign(1, wanted)


def test_roots_of_negative_numbers():
    assert math.isnan(run("sqrt.rn.f32", -1.0))
    assert math.isnan(run("lg2.approx.f32", -1.0))
    assert math.copysign(1, run("sqrt.rn.f32", -0.0)) == -1


def test_extrema_of_integers_and_halves():
    assert run("min.u32", 0xFFFFFFFF, 1) == 1
    assert run("min.s32", 0xFFFFFFFF, 1) == -1
    assert run("max.bf16", 0xBF80, 0x3F80) == 0x3F80
    assert run("max.f16x2", 0x3C00_0000, 0x4000_8000) == 0x40000000  # +0 is larger than -0
    assert run("max.ftz.f32", -(2.0**-140), -1.0) == 0.0


def test_half_modifiers():
    assert run("add.sat.f16", 0.75, 0.75) == 1.0
    assert run("fma.rn.relu.f16", -1.0, 1.0, 0.0) == 0.0
    assert run("add.ftz.f16", 2.0**-24, 0.0) == 0.0
    assert run("mul.f16", 60000.0, 2.0) == math.inf
    assert run("tanh.approx.bf16", 0x3F80) == 0x3F43  # tanh 1 = 0.7616
    with pytest.raises(UnknownForm):
        run("add.sat.bf16", 0x3F80, 0x3F80)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("finite", [1, 1, 1, 1, 0, 0, 0, 1, 1, 1]),
        ("infinite", [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]),
        ("number", [1, 1, 1, 1, 1, 1, 0, 1, 1, 1]),
        ("notanumber", [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]),
        ("normal", [0, 0, 1, 1, 0, 0, 0, 0, 1, 1]),
        ("subnormal", [0, 0, 0, 0, 0, 0, 0, 1, 0, 0]),
    ],
)
def test_kinds_of_floats(kind, wanted):
    _, found = execute(f"testp.{kind}.f32 %p0, %i0; selp.u32 %o0, 1, 0, %p0;", AWKWARD)
    assert found.tolist() == wanted


def test_a_signalling_nan_gives_way_to_a_number_everywhere_in_an_array():
    nan = np.full(67, 0xFFA00000, np.uint32).view(np.float32)
    for largest in (False, True):
        np.testing.assert_array_equal(float_extremum(nan, np.ones(67, np.float32), largest=largest), 1)
        np.testing.assert_array_equal(float_extremum(np.ones(67, np.float32), nan, largest=largest), 1)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("opcode", "values", "wanted"),
    [
        ("min.f32", (3.0, 1.0, 2.0), 1.0),
        ("max.f32", (3.0, NAN, -INF), 3.0),
        ("max.NaN.f32", (3.0, NAN, 4.0), NAN),
        ("max.abs.f32", (3.0, -5.0, 4.0), 5.0),
        ("min.NaN.abs.f32", (-3.0, -5.0, 4.0), 3.0),
        ("max.xorsign.abs.f32", (3.0, -5.0), -5.0),
        ("min.xorsign.abs.f32", (-3.0, -5.0), 3.0),
        ("min.ftz.xorsign.abs.f32", (-(2.0**-140), 5.0), -0.0),
        ("max.NaN.xorsign.abs.f32", (NAN, -5.0), NAN),
        ("max.xorsign.abs.f16", (2.0, -0.5), -2.0),
        ("max.ftz.f16", (2.0**-24, -1.0), 0.0),
        ("min.NaN.f16", (NAN, 1.0), NAN),
        ("add.f32.f16", (1.5, 2.25), 3.75),
        ("sub.rn.f32.bf16", (0x3FC0, 0.25), 1.25),
        ("fma.rz.f32.f16", (1.5, 2.0, 2.0**-30), 3.0),
        ("fma.rp.f32.f16", (1.5, 2.0, 2.0**-30), 3.0 + 2.0**-22),
        ("neg.ftz.f16", (2.0**-24,), -0.0),
        ("abs.f16", (-2.0,), 2.0),
    ],
)
def test_forms_of_two_and_three_sources(opcode, values, wanted):
    found = np.float64(
        run(opcode, *values) if not opcode.startswith(("neg", "abs")) else bits_of_half(opcode, values[0])
    )
    np.testing.assert_equal(found, wanted)
    assert np.isnan(wanted) or np.signbit(found) == np.signbit(wanted)


def bits_of_half(opcode, value):
    found = run(opcode, int(np.float16(value).view(np.uint16)))
    return np.array([found], np.uint16).view(np.float16)[0]


@pytest.mark.parametrize(
    "opcode", ["min.f64", "min.f16", "max.NaN.f64", "max.abs.f32", "max.xorsign.f32", "min.ftz.bf16"]
)
def test_minima_that_there_are_not(opcode):
    values = (1.0, 2.0, 3.0) if opcode in ("min.f64", "min.f16") else (1.0, 2.0)
    with pytest.raises(UnknownForm):
        run(opcode, *values)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_pairs_of_singles(mode, name):
    rng = np.random.default_rng(5)
    sources = rng.normal(size=(3 if name == "fma" else 2, 64)).astype(np.float32)
    packed = np.ascontiguousarray(sources).view(np.uint64)
    for i in range(32):
        found = run(f"{name}.{mode}.f32x2", *(int(word) for word in packed[:, i]))
        halves = np.array([found], np.uint64).view(np.float32)
        for half in range(2):
            single = run(f"{name}.{mode}.f32", *(float(x) for x in sources[:, 2 * i + half]))
            assert halves[half] == single


def test_a_pair_may_be_its_own_destination():
    x = np.arange(64, dtype=np.float32).view(np.uint64)
    _, out = execute("fma.rn.ftz.f32x2 %i0, %i0, %i0, %i0; mov.b64 %o0, %i0;", x, out="u8")
    y = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(out.view(np.float32), y * y + y)


@pytest.mark.parametrize(("mode", "below"), [("rz", True), ("rm", True), ("rp", False)])
def test_directed_reciprocals_and_roots_of_many_lanes(mode, below):
    values = np.arange(3, 40, dtype=np.float64)
    for family, power in (("rcp", -1), ("sqrt", 2)):
        _, found = execute(f"{family}.{mode}.f64 %o0, %i0;", values, out="f8")
        for x, result in zip(values.tolist(), found.tolist(), strict=True):
            exact, back = Fraction(x), (1 / Fraction(result) if power < 0 else Fraction(result) ** 2)
            assert back == exact or (back < exact) is (below == (power > 0))
