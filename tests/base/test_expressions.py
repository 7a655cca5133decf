from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistakes import coded

from lab.base.errors import Location, UserError
from lab.base.expressions import evaluate, names_in, parts_of
from lab.base.facts import FactValue
from lab.base.parser import parse

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
        ("-2 ** 2", -4),
        ("7 / 2", 3.5),
        ("-7 // 2 * 10 + -7 % 3", -38),
        ("1 << -4 | abs", 16),
        ("(1 << 4) + (256 >> 4) + (12 & 10) + (12 ^ 10)", 46),
        ("m ~ 'x' ~ 1.5 ~ flag", "100x1.5True"),
        ("{32: 8, 100: 16}[m]", 16),
        ("m in {100: 1} and m not in [1, 2] and 'o' in 'word'", True),
        ("0 or none or 'last'", "last"),
        ("m and 0 and m / 0", 0),
        ("1 < 2 < 3 > 2 != 5", True),
        ("'abcdef'[1:-1:2] ~ 'abc'[-1] ~ [1, 2, 3][0]", "bdc1"),
        ("(1, 2) + (3,) == [1, 2, 3]", True),
        ("0x40 + 1_000", 1064),
        ("1 if flag else m / 0", 1),
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
        "''.join(['a'])",
        "'{0.__class__}'.format(m)",
        "'%s' | format(m)",
        "'a' | center(1000000000)",
        "'a'.ljust(10 ** 9)",
        "m | attr('real')",
        "[m] | map(attribute='real')",
        "range.__class__",
        "max.__self__",
        "0x" + "f" * 200_000,
        "9" * 200_000,
        "2 ** 64",
        "10.0 ** 400",
        "(-8) ** 0.5",
        "1 << 64",
        "1 << -1",
        "1 >> 1000000000",
        "1.5 << 1",
        "9223372036854775807 * 9223372036854775807",
        "9223372036854775807 + 2",
        "-9223372036854775807 - 2",
        "'a' + 1",
        "'a' < 1",
        "[1] < [2]",
        "none < 1",
        "-'a'",
        "m[0]",
        "[1][1]",
        "[1][true]",
        "[1]['a']",
        "'abc'[m:'a']",
        "[1, 2][::0]",
        "[1, 2][0, :1]",
        "m[0, :1]",
        "{1: 2}[3]",
        "{[1]: 2}[3]",
        "1 in 2",
        "1 in 'a'",
        "[1] in {1: 2} or m.x",
        "[m]",
        "none",
        "range(3)",
        "max",
        "import os",
        "__import__('os')",
        "open('x')",
        "eval('1')",
    ],
)
def test_what_could_run_code_or_eat_memory_is_refused(expression):
    with pytest.raises(UserError):
        value(expression, m=3)


@given(st.text(max_size=60))
def test_no_text_escapes_as_another_exception(text):
    with contextlib.suppress(UserError):
        value(text, m=3, n=4)


def test_names_in_leaves_functions_out():
    assert names_in("ceil_div(m, block) + max(1, x)", at=AT, key="k") == {"m", "block", "x"}


@pytest.mark.parametrize("expression", ["1e999", "unroll < 1e999 * 0"])
def test_a_number_beyond_all_numbers_is_an_error(expression):
    with pytest.raises(UserError, check=coded("unsupported", key="constraints[0]", line=1)):
        evaluate(expression, {"unroll": 1}, at=Location("e.yaml", 1), key="constraints[0]")


class Box(FactValue):
    """Stands for an object that holds what no expression may reach."""

    __slots__ = ()
    kind = "box"
    facts = {"side": len, "sides": lambda text: (len(text),) * 3}
    methods = {"times": lambda text, by: len(text) * by}

    @classmethod
    def read(cls, text):
        return text


