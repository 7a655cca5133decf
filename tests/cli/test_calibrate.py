from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from mistakes import coded
from rich.console import Console
from run_support import DecidedSession, InProcess, all_played, build_once, played_by, without_a_gpu

from lab.base.errors import UserError
from lab.cli import main
from lab.cli.calibrate import calibrate, shown
from lab.cli.tables import print_best
from lab.gpu.process.job import Job, JobResult, Policy
from lab.hardware.calibration import CONSTANTS, calibrated, read
from lab.hardware.gpus import gpu_for
from lab.measured.timing import Samples
from lab.runs.pipeline import RunOptions, run

REPORTS = Path(__file__).parents[2] / "reports" / "h200" / "micro"
PLAIN = Path(__file__).parents[2] / "experiments" / "plain"
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
    with pytest.raises(UserError, check=coded("unknown-name", key="gpu", found="H900")):
        shown(["H900"])


class Quick(DecidedSession):
    """Every launch takes 3.18 µs, twice what the H200's did."""

    def run(self, job: Job, policy: Policy) -> JobResult:
        made = super().run(job, policy)
        assert made.measurement is not None
        return replace(made, measurement=replace(made.measurement, samples=Samples((2e-3 * 1.59037,) * 3)))


def test_one_microbenchmark_leaves_the_other_constants(file: Path) -> None:
    calibrate(QUIET, runs=REPORTS)
    before = read(file)["NVIDIA H200"].constants
    made = calibrate(QUIET, only=["launch"], services=all_played(cards=played_by(Quick)))
    after = read(file)["NVIDIA H200"].constants
    assert made.missing == {}
    assert after == {**before, "launch": after["launch"]}
    assert after["launch"].value == pytest.approx(3.18074)
    assert after["launch"].n == 3
    assert calibrated(gpu_for("H200")).latencies.launch_s == pytest.approx(6.8e-6)


def test_nothing_is_written_where_nothing_follows(file: Path) -> None:
    with pytest.raises(UserError, check=coded("nothing-left", key="calibrate")):  # the played times are milliseconds
        calibrate(QUIET, only=["launch"], services=all_played())
    assert not file.exists()
    with pytest.raises(UserError, check=coded("conflict", key="--only")):
        calibrate(QUIET, only=["launch"], runs=REPORTS)


def test_a_gpu_that_was_never_compared_is_marked_wherever_its_predictions_stand(tmp_path: Path) -> None:
    (tmp_path / "add.cu").write_text((PLAIN / "vector_add.cu").read_text())
    text = (PLAIN / "vector_add.yaml").read_text().replace("[32, 64, 128, 256, 512, 1024]", "256")
    (tmp_path / "add.yaml").write_text(text.replace("vector_add.cu", "add.cu"))
    played = without_a_gpu(prepare=lambda: None, executor=InProcess, build=build_once)
    options = RunOptions(output=tmp_path / "run", archs=("sm_80", "sm_90"), toolchains=("nvrtc",), resume=False)
    outcome = run(tmp_path / "add.yaml", options, None, played)
    out = Console(file=io.StringIO(), width=200)
    print_best(out, outcome)
    said = "Ceilings and estimates for the A100 SXM 80GB stand on published figures and were never compared"
    assert isinstance(out.file, io.StringIO)
    assert said in out.file.getvalue()
    assert said in (tmp_path / "run" / "index.html").read_text(encoding="utf-8")
    with (tmp_path / "run" / "records.csv").open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    marks = {"sm_80": "published figures, never compared with hardware", "sm_90": "measured on an H200"}
    assert {row["arch"]: row["estimated_from"] for row in rows} == marks
    assert all(float(row["estimated_ms"]) > 0 for row in rows)


def test_architectures_are_named_in_one_word_or_several(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requested_archs: list[tuple[str, ...]] = []

    def told(_: Path, options: RunOptions, *__: object) -> NoReturn:
        requested_archs.append(options.archs)
        raise UserError("enough", code="wrong-value")

    monkeypatch.setattr("lab.runs.pipeline.run", told)
    monkeypatch.setattr("lab.base.workers.prepare", lambda: None)
    for words in (["--archs", "sm_80, sm_90"], ["--arch", "sm_80", "--arch", "sm_90"]):
        assert here("run", PLAIN / "vector_add.yaml", *words).returncode == 2
    assert requested_archs == [("sm_80", "sm_90")] * 2


def test_gpus_to_predict_for_are_named_on_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[tuple[str, ...], bool]] = []

    def told(_: Path, options: RunOptions, *__: object) -> NoReturn:
        asked.append((options.gpus, options.measure))
        raise UserError("enough", code="refused")

    monkeypatch.setattr("lab.runs.pipeline.run", told)
    monkeypatch.setattr("lab.base.workers.prepare", lambda: None)
    for words in (["--gpu", "RTX 4090", "--gpu", "A10", "--no-gpu"], []):
        assert here("run", PLAIN / "vector_add.yaml", *words).returncode == 2
    assert asked == [(("RTX 4090", "A10"), False), ((), True)]


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
