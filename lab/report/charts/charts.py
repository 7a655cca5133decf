"""The page's interactive charts, as Vega-Lite specifications without data of their own.

Data come from the page's named datasets, so that a record is on the page once. Colours that depend on light or dark are
left to the page's configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import altair as typed  # noqa: ICN001 - `alt` is its untyped name, below

from lab.measured.timing import Kind, Merit
from lab.report.charts import style
from lab.report.charts.rows import MIXES, Bar, Slice
from lab.report.columns import Column, Value
from lab.report.facts.agreement import Agreement
from lab.report.facts.curves import Curve
from lab.report.facts.effects import Effect, Interaction
from lab.store.figures import Basis, Response, column_name

Spec = dict[str, Any]
alt: Any = typed  # its annotations refuse values that are only known at run time
OK: Final = "indexof(['verified', 'inspected'], datum.status) >= 0"
SHORT_NAMES: Final = "containerSize()[0] < 640 ? replace(datum.label, regexp('[^ =]+=', 'g'), '') : datum.label"
"""Beside a narrow chart a sweep's names keep the values alone: `8 true 4`."""
_ON_BAR: Final = alt.ExprRef("indexof(['variant', 'baseline', 'issue slots'], datum.group) >= 0 ? 'white' : '#1f2328'")
"""White where the bar is dark enough, else ink."""
_ROWS: Final = alt.Axis(ticks=False, domain=False, labelExpr=SHORT_NAMES)
ROW_HEIGHT: Final = 22
HEIGHT: Final = 380


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to see a chart; a chart with several gets a switch."""

    label: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the page.

    Attributes:
        id: HTML id.
        label: What it shows, in words, for those who do not see it.
        choices: One specification or more.
    """

    id: str
    label: str
    choices: tuple[Choice, ...]


def finish(chart: Any, height: int = HEIGHT) -> Spec:  # noqa: ANN401 - altair's classes share no base that types well
    """The specification of a chart that fills its box."""
    spec: Spec = chart.properties(width="container", height=height).to_dict(validate=False)
    for key in ("$schema", "config"):
        spec.pop(key, None)
    return spec


def _tooltip(columns: Sequence[Column], names: Sequence[str]) -> list[alt.Tooltip]:
    known = {column.name: column for column in columns}
    made = []
    for name in names:
        column = known[name]
        kind = "quantitative" if column.format else "nominal"
        extra = {"format": column.format} if column.format else {}
        made.append(alt.Tooltip(field=column.key, type=kind, title=column.header, **extra))
    return made


HOVER: Final = (
    "registers", "spill_bytes", "shared_bytes", "occupancy", "ptx_fma_per_ld_shared", "ptx_fma_share", "sass_fma_share",
    "predicted_tflops", "predicted_bound",
)  # fmt: skip
HOVER_BYTES: Final = (
    "registers", "spill_bytes", "shared_bytes", "occupancy", "predicted_sectors", "emulated_sectors", "emulated_excess",
    "emulated_conflicts", "predicted_tflops",
)  # fmt: skip
"""The same where throughput counts bytes."""
HOVER_MEASURED: Final = ("measured_tflops", "measured_peak_share", "measured_ms", "ratio_to_baseline")


def hover_names(columns: Sequence[Column], response: Response) -> list[str]:
    """Columns of a point's tooltip: who it is, its swept parameters, its figures."""
    parameters = [column.name for column in columns if column.name.startswith("p.") and column.shown]
    measured = HOVER_MEASURED if response.kind is Kind.MEASURED else ()
    names = ["variant", "kernel", *parameters, *measured]
    names += HOVER if response.unit is Merit.TFLOPS else HOVER_BYTES
    return [column_name(name, response.unit) for name in names]


def axis_title(axis: Column) -> str:
    """Title of the ratio's axis: static figures are the hot loop's, others the whole launch's."""
    return f"{axis.header}{' of the hot loop' if axis.kind is Kind.STATIC else ''} ({axis.kind})"


def _colour(by: Column | None, values: Sequence[Value]) -> Any:  # noqa: ANN401 - as in finish
    if by is None or len(values) > len(style.SERIES):
        return alt.value(style.MEASURED)
    scale = alt.Scale(domain=list(values), range=list(style.SERIES[: len(values)]))
    return alt.Color(field=by.key, type="nominal", title=by.title, scale=scale, legend=alt.Legend(orient="top"))


