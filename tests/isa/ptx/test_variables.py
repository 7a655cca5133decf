"""Declarations of registers, variables and parameters, with their initialisers."""

from __future__ import annotations

import pytest

from lab.base.errors import ReaderError
from lab.isa.model import Variable
from lab.isa.ptx.module import read_ptx
from lab.isa.ptx.ptx_text import Cursor, PtxText
from lab.isa.ptx.variables import read_declaration, read_parameters, read_words

HEAD = ".version 8.5\n.target sm_90a, debug\n.address_size 64\n"


def declared(text: str) -> Variable:
    (variable,) = read_ptx(HEAD + text).variables
    return variable


def cursor(text: str) -> Cursor:
    return Cursor(PtxText(text, "k.ptx"))


def test_registers() -> None:
    reader = cursor(".reg .b32 %r<39>; .reg .pred p, q; .reg .v4 .f32 v;")
    assert tuple(variable for _ in range(3) for variable in read_declaration(reader, [])) == (
        Variable("%r", "reg", "b32", 39, 4, parameterised=True),
        Variable("p", "reg", "pred"),
        Variable("q", "reg", "pred"),
        Variable("v", "reg", "f32", 1, 16, vector=4),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".global .u32 x;", Variable("x", "global", "u32", 1, 4)),
        (".visible .global .align 16 .b8 x[4224];", Variable("x", "global", "b8", 4224, 16)),
        (".extern .shared .align 16 .b8 s[];", Variable("s", "shared", "b8", None, 16, external=True)),
        (".const .f64 c[4][8];", Variable("c", "const", "f64", 32, 8)),
        (".const .f64 c[2*4];", Variable("c", "const", "f64", 8, 8)),
        (".common .global .b32 x;", Variable("x", "global", "b32", 1, 4)),
        (".weak .attribute(.managed) .global .b32 x;", Variable("x", "global", "b32", 1, 4)),
        (".global .attribute(.unified(1, 2)) .b32 x;", Variable("x", "global", "b32", 1, 4)),
        (".global .texref t;", Variable("t", "global", "texref", 1, None)),
        (".global .u32 x = 7;", Variable("x", "global", "u32", 1, 4, initial=("7",))),
        (".global .f32 x = -1.5e-3;", Variable("x", "global", "f32", 1, 4, initial=("-1.5e-3",))),
        (".global .u8 x[] = {1, 0x2,\n3};", Variable("x", "global", "u8", 3, 1, initial=("1", "0x2", "3"))),
        (
            ".global .u32 x[2][3] = {{1}, {2, 3}};",
            Variable("x", "global", "u32", 6, 4, initial=("1", "0", "0", "2", "3", "0")),
        ),
        (".global .u32 x[][2] = {{1}, {2, 3}};", Variable("x", "global", "u32", 4, 4, initial=("1", "0", "2", "3"))),
        (
            ".const .v2 .f32 x[2] = {{1.0, 2.0}, {3.0, 4.0}};",
            Variable("x", "const", "f32", 2, 8, 2, ("1.0", "2.0", "3.0", "4.0")),
        ),
        (".global .u64 x[2] = {generic(y)+4, z};", Variable("x", "global", "u64", 2, 8, initial=("generic(y)+4", "z"))),
        (
            ".global .u8 x[2] = {0xff(y), 0xff00(y)};",
            Variable("x", "global", "u8", 2, 1, initial=("0xff(y)", "0xff00(y)")),
        ),
        (".global .u32 x[4] = {};", Variable("x", "global", "u32", 4, 4)),
    ],
)
def test_variables(text: str, expected: Variable) -> None:
    assert declared(text) == expected


def test_several_in_one_declaration() -> None:
    module = read_ptx(f"{HEAD}.global .u32 a = 1, b[2] = {{1, 2}}, c;")
    assert [(v.name, v.count, v.initial) for v in module.variables] == [
        ("a", 1, ("1",)),
        ("b", 2, ("1", "2")),
        ("c", 1, ()),
    ]


def test_a_megabyte_of_initialiser() -> None:
    numbers = [str(number % 256) for number in range(300_000)]
    variable = declared(f".global .align 4 .b8 x[300000] = {{{', '.join(numbers)}}};")
    assert variable.initial == tuple(numbers)


@pytest.mark.parametrize(
    "text",
    [
        ".global .u32 x[1] = {1, 2};",
        ".global .u32 x[2][2] = {{1, 2, 3}, {4}};",
        ".global .u32 x = ;",
        ".global .u32 x = {1;",
        ".global .u32 x[2] = {1 2};",
        ".global .u32 x[-1];",
        ".global .u32 x[99999999999999999999999];",
        ".global x;",
        ".global .u32;",
        ".global .u32 x",
        ".nowhere .u32 x;",
        ".global .u32 x[1][999999999] = {{1}};",
        ".global .align y .u32 x;",
        ".global .u32 x[1] = {{{{1}}}}}};",
        ".reg .b32 %r<;",
        ".reg .b32 %r<x>;",
    ],
)
def test_broken_declarations(text: str) -> None:
    with pytest.raises(ReaderError, match=r"^k\.ptx:4:"):
        read_ptx(HEAD + text, "k.ptx")


def test_linkage_stops_before_the_state_space() -> None:
    reader = cursor(".visible .attribute(.managed) .global .u32 x;")
    assert read_words(reader) == ["visible", "attribute"]
    assert read_declaration(reader, ["visible"]) == [Variable("x", "global", "u32", 1, 4)]


