from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.isa.ptx.constants import integer


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("-7", -7), ("12U", 12), ("0x1F", 31), ("0XffU", 255), ("0b101", 5), ("017", 15), (" 8 ", 8),
        ("WARP_SZ", 32), ("WARP_SZ*2", 64), ("4*8+1", 33), ("4*(8+1)", 36), ("-(3)", -3), ("~0", -1), ("+5", 5),
        ("7/2", 3), ("-7/2", -3), ("-7%3", -1), ("7%-3", 1), ("1<<4|2", 18), ("0xF0>>4&7", 7), ("6^3", 5),
        ("1<<65", 2), ("0x10+010", 24),
    ],
)  # fmt: skip
def test_values(text: str, value: int) -> None:
    assert integer(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.5", "08", "1 2", "1/0", "1%0", "(1", "0x", "__import__('os')", "a.b", "1 if 1 else 2", "9" * 30,
     "1" + "+1" * 200, "(" * 150 + "1" + ")" * 150 + "+" * 60, "[1]", "True"],
)  # fmt: skip
def test_what_is_no_integer(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is the message
        integer(text)


@given(st.integers(-(10**6), 10**6), st.integers(-(10**4), 10**4).filter(bool))
def test_division_is_towards_zero_as_in_c(a: int, b: int) -> None:
    quotient, rest = integer(f"({a})/({b})"), integer(f"({a})%({b})")
    assert quotient * b + rest == a
    assert abs(rest) < abs(b)
    assert rest == 0 or (rest < 0) == (a < 0)


@given(st.text(alphabet="0123456789xU+-*/%&|^~<>() \nWARP_SZ", max_size=30))
def test_no_text_raises_anything_but_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(integer(text), int)
