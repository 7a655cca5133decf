"""Drawings as PNGs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from narrowing import as_, known
from PIL import Image

from lab.measured.timing import Kind
from lab.report.charts import charts, png
from lab.report.charts.definition import Axis, Colours, Data, Lines, Means, Picture, Row, Scale, Scatter, Shade
from lab.report.charts.explain import explain_charts
from lab.report.facts.curve_explanation import FIGURES, CurveExplanation, ExplanatoryPoint
from lab.report.facts.curves import curve
from lab.report.gallery import chart_list, pictures
from lab.store.figures import response_of


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draw a picture; returns the figure and the file."""
    figures: list[Figure] = []
    save = png.save

    def keep(figure: Figure, path: Path, title: str) -> Path:
        figures.append(figure)
        return save(figure, path, title)

    monkeypatch.setattr(png, "save", keep)

    def draw(*drawings, title="t"):
        path = png.draw(Picture("x.png", title, drawings), tmp_path)
        return figures[-1], path

    return draw


def words(figure: Figure) -> list[str]:
    """Every text of a figure."""
    return [said for text in figure.findobj(Text) if (said := as_(Text, text).get_text())]


@pytest.mark.parametrize("share", [1, 4], ids=["as users get them", "a quarter of the pixels a side"])
def test_a_png_is_twelve_hundred_pixels_wide_with_a_small_palette(analysed, tmp_path, monkeypatch, share):
    a = analysed("sweep")
    every = pictures(a, chart_list(a))
    assert round(png.WIDTH * png.DPI) == 1200
    monkeypatch.setattr(png, "DPI", png.DPI // share)
    for picture in every[:2] if share == 1 else every:
        with Image.open(png.draw(picture, tmp_path)) as image:
            assert image.format == "PNG"
            assert image.width == round(png.WIDTH * png.DPI)
            assert image.mode == "P"


@pytest.mark.parametrize("what", ["hostile", "no_gpu", "failures", "ladder"])
def test_every_picture_of_a_run_can_be_drawn(painted_small, analysed, tmp_path, what):
    a = analysed(what)
    made = [png.draw(picture, tmp_path) for picture in pictures(a, chart_list(a))]
    wanted = {"mix.png"} if what == "hostile" else {"ratio_vs_throughput.png", "mix.png"}
    assert wanted <= {path.name for path in made}  # the hostile run has one figure for all
    assert all(path.stat().st_size > 500 for path in made)


def test_text_is_never_taken_for_mathematics(along_n, drawn):
    run, records = along_n
    axis_curve = known(curve(run, records, response_of(records)))
    chart = charts.curve_chart(axis_curve, response_of(records))
    figure, path = drawn(chart.choices[1].drawing, title=r"curve of $\frac{1}{$")
    assert path.stat().st_size > 5000
    assert r"curve of \$\frac{1}{\$" in words(figure)
    assert "n (problem)" in words(figure)


def test_the_strip_is_coloured_by_the_fastest_kernel(along_n, drawn):
    run, records = along_n
    axis_curve = known(curve(run, records, response_of(records)))
    drawing = charts.curve_chart(axis_curve, response_of(records)).choices[0].drawing
    figure, _ = drawn(drawing)
    strip = figure.axes[1]
    assert [patch.get_facecolor() for patch in strip.patches][1:] == [strip.patches[1].get_facecolor()] * 2
    assert strip.patches[0].get_facecolor() != strip.patches[1].get_facecolor()


def test_lines_can_be_drawn_over_categories_and_with_dots(analysed, along_n, drawn):
    a = analysed("sweep")
    figure, _ = drawn(charts.interaction_chart(a.interaction, a.response).choices[0].drawing)
    assert a.interaction.first in words(figure)
    assert len(figure.axes[0].lines) == len({cell[1] for cell in a.interaction.cells})
    run, records = along_n
    axis_curve = known(curve(run, records, response_of(records)))
    points = tuple(
        ExplanatoryPoint(p.x, p.name, "occupancy", kind, 0.5, p.variant)
        for p in axis_curve.points
        if p.variant
        for kind in (Kind.PREDICTED, Kind.MEASURED)
    )
    explanation = CurveExplanation(tuple(f for f in FIGURES if f.id == "occupancy"), {}, points, ())
    figure, _ = drawn(explain_charts(explanation, axis_curve)[0].choices[0].drawing)
    assert len(figure.axes[0].lines) == len(figure.axes[0].collections) == 2


def test_the_model_stands_side_by_side_on_equal_axes(estimated, drawn):
    a = estimated
    scatter = as_(Scatter, charts.model_chart(a.columns, a.rows, a.agreements, a.response).choices[0].drawing)
    figure, _ = drawn(scatter, scatter)
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert axes.get_xlim() == axes.get_ylim()
        assert axes.get_title() == scatter.caption
        assert len(axes.collections[0].get_offsets()) == len(scatter.data.rows)


def test_a_value_that_is_missing_leaves_a_gap(drawn):
    rows: list[Row] = [{"x": 1.0, "y": 2.0, "k": "a"}, {"x": 2.0, "y": None, "k": "a"}]
    drawing = Lines(Data(rows), Axis("x"), Axis("y"), Colours("k", (Shade("a", "#000000"), Shade("none", "#ffffff"))))
    figure, _ = drawn(drawing)
    (line,) = figure.axes[0].lines  # a value without rows has no line
    assert str(line.get_ydata()[1]) == "nan"


def test_groups_are_matched_as_experiment_files_write_values(drawn):
    rows = [{"x": 1.0, "y": 2.0, "wide": True}, {"x": 2.0, "y": 3.0, "wide": False}]
    colours = Colours("wide", (Shade(True, "#000000"), Shade(False, "#0072b2")), "wide")
    figure, _ = drawn(Scatter(Data(rows), Axis("x"), Axis("y"), "#0072b2", colours))
    assert [len(points.get_offsets()) for points in figure.axes[0].collections] == [1, 1]
    assert {"wide", "true", "false"} <= set(words(figure))


def test_long_names_are_cut_and_many_stand_upright(analysed, drawn):
    a = analysed("sweep")
    made = charts.effect_charts(a.effects, {column.name: column for column in a.columns}, a.rows, a.response)
    drawing = as_(Means, made[0].choices[0].drawing)
    order = tuple(f"a value with a long name {i}" for i, _ in enumerate(drawing.x.order))
    figure, _ = drawn(*[replace(cast("Any", drawing), x=Axis("value", scale=Scale.CATEGORY, order=order))] * 4)
    labels = figure.axes[0].get_xticklabels()
    assert {label.get_rotation() for label in labels} == {90.0}
    assert all(len(label.get_text()) <= 20 for label in labels)
