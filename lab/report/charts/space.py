"""Charts of a space of variants: roofline, Pareto front, speed-up over a variant, parallel coordinates.

Each is left out where it would be empty: for one variant, or without its figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lab.base.errors import UserError
from lab.hardware.gpus import gpu_for
from lab.measured.timing import Kind, Merit
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.report.charts import rows as chartdata
from lab.report.charts import style
from lab.report.charts.charts import COMPARED, RECORDS, hover_names, tips
from lab.report.charts.definition import (
    Axis,
    Chart,
    Choice,
    Data,
    Parallel,
    Relative,
    Row,
    Scale,
    Scatter,
    Tip,
    Trace,
)
from lab.report.charts.rows import Bar
from lab.report.columns import Column, Value
from lab.report.facts.effects import Factor
from lab.store import figures
from lab.store.figures import Response, name_of, text

FEWEST: Final = 2
"""Fewest variants for which a space has a chart."""

MOST_POINTS: Final = 1000
"""Most variants a roofline draws singly; beyond that, indistinguishable ones become one point."""

CELLS: Final = 48
"""Cells per doubling along the axes of such a roofline; a point covers about one."""

MOST_LINES: Final = 300
"""Most lines across parallel axes; beyond that, only the best and the worst variants are drawn."""

MOST_TICKS: Final = 12
"""Most labels along one of the parallel axes."""

MOST_AXES: Final = 8
"""Most parallel axes of parameters."""


@dataclass(frozen=True, slots=True)
class _Intensity:
    """A definition of arithmetic intensity for the roofline.

    Attributes:
        label: Label on the switch.
        title: Title of the axis.
        kind: Kind of the figures.
        of: Return the FLOP per byte of a record; None where it is not known.
    """

    label: str
    title: str
    kind: Kind
    of: Callable[[VariantRecord], float | None]


def _least(record: VariantRecord) -> float | None:
    return record.flops / record.bytes_moved if record.flops and record.bytes_moved else None


def _executed(record: VariantRecord) -> float | None:
    """Return FLOP per byte with FMA counting as two; None for kernels with tensor-core instructions."""
    executed = record.emulation.executed if record.emulation else None
    traffic = figures.emulated_traffic(record, *figures.GLOBAL)
    if executed is None or traffic is None or executed.threads_by_class.get("mma"):
        return None
    return 2 * executed.threads_by_class.get("fma", 0) / traffic.bytes_moved or None


INTENSITIES: Final = (
    _Intensity("sectors requested", "operations per byte of the global sectors requested", Kind.EMULATED, _executed),
    _Intensity("least DRAM traffic", "operations per byte that the problem must move", Kind.STATIC, _least),
)
"""Traffic the kernel requests from L2, and the least traffic of the problem, equal for all its variants."""


def roofline_chart(records: Sequence[VariantRecord], response: Response) -> Chart | None:
    """Return the roofline: throughput against FLOP per byte, below the GPU's peak and memory bandwidth.

    Args:
        records: Every variant.
        response: What stands on the vertical axis.

    Returns:
        None where throughput counts bytes, or the variants' peaks differ, or the memory bandwidth is not known.
    """
    peak = chartdata.common_peak(records)
    bandwidth = _bandwidth(records)
    plotted = [(place, record) for place, record in enumerate(records) if response.of(record)]
    if response.unit is not Merit.TFLOPS or not peak or not bandwidth or len(plotted) < FEWEST:
        return None
    names = chartdata.names([record for _, record in plotted])
    choices = []
    for intensity in INTENSITIES:
        rows: list[Row] = [
            {"record": place, "name": names[r.variant], "x": round(x, 4), "y": y}
            for place, r in plotted
            if (x := intensity.of(r)) and (y := response.of(r)) is not None
        ]
        if len(rows) < FEWEST:
            continue
        rows, note = _apart(rows)
        intensities, least = ([_value(row, name) for row in rows] for name in "xy")
        ridge = peak * 1e3 / bandwidth
        low, high = min(*intensities, ridge) / 2, max(*intensities, ridge) * 2
        low = min(low, min(least) * 1e3 / bandwidth)  # the slope begins beside the lowest point
        roof = Trace(((ridge, peak), (high, peak)), f"peak {peak:.1f} TFLOP/s", style.ACCENT)
        slope = Trace(((low, low * bandwidth / 1e3), (ridge, peak)), f"DRAM {bandwidth:.0f} GB/s", style.BASELINE)
        drawing = Scatter(
            Data(rows),
            Axis("x", f"{intensity.title} (FLOP/B, {intensity.kind}){note}", Scale.LOG2),
            Axis("y", response.axis, Scale.LOG2),
            style.MEASURED,
            traces=(slope, roof),
            tips=(
                Tip("name", "variant"),
                Tip("x", f"FLOP/B, {intensity.kind}", ".2f"),
                Tip("y", f"{response.kind} ({response.unit})", response.format),
            ),
        )
        choices.append(Choice(intensity.label, drawing))
    return Chart("roofline", f"roofline: {response.kind} {response.title}", tuple(choices)) if choices else None


def _apart(rows: list[Row]) -> tuple[list[Row], str]:
    """Merge points that are indistinguishable on logarithmic axes; return them with a note for the chart."""
    if len(rows) <= MOST_POINTS:
        return rows, ""
    best: dict[tuple[int, int], Row] = {}
    for row in sorted(rows, key=lambda row: -_value(row, "y")):
        x, y = (round(CELLS * math.log2(_value(row, name))) for name in "xy")
        best.setdefault((x, y), row)
    distinct = sorted(best.values(), key=lambda row: _value(row, "record"))
    return distinct, f"; {len(distinct):,} points for {len(rows):,} variants"


def _value(row: Row, name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, int | float) else math.nan


def _bandwidth(records: Sequence[VariantRecord]) -> float | None:
    """Return the memory bandwidth in GB/s of the GPU all predictions are for; None where there is not one."""
    gpus = {record.prediction.gpu for record in records if record.prediction}
    try:
        return gpu_for(gpus.pop()).dram_gb_s if len(gpus) == 1 else None
    except UserError:  # a GPU that the table lacks
        return None


COSTS: Final = ("registers", "shared_bytes", "emulated_excess", "spill_bytes")
"""Columns of a variant's costs; less is better."""