def test_objects_are_known_by_their_facts_alone():
    assert value("box.side + box.times(2) + box.sides[1]", box=Box("abcd")) == 16
    for expression in ("box.text", "box.side.real", "box.read('x')", "box._unknown('x')", "box.__class__", "box.times"):
        with pytest.raises(UserError, check=coded("unsupported", key="k", line=3)):
            value(expression, box=Box("abcd"))
    with pytest.raises(UserError, check=coded("wrong-value", key="k", found="box", line=3)):
        value("box", box=Box("abcd"))


def test_a_value_of_another_kind_is_no_operand():
    for foreign in (object(), {"a": 1}, [1], {1}, print):
        assert value("1 if m else x", m=True, x=foreign) == 1
        with pytest.raises(UserError, check=coded("unsupported", key="k", found="1 if m else x", line=3)):
            value("1 if m else x", m=False, x=foreign)


@pytest.mark.parametrize(
    ("expression", "message", "accepted"),
    [
        ("x[0,:1]", "a list takes one index (column 2)", "one index or slice between the brackets"),
        ("m * 'a'", "an operand of '*' is the text 'a' (column 3)", "numbers on both sides"),
        ("1 + m // 0", "// by zero (column 7)", None),
        ("min(m, m / 0)", "/ by zero (column 10)", None),
    ],
)
def test_an_error_has_the_column_and_what_is_accepted(expression, message, accepted):
    with pytest.raises(UserError) as caught:
        value(expression, m=3, x="nn")
    assert caught.value.message == f"the expression cannot be evaluated: {message}"
    assert (caught.value.found, caught.value.accepted, caught.value.key) == (expression, accepted, "k")


def test_a_syntax_error_has_the_column_and_what_is_accepted():
    with pytest.raises(UserError) as caught:
        value("m > > 1", m=3)
    assert caught.value.message == "not an expression: unexpected '>' at column 5"
    assert caught.value.accepted == "a number, a text, a name, '(', '[' or '{'"


def test_an_unknown_function_is_named_with_a_suggestion():
    with pytest.raises(
        UserError, check=coded("unknown-name", key="k", found="true or ceildiv(m, 2)", line=3)
    ) as caught:
        names_in("true or ceildiv(m, 2)", at=AT, key="k")
    assert caught.value.suggestion == "did you mean 'ceil_div'?"


def test_a_name_may_be_a_functions():
    assert value("sum + max(sum, len)", sum=3, len=4) == 7
    assert names_in("sum + max(sum, len)", at=AT, key="k") == {"sum", "len"}


def test_equal_values_of_other_types_are_told_apart():
    assert [value("m ~ ''", m=one) for one in (1, 1.0, True)] == ["1", "1.0", "True"]


# ---- the same as Python


NUMBERS = st.one_of(st.integers(0, 100).map(str), st.sampled_from(["m", "n", "0x1F", "1_000"]))
INFIX = st.sampled_from(["+", "-", "*", "//", "%", "&", "^", "==", "<", ">=", "!=", "and", "or"])


def grown(inner):
    return st.one_of(
        st.tuples(inner, INFIX, inner).map(" ".join),
        st.tuples(inner, INFIX, inner).map(lambda t: f"({' '.join(t)})"),
        inner.map("-{}".format),
        inner.map("(not {})".format),
        st.tuples(inner, st.sampled_from(["**", "<<", ">>"]), st.integers(0, 3).map(str)).map(" ".join),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]}, 3)"),
        st.tuples(inner, inner).map(lambda t: f"[{t[0]}, {t[1]}][1]"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} in ({t[1]}, {t[2]}))"),
    )


@given(st.recursive(NUMBERS, grown, max_leaves=12), st.integers(-9, 9), st.integers(0, 5))
def test_whole_numbers_are_computed_as_in_python(expression, m, n):
    try:
        expected = eval(expression, {"max": max}, {"m": m, "n": n})  # noqa: S307 - the expression is made above
    except (ZeroDivisionError, ValueError, OverflowError):
        expected = None
    try:
        found = value(expression, m=m, n=n)
    except UserError:
        # what Python computes may be beyond the bounds, on the way or in the end
        assert expected is None or any(sign in expression for sign in ("**", "<<", "*", "1_000"))
    else:
        assert (found, type(found)) == (expected, type(expected))


