from __future__ import annotations

import ast

import pytest

from lab.templates.plain.triton_body import uses_of


@pytest.mark.parametrize(
    ("body", "directions"),
    [
        ("tl.store(y + at, tl.load(x + at, mask=at < n))", {"x": "", "y": "out "}),
        ("ps = x + at\n    ps += n\n    v = tl.load(ps)\n    tl.store(ps, v)", {"x": "inout "}),
        ("x += n * 4\n    tl.store(x, 1)", {"x": "out "}),
        ("tl.atomic_add(y + at, tl.load(x))", {"x": "", "y": "inout "}),
        ("tl.store(n * at + y, 1)", {"y": "out "}),
        ("b = tl.make_block_ptr(base=x + n, shape=(n,))\n    tl.load(tl.advance(b, (n,)))", {"x": ""}),
        ("v = tl.load(x[0])", {"x": ""}),
        ("helper(x)", {}),
    ],
)
def test_arrays_and_their_directions(body, directions):
    tree = ast.parse(f"def f(x, y, n):\n    at = tl.arange(0, 4)\n    {body}\n")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert {name: use.direction for name, use in uses_of(function).items()} == directions


@pytest.mark.parametrize(
    ("body", "length", "is_index"),
    [
        ("v = tl.load(x + at, mask=at < n)", "n", False),
        ("m = at < n\n    v = tl.load(x + at, mask=m)", "n", False),
        ("v = tl.load(x + at, mask=at < n - 1)", None, False),
        ("x += p * n\n    v = tl.load(x + at, mask=at < n)", None, False),
        ("v = tl.load(x + at, mask=at < n)\n    w = tl.load(x + 2 * at)", None, False),
        ("v = tl.load(x + p)\n    tl.store(y + v * n + at, 1)", 1, True),
        ("v = tl.load(x + at, mask=at < n).to(tl.int64)\n    tl.atomic_add(y + v % 8, 1)", "n", True),
    ],
)
def test_lengths_and_indices(body, length, is_index):
    tree = ast.parse(f"def f(x, y, n):\n    at = tl.arange(0, 4)\n    p = tl.program_id(1)\n    {body}\n")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    use = uses_of(function)["x"]
    assert (use.length, use.is_index) == (length, is_index)
