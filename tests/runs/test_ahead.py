"""The process that draws a run's report: what it gets ready, that it draws, and what happens when it is lost."""

from __future__ import annotations

import os
import signal

import pytest

from lab.base import workers
from lab.base.errors import StoreError
from lab.runs import ahead
from lab.runs.ahead import ReportProcess
from lab.runs.services import draw_report


def draw_there(folder):
    return (folder / "there",)


def draw_here(store):
    return (store.folder / "here",)


def end(folder):
    os.kill(os.getpid(), signal.SIGKILL)


def missing(folder):
    raise StoreError(f"{folder} cannot be written")


@pytest.fixture
def process(monkeypatch):
    monkeypatch.setattr(ahead, "get_ready", os.getpid)  # what it imports takes seconds
    with ReportProcess() as made:
        yield made


def test_a_report_of_the_usual_kind_gets_a_process_and_any_other_is_drawn_here(monkeypatch, make):
    monkeypatch.setattr(ahead, "ReportProcess", ReportProcess)  # which other tests do without
    assert isinstance(ahead.drawer(draw_report), ReportProcess)
    store = make("no_gpu")
    with ahead.drawer(draw_here) as drawn:
        drawn.begin()
        assert drawn(store) == (store.folder / "here",)


def test_the_process_draws_what_is_in_the_folder(process, make, monkeypatch):
    monkeypatch.setattr(ahead, "draw", draw_there)
    monkeypatch.setattr(ahead, "draw_report", None)  # it is not called in this process
    store = make("no_gpu")
    process.begin()
    process.begin()
    assert process(store) == (store.folder / "there",)


def test_a_process_that_is_killed_leaves_the_drawing_to_this_one(process, make, monkeypatch):
    monkeypatch.setattr(ahead, "draw", end)
    monkeypatch.setattr(ahead, "draw_report", draw_here)
    store = make("no_gpu")
    process.begin()
    assert process(store) == draw_here(store)


def test_an_error_of_the_report_is_the_run_s(process, make, monkeypatch):
    monkeypatch.setattr(ahead, "draw", missing)
    process.begin()
    with pytest.raises(StoreError, match="cannot be written"):
        process(make("no_gpu"))


def test_without_a_first_record_nothing_was_started(process, make, monkeypatch):
    monkeypatch.setattr(ahead, "draw_report", draw_here)
    store = make("no_gpu")
    assert process(store) == draw_here(store)


def test_getting_ready_tells_the_server_of_painters_what_to_import(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    served: list[object] = []
    monkeypatch.setattr(workers, "_served", workers._served)
    monkeypatch.setattr(workers, "context", lambda: served.append(tuple(workers._served)))
    monkeypatch.setattr("lab.report.page.page.vega", lambda: served.append("vega"))
    ahead.get_ready()
    assert served == [ahead.PAINTERS, "vega"]


def test_a_folder_is_drawn_while_its_run_is_open(make):
    store = make("no_gpu")
    assert ahead.draw(store.folder)[0] == store.folder / "index.html"
