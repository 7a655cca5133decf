"""Charts of a whole space of variants."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from narrowing import as_

from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.measured.timing import Merit
from lab.recorded.run_records import EmulationRecord
from lab.report.charts import png, space, vega
from lab.report.charts.definition import Parallel, Relative, Scatter
from lab.report.charts.space import (
    MOST_LINES,
    front,
    parallel_chart,
    pareto_chart,
    roofline_chart,
    space_charts,
    speedup_chart,
    stairs,
)
from lab.report.facts.effects import factors
from lab.store.figures import response_of


def executed(record, fma, moved, **classes):
    memory = {"global.load": MemoryCount(requests=1, sectors=moved // 32, bytes_used=moved)}
    by_class = {"fma": fma, **classes}
    counts = ExecutedCounts(1, 1, by_class, by_class, {}, {}, memory)
    return replace(record, emulation=EmulationRecord({}, (), executed=counts))


def test_the_roof_meets_the_slope_and_points_have_their_own_intensity(analysed):
    a = analysed("sweep")
    records = [executed(r, 64 * (i + 1), 32) for i, r in enumerate(a.records[:3])]
    chart = roofline_chart(records, a.response)
    drawing = as_(Scatter, chart.choices[0].drawing)
    assert [row["x"] for row in drawing.data.rows] == [4, 8, 12]
    assert [row["y"] for row in drawing.data.rows] == [a.response.of(r) for r in records]
    slope, roof = drawing.traces
    assert slope.points[-1] == roof.points[0]
    assert list(roof.points[0]) == pytest.approx([66.9e3 / 4800, 66.9])
    low, high = slope.points[0], roof.points[-1]
    assert low[1] == pytest.approx(low[0] * 4.8)
    assert all(low[0] <= x <= high[0] for x in (4, 8, 12))
    least = as_(Scatter, chart.choices[1].drawing)
    one = records[0]
    assert {row["x"] for row in least.data.rows} == {round(one.flops / one.bytes_moved, 4)}


def test_points_that_cannot_be_told_apart_are_one_and_the_chart_says_so(analysed, monkeypatch):
    a = analysed("sweep")
    records = [executed(r, 64 * (i + 1), 32) for i, r in enumerate([a.records[0]] * 3 + [a.records[1]])]
    records[1] = replace(records[1], emulation=records[0].emulation)
    monkeypatch.setattr(space, "MOST_POINTS", 3)
    drawing = as_(Scatter, roofline_chart(records, a.response).choices[0].drawing)
    assert [row["x"] for row in drawing.data.rows] == [4, 12, 16]
    assert drawing.x.title.endswith("; 3 points for 4 variants")
    monkeypatch.setattr(space, "MOST_POINTS", 4)
    drawing = as_(Scatter, roofline_chart(records, a.response).choices[0].drawing)
    assert len(drawing.data.rows) == 4
    assert "points for" not in drawing.x.title


def test_tensor_cores_bytes_and_unknown_gpus_have_no_roofline(analysed):
    a = analysed("sweep")
    mma = [replace(executed(r, 32, 32, mma=8), bytes_moved=0) for r in a.records]
    assert roofline_chart(mma, a.response) is None
    assert roofline_chart(a.records, replace(a.response, unit=Merit.BANDWIDTH)) is None
    unknown = [replace(r, prediction=replace(r.prediction, gpu="X1")) for r in a.records]
    assert roofline_chart(unknown, a.response) is None
    assert roofline_chart(a.records[:1], a.response) is None


points = st.lists(st.tuples(st.integers(0, 9).map(float), st.integers(0, 9).map(float)), min_size=1)


@given(points)
def test_a_point_is_on_the_front_exactly_if_no_other_beats_it(given_points):
    edge = front(given_points)
    for x, y in given_points:
        beaten = any((a <= x and b > y) or (a < x and b >= y) for a, b in given_points)
        assert ((x, y) in edge) is not beaten
    assert list(edge) == sorted(edge)
    corners = stairs(edge)
    assert set(edge) <= set(corners)
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(corners))


def test_the_front_is_of_the_runs_own_figures(analysed):
    a = analysed("sweep")
    chart = pareto_chart(a.columns, a.rows, a.response)
    assert chart.choices[0].label == "registers"
    drawing = as_(Scatter, chart.choices[0].drawing)
    assert len(drawing.data.rows) == len(a.records)
    best = max(a.records, key=lambda record: record.throughput or 0)
    assert list(drawing.traces[0].points[-1]) == pytest.approx([best.build.resources.registers, best.throughput])
    cells = [{**row, "registers": 64, "shared_bytes": 0, "spill_bytes": 0} for row in a.rows]
    assert pareto_chart(a.columns, cells, a.response) is None


def test_ratios_are_over_the_first_variant_of_the_experiment(analysed):
    a = analysed("sweep")
    drawing = as_(Relative, speedup_chart(a.bars, a.records, a.response).choices[0].drawing)
    own = next(row for row in drawing.data.rows if row["variant"] == a.records[0].variant)
    assert (drawing.over, drawing.reference) == (own["name"], own["value"])
    spec = vega.spec_of(drawing)
    assert spec["params"] == [{"name": "reference", "value": own["value"]}]
    assert "datum.value / reference" in str(spec)
    assert speedup_chart(a.bars[:1], a.records, a.response) is None


def test_a_line_runs_through_its_parameters_in_the_order_of_their_values(analysed):
    a = analysed("sweep")
    axes = factors(a.run, a.records)
    drawing = as_(Parallel, parallel_chart(axes, a.records, a.response).choices[0].drawing)
    assert drawing.axes == (*(factor.name for factor in axes), "throughput")
    for number, factor in enumerate(axes):
        places = dict(drawing.ticks[number])
        assert sorted(places.values()) == list(places.values())
        values = [float(name) for name in places if name.isdigit()]
        assert values == sorted(values)
        for row in drawing.data.rows:
            record = a.records[row["record"]]
            if row["axis"] == factor.name:
                assert row["place"] == places[str(factor.of(record)).lower()]
    ends = {row["place"] for row in drawing.data.rows if row["axis"] == "throughput"}
    assert {0, 1} <= ends
    assert parallel_chart(axes[:1], a.records, a.response) is None
    assert parallel_chart(axes, a.records[:1], a.response) is None


def test_a_parameter_of_variants_without_a_figure_is_no_axis(analysed):
    a = analysed("sweep")
    axes = factors(a.run, a.records)
    lost = replace(axes[0], name="lost", parameter=True)
    with_it, without = (parallel_chart(one, a.records, a.response) for one in ([lost, *axes], axes))
    assert as_(Parallel, with_it.choices[0].drawing) == as_(Parallel, without.choices[0].drawing)


def test_many_variants_are_drawn_as_the_best_and_the_worst(analysed):
    a = analysed("sweep")
    many = [replace(r, variant=f"{r.variant}{i}") for i in range(20) for r in a.records]
    drawing = as_(Parallel, parallel_chart(factors(a.run, a.records), many, a.response).choices[0].drawing)
    assert len({row["record"] for row in drawing.data.rows}) == MOST_LINES


@pytest.mark.parametrize("what", ["sweep", "ladder", "no_gpu", "failures", "hostile"])
def test_every_chart_is_drawn_for_the_page_and_as_a_picture(analysed, what):
    a = analysed(what)
    made = space_charts(
        a.run, a.records, a.columns, a.rows, a.response, bars=a.bars, factors=factors(a.run, a.records)
    )  # fmt: skip
    for chart in made:
        for choice in chart.choices:
            assert vega.spec_of(choice.drawing)["width"] == "container"
            assert png._figure_of((choice.drawing,)).axes  # test_png.py paints them


def test_variants_of_several_problems_do_not_compete(analysed):
    a = analysed("sweep")
    records = tuple(replace(r, problem={**r.problem, "n": 64 * (i % 2 + 1)}) for i, r in enumerate(a.records))
    run = replace(a.run, problem_axes=("n",))
    made = space_charts(
        run, records, a.columns, a.rows, response_of(records), bars=a.bars, factors=factors(run, records)
    )  # fmt: skip
    assert {"speedup", "pareto"}.isdisjoint(chart.id for chart in made)
    assert space_charts(run, records[:1], a.columns, a.rows[:1], a.response, bars=a.bars[:1], factors=()) == ()
