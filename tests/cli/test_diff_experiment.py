from __future__ import annotations

import subprocess

from typer.testing import CliRunner

from lab.base.errors import UserError
from lab.cli.main import app

SOURCE = """
__global__ void axpy(float *y, const float *x, int n)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
EXPERIMENT = """
question: Is it right?
source: axpy.cu
problem: {n: 1000}
emulate: {n: 500}
arguments: {y: "out float32[n]", x: "float32[n]", n: int32}
grid: ceil_div(n, 64)
block: 64
reference: {y: 2 * x}
toolchains: [nvrtc]
"""


def test_both_sides_are_held_to_the_reference(tmp_path, monkeypatch):
    (tmp_path / "axpy.cu").write_text(SOURCE)
    (tmp_path / "axpy.yaml").write_text(EXPERIMENT)
    (tmp_path / "lab-diff.yaml").write_text(
        "kernels: [{source: axpy.cu}]\narchs: [sm_90]\ntoolchains: [nvrtc]\nexperiment: axpy.yaml\nfail_on: [verdict]\n"
    )
    monkeypatch.chdir(tmp_path)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"]):
        subprocess.run(["git", *words], check=True)  # noqa: S607
    same = CliRunner().invoke(app, ["diff", "HEAD"])
    assert same.exit_code == 0, same.output
    assert "BASE: 1 variant of the experiment verified" in same.output
    (tmp_path / "axpy.cu").write_text(SOURCE.replace("2.0f", "3.0f"))
    wrong = CliRunner().invoke(app, ["diff", "HEAD"])
    assert wrong.exit_code == 1
    assert "HEAD: axpy is wrong" in " ".join(wrong.output.split())


def test_a_verdict_needs_an_experiment(tmp_path):
    (tmp_path / "axpy.cu").write_text(SOURCE)
    command = [
        "diff",
        str(tmp_path / "axpy.cu"),
        str(tmp_path / "axpy.cu"),
        "--toolchain",
        "nvrtc",
        "--fail-on",
        "verdict",
    ]
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, UserError)
    assert (result.exception.code, result.exception.key) == ("missing-key", "--experiment")
    missing = CliRunner().invoke(app, [*command[:-2], "--experiment", "gone.yaml"])
    assert isinstance(missing.exception, UserError)
    assert missing.exception.found == "gone.yaml"
