"""Operands as text."""

import pytest

from lab.emulator.operands import FloatBits, PlainAddress, address, elements, literal, symbol


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[%rd1+16]", PlainAddress("%rd1", 16)),
        ("[%rd1+-4]", PlainAddress("%rd1", -4)),
        ("[tile]", PlainAddress("tile", 0)),
        ("[64]", PlainAddress(None, 64)),
        ("[map, {%r1, %r2}]", None),
        ("%r1", None),
    ],
)
def test_addresses(text, wanted):
    assert address(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("5", 5), ("-1", -1), ("0xFF", 255), ("0f3F800000", FloatBits(0x3F800000, 32)), ("%r1", None), ("name", None)],
)
def test_literals(text, wanted):
    assert literal(text) == wanted


def test_float_literals_have_a_value():
    assert literal("0f80000000").value == 0.0
    assert literal("0d3FF8000000000000").value == 1.5
    assert literal("0f7F800000").value == float("inf")


@pytest.mark.parametrize(
    ("text", "wanted"), [("a", ("a", 0, False)), ("a+8", ("a", 8, False)), ("generic(a)", ("a", 0, True)), ("5", None)]
)
def test_symbols(text, wanted):
    assert symbol(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"), [("{%r1, %r2}", ("%r1", "%r2")), ("(a)", ("a",)), ("()", ()), ("{ }", ()), ("%r1", ("%r1",))]
)
def test_elements(text, wanted):
    assert elements(text) == wanted
