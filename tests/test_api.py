"""The Python API: what the commands do, called from Python."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import played
import pytest
from mistakes import coded

import lab
from lab.base.errors import UserError
from lab.library import dispatch as the_module
from lab.recorded.run_records import Status
from lab.runs.observer import RunObserver

TEMPLATE = """{#---
summary: s
operator: gemm
entry: k
parameters: {first: {type: int, default: 0, help: h}}
grid: [1]
block: [32]
arguments: {m: int32, C: T*}
---#}
extern "C" __global__ void k(int m, {{ T }}* C) { C[threadIdx.x] = m * {{ first }}; }
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: 64, n: 64, k: 64}
kernels:
  - {template: mine.cu.j2, parameters: {first: [1, 2]}}
archs: [sm_90]
"""
SQUARE = """extern "C" __global__ void square(int n, const float* x, float* y)
{ int i = threadIdx.x; if (i < n) y[i] = x[i] * x[i]; }"""


def test_importing_lab_imports_nothing_heavy():
    program = (
        "import sys, lab; print([name for name in ('numpy', 'pandas', 'pydantic', 'rich', 'scipy') "
        "if name in sys.modules], lab.__version__)"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert completed.stdout.split() == ["[]", lab.__version__]


def test_dispatch_is_the_module_that_uses_libraries():
    from lab import dispatch  # noqa: PLC0415 - this is what is tested

    assert dispatch is lab.dispatch is the_module
    with pytest.raises(AttributeError, match="no attribute 'despatch'"):
        lab.despatch  # noqa: B018 - asking is what is tested


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return tmp_path / "small.yaml"


def test_a_run_from_python(experiment, tmp_path):
    outcome = lab.run(str(experiment), output=tmp_path / "out", jobs=1, gpu=False, archs=["sm_90"])
    assert outcome.folder == tmp_path / "out"
    assert outcome.page.is_file()
    assert outcome.frame["p.first"].tolist() == [1, 2]
    assert outcome.best.status is Status.INSPECTED
    assert lab.records(tmp_path / "out").equals(outcome.frame)
    compared = lab.compare(outcome.folder, str(outcome.folder))
    assert len(compared.changes) == 2
    shown = lab.inspect(experiment, variant=outcome.best.variant)
    assert [listing.isa for listing in shown.listings] == ["ptx", "sass"]


def test_ctrl_c_is_ctrl_c_and_keeps_what_is_finished(experiment, tmp_path):
    class Impatient(RunObserver):
        def recorded(self, record):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.run(experiment, output=tmp_path / "out", jobs=1, gpu=False, observer=Impatient())
    assert len(lab.records(tmp_path / "out")) == 1


def test_a_kernel_is_inspected_and_executed_on_arrays(tmp_path):
    (tmp_path / "k.cu").write_text(SQUARE)
    shown = lab.inspect(tmp_path / "k.cu")
    (tmp_path / "k.ptx").write_text(shown.listings[0].text)
    assert shown.to_json()["kernels"][0]["name"] == "square"
    x, y = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    emulation = lab.emulate(tmp_path / "k.ptx", [np.int32(40), x, y], block=64)
    assert emulation.clean
    assert (y == x * x).all()
    again = np.zeros(40, np.float32)
    compiled = lab.emulate(tmp_path / "k.ptx", [np.int32(40), x, again], block=64, engine="compiled")
    assert (emulation.engine, compiled.engine) == ("interpreted", "compiled")
    assert (again == y).all()
    assert compiled.counts == emulation.counts
    mixed = lab.emulate(tmp_path / "k.ptx", ["i32=41", "f32[40]=normal", y], block=64)
    assert not mixed.clean
    with pytest.raises(UserError, check=coded("unknown-name", key="--kernel", found="squared")):
        lab.emulate(tmp_path / "k.ptx", [], kernel="squared")


def test_a_tuning_run_from_python_needs_no_observer(tmp_path):
    outcome = lab.tune(played.write(tmp_path), output=tmp_path / "out", gpu=False, jobs=1)
    assert (outcome.failed, outcome.interrupted) == ((), False)
    assert tmp_path / "out" / "index.html" in outcome.pages


def test_a_tuning_run_from_python_begins_with_its_file(tmp_path):
    with pytest.raises(UserError, check=coded("missing-file")):
        lab.tune(tmp_path / "missing.yaml", output=tmp_path / "out")
