"""Progress as a terminal shows it."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from live_support import begin, build, written
from rich.console import Console

from lab.cli.live.progress_lines import EVERY_S, MOST_FAILURES
from lab.cli.live.run_account import RunAccount
from lab.cli.progress import RunProgress, RunWatch, TuneProgress
from lab.cli.terminal import Output
from lab.measured.timing import Kind
from lab.recorded.run_records import Status
from lab.store.tuning_model import KernelFacts, ProtocolStep
from lab.tuning.file.load import Tuning
from lab.tuning.watched import SizeLeader


@pytest.fixture
def console():
    """A log: nobody looks at a terminal."""
    return Console(file=io.StringIO(), width=40)


@pytest.fixture
def terminal():
    return Console(file=io.StringIO(), width=160, force_terminal=True, force_interactive=True, color_system=None)


def failed(record, variant=None):
    return replace(
        record,
        variant=variant or record.variant,
        status=Status.NOT_EXECUTED,
        reason="no result within 60 s",
        measurement=None,
    )


@pytest.mark.parametrize("where", ["console", "terminal"])
def test_a_run_begins_with_its_question_and_its_size(request, where):
    output = request.getfixturevalue(where)
    with RunProgress(output) as progress:
        begin(progress, 24)
    text = written(output)
    assert "Does it?" in text
    assert "24 variants of 30 combinations. NVIDIA H200" in text


@pytest.mark.parametrize("where", ["console", "terminal"])
def test_failures_are_shown_as_they_come(request, where, make):
    output = request.getfixturevalue(where)
    record = make("sweep").records()[0]
    with RunProgress(output) as progress:
        begin(progress, 24)
        progress.recorded(failed(record))
        name = f"{record.variant} {record.kernel} {record.label}"
        assert f"{name}: not executed: no result within 60 s" in written(output)


def test_a_terminal_shows_every_failure_and_a_log_the_first_few(console, terminal, make):
    record = make("sweep").records()[0]
    for output in (console, terminal):
        with RunProgress(output) as progress:
            begin(progress, 24)
            for number in range(MOST_FAILURES + 3):
                progress.recorded(replace(failed(record, f"v{number}"), reason=f"no result within {number} s"))
    assert written(terminal).count(": not executed: ") == MOST_FAILURES + 3
    assert written(console).count(": not executed: ") == MOST_FAILURES
    assert "further failures are counted here" in written(console)


def test_a_reason_of_many_failures_is_printed_once(terminal, make):
    record = make("sweep").records()[0]
    with RunProgress(terminal) as progress:
        begin(progress, 24)
        for number in range(3):
            progress.recorded(failed(record, f"v{number}"))
    assert written(terminal).count(": not executed: ") == 1
    assert "3 failed" in written(terminal)


def test_a_terminal_shows_the_best_variant_until_the_end(terminal, make):
    fast = max(make("sweep").records(), key=lambda one: one.throughput)
    with RunProgress(terminal) as progress:
        begin(progress, 24)
        build(progress, fast)
        progress.recorded(fast)
        progress._view.refresh()
        assert f"best: {fast.throughput:.2f} TFLOP/s (measured): {fast.variant}" in written(terminal)
    last = written(terminal).rpartition("built")[2]
    assert "best" not in last
    assert "1/24" in last


def test_the_first_results_are_drawn_at_once(terminal, make):
    record = make("sweep").records()[0]
    progress = RunProgress(terminal)
    progress._view.auto_refresh = False  # nothing is drawn later
    with progress:
        begin(progress, 24)
        build(progress, record)
        assert f"built: {record.variant}" in written(terminal)
        progress.executed(record)
        assert f"executed on the CPU: {record.variant}" in written(terminal)
        progress.recorded(record)
        assert "best: " in written(terminal)


def test_a_log_holds_nothing_but_lines_that_are_due(console, make):
    records = make("sweep").records()
    with RunProgress(console) as progress:
        begin(progress, 24)
        progress.more(3)
        for record in records:
            build(progress, record)
            progress.executed(record)
            progress.recorded(record)
        progress.noted("The card throttled.")
        progress.confirming()
        progress.counting(2)
        progress.counted(2)
        progress.drawing()
    assert written(console).splitlines() == ["Does it?", "24 variants of 30 combinations. NVIDIA H200"]


def test_a_log_gets_a_line_when_it_is_due(console, make):
    now = [0.0]
    with RunProgress(console, clock=lambda: now[0]) as progress:
        begin(progress, 24)
        progress.recorded(make("sweep").records()[0])
        now[0] = EVERY_S
        progress._view.due()
    assert written(console).count("recorded 1/24") == 1


def test_a_terminal_without_a_cursor_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    dumb = Console(file=io.StringIO(), force_terminal=True)
    with RunProgress(dumb) as progress:
        begin(progress, 24)
    assert "\x1b" not in written(dumb).replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert "built" not in written(dumb)


def test_a_terminal_counts_what_a_search_adds_and_the_profiler_reads(terminal):
    with RunProgress(terminal) as progress:
        begin(progress, 2)
        progress.more(3)
        progress.counting(2)
        progress.counted(1)
    text = written(terminal)
    assert "3 neighbours of the best ones" in text
    assert "0/5" in text
    assert "1/2" in text


def test_a_run_in_another_process_has_an_account_of_its_own():
    account = RunAccount()
    watch = RunWatch(account)
    assert watch()._account is account
    there = pickle.loads(pickle.dumps(watch))  # noqa: S301 - made here
    assert isinstance(there(), RunProgress)
    assert there()._account is not account


@pytest.mark.parametrize("where", ["console", "terminal"])
def test_a_tuning_run_counts_kernels_sizes_and_points(request, where):
    output = request.getfixturevalue(where)
    with TuneProgress(output) as progress:
        progress.began(cast("Tuning", SimpleNamespace(name="sizes", question="Which?")), "NVIDIA H200")
        progress.built(cast("KernelFacts", SimpleNamespace(name="good", failure="")))
        progress.built(cast("KernelFacts", SimpleNamespace(name="bad", failure="it spills")))
        progress.asked("float32_nn, step 7", 4)
        progress.timed((64, 64, 64), 7, SizeLeader("tile", 1.5, Kind.PREDICTED))
        progress.timed((96, 64, 64), 5)
        step = SimpleNamespace(group="g", number=2, title="tiles", text="3 of 9 are kept")
        progress.stepped(cast("ProtocolStep", step))
        progress.resumed(9)
    text = written(output)
    assert "Which?" in text
    assert "bad: it spills" in text
    assert "good" not in text
    assert "g, step 2, tiles: 3 of 9 are kept" in text
    assert "resuming: 9 times are kept" in text
    assert ("2/4" in text) == (where == "terminal")


def test_resuming_and_drawing_are_announced(terminal):
    with RunProgress(terminal) as progress:
        begin(progress, 24)
        progress.resumed(7)
        progress.drawing()
        progress._view.refresh()
        assert "drawing the report" in written(terminal)
    assert "resuming: 7 finished variants are kept" in written(terminal)


def test_a_question_and_a_label_do_not_command_the_terminal(make):
    output = Output(file=io.StringIO(), width=160, force_terminal=True, force_interactive=True, color_system=None)
    record = replace(make("sweep").records()[0], label="\x1b]0;label\x07")
    with RunProgress(output) as progress:
        begin(progress, 24, question="\x1b]52;c;cm0=\x07\u202e?")
        progress.recorded(failed(record))
    text = written(output)
    assert r"\u001b]52;c;cm0=\u0007\u202e?" in text
    assert r"\u001b]0;label\u0007" in text
    assert "\x1b]" not in text
