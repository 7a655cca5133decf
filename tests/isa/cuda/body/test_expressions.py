from __future__ import annotations

import pytest

from lab.isa.cuda.body.expressions import Expressions, bytes_of
from lab.isa.cuda.body.outer_declarations import surroundings
from lab.isa.cuda.body.polynomials import ONE, atom, number
from lab.isa.cuda.syntax_tree import parse_expression


def value(text: str):
    reader = Expressions(surroundings(""), {"n": atom("n")}, {})
    return reader, reader.value(parse_expression(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(n + 2) * 3 - n", number(2) * atom("n") + number(6)),
        ("7 / 2 + 7 % 4", number(6)),
        ("n * 4 / 4", atom("n")),
        ("1 << 10", number(1024)),
        ("0x1Fu", number(31)),
        ("(int)n", atom("n")),
        ("int(n)", atom("n")),
        ("-n + +n + true", ONE),
        ("warpSize", number(32)),
    ],
)
def test_numbers(text, expected):
    assert value(text)[1] == expected


@pytest.mark.parametrize(
    "text", ["(n + 15) / 16", "ceil(n / 16.0f)", "ceil(n / (float)16)", "div_up(n, 16)", "(n - 1 + 16) / 16"]
)
def test_quotients_that_are_rounded_up(text):
    reader, result = value(text)
    (name,) = result.atoms
    meaning = reader.found.opaque[name]
    assert (meaning.operation, meaning.operands) == ("ceil", (atom("n"), number(16)))


def test_bytes():
    assert (bytes_of("float4"), bytes_of("const double"), bytes_of("Mystery")) == (16, 8, 0)
