from __future__ import annotations

import json
import subprocess

import pytest
from diff_support import LOOP, SCALE
from typer.testing import CliRunner

from lab.base.errors import UserError
from lab.cli.main import app


def run(*words: object):
    return CliRunner().invoke(app, ["diff", *map(str, words)])


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "a.cu").write_text(SCALE)
    (tmp_path / "b.cu").write_text(SCALE.replace("3.0f", "4.0f"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_exit_code_is_that_of_the_thresholds(files):
    command = ("a.cu", "b.cu", "--arch", "sm_90", "--toolchain", "nvrtc")
    passed = run(*command, "--fail-on", "spills>0")
    assert passed.exit_code == 0, passed.output
    assert "1 kernel compared: 1 changed." in passed.output
    assert run(*command, "--fail-on", "class>renamed").exit_code == 1


def test_every_format_at_once(files):
    names = ("markdown", "sarif", "junit", "html")
    outputs = [word for name in names for word in (f"--{name}", f"out.{name}")]
    result = run("a.cu", "b.cu", "--toolchain", "nvrtc", "--json", *outputs)
    assert json.loads(result.stdout)["counts"] == {"changed": 1}
    assert all((files / f"out.{name}").stat().st_size > 200 for name in names)


def test_a_collected_side(files):
    assert run("a.cu", "--toolchain", "nvrtc", "--collect", "base.json").exit_code == 0
    result = run("base.json", "a.cu", "--toolchain", "nvrtc")
    assert "all identical" in result.output


def test_a_revision_and_flags_alone(files):
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], check=True)  # noqa: S607 - of the machine
    (files / "lab-diff.yaml").write_text("kernels: [{source: a.cu}]\narchs: [sm_90]\ntoolchains: [nvrtc]\n")
    assert "all identical" in run("HEAD").output
    (files / "a.cu").write_text(SCALE + LOOP)
    assert "1 kernel compared: 1 added" in run("HEAD").output
    (files / "a.cu").write_text(SCALE.replace("__launch_bounds__(256) ", ""))
    changed = run("HEAD", ".", "--base-option=--maxrregcount=32", "--fail-on", "class>renamed")
    assert changed.exit_code == 1
    assert "launch bound: 256x1x1 -> none" in changed.output


def test_a_mistake_in_a_threshold(files):
    result = run("a.cu", "b.cu", "--fail-on", "spils>0")
    assert isinstance(result.exception, UserError)
    assert result.exception.key == "--fail-on"
