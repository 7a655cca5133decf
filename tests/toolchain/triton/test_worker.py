from __future__ import annotations

import inspect
import json
import sys
from types import SimpleNamespace

import pytest

from lab.toolchain.triton import worker


def test_a_failure_is_an_answer(tmp_path, monkeypatch):
    def fails(asked):
        raise SystemExit(f"no {asked['file']}\nmore")

    monkeypatch.setattr(worker, "compiled", fails)
    (tmp_path / "q").write_text(json.dumps({"file": "k.py"}))
    worker.main(tmp_path / "q", tmp_path / "a")
    answer = json.loads((tmp_path / "a").read_text())
    assert answer["error"] == "SystemExit: no k.py more"
    assert "Traceback" in answer["log"]


def test_an_answer_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "compiled", lambda asked: {"ptx": asked["file"]})
    (tmp_path / "q").write_text(json.dumps({"file": "k.py"}))
    worker.main(tmp_path / "q", tmp_path / "a")
    assert json.loads((tmp_path / "a").read_text()) == {"ptx": "k.py"}


def test_an_error_has_its_place_and_its_reason(tmp_path, monkeypatch):
    def fails(_):
        raise ValueError("at 5:13:\n  code\n  ^\nno such name\n")

    monkeypatch.setattr(worker, "compiled", fails)
    (tmp_path / "q").write_text("{}")
    worker.main(tmp_path / "q", tmp_path / "a")
    assert json.loads((tmp_path / "a").read_text())["error"] == "ValueError: at 5:13: no such name"


class CompilationError(Exception):
    """As Triton's: the text of a function from its `def`, and a node with a line of it."""

    def __init__(self, src, lineno):
        super().__init__(f"at {lineno}:4:\ncode\n^\nno such name")
        self.src, self.node = src, SimpleNamespace(lineno=lineno)


def test_an_error_of_triton_has_its_line_of_the_file_the_one_of_a_called_function_first(tmp_path, monkeypatch):
    inner, outer = "def inner(x):\n    return y\n", "def outer(x):\n    z = 1\n    inner(x)\n"
    file = tmp_path / "k.py"
    file.write_text(f"import triton\n\n@triton.jit\n{inner}\n@triton.jit\n{outer}")

    def fails(asked):
        if asked["called"]:
            raise CompilationError(outer, 3) from CompilationError(inner, 2)
        raise CompilationError(outer if asked["known"] else "def other(): pass", 3)

    def answer(*, called=False, known=True):
        (tmp_path / "q").write_text(json.dumps({"file": str(file), "called": called, "known": known}))
        monkeypatch.setattr(worker, "compiled", fails)
        worker.main(tmp_path / "q", tmp_path / "a")
        return json.loads((tmp_path / "a").read_text())

    assert (answer()["line"], answer()["error"]) == (10, "CompilationError: no such name")
    assert answer(called=True)["line"] == 5
    assert (answer(known=False)["line"], answer(known=False)["error"]) == (0, "CompilationError: at 3:4: no such name")


def test_arguments_are_compared():
    assert worker._differences(["x", "n"], ["B"], ["x", "n"], {"B": 3}) == ""
    assert "gives no ['B']" in worker._differences(["x", "B"], ["B"], ["x"], {})
    assert "takes ['x', 'n']" in worker._differences(["x", "n"], [], ["n", "x"], {})


def test_members_of_tuples_stand_for_their_tuple():
    tuples = {"sizes": ["rows", "columns"]}
    assert worker._passed(["x", "rows", "columns", "y"], tuples) == ["x", "sizes", "y"]
    kinds = {"x": "*fp32", "rows": "i32", "columns": "constexpr"}
    assert [worker._kind(name, kinds, tuples) for name in ("x", "sizes")] == ["*fp32", ("i32", "constexpr")]


@pytest.mark.parametrize(
    ("given", "value"), [("(2, 4)", (2, 4)), ("(2", "(2"), ("(2)", "(2)"), ("relu", "relu"), (3, 3), (True, True)]
)
def test_a_constant_that_is_a_tuple_is_text(given, value):
    assert worker._value(given) == value


def test_names_of_files():
    helpers = '.file 3 "/x/lab/toolchain/triton/helpers.py"\n'
    assert worker.without_machine(helpers) == '.file 3 "/lab/triton/helpers.py"\n'
    ptx = '\t.file\t1 "/v/lib/site-packages/triton/a.py"\n.file 2 "/tmp.1/k.py", 3, 4\n\tret;\n'
    assert worker.without_machine(ptx) == '\t.file\t1 "/triton/a.py"\n.file 2 "/k.py", 3, 4\n\tret;\n'


FILE = """from __future__ import annotations
import no_such_package
from beside import SIZE, scale

def wanted(x: int) -> int:
    return scale(x) + SIZE

@no_such_package.traced(level=3)
def around(x: no_such_package.Tensor = no_such_package.device()):
    return x

LATER = no_such_package.count() + 1
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    file = tmp_path / "program.py"
    file.write_text(FILE)
    (tmp_path / "beside.py").write_text("import also_absent\nSIZE = 3\nscale = also_absent.jit(lambda x: 2 * x)\n")
    return {"root": str(tmp_path), "file": str(file), "function": "wanted", "capability": 90}


def test_what_stands_around_a_function_may_be_absent(asked, capsys):
    module = worker.imported(asked)
    assert module.wanted(4) == 11
    assert module.wanted.__annotations__ == {"x": "int", "return": "int"}
    assert module.around(5) == 5
    assert inspect.getsource(module.wanted).startswith("def wanted")
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in printed] == ["beside.py(1)", "program.py(2)", "program.py(12)"]


def test_a_function_that_does_not_come_to_be_is_the_files_own_failure(asked):
    asked["function"] = "LATER"
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        worker.imported(asked)


def test_an_error_names_what_its_line_lacks(asked):
    worker.imported(asked)
    assert "no_such_package stands for no_such_package" in worker._lacking(asked, 12)
    assert not worker._lacking(asked, 6)
