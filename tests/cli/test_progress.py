"""Progress as a terminal shows it."""

from __future__ import annotations

import io
import signal
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from lab.cli.progress import RunProgress, TuneProgress
from lab.experiment.variants import Planned
from lab.stages.build import BuildFailure
from lab.store.model import Status
from lab.store.tuning_model import KernelFacts, ProtocolStep
from lab.tuning.file.load import Tuning


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=160)


def planned(progress, variants=24):
    progress.planned(SimpleNamespace(question="Does it?"), SimpleNamespace(combinations=30), variants, "NVIDIA H200")


def test_a_run_begins_with_its_question_and_its_size(console):
    with RunProgress(console) as progress:
        planned(progress)
    text = console.file.getvalue()
    assert "Does it?" in text
    assert "24 variants of 30 combinations. NVIDIA H200" in text


def test_failures_and_the_best_variant_are_shown(console, make):
    slow, fast = sorted(make("sweep").records(), key=lambda one: one.throughput)[::23]
    with RunProgress(console) as progress:
        planned(progress)
        progress.recorded(fast)
        progress.recorded(slow)
        progress.recorded(replace(slow, status=Status.TIMED_OUT, reason="no result within 60 s", measurement=None))
    text = console.file.getvalue()
    assert f"{slow.variant} {slow.kernel} {slow.label}: timed out: no result within 60 s" in text
    assert f"best {fast.throughput:.2f} TFLOP/s" in text


def test_bars_grow_with_a_search_and_end_with_the_profiler(console):
    with RunProgress(console) as progress:
        planned(progress, 2)
        progress.more(3)
        for _ in range(5):
            progress.built(cast("Planned", None), BuildFailure("refused"))
        progress.counting(2)
        progress.counted(1)
    text = console.file.getvalue()
    assert "3 neighbours of the best ones" in text
    assert "5/5" in text
    assert "1/2" in text


def test_a_tuning_run_counts_kernels_sizes_and_points(console):
    with TuneProgress(console) as progress:
        progress.began(cast("Tuning", SimpleNamespace(question="Which?")), "NVIDIA H200")
        progress.built(cast("KernelFacts", SimpleNamespace(name="good", failure="")))
        progress.built(cast("KernelFacts", SimpleNamespace(name="bad", failure="it spills")))
        progress.timed((64, 64, 64), 7)
        progress.timed((96, 64, 64), 5)
        step = SimpleNamespace(group="g", number=2, title="tiles", text="3 of 9 are kept")
        progress.stepped(cast("ProtocolStep", step))
    text = console.file.getvalue()
    assert "Which?" in text
    assert "bad: it spills" in text
    assert "good" not in text
    assert "sizes timed (12 points)" in text
    assert "g, step 2, tiles: 3 of 9 are kept" in text


def test_resuming_and_drawing_are_announced(console):
    with RunProgress(console) as progress:
        planned(progress)
        progress.resumed(7)
        progress.drawing()
    text = console.file.getvalue()
    assert "resuming: 7 finished variants are kept" in text
    assert "drawing the report" in text


def test_predicted_times_are_not_called_timed(console):
    with TuneProgress(console) as progress:
        progress.began(cast("Tuning", SimpleNamespace(question="Which?")), "There is no GPU.", measured=False)
        progress.timed((64, 64, 64), 7)
    assert "sizes predicted (7 points)" in console.file.getvalue()
    assert "timed" not in console.file.getvalue()


def test_ctrl_c_is_answered_at_once_and_the_handler_is_put_back(console, capfd):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), RunProgress(console):
            signal.raise_signal(signal.SIGINT)
        assert "stopping: what is finished is kept" in capfd.readouterr().err
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with RunProgress(console):
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
