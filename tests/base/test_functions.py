from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistakes import coded

from lab.base.errors import Location, UserError
from lab.base.expressions import evaluate
from lab.base.functions import FUNCTIONS, ceil_div, text_of


def value(expression, **names):
    return evaluate(expression, names, at=Location("x.yaml", 3), key="k")


@given(st.integers(0, 10**6), st.integers(1, 10**4))
def test_ceil_div(a, b):
    assert (ceil_div(a, b) - 1) * b < a <= ceil_div(a, b) * b


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("abs(-3)", 3),
        ("ceil(1.2) * 10 + floor(-1.2)", 18),
        ("ceil_div(7, 2) + floor_div(7, 2)", 7),
        ("int('0x20') + int(3.9) + int('12') + int(true)", 48),
        ("float('1.5') + float(2)", 3.5),
        ("gcd(12, 18, 30)", 6),
        ("lcm(4, 6)", 12),
        ("is_pow2(64) and not is_pow2(0) and not is_pow2(12)", True),
        ("log2(256)", 8),
        ("log2(10) > 3.3", True),
        ("sqrt(16)", 4.0),
        ("max([1, 5, 3]) + min(2, 4)", 7),
        ("max('a', 'b')", "b"),
        ("sum([1, 2.5]) + sum(range(4))", 9.5),
        ("len('abc') + length((1, 2))", 5),
        ("join(['a', 1, true], '-')", "a-1-True"),
        ("str(3) ~ str(2.5)", "32.5"),
        ("round(2.567, 2) + round(2.5)", 4.57),
        ("5 in range(1, 10, 2) and 6 not in range(1, 10, 2)", True),
        ("range(8, 65, 8)[1:][0]", 16),
        ("len(range(10000)) + len(range(0, -20000, -2)) + len(range(5, 3)) + len(range(3, 5))", 20002),
    ],
)
def test_values(expression, expected):
    assert value(expression) == (pytest.approx(expected) if isinstance(expected, float) else expected)
    assert type(value(expression)) is type(expected)


@pytest.mark.parametrize(
    "expression",
    [
        "int('9' ~ '9' * 1)",
        "int('abc')",
        "int([1])",
        "float('nan')",
        "float('inf')",
        "log2(0)",
        "log2(-1)",
        "sqrt(-1)",
        "max()",
        "max([])",
        "min(1, 'a')",
        "min([1], [2])",
        "sum('abc')",
        "sum(3)",
        "len(3)",
        "join([[1]])",
        "str([1])",
        "round(1.5, 1000000000)",
        "range(1, 10, 0)",
        "range(10001)",
        "range(0, -20001, -2)",
        "range(-9223372036854775808, 9223372036854775807)",
        "gcd(1.5)",
        "lcm(9223372036854775807, 9223372036854775805)",
        "abs()",
        "abs(1, 2)",
        "max(1, key=2)",
        "error()",
    ],
)
def test_what_a_function_refuses_is_a_users_mistake(expression):
    begin = time.process_time()
    with pytest.raises(UserError, check=coded("unsupported", key="k", line=3)):
        value(expression)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("arguments", ["'a' * 2, 1", "m", "w", "t, t", "m, m, m", "2 ** 62", "-1.5, 3", "none", "w, w"])
def test_no_function_fails_in_another_way(name, arguments):
    with contextlib.suppress(UserError):
        value(f"{name}({arguments})", m=2**63, w="a" * 9000, t=(1, 2, 3))


def test_a_list_has_no_text():
    assert [text_of(one) for one in (1, 1.5, True, None, "a")] == ["1", "1.5", "True", "None", "a"]
    with pytest.raises(ValueError, match="a list cannot be converted to text"):
        text_of((1, 2))
