"""A broken user-defined operator fails only the rows that need it, and the error names its source line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_support import InProcess, no_report, without_a_gpu

from lab.cli.inspect import variants
from lab.recorded.run_records import Status
from lab.runs.pipeline import RunOptions, run

AXPY = (Path(__file__).parents[1] / "support" / "axpy_operator.py").read_text(encoding="utf-8")
TEMPLATE = """{#---
summary: s
operator: ./my_op.py:Axpy
entry: axpy
parameters: {unroll: {type: int, default: 1, help: h}}
grid: ["(n + 255) // 256"]
block: [256]
arguments: {n: int32, a: float32, x: float32*, y: float32*, z: float32*}
---#}
extern "C" __global__ void axpy(int n, float a, const float* x, const float* y, float* z)
{ int i = blockIdx.x * 256 + threadIdx.x; if (i < n) z[i] = a * x[i] + y[i]; }
"""
EXPERIMENT = """question: q?
operator: ./my_op.py:Axpy
problem: {n: 1024, a: 2.0}
emulate: {n: 256}
kernels: [{template: axpy.cu.j2, parameters: {unroll: [1, 2]}}]
archs: [sm_90]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my_op.py").write_text(AXPY)
    (tmp_path / "axpy.cu.j2").write_text(TEMPLATE)
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    return tmp_path


def go(folder):
    services = without_a_gpu(prepare=lambda: None, executor=InProcess, render=no_report)
    return run(folder / "e.yaml", RunOptions(output=folder / "out"), services=services)


def test_an_operator_that_works_verifies_its_variants(folder):
    assert [record.status for record in go(folder).records] == [Status.PARTIAL] * 2  # at the small size alone


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("np.random.default_rng(seed)", "np.random.default_rng(None.seed)", "Axpy.inputs raised AttributeError"),
        ('("z",))', "None)", "Axpy.inputs returned the outputs None"),
        ("values = problem.a * x + y", "values = (problem.a * x + y).astype('f4')", "Axpy.reference returned for z"),
        ("return float(error[worst])", "return None and float(error[worst])", "Axpy.verify returned (None,"),
        ("passed = error", "import sys; sys.exit(0); passed = error", "Axpy.verify ends the process"),
    ],
)
def test_what_breaks_in_a_stage_is_each_variants_own_failure(folder, old, new, words):
    text = AXPY.replace(old, new)
    assert text != AXPY
    (folder / "my_op.py").write_text(text)
    outcome = go(folder)
    assert outcome.failed  # exit code 1
    for record in outcome.records:
        assert record.status is Status.NOT_EXECUTED
        assert words in record.reason
        assert f"{folder / 'my_op.py'}:" in record.reason


def test_an_operator_that_ends_its_process_costs_the_rows_that_run_it(folder):
    broken = AXPY.replace("values = problem.a", "import os; os._exit(0); values = problem.a")
    (folder / "my_op.py").write_text(broken)
    services = without_a_gpu(prepare=lambda: None, render=no_report)
    records = run(folder / "e.yaml", RunOptions(output=folder / "out", jobs=1), services=services).records
    for record in records:
        assert record.status is Status.NOT_EXECUTED
        assert "the emulating process ended by itself: exit code 0; " in record.reason
        assert "my_op.py:Axpy ran there and may have ended it" in record.reason


@pytest.mark.parametrize("head", ["import sys; sys.exit(0)", "1 / 0", "import nothing_of_this_name"])
def test_a_file_that_cannot_be_used_is_an_input_error(folder, head):
    (folder / "my_op.py").write_text(f"{head}\n{AXPY}")
    command = [sys.executable, "-m", "lab", "run", "e.yaml", "--no-gpu"]
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "my_op.py:1: importing it " in done.stderr
    assert "Traceback" not in done.stderr


def test_inspect_asks_before_it_runs_a_file(folder):
    command = [sys.executable, "-m", "lab", "inspect", "e.yaml"]
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pass --run-operator" in done.stderr
    assert len(variants(folder / "e.yaml", run_operator=True)) == 2
