"""Which charts and PNGs the report of a run has; those without data are left out."""

from __future__ import annotations

from typing import Final

from lab.report.analysis import Analysis
from lab.report.charts import charts
from lab.report.charts.definition import Chart, Picture
from lab.report.charts.explain import explain_charts
from lab.report.charts.rows import common_peak
from lab.report.charts.space import space_charts
from lab.report.facts.effects import Factor, factors
from lab.store.figures import Basis

_RESPONSES: Final = {
    Basis.MEASURED: "throughput",
    Basis.ESTIMATE: "estimated throughput",
    Basis.SCORE: "predicted throughput",
    Basis.CEILING: "predicted ceiling",
}
"""What the title of a PNG calls the figure that variants are compared by."""


SPACE: Final = {
    "speedup": "{} over one variant",
    "roofline": "roofline, {}",
    "pareto": "{} against what it costs",
    "parallel": "parameters and {}",
}
"""PNGs of the charts of a whole space of variants, and their titles."""


def chart_list(analysis: Analysis) -> tuple[Chart, ...]:
    """The page's charts, in order."""
    a, made = analysis, []
    columns = {column.name: column for column in a.columns}
    if a.curve:
        made.append(charts.curve_chart(a.curve, a.response))
    if a.curve and a.explanation:
        made.extend(explain_charts(a.explanation, a.curve))
    if a.axes:
        made.append(
            charts.ratio_chart(
                a.columns, a.rows, a.axes, a.response, by=a.by, baseline=a.baseline, labelled=a.ladder
            )
        )  # fmt: skip
    if a.bars:
        made.append(charts.bars_chart(a.bars, a.response, common_peak(a.records)))
    if a.bars:
        made.extend(space_charts(a.run, a.records, a.columns, a.rows, a.response, bars=a.bars, factors=_factors(a)))
    if a.search:
        made.append(charts.search_chart(a.search, a.response))
    if a.agreements:
        made.append(charts.model_chart(a.columns, a.rows, a.agreements, a.response))
    if a.slices:
        made.extend(charts.mix_charts(a.slices))
    made.extend(charts.effect_charts(a.effects, columns, a.rows, a.response))
    if a.interaction:
        made.append(charts.interaction_chart(a.interaction, a.response))
    return tuple(made)


def _factors(analysis: Analysis) -> tuple[Factor, ...]:
    """What differs between variants, the most influential first."""
    place = {effect.factor: number for number, effect in enumerate(analysis.effects)}
    found = factors(analysis.run, analysis.records)
    return tuple(sorted(found, key=lambda factor: place.get(factor.name, len(place))))


def pictures(analysis: Analysis, shown: tuple[Chart, ...]) -> tuple[Picture, ...]:
    """The PNGs: each shows what a chart of the page, or some of them side by side, shows at first.

    Args:
        analysis: What the charts were made from.
        shown: The page's charts.
    """
    a, name, what = analysis, analysis.run.experiment, _RESPONSES[analysis.response.basis]
    by_id = {chart.id: chart for chart in shown}
    made = []
    if a.curve:
        for number, choice in enumerate(by_id["curve"].choices):
            file = f"curve-{number + 1}.png" if number else "curve.png"
            part = f", {a.curve.parts[number]}" if a.curve.parts[number] else ""
            made.append(Picture(file, f"{name}: {what} against {a.curve.axis}{part}", (choice.drawing,)))
    first = {id_: chart.choices[0].drawing for id_, chart in by_id.items()}
    if "ratio" in first:
        title = f"{name}: {a.ratio.lower()} against {what}"
        made.append(Picture("ratio_vs_throughput.png", title, (first["ratio"],)))
    if "bars" in first:
        file, title = ("ladder.png", "each rung") if a.ladder else ("sweep.png", "the variants")
        made.append(Picture(file, f"{name}: {what} of {title}", (first["bars"],)))
    for id_, words in SPACE.items():
        if id_ in first:
            made.append(Picture(f"{id_}.png", f"{name}: {words.format(what)}", (first[id_],)))
    if "model" in by_id:
        both = tuple(choice.drawing for choice in by_id["model"].choices)
        made.append(Picture("model.png", f"{name}: predicted against measured throughput", both))
    if mixes := tuple(drawing for id_, drawing in first.items() if id_.startswith("mix-")):
        made.append(Picture("instruction_mix.png", f"{name}: instructions of the hot loop", mixes))
    if effects := tuple(drawing for id_, drawing in first.items() if id_.startswith("effect-")):
        title = f"{name}: main effects on {what} (mean, and range over the variants)"
        made.append(Picture("main_effects.png", title, effects))
    return tuple(made)
