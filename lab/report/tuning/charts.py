"""Interactive charts of a tuning run's page: maps over M and N, and sorted ratios."""

from __future__ import annotations

from typing import Any

import altair as typed  # noqa: ICN001 - `alt` is its untyped name, below

from lab.report.charts import style
from lab.report.charts.vega import PageChart as Chart
from lab.report.charts.vega import PageChoice as Choice
from lab.report.charts.vega import Spec
from lab.report.tuning.data import Analysis, Map, Ratios, TypeReport

alt: Any = typed  # as in lab.report.charts.vega
_CELL, _LEAST_CELL = 560, 18
MOST_COLOURS = 24
"""Kernels that get a colour of their own in a map, those that win most; the others share a grey."""
OTHERS = "others"


def chart_list(analysis: Analysis) -> tuple[Chart, ...]:
    """The page's charts; those without data are left out."""
    made = []
    for one in analysis.types:
        for grid in one.maps:
            made += [_throughput(analysis, one, grid), _fastest(one, grid)]
    return (*made, *(_sorted(analysis, ratios) for ratios in analysis.ratios))


def colours(one: TypeReport) -> dict[str, str]:
    """Kernel to colour: evenly spaced hues, lighter and darker in turn."""
    names = [facts.name for facts, _, _ in one.kernels[:MOST_COLOURS]]
    spread = {}
    for i, name in enumerate(names):
        # the golden angle keeps neighbours in the order of wins apart
        spread[name] = f"hsl({round(i * 137.508) % 360}, {(70, 55)[i % 2]}%, {(45, 65, 55)[i % 3]}%)"
    return spread


def _cells(one: TypeReport, grid: Map) -> list[dict[str, Any]]:
    known = colours(one)
    return [
        {
            "m": m,
            "n": n,
            "tflops": round(w.tflops, 4),
            "kernel": w.kernel,
            "group": w.kernel if w.kernel in known else OTHERS,
            "ms": w.ms,
            "samples": w.timed.samples.n if w.timed.samples else 0,
            "spread": round(w.timed.samples.spread, 4) if w.timed.samples else None,
            "entrants": w.entrants,
            "over_cublas": w.over_cublas and round(w.over_cublas, 4),
            "over_single": w.over_single and round(w.over_single, 4),
        }
        for (m, n), w in sorted(grid.cells.items())
    ]


def _tooltip(one: TypeReport, grid: Map) -> list[Any]:
    titles = {"m": "M", "n": "N", "kernel": "fastest kernel"}
    shown = [alt.Tooltip(field=name, type="nominal", title=title) for name, title in titles.items()]
    shown += [
        alt.Tooltip(field="tflops", type="quantitative", title="TFLOP/s", format=".3f"),
        alt.Tooltip(field="ms", type="quantitative", title="ms", format=".4g"),
        alt.Tooltip(field="samples", type="quantitative", title="samples"),
        alt.Tooltip(field="spread", type="quantitative", title="(p80 - p20) / median", format=".1%"),
        alt.Tooltip(field="entrants", type="quantitative", title="kernels timed here"),
    ]
    cells = grid.cells.values()
    if any(w.over_cublas for w in cells):
        shown.append(alt.Tooltip(field="over_cublas", type="quantitative", title="over cuBLAS", format=".3f"))
    if one.single:
        shown.append(alt.Tooltip(field="over_single", type="quantitative", title="over single-tuned", format=".3f"))
    return shown


def _map(one: TypeReport, grid: Map, colour: Any) -> Spec:  # noqa: ANN401 - altair's classes share no base
    axis = {"labelAngle": -90, "labelOverlap": True}
    x = alt.X(field="n", type="ordinal", title="N", sort=list(grid.ns), axis=alt.Axis(**axis))
    y = alt.Y(field="m", type="ordinal", title="M", sort=list(grid.ms))
    chart = alt.Chart(alt.InlineData(_cells(one, grid))).mark_rect(stroke=None)
    chart = chart.encode(x=x, y=y, color=colour, tooltip=_tooltip(one, grid))
    height = max(_LEAST_CELL * len(grid.ms), 200)
    spec: Spec = chart.properties(width="container", height=min(height, _CELL)).to_dict(validate=False)
    for key in ("$schema", "config"):
        spec.pop(key, None)
    return spec


def _throughput(analysis: Analysis, one: TypeReport, grid: Map) -> Chart:
    scale = alt.Scale(scheme="viridis", domainMin=0)
    legend = alt.Legend(orient="top", title=f"TFLOP/s ({analysis.kind})", gradientLength=200)
    colour = alt.Color(field="tflops", type="quantitative", scale=scale, legend=legend)
    label = f"Throughput of the fastest kernel over M and N, {one.label}, K = {grid.k}"
    return Chart(f"throughput-{one.label}-{grid.k}", label, (Choice("", _map(one, grid, colour)),))


def _fastest(one: TypeReport, grid: Map) -> Chart:
    known = {**colours(one), OTHERS: "#b8bcc2"}
    present = {w.kernel if w.kernel in known else OTHERS for w in grid.cells.values()}
    names = [name for name in known if name in present]
    scale = alt.Scale(domain=names, range=[known[name] for name in names])
    colour = alt.Color(field="group", type="nominal", scale=scale, legend=None)
    label = f"Which kernel is fastest over M and N, {one.label}, K = {grid.k}"
    return Chart(f"fastest-{one.label}-{grid.k}", label, (Choice("", _map(one, grid, colour)),))


def _sorted(analysis: Analysis, ratios: Ratios) -> Chart:
    rows = [
        {
            "place": i + 1,
            "ratio": round(ratio, 4),
            "size": " x ".join(map(str, w.size)),
            "kernel": w.kernel,
            "tflops": round(w.tflops, 3),
        }
        for i, (ratio, w) in enumerate(ratios.values)
    ]
    tooltip = [
        alt.Tooltip(field="size", type="nominal", title="M x N x K"),
        alt.Tooltip(field="kernel", type="nominal", title="fastest kernel"),
        alt.Tooltip(field="ratio", type="quantitative", title=f"over {ratios.against}", format=".3f"),
        alt.Tooltip(field="tflops", type="quantitative", title="TFLOP/s", format=".3f"),
    ]
    y = alt.Y(
        field="ratio",
        type="quantitative",
        title=f"throughput over {ratios.against} ({analysis.kind})",
        scale=alt.Scale(type="log"),
    )
    x = alt.X(field="place", type="quantitative", title="sizes, sorted", scale=alt.Scale(nice=False))
    points = alt.Chart(alt.InlineData(rows)).mark_circle(size=36, color=style.MEASURED)
    rule = alt.Chart(alt.InlineData([{"ratio": 1}])).mark_rule(strokeDash=[5, 4], color=style.BASELINE)
    chart = alt.layer(
        rule.encode(y=alt.Y(field="ratio", type="quantitative")), points.encode(x=x, y=y, tooltip=tooltip)
    )
    spec: Spec = chart.properties(width="container", height=320).to_dict(validate=False)
    for key in ("$schema", "config"):
        spec.pop(key, None)
    label = f"Throughput of size-tuned kernels over {ratios.against}, sizes sorted"
    return Chart(f"sorted-{ratios.against}", label, (Choice("", spec),))
