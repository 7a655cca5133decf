"""Every row of docs/explanation/sources.md: its number, its place in the text, and its command.

Commands that take no GPU are executed: `lab map` in the gate, the others where `-m thorough` asks for them. Places are
looked up where the texts are (`LAB_TEXTS`), which the project does not hold.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.base.errors import UserError
from lab.cli.main import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "sources.md").read_text()
TEXTS = {
    "M": ("mapping-notation.txt",),
    "S": ("sgemm-ladder.txt",),
    "T": ("triton-softmax-persistent.txt", "triton-softmax.txt"),
    "P": ("tensile-paper.txt",),
}
ROWS = [re.split(r"(?<!\\) \| ", row) for row in re.findall(r"^\| ([MSTP]\d+ .*) \|$", PAGE, re.MULTILINE)]
COLUMNS = 6
LACKS_SOMETHING = 3
"""Exit code of lab where the environment lacks what was asked for, such as Triton."""


def command_of(cell):
    """Return a row's command, and what stands behind it."""
    match = re.fullmatch(r"`([^`]+)`(?:,? (.*))?", cell)
    assert match is not None, cell
    return match[1].replace("\\|", "|"), match[2] or ""


COMMANDS = dict(command_of(row[-1]) for row in ROWS)
MAPS = [command for command in COMMANDS if command.startswith("lab map ")]
OTHERS = [command for command, told in COMMANDS.items() if command not in MAPS and not told]


def test_rows_are_numbered_and_complete():
    numbers = defaultdict(list)
    for row in ROWS:
        assert len(row) == COLUMNS, row[0]
        assert row[1], row[0]
        assert row[3], row[0]
        numbers[row[0][0]].append(int(row[0][1:]))
    assert {letter: list(range(1, len(found) + 1)) for letter, found in numbers.items()} == dict(numbers)
    assert set(numbers) == set(TEXTS)


def test_the_place_of_each_row_is_in_its_text(benchmark_script):
    texts = benchmark_script("texts")
    if not texts.folder().is_dir():
        pytest.skip(f"{texts.folder()} is not here: LAB_TEXTS names the folder of the texts")
    read = {letter: "\n".join(map(texts.read, names)) for letter, names in TEXTS.items()}
    for number, says, place, *_ in ROWS:
        assert bool(place) != says.startswith("(not in the text)"), number
        assert place.strip("`").replace("\\|", "|") in read[number[0]], number


@pytest.mark.parametrize("command", MAPS)
def test_maps_are_drawn_or_refused_as_the_row_says(command):
    done = CliRunner().invoke(app, shlex.split(command)[1:], env={"COLUMNS": "120"})
    assert isinstance(done.exception, UserError) is (COMMANDS[command] == "refused")
    assert done.exit_code == (1 if done.exception else 0), done.output


def test_every_command_names_files_that_are_there():
    assert len(COMMANDS) > len(MAPS) + len(OTHERS)
    for command, told in COMMANDS.items():
        assert told in ("", "on a GPU", "refused", "with the text"), command
        for word in shlex.split(command):
            if word.endswith((".py", ".yaml")) or word.startswith("reports/"):
                assert (ROOT / word).exists(), command


@pytest.mark.thorough
@pytest.mark.parametrize("command", OTHERS)
def test_commands_that_take_no_gpu_end_well(command, tmp_path):
    words = shlex.split(command)
    words = [sys.executable, "-m", *words] if words[0] == "lab" else [sys.executable, *words[1:]]
    words += ["--output", str(tmp_path / "run")] if words[2:4] == ["lab", "run"] else []
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == LACKS_SOMETHING:
        pytest.skip(done.stderr.strip().partition("\n")[0])
    assert done.returncode == 0, done.stdout + done.stderr
