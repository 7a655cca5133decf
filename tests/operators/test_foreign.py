"""An operator of the user's own runs in a worker: whatever it does, the main process says what and where."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import LabError, Location, UserError
from lab.measured.timing import Merit
from lab.operators.checked import OperatorFault
from lab.operators.foreign import VARIABLE, ForeignOperator, PlainProblem, opened
from lab.operators.gemm import Gemm

AXPY = (Path(__file__).parents[1] / "support" / "axpy_operator.py").read_text(encoding="utf-8")


def write(folder: Path, text: str) -> str:
    (folder / "my_op.py").write_text(text, encoding="utf-8")
    return "./my_op.py:Axpy"


def test_a_built_in_operator_needs_no_worker() -> None:
    with opened("gemm") as operator:
        assert isinstance(operator, Gemm)


def test_the_main_process_learns_what_it_needs_and_imports_nothing(tmp_path: Path) -> None:
    text = (
        f"import pathlib, os\npathlib.Path(__file__).with_name('pid').write_text(str(os.getpid()))\nprint('hi')\n{AXPY}"
    )
    before = set(sys.modules)
    with opened(write(tmp_path, text), tmp_path) as operator:
        assert isinstance(operator, ForeignOperator)
        problem = operator.problem({"n": 64, "a": 2})
    assert dict(problem) == {"n": 64, "a": 2.0}
    assert dict(problem.titled("small")) == {"name": "small", "n": 64, "a": 2.0}
    assert (operator.name, operator.merit) == ("axpy", Merit.TFLOPS)
    for one in (problem, problem.titled("small")):
        counts = operator.flops(one), operator.bytes_moved(one), str(operator.fma_dtype(one))
        assert counts == (128, 768, "float32")
    assert int((tmp_path / "pid").read_text()) != os.getpid()
    assert not [name for name in set(sys.modules) - before if name.startswith("lab_user_operator")]


def test_it_does_not_run_unasked(tmp_path: Path) -> None:
    reference = write(tmp_path, "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n")
    with (
        pytest.raises(UserError, check=coded("refused", key="operator", found="./my_op.py:Axpy")),
        opened(reference, tmp_path, trusted=False),
    ):
        pass
    assert not (tmp_path / "ran").exists()


def test_a_field_that_it_refuses_is_the_experiments_mistake(tmp_path: Path) -> None:
    with opened(write(tmp_path, AXPY), tmp_path) as operator, pytest.raises(UserError) as error:
        operator.problem({"n": "many", "a": 1})
    assert (error.value.key, error.value.found) == ("problem.n", "many")


METHOD = f"{AXPY}\n    def "
FAULTS = {
    "raises at import": ("1 / 0\n", ":1: importing it raised ZeroDivisionError: division by zero"),
    "syntax": ("\ndef f(:\n", ":2: importing it raised SyntaxError"),
    "exit": ("import sys\nsys.exit(0)\n", ":2: importing it ends the process with sys.exit(0)"),
    "hard exit": ("import os\nos._exit(3)\n", "ended its worker process, which was asked to import: exit code 3"),
    "hard exit that looks well": (
        "import os\nos._exit(0)\n",
        "ended its worker process, which was asked to import: exit code 0",
    ),
    "segfault": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
        "ended its worker process, which was asked to import: signal 11 (SIGSEGV)",
    ),
    "hard exit in a method": (
        AXPY.replace("return 2 * problem.n", "__import__('os')._exit(0)"),
        "which was asked to check a problem and count its operations: exit code 0",
    ),
    "hangs": ("while True:\n    pass\n", "took longer than 2 s to import"),
    "class raises": (
        f"{AXPY}\n    def __init__(self):\n        raise ValueError('no')\n",
        "Axpy() raised ValueError: no",
    ),
    "merit": (AXPY.replace("merit = Merit.TFLOPS", "merit = 'fast'"), "has the merit 'fast'"),
    "problem type": (AXPY.replace("problem_type = AxpyProblem", "problem_type = dict"), "has the problem_type"),
    "problem raises": (
        f"{AXPY}\n    def problem(self, values):\n        return self.nothing\n",
        "Axpy.problem raised AttributeError",
    ),
    "problem is None": (f"{AXPY}\n    def problem(self, values):\n        pass\n", "Axpy.problem returned None"),
    "problem hangs": (
        f"{AXPY}\n    def problem(self, values):\n        while True: pass\n",
        "took longer than 2 s to check",
    ),
    "flops": (AXPY.replace("return 2 * problem.n", "return 2.5"), "Axpy.flops returned 2.5; accepted is an int ≥ 0"),
    "bytes": (AXPY.replace("return 12 * problem.n", "raise KeyError('n')"), "Axpy.bytes_moved raised KeyError: 'n'"),
    "dtype": (AXPY.replace("return np.dtype(np.float32)", "return None"), "Axpy.fma_dtype returned None"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_it_does_is_said_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setenv(VARIABLE, "2" if "hang" in fault else "60")
    text, words = FAULTS[fault]
    reference = write(tmp_path, text)
    with (
        pytest.raises(LabError) as error,
        opened(reference, tmp_path, at=Location("e.yaml", 2)) as operator,
    ):
        operator.problem({"n": 64, "a": 2})
    assert words in str(error.value)
    assert "my_op.py" in str(error.value)
    if "raise " in text:
        line = text.count("\n", 0, text.index("raise ")) + 1
        assert f"my_op.py:{line}: " in str(error.value)


@pytest.mark.parametrize("limit", ["0", "-1", "soon", "inf"])
def test_a_time_limit_is_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setenv(VARIABLE, limit)
    check = coded("wrong-value", found=limit)
    with pytest.raises(UserError, check=check), opened(write(tmp_path, AXPY), tmp_path):
        pass


def test_a_fault_is_no_refusal() -> None:
    assert not issubclass(OperatorFault, UserError)  # problems would blame a field
    assert dict(PlainProblem()) == {}
