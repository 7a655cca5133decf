"""Figures that explain a curve: bytes moved, instructions and occupancy of each kernel's best variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lab.measured.timing import Kind, Merit
from lab.recorded.run_records import VariantRecord
from lab.report.columns import Column
from lab.report.facts import counted
from lab.report.facts.curves import Curve
from lab.store.figures import text


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure along the axis, of one kind or of two kinds side by side.

    Attributes:
        id: Part of the chart's id.
        title: Heading of its chart.
        columns: Names of the columns with it.
    """

    id: str
    title: str
    columns: tuple[str, ...]


FIGURES: Final = (
    Figure("bytes", "bytes moved per byte needed", ("moved_per_byte_needed", "counted_per_byte_needed")),
    Figure("occupancy", "occupancy", ("occupancy", "achieved_occupancy")),
    Figure("special", "exponentials and other special functions", ("executed_special_share",)),
    Figure("convert", "conversions between types", ("executed_convert_share",)),
)
"""Figures that explain the curve of a memory-bound operator."""


@dataclass(frozen=True, slots=True)
class ExplanatoryPoint:
    """A figure of one kernel's best variant at one value of the axis.

    Attributes:
        x: Value of the problem's field.
        name: The kernel's name.
        figure: `Figure.id`.
        kind: Kind of the figure.
        value: The figure.
        variant: Its id.
    """

    x: float
    name: str
    figure: str
    kind: Kind
    value: float
    variant: str


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """One kernel over the whole axis: a row of the table.

    Attributes:
        part: `CurvePoint.part`.
        name: The kernel's name.
        wins: Values of the axis where it is the fastest; empty where it never is.
        figures: Column name to the range of its figure as text; columns without a value are absent.
        waits: Most frequent reason for waiting of each profiled variant, each reason once.
    """

    part: str
    name: str
    wins: str
    figures: Mapping[str, str]
    waits: str


@dataclass(frozen=True, slots=True)
class CurveExplanation:
    """The content of the section that explains a curve.

    Attributes:
        figures: Those that have values other than zero.
        columns: Their columns, by name, in order.
        points: Points of the charts.
        families: The table, one row per kernel.
    """

    figures: tuple[Figure, ...]
    columns: Mapping[str, Column]
    points: tuple[ExplanatoryPoint, ...]
    families: tuple[KernelSummary, ...]


def explain(
    curve: Curve | None, records: Sequence[VariantRecord], columns: Iterable[Column], unit: str
) -> CurveExplanation | None:
    """Explain a curve; None without one, where throughput counts operations, or without emulation and counters."""
    if curve is None or unit is Merit.TFLOPS:
        return None
    columns_by_name, by_id = {column.name: column for column in columns}, {record.variant: record for record in records}
    points = [
        ExplanatoryPoint(point.x, point.name, figure.id, kind, float(value), point.variant)
        for point in curve.points
        if point.variant
        for figure in FIGURES
        for column in (columns_by_name[name] for name in figure.columns)
        if (kind := column.kind) is not None and isinstance(value := column.get(by_id[point.variant]), int | float)
    ]
    telling = {point.figure for point in points if point.value}
    figures = tuple(figure for figure in FIGURES if figure.id in telling)
    if not any(point.kind in (Kind.EMULATED, Kind.MEASURED) for point in points):
        return None
    telling_columns = {name: columns_by_name[name] for figure in figures for name in figure.columns}
    families = tuple(
        _summary(name, curve.only(facet), by_id, telling_columns)
        for facet in curve.parts
        for name in curve.only(facet).kernels
    )
    return CurveExplanation(
        figures, telling_columns, tuple(point for point in points if point.figure in telling), families
    )


def _summary(
    name: str,
    curve: Curve,
    by_id: Mapping[str, VariantRecord],
    columns: Mapping[str, Column],
) -> KernelSummary:
    best = [point for point in curve.points if point.name == name and point.variant]
    records = [by_id[point.variant] for point in best]
    figures = {key: _range(column, records) for key, column in columns.items()}
    waits = [counted.words(next(iter(r.profile.waits))) for r in records if r.profile and r.profile.waits]
    return KernelSummary(
        best[0].part,
        name,
        ranges(sorted({point.x for point in curve.points}), {point.x for point in best if point.best}),
        {key: words for key, words in figures.items() if words},
        ", ".join(dict.fromkeys(waits)),
    )


def _range(column: Column, records: Iterable[VariantRecord]) -> str:
    """Format the least and the greatest value of a column: ``1.00 to 1.25``; empty without values."""
    values = [value for record in records if isinstance(value := column.get(record), int | float)]
    if not values:
        return ""
    low, high = column.text(min(values)), column.text(max(values))
    return low if low == high else f"{low} to {high}"


def ranges(axis: Sequence[float], chosen: Iterable[float]) -> str:
    """Format chosen values of an axis with neighbours joined: ``256 to 1024, 4096``."""
    selected, runs = set(chosen), list[list[float]]()
    for before, x in zip([None, *axis], axis, strict=False):
        if x in selected:
            if before in selected:
                runs[-1].append(x)
            else:
                runs.append([x])
    return ", ".join(
        text(_plain(run[0])) if len(run) == 1 else f"{text(_plain(run[0]))} to {text(_plain(run[-1]))}" for run in runs
    )


def _plain(x: float) -> float | int:
    return int(x) if x.is_integer() else x
