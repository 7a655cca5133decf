"""Statement expressions become lambdas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.templates.plain.lambdas import with_lambdas
from lab.templates.plain.template import device_unit
from lab.toolchain.base import CompileRequest
from lab.toolchain.nvrtc.compiler import find_nvrtc

NVRTC = find_nvrtc()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = ({ int a = y; a * a; });", "x = ([&]{ int a = y; return a * a; }());"),
        ("#define A(x) ({ \\\n  x += 1; \\\n  x; })\n", "#define A(x) ([&]{ \\\n  x += 1; \\\n  return x; }())\n"),
        ("({ a; if (b) { c; } });", "([&]{ a; if (b) { c; } }());"),
        ("({ ({ a; }); });", "([&]{ return ([&]{ return a; }()); }());"),
        ("({ __typeof__ (a) _a = (a); _a; })", "([&]{ auto _a = (a); return _a; }())"),
    ],
)
def test_statements_are_the_body_of_a_lambda(text, expected):
    assert with_lambdas(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "f({1, 2});",
        "v.push_back({a, b});",
        "// ({ a; })",
        'f("({ a; })");',
        "({ if (a) return; b; })",
        "f({[] { a; }, 2});",
        "({ a;",
    ],
)
def test_lists_of_values_comments_and_jumps_stay(text):
    assert with_lambdas(text) == text


@given(st.text(alphabet="({;})ab =\\\n\"'/*", max_size=40))
def test_lines_never_move(text):
    assert with_lambdas(text).count("\n") == text.count("\n")


def test_a_macro_with_a_statement_expression_compiles():
    macro = "#define MAX(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); \\\n _a > _b ? _a : _b; })\n"
    source, _ = device_unit(f"{macro}__global__ void k(float *x) {{ x[0] = MAX(MAX(x[0], x[1]), 1.0f); }}", {})
    assert "max.f32" in NVRTC.compile(CompileRequest(source, "k.cu", "sm_90")).ptx
