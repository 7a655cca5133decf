"""Conditions, shades and text in chart definitions."""

from __future__ import annotations

import pytest

from lab.report.charts.definition import Axis, Bars, Colours, Data, Row, Scale, Shade

ROWS: tuple[Row, ...] = (
    {"status": "verified", "x": 1.0, "y": 2.0},
    {"status": "pruned", "x": 1.0, "y": 2.0},
    {"status": "inspected", "x": None, "y": 2.0},
    {"status": "inspected", "x": 0.0, "y": 3.0},
)


def test_rows_are_those_that_meet_every_condition():
    data = Data(ROWS, "records", {"status": ("verified", "inspected")}, ("x", "y"))
    assert data.rows == [ROWS[0], ROWS[3]]  # 0 is a value
    assert Data(ROWS).rows == list(ROWS)
    assert Data(ROWS, where={"status": ()}).rows == []


def test_a_value_without_a_shade_has_no_colour():
    colours = Colours("k", (Shade(True, "#000000"), Shade("x", "#ffffff", dashed=True)))
    assert colours.of("x") == "#ffffff"
    with pytest.raises(KeyError):
        colours.of("y")


@pytest.mark.parametrize(("ceilings", "least"), [(True, 30.0), (False, 12.0)])
def test_text_stands_on_bars_that_fill_a_third_of_the_axis(ceilings, least):
    rows: list[Row] = [{"name": "a", "value": 40.0, "ceiling": 100.0}, {"name": "b", "value": 20.0, "ceiling": None}]
    y = Axis("name", scale=Scale.CATEGORY, order=("a", "b"))
    bars = Bars(Data(rows), Axis("value"), y, Colours("group", ()), ceilings, ("a", "b"))
    assert bars.least_inside == pytest.approx(least)
