from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.isa.cuda.syntax_tree import (
    arrays_in,
    declarators,
    declared_name,
    find,
    function_around,
    line,
    parse,
    parse_branches,
    parse_expression,
    span,
    words,
    written,
)


def test_offsets_and_lines_are_those_of_the_text():
    text = "// é 😀 comment\n#define A \\\n  1\nint naïve(int b); /* c */ float x;\n"
    source = parse(text)
    [name] = [one for one in source.find("identifier") if written(one) == "naïve"]
    assert text[slice(*span(name))] == "naïve"
    assert line(name) == 4
    assert len(source.text) == len(text)
    assert not source.root.has_error


@pytest.mark.parametrize(
    "text",
    [
        "template <class T>\n#ifdef A\n__global__\n#endif\nvoid k(int a,\n#if B\nfloat b,\n#endif\nint c) {}",
        "__global__ void __cluster_dims__(2, 1, 1) k() {}",
        "__launch_bounds__(1, 2, 3) __global__ void k() __attribute__((used)) {}",
        "struct __align__(16) V { alignas(8) float x[4]; };",
        "#if X\n#define HD __host__ __device__\n#else\n#define HD inline\n#endif\nHD static int f(int a) { return a; }",
        "struct A { LIB_HOST_DEVICE A(int x) : a(x) {} LIB_FORCEINLINE operator int() const; int a; };",
        "LIB_NAMESPACE_BEGIN namespace a { } void f() { LIB_UNROLL for (;;) {} }",
        "void f() { NV_IF_TARGET(NV_IS_DEVICE, (int a[2]; a[0] = 1;), (g((x)); h();)); }",
        "void f() { int m = ({ int a = 1; a; }); register float y = m; }",
        "#if 0\n}}} (\n#endif\nint a;",
        "#if A\nvoid f(int a) {\n#else\nvoid f() {\n#endif\n}",
        "#if A\nint x = 1\n#else\nint x = 2\n#endif\n;",
        "#if A\nint a;\n#else\nint b;\n#endif\n",
    ],
)
def test_what_would_break_the_grammar_is_blank(text):
    assert not any(source.root.has_error for source in parse_branches(text))


def test_attributes_keep_their_arguments():
    source = parse("__global__ void __launch_bounds__(2 * (3 + 4), MIN) k() {}\nstruct __align__() S;")
    assert [(attribute.name, attribute.arguments, attribute.start) for attribute in source.attributes] == [
        ("__launch_bounds__", ("2 * (3 + 4)", "MIN"), 16),
        ("__align__", (), 66),
    ]


def test_branches_are_parsed_one_by_one_only_where_they_are_not_whole():
    whole = "#if A\nint a;\n#elif B\nint b;\n#endif\n"
    [source] = parse_branches(whole)
    assert [written(one) for one in source.find("identifier")] == ["a", "b"]
    cut = "#if A\nvoid f(int a) {\n#elif B\nvoid f(int b) {\n#else\nvoid f(int c) {\n#endif\n}\n" + whole
    names = [[written(one) for one in source.find("identifier")] for source in parse_branches(cut)]
    assert names == [["f", name, "a", "b"] for name in "abc"]


@pytest.mark.parametrize(
    ("text", "name", "extents"),
    [
        ("int a;", "a", []),
        ("float *const *a;", "a", []),
        ("const float (*a)[3];", "a", ["3"]),
        ("const int (&a)[2];", "a", ["2"]),
        ("int a[3][n] = {};", "a", ["3", "n"]),
        ("unsigned N(1024);", "N", []),
        ("void ns::k<int>(float *x);", "k", []),
    ],
)
def test_declarators(text, name, extents):
    [node] = find(parse(text).root, "declaration")
    [declarator] = declarators(node)
    named = declared_name(declarator)
    assert named is not None
    assert written(named) == name
    sizes = [one.child_by_field_name("size") for one in arrays_in(declarator)]
    assert [written(size) for size in sizes if size] == extents


@pytest.mark.parametrize(
    ("text", "kind"), [("2 * n", "binary_expression"), ("n", "identifier"), ("f(1)", "call_expression")]
)
def test_expressions(text, kind):
    node = parse_expression(text)
    assert node is not None
    assert (node.type, written(node)) == (kind, text)


@pytest.mark.parametrize("text", ["", "1; int a", "(", "}", "a b"])
def test_what_is_not_an_expression(text):
    assert parse_expression(text) is None


def test_words_without_some_nodes():
    [node] = parse("const float *x;").find("declaration")
    assert words(node) == ["const", "float", "*", "x", ";"]
    assert words(node, *declarators(node)) == ["const", "float", ";"]


def test_the_function_around_a_node_is_the_innermost_one():
    outside, inside = parse("int a = 1; void f() { if (a) { int b = 2; } }").find("init_declarator")
    assert function_around(outside) is None
    function = function_around(inside)
    assert function is not None
    assert words(function)[:2] == ["void", "f"]


def test_a_text_that_takes_the_parser_too_long_counts_as_empty():
    started = time.process_time()
    assert parse("a<b>::" * 5000).root.child_count == 0  # 39 s without a bound
    assert time.process_time() - started < 10


@given(st.text(alphabet=st.sampled_from(list("ab1 \n\\\"'/*#R()<>{};:.-\t\r,=")) | st.characters(), max_size=120))
def test_any_text_parses(text):
    for source in parse_branches(text):
        assert len(source.text) == len(text)
        assert source.text.count("\n") == text.count("\n")
        for node in find(source.root, "identifier"):
            assert source.text[slice(*span(node))] == written(node)
