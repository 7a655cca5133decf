"""The tutorials of docs/tutorial: their commands run in order and print what the pages show, figures aside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "tutorial"
STEP = re.compile(
    r"<!-- (?:file: (?P<file>\S+)|command(?:: exit (?P<code>\d))?) -->\n```\w+\n(?P<text>.*?)```"
    r"(?:\n\n```\n(?P<output>.*?)```)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Step:
    """A file to save, or a command with its exit code and the lines that the page shows of its output."""

    file: str | None
    text: str
    code: int
    shown: tuple[str, ...]


def steps(page: Path) -> list[Step]:
    found = STEP.finditer(page.read_text(encoding="utf-8"))
    return [Step(m["file"], m["text"], int(m["code"] or 0), tuple(lines(m["output"] or ""))) for m in found]


def lines(output: str) -> list[str]:
    """The lines of an output with variants, figures and spaces evened out, without the gaps that a page leaves."""
    evened = re.sub(r"\d[\d,.]*", "0", re.sub(r"\b[0-9a-f]{10}\b", "ID", output))
    return [" ".join(line.split()) for line in evened.splitlines() if line.strip() not in ("", "…")]


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_a_tutorial_works_as_it_says(page: Path, tmp_path: Path) -> None:
    commands = [step for step in steps(page) if step.file is None]
    assert len(commands) >= 3
    assert all(step.shown for step in commands)
    assert page.read_text(encoding="utf-8").count("```sh") == len(commands)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = os.environ | {"PATH": path, "CUDA_VISIBLE_DEVICES": "", "TERM": "dumb"}
    for step in steps(page):
        if step.file is not None:
            (tmp_path / step.file).write_text(step.text, encoding="utf-8")
            continue
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", step.text],
            cwd=tmp_path,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == step.code, done.stdout
        printed = iter(lines(done.stdout))
        assert [line for line in step.shown if line not in printed] == [], done.stdout  # in the order of the page
