from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import Location, UserError
from lab.base.expressions import ceil_div, environment, evaluate, names_in

AT = Location("x.yaml", 3)


def value(expression, **names):
    return evaluate(expression, names, at=AT, key="k")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("ceil_div(m, 32)", 4),
        ("m % 32 == 4 and flag", True),
        ("min(m, 7) + max(1, 2)", 9),
        ("'a' if m > 1 else 'b'", "a"),
        ("m // 3 * 2", 66),
        ("2 ** 10", 1024),
        (17, 17),
    ],
)
def test_values(expression, expected):
    assert value(expression, m=100, flag=True) == expected


def test_an_unknown_name_is_named_with_a_suggestion():
    with pytest.raises(UserError) as caught:
        value("blok_k % 2 == 0", block_k=8)
    assert "blok_k" in str(caught.value)
    assert "did you mean 'block_k'?" in str(caught.value)
    assert "x.yaml:3" in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    [
        "().__class__.__bases__[0].__subclasses__()",
        "''.join.__globals__",
        "m.__init__",
        "9**9**9",
        "10 ** 1000",
        "'a' * 10**9",
        "[0] * 10**9",
        "range(10**9)",
        "'%0999999999d' % 1",
        "cycler('a')",
        "lipsum()",
        "self",
        "m / 0",
        "m +",
        "{{ m }}",
        "m }}{{ m",
        "m" + "+m" * 600,
        "(" * 300 + "m" + ")" * 300,
        "error('no')",
    ],
)
def test_what_could_run_code_or_eat_memory_is_refused(expression):
    with pytest.raises(UserError):
        value(expression, m=3)


@given(st.text(max_size=60))
def test_no_text_escapes_as_another_exception(text):
    with contextlib.suppress(UserError):
        value(text, m=3, n=4)


@given(st.integers(0, 10**6), st.integers(1, 10**4))
def test_ceil_div(a, b):
    assert (ceil_div(a, b) - 1) * b < a <= ceil_div(a, b) * b


def test_names_in_leaves_functions_out():
    assert names_in("ceil_div(m, block) + max(1, x)", at=AT, key="k") == {"m", "block", "x"}


def test_undefined_names_of_a_template_are_errors():
    with pytest.raises(Exception, match="'nothing' is undefined"):
        environment().from_string("{{ nothing }}").render()


@pytest.mark.parametrize("expression", ["1e999", "unroll < 1e999 * 0"])
def test_a_number_beyond_all_numbers_is_an_error(expression):
    with pytest.raises(UserError, match="the expression cannot be evaluated"):
        evaluate(expression, {"unroll": 1}, at=Location("e.yaml", 1), key="constraints[0]")
