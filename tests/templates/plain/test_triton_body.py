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
