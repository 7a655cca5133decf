from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.parser import NotationError, parse
from lab.base.syntax import (
    Application,
    Binary,
    Chain,
    Conditional,
    Constant,
    FactOf,
    ItemOf,
    Junction,
    ListOf,
    NameOf,
    Pairs,
    Part,
    Span,
    Unary,
    names,
)


def shape(node: Part | None) -> str:  # noqa: C901, PLR0911, PLR0912 - one case for each kind of part
    match node:
        case None:
            return ""
        case Constant():
            return repr(node.value)
        case NameOf():
            return node.name
        case FactOf():
            return f"{shape(node.value)}.{node.name}"
        case Span():
            return f"{shape(node.start)}:{shape(node.stop)}:{shape(node.step)}"
        case ItemOf():
            return f"{shape(node.value)}[{shape(node.index)}]"
        case ListOf():
            return f"<{' '.join(map(shape, node.parts))}>"
        case Pairs():
            return "{" + " ".join(f"{shape(key)}={shape(value)}" for key, value in node.parts) + "}"
        case Unary():
            return f"({node.symbol} {shape(node.operand)})"
        case Binary():
            return f"({shape(node.left)} {node.symbol} {shape(node.right)})"
        case Chain():
            return f"({shape(node.first)}{''.join(f' {symbol} {shape(one)}' for symbol, one in node.others)})"
        case Junction():
            return "(" + f" {node.symbol} ".join(map(shape, node.parts)) + ")"
        case Conditional():
            return f"({shape(node.test)} ? {shape(node.then)} : {shape(node.otherwise)})"
        case Application():
            keywords = [f"{name}={shape(value)}" for name, value in node.keywords]
            return f"{shape(node.function)}({' '.join([*map(shape, node.arguments), *keywords])})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1_000 + 0x1F * 0b11 - 0o17 + 1.5e-3 + .5 + 2.", "(((((1000 + (31 * 3)) - 15) + 0.0015) + 0.5) + 2.0)"),
        ("a ~ 'x' ~ b + 1", "(((a ~ 'x') ~ b) + 1)"),
        ("-a ** -b ** c", "(- (a ** (- (b ** c))))"),
        ("a << 1 + b & c ^ d", "(((a << (1 + b)) & c) ^ d)"),
        ("not a == b and c or d", "(((not (a == b)) and c) or d)"),
        ("a ^ 1 < b ^ 2", "((a ^ 1) < (b ^ 2))"),
        ("1 < a <= b not in (1, 2)", "(1 < a <= b not in <1 2>)"),
        ("a if b else c if d else e", "(b ? a : (d ? c : e))"),
        ("x | join(', ') | length > 1", "(length(join(x ', ')) > 1)"),
        ("-x | abs", "abs((- x))"),
        ("f(a, b, axis=1,)", "f(a b axis=1)"),
        ("m.f('i', also=\"e < n\")[0]", "m.f('i' also='e < n')[0]"),
        ("a[1:, :-1] + a[::2] + a[0,] + a[:]", "(((a[<1:: :(- 1):>] + a[::2]) + a[<0>]) + a[::])"),
        ("[(), (1,), (1), [1, 2,]]", "[<> <1> 1 <1 2>]".replace("[", "<").replace("]", ">")),
        ("{2: 'a', 4: true,}[n]", "{2='a' 4=True}[n]"),
        ("true == False != none", "(True == False != None)"),
        (r"'it\'s' ~ '\n\\'", r"""("it's" ~ '\n\\')"""),
        ("größe + _x1", "(größe + _x1)"),
        ("a\n  + b", "(a + b)"),
        ("a + b ~ c * d - e", "((a + (b ~ (c * d))) - e)"),
        ("a * b | f + c", "((a * f(b)) + c)"),
        ("2 ** -x | f | g(y) % 3", "(g(f((2 ** (- x))) y) % 3)"),
        ("a ^ b & c << d", "(a ^ (b & (c << d)))"),
        ("a @ b / c", "(matmul(a b) / c)"),
        ("lambda * from[is]", "(lambda * from[is])"),
    ],
)
def test_shapes(text, expected):
    assert shape(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "ends"),
        ("m +", 4, "ends"),
        ("a b", 3, "unexpected 'b'"),
        ("a = 3", 3, "unexpected '='"),
        ("a is defined", 3, "unexpected 'is'"),
        ("(a", 3, "ends"),
        ("[a b]", 4, "unexpected 'b'"),
        ("{1, 2}", 1, "a set is not supported"),
        ("[*a]", 2, "unexpected '*'"),
        ("(a := 3)", 5, "unexpected '='"),
        ("(a = 3) and b", 4, "unexpected '='"),
        ("f(x for x in y)", 5, "unexpected 'for'"),
        ("f'{a}'", 2, "unexpected"),
        ("a) + (b", 2, "unexpected ')'"),
        ("a, b", 2, "unexpected ','"),
        ("f(a if b, c)", 9, "unexpected ','"),
        ("(x | f)(b)", 8, "unexpected '('"),
        ("f(a=1, a=2)", 8, "twice"),
        ("(a + 1)(b)", 8, "unexpected '('"),
        ("'a'(b)", 4, "unexpected '('"),
        ("a[]", 3, "the index between the brackets is missing"),
        ("a if b", 7, "ends"),
        ("a not b", 7, "unexpected 'b'"),
        ("a.1", 2, "unexpected '.1'"),
        ("a.if", 3, "unexpected 'if'"),
        ("a | 3", 5, "unexpected '3'"),
        ("a ? b", 3, "unexpected '?'"),
        ("'abc", 1, "no closing quote"),
        (r"'a\q'", 3, "unknown escape"),
        ("007", 1, "not a number"),
        ("1__0", 1, "not a number"),
        ("0x", 2, "unexpected 'x'"),
        ("{{ a }}", 1, "without braces"),
        ("lambda: 0", 7, "unexpected ':'"),
        ("x for x in y", 3, "unexpected 'for'"),
        ("0x" + "f" * 60, 1, "62 characters"),
        ("9" * 200_000, 1001, "too long"),
        ("0x" + "f" * 200_000, 1001, "too long"),
        ("m" + "+m" * 600, 1001, "too long"),
    ],
)
def test_mistakes_have_a_column(text, column, words):
    begin = time.process_time()
    with pytest.raises(NotationError, match=re.escape(words)) as caught:
        parse(text)
    assert caught.value.column == column
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    "text",
    [
        "(" * 60 + "m" + ")" * 60,
        "[" * 60 + "m" + "]" * 60,
        "f(" * 60 + "m" + ")" * 60,
        "-" * 900 + "m",
        "not " * 120 + "m",
        "m" + "+m" * 400,
        "m" + "[0]" * 300,
        "m" + ".f" * 300,
        "m" + "|f" * 300,
        "2" + "**2" * 100,
    ],
)
def test_nesting_is_bounded(text):
    with pytest.raises(NotationError, match="nested") as caught:
        parse(text)
    assert 1 <= caught.value.column <= len(text)


