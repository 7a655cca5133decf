"""`examples/judge_loop`: the advice of verdicts alone makes a GEMM and a softmax faster."""

import importlib.util
from pathlib import Path

import pytest
from judged import InProcess

from lab.judging import judge

LOOP = Path(__file__).parents[2] / "examples" / "judge_loop" / "loop.py"


@pytest.mark.parametrize(("name", "steps", "gain"), [("gemm", 3, 5), ("softmax", 2, 1.5)])
def test_every_step_is_correct_and_faster(monkeypatch, name, steps, gain):
    monkeypatch.setattr(judge, "ProcessExecutor", lambda _: InProcess())
    specification = importlib.util.spec_from_file_location("judge_loop", LOOP)
    assert specification is not None
    loop = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loop)
    times = loop.improve(name)
    assert len(times) == steps
    assert times == sorted(times, reverse=True)
    assert times[0] > gain * times[-1]


def test_the_loop_is_short():
    assert len(LOOP.read_text().splitlines()) <= 60
