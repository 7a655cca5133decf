"""The small charts that explain a curve: one figure each, a colour a kernel as in the curve itself."""

from __future__ import annotations

from typing import Any, Final

import altair as typed  # noqa: ICN001 - as in `lab.report.charts.charts`

from lab.measured.timing import Kind
from lab.report.charts import style
from lab.report.charts.charts import Chart, Choice, Spec, finish
from lab.report.facts.curves import Curve
from lab.report.facts.explain import CurveExplanation, Figure

alt: Any = typed  # its annotations refuse values that are only known at run time
_HEIGHT: Final = 190


def explain_charts(explanation: CurveExplanation, found: Curve) -> tuple[Chart, ...]:
    """One small chart a figure along the curve's axis, a choice for each part as the curve has it.

    Lines are predicted or emulated, dots measured.
    """
    return tuple(
        Chart(
            f"explain-{figure.id}",
            f"{figure.title} against {found.axis}",
            tuple(Choice(part or "curve", _spec(figure, found, part)) for part in found.parts),
        )
        for figure in explanation.figures
    )


def _spec(figure: Figure, found: Curve, part: str) -> Spec:
    colours = [style.series_colour(i) for i in range(len(found.kernels))]
    colour = alt.Color(
        field="name", type="nominal", scale=alt.Scale(domain=list(found.kernels), range=colours), legend=None
    )
    scale = alt.Scale(type="log", base=2) if found.wide else alt.Scale(zero=False, nice=False)
    x_axis = alt.X(field="x", type="quantitative", title=found.axis, scale=scale)
    # a byte moved per byte needed is a number around 1, everything else here is a share
    shown = ".2~f" if figure.id == "bytes" else ".0%"
    value = alt.Y(
        field="value", type="quantitative", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(format=shown)
    )
    tooltip = [
        alt.Tooltip(field="name", type="nominal", title="kernel"),
        alt.Tooltip(field="x", type="quantitative", title=found.axis),
        alt.Tooltip(field="value", type="quantitative", title=figure.title, format=".2f" if shown == ".2~f" else ".1%"),
        alt.Tooltip(field="kind", type="nominal", title="kind"),
        alt.Tooltip(field="label", type="nominal", title="variant"),
    ]
    mine = alt.Chart(alt.NamedData("explain")).transform_filter(alt.FieldEqualPredicate(field="part", equal=part))
    base = mine.transform_filter(alt.FieldEqualPredicate(field="figure", equal=figure.id)).encode(
        x=x_axis, y=value, color=colour, tooltip=tooltip
    )
    measured = f"datum.kind === '{Kind.MEASURED}'"
    lines = base.transform_filter(f"!({measured})").mark_line(strokeWidth=1.4)
    dots = base.transform_filter(measured).mark_point(filled=True, size=42, opacity=1, cursor="pointer")
    return finish(alt.layer(lines, dots), _HEIGHT)
