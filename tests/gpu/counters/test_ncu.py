"""Nsight Compute's output and its refusals."""

import csv
import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.gpu.counters import ncu

TESTS = Path(__file__).parents[2]
METRICS = ("dram__bytes_read.sum", "sm__warps_active.avg.pct_of_peak_sustained_active")
KERNELS = st.text(st.characters(codec="ascii", categories=("L", "Nd"), include_characters="_:<>(), *"), min_size=1)
VALUES = st.one_of(st.none(), st.floats(0, 1e15), st.integers(0, 10**15))


def launching(*entries):
    """A program that launches these."""
    lines = "".join(f"{entry}\n" for entry in entries)
    return [sys.executable, "-c", f"import os; open(os.environ['FAKE_LAUNCHES'], 'w').write({lines!r})"]


def test_a_recorded_table_is_read():
    text = (TESTS / "gpu" / "golden" / "ncu_raw.txt").read_text()
    metrics = [
        "dram__bytes_read.sum",
        "smsp__average_warps_issue_stalled_membar_per_issue_active.ratio",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "never__heard_of.sum",
    ]
    first, second = ncu.read_csv(text, metrics)
    assert first.kernel == "row_max(int, const float *, int, float *)"
    assert first.values == {metrics[0]: 67115264.0, metrics[2]: 87.61}
    assert second.values == {metrics[0]: 67125504.0, metrics[1]: 0.0, metrics[2]: 91.10}


@given(st.lists(st.tuples(KERNELS, VALUES, VALUES), max_size=5), st.lists(st.text("=PROF %.", max_size=20), max_size=3))
def test_what_is_written_is_read_whatever_stands_around_it(rows, noise):
    table = io.StringIO()
    writer = csv.writer(table, quoting=csv.QUOTE_ALL)
    writer.writerow(["ID", "Kernel Name", *METRICS])
    writer.writerow(["", "", "byte", "%"])
    for place, (kernel, *values) in enumerate(rows):
        writer.writerow([place, kernel, *("n/a" if value is None else f"{value:,}" for value in values)])
    text = "\n".join(["==PROF== Connected", *noise, *table.getvalue().splitlines(), *noise])
    read = ncu.read_csv(text, METRICS)
    assert [row.kernel for row in read] == [kernel for kernel, *_ in rows]
    for row, (_, *values) in zip(read, rows, strict=True):
        wanted = {metric: float(v) for metric, v in zip(METRICS, values, strict=True) if v is not None}
        assert row.values == pytest.approx(wanted)


@given(st.text())
def test_no_text_makes_it_stumble(text):
    for row in ncu.read_csv(text, METRICS):
        assert set(row.values) <= set(METRICS)


@pytest.mark.parametrize(
    "text", ["", "==ERROR== nothing", '"ID","Kernel Name"', '"ID"\n"1"', '"ID","Kernel Name"\n"7"']
)
def test_a_table_that_is_cut_short_has_no_values(text):
    assert all(not row.values for row in ncu.read_csv(text, METRICS))


def test_launches_are_collected_in_order_with_the_number_of_passes(fake_ncu, monkeypatch):
    monkeypatch.setenv("FAKE_NCU", "7 passes")
    found = ncu.collect(fake_ncu, METRICS, launching("a", "other", "b"), flush=True, kernels=("a", "b"))
    assert [row.kernel for row in found.rows] == ["a", "b"]
    assert found.rows[0].values == {METRICS[0]: 1024.0, METRICS[1]: 75.0}
    assert (found.passes, found.unknown) == (7, ())
    assert ncu.version(fake_ncu) == "2025.3.1.0"


@pytest.mark.parametrize("how", ["knows not", "silent"])
def test_a_metric_that_is_not_known_is_left_out_and_named(fake_ncu, monkeypatch, how):
    monkeypatch.setenv("FAKE_NCU", f"{how} {METRICS[1]}")
    found = ncu.collect(fake_ncu, METRICS, launching("a"), flush=False)
    assert found.unknown == (METRICS[1],)
    assert found.rows[0].values == {METRICS[0]: 1024.0}


def test_without_permission_it_says_what_to_do(fake_ncu, monkeypatch):
    monkeypatch.setenv("FAKE_NCU", "forbidden")
    with pytest.raises(ncu.ProfilerError, match="NVreg_RestrictProfilingToAdminUsers=0"):
        ncu.collect(fake_ncu, METRICS, launching("a"), flush=False)


def test_a_program_that_launches_nothing_is_reported_with_its_last_words(fake_ncu):
    program = [sys.executable, "-c", "import sys; print('no GPU here', file=sys.stderr); sys.exit(3)"]
    with pytest.raises(ncu.ProfilerError, match="profiled nothing: no GPU here"):
        ncu.collect(fake_ncu, METRICS, program, flush=False)


def test_a_profiler_that_hangs_is_killed_at_the_limit(fake_ncu, monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_NCU", "hangs")
    with pytest.raises(ncu.ProfilerError, match="did not finish within 0 s"):
        ncu.collect(fake_ncu, METRICS, launching("a"), flush=False, timeout=0)


def test_an_interrupt_kills_the_profiler_and_its_program(tmp_path, monkeypatch):
    """The program holds the profiler's pipe: reading to its end shows that both are gone."""
    script = tmp_path / "ncu"
    script.write_text("#!/bin/sh\nsleep 600 &\necho started\nwait\n")
    script.chmod(0o755)
    started: list[str] = []

    class Interrupted(subprocess.Popen):
        def communicate(self, *arguments, **named):
            if not started:
                assert self.stdout is not None
                started.append(self.stdout.readline())
                raise KeyboardInterrupt
            return super().communicate(*arguments, **named)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        ncu.collect(script, METRICS, launching("a"), flush=False)
    assert started == ["started\n"]


def test_a_profiler_that_is_not_there_is_an_error_in_words(tmp_path):
    with pytest.raises(ncu.ProfilerError, match="cannot be started: No such file"):
        ncu.collect(tmp_path / "ncu", METRICS, launching("a"), flush=False)
    with pytest.raises(ncu.ProfilerError, match="cannot be started"):
        ncu.version(tmp_path / "ncu")
