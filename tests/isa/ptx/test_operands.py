from __future__ import annotations

import math
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import ReaderError
from lab.isa.ptx.constants import integer
from lab.isa.ptx.module import read_ptx
from lab.isa.ptx.operands import (
    Address,
    Dual,
    Element,
    Immediate,
    Negated,
    Operand,
    ParameterList,
    Register,
    Sink,
    SpecialRegister,
    Symbol,
    VectorOperand,
    parse_operand,
)

RD1, R1 = Register("%rd1"), Register("%r1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%r1", R1),
        ("%v.x", Register("%v", "x")),
        ("%p$1", Register("%p$1")),
        ("%tid.x", SpecialRegister("%tid", "x")),
        ("%laneid", SpecialRegister("%laneid")),
        ("%envreg31", SpecialRegister("%envreg31")),
        ("%SP", Register("%SP")),
        ("p", Symbol("p")),
        ("$L__BB0_1", Symbol("$L__BB0_1")),
        ("sym+4", Symbol("sym", 4)),
        ("sym - 4", Symbol("sym", -4)),
        ("generic(sym)+8", Symbol("sym", 8, generic=True)),
        ("0xFF00(sym)", Symbol("sym", mask=0xFF00)),
        ("v.y", Symbol("v", component="y")),
        ("_", Sink()),
        ("!%p1", Negated(Register("%p1"))),
        ("!p", Negated(Symbol("p"))),
        ("%p1|%p2", Dual(Register("%p1"), Register("%p2"))),
        ("%r1|p", Dual(R1, Symbol("p"))),
        ("_|%p2", Dual(Sink(), Register("%p2"))),
        ("[%rd1]", Address(RD1)),
        ("[%rd1+16]", Address(RD1, 16)),
        ("[%rd1+-16]", Address(RD1, -16)),
        ("[ %rd1 + 0x10 ]", Address(RD1, 16)),
        ("[%rd1-4]", Address(RD1, -4)),
        ("[sym]", Address(Symbol("sym"))),
        ("[sym+4]", Address(Symbol("sym"), 4)),
        ("[param0+0]", Address(Symbol("param0"))),
        ("[0x10]", Address(None, 16)),
        ("[%rd1, {%r1, 7}]", Address(RD1, 0, (VectorOperand((R1, Immediate("int", 7))),))),
        ("{%r1, _, 0f00000000}", VectorOperand((R1, Sink(), Immediate("f32", 0)))),
        ("{%r1}", VectorOperand((R1,))),
        ("(param0, param1)", ParameterList((Symbol("param0"), Symbol("param1")))),
        ("()", ParameterList(())),
        ("a[3]", Element(Symbol("a"), Immediate("int", 3))),
    ],
)
def test_forms(text: str, expected: Operand) -> None:
    assert parse_operand(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("-1", -1), ("4294967295", 2**32 - 1), ("0x1FU", 31), ("0XfF", 255), ("010", 8), ("0b101U", 5),
        ("WARP_SZ", 32), ("WARP_SZ*2", 64), ("4*8+1", 33), ("1<<4", 16), ("-7/2", -3), ("-7%3", -1), ("~0", -1),
        ("(1+2)*(3|4)", 21), ("-(4)", -4), ("0xffffffffffffffff", 2**64 - 1),
    ],
)  # fmt: skip
def test_integers(text: str, value: int) -> None:
    assert parse_operand(text) == Immediate("int", value)
    assert integer(text) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("generic(sym)-8", Symbol("sym", -8, generic=True)),
        ("generic( sym )", Symbol("sym", generic=True)),
        ("0x1(sym) + 4", Symbol("sym", 4, mask=1)),
        ("v.y+4", Symbol("v", 4, "y")),
        ("sym+-4", Symbol("sym", -4)),
        ("sym--4", Symbol("sym", 4)),
        ("%pm0", SpecialRegister("%pm0")),
        ("%pm7_64", SpecialRegister("%pm7_64")),
        ("%pm8", Register("%pm8")),
        ("%reserved_smem_offset_1", SpecialRegister("%reserved_smem_offset_1")),
        ("%ctaid.z", SpecialRegister("%ctaid", "z")),
        ("%v.a", Register("%v", "a")),
        ("! p", Negated(Symbol("p"))),
        ("p|_", Dual(Symbol("p"), Sink())),
        ("p | %q.x", Dual(Symbol("p"), Register("%q", "x"))),
        ("1|2", Immediate("int", 3)),
        ("[sym-4]", Address(Symbol("sym"), -4)),
        ("[4*8]", Address(None, 32)),
        ("[%rd1, 5, sym]", Address(RD1, 0, (Immediate("int", 5), Symbol("sym")))),
        ("[sym+1, {%r1}]", Address(Symbol("sym"), 1, (VectorOperand((R1,)),))),
        ("a[%r1]", Element(Symbol("a"), R1)),
        ("{}", VectorOperand(())),
        ("(%r1, 4)", ParameterList((R1, Immediate("int", 4)))),
        ("(1+2)*(3)", Immediate("int", 9)),
        ("-0f3F800000", Immediate("f32", 0xBF800000)),
        ("-0d3FF0000000000000", Immediate("f64", 0xBFF0000000000000)),
        ("-0fBF800000", Immediate("f32", 0x3F800000)),
        ("  %r1 ", R1),
    ],
)
def test_more_forms(text: str, expected: Operand) -> None:
    assert parse_operand(text) == expected


