"""The definitions of the small charts that explain a curve: one figure each, in the colours of the curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.measured.timing import Kind
from lab.report.charts import style
from lab.report.charts.charts import along
from lab.report.charts.definition import Axis, Chart, Choice, Colours, Data, Lines, Row, Shade, Ticks, Tip
from lab.report.facts.curves import Curve
from lab.report.facts.explain import CurveExplanation, Figure

_HEIGHT: Final = 190


def explained_rows(explanation: CurveExplanation, found: Curve) -> list[Row]:
    """What explains the curve: each figure's kind and value beside the point of the curve that it is of."""
    points = {point.variant: point for point in found.points if point.variant}
    return [
        {
            "x": (point := points[one.variant]).x,
            "name": point.name,
            "label": point.label,
            "part": point.part,
            "figure": one.figure,
            "kind": str(one.kind),
            "value": one.value,
        }
        for one in explanation.points
    ]


def explain_charts(explanation: CurveExplanation, found: Curve) -> tuple[Chart, ...]:
    """One small chart for each figure along the curve's axis, with a choice for each part of the curve.

    Lines are predicted or emulated, dots measured.
    """
    rows = explained_rows(explanation, found)
    return tuple(
        Chart(
            f"explain-{figure.id}",
            f"{figure.title} against {found.axis}",
            tuple(Choice(part or "curve", _lines(figure, found, part, rows)) for part in found.parts),
        )
        for figure in explanation.figures
    )


def _lines(figure: Figure, found: Curve, part: str, rows: Sequence[Row]) -> Lines:
    share = figure.id != "bytes"  # bytes moved per byte needed are a number around 1, all other figures are shares
    shades = tuple(Shade(name, style.series_colour(index)) for index, name in enumerate(found.kernels))
    return Lines(
        Data(rows, "explain", {"part": (part,), "figure": (figure.id,)}),
        along(found),
        Axis("value", ticks=Ticks.PERCENT if share else Ticks.RATIO),
        Colours("name", shades, legend=False),
        dots=("kind", str(Kind.MEASURED)),
        height=_HEIGHT,
        tips=(
            Tip("name", "kernel"),
            Tip("x", found.axis),
            Tip("value", figure.title, ".1%" if share else ".2f"),
            Tip("kind", "kind"),
            Tip("label", "variant"),
        ),
    )
