"""Draw charts for the page: their definitions as Vega-Lite specifications, made with Altair.

Rows come from the page's named datasets where there are any, so that a record is on the page once. Colours that depend
on the light or dark theme are left to the page's configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Final

import altair as typed  # noqa: ICN001 - `alt` is its untyped name, below
from altair.utils.schemapi import debug_mode

from lab.report.charts import style
from lab.report.charts.definition import (
    Axis,
    Bars,
    Chart,
    Colours,
    Data,
    Drawing,
    Label,
    Lines,
    Means,
    Reference,
    Scale,
    Scatter,
    Stacks,
    Ticks,
    Tip,
    Trace,
)

Spec = dict[str, Any]
Part = Any
"""An Altair object; its classes share no base that types well."""
alt: Any = typed  # its annotations refuse values that are only known at run time
ROW_HEIGHT: Final = 22
"""Height of a bar with the gap below it, in pixels."""
LOW_ROW: Final = 15
"""The same in a chart of more than `MANY_ROWS`."""
MANY_ROWS: Final = 20
_DASH: Final = [5, 4]
_SHORT_NAMES: Final = "containerSize()[0] < 640 ? replace(datum.label, regexp('[^ =]+=', 'g'), '') : datum.label"
"""Names beside a narrow chart: a sweep's variants keep the values alone, `8 true 4`."""
_ROWS: Final = alt.Axis(ticks=False, domain=False, labelExpr=_SHORT_NAMES)
_FORMATS: Final = {Ticks.RATIO: ".3~f", Ticks.PERCENT: ".1~%", Ticks.COUNT: "~s"}


@dataclass(frozen=True, slots=True)
class PageChoice:
    """One view of a chart of the page.

    Attributes:
        label: Its name on the chart's switch.
        spec: Its Vega-Lite specification.
    """

    label: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class PageChart:
    """A chart in the form the page's script reads.

    Attributes:
        id: HTML id.
        label: Description for screen readers.
        choices: One or more; several get a switch.
    """

    id: str
    label: str
    choices: tuple[PageChoice, ...]


def draw(chart: Chart) -> PageChart:
    """Return a chart with a specification for each of its choices."""
    return PageChart(chart.id, chart.label, tuple(PageChoice(c.label, spec_of(c.drawing)) for c in chart.choices))


def spec_of(drawing: Drawing) -> Spec:
    """Return the Vega-Lite specification of a drawing, as wide as its box.

    Altair does not check parts against its schema, which takes a third of the time; the tests do so for every chart.
    It does not see the rows either, which it would copy at each step.
    """
    rows: _Rows = []
    token = _ROWS_OF.set(rows)
    try:
        with debug_mode(False):  # noqa: FBT003 - Altair takes it by position
            spec: Spec = _chart(drawing).to_dict(validate=False)
    finally:
        _ROWS_OF.reset(token)
    for key in ("$schema", "config"):
        spec.pop(key, None)
    if rows:
        spec["datasets"] = {_name(place): own_rows for place, own_rows in enumerate(rows)}
    return spec


_Rows = list[list[dict[str, Any]]]
_ROWS_OF: Final[ContextVar[_Rows]] = ContextVar("_ROWS_OF")
"""Inline rows of the chart being drawn."""


def _name(place: int) -> str:
    return f"own rows {place}"


def _own(rows: Sequence[Mapping[str, Any]]) -> Part:
    """Return a chart of rows that no dataset of the page holds; `spec_of` inserts them."""
    own_datasets = _ROWS_OF.get()
    own_datasets.append([dict(row) for row in rows])
    return alt.Chart(alt.NamedData(_name(len(own_datasets) - 1)))


@singledispatch
def _chart(drawing: object) -> Part:
    raise TypeError(f"A {type(drawing).__name__} cannot be drawn.")


def _fill(chart: Part, height: int) -> Part:
    """Set the size of a chart that nothing else holds: `properties` would copy all of it."""
    chart.width, chart.height = "container", height
    return chart


def _base(data: Data) -> Part:
    """Return a chart of a definition's rows; those of a dataset are filtered by the conditions of `Data.rows`."""
    if not data.dataset:
        return _own(data.rows)
    # users' text, which an expression would interpret, is only ever a value here; a `valid` predicate refuses all text
    tests: list[object] = [{"field": name, "oneOf": list(values)} for name, values in data.where.items()]
    tests += [f"isValid(datum.{name})" for name in data.known]
    chart = alt.Chart(alt.NamedData(data.dataset))
    return chart.transform_filter({"and": tests}) if tests else chart


