"""Argument specifications in a file: parsed, printed back, and rejected with their location."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistakes import coded

from lab.base.errors import Location, UserError
from lab.operators.declared.elements import ELEMENT_TYPES
from lab.operators.declared.mapped import MappedView
from lab.operators.declared.specification import Argument, Direction, Fill, FillKind, parse, parse_all

NORMAL = Fill(FillKind.NORMAL, is_default=True)
SMALL = Fill(FillKind.UNIFORM, ("0", "100"), is_default=True)


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("float32[n]", Argument("a", "float32", shape=("n",), fill=NORMAL)),
        ("out float32[n, 2 * m]", Argument("a", "float32", Direction.OUT, ("n", "2 * m"))),
        (
            "inout  int32 [max(m, n), n] zeros",
            Argument("a", "int32", Direction.INOUT, ("max(m, n)", "n"), Fill(FillKind.ZEROS)),
        ),
        ("int32[n]", Argument("a", "int32", shape=("n",), fill=SMALL)),
        ("bool[n]", Argument("a", "bool", shape=("n",), fill=Fill(FillKind.UNIFORM, ("0", "2"), is_default=True))),
        (
            "int32[nnz] uniform 0 (n - 1)",
            Argument("a", "int32", shape=("nnz",), fill=Fill(FillKind.UNIFORM, ("0", "(n - 1)"))),
        ),
        (
            "float64[n] uniform -1.5 2e3",
            Argument("a", "float64", shape=("n",), fill=Fill(FillKind.UNIFORM, ("-1.5", "2e3"))),
        ),
        (
            "float16[n] normal 1 0.5",
            Argument("a", "float16", shape=("n",), fill=Fill(FillKind.NORMAL, ("1", "0.5"))),
        ),
        ("uint8[n] image.npy", Argument("a", "uint8", shape=("n",), fill=Fill(FillKind.FILE, ("image.npy",)))),
        (
            "uint8[n] 'my images/one.npy'",
            Argument("a", "uint8", shape=("n",), fill=Fill(FillKind.FILE, ("my images/one.npy",))),
        ),
        (
            "int32[n + 1] = 4 * arange(n + 1)",
            Argument("a", "int32", shape=("n + 1",), fill=Fill(FillKind.VALUES, ("4 * arange(n + 1)",))),
        ),
        ("int32", Argument("a", "int32")),
        (" int32 = 3 * m ", Argument("a", "int32", value="3 * m")),
        ("float32=alpha", Argument("a", "float32", value="alpha")),
        (
            "float16[m, k] ones as map[64, 2 * box] swizzle 128",
            Argument(
                "a",
                "float16",
                shape=("m", "k"),
                fill=Fill(FillKind.ONES),
                view=MappedView(("64", "2 * box"), (), (), "128"),
            ),
        ),
        (
            "out int8[n] as map [64]",
            Argument("a", "int8", Direction.OUT, ("n",), view=MappedView(("64",))),
        ),
        (
            "float32[m, k] as map[1, rows, 32] of [k // 32, m, 32] strides [32, k, 1]",
            Argument(
                "a",
                "float32",
                shape=("m", "k"),
                fill=NORMAL,
                view=MappedView(("1", "rows", "32"), ("k // 32", "m", "32"), ("32", "k", "1")),
            ),
        ),
        (
            "float16[n, h, w, c] as im2col[64, 32] lower [-1, -1] upper [1 - r, 1 - s] steps [2, 2] swizzle 64",
            Argument(
                "a",
                "float16",
                shape=("n", "h", "w", "c"),
                fill=NORMAL,
                view=MappedView(("64", "32"), swizzle="64", corners=(("-1", "-1"), ("1 - r", "1 - s"), ("2", "2"))),
            ),
        ),
        (
            "int8[n, w, c] as im2col[pixels, 16] upper [-2]",
            Argument(
                "a",
                "int8",
                shape=("n", "w", "c"),
                fill=SMALL,
                view=MappedView(("pixels", "16"), corners=(("0",), ("-2",), ("1",))),
            ),
        ),
        ("out partial int32[n]", Argument("a", "int32", Direction.OUT, ("n",), is_partial=True)),
        (
            "out partial int8[n] as map [64]",
            Argument("a", "int8", Direction.OUT, ("n",), view=MappedView(("64",)), is_partial=True),
        ),
        (
            "out partial unordered int32[n]",
            Argument("a", "int32", Direction.OUT, ("n",), is_partial=True, is_unordered=True),
        ),
        (
            "inout unordered int32[n] zeros",
            Argument("a", "int32", Direction.INOUT, ("n",), Fill(FillKind.ZEROS), is_unordered=True),
        ),
        ("in bool[4] ones", Argument("a", "bool", shape=("4",), fill=Fill(FillKind.ONES))),
    ],
)
def test_a_text_and_its_argument(text, argument):
    assert parse("a", text) == argument
    assert parse("a", str(argument)) == argument


@pytest.mark.parametrize(
    ("text", "message", "accepted"),
    [
        ("", "the type is missing", "float32"),
        ("flaot32[n]", "unknown type 'flaot32' (column 1)", "float32"),
        ("out const float *", "unknown type 'const' (column 5)", "float32"),
        ("float32*", "a pointer has no shape (column 8)", "float32[n]"),
        ("float32[n", "the shape has no closing ']' (column 8)", "between"),
        ("float32[]", "a dimension is missing (column 9)", "expression"),
        ("float32[n,]", "a dimension is missing (column 11)", "expression"),
        ("float32[n +]", "a dimension: ", ""),
        ("float32[n] uniform 0", "uniform has 1 operand (column 12)", "uniform LOW HIGH"),
        ("float32[n] randn", "unknown contents 'randn' (column 12)", "normal"),
        ("float32[n] x.npy 3", "unexpected '3' (column 18)", "normal"),
        ("out float32[n] zeros", "an output cannot have initial contents (column 16)", "inout … zeros"),
        ("int8[n] normal", "int8 does not support normal numbers", "uniform"),
        ("inout partial float32[n]", "only an output can be partial (column 7)", "out partial"),
        ("partial float32[n]", "only an output can be partial (column 1)", "out partial"),
        ("unordered float32[n]", "only an output can be unordered (column 1)", "inout"),
        ("out unordered float32[n, 2]", "an unordered output has one dimension", "[n]"),
        ("out partial[n]", "unknown type 'partial' (column 5)", "float32"),
        ("out partial int32", "a scalar cannot be out", "out int32[SHAPE]"),
        ("out int32", "a scalar cannot be out", "out int32[SHAPE]"),
        ("bfloat16", "a scalar of type bfloat16 cannot be passed", "bfloat16[1]"),
        ("int32 n", "unexpected 'n' (column 7)", "= EXPRESSION"),
        ("int32 =", "the value is missing (column 8)", "expression"),
        ("int32[n] =", "the value is missing", "expression"),
        ("float32[" + ",".join("n" * 9) + "]", "9 dimensions (column 8)", "at most 8"),
        ("float32[n] as map[n", "the box has no closing ']' (column 18)", "between"),
        ("float32[m, n] as map[32]", "the box has 1 dimensions (column 21)", "2 sizes"),
        ("float32[n] as map[8] swizzle", "unexpected 'swizzle' (column 21)", "swizzle 32|64|128"),
        ("float32[n] as map[8, 8] of [n, 8]", "2 extents and 0 strides", "strides [STRIDES]"),
        ("float32[n] as map[8, 8] of [n, 8] strides [8, 2]", "the last dimension of a tensor map is contiguous", "1"),
        ("float32[n, c] as im2col[8, 8]", "im2col of 2 dimensions", "3 to 5"),
        ("float32[n, w, c] as im2col[8]", "1 sizes of im2col", "pixels and the channels"),
        ("float32[n, h, w, c] as im2col[8, 8] lower [0]", "1 numbers behind 'lower'", "2, one for each"),
        ("float32[n, w, c] as im2col[8, 8] step [1]", "unexpected 'step [1]'", "steps [STEPS]"),
        ("float32[n] as map", "unknown contents 'as'", "normal"),
        (3, "wrong type", "text"),
        ("float32[n]" + " " * 3000, "the text has 3010 characters", "at most"),
    ],
)
def test_a_mistake_is_named_with_its_place(text, message, accepted):
    with pytest.raises(UserError) as caught:
        parse("a", text)
    assert message in caught.value.message
    assert accepted in str(caught.value.accepted)
    assert caught.value.key == "arguments.a"


def test_a_value_without_its_type_is_told_where_the_type_goes():
    with pytest.raises(UserError, check=coded("unknown-name", key="arguments.M", found="rows")) as caught:
        parse("M", "rows")
    assert "int32 = rows" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("float[n]", "float32"), ("const double* x", "float64"), ("unsigned char[n]", "uint8"), ("in32[n]", "int32")],
)
def test_the_name_that_was_meant_is_suggested(text, meant):
    with pytest.raises(UserError) as caught:
        parse("a", text)
    assert caught.value.suggestion == f"did you mean '{meant}'?"


def test_all_mistakes_are_reported_at_once_with_their_lines():
    lines = {"a": 3, "c": 5}
    made, mistakes = parse_all(
        {"a": "float31[n]", "b": "float32[n]", "c": "out float32[n", "1": "int32"},
        lambda name: Location("x.yaml", lines.get(name, 1)),
    )
    assert [one.name for one in made] == ["b"]
    assert [(mistake.at.line, mistake.key) for mistake in mistakes] == [
        (3, "arguments.a"),
        (5, "arguments.c"),
        (1, "arguments.1"),
    ]


def test_a_kernel_that_writes_nothing_is_a_mistake():
    _, mistakes = parse_all({"a": "float32[n]"})
    assert "writes no argument" in mistakes[0].message
    assert "lab emulate" in mistakes[0].accepted  # what prints alone has nothing to compare


@pytest.mark.parametrize("given", [None, [], {}, "float32"])
def test_arguments_are_a_mapping(given):
    made, mistakes = parse_all(given)
    assert made == ()
    assert "a mapping" in str(mistakes[0].accepted)


@given(st.text(max_size=60))
def test_no_text_raises_anything_but_a_users_error(text):
    try:
        argument = parse("a", text)
    except UserError:
        return
    assert parse("a", str(argument)) == argument


@given(
    st.sampled_from(sorted(ELEMENT_TYPES)),
    st.sampled_from(["", "in ", "out ", "out partial ", "inout "]),
    st.lists(st.sampled_from(["n", "m + 1", "ceil_div(n, 4)", "8"]), min_size=1, max_size=4),
    st.sampled_from(["", " zeros", " ones", " range", " uniform 0 7", " 'a b.npy'", " = n"]),
)
def test_every_valid_text_is_read_back(dtype, direction, shape, fill):
    argument = parse("x", f"{direction}{dtype}[{','.join(shape)}]{'' if direction.startswith('out ') else fill}")
    assert argument.shape == tuple(shape)
    assert parse("x", str(argument)) == argument


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("float32[n] random", "did you mean 'uniform 0 1'?"),
        ("float32[n] randn", "did you mean 'normal'?"),
        ("float32[n] uniform 0,1", "write uniform 0 1"),
        ("float32[n] uniform(0, 1)", "did you mean 'uniform'?"),
    ],
)
def test_contents_as_other_libraries_write_them_get_a_suggestion(text, suggestion):
    with pytest.raises(UserError) as caught:
        parse("a", text)
    assert caught.value.suggestion == suggestion


def test_an_element_type_may_follow_a_parameter():
    one = parse("a", "inout { T }[n] uniform 0 1")
    assert (one.type_parameter, str(one)) == ("T", "inout {T}[n] uniform 0 1")
    assert parse("a", str(one)) == one
    assert one.typed("float64") == parse("a", "inout float64[n] uniform 0 1")
    assert parse("a", "{T}[n]").typed("int32") == parse("a", "int32[n]")  # with the default of its type
    assert parse("s", "{T} = 2").typed("float16") == parse("s", "float16 = 2")
    with pytest.raises(UserError, check=coded("syntax", key="arguments.a", found="int32[n] normal")):
        parse("a", "{T}[n] normal").typed("int32")


def test_contents_by_default_differ_from_the_same_contents_by_the_file():
    for text in ("float32[n] normal", "int32[n] uniform 0 100"):
        default = parse("a", text.split()[0]).fill
        assert default is not None
        assert parse("a", text).fill == replace(default, is_default=False)
        assert str(parse("a", text)) == text


def test_structures():
    read, mistakes = parse_all({"p": {"x": "inout float32[n]", "n": "int32"}, "a": "float32"})
    assert not mistakes
    assert [(one.name, one.structure, str(one)) for one in read] == [
        ("x", "p", "inout float32[n]"),
        ("n", "p", "int32"),
        ("a", "", "float32"),
    ]
    assert parse("x", "{T}[n]", "p").typed("int8") == parse("x", "int8[n]", "p")


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"c": "out int8[n]", "p": {"x": {"y": "int8"}}}, "arguments.p.x", "wrong type"),
        ({"c": "out int8[n]", "p": {}}, "arguments.p", "wrong type"),
        ({"c": "out int8[n]", "p": {"c": "int8"}}, "arguments.p.c", "two arguments have the name c"),
        ({"p": {"x": "out int8[n]"}, "x": "int8"}, "arguments.p.x", "two arguments have the name x"),
        ({"p": {"x": "out int8[n]"}, "q": {"x": "int8"}}, "arguments.q.x", "two arguments have the name x"),
        ({"a b": {"x": "out int8[n]"}}, "arguments.a b.x", "not a name of an argument"),
        ({"p": {"x": "out int9[n]"}}, "arguments.p.x", "unknown type 'int9' (column 5)"),
    ],
)
def test_mistakes_in_structures_name_both_keys(given, key, message):
    _, [mistake] = parse_all(given)
    assert (mistake.key, mistake.message) == (key, message)