def ratio_chart(
    columns: Sequence[Column],
    axes: Sequence[Column],
    response: Response,
    by: tuple[Column, Sequence[Value]] | None,
    baseline: tuple[str, float] | None,
    *,
    labels: Mapping[str, Sequence[tuple[float, float, str]]],
) -> Chart:
    """A ratio of the hot loop against the response; one choice for each ratio.

    Args:
        columns: The registry.
        axes: Ratio columns to choose from.
        response: What stands on the vertical axis.
        by: Column that colours the points, and its values; None for one colour.
        baseline: Name and throughput of the baseline, drawn as a dashed line.
        labels: Ratio column to the (x, y, text) of its labels (a ladder); empty for a sweep.
    """
    tooltip = _tooltip(columns, hover_names(columns, response))
    colour = _colour(*by) if by else _colour(None, ())
    y_axis = alt.Y(field=response.column, type="quantitative", title=response.axis, scale=alt.Scale(zero=True))

    def spec(axis: Column) -> Spec:
        valid = f"{OK} && isValid(datum.{axis.key}) && isValid(datum.{response.column})"
        base = alt.Chart(alt.NamedData("records")).transform_filter(valid)
        x_axis = alt.X(
            field=axis.key, type="quantitative", title=axis_title(axis),
            # of equal ratios the axis has one tick, not eight that read alike
            axis=alt.Axis(format=".1~%" if axis.format.endswith("%") else ".3~f", tickCount=8, tickMinStep=0.001),
            scale=alt.Scale(zero=False, padding=14, nice=False),
        )  # fmt: skip
        layers: list[Any] = []
        if baseline:
            name, value = baseline
            data = alt.InlineData([{"y": value, "text": f"{name} {value:.1f}"}])
            rule = alt.Chart(data).encode(y=alt.Y(field="y", type="quantitative"))
            layers += [
                rule.mark_rule(strokeDash=[5, 4], color=style.BASELINE),
                rule.mark_text(align="left", baseline="bottom", dx=4, dy=-3).encode(
                    x=alt.value(0), text=alt.Text(field="text", type="nominal")
                ),
            ]
        if response.kind is Kind.MEASURED:
            low, high = (column_name(name, response.unit) for name in ("tflops_p20", "tflops_p80"))
            y_low = alt.Y(field=low, type="quantitative")
            layers.append(base.mark_rule(opacity=0.5).encode(x=x_axis, y=y_low, y2=alt.Y2(field=high), color=colour))
        layers.append(
            base.mark_circle(size=95, opacity=0.85, cursor="pointer").encode(
                x=x_axis, y=y_axis, color=colour, tooltip=tooltip
            )
        )
        layers += _beside(labels.get(axis.name, ()))
        return finish(alt.layer(*layers))

    often = Counter(axis.title for axis in axes)
    choices = tuple(
        Choice(axis.title if often[axis.title] == 1 else f"{axis.title}, {axis.kind}", spec(axis)) for axis in axes
    )
    return Chart("ratio", f"{', '.join(axis.title for axis in axes)} against {response.kind} {response.title}", choices)


def _beside(labels: Sequence[tuple[float, float, str]]) -> list[Any]:
    """Texts beside points: to the right of those in the left half, and the other way round."""
    middle = sum((min(x for x, *_ in labels), max(x for x, *_ in labels))) / 2 if labels else 0.0
    layers = []
    for align, dx, side in (("left", 9, False), ("right", -9, True)):
        rows = [{"x": x, "y": y, "text": text} for x, y, text in labels if (x > middle) is side]
        if rows:
            text = alt.Chart(alt.InlineData(rows)).mark_text(align=align, dx=dx, fontSize=12)
            layers.append(
                text.encode(
                    x=alt.X(field="x", type="quantitative"),
                    y=alt.Y(field="y", type="quantitative"),
                    text=alt.Text(field="text", type="nominal"),
                )
            )
    return layers


def curve_chart(found: Curve, response: Response) -> Chart:
    """Throughput along a problem axis, and a strip with the fastest kernel at each value; a choice for each part."""
    choices = tuple(Choice(part or "curve", _curve(found, part, response)) for part in found.parts)
    return Chart("curve", f"{response.axis} against {found.axis}", choices)