def _scale(axis: Axis) -> Part:
    if axis.scale is Scale.CATEGORY:
        return alt.Scale(domain=list(axis.order))
    if axis.scale is Scale.LOG2:
        return alt.Scale(type="log", base=2)
    if axis.domain:
        return alt.Scale(domain=list(axis.domain), zero=axis.zero, nice=False)
    return alt.Scale(zero=axis.zero)


def _encoding(channel: Part, axis: Axis, **options: object) -> Part:
    """Return an axis as Altair's channel X or Y; the options go to its ticks."""
    kind = "nominal" if axis.scale is Scale.CATEGORY else "quantitative"
    if form := _FORMATS.get(axis.ticks):
        options = {"format": form, **options}
    axis_option = {"axis": alt.Axis(**options)} if options else {}
    return channel(field=axis.field, type=kind, title=axis.title or None, scale=_scale(axis), **axis_option)


def _height(axis: Axis) -> int:
    rows = len(axis.order)
    return (LOW_ROW if rows > MANY_ROWS else ROW_HEIGHT) * rows


def _rows(axis: Axis) -> Part:
    return alt.Y(field=axis.field, type="nominal", scale=_scale(axis), title=axis.title or None, axis=_ROWS)


def _colour(colours: Colours) -> Part:
    scale = alt.Scale(
        domain=[shade.value for shade in colours.shades], range=[shade.colour for shade in colours.shades]
    )
    columns = 1 if any(shade.note for shade in colours.shades) else 2  # on a phone, whose width one row would exceed
    beside = alt.ExprRef(f"containerSize()[0] < 640 ? {columns} : 0")
    legend = alt.Legend(orient="top", title=colours.title or None, columns=beside, **_notes(colours))
    return alt.Color(field=colours.field, type="nominal", scale=scale, legend=legend if colours.legend else None)


def _notes(colours: Colours) -> dict[str, Any]:
    """Return the options of a legend whose values have notes behind them; the texts are looked up, not interpreted."""
    if not any(shade.note for shade in colours.shades):
        return {}
    notes = [f": {shade.note}" if shade.note else "" for shade in colours.shades]
    return {"labelExpr": f"datum.label + {json.dumps(notes)}[datum.index]", "labelLimit": 320}


def _tooltip(tips: Sequence[Tip]) -> list[Part]:
    return [
        alt.Tooltip(field=tip.field, type="quantitative", title=tip.title, format=tip.format)
        if tip.format
        else alt.Tooltip(field=tip.field, type="nominal", title=tip.title)
        for tip in tips
    ]


@_chart.register
def _scatter(drawing: Scatter) -> Part:
    base = _base(drawing.data)
    if drawing.diagonal:
        x_axis, y_axis = _encoding(alt.X, drawing.x), _encoding(alt.Y, drawing.y)
    else:
        # equal ratios need one tick, not eight that read alike
        x_axis = _encoding(alt.X, drawing.x, tickCount=8, tickMinStep=0.001)
        if drawing.x.scale is Scale.LINEAR:
            x_axis.scale = alt.Scale(zero=drawing.x.zero, nice=False, padding=14)
        y_axis = _encoding(alt.Y, drawing.y)
    colour = _colour(drawing.colours) if drawing.colours else alt.value(drawing.colour)
    layers: list[Part] = []
    if drawing.diagonal:
        layers.append(_diagonal(drawing).encode(x=x_axis, y=y_axis))
    if drawing.reference:
        layers += _reference(drawing.reference)
    for trace in drawing.traces:
        layers += _trace(trace)
    if drawing.joined:
        layers.append(_joined(drawing.joined))
    if drawing.span:
        low, high = drawing.span
        y_low = alt.Y(field=low, type="quantitative")
        layers.append(base.mark_rule(opacity=0.5).encode(x=x_axis, y=y_low, y2=alt.Y2(field=high), color=colour))
    size = 60 if drawing.diagonal else 95
    points = base.mark_circle(size=size, opacity=0.7 if drawing.diagonal else 0.85, cursor="pointer")
    layers.append(points.encode(x=x_axis, y=y_axis, color=colour, tooltip=_tooltip(drawing.tips)))
    if drawing.valued:
        values = base.mark_text(align="left", dx=5, dy=8, fontSize=9)
        layers.append(values.encode(x=x_axis, y=y_axis, text=alt.Text(field=drawing.valued, type="nominal")))
    return _fill(alt.layer(*layers, *_beside(drawing.labels)), 380)


def _diagonal(drawing: Scatter) -> Part:
    ends = [{drawing.x.field: end, drawing.y.field: end} for end in drawing.x.domain or ()]
    return _own(ends).mark_line(color=style.BASELINE, strokeDash=_DASH, strokeWidth=1)


