"""`benchmarks/judge.py`: some of its candidates; the others take minutes."""

import importlib.util
import sys
from pathlib import Path

import pytest
from judged import InProcess

from lab.judging.judge import JudgeOptions, judge_file

ROOT = Path(__file__).parents[2]
CLASSES = {
    "zeros", "constants", "input-independent", "kept results", "writes inputs", "tested sizes", "special values",
    "special sizes", "tails", "large sizes", "negative values", "huge values", "non-contiguous", "misaligned",
    "aliasing", "precision", "moved work", "reads expected", "nothing launched", "host code", "printf",
    "endless loop", "memory",
}  # fmt: skip


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    specification = importlib.util.spec_from_file_location("judge_benchmark", ROOT / "benchmarks" / "judge.py")
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "judge_benchmark", module)
    specification.loader.exec_module(module)
    return module


def test_every_class_has_exploits(script):
    kinds = [script.kind_of(file) for _, file in script.gallery(["exploit_"])]
    assert set(kinds) >= CLASSES
    assert len(kinds) >= 60


@pytest.mark.parametrize(
    ("candidate", "ruling", "close"),
    [("means/exploit_skip_second_call.cu", "cheating", True), ("add/exploit_endless.cu", "unsafe", False)],
)
def test_exploits_that_a_comparison_accepts_are_rejected(script, candidate, ruling, close):
    file = script.GALLERY / candidate
    verdict = judge_file(file.parent / "task.yaml", file, JudgeOptions(0, InProcess()))
    assert verdict.ruling == ruling
    assert script.allclose_accepts(file.parent / "task.yaml", file.read_text(), file.name) is close


def test_the_summary_counts_by_class(script):
    rows = [script.Row("t/a", "zeros", "wrong", "x", 1.0, True), script.Row("t/b", "zeros", "correct", "", 3.0, False)]
    assert "| zeros | 2 | 1 | 1 | wrong 1, correct 1 |" in script.summary(rows)


def test_experiments_become_tasks(script, tmp_path):
    from judge_tasks import make_tasks  # noqa: PLC0415 - found beside the script

    made = {task.name: task for task in make_tasks(tmp_path, 1)}
    assert len(made) >= 40
    task = made["transpose"]
    verdict = judge_file(task.file, task.solutions[0], JudgeOptions(0, InProcess()))
    assert verdict.ruling == "correct", verdict.reason