def _curve(found: Curve, part: str, response: Response) -> Spec:
    names = [*found.kernels, *found.baselines]
    colours = [style.series_colour(i) for i in range(len(found.kernels))]
    colours += [style.BASELINES[i % len(style.BASELINES)] for i in range(len(found.baselines))]
    colour = alt.Color(
        field="name",
        type="nominal",
        scale=alt.Scale(domain=names, range=colours),
        legend=alt.Legend(orient="top", title=None),
    )
    scale = alt.Scale(type="log", base=2) if found.wide else alt.Scale(zero=False, nice=False)
    x_axis = alt.X(field="x", type="quantitative", title=found.axis, scale=scale)
    dashes = alt.StrokeDash(
        field="group",
        type="nominal",
        scale=alt.Scale(domain=["kernel", "baseline"], range=[[1, 0], [5, 4]]),
        legend=None,
    )
    tooltip = [
        alt.Tooltip(field="name", type="nominal", title="kernel"),
        alt.Tooltip(field="x", type="quantitative", title=found.axis),
        alt.Tooltip(field="value", type="quantitative", title=f"{response.kind} ({response.unit})", format=".2f"),
        alt.Tooltip(field="label", type="nominal", title="best variant"),
    ]
    base = alt.Chart(alt.NamedData("curve")).transform_filter(alt.FieldEqualPredicate(field="part", equal=part))
    value = alt.Y(field="value", type="quantitative", title=response.axis, scale=alt.Scale(zero=True))
    lines = base.mark_line(point={"size": 24, "cursor": "pointer"}).encode(
        x=x_axis, y=value, color=colour, strokeDash=dashes, tooltip=tooltip
    )
    strip = (
        base.transform_filter("datum.best")
        .mark_tick(thickness=6, height=18, opacity=1, cursor="pointer")
        .encode(x=x_axis, color=colour, tooltip=tooltip)
        .properties(width="container", height=18, title=alt.TitleParams("fastest kernel", fontSize=11, anchor="start"))
    )
    whole = alt.vconcat(lines.properties(width="container", height=HEIGHT), strip).resolve_scale(color="shared")
    spec: Spec = whole.to_dict(validate=False)
    for key in ("$schema", "config"):
        spec.pop(key, None)
    return spec


def model_chart(columns: Sequence[Column], found: Sequence[Agreement], response: Response) -> Chart:
    """Predicted against measured throughput, a choice for each prediction; on the line they agree."""
    known = {column.name: column for column in columns}
    measured = known[column_name("measured_tflops", response.unit)]

    def spec(one: Agreement) -> Spec:
        predicted = known[column_name(one.column, response.unit)]
        most = 1.05 * max(value for _, *both in one.points for value in both)
        side = alt.Scale(domain=[0, most], nice=False)
        x_axis, y_axis = (
            alt.X(field=measured.key, type="quantitative", title=response.axis, scale=side),
            alt.Y(
                field=predicted.key, type="quantitative", title=f"{one.name} ({response.unit}, predicted)", scale=side
            ),
        )
        ends = alt.Chart(alt.InlineData([{measured.key: end, predicted.key: end} for end in (0, most)]))
        diagonal = ends.mark_line(color=style.BASELINE, strokeDash=[5, 4], strokeWidth=1)
        valid = f"{OK} && isValid(datum.{measured.key}) && isValid(datum.{predicted.key})"
        points = alt.Chart(alt.NamedData("records")).transform_filter(valid)
        points = points.mark_circle(size=60, color=style.MEASURED, cursor="pointer")
        tooltip = _tooltip(columns, [*hover_names(columns, response), predicted.name])
        layers = diagonal.encode(x=x_axis, y=y_axis), points.encode(x=x_axis, y=y_axis, tooltip=tooltip)
        return finish(alt.layer(*layers))

    return Chart("model", "predicted against measured throughput", tuple(Choice(one.name, spec(one)) for one in found))


