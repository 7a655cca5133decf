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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("00", 0), ("07U", 7), ("-0x10", -16), ("-010", -8), ("0B11", 3), ("0X1f", 31)),
        ("18446744073709551615", 2**64 - 1),
        *(("1<<63", 2**63), ("1<<64", 1), ("3<<63", 2**63), ("5>>1", 2), ("5>>64", 5), ("5>>65", 2), ("12&10", 8)),
        *(("-1/1", -1), ("1/-1", -1), ("-1/-1", 1), ("10" + "+1" * 99, 109), ("-1%2", -1)),
        *(("12|3", 15), ("8/-3", -2), ("-8/-3", 2), ("8%3", 2), ("-8%-3", -2), ("2*-3", -6), ("2--3", 5), ("+0x3", 3)),
        *(("0777777777777777777777", 2**63 - 1), ("1" + "+1" * 99, 100)),
    ],
)  # fmt: skip
def test_more_values(text: str, value: int) -> None:
    assert integer(text) == value


@pytest.mark.parametrize(
    "text", ["1" + "+1" * 100, "1//2", "1**2", "1 and 2", "1<2", "0b2", "0x1G", "1u", "-", "--x", "()"]
)
def test_more_that_is_no_integer(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is the message
        integer(text)


def test_a_refusal_quotes_at_most_80_characters() -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        integer("x" * 100)
    assert str(caught.value) == "x" * 80
    for text in (
        "1;" + "1" * 100,
        "1+" * 150 + "1",
        "1+" + "x" * 100,
        "1+" * 50,
        "(" * 100,
        "1/" + "0" * 1 + " " * 90 + "+1",
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            integer(text)
        assert str(caught.value) == text.strip()[:80]
