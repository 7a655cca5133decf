"""Default services of a run, and the silent observer."""

from __future__ import annotations

from lab.base.executor import ProcessExecutor
from lab.gpu.process.localcards import LocalCards
from lab.runs.services import Services, draw_report
from lab.stages.build import build


def test_the_defaults_are_this_machine():
    services = Services()
    assert services.executor is ProcessExecutor
    assert services.build is build
    assert services.find_cards(measure=False) == ((), "Nothing was measured: --no-gpu was given.")
    assert services.cards is LocalCards


def test_the_report_is_drawn_from_the_records(make):
    store = make("no_gpu")
    pages = draw_report(store)
    assert pages[0] == store.folder / "index.html"
    assert pages[0].is_file()