def bars_chart(bars: Sequence[Bar], response: Response) -> Chart:
    """One bar a variant with its share of peak, p20 to p80 and predicted ceiling."""
    order = [bar.name for bar in bars]
    ticks = response.basis is not Basis.CEILING  # where the bars are not the ceilings themselves
    base = alt.Chart(alt.NamedData("bars"))
    y_axis = alt.Y(
        field="name",
        type="nominal",
        scale=alt.Scale(domain=order),
        title=None,
        axis=_ROWS,
    )
    x_axis = alt.X(
        field="value", type="quantitative", title=response.axis, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=8)
    )
    tooltip = [
        alt.Tooltip(field="name", type="nominal", title="variant"),
        alt.Tooltip(field="value", type="quantitative", title=f"{response.kind} ({response.unit})", format=".2f"),
        alt.Tooltip(field="share", type="quantitative", title="of peak", format=".1%"),
        alt.Tooltip(field="ceiling", type="quantitative", title=f"predicted ceiling ({response.unit})", format=".2f"),
    ]
    groups = list(dict.fromkeys(bar.group for bar in bars))
    known = {"variant": style.MEASURED, "baseline": style.BASELINE, **style.BOUND_COLOURS}
    scale = alt.Scale(domain=groups, range=[known.get(group, style.PREDICTED) for group in groups])
    legend = None if ticks else alt.Legend(orient="top", title="binding bound")
    colour = alt.Color(field="group", type="nominal", scale=scale, legend=legend)
    mark = {"cursor": "pointer", "cornerRadiusEnd": 2, "height": {"band": 0.7}}
    layers: list[Any] = [base.mark_bar(**mark).encode(y=y_axis, x=x_axis, color=colour, tooltip=tooltip)]
    if any(bar.low is not None for bar in bars):
        spans = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
        layers.append(spans.encode(y=y_axis, x=alt.X(field="low", type="quantitative"), x2=alt.X2(field="high")))
    if ticks:
        marks = base.transform_filter("isValid(datum.ceiling)").mark_tick(thickness=2, opacity=1, color=style.ACCENT)
        layers.append(marks.encode(y=y_axis, x=alt.X(field="ceiling", type="quantitative"), tooltip=tooltip))
    text = alt.Text(field="text", type="nominal")
    wide = f"datum.value > {0.3 * max((bar.value for bar in bars), default=1.0)}"
    past = "max(datum.value, datum.ceiling || 0)" if ticks else "datum.value"  # not across the ceiling's tick
    place = alt.X(field="place", type="quantitative")
    words = base.transform_calculate(place=f"{wide} ? 0 : {past}")
    layers.append(
        words.transform_filter(wide)
        .mark_text(align="left", dx=6, fontSize=11, color=_ON_BAR)
        .encode(y=y_axis, x=place, text=text)
    )
    if any(0.3 * max(b.value for b in bars) >= bar.value for bar in bars):
        layers.append(
            words.transform_filter(f"!({wide})")
            .mark_text(align="left", dx=6, fontSize=11)
            .encode(y=y_axis, x=place, text=text)
        )
    spec = finish(alt.layer(*layers), ROW_HEIGHT * len(bars))
    return Chart("bars", f"{response.kind} {response.title} of each variant", (Choice("", spec),))


def mix_charts(slices: Sequence[Slice]) -> tuple[Chart, ...]:
    """Stacked bars of the PTX, the executed PTX and the SASS: of the hot loop or the kernel, as shares or counts."""
    order = list(dict.fromkeys(part.name for part in slices))
    used = {part.cls for part in slices}
    classes = [cls for cls in style.CLASS_COLOURS if cls in used]
    scale = alt.Scale(domain=classes, range=[style.CLASS_COLOURS[cls] for cls in classes])
    tooltip = [
        alt.Tooltip(field="name", type="nominal", title="variant"),
        alt.Tooltip(field="cls", type="nominal", title="class"),
        alt.Tooltip(field="count", type="quantitative", title="instructions", format=",.5~r"),
        alt.Tooltip(field="share", type="quantitative", title="share", format=".1%"),
    ]

    def spec(mix: str, *, hot: bool, field: str) -> Spec:
        kind = MIXES[mix][1]
        what = "share" if field == "share" else "instructions per thread" if kind is Kind.EMULATED else "instructions"
        form, domain = ("~%", (0, 1)) if field == "share" else ("~s", None)
        title = f"{what} ({kind})"
        scale_x = alt.Scale(domain=domain) if domain else alt.Scale(zero=True)
        chart = alt.Chart(alt.NamedData("mix")).transform_filter(f"datum.mix == '{mix}' && datum.hot == {int(hot)}")
        bar = chart.mark_bar(cursor="pointer", height={"band": 0.78}).encode(
            y=alt.Y(
                field="name",
                type="nominal",
                scale=alt.Scale(domain=order),
                title=None,
                axis=_ROWS,
            ),
            x=alt.X(field=field, type="quantitative", title=title, scale=scale_x, axis=alt.Axis(format=form)),
            color=alt.Color(field="cls", type="nominal", scale=scale, legend=None),
            order=alt.Order(field="order", type="quantitative"),
            tooltip=tooltip,
        )
        return finish(bar, ROW_HEIGHT * len(order))

    made = []
    for mix in dict.fromkeys(part.mix for part in slices):
        choices = tuple(
            Choice(label, spec(mix, hot=hot, field=field))
            for label, hot, field in (
                ("hot loop, share", True, "share"),
                ("hot loop, count", True, "count"),
                ("kernel, share", False, "share"),
                ("kernel, count", False, "count"),
            )
        )
        made.append(Chart(f"mix-{mix}", f"Instruction classes, {MIXES[mix][0]} ({MIXES[mix][1]})", choices))
    return tuple(made)