def test_values_of_immediates() -> None:
    assert [number(text) for text in ("7", "0f40490FDB", "0d400921FB54442D18", "-0f3F800000", "2.", "1E2")] == [
        7, struct.unpack("<f", bytes.fromhex("DB0F4940"))[0], math.pi, -1.0, 2.0, 100.0,
    ]  # fmt: skip


def test_a_refusal_quotes_at_most_80_characters() -> None:
    with pytest.raises(ReaderError) as caught:
        parse_operand("+" * 100)
    assert str(caught.value) == f"{'+' * 80}: this operand cannot be read"


def number(text: str) -> float:
    operand = parse_operand(text)
    assert isinstance(operand, Immediate)
    return operand.value


def test_float_bits_are_exact() -> None:
    assert parse_operand("0f3F800000") == Immediate("f32", 0x3F800000)
    assert parse_operand("0F7fc00001") == Immediate("f32", 0x7FC00001)
    assert parse_operand("-0f00000000") == Immediate("f32", 0x80000000)
    assert parse_operand("0d7FF0000000000001") == Immediate("f64", 0x7FF0000000000001)
    assert number("1.5") == 1.5
    assert number("-2.5e-3") == -2.5e-3
    assert number("1e10") == 1e10
    assert math.copysign(1, number("-0.0")) == -1


@given(st.integers(0, 2**32 - 1))
def test_every_f32_pattern(bits: int) -> None:
    operand = parse_operand(f"0f{bits:08X}")
    assert isinstance(operand, Immediate)
    assert operand.bits == bits
    (expected,) = struct.unpack("<f", struct.pack("<I", bits))
    assert operand.value == expected or math.isnan(expected)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0.0))
def test_decimal_floats(value: float) -> None:
    text = f"{value:.20f}" if value < 1e15 else f"{value:.20e}"
    assert parse_operand(text) == Immediate("f64", struct.unpack("<Q", struct.pack("<d", float(text)))[0])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[",
        "[]",
        "{",
        "+",
        "%",
        "1/0",
        "a b",
        "9" * 400,
        "((((",
        "[%tid.x]",
        "[[a]]",
        "0x",
        "1**2",
        "1//2",
        "a+b",
        "!5",
        "!!p",
        "|",
        "a|",
        "a|b|c",
        "0f12",
        "(1",
        "08",
        "[a+]",
        "!" * 9999 + "p",
        "a|" * 9999 + "a",
        "[1+%r1]",
        "1;2",
        "__import__('os')",
        "é",
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ReaderError):
        parse_operand(text)


@given(st.text("%r1[]{}()+-!|_.,0xfdeU aAp$*/<>&^~", max_size=24))
def test_no_other_error(text: str) -> None:
    with suppress(ReaderError):
        parse_operand(text)


def test_every_operand_of_the_golden_listings() -> None:
    for path in (Path(__file__).parents[1] / "golden").glob("*.ptx"):
        for function in read_ptx(path.read_text(), path.name).functions:
            for instruction in function.instructions:
                for operand in instruction.operands:
                    parse_operand(operand)
