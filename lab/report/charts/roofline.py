"""The roofline of a space of variants; left out for one variant, or without its figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lab.base.errors import UserError
from lab.hardware.gpus import gpu_for
from lab.measured.timing import Kind, Merit
from lab.recorded.run_records import VariantRecord
from lab.report.charts import rows as chartdata
from lab.report.charts import style
from lab.report.charts.definition import (
    Axis,
    Chart,
    Choice,
    Data,
    Row,
    Scale,
    Scatter,
    Tip,
    Trace,
)
from lab.store import figures
from lab.store.figures import Response

FEWEST: Final = 2
"""Fewest variants for which a space has a chart."""

MOST_POINTS: Final = 1000
"""Most variants a roofline draws singly; beyond that, indistinguishable ones become one point."""

CELLS: Final = 48
"""Cells per doubling along the axes of such a roofline; a point covers about one."""


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
        if len({_value(row, "x") for row in rows}) < FEWEST:
            continue  # points above each other say no more than bars
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