def effect_domain(effects: Sequence[Effect]) -> tuple[float, float]:
    """One vertical range for all main effects, so that they can be compared."""
    low = min(level.low for effect in effects for level in effect.levels)
    high = max(level.high for effect in effects for level in effect.levels)
    pad = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return max(0.0, low - pad), high + pad


def effect_charts(effects: Sequence[Effect], columns: dict[str, Column], response: Response) -> tuple[Chart, ...]:
    """One small chart a factor: every variant, the range and the mean at each value."""
    if not effects:
        return ()
    domain = list(effect_domain(effects))
    made = []
    for index, effect in enumerate(effects):
        levels = alt.InlineData([asdict(level) for level in effect.levels])
        values = [level.value for level in effect.levels]
        column = columns[f"p.{effect.factor}" if effect.parameter else effect.factor]
        x_level = alt.X(
            field="value",
            type="nominal",
            scale=alt.Scale(domain=values),
            title=effect.factor,
            axis=alt.Axis(labelAngle=0),
        )
        x_point = alt.X(field=column.key, type="nominal", scale=alt.Scale(domain=values))
        scale = alt.Scale(domain=domain, zero=False, nice=False)
        y_title = f"{response.unit} ({response.kind})" if index == 0 else None
        y_mean = alt.Y(field="mean", type="quantitative", title=y_title, scale=scale)
        tooltip = [
            alt.Tooltip(field="value", type="nominal", title=effect.factor),
            *(
                alt.Tooltip(field=f, type="quantitative", title=f, format=".2f")
                for f in ("mean", "median", "low", "high")
            ),
            alt.Tooltip(field="n", type="quantitative", title="variants"),
        ]
        base = alt.Chart(levels)
        points = alt.Chart(alt.NamedData("records")).transform_filter(
            f"{OK} && isValid(datum.{response.column}) && isValid(datum.{column.key})"
        )
        chart = alt.layer(
            base.mark_rule(opacity=0.35, strokeWidth=6, color=style.PREDICTED).encode(
                x=x_level, y=alt.Y(field="low", type="quantitative", scale=scale), y2=alt.Y2(field="high")
            ),
            points.mark_circle(size=22, opacity=0.45, color=style.BASELINE).encode(
                x=x_point, y=alt.Y(field=response.column, type="quantitative", scale=scale)
            ),
            base.mark_line(color=style.MEASURED, strokeWidth=2).encode(x=x_level, y=y_mean),
            base.mark_circle(color=style.MEASURED, size=110, opacity=1).encode(x=x_level, y=y_mean, tooltip=tooltip),
        )
        made.append(Chart(f"effect-{index}", f"Main effect of {effect.factor}", (Choice("", finish(chart, 220)),)))
    return tuple(made)


def interaction_chart(interaction: Interaction, response: Response) -> Chart:
    """Mean response at each pair of values: parallel lines mean that the factors act independently."""
    rows = [{"a": a, "b": b, "mean": mean, "n": n} for a, b, mean, n in interaction.cells]
    firsts, seconds = (list(dict.fromkeys(cell[i] for cell in interaction.cells)) for i in (0, 1))
    x_axis = alt.X(
        field="a", type="nominal", scale=alt.Scale(domain=firsts), title=interaction.first, axis=alt.Axis(labelAngle=0)
    )
    y_axis = alt.Y(
        field="mean", type="quantitative", title=f"mean {response.unit} ({response.kind})", scale=alt.Scale(zero=False)
    )
    colours = [style.series_colour(index) for index in range(len(seconds))]
    scale = alt.Scale(domain=seconds, range=colours)
    colour = alt.Color(
        field="b", type="nominal", scale=scale, title=interaction.second, legend=alt.Legend(orient="top")
    )
    tooltip = [
        alt.Tooltip(field="a", type="nominal", title=interaction.first),
        alt.Tooltip(field="b", type="nominal", title=interaction.second),
        alt.Tooltip(field="mean", type="quantitative", format=".2f"),
        alt.Tooltip(field="n", type="quantitative", title="variants"),
    ]
    base = alt.Chart(alt.InlineData(rows)).encode(x=x_axis, y=y_axis, color=colour)
    chart = alt.layer(base.mark_line(strokeWidth=2), base.mark_circle(size=80, opacity=1).encode(tooltip=tooltip))
    label = f"Interaction of {interaction.first} and {interaction.second}"
    return Chart("interaction", label, (Choice("", finish(chart, 240)),))
