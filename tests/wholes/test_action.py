"""The steps of `action.yml`, executed locally in a clone of a bare repository; `gh` is played."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from diff_support import SCALE
from ruamel.yaml import YAML

STUB = """#!/bin/bash
echo "$@" >> "$RUNNER_TEMP/gh.log"
if [[ "$*" == *per_page* ]]; then cat "$RUNNER_TEMP/comment" 2>/dev/null; fi
exit 0
"""


@pytest.fixture(scope="module")
def action(root):
    return YAML(typ="safe").load((root / "action.yml").read_text())


@pytest.fixture
def clone(tmp_path):
    """A clone of a bare repository at a branch that changes a kernel."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-C"]
    source = tmp_path / "source"
    source.mkdir()
    (source / "scale.cu").write_text(SCALE)
    (source / "lab-diff.yaml").write_text("kernels: [{source: scale.cu}]\narchs: [sm_90]\ntoolchains: [nvrtc]\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, str(source), *words], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", source, tmp_path / "bare"], check=True)  # noqa: S607
    subprocess.run(["git", "clone", "-q", tmp_path / "bare", tmp_path / "clone"], check=True)  # noqa: S607
    folder = tmp_path / "clone"
    (folder / "scale.cu").write_text(SCALE.replace("3.0f", "4.0f"))
    for words in (["checkout", "-qb", "change"], ["commit", "-qam", "second"]):
        subprocess.run([*git, str(folder), *words], check=True)
    return folder


class Runner:
    """A runner of composite actions: environment, outputs and conditions as the steps use them."""

    def __init__(self, folder: Path, root: Path, inputs: dict[str, str]) -> None:
        self.folder, self.temp = folder, folder.parent / "temp"
        programs = folder.parent / "bin"
        programs.mkdir()
        self.temp.mkdir()
        for name, text in (("gh", STUB), ("lab", f'#!/bin/bash\nexec {sys.executable} -m lab "$@"\n')):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.values = {f"inputs.{key}": value for key, value in inputs.items()} | {
            "github.event_name": "pull_request", "github.token": "t", "github.repository": "o/r",
            "github.event.number": "7", "runner.temp": str(self.temp),
        }  # fmt: skip
        self.environment = os.environ | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary"),
            "GITHUB_OUTPUT": str(self.temp / "output"),
        }

    def expand(self, text: str) -> str:
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda match: self.values[match[1]], text)

    def holds(self, condition: str) -> bool:
        words = condition.removeprefix("${{").removesuffix("}}")
        for name in sorted(self.values, key=len, reverse=True):
            words = words.replace(name, repr(self.values[name]))
        clauses = [clause.strip() for clause in words.split("&&")]
        sides = [re.fullmatch(r"'(.*)' (==|<=) '?(.*?)'?", clause).groups() for clause in clauses]
        return all(a == b if operator == "==" else int(a) <= int(b) for a, operator, b in sides)

    def run(self, steps: list[dict]) -> int:
        """Run the steps that are commands, without the installation; return the first exit code but 0."""
        for step in steps:
            if "run" not in step or step["name"] == "Install lab" or not self.holds(step.get("if", "'a' == 'a'")):
                continue
            own = {key: self.expand(value) for key, value in step.get("env", {}).items()}
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(command, cwd=self.folder, env=self.environment | own, check=False)
            if done.returncode:
                return done.returncode
            output = self.temp / "output"
            for line in output.read_text().splitlines() if "id" in step else ():
                name, _, value = line.partition("=")
                self.values[f"steps.{step['id']}.outputs.{name}"] = value
        return 0


def inputs_of(action: dict, **given: str) -> dict[str, str]:
    return {name: field.get("default", "") for name, field in action["inputs"].items()} | given


def test_a_comment_is_written_and_thresholds_hold(action, clone, root):
    runner = Runner(clone, root, inputs_of(action, base="origin/main"))
    assert runner.run(action["runs"]["steps"]) == 0
    assert "1 kernel compared: 1 changed" in (runner.temp / "summary").read_text()
    posted = (runner.temp / "gh.log").read_text().splitlines()[-1]
    assert posted == f"api --silent --method POST repos/o/r/issues/7/comments --field body=@{runner.temp}/lab-diff.md"
    assert (runner.temp / "lab-diff.sarif").is_file()


def test_a_threshold_fails_after_the_comment_is_replaced(action, clone, root):
    runner = Runner(clone, root, inputs_of(action, base="origin/main", **{"fail-on": "spills>0\nclass>renamed\n"}))
    (runner.temp / "comment").write_text("41\n")
    assert runner.run(action["runs"]["steps"]) == 1
    assert "--method PATCH repos/o/r/issues/comments/41" in (runner.temp / "gh.log").read_text()


def test_a_mistake_posts_nothing(action, clone, root):
    runner = Runner(clone, root, inputs_of(action, base="origin/main", **{"fail-on": "spils>0"}))
    assert runner.run(action["runs"]["steps"]) == 2
    assert not (runner.temp / "gh.log").exists()


def test_the_hook_runs(root, clone):
    (hook,) = YAML(typ="safe").load((root / ".pre-commit-hooks.yaml").read_text())
    runner = Runner(clone, root, {})
    (clone / "scale.cu").write_text(SCALE)
    command = [*hook["entry"].split(), "--fail-on", "class>renamed"]
    assert subprocess.run(command, cwd=clone, env=runner.environment, check=False).returncode == 1
    assert re.search(hook["files"], "csrc/scale.cu")
