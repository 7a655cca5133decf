"""The PNGs of a tuning run: a map of throughput in figures, as the Tensile paper prints it, one of kernels, ratios."""

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
from lab.report.tuning.rows import RATIOS_FILE, MapCell, MapChart, MapSubject, RatioChart, TuningCharts

_SIDE = 10.0
_DARK = 0.55
"""Share of the map's range below which viridis is dark enough for white figures."""


def draw(charts: TuningCharts, folder: Path) -> list[Path]:
    """Write the PNGs.

    Returns:
        Their paths.
    """
    made = []
    end = f"({charts.kind}, {charts.gpu})"
    for one in charts.maps:
        for subject, drawn in ((MapSubject.THROUGHPUT, _throughput), (MapSubject.FASTEST, _fastest)):
            title = f"{charts.tuning}: {one.title(subject)} {end}"
            made.append(save(drawn(one), folder / one.file(subject), title))
    if charts.ratios:
        figure = _sorted(charts.ratios, charts.kind)
        made.append(save(figure, folder / RATIOS_FILE, f"{charts.tuning}: size-tuned kernels {end}"))
    return made


def _figure(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(_SIDE, height), dpi=DPI, layout="constrained", facecolor="white")
    axis = figure.subplots()
    axis.spines[:].set_visible(False)
    axis.tick_params(colors=INK, labelsize=7, length=0)
    return figure, axis


def _sides(axis: Any, one: MapChart) -> None:  # noqa: ANN401 - matplotlib's axes
    axis.set_xticks(range(len(one.ns)), [str(n) for n in one.ns], rotation=90)
    axis.set_yticks(range(len(one.ms)), [str(m) for m in one.ms])
    axis.set_xlabel("N", fontsize=9, color=INK)
    axis.set_ylabel("M", fontsize=9, color=INK)


def _place(one: MapChart, cell: MapCell) -> tuple[int, int]:
    """Row and column of a cell."""
    return one.ms.index(cell.m), one.ns.index(cell.n)


def _throughput(one: MapChart) -> Figure:
    """Throughput as a colour and in figures."""
    values: NDArray[np.float64] = np.full((len(one.ms), len(one.ns)), np.nan)  # rows: M, columns: N
    for cell in one.cells:
        values[_place(one, cell)] = cell.winner.tflops
    figure, axis = _figure(1.2 + 0.3 * len(one.ms))
    top = float(np.nanmax(values))
    axis.imshow(values, cmap="viridis", vmin=0, vmax=top, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            text = f"{value:.1f}" if value >= 1 else f"{value:.2f}"
            colour = "white" if value < _DARK * top else INK
            axis.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
    _sides(axis, one)
    return figure


def _fastest(one: MapChart) -> Figure:
    """Kernels as numbers, in the order of their wins, with a list of their names below."""
    figure, axis = _figure(1.6 + 0.3 * len(one.ms) + 0.13 * len(one.kernels))
    picture: NDArray[np.float64] = np.ones((len(one.ms), len(one.ns), 3))  # M, N, and red, green, blue
    for cell in one.cells:
        row, column = _place(one, cell)
        picture[row, column] = _rgb(one.colours[cell.group])
        axis.text(column, row, str(cell.number), ha="center", va="center", fontsize=6, color=INK)
    axis.imshow(picture, aspect="auto")
    _sides(axis, one)
    lines = [f"{i:>3} {name}" for i, name in enumerate(one.kernels)]
    axis.text(
        0, -0.1, "\n".join(lines), fontsize=5.5, family="monospace", va="top", color=INK, transform=axis.transAxes
    )
    return figure


def _sorted(charts: tuple[RatioChart, ...], kind: Kind) -> Figure:
    """A curve for each thing that is compared with."""
    figure, axis = _figure(4.4)
    axis.grid(color=FAINT, linewidth=0.5)
    axis.set_yscale("log")
    for i, one in enumerate(charts):
        label = f"over {one.against}: geometric mean {one.mean:.2f}, "
        label += f"faster at {one.faster:.0%} of {len(one.points)} sizes"
        places, ratios = [point.place for point in one.points], [point.ratio for point in one.points]
        axis.plot(places, ratios, ".", color=style.series_colour(i), label=label)
    axis.axhline(1, color=style.BASELINE, linestyle=(0, (5, 4)), linewidth=1)
    axis.set_xlabel("sizes, sorted", fontsize=9, color=INK)
    axis.set_ylabel(f"throughput ratio ({kind})", fontsize=9, color=INK)
    axis.legend(fontsize=8, frameon=False)
    return figure


_HEXADECIMAL = re.compile(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})")
_HSL = re.compile(r"hsl\((\d+), (\d+)%, (\d+)%\)")


def _rgb(colour: str) -> tuple[float, float, float]:
    """Red, green and blue, 0 to 1, of ``#rrggbb`` or ``hsl(h, s%, l%)``."""
    if found := _HEXADECIMAL.fullmatch(colour):
        red, green, blue = (int(part, 16) / 255 for part in found.groups())
        return red, green, blue
    found = _HSL.fullmatch(colour)
    assert found is not None  # noqa: S101 - `rows` makes no other
    hue, saturation, light = (int(part) for part in found.groups())
    return colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100)
