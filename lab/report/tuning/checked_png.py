"""The map of a library's check: throughput over cuBLAS by the size of C and by k."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from lab.base.sizes import extents
from lab.library.checked_sizes import CheckedSize, summaries
from lab.report.charts.png import DPI, save
from lab.report.charts.style import INK

_SIDE, _LEAST, _MOST = 4.2, 0.5, 1.5
"""Inches of a panel; ratios at the ends of the colours."""


def draw(rows: Sequence[CheckedSize], file: Path, title: str) -> Path:
    """Write the map: a panel per layout and a dot per size, coloured by throughput over cuBLAS.

    Args:
        rows: At least one with a ratio.
        file: The PNG.
        title: Title of the picture.
    """
    layouts = sorted({row.layout for row in rows})
    figure = Figure(figsize=(_SIDE * len(layouts) + 0.9, _SIDE), dpi=DPI, layout="constrained", facecolor="white")
    panels = np.atleast_1d(figure.subplots(1, len(layouts), sharex=True, sharey=True))
    by_name = {layout_summary.name: layout_summary for layout_summary in summaries(rows)}
    dots = None
    for panel, layout in zip(panels, layouts, strict=True):
        own = [(extents(row.size), row.ratio) for row in rows if row.layout == layout and row.ratio is not None]
        of_c = [(m * n) ** 0.5 for (m, n, _, _), _ in own]
        colours = TwoSlopeNorm(1.0, _LEAST, _MOST)
        depths, ratios = [k for (_, _, k, _), _ in own], [ratio for _, ratio in own]
        dots = panel.scatter(of_c, depths, c=ratios, s=16, cmap="RdBu", norm=colours, lw=0.2, ec=INK)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log", base=2)
        summary = by_name[layout]
        text = f"{layout}: {summary.mean:.2f} in the mean, faster at {summary.faster:.0%} of {summary.sizes}"
        panel.set_title(text, fontsize=8, color=INK)
        panel.set_xlabel("geometric mean of m and n", fontsize=8, color=INK)
        panel.tick_params(colors=INK, labelsize=7)
    panels[0].set_ylabel("k", fontsize=8, color=INK)
    if dots is not None:
        bar = figure.colorbar(dots, ax=list(panels), extend="both", shrink=0.9)
        bar.set_label("throughput over cuBLAS's", fontsize=8, color=INK)
        bar.ax.tick_params(labelsize=7)
    return save(figure, file, title)
