from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from rich.console import Console
from run_support import all_played

from lab.base.errors import UserError
from lab.cli import main
from lab.cli.calibrate import calibrate, shown
from lab.hardware.calibration import CONSTANTS, read

REPORTS = Path(__file__).parents[2] / "reports" / "h200" / "micro"
QUIET = Console(file=io.StringIO())


def here(*arguments: object) -> subprocess.CompletedProcess[str]:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("TERM", "dumb")
        patch.setenv("COLUMNS", "200")
        patch.setenv("PYTHONSAFEPATH", "1")
        patch.setattr(sys, "argv", ["lab", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main.main()
    return subprocess.CompletedProcess([], int(ended.value.code or 0), out.getvalue(), err.getvalue())


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_CALIBRATION", str(tmp_path / "calibration.yaml"))
    return tmp_path / "calibration.yaml"


def test_runs_give_a_file_that_is_shown_and_used(file: Path) -> None:
    done = here("calibrate", "--from", REPORTS)
    assert done.returncode == 0, done.stderr
    assert f"{file}: {len(CONSTANTS)} constants of NVIDIA H200" in done.stdout
    made = read(file)["NVIDIA H200"]
    assert made.date.startswith("2026-11-23")
    assert made.driver == "580.159.04"
    rows = json.loads(here("calibrate", "--show", "--json").stdout)["NVIDIA H200"]
    by_name = {row["constant"]: row for row in rows}
    assert by_name["integer_lanes"]["used"] == pytest.approx(63.3, abs=0.1)
    assert by_name["integer_lanes"]["built_in"] == 64
    assert by_name["integer_lanes"]["origin"] == "calibrated 2026-11-23"
    assert "scaled from 1.59" in by_name["launch"]["origin"]
    assert by_name["fma_lanes"]["used"] is None
    text = here("calibrate", "--show").stdout
    assert "no estimate uses it" in text
    assert "0.02%" in text


def test_without_a_file_the_built_in_constants_are_shown_with_their_source(file: Path) -> None:
    assert not file.exists()
    found = shown(["A100", "H200"])
    assert {row["origin"] for row in found["A100 SXM 80GB"]} - {""} == {
        "published figures, never compared with hardware"
    }
    assert {row["origin"] for row in found["H200"]} - {""} == {"measured on an H200"}
    with pytest.raises(UserError, match="unknown GPU"):
        shown(["H900"])


def test_one_microbenchmark_leaves_the_other_constants(file: Path) -> None:
    calibrate(QUIET, runs=REPORTS)
    before = read(file)["NVIDIA H200"].constants
    with pytest.raises(UserError, match="no constant follows"):  # the played times are milliseconds
        calibrate(QUIET, only=["launch"], services=all_played())
    assert read(file)["NVIDIA H200"].constants == before
    with pytest.raises(UserError, match="--from measures nothing"):
        calibrate(QUIET, only=["launch"], runs=REPORTS)


def test_errors_are_one_sentence_and_an_exit_code(file: Path, tmp_path: Path) -> None:
    none = here("calibrate", "--from", tmp_path)
    assert none.returncode == 2
    assert "no measured run of a microbenchmark" in none.stderr
    file.write_text("schema: 9\ngpus: {}\n")
    for words in (["calibrate", "--show"], ["calibrate", "--from", REPORTS]):
        bad = here(*words)
        assert bad.returncode == 2
        assert f"{file}:1" in bad.stderr
        assert "Traceback" not in bad.stderr
