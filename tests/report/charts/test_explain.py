"""The definitions of the charts that explain a curve."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from narrowing import as_, known

from lab.measured.timing import Kind
from lab.report.charts.charts import curve_chart
from lab.report.charts.definition import Lines, Ticks
from lab.report.charts.explain import explain_charts, explained_rows
from lab.report.facts.curve_explanation import FIGURES, CurveExplanation, ExplanatoryPoint
from lab.report.facts.curves import Curve, curve
from lab.store.figures import Response, response_of

PREDICTED, MEASURED = Kind.PREDICTED, Kind.MEASURED


@pytest.fixture
def found(along_n) -> tuple[Curve, Response]:
    run, records = along_n
    response = response_of(records)
    return known(curve(run, records, response)), response


def explanation(found: Curve, figures: Sequence[str]) -> CurveExplanation:
    """Each figure predicted and measured at every point of a kernel."""
    points = tuple(
        ExplanatoryPoint(point.x, point.name, figure, kind, value, point.variant)
        for point in found.points
        if point.variant
        for figure in figures
        for kind, value in ((PREDICTED, 0.5), (MEASURED, 0.25))
    )
    return CurveExplanation(tuple(figure for figure in FIGURES if figure.id in figures), {}, points, ())


def test_there_is_a_chart_for_each_figure_with_the_curves_choices_and_colours(found):
    along, response = found
    made = explain_charts(explanation(along, ["bytes", "occupancy"]), along)
    assert [chart.id for chart in made] == ["explain-bytes", "explain-occupancy"]
    of_curve = {s.value: s.colour for s in as_(Lines, curve_chart(along, response).choices[0].drawing).colours.shades}
    for chart, ticks in zip(made, (Ticks.RATIO, Ticks.PERCENT), strict=True):
        assert [choice.label for choice in chart.choices] == list(along.parts)
        for choice in chart.choices:
            drawing = choice.drawing
            assert isinstance(drawing, Lines)
            assert drawing.y.ticks is ticks
            assert {s.value: s.colour for s in drawing.colours.shades}.items() <= of_curve.items()
            assert {row["part"] for row in drawing.data.rows} == {choice.label}
            assert {row["figure"] for row in drawing.data.rows} == {chart.id.removeprefix("explain-")}


def test_measured_figures_are_dots(found):
    along, _ = found
    drawing = as_(Lines, explain_charts(explanation(along, ["occupancy"]), along)[0].choices[0].drawing)
    name, value = known(drawing.dots)
    assert [row["value"] for row in drawing.data.rows if row[name] == value] == [0.25] * 6
    assert [row["value"] for row in drawing.data.rows if row[name] != value] == [0.5] * 6


def test_a_row_stands_at_the_point_of_its_variant(found):
    along, _ = found
    by_variant = {point.variant: point for point in along.points}
    made = explanation(along, ["bytes"])
    for row, point in zip(explained_rows(made, along), made.points, strict=True):
        place = by_variant[point.variant]
        assert (row["x"], row["name"], row["part"], row["label"]) == (place.x, place.name, place.part, place.label)
