"""Files stored beside the records of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

import pytest

from lab.base.version import VERSION
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.gpu.process.job import BaselineResult, JobResult
from lab.hardware.calibration import Calibration, write
from lab.measured.timing import GpuDescription
from lab.stages.build import BuildFailure
from lab.stages.provenance import baseline_files, conditions_of, files_of
from lab.stages.record import inspected
from lab.toolchain.base import Toolchain

H200 = GpuDescription("NVIDIA H200", "sm_90", 132, 1980, 150 * 10**9, 60 * 2**20, "580.159", "13.0")
TEMPLATE = """{#---
summary: s
operator: gemm
entry: k
parameters: {first: {type: int, default: 0, help: h}}
grid: [1]
block: [32]
arguments: {m: int32, C: T*}
---#}
extern "C" __global__ void k(int m, {{ T }}* C) { C[threadIdx.x] = m; }
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: 64, n: 64, k: 64}
emulate: {m: 32}
kernels:
  - {template: mine.cu.j2, parameters: {first: [1, 2]}}
baselines: [cublas]
archs: [sm_90]
"""


class Compiler:
    name, version = "played", "1"

    def supports(self, arch):
        return True


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return load(tmp_path / "small.yaml")


def test_a_variant_that_failed_keeps_its_source_its_log_and_the_command(experiment):
    one, _ = plan(experiment, expand(experiment).points, [cast("Toolchain", Compiler())], ["sm_90"])
    outcome = BuildFailure("error: no such thing", "line 1\nline 2\n", "nvcc k.cu")
    files = files_of(one, outcome, inspected(experiment, one, outcome, None))
    assert list(files) == ["kernel.cu", "build.log", "provenance.json"]  # provenance is written last
    assert files["build.log"] == "line 1\nline 2\n"
    facts = json.loads(files["provenance.json"])
    assert (facts["command"], facts["failure"]) == ("nvcc k.cu", "error: no such thing")
    assert facts["parameters"] == {"first": 1}
    assert facts["lab"] == VERSION
    assert facts["sizes"] == {"kernel.cu": len(files["kernel.cu"]), "build.log": 14}


def test_a_failure_without_a_log_keeps_its_reason_as_the_log(experiment):
    one, _ = plan(experiment, expand(experiment).points, [cast("Toolchain", Compiler())], ["sm_90"])
    outcome = BuildFailure("the build took longer than 300 s")
    assert files_of(one, outcome, inspected(experiment, one, outcome, None))["build.log"] == outcome.reason


def test_the_ptx_of_a_baseline_is_kept_with_its_mix():
    ptx = ".version 8.0\n.target sm_90\n.visible .entry k() { ret; }"
    others = (BaselineResult("torch", note="missing"), BaselineResult("triton", "triton 3", ptx=ptx))
    files = baseline_files(JobResult("v", baseline=BaselineResult("copy"), others=others))
    assert set(files) == {"triton.ptx", "triton.json"}
    assert json.loads(files["triton.json"])["kernels"][0]["name"] == "k"


def test_ptx_that_cannot_be_read_is_kept_without_a_mix():
    broken = ".version 8.0\n.target sm_90\n.visible .entry k( {"
    assert set(baseline_files(JobResult("v", baseline=BaselineResult("triton", ptx=broken)))) == {"triton.ptx"}


def test_conditions_are_plain_and_name_what_decides(experiment):
    conditions = conditions_of(experiment, H200, emulated=True, measured=True)
    assert json.loads(json.dumps(conditions)) == conditions
    assert conditions["GPU"] == "NVIDIA H200, driver 580.159"
    assert conditions["execution on the CPU"] is True
    assert conditions["baselines"] == ["cublas"]


def test_what_is_not_done_is_no_condition(experiment):
    conditions = conditions_of(experiment, H200, emulated=False, measured=False)
    assert (conditions["GPU"], conditions["execution on the CPU"], conditions["search"]) == (None, False, None)


def test_a_calibration_is_a_condition(experiment, tmp_path, monkeypatch):
    def conditions():
        return conditions_of(experiment, None, emulated=True, measured=True)

    file, before = tmp_path / "calibration.yaml", conditions()
    monkeypatch.setenv("LAB_CALIBRATION", str(file))
    assert conditions() == before
    assert before["calibrations"] is None  # as of runs that know no such condition
    made = Calibration(date="d", driver="1", lab="2", arch="sm_90", clock_mhz=1980, sms=132, l2_bytes=1, constants={})
    write(file, "NVIDIA H200", made)
    one = conditions()["calibrations"]
    write(file, "NVIDIA A100", made)
    assert len({None, one, conditions()["calibrations"]}) == 3


def test_an_operator_of_the_users_own_counts_by_its_content(experiment, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("one = 1\n")
    own = replace(experiment, operator_reference=f"{file}:Mine")
    before = conditions_of(own, None, emulated=True, measured=True)["operator file"]
    file.write_text("one = 2\n")
    assert conditions_of(own, None, emulated=True, measured=True)["operator file"] != before
    assert conditions_of(experiment, None, emulated=True, measured=True)["operator file"] == ""
