"""The report's summary of a search."""

from __future__ import annotations

from dataclasses import replace

import pytest
from written_runs import run_record, sweep

from lab.recorded.run_records import SearchRecord, Status
from lab.report.charts.charts import search_chart
from lab.report.facts.answer import searched
from lab.report.facts.searching import BEST, LUCKY, MEASURED, PREDICTED, RANDOM, search_path
from lab.store.figures import response_of


@pytest.fixture
def made():
    records = [record for record, _ in sweep(measured=True)]
    records = [record for record in records if record.measurement and record.status is Status.VERIFIED]
    tried, rest = records[:-3], [replace(one, measurement=None, verification=None) for one in records[-3:]]
    order = tuple(one.variant for one in reversed(tried))
    search = SearchRecord(100, len(records), 0, (len(records), *[1] * len(order)), "surrogate", len(records), order,
                          ("The search ended: enough.",))  # fmt: skip
    run = replace(run_record("e", ("unroll",), len(records), measured=True), search=search)
    return run, (*tried, *rest), order


def test_the_best_so_far_never_falls_and_ends_at_the_best(made):
    run, records, order = made
    response = response_of(records)
    path = search_path(run, records, response)
    best = [point.value for point in path.points if point.line == BEST]
    assert len(best) == len(order)
    assert best == sorted(best)
    assert best[-1] == max(value for record in records if (value := response.of(record)))
    dots = [point for point in path.points if point.line == MEASURED]
    assert [point.variant for point in dots] == list(order)
    assert [point.n for point in dots] == list(range(1, len(order) + 1))


def test_chance_is_told_where_every_variant_has_a_figure(made):
    run, records, order = made
    path = search_path(run, records, response_of(records))
    assert {PREDICTED, RANDOM, LUCKY} <= set(path.lines)
    middle, lucky = ([point.value for point in path.points if point.line == line] for line in (RANDOM, LUCKY))
    assert len(middle) == len(lucky) == len(order)
    assert middle == sorted(middle)
    assert all(one <= other for one, other in zip(middle, lucky, strict=True))
    only = tuple(record for record in records if record.variant in order)
    told = search_path(run, only, response_of(only))
    assert not {RANDOM, LUCKY} & set(told.lines)


def test_a_run_without_a_strategy_has_no_path(made):
    run, records, _ = made
    response = response_of(records)
    assert search_path(replace(run, search=None), records, response) is None
    assert search_path(replace(run, search=SearchRecord(9, 9, 0, (9,))), records, response) is None
    bare = tuple(replace(record, measurement=None) for record in records)
    assert search_path(run, bare, response_of(bare)) is None


def test_the_chart_has_a_colour_for_every_line(made):
    run, records, _ = made
    response = response_of(records)
    path = search_path(run, records, response)
    assert path is not None
    chart = search_chart(path, response)
    (choice,) = chart.choices
    assert {shade.value for shade in choice.drawing.colours.shades} == {row["line"] for row in choice.drawing.data.rows}


def test_the_page_says_what_a_strategy_did(made):
    run, records, order = made
    text = searched(run.search, records)
    assert f"tried {len(order)}, in {len(order)} rounds" in text
    assert text.endswith("The search ended: enough.")
