from __future__ import annotations

import ast

import pytest

from lab.templates.plain.triton_host import read_host

NAMES = ["x", "y", "n", "s"]


def read(body, arguments="x, y, 1, 2", grid="g"):
    lines = "\n    ".join([*body.splitlines(), f"f[{grid}]({arguments})"])
    return read_host(ast.parse(f"def run(x: torch.Tensor, eps=1e-5):\n    {lines}\n"), "f", NAMES)


def test_a_file_without_a_launch():
    assert read_host(ast.parse("def run(x):\n    other[(1,)](x)\n"), "f", NAMES) is None


@pytest.mark.parametrize(
    ("body", "shapes"),
    [
        ("M, N = x.shape\ny = torch.empty_like(x, dtype=torch.int32)", {"x": ["M", "N"], "y": ["M", "N"]}),
        ("y = torch.empty_like(x)\nn = x.numel()", {"x": ["n"], "y": ["n"]}),
        ("_, N = x.size()\nM = x.shape[0]\ny = torch.zeros(M, N * 2)", {"x": ["M", "N"], "y": ["M", "N * 2"]}),
        ("D = x.shape[1]\ny = x.new_empty((D,))", {"x": [None, "D"], "y": ["D"]}),
    ],
)
def test_shapes_of_tensors(body, shapes):
    found = read(body)
    assert {name: found.tensors[name].shape for name in shapes} == shapes


def test_types_and_zeros():
    tensors = read("y = torch.zeros((4,), dtype=torch.int32)").tensors
    assert (tensors["y"].dtype, tensors["y"].is_zero) == ("int32", True)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("x.stride(0)", "N"),
        ("x.stride(-1)", "1"),
        ("x.numel()", "M * N"),
        ("x.shape[1] + 1", "N + 1"),
        ("(M + 1) * 2", "(M + 1) * 2"),
        ("eps", "1e-05"),
        ("x is not None", "true"),
        ("unknown(x)", None),
        ("x.stride(axis)", None),
    ],
)
def test_numbers_of_the_host(expression, text):
    found = read("M, N = x.shape", arguments=f"x, x, {expression}")
    assert found.number(found.arguments["n"]) == text


@pytest.mark.parametrize(
    ("body", "grid", "sides"),
    [
        ("g = lambda meta: (triton.cdiv(M, meta['B']), 1)", "g", ("ceil_div(M, B)",)),
        ("def g(meta):\n    return (M, N)", "g", ("M", "N")),
        ("g = (M, N)", "g", ("M", "N")),
        ("", "(M,)", ("M",)),
        ("", "(count(),)", ()),
    ],
)
def test_grids(body, grid, sides):
    assert read(f"M, N = x.shape\n{body}", grid=grid).grid == sides
