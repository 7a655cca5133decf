"""Comparisons and selections."""

import math

import numpy as np
import pytest
from alu import QUICK, run
from hypothesis import given
from hypothesis import strategies as st
from small_ptx import execute

from lab.emulator.opcodes import UnknownForm

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


def test_setp_combines_and_has_two_results():
    assert run("setp.lt.and.s32", 1, 2, True, operands=5) == [True, False]
    assert run("setp.lt.and.s32", 1, 2, False, operands=5) == [False, False]
    assert run("setp.ge.or.s32", 1, 2, False, operands=4) is False
    assert run("setp.lo.u32", 1, 2**32 - 1) is True


def test_minus_zero_equals_zero():
    assert run("setp.eq.f32", -0.0, 0.0) is True
    assert run("setp.lt.f64", -0.0, 0.0) is False
    assert run("setp.leu.f64", math.nan, 0.0) is True


def test_flushed_subnormals_compare_equal_to_zero():
    assert run("setp.gt.f32", 2.0**-140, 0.0) is True
    assert run("setp.gt.ftz.f32", 2.0**-140, 0.0) is False


def test_bfloat16_compares_by_value():
    assert run("setp.lt.bf16", 0xBF80, 0x3F80) is True  # -1 < 1 although its bits are larger
    assert run("setp.equ.bf16", 0x7FC0, 0x3F80) is True


@pytest.mark.parametrize("opcode", ["setp.lo.f32", "setp.nan.s32", "setp.eq.ftz.f64", "setp.eq.f16x2"])
def test_tests_that_a_type_does_not_have(opcode):
    with pytest.raises(UnknownForm):
        run(opcode, 1, 1)


def test_set_and_slct():
    assert run("set.lt.u32.s32", 0xFFFFFFFF, 0) == 0xFFFFFFFF
    assert run("set.lt.f32.u32", 0xFFFFFFFF, 0) == 0.0
    assert run("set.gt.and.f32.f32", 2.0, 1.0, True) == 1.0
    assert run("slct.u32.s32", 1, 2, 0) == 1
    assert run("slct.u32.s32", 1, 2, 0x80000000) == 2
    assert run("slct.ftz.u32.f32", 1, 2, -(2.0**-140)) == 1  # flushed to -0, which is not below 0
    assert run("slct.u32.f32", 1, 2, math.nan) == 2


def test_two_predicates_and_selection_in_a_partial_warp():
    x = np.array([1.0, np.nan, -0.0, -3.0, np.inf], np.float32)
    body = """
    setp.ge.f32 %p0|%p1, %i0, 0f00000000;
    selp.b32 %o0, 7, 9, %p0; selp.b32 %o1, 7, 9, %p1; selp.b32 %o2, 7, 9, !%p0;
    """
    _, found = execute(body, x, outputs=3)
    at_least_zero = np.array([True, False, True, False, True])
    np.testing.assert_array_equal(found[0], np.where(at_least_zero, 7, 9))
    np.testing.assert_array_equal(found[1], np.where(at_least_zero, 9, 7))
    np.testing.assert_array_equal(found[2], found[1])


LOW = [0.0, 1.0, -2.0, float("nan"), 5.0]
HIGH = [1.0, 1.0, 3.0, 2.0, float("inf")]


def pairs(kind, low, high):
    singles = np.array([low, high], np.float32)
    bits = singles.astype(np.float16).view(np.uint16) if kind == "f16" else (singles.view(np.uint32) >> 16)
    halves = bits.astype(np.uint32)
    return halves[0] | halves[1] << 16


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_pairs_are_compared_half_by_half(kind):
    a, b = pairs(kind, LOW, HIGH), pairs(kind, HIGH, LOW)
    for x, y, low, high in zip(a.tolist(), b.tolist(), LOW, HIGH, strict=True):
        for test, compare in (("lt", low < high), ("ge", low >= high), ("eq", low == high)):
            other = {"lt": high < low, "ge": high >= low, "eq": high == low}[test]
            assert run(f"setp.{test}.{kind}x2", x, y, operands=4) == [compare, other]
            assert run(f"set.{test}.u32.{kind}x2", x, y) == compare * 0xFFFF | other * 0xFFFF0000
            one = 0x3C00 if kind == "f16" else 0x3F80
            assert run(f"set.{test}.{kind}x2.{kind}x2", x, y) == compare * one | (other * one) << 16
    assert run(f"setp.eq.and.{kind}x2", 0, 0, False, operands=5) == [False, False]
    assert run(f"set.neu.xor.u32.{kind}x2", 0, 0, True) == 0xFFFFFFFF


def test_halves_are_set():
    assert run("set.lt.u16.f16", 1.0, 2.0) == 0xFFFF
    assert run("set.lt.f16.f16", 1.0, 2.0) == 1.0
    assert run("set.eq.bf16.bf16", 0x3F80, 0x3F80) == 0x3F80
    assert run("set.gt.s32.bf16", 0x4000, 0x3F80) == -1
    assert run("setp.eq.ftz.f16", 2.0**-24, 0.0)
    assert not run("setp.eq.f16", 2.0**-24, 0.0)


@pytest.mark.parametrize("opcode", ["set.eq.u16.f16x2", "set.eq.f16.f16x2", "set.eq.f16x2.f16", "set.eq.u32"])
def test_sets_that_there_are_not(opcode):
    with pytest.raises(UnknownForm):
        run(opcode, 0, 0)
