"""Values and progress in notebooks."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html import unescape
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from live_support import Clock, begin, build

import lab
from lab.cli import notebook
from lab.cli.notebook import NotebookProgress
from lab.recorded.run_records import Status
from lab.runs.compare import compare_folders

SOURCE = """extern "C" __global__ void twice(float* y, const float* x) {
    y[threadIdx.x] = 2 * x[threadIdx.x];
}
"""


def text_of(value) -> str:
    """Return what a notebook shows, without its markup."""
    html = value._repr_html_()
    assert html.startswith("<pre ")
    return unescape(re.sub("<[^>]+>", "", html))


def test_a_variant_shows_its_verdict_and_its_figure_with_kind_and_gpu(make):
    records = make("no_gpu").records()
    text = text_of(records[0])
    assert records[0].variant in text
    assert str(records[0].status) in text
    assert f"(predicted for {records[0].prediction.gpu})" in text
    assert f"{records[0].build.resources.registers} registers" in text
    measured = text_of(make("sweep").records()[0])
    assert "(measured)" in measured


def test_a_wrong_variant_shows_why(make):
    record = replace(make("sweep").records()[0], status=Status.WRONG, reason="y[3] is <b>wrong</b>")
    assert "wrong: y[3] is <b>wrong</b>" in text_of(record)


def test_an_inspection_shows_its_listings_and_findings():
    text = text_of(lab.inspect(SOURCE))
    assert "ld.global.f32" in text
    assert "performance findings" in text


def test_an_emulation_shows_counts_and_traffic():
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    text = text_of(lab.emulate(SOURCE, [y, x]))
    assert "no faults were found" in text
    assert re.search(r"global\.load +1 +4\.00 +128", text)


def test_a_comparison_shows_the_answer(make):
    folder = str(make("sweep").folder)
    assert "B against A, " in text_of(compare_folders(folder, folder))


def test_progress_is_drawn_below_the_cell_at_most_twice_a_second(make):
    record, clock, pages = make("no_gpu").records()[0], Clock(), list[str]()
    progress: Any = NotebookProgress(pages.append, clock)
    with progress:
        begin(progress, 4)
        build(progress, record)
        progress.recorded(record)
        assert len(pages) == 1
        clock.now += 1
        progress.executed(record)
        assert "best: " in pages[-1]
        assert "1/4" in pages[-1]
    assert len(pages) == 3
    assert "best: " not in pages[-1]
    with pytest.raises(AttributeError):
        _ = progress.unknown


def test_only_a_notebook_has_progress_below_a_cell(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert notebook.progress() is None
    terminal = SimpleNamespace(get_ipython=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert notebook.progress() is None

    class ZMQInteractiveShell: ...

    updates = list[object]()
    cell = SimpleNamespace(update=updates.append)
    shown = SimpleNamespace(HTML=str, display=lambda html, display_id: cell)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    with notebook.progress() or pytest.fail("there is a notebook"):
        pass
    assert len(updates) == 1
