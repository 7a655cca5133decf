"""Interactive charts of a tuning run's page: maps over M and N, and sorted ratios."""

from __future__ import annotations

from typing import Any

import altair as typed  # noqa: ICN001 - `alt` is its untyped name, below

from lab.base.sizes import AXES
from lab.measured.timing import Kind
from lab.report.charts import style
from lab.report.charts.vega import PageChart as Chart
from lab.report.charts.vega import PageChoice as Choice
from lab.report.charts.vega import Spec
from lab.report.tuning.tuning_rows import MapCell, MapChart, MapSubject, RatioChart, TuningCharts

alt: Any = typed  # as in lab.report.charts.vega
_CELL, _LEAST_CELL = 560, 18


def chart_list(charts: TuningCharts) -> tuple[Chart, ...]:
    """Draw the page's charts."""
    maps = (_map(chart, subject, charts.kind) for chart in charts.maps for subject in MapSubject)
    return (*maps, *(_sorted(chart, charts.kind) for chart in charts.ratios))


def _map(grid: MapChart, subject: MapSubject, kind: Kind) -> Chart:
    colour = _throughput_colour(kind) if subject is MapSubject.THROUGHPUT else _kernel_colour(grid)
    axis = {"labelAngle": -90, "labelOverlap": True}
    x = alt.X(field="n", type="ordinal", title="N", sort=list(grid.ns), axis=alt.Axis(**axis))
    y = alt.Y(field="m", type="ordinal", title="M", sort=list(grid.ms))
    chart = alt.Chart(alt.InlineData([_row(cell) for cell in grid.cells])).mark_rect(stroke=None)
    chart = chart.encode(x=x, y=y, color=colour, tooltip=_tooltip(grid))
    height = max(_LEAST_CELL * len(grid.ms), 200)
    spec = _spec(chart.properties(width="container", height=min(height, _CELL)))
    return Chart(grid.id(subject), grid.label(subject), (Choice("", spec),))


def _row(cell: MapCell) -> dict[str, Any]:
    """Return a size's values, rounded for display."""
    winner, samples = cell.winner, cell.winner.timed.samples
    return {
        "m": cell.m,
        "n": cell.n,
        "tflops": round(winner.tflops, 4),
        "kernel": winner.kernel,
        "group": cell.group,
        "ms": winner.ms,
        "samples": samples.n if samples else 0,
        "spread": round(samples.spread, 4) if samples else None,
        "entrants": winner.entrants,
        "over_cublas": winner.over_cublas and round(winner.over_cublas, 4),
        "over_single": winner.over_single and round(winner.over_single, 4),
    }


def _tooltip(grid: MapChart) -> list[Any]:
    titles = {"m": "M", "n": "N", "kernel": "fastest kernel"}
    tooltips = [alt.Tooltip(field=name, type="nominal", title=title) for name, title in titles.items()]
    tooltips += [
        alt.Tooltip(field="tflops", type="quantitative", title="TFLOP/s", format=".3f"),
        alt.Tooltip(field="ms", type="quantitative", title="ms", format=".4g"),
        alt.Tooltip(field="samples", type="quantitative", title="samples"),
        alt.Tooltip(field="spread", type="quantitative", title="(p80 - p20) / median", format=".1%"),
        alt.Tooltip(field="entrants", type="quantitative", title="kernels timed here"),
    ]
    if grid.over_cublas:
        tooltips.append(alt.Tooltip(field="over_cublas", type="quantitative", title="over cuBLAS", format=".3f"))
    if grid.over_single:
        tooltips.append(alt.Tooltip(field="over_single", type="quantitative", title="over single-tuned", format=".3f"))
    return tooltips


def _throughput_colour(kind: Kind) -> Any:  # noqa: ANN401 - altair's classes share no base
    scale = alt.Scale(scheme="viridis", domainMin=0)
    legend = alt.Legend(orient="top", title=f"TFLOP/s ({kind})", gradientLength=200)
    return alt.Color(field="tflops", type="quantitative", scale=scale, legend=legend)


def _kernel_colour(grid: MapChart) -> Any:  # noqa: ANN401 - altair's classes share no base
    present = {cell.group for cell in grid.cells}
    names = [name for name in grid.colours if name in present]
    scale = alt.Scale(domain=names, range=[grid.colours[name] for name in names])
    return alt.Color(field="group", type="nominal", scale=scale, legend=None)


def _sorted(curve: RatioChart, kind: Kind) -> Chart:
    rows = [
        {
            "place": point.place,
            "ratio": round(point.ratio, 4),
            "size": " x ".join(map(str, point.winner.size)),
            "kernel": point.winner.kernel,
            "tflops": round(point.winner.tflops, 3),
        }
        for point in curve.points
    ]
    batches = any(len(point.winner.size) > len(AXES) for point in curve.points)
    tooltip = [
        alt.Tooltip(field="size", type="nominal", title=f"M x N x K{' x batch' if batches else ''}"),
        alt.Tooltip(field="kernel", type="nominal", title="fastest kernel"),
        alt.Tooltip(field="ratio", type="quantitative", title=f"over {curve.against}", format=".3f"),
        alt.Tooltip(field="tflops", type="quantitative", title="TFLOP/s", format=".3f"),
    ]
    y = alt.Y(
        field="ratio",
        type="quantitative",
        title=f"throughput over {curve.against} ({kind})",
        scale=alt.Scale(type="log"),
    )
    x = alt.X(field="place", type="quantitative", title="sizes, sorted", scale=alt.Scale(nice=False))
    points = alt.Chart(alt.InlineData(rows)).mark_circle(size=36, color=style.MEASURED)
    rule = alt.Chart(alt.InlineData([{"ratio": 1}])).mark_rule(strokeDash=[5, 4], color=style.BASELINE)
    chart = alt.layer(
        rule.encode(y=alt.Y(field="ratio", type="quantitative")), points.encode(x=x, y=y, tooltip=tooltip)
    )
    return Chart(curve.id, curve.label, (Choice("", _spec(chart.properties(width="container", height=320))),))


def _spec(chart: Any) -> Spec:  # noqa: ANN401 - altair's classes share no base
    """Return the chart as Vega-Lite, without the settings all charts of the page share."""
    spec: Spec = chart.to_dict(validate=False)
    for key in ("$schema", "config"):
        spec.pop(key, None)
    return spec