def test_the_parts_are_those_of_the_parser():
    assert parts_of("a + 1", at=Location("f"), key="k") == parse("a + 1")


def test_types_have_sizes():
    assert evaluate("3 * sizeof(T)", {"T": "double"}, at=AT, key="k") == 24
    assert evaluate("sizeof('float16') + sizeof('unsigned char')", {}, at=AT, key="k") == 3
    with pytest.raises(UserError, check=coded("unsupported", key="k", found="sizeof('flaot')", line=3)):
        evaluate("sizeof('flaot')", {}, at=AT, key="k")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'a' + 'b'", "ab"),
        ("[1] + [] == [1]", True),
        ("+5 - -5", 10),
        ("not 0", True),
        ("2 ** -1", 0.5),
        ("4.0 ** 0.5", 2.0),
        ("(-2) ** 2.0", 4.0),
        ("(-8) ** 3", -512),
        ("1 ** 100000", 1),
        ("(-1) ** 100001", -1),
        ("[1, 2, 3][-3]", 1),
        ("[1, 2, 3][2]", 3),
        ("[1, 2, 3][1:] == [2, 3]", True),
        ("'abc'[::-1]", "cba"),
        ("{true: 1}[true]", 1),
        ("{'a': 2}['a']", 2),
        ("{0.5: 2}[0.5]", 2),
        ("1 << 0", 1),
        ("8 >> 3", 1),
        ("5.5 % 2", 1.5),
        ("5.5 // 2", 2.0),
    ],
)
def test_more_values(expression, expected):
    assert value(expression) == expected
    assert type(value(expression)) is type(expected)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'a' + 1", "an operand of '+' is"),
        ("[1] + 'a'", "an operand of '+' is"),
        ("1 << 0.5", "accepted: whole numbers on both sides"),
        ("1.5 & 1", "accepted: whole numbers on both sides"),
        ("'a' - 1", "accepted: numbers on both sides"),
        ("1 % 0", "% by zero"),
        ("1 << -1", "a shift by -1 places"),
        ("(-8) ** 0.5", "fractional power of a negative number"),
        ("-8.0 ** 2 + (-8.0) ** 0.5", "fractional power of a negative number"),
        ("10.0 ** 400", "the number is too large"),
        ("-'a'", "the operand of '-' is"),
        ("[1, 2][2]", "index out of range: 2; accepted: from -2 to 1"),
        ("[1, 2][-3]", "index out of range: -3"),
        ("[][0]", "index out of range: 0"),
        ("[1][true]", "an index is"),
        ("[1][0.5]", "an index is"),
        ("5[0]", "has no elements"),
        ("{1: 2}[3]", "the table has no key for the number 3; accepted: 1"),
        ("{1: 2}[(1, 2)]", "a list takes one index"),
        ("{[1]: 2}", "a key is"),
        ("[1][::0]", "the step of a slice is 0"),
        ("[1][true:]", "the end of a slice is"),
        ("[1]['a':]", "the end of a slice is"),
    ],
)
def test_what_is_refused_and_why(expression, message):
    with pytest.raises(UserError) as caught:
        value(expression)
    assert message.partition("; accepted: ")[0] in str(caught.value)
    assert message.partition("; accepted: ")[2] in str(caught.value)


def test_powers_and_shifts_at_their_limits():
    assert value("2 ** 63") == value("1 << 63") == 2**63
    assert value("0 << 64") == 0
    assert value("1 >> 64") == 0
    for expression, message in (
        ("2 ** 64", "the number is too large"),
        ("1 << 64", "the number is too large"),
        ("2 ** 65", "the result of [*][*] is too large"),
        ("3 ** 65", "the result of [*][*] is too large"),
        ("4 ** 33", "the result of [*][*] is too large"),
        ("4 ** 32", "the number is too large"),
        ("1 << 65", "a shift by 65 places"),
        ("1 >> 65", "a shift by 65 places"),
    ):
        with pytest.raises(UserError, match=message):
            value(expression)
