"""The PNGs of a tuning run: a map of throughput in figures, as the Tensile paper prints it, one of kernels, ratios."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lab.report.charts import style
from lab.report.charts.png import DPI, FAINT, save
from lab.report.charts.style import INK
from lab.report.tuning.charts import colours
from lab.report.tuning.data import Analysis, Map, TypeReport, Winner

_SIDE = 10.0
_DARK = 0.55
"""Share of the map's range below which viridis is dark enough for white figures."""


def draw(analysis: Analysis, folder: Path) -> list[Path]:
    """Write the PNGs that have data."""
    made = []
    name = analysis.facts["tuning"]
    for one in analysis.types:
        for grid in one.maps:
            end = f"{one.label}, K = {grid.k} ({analysis.kind}, {analysis.gpu})"
            path = folder / f"throughput_{one.label}_{grid.k}.png"
            made.append(_throughput(path, grid, f"{name}: TFLOP/s of the fastest kernel, {end}"))
            path = folder / f"fastest_{one.label}_{grid.k}.png"
            made.append(_fastest(path, one, grid, f"{name}: fastest kernel, {end}"))
    if analysis.ratios:
        made.append(
            _sorted(folder / "ratios.png", analysis, f"{name}: size-tuned kernels ({analysis.kind}, {analysis.gpu})")
        )
    return made


def _figure(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(_SIDE, height), dpi=DPI, layout="constrained", facecolor="white")
    axis = figure.subplots()
    axis.spines[:].set_visible(False)
    axis.tick_params(colors=INK, labelsize=7, length=0)
    return figure, axis


def _sides(axis: Any, grid: Map) -> None:  # noqa: ANN401 - matplotlib's axes
    axis.set_xticks(range(len(grid.ns)), [str(n) for n in grid.ns], rotation=90)
    axis.set_yticks(range(len(grid.ms)), [str(m) for m in grid.ms])
    axis.set_xlabel("N", fontsize=9, color=INK)
    axis.set_ylabel("M", fontsize=9, color=INK)


def _places(grid: Map, value: Callable[[Winner], float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([
        [value(grid.cells[m, n]) if (m, n) in grid.cells else np.nan for n in grid.ns] for m in grid.ms
    ])  # fmt: skip


def _throughput(path: Path, grid: Map, title: str) -> Path:
    values = _places(grid, lambda winner: winner.tflops)
    figure, axis = _figure(1.2 + 0.3 * len(grid.ms))
    top = float(np.nanmax(values))
    axis.imshow(values, cmap="viridis", vmin=0, vmax=top, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            text = f"{value:.1f}" if value >= 1 else f"{value:.2f}"
            colour = "white" if value < _DARK * top else INK
            axis.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
    _sides(axis, grid)
    return save(figure, path, title)


def _fastest(path: Path, one: TypeReport, grid: Map, title: str) -> Path:
    """Kernels as numbers, in the order of their wins, with a list of their names below."""
    names = [facts.name for facts, _, _ in one.kernels if any(w.kernel == facts.name for w in grid.cells.values())]
    known = {name: _rgb(colour) for name, colour in colours(one).items()}
    figure, axis = _figure(1.6 + 0.3 * len(grid.ms) + 0.13 * len(names))
    picture = np.ones((len(grid.ms), len(grid.ns), 3))
    for row, m in enumerate(grid.ms):
        for column, n in enumerate(grid.ns):
            if (m, n) in grid.cells:
                name = grid.cells[m, n].kernel
                picture[row, column] = known.get(name, _rgb("#b8bcc2"))
                axis.text(column, row, str(names.index(name)), ha="center", va="center", fontsize=6, color=INK)
    axis.imshow(picture, aspect="auto")
    _sides(axis, grid)
    lines = [f"{i:>3} {name}" for i, name in enumerate(names)]
    axis.text(
        0, -0.1, "\n".join(lines), fontsize=5.5, family="monospace", va="top", color=INK, transform=axis.transAxes
    )
    return save(figure, path, title)


def _sorted(path: Path, analysis: Analysis, title: str) -> Path:
    figure, axis = _figure(4.4)
    axis.grid(color=FAINT, linewidth=0.5)
    axis.set_yscale("log")
    for i, ratios in enumerate(analysis.ratios):
        values: Sequence[float] = [ratio for ratio, _ in ratios.values]
        label = f"over {ratios.against}: geometric mean {ratios.mean:.2f}, "
        label += f"faster at {ratios.faster:.0%} of {len(values)} sizes"
        axis.plot(range(1, len(values) + 1), values, ".", color=style.series_colour(i), label=label)
    axis.axhline(1, color=style.BASELINE, linestyle=(0, (5, 4)), linewidth=1)
    axis.set_xlabel("sizes, sorted", fontsize=9, color=INK)
    axis.set_ylabel(f"throughput ratio ({analysis.kind})", fontsize=9, color=INK)
    axis.legend(fontsize=8, frameon=False)
    return save(figure, path, title)


def _rgb(colour: str) -> tuple[float, float, float]:
    """Of ``#rrggbb`` or ``hsl(h, s%, l%)``."""
    if colour.startswith("#"):
        return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))  # type: ignore[return-value]
    hue, saturation, light = (int(part) for part in re.findall(r"\d+", colour))
    return colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100)
