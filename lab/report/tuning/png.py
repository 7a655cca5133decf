"""Draw the PNGs of a tuning run: maps of throughput, as in the Tensile paper, maps of kernels, and ratios."""

from __future__ import annotations

import colorsys
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lab.measured.timing import Kind
from lab.report.charts import style
from lab.report.charts.png import DPI, FAINT, save
from lab.report.charts.style import INK
from lab.report.tuning.tuning_rows import RATIOS_FILE, MapCell, MapChart, MapSubject, RatioChart, TuningCharts

_SIDE = 10.0
_DARK = 0.55
"""Fraction of the map's range below which viridis is dark enough for white figures."""


def draw(charts: TuningCharts, folder: Path) -> list[Path]:
    """Write the PNGs.

    Returns:
        Their paths.
    """
    paths = []
    end = f"({charts.kind}, {charts.gpu})"
    for chart in charts.maps:
        for subject, drawn in ((MapSubject.THROUGHPUT, _throughput), (MapSubject.FASTEST, _fastest)):
            title = f"{charts.tuning}: {chart.title(subject)} {end}"
            paths.append(save(drawn(chart), folder / chart.file(subject), title))
    if charts.ratios:
        figure = _sorted(charts.ratios, charts.kind)
        paths.append(save(figure, folder / RATIOS_FILE, f"{charts.tuning}: size-tuned kernels {end}"))
    return paths


def _figure(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(_SIDE, height), dpi=DPI, layout="constrained", facecolor="white")
    axis = figure.subplots()
    axis.spines[:].set_visible(False)
    axis.tick_params(colors=INK, labelsize=7, length=0)
    return figure, axis


def _sides(axis: Any, chart: MapChart) -> None:  # noqa: ANN401 - matplotlib's axes
    axis.set_xticks(range(len(chart.ns)), [str(n) for n in chart.ns], rotation=90)
    axis.set_yticks(range(len(chart.ms)), [str(m) for m in chart.ms])
    axis.set_xlabel("N", fontsize=9, color=INK)
    axis.set_ylabel("M", fontsize=9, color=INK)


def _place(chart: MapChart, cell: MapCell) -> tuple[int, int]:
    """Return the row and column of a cell."""
    return chart.ms.index(cell.m), chart.ns.index(cell.n)


def _throughput(chart: MapChart) -> Figure:
    """Draw throughput as a colour and in figures."""
    values: NDArray[np.float64] = np.full((len(chart.ms), len(chart.ns)), np.nan)  # rows: M, columns: N
    for cell in chart.cells:
        values[_place(chart, cell)] = cell.winner.tflops
    figure, axis = _figure(1.2 + 0.3 * len(chart.ms))
    top = float(np.nanmax(values))
    axis.imshow(values, cmap="viridis", vmin=0, vmax=top, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            text = f"{value:.1f}" if value >= 1 else f"{value:.2f}"
            colour = "white" if value < _DARK * top else INK
            axis.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
    _sides(axis, chart)
    return figure


def _fastest(chart: MapChart) -> Figure:
    """Draw kernels as numbers, in the order of their wins, with a list of their names below."""
    figure, axis = _figure(1.6 + 0.3 * len(chart.ms) + 0.13 * len(chart.kernels))
    picture: NDArray[np.float64] = np.ones((len(chart.ms), len(chart.ns), 3))  # M, N, and red, green, blue
    for cell in chart.cells:
        row, column = _place(chart, cell)
        picture[row, column] = _rgb(chart.colours[cell.group])
        axis.text(column, row, str(cell.number), ha="center", va="center", fontsize=6, color=INK)
    axis.imshow(picture, aspect="auto")
    _sides(axis, chart)
    lines = [f"{i:>3} {name}" for i, name in enumerate(chart.kernels)]
    axis.text(
        0, -0.1, "\n".join(lines), fontsize=5.5, family="monospace", va="top", color=INK, transform=axis.transAxes
    )
    return figure


def _sorted(charts: tuple[RatioChart, ...], kind: Kind) -> Figure:
    """Draw a curve for each comparison."""
    figure, axis = _figure(4.4)
    axis.grid(color=FAINT, linewidth=0.5)
    axis.set_yscale("log")
    for i, chart in enumerate(charts):
        label = f"over {chart.against}: geometric mean {chart.mean:.2f}, "
        label += f"faster at {chart.faster:.0%} of {len(chart.points)} sizes"
        places, ratios = [point.place for point in chart.points], [point.ratio for point in chart.points]
        axis.plot(places, ratios, ".", color=style.series_colour(i), label=label)
    axis.axhline(1, color=style.BASELINE, linestyle=(0, (5, 4)), linewidth=1)
    axis.set_xlabel("sizes, sorted", fontsize=9, color=INK)
    axis.set_ylabel(f"throughput ratio ({kind})", fontsize=9, color=INK)
    axis.legend(fontsize=8, frameon=False)
    return figure


_HEXADECIMAL = re.compile(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})")
_HSL = re.compile(r"hsl\((\d+), (\d+)%, (\d+)%\)")


def _rgb(colour: str) -> tuple[float, float, float]:
    """Return red, green and blue, 0 to 1, of ``#rrggbb`` or ``hsl(h, s%, l%)``."""
    if match := _HEXADECIMAL.fullmatch(colour):
        red, green, blue = (int(channel, 16) / 255 for channel in match.groups())
        return red, green, blue
    match = _HSL.fullmatch(colour)
    assert match is not None  # noqa: S101 - `rows` makes no other
    hue, saturation, light = (int(channel) for channel in match.groups())
    return colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100)
