"""Definitions of the small charts that explain a curve: one figure each, in the curve's colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.measured.timing import Kind
from lab.report.charts import style
from lab.report.charts.charts import along
from lab.report.charts.definition import Axis, Chart, Choice, Colours, Data, Lines, Row, Shade, Ticks, Tip
from lab.report.facts.curve_explanation import CurveExplanation, Figure
from lab.report.facts.curves import Curve

_HEIGHT: Final = 190


def explained_rows(explanation: CurveExplanation, curve: Curve) -> list[Row]:
    """Return the figures that explain a curve, each beside its point of the curve."""
    points = {point.variant: point for point in curve.points if point.variant}
    return [
        {
            "x": (point := points[explained.variant]).x,
            "name": point.name,
            "label": point.label,
            "part": point.part,
            "figure": explained.figure,
            "kind": str(explained.kind),
            "value": explained.value,
        }
        for explained in explanation.points
    ]


def explain_charts(explanation: CurveExplanation, curve: Curve) -> tuple[Chart, ...]:
    """Return a small chart per figure along the curve's axis, with a choice per facet of the curve.

    Lines are predicted or emulated, dots measured.
    """
    rows = explained_rows(explanation, curve)
    return tuple(
        Chart(
            f"explain-{figure.id}",
            f"{figure.title} against {curve.axis}",
            tuple(Choice(facet or "curve", _lines(figure, curve, facet, rows)) for facet in curve.parts),
        )
        for figure in explanation.figures
    )


def _lines(figure: Figure, curve: Curve, facet: str, rows: Sequence[Row]) -> Lines:
    share = figure.id != "bytes"  # bytes moved per byte needed are a number around 1, all other figures are shares
    shades = tuple(Shade(name, style.series_colour(index)) for index, name in enumerate(curve.kernels))
    return Lines(
        Data(rows, "explain", {"part": (facet,), "figure": (figure.id,)}),
        along(curve),
        Axis("value", ticks=Ticks.PERCENT if share else Ticks.RATIO),
        Colours("name", shades, legend=False),
        dots=("kind", str(Kind.MEASURED)),
        height=_HEIGHT,
        tips=(
            Tip("name", "kernel"),
            Tip("x", curve.axis),
            Tip("value", figure.title, ".1%" if share else ".2f"),
            Tip("kind", "kind"),
            Tip("label", "variant"),
        ),
    )