def test_no_parameter_list_is_not_an_empty_one() -> None:
    assert read_parameters(cursor("f("), entry=False) is None
    assert read_parameters(cursor("()"), entry=False) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".nowhere .u32 x;", "'.nowhere' is not a state space"),
        (".global x;", "a declaration needs a state space and a type"),
        (".global .u32 x[-1];", "x has a negative extent"),
        (".global .u32 x[1] = {1, 2};", "x has 1 elements, but its initialiser has 2"),
        (".global .u32 x = {1;", "an initialiser does not end"),
        (".global .u32 x[y];", "'y' is not an integer"),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(ReaderError, match=message):
        read_declaration(cursor(text), [])


def test_a_parameter_list_ends_at_its_parenthesis() -> None:
    reader = cursor("(.param .u64 a, .param .align 8 .b8 b[16], .reg .f32 c) rest")
    assert read_parameters(reader, entry=False) == (
        Variable("a", "param", "u64", 1, 8),
        Variable("b", "param", "b8", 16, 8),
        Variable("c", "reg", "f32", 1, 4),
    )
    assert reader.text[reader.position :] == " rest"
    empty = cursor("f")
    assert read_parameters(empty, entry=False) is None
    assert empty.position == 0
    for text in ("(.param .u64 a;", "(.param .u64 a .param .u64 b)"):
        with pytest.raises(ReaderError, match=r"expected ',' or '\)' in the parameter list"):
            read_parameters(cursor(text), entry=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".global .u32 x[0];", Variable("x", "global", "u32", 0, 4)),
        (".global .u32 x[][3];", Variable("x", "global", "u32", None, 4)),
        (".global .v2 .u32 x[] = {{1, 2}, {3, 4}, {5, 6}};",
         Variable("x", "global", "u32", 3, 8, 2, ("1", "2", "3", "4", "5", "6"))),
        (".global .u32 x[] = {1};", Variable("x", "global", "u32", 1, 4, initial=("1",))),
        (".global .u32 x[][2] = {1, 2, 3};", Variable("x", "global", "u32", 4, 4, initial=("1", "2", "3"))),
        (".global .u32 x[2][2][2] = {{{1}, {2}}, {{3, 4}, {5}}};",
         Variable("x", "global", "u32", 8, 4, initial=("1", "0", "2", "0", "3", "4", "5", "0"))),
        (".global .u32 x[2][2] = {{1, 2}};", Variable("x", "global", "u32", 4, 4, initial=("1", "2"))),
        (".global .u32 x[2] = {1, 2,};", Variable("x", "global", "u32", 2, 4, initial=("1", "2"))),
        (".global .v4 .f16 x;", Variable("x", "global", "f16", 1, 8, 4)),
        (".global .v8 .f32 x;", Variable("x", "global", "f32", 1, 32, 8)),
        (".global .f16x2 x;", Variable("x", "global", "f16x2", 1, 4)),
        (".global .b128 x;", Variable("x", "global", "b128", 1, 16)),
        (".const[3] .u32 x;", Variable("x", "const", "u32", 1, 4)),
        (".global .align 0x10 .u8 x;", Variable("x", "global", "u8", 1, 16)),
    ],
)  # fmt: skip
def test_more_variables(text: str, expected: Variable) -> None:
    assert declared(text) == expected


def test_behind_a_pointer_the_alignment_is_its_targets() -> None:
    assert read_parameters(cursor("(.param .align 4 .u64 .ptr .shared .align 16 a)"), entry=False) == (
        Variable("a", "param", "u64", 1, 4, pointer=True),
    )
    assert read_parameters(cursor("(.param .u64 .ptr a)"), entry=False) == (
        Variable("a", "param", "u64", 1, 8, pointer=True),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".global .u32 x[2][2] = {{1, 2, 3}, {4}};", "an initialiser's row does not fit"),
        (".global .u32 x[1] = {1", "an initialiser does not end"),
        (".global .u32 x = }1{;", "an initialiser does not end"),
        (".global .u32 x[2] = {1 2};", "the initialiser of x cannot be read"),
        (".global .u32 x[1][1][1][1][1][1][1][1][1] = {{1}};", "more than 8 dimensions"),
        (".global .v2 .u32 x = {1, 2, 3};", "x has 2 elements, but its initialiser has 3"),
        (".global .u32 x", "expected ';' after the declaration"),
        (".global .u32 x[2][16777217] = {{1}};", "an initialiser's row does not fit"),
    ],
)
def test_more_messages(text: str, message: str) -> None:
    with pytest.raises(ReaderError, match=message):
        read_declaration(cursor(text), [])


def test_braces_deeper_than_the_shape_fill_nothing() -> None:
    assert declared(".global .u32 x[1] = {{}};").initial == ()
    with pytest.raises(ReaderError, match="row does not fit"):
        declared(".global .u32 x[1] = {{1}};")


def test_eight_dimensions_are_read() -> None:
    text = ".global .u32 x[1][1][1][1][1][1][1][2] = {{{{{{{{1}}}}}}}};"
    assert read_declaration(cursor(text), ["extern"]) == [
        Variable("x", "global", "u32", 2, 4, initial=("1", "0"), external=True)
    ]
    assert declared(".global .u32 a[1][4194304] = {{1}};").initial.count("0") == 4194303


@pytest.mark.parametrize(
    ("entry", "text", "message"),
    [
        (True, "(.reg .u32 a)", r"a parameter of an entry cannot be in \.reg, found '\.reg \.u32 a\)'"),
        (True, "(.param .u32 a, .shared .u32 b)", r"a parameter of an entry cannot be in \.shared"),
        (False, "(.global .u32 a)", r"a parameter of a function cannot be in \.global"),
    ],
)
def test_parameters_have_their_state_space(entry: bool, text: str, message: str) -> None:
    with pytest.raises(ReaderError, match=message):
        read_parameters(cursor(text), entry=entry)