def _joined(traces: Sequence[Trace]) -> Part:
    """Return all lines between points as one layer, each in its own colour."""
    rows = [
        {"x": x, "y": y, "place": place, "path": path, "colour": trace.colour}
        for path, trace in enumerate(traces)
        for place, (x, y) in enumerate(trace.points)
    ]
    return (
        _own(rows)
        .mark_line(strokeWidth=1.2, opacity=0.45)
        .encode(
            x=alt.X(field="x", type="quantitative"),
            y=alt.Y(field="y", type="quantitative"),
            order=alt.Order(field="place", type="quantitative"),
            detail=alt.Detail(field="path", type="nominal"),
            stroke=alt.Stroke(field="colour", type="nominal", scale=None),
        )
    )


def _trace(trace: Trace) -> list[Part]:
    rows = [{"x": x, "y": y, "place": place} for place, (x, y) in enumerate(trace.points)]
    place = {
        "x": alt.X(field="x", type="quantitative"),
        "y": alt.Y(field="y", type="quantitative"),
        "order": alt.Order(field="place", type="quantitative"),
    }
    line = _own(rows).mark_line(color=trace.colour, strokeWidth=1.6).encode(**place)
    end = _own([rows[-1] | {"text": trace.text}])
    words = end.mark_text(align="right", baseline="bottom", dy=-4, dx=-4)
    text = alt.Text(field="text", type="nominal")
    return [line, *([words.encode(x=place["x"], y=place["y"], text=text)] if trace.text else [])]


def _reference(line: Reference) -> list[Part]:
    rule = _own([{"y": line.value, "text": line.text}]).encode(y=alt.Y(field="y", type="quantitative"))
    words = rule.mark_text(align="left", baseline="bottom", dx=4, dy=-3)
    return [
        rule.mark_rule(strokeDash=_DASH, color=style.BASELINE),
        words.encode(x=alt.value(0), text=alt.Text(field="text", type="nominal")),
    ]


def _beside(labels: Sequence[Label]) -> list[Part]:
    """Return texts beside points: to the right of points in the left half, else to the left."""
    middle = sum((min(label.x for label in labels), max(label.x for label in labels))) / 2 if labels else 0.0
    layers = []
    for align, dx, side in (("left", 9, False), ("right", -9, True)):
        rows = [{"x": label.x, "y": label.y, "text": label.text} for label in labels if (label.x > middle) is side]
        if rows:
            text = _own(rows).mark_text(align=align, dx=dx, fontSize=12)
            layers.append(
                text.encode(
                    x=alt.X(field="x", type="quantitative"),
                    y=alt.Y(field="y", type="quantitative"),
                    text=alt.Text(field="text", type="nominal"),
                )
            )
    return layers


@_chart.register
def _lines(drawing: Lines) -> Part:
    base = _base(drawing.data)
    upright = {"labelAngle": 0} if drawing.x.scale is Scale.CATEGORY else {}
    x_axis, y_axis = _encoding(alt.X, drawing.x, **upright), _encoding(alt.Y, drawing.y)
    if drawing.x.scale is Scale.LINEAR:
        x_axis.scale = alt.Scale(zero=drawing.x.zero, nice=False)
    colour, tooltip = _colour(drawing.colours), _tooltip(drawing.tips)
    encoding = {"x": x_axis, "y": y_axis, "color": colour, "tooltip": tooltip}
    if drawing.dots:
        name, value = drawing.dots
        dots = {"field": name, "equal": value}
        return _fill(
            alt.layer(
                base.transform_filter({"not": dots}).mark_line(strokeWidth=1.4).encode(**encoding),
                base.transform_filter(dots)
                .mark_point(filled=True, size=42, opacity=1, cursor="pointer")
                .encode(**encoding),
            ),
            drawing.height,
        )
    if any(shade.dashed for shade in drawing.colours.shades):
        values = [shade.value for shade in drawing.colours.shades]
        dashes = [_DASH if shade.dashed else [1, 0] for shade in drawing.colours.shades]
        scale = alt.Scale(domain=values, range=dashes)
        encoding["strokeDash"] = alt.StrokeDash(field=drawing.colours.field, type="nominal", scale=scale, legend=None)
    size = 80 if drawing.x.scale is Scale.CATEGORY else 24
    lines = base.mark_line(**({"point": {"size": size, "cursor": "pointer"}} if drawing.marked else {}))
    lines = _fill(lines.encode(**encoding), drawing.height)
    if not drawing.strip:
        return lines
    chosen, title = drawing.strip
    strip = base.transform_filter({"field": chosen, "equal": True})
    strip = strip.mark_tick(thickness=6, height=18, opacity=1, cursor="pointer").encode(
        x=x_axis, color=colour, tooltip=tooltip
    )
    strip = _fill(strip, 18).properties(title=alt.TitleParams(title, fontSize=11, anchor="start"))
    return alt.vconcat(lines, strip).resolve_scale(color="shared")


