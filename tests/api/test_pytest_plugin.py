from __future__ import annotations

import subprocess
import sys

import pytest
from diff_support import LOOP, SCALE

from lab.api.pytest_plugin import check_kernel
from lab.base.errors import CompileError, UserError

TEST = """
def test_scale(lab_kernel):
    k = lab_kernel("scale.cu", "scale", arch="sm_90", toolchain="nvrtc")
    assert k.spills == 0
    assert k.registers <= 40
    assert k.occupancy == 1.0
    assert k.hot_loop.count("st.global") == 1


def test_that_fails(lab_kernel):
    assert lab_kernel("scale.cu", toolchain="nvrtc").shared > 0
"""


def test_in_a_project_of_its_own(tmp_path):
    (tmp_path / "scale.cu").write_text(SCALE)
    (tmp_path / "test_scale.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr


def test_the_loop(tmp_path):
    (tmp_path / "dot.cu").write_text(LOOP)
    kernel = check_kernel(tmp_path / "dot.cu", arch="sm_80", toolchain="nvrtc")
    assert kernel.hot_loop.ratio("ld.global", "fma") == 2
    assert kernel.hot_loop.ratio("fma", "ld.shared") == float("inf")
    with pytest.raises(UserError) as caught:
        kernel.hot_loop.count("ffma")
    assert caught.value.found == "ffma"
    with pytest.raises(ValueError, match="experiment"):
        _ = kernel.verdict


def test_an_experiment(tmp_path):
    (tmp_path / "axpy.cu").write_text(
        "__global__ void axpy(float *y, const float *x, int n)"
        "{ int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] = 2.0f * x[i]; }"
    )
    (tmp_path / "axpy.yaml").write_text(
        "question: Is it right?\nsource: axpy.cu\nproblem: {n: 1000}\nemulate: {n: 500}\n"
        'arguments: {y: "out float32[n]", x: "float32[n]", n: int32}\n'
        "grid: ceil_div(n, 64)\nblock: 64\nreference: {y: 2 * x}\ntoolchains: [nvrtc]\n"
    )
    kernel = check_kernel(tmp_path / "axpy.yaml")
    assert kernel.verdict in ("verified", "verified in part")
    assert (kernel.conflicts, kernel.spills) == (0, 0)


def test_mistakes(tmp_path):
    (tmp_path / "both.cu").write_text(SCALE + LOOP)
    with pytest.raises(UserError) as caught:
        check_kernel(tmp_path / "both.cu", toolchain="nvrtc")
    assert sorted(map(str, caught.value.accepted or ())) == ["dot", "scale"]
    (tmp_path / "bad.cu").write_text("__global__ void k() { nothing; }")
    with pytest.raises(CompileError):
        check_kernel(tmp_path / "bad.cu", toolchain="nvrtc")