def pareto_chart(columns: Sequence[Column], rows: Sequence[Row], response: Response) -> Chart | None:
    """Return throughput against cost, with the Pareto front of the variants.

    Args:
        columns: Every column.
        rows: Each record's cells by column key.
        response: What stands on the vertical axis.

    Returns:
        None where no cost differs between variants, or the run has several problems, which do not compete.
    """
    columns_by_name = {column.name: column for column in columns}
    choices = []
    for name in COSTS:
        column = columns_by_name.get(name)
        if column is None:
            continue
        data = Data(rows, RECORDS, COMPARED, (column.key, response.column))
        points = {
            (float(x), float(y))
            for cells in data.rows
            if isinstance(x := cells[column.key], int | float) and isinstance(y := cells[response.column], int | float)
        }
        if len({x for x, _ in points}) < FEWEST:
            continue
        edge = front(points)
        drawing = Scatter(
            data,
            Axis(column.key, f"{column.header} ({column.kind})", zero=False),
            Axis(response.column, response.axis, zero=False),
            style.MEASURED,
            traces=(Trace(stairs(edge), "", style.ACCENT),),
            caption=f"{len(edge)} of {len(points)} points are Pareto-optimal",
            tips=tips(columns, [*hover_names(columns, response), name]),
        )
        choices.append(Choice(column.title, drawing))
    return Chart("pareto", f"{response.title} against cost", tuple(choices)) if choices else None