@_chart.register
def _bars(drawing: Bars) -> Part:
    base, y_axis, tooltip = _base(drawing.data), _rows(drawing.y), _tooltip(drawing.tips)
    x_axis = _encoding(alt.X, drawing.x, tickCount=8)
    bar = base.mark_bar(cursor="pointer", cornerRadiusEnd=2, height={"band": 0.7})
    layers: list[Part] = [bar.encode(y=y_axis, x=x_axis, color=_colour(drawing.colours), tooltip=tooltip)]
    if any(row["low"] is not None for row in drawing.data.rows):
        spans = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
        layers.append(spans.encode(y=y_axis, x=alt.X(field="low", type="quantitative"), x2=alt.X2(field="high")))
    if drawing.ceilings:
        ticks = base.transform_filter("isValid(datum.ceiling)")
        ticks = ticks.mark_tick(thickness=2, opacity=1, color=style.ACCENT)
        layers.append(ticks.encode(y=y_axis, x=alt.X(field="ceiling", type="quantitative"), tooltip=tooltip))
    return _fill(alt.layer(*layers, *_at_bars(drawing, base, y_axis)), _height(drawing.y))


def _at_bars(drawing: Bars, base: Part, y_axis: Part) -> list[Part]:
    """Return the bars' texts: on bars that are long enough, past the others and their ceilings."""
    inside = {"field": drawing.x.field, "gt": drawing.least_inside}
    dark = [shade.value for shade in drawing.colours.shades if shade.colour in style.DARK]
    ink = f"indexof({dark}, datum.{drawing.colours.field}) >= 0 ? 'white' : '{style.INK}'"
    past = "max(datum.value, datum.ceiling || 0)" if drawing.ceilings else "datum.value"
    encoding = {"y": y_axis, "text": alt.Text(field="text", type="nominal")}
    text = {"align": "left", "dx": 6, "fontSize": 11}
    within = base.transform_filter(inside).transform_calculate(place="0")
    layers = [
        within.mark_text(**text, color=alt.ExprRef(ink)).encode(x=alt.X(field="place", type="quantitative"), **encoding)
    ]
    if any(not _above(row[drawing.x.field], drawing.least_inside) for row in drawing.data.rows):
        beside = base.transform_filter({"not": inside}).transform_calculate(place=past)
        layers.append(beside.mark_text(**text).encode(x=alt.X(field="place", type="quantitative"), **encoding))
    return layers


def _above(value: object, limit: float) -> bool:
    return isinstance(value, int | float) and value > limit


@_chart.register
def _stacks(drawing: Stacks) -> Part:
    bar = _base(drawing.data).mark_bar(cursor="pointer", height={"band": 0.78})
    encoded = bar.encode(
        y=_rows(drawing.y),
        x=_encoding(alt.X, drawing.x),
        color=_colour(drawing.colours),
        order=alt.Order(field="order", type="quantitative"),
        tooltip=_tooltip(drawing.tips),
    )
    return _fill(encoded, _height(drawing.y))


@_chart.register
def _means(drawing: Means) -> Part:
    base, points = _base(drawing.data), _base(drawing.points)
    x_axis, y_axis = _encoding(alt.X, drawing.x, labelAngle=0), _encoding(alt.Y, drawing.y)
    x_point = alt.X(field=drawing.point[0], type="nominal", scale=_scale(drawing.x))
    y_point = alt.Y(field=drawing.point[1], type="quantitative", scale=_scale(drawing.y))
    y_low = alt.Y(field="low", type="quantitative", scale=_scale(drawing.y))
    large = base.mark_circle(color=style.MEASURED, size=110, opacity=1)
    chart = alt.layer(
        base.mark_rule(opacity=0.35, strokeWidth=6, color=style.PREDICTED).encode(
            x=x_axis, y=y_low, y2=alt.Y2(field="high")
        ),
        points.mark_circle(size=22, opacity=0.45, color=style.BASELINE).encode(x=x_point, y=y_point),
        base.mark_line(color=style.MEASURED, strokeWidth=2).encode(x=x_axis, y=y_axis),
        large.encode(x=x_axis, y=y_axis, tooltip=_tooltip(drawing.tips)),
    )
    return _fill(chart, 220)
