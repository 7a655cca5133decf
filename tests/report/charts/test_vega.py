"""Vega-Lite specifications of drawings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from altair.utils.schemapi import SchemaValidationError, debug_mode
from narrowing import as_

from lab.report.charts import vega
from lab.report.charts.definition import (
    Axis,
    Bars,
    Chart,
    Choice,
    Colours,
    Data,
    Label,
    Lines,
    Reference,
    Row,
    Scale,
    Scatter,
    Shade,
    Tip,
)
from lab.report.gallery import chart_list

HOSTILE = "it's </script> datum.x"
ROWS: list[Row] = [{"x": float(i), "y": float(i), "k": HOSTILE, "best": i == 1} for i in range(3)]


def every(value: Any, key: str) -> list[Any]:
    """Every value of a key, however deep."""
    if isinstance(value, dict):
        return [v for name, v in value.items() if name == key] + [x for v in value.values() for x in every(v, key)]
    return [x for v in value for x in every(v, key)] if isinstance(value, list) else []


def scatter(data: Data, **options: Any) -> vega.Spec:
    return vega.spec_of(Scatter(data, Axis("x", zero=False), Axis("y", "y (ms, measured)"), "#0072b2", **options))


def lines(**options: Any) -> vega.Spec:
    colours = Colours("k", (Shade(HOSTILE, "#123456"), Shade("base", "#000000", dashed=True)))
    return vega.spec_of(Lines(Data(ROWS, "curve"), Axis("x"), Axis("y"), colours, **options))


def test_rows_of_a_dataset_are_named_and_picked_by_its_conditions():
    spec = scatter(Data(ROWS, "records", {"k": (HOSTILE, "other")}, ("x", "y")))
    assert every(spec, "data") == [{"name": "records"}]
    tests = spec["layer"][0]["transform"][0]["filter"]["and"]
    assert tests == [{"field": "k", "oneOf": [HOSTILE, "other"]}, "isValid(datum.x)", "isValid(datum.y)"]


def test_rows_without_a_dataset_are_in_the_specification():
    assert list(scatter(Data(ROWS))["datasets"].values()) == [ROWS]
    assert "transform" not in json.dumps(scatter(Data(ROWS, "records")))


def test_users_text_is_a_value_and_never_an_expression():
    spec = lines(strip=("best", HOSTILE), tips=(Tip("k", HOSTILE),))
    expressions = [*every(spec, "filter"), *every(spec, "expr"), *every(spec, "calculate")]
    assert expressions
    assert HOSTILE not in json.dumps(expressions)
    assert HOSTILE in every(spec, "title")


def test_a_baseline_is_a_dashed_line_beside_its_text():
    spec = scatter(Data(ROWS, "records"), reference=Reference(51.7, "cublas 51.7"))
    assert [{"y": 51.7, "text": "cublas 51.7"}] in spec["datasets"].values()
    assert [5, 4] in every(spec, "strokeDash")


def test_labels_stand_on_the_inner_side_of_their_points():
    spec = scatter(Data(ROWS, "records"), labels=(Label(0.0, 1.0, "left"), Label(2.0, 1.0, "right")))
    texts = [layer for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    shown = [(layer["mark"]["align"], spec["datasets"][layer["data"]["name"]][0]["text"]) for layer in texts]
    assert shown == [("left", "left"), ("right", "right")]


def test_a_strip_below_the_lines_shows_the_chosen_rows():
    plain, strip = lines(), lines(strip=("best", "fastest kernel"))
    assert "vconcat" not in plain
    above, below = strip["vconcat"]
    assert above["encoding"]["strokeDash"]["scale"]["range"] == [[1, 0], [5, 4]]
    assert below["transform"][-1]["filter"] == {"field": "best", "equal": True}
    assert below["mark"]["type"] == "tick"


def test_dots_and_lines_share_no_row():
    of_lines, of_dots = lines(dots=("k", "measured"))["layer"]
    chosen = of_dots["transform"][-1]["filter"]
    assert of_lines["transform"][-1]["filter"] == {"not": chosen}
    assert (of_lines["mark"]["type"], of_dots["mark"]["type"]) == ("line", "point")


def test_a_wide_axis_is_logarithmic():
    colours = Colours("k", (Shade(HOSTILE, "#123456"),))
    spec = vega.spec_of(Lines(Data(ROWS, "curve"), Axis("x", scale=Scale.LOG2), Axis("y"), colours))
    assert spec["encoding"]["x"]["scale"] == {"type": "log", "base": 2}


def test_a_chart_keeps_its_id_label_and_choices():
    drawing = Scatter(Data(ROWS, "records"), Axis("x"), Axis("y"), "#0072b2")
    drawn = vega.draw(Chart("ratio", "a against b", (Choice("first", drawing), Choice("second", drawing))))
    assert (drawn.id, drawn.label, [choice.label for choice in drawn.choices]) == (
        "ratio",
        "a against b",
        ["first", "second"],
    )
    assert drawn.choices[0].spec["width"] == "container"
    assert "$schema" not in drawn.choices[0].spec


@pytest.mark.parametrize("what", ["sweep", "ladder", "no_gpu", "hostile"])
def test_every_chart_of_a_run_can_be_drawn_from_fields_alone(analysed, what):
    for chart in chart_list(analysed(what)):
        for choice in vega.draw(chart).choices:
            assert json.dumps(choice.spec, allow_nan=False)
            assert all(name.replace("_", "").isalnum() for name in every(choice.spec, "field"))


def test_parts_are_checked_here_and_the_same_unchecked(analysed, monkeypatch):
    charts = [chart for chart in chart_list(analysed("sweep")) if chart.id in ("bars", "parallel", "effect-0")]
    checked = [vega.draw(chart) for chart in charts]
    with pytest.raises(SchemaValidationError):
        vega.alt.Scale(type="no scale")
    monkeypatch.setattr(vega, "debug_mode", debug_mode)
    assert [vega.draw(chart) for chart in charts] == checked


def test_text_on_short_bars_stands_beside_them(analysed):
    (bars,) = (chart for chart in chart_list(analysed("ladder")) if chart.id == "bars")
    drawing = as_(Bars, bars.choices[0].drawing)
    spec = vega.spec_of(drawing)
    filters = [layer["transform"][0]["filter"] for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    limit = {"field": "value", "gt": drawing.least_inside}
    assert filters == [limit, {"not": limit}]
