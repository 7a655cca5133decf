"""The best variants and the worst, as text and in a notebook."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from lab.recorded.run_records import Status
from lab.runs.shortlist import BEST, as_html, as_text, shortlist, variants_beginning


class Cells(HTMLParser):
    """Collects the text of a table's cells, and refuses tags that the table does not need."""

    def __init__(self, text):
        super().__init__()
        self.cells = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        assert tag in ("div", "p", "b", "br", "table", "thead", "tbody", "tr", "th", "td")
        assert {name for name, _ in attrs} <= {"colspan"}
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


@pytest.fixture
def measured(make):
    return make("sweep")


def test_the_best_stand_first_and_the_worst_is_shown(measured):
    run, records = measured.run(), measured.records()
    listed = shortlist(run, records)
    figures = [record.throughput for record in records]
    assert [one.figure for one in listed.best] == sorted(figures, reverse=True)[:BEST]
    assert listed.best[0].ratio == 1
    assert listed.worst.figure == min(figures)
    text = as_text(listed, "out/index.html")
    assert listed.best[0].variant in text
    assert text.endswith("report: out/index.html")
    assert len(text.splitlines()) <= 5


def test_variants_that_are_tied_are_not_called_best(measured):
    run, (first, second, *_) = measured.run(), measured.records()
    same = replace(second, measurement=first.measurement, flops=first.flops)
    text = as_text(shortlist(run, (first, same)), "p")
    assert "2 variants cannot be told apart" in text
    assert "best:" not in text


def test_a_table_escapes_what_users_wrote(measured):
    run, records = measured.run(), measured.records()
    bad = "<script>alert(1)</script>&"
    listed = shortlist(replace(run, question=bad), (replace(records[0], kernel=bad), *records[1:]))
    table = as_html(listed, bad)
    assert "<script>" not in table
    assert len(Cells(table).cells) == 7 * (len(listed.lines) + 1) + 1


def test_a_suspect_variant_is_counted_by_its_verdict_and_comes_behind_the_others(measured):
    run, (first, *others) = measured.run(), measured.records()
    suspect = replace(first, status=Status.SUSPECT, reason="why")
    listed = shortlist(run, (suspect, *others))
    assert "1 suspect" in listed.heading
    assert suspect.variant not in {line.variant for line in listed.lines}
    bare = {"measurement": None, "prediction": None, "estimate": None, "emulation": None}
    nothing = (replace(suspect, **bare), *(replace(one, status=Status.INSPECTED, **bare) for one in others[:2]))
    assert [one.status for one in shortlist(run, nothing).best] == [Status.INSPECTED, Status.INSPECTED, Status.SUSPECT]


def test_a_run_in_which_everything_failed_has_a_list_without_figures(measured):
    run, records = measured.run(), measured.records()
    failed = tuple(replace(record, status=Status.COMPILE_FAILED, build=None, prediction=None) for record in records)
    listed = shortlist(run, failed)
    assert listed.worst is None
    assert all(line.figure is None for line in listed.lines)
    assert "failed" in listed.heading
    assert "compile failed" in as_text(listed, "p")
    assert "compile failed" in as_html(listed, "p")
    assert as_text(shortlist(run, ()), "p").endswith("report: p")


def test_ids_are_found_by_their_beginning(measured):
    records = measured.records()
    assert variants_beginning(records, records[0].variant[:6]) == (records[0],)