def test_what_python_refuses_is_told_in_its_words():
    for text, words in (("f(a=1, b)", "positional argument follows"), ("{a: 1, b}", "expected after dictionary key")):
        with pytest.raises(NotationError, match=words):
            parse(text)


def test_long_rows_of_conditions_are_no_nesting():
    assert shape(parse(" and ".join(["m"] * 150))) == f"({' and '.join(['m'] * 150)})"


@given(st.text(max_size=80))
def test_any_text_is_an_expression_or_a_mistake(text):
    with contextlib.suppress(NotationError):
        parse(text)


WORDS = ["a", "1", "0x1", "1.5", "'t'", "(", ")", "[", "]", "{", "}", ",", ":", ".", "|", "=", "==", "<", "+", "-", "*"]
WORDS += ["**", "//", "~", "not", "in", "and", "or", "if", "else", "true", "f(", "<<", "&", "^"]


@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_any_row_of_words_is_an_expression_or_a_mistake(words):
    text = " ".join(words)
    error = None
    try:
        parse(text)
    except NotationError as caught:
        error = caught
    assert error is None or 1 <= error.column <= len(text) + 1


def test_a_kernels_argument_may_be_called_in():
    assert names(parse("transpose(in) + in[0]")) == {"in"}
    assert isinstance(parse("in in (in, 2)"), Chain)


def test_a_kernels_parameter_may_be_called_in():
    assert names(parse("in + sum(in[1:]) * (in)")) == {"in"}
    assert names(parse("not in")) == {"in"}
    assert names(parse("a in in")) == {"a", "in"}
    assert names(parse("a not in (1, 2)")) == {"a"}
    with pytest.raises(NotationError):
        parse("a in")
