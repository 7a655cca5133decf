"""The roofline of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from narrowing import as_

from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.measured.timing import Merit
from lab.recorded.run_records import EmulationRecord
from lab.report.charts import png, roofline, vega
from lab.report.charts.definition import Scatter
from lab.report.charts.roofline import roofline_chart


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
    assert len(chart.choices) == 1  # the least traffic of the problem is the same for all
    sizes = [replace(record, bytes_moved=1000 * (1 + place)) for place, record in enumerate(records)]
    least = as_(Scatter, roofline_chart(sizes, a.response).choices[1].drawing)
    assert [row["x"] for row in least.data.rows] == [round(r.flops / r.bytes_moved, 4) for r in sizes]


def test_points_that_cannot_be_told_apart_are_one_and_the_chart_says_so(analysed, monkeypatch):
    a = analysed("sweep")
    records = [executed(r, 64 * (i + 1), 32) for i, r in enumerate([a.records[0]] * 3 + [a.records[1]])]
    records[1] = replace(records[1], emulation=records[0].emulation)
    monkeypatch.setattr(roofline, "MOST_POINTS", 3)
    drawing = as_(Scatter, roofline_chart(records, a.response).choices[0].drawing)
    assert [row["x"] for row in drawing.data.rows] == [4, 12, 16]
    assert drawing.x.title.endswith("; 3 points for 4 variants")
    monkeypatch.setattr(roofline, "MOST_POINTS", 4)
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


def test_points_of_one_intensity_are_no_roofline(analysed):
    a = analysed("sweep")
    same = [replace(record, bytes_moved=a.records[0].bytes_moved, emulation=None) for record in a.records]
    assert roofline_chart(same, a.response) is None
    assert roofline_chart(same[:1], a.response) is None


@pytest.mark.parametrize("what", ["sweep", "ladder", "no_gpu"])
def test_it_is_drawn_for_the_page_and_as_a_picture(analysed, what):
    a = analysed(what)
    records = [replace(record, bytes_moved=1000 * (1 + place)) for place, record in enumerate(a.records)]
    for choice in roofline_chart(records, a.response).choices:
        assert vega.spec_of(choice.drawing)["width"] == "container"
        assert png._figure_of((choice.drawing,)).axes  # test_png.py paints them
