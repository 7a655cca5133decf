from __future__ import annotations

import pytest

from lab.operators.declared.signatures import FunctionSignature, signature_in

TEXT = """import somewhere
from elsewhere import imported

def plain(x, n):
    return x

@somewhere.wrapped
def decorated(x): ...

def full(a, /, b, c=1, *rest, d, e=2, **others): ...
assigned = plain
"""


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("plain", FunctionSignature(4, ("x", "n"), ("x", "n"))),
        ("full", FunctionSignature(10, ("a", "b", "c", "d", "e"), ("a", "b", "d"))),
        ("decorated", None),
        ("imported", None),
        ("assigned", None),
        ("absent", None),
    ],
)
def test_what_a_function_asks_for(function, expected, tmp_path):
    (tmp_path / "ref.py").write_text(TEXT)
    assert signature_in(tmp_path / "ref.py", function) == expected


@pytest.mark.parametrize("text", ["def f(x:\n", "\0", "(" * 500])
def test_a_file_that_is_not_python_tells_nothing(text, tmp_path):
    (tmp_path / "ref.py").write_text(text)
    assert signature_in(tmp_path / "ref.py", "f") is None
