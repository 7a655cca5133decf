"""The charts and PNGs of a run's report; those without data are left out."""

from __future__ import annotations

from typing import Final

from lab.report.analysis import Analysis
from lab.report.charts import charts
from lab.report.charts.definition import Chart, Picture
from lab.report.charts.explain import explain_charts
from lab.report.charts.roofline import roofline_chart
from lab.report.charts.rows import common_peak
from lab.store.figures import Basis

_RESPONSES: Final = {
    Basis.MEASURED: "throughput",
    Basis.ESTIMATE: "estimated throughput",
    Basis.SCORE: "predicted throughput",
    Basis.CEILING: "predicted ceiling",
}
"""Name of the compared figure in the titles of PNGs."""


MIX_ORDER: Final = ("mix-sass", "mix-executed", "mix-ptx")
"""Charts of mixes, that of the machine code first: it stands beside the throughput."""

ROOFLINE: Final = "roofline.png"
"""PNG of the roofline, which committed results leave out."""


def chart_list(analysis: Analysis) -> tuple[Chart, ...]:
    """Return the page's charts, in order."""
    a, definitions = analysis, []
    columns = {column.name: column for column in a.columns}
    if a.curve:
        definitions.append(charts.curve_chart(a.curve, a.response))
    if a.curve and a.explanation:
        definitions.extend(explain_charts(a.explanation, a.curve))
    if a.link:
        definitions.append(
            charts.ratio_chart(
                a.columns,
                a.records,
                a.rows,
                a.axes,
                a.response,
                link=a.link,
                baseline=a.baseline,
                labelled=a.ladder and not a.link.paths,
            )
        )
    if a.bars:
        definitions.append(charts.bars_chart(a.bars, a.response, common_peak(a.records)))
    if (roofline := roofline_chart(a.records, a.response)) is not None:
        definitions.append(roofline)
    if a.search:
        definitions.append(charts.search_chart(a.search, a.response))
    if usable := [agreement for agreement in a.agreements if agreement.usable]:
        definitions.append(charts.model_chart(a.columns, a.rows, usable, a.response))
    if a.slices:
        definitions.extend(charts.mix_charts(a.slices, [bar.name for bar in a.bars]))
    definitions.extend(charts.effect_charts(a.effects, columns, a.rows, a.response))
    if a.interaction:
        definitions.append(charts.interaction_chart(a.interaction, a.response))
    return tuple(definitions)


def pictures(analysis: Analysis, page_charts: tuple[Chart, ...]) -> tuple[Picture, ...]:
    """Return the PNGs: each shows the initial view of a chart of the page, or of several side by side.

    Args:
        analysis: The analysis the charts were made from.
        page_charts: The page's charts.
    """
    a, name, quantity = analysis, analysis.run.experiment, _RESPONSES[analysis.response.basis]
    by_id = {chart.id: chart for chart in page_charts}
    png_list = []
    if a.curve:
        for number, choice in enumerate(by_id["curve"].choices):
            file = f"curve-{number + 1}.png" if number else "curve.png"
            facet = f", {a.curve.parts[number]}" if a.curve.parts[number] else ""
            png_list.append(Picture(file, f"{name}: {quantity} against {a.curve.axis}{facet}", (choice.drawing,)))
    first = {id_: chart.choices[0].drawing for id_, chart in by_id.items()}
    if "ratio" in first:
        title = f"{name}: {a.link.x.title if a.link else ''} against {quantity}"
        if a.link and a.link.paths:
            title += f"; lines join variants that differ in {a.link.parameter} alone"
        png_list.append(Picture("ratio_vs_throughput.png", title, (first["ratio"],)))
    mix = next((id_ for id_ in MIX_ORDER if id_ in first), None)
    rows = "each rung" if a.ladder else "the variants"
    if mix and "bars" in first:
        title = f"{name}: instruction mix of the hot loop beside {quantity} of {rows}"
        png_list.append(Picture("mix.png", title, (first[mix], first["bars"])))
    elif "bars" in first:
        png_list.append(Picture("bars.png", f"{name}: {quantity} of {rows}", (first["bars"],)))
    elif mix:
        png_list.append(Picture("mix.png", f"{name}: instruction mix of the hot loop", (first[mix],)))
    if "roofline" in first:
        png_list.append(Picture(ROOFLINE, f"{name}: roofline, {quantity}", (first["roofline"],)))
    if "model" in by_id:
        drawings = tuple(choice.drawing for choice in by_id["model"].choices)
        png_list.append(Picture("model.png", f"{name}: predicted against measured throughput", drawings))
    if effects := tuple(drawing for id_, drawing in first.items() if id_.startswith("effect-")):
        title = f"{name}: main effects on {quantity} (mean, and range over the variants)"
        png_list.append(Picture("main_effects.png", title, effects))
    return tuple(png_list)