def front(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return the Pareto front: the points no other point beats in cost or figure without losing in the other.

    Args:
        points: Cost and figure of each.

    Returns:
        In the order of the cost, which is that of the figure, too; each place once.
    """
    edge: list[tuple[float, float]] = []
    for x, y in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not edge or y > edge[-1][1]:
            edge.append((x, y))
    return tuple(edge)


def stairs(edge: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return the corners of the staircase above all points, which rises only at points."""
    corners = [edge[0]]
    for x, y in edge[1:]:
        corners += [(x, corners[-1][1]), (x, y)]
    return tuple(corners)


def speedup_chart(bars: Sequence[Bar], records: Sequence[VariantRecord], response: Response) -> Chart | None:
    """Return each bar's figure over that of a chosen one, at first the first variant of the experiment.

    Args:
        bars: As they are drawn elsewhere.
        records: Every variant, in the experiment's order.
        response: The quantity shown as the bars' lengths.

    Returns:
        None for fewer than two variants with a figure above 0.
    """
    place = {record.variant: number for number, record in enumerate(records)}
    own = [bar for bar in bars if bar.variant and bar.value > 0]
    if len(own) < FEWEST:
        return None
    first = min(own, key=lambda bar: place.get(bar.variant, len(place)))
    names, heading = chartdata.row_names([bar.name for bar in bars])
    drawing = Relative(
        Data([bar.row for bar in bars], "bars"),
        "value",
        Axis("ratio", f"ratio of {response.title} ({response.kind})"),
        Axis("name", scale=Scale.CATEGORY, order=tuple(bar.name for bar in bars)),
        first.name,
        tuple(names),
        heading,
        (Tip("name", "variant"), Tip("value", f"{response.kind} ({response.unit})", response.format)),
    )
    return Chart("speedup", f"ratios of {response.kind} {response.title}", (Choice("", drawing),))


def parallel_chart(factors: Sequence[Factor], records: Sequence[VariantRecord], response: Response) -> Chart | None:
    """Return each variant as a line across its parameters to its throughput.

    Args:
        factors: What differs between variants, the most influential first.
        records: Every variant.
        response: The figure at the end.

    Returns:
        None for fewer than two factors that variants with a figure have, or fewer than two such variants.
    """
    answered = ((place, y) for place, r in enumerate(records) if (y := response.of(r)) is not None)
    ranked = sorted(answered, key=lambda pair: -pair[1])
    if len(ranked) > MOST_LINES:
        ranked = [*ranked[: MOST_LINES // 2], *ranked[-MOST_LINES // 2 :]]
    # a parameter of variants that all failed has no place on the chart
    placed = [(factor, _places([factor.of(records[place]) for place, _ in ranked])) for factor in factors]
    places = {factor.name: positions for factor, positions in placed if positions}
    chosen = tuple(factor for factor, positions in placed if positions)[:MOST_AXES]
    if len(chosen) < FEWEST or len(ranked) < FEWEST or ranked[0][1] == ranked[-1][1]:
        return None
    end = response.title
    top, bottom = ranked[0][1], ranked[-1][1]
    rows: list[Row] = []
    for place, value in ranked:
        record = records[place]
        common: dict[str, Value] = {"record": place, "name": name_of(record), "value": value}
        for factor in chosen:
            at = places[factor.name].get(text(factor.of(record)))
            if at is not None:
                rows.append({**common, "axis": factor.name, "place": at})
        rows.append({**common, "axis": end, "place": round((value - bottom) / (top - bottom), 4)})
    ticks = [_ticks(places[factor.name]) for factor in chosen]
    ends = tuple((f"{bottom + fraction * (top - bottom):.4g}", fraction) for fraction in (0.0, 0.5, 1.0))
    drawing = Parallel(
        Data(rows),
        (*(factor.name for factor in chosen), end),
        (*ticks, ends),
        "value",
        response.axis,
        (Tip("name", "variant"), Tip("value", f"{response.kind} ({response.unit})", response.format)),
    )
    return Chart("parallel", f"parameters and {response.kind} {response.title}", (Choice("", drawing),))


def _places(values: Sequence[object]) -> Mapping[str, float]:
    """Return each distinct value's text with its position from 0 to 1: evenly spaced, numbers in order."""
    distinct = {text(value): value for value in values if value is not None}
    numbers = {key: float(value) for key, value in distinct.items() if isinstance(value, int | float)}
    order = sorted(distinct, key=lambda key: numbers[key]) if len(numbers) == len(distinct) else sorted(distinct)
    return {key: number / max(1, len(order) - 1) for number, key in enumerate(order)}


def _ticks(places: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    every = -(-len(places) // MOST_TICKS)
    return tuple(places.items())[::every]


def space_charts(
    run: RunRecord,
    records: tuple[VariantRecord, ...],
    columns: Sequence[Column],
    rows: Sequence[Row],
    response: Response,
    *,
    bars: Sequence[Bar],
    factors: Sequence[Factor],
) -> tuple[Chart, ...]:
    """Return every chart of this module that applies to a run.

    Args:
        run: The run's facts.
        records: Its records.
        columns: Every column.
        rows: Each record's cells by column key.
        response: The quantity variants are compared by.
        bars: One a variant, as they are drawn elsewhere.
        factors: What differs between variants, the most influential first.
    """
    alone = len(figures.by_problem(run, records)) == 1  # variants of several problems do not compete
    charts = (
        speedup_chart(bars, records, response) if alone else None,
        roofline_chart(records, response),
        pareto_chart(columns, rows, response) if alone else None,
        parallel_chart(factors, records, response),
    )
    return tuple(chart for chart in charts if chart is not None)
