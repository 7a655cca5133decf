"""References in Python: what the function is given, and what it may return."""

from __future__ import annotations

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.operators.declared.foreign import called

AVAILABLE = {"a": np.arange(4.0), "n": 4}


def result(tmp_path, text, outputs=("c",), available=AVAILABLE):
    (tmp_path / "ref.py").write_text("import numpy as np\n" + text)
    return called("./ref.py:f", tmp_path, available, outputs)


@pytest.mark.parametrize(
    "text",
    [
        "def f(a): return 2 * a",
        "def f(a, n): return {'c': a + a}",
        "def f(*, a, other=1): return (2 * a).astype(np.float32)",
        "def f(**given): return [2 * x for x in given['a']]",
    ],
)
def test_a_function_gets_what_it_names(tmp_path, text):
    found = result(tmp_path, text)
    assert found["c"].values.tolist() == [0, 2, 4, 6]
    assert found["c"].bound is None


@pytest.mark.parametrize(
    "text", ["def f(a): a *= 2; return a", "def f(**given): given['a'][...] *= 2; return given['a']"]
)
def test_a_function_may_change_its_arguments_but_nobody_elses(tmp_path, text):
    mine = np.arange(4.0)
    for _ in range(2):
        found = result(tmp_path, text, available={"a": mine, "n": 4})
        assert found["c"].values.tolist() == [0, 2, 4, 6]
        assert mine.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "text", ["def f(a): return a, n_of(a)\ndef n_of(a): return len(a)", "def f(a, n): return dict(d=n, c=a)"]
)
def test_several_outputs(tmp_path, text):
    assert result(tmp_path, text, ("c", "d"))["d"].values == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(b): return b", "the function asks for 'b', which is neither an input nor a number of the problem"),
        ("def f(a): return {'d': a}", "the function does not return c"),
        ("def f(a): return 'x'", "the reference of c holds <U1"),
        ("def f(a): return a[9]", "the function raised IndexError"),
        ("f = 3", "no such function in the reference file"),
        ("1 / 0", "the reference file cannot be imported: "),
    ],
)
def test_what_is_wrong_with_a_function(tmp_path, text, message):
    with pytest.raises(UserError) as caught:
        result(tmp_path, text)
    assert message in caught.value.message
    assert caught.value.key == "reference"


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, check=coded("missing-file", key="reference", found="./none.py:f")):
        called("./none.py:f", tmp_path, AVAILABLE, ("c",))
