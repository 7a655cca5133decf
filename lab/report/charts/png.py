"""The PNGs, by matplotlib: made to be read in a README at 800 pixels.

Every title says what is shown, every axis its unit and kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter
from PIL import Image

from lab.measured.timing import Kind
from lab.report.charts import rows as chartdata
from lab.report.charts import style
from lab.report.charts.charts import axis_title
from lab.report.charts.rows import Bar, Slice, labelled_points, point_labels
from lab.report.columns import Column, Value
from lab.report.facts.agreement import Agreement
from lab.report.facts.curves import Curve
from lab.report.facts.effects import Effect
from lab.store.figures import Basis, Response, text
from lab.store.model import VariantRecord

DPI: Final = 160
COLOURS: Final = 128
"""Size of a PNG's palette."""
WIDTH: Final = 7.5
"""Inches: 1200 pixels, so that the text stays legible when a README shows them at 800."""

_MOST_LETTERS: Final = 90
"""Of tick labels side by side over the figure's width; more stand upright."""

_DARK: Final = ("variant", "baseline", "issue slots")
"""Groups of bars that are dark enough for white text."""
INK, FAINT = "#1f2328", "#d0d7de"


def _figure(height: float, columns: int = 1, rows: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:  # noqa: ANN401 - handed to matplotlib
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained", facecolor="white")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["left", "bottom"]].set_color(FAINT)
        axis.tick_params(colors=INK, labelsize=8, color=FAINT)
        axis.set_axisbelow(True)
    return figure, list(axes.flat)


def _plain(words: str) -> str:
    """Text that matplotlib does not take for mathematics."""
    return words.replace("$", r"\$")


def _short(words: str, limit: int = 44) -> str:
    return _plain(words if len(words) <= limit else words[: limit - 1] + "…")


def save(figure: Figure, path: Path, title: str) -> Path:
    """Write a figure under its title."""
    figure.suptitle(_plain(title), x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK, wrap=True)
    canvas: Any = FigureCanvasAgg(figure)  # its methods are untyped
    canvas.draw()
    # A palette suffices for flat colours and takes a third of the bytes: reports are committed.
    Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(
        path, optimize=True, dpi=(DPI, DPI)
    )
    return path


def ratio(
    path: Path,
    *,
    records: Sequence[VariantRecord],
    axis_column: Column,
    response: Response,
    by: tuple[Column, Sequence[Value]] | None,
    baseline: tuple[str, float] | None,
    labelled: bool,
    title: str,
) -> Path:
    """A ratio of the hot loop against the response."""
    figure, (axis,) = _figure(4.2)
    axis.grid(color=FAINT, linewidth=0.5)
    points = [
        (float(x), y, record)
        for record in records
        if (y := response.of(record)) is not None and isinstance(x := axis_column.get(record), int | float)
    ]
    groups: list[Value] = list(by[1]) if by else [None]  # at most eight: see `render.analyse`
    for index, group in enumerate(groups):
        mine = [p for p in points if by is None or text(by[0].get(p[2])) == text(group)]
        label = f"{by[0].title} = {text(group)}" if by else None
        colour = style.series_colour(index)
        axis.scatter([p[0] for p in mine], [p[1] for p in mine], s=38, color=colour, alpha=0.85, linewidths=0,
                     label=_plain(label) if label else None)  # fmt: skip
        timed = [(x, record.rate, record.measurement.samples) for x, _, record in mine if record.measurement]
        if response.kind is Kind.MEASURED and timed:
            low = [rate(samples.p80) for _, rate, samples in timed]
            high = [rate(samples.p20) for _, rate, samples in timed]
            axis.vlines([x for x, *_ in timed], low, high, color=colour, linewidth=1, alpha=0.6)
    if labelled:
        for x, y, words in point_labels(labelled_points(records, axis_column, response)):
            axis.annotate(
                _short(words), (x, y), xytext=(0, 6), textcoords="offset points", ha="center", fontsize=8, color=INK
            )
    if baseline:
        axis.axhline(baseline[1], color=style.BASELINE, linestyle=(0, (5, 4)), linewidth=1)
        axis.annotate(_plain(f"{baseline[0]} {baseline[1]:.1f}"), (0, baseline[1]), xycoords=("axes fraction", "data"),
                      xytext=(4, 3), textcoords="offset points", fontsize=8, color=style.BASELINE)  # fmt: skip
    axis.set_ylim(bottom=0)
    axis.margins(x=0.06)
    axis.set_xlabel(_plain(axis_title(axis_column)), fontsize=9, color=INK)
    axis.set_ylabel(response.axis, fontsize=9, color=INK)
    if axis_column.format.endswith("%"):
        axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    if by:
        axis.legend(fontsize=8, frameon=False, loc="best")
    return save(figure, path, title)


def model(path: Path, found: Sequence[Agreement], response: Response, *, title: str) -> Path:
    """Predicted against measured throughput, side by side; on the line they agree."""
    figure, axes = _figure(4.2, columns=len(found))
    for axis, one in zip(axes, found, strict=True):
        axis.grid(color=FAINT, linewidth=0.5)
        measured, predicted = [x for _, x, _ in one.points], [y for *_, y in one.points]
        most = 1.05 * max(*measured, *predicted)
        axis.plot([0, most], [0, most], color=style.BASELINE, linestyle=(0, (5, 4)), linewidth=1)
        axis.scatter(measured, predicted, s=30, color=style.PREDICTED, alpha=0.85, linewidths=0)
        axis.set_xlim(0, most)
        axis.set_ylim(0, most)
        axis.set_xlabel(f"throughput ({response.unit}, measured)", fontsize=9, color=INK)
        axis.set_ylabel(f"{one.name} ({response.unit}, predicted)", fontsize=9, color=INK)
        rank = "" if one.correlation is None else f", rank correlation {one.correlation:.2f}"
        axis.set_title(f"median error {one.error:.1%}{rank}, n = {len(one.points)}", fontsize=9, color=INK)
    return save(figure, path, title)


def curve(path: Path, found: Curve, response: Response, *, title: str) -> Path:
    """Throughput along a problem axis, and below it a strip with the fastest kernel at each value."""
    figure = Figure(figsize=(WIDTH, 4.6), dpi=DPI, layout="constrained", facecolor="white")
    axis, strip = figure.subplots(2, 1, sharex=True, height_ratios=(12, 1))
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color=FAINT, linewidth=0.5)
    xs = sorted({point.x for point in found.points})
    edges = [xs[0], *((a + b) / 2 for a, b in pairwise(xs)), xs[-1]]
    for i, name in enumerate(found.kernels):
        mine, colour = [p for p in found.points if p.name == name], style.series_colour(i)
        axis.plot([p.x for p in mine], [p.value for p in mine], color=colour, linewidth=1.4, label=_short(name))
        for place in (xs.index(p.x) for p in mine if p.best):
            strip.axvspan(edges[place], edges[place + 1], color=colour, linewidth=0)
    for i, name in enumerate(found.baselines):
        mine = [p for p in found.points if p.name == name and p.group == "baseline"]
        axis.plot([p.x for p in mine], [p.value for p in mine], color=style.BASELINES[i % len(style.BASELINES)],
                  linewidth=1.4, linestyle=(0, (5, 3)), label=_short(name))  # fmt: skip
    if found.wide:
        axis.set_xscale("log", base=2)
    axis.set_ylim(bottom=0)
    axis.margins(x=0.01)
    axis.set_ylabel(response.axis, fontsize=9, color=INK)
    axis.tick_params(colors=INK, labelsize=8, color=FAINT)
    figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=4)
    strip.set_yticks([0.5], ["fastest"])
    strip.set_ylim(0, 1)
    strip.spines[:].set_visible(False)
    strip.tick_params(colors=INK, labelsize=8, color=FAINT)
    strip.set_xlabel(_plain(f"{found.axis} (problem)"), fontsize=9, color=INK)
    return save(figure, path, title)


def bars(path: Path, rows: Sequence[Bar], response: Response, peak: float | None, *, title: str) -> Path:
    """One bar a variant, with its share of peak and its predicted ceiling."""
    figure, (axis,) = _figure(1.4 + 0.26 * len(rows))
    axis.grid(axis="x", color=FAINT, linewidth=0.5)
    ticks = response.basis is not Basis.CEILING
    colours = {"variant": style.MEASURED, "baseline": style.BASELINE, **style.BOUND_COLOURS}
    top = max(max(bar.value, bar.ceiling or 0.0) for bar in rows)
    for place, bar in enumerate(rows):
        axis.barh(place, bar.value, height=0.7, color=colours.get(bar.group, style.PREDICTED))
        if bar.low is not None and bar.high is not None:
            axis.plot([bar.low, bar.high], [place, place], color=INK, linewidth=1.2)
        if ticks and bar.ceiling is not None:
            axis.plot([bar.ceiling] * 2, [place - 0.35, place + 0.35], color=style.ACCENT, linewidth=2)
        inside = bar.value > 0.3 * top
        past = max(bar.value, (bar.ceiling or 0.0) if ticks else 0.0)  # not across the ceiling's tick
        axis.text(0.01 * top + (0 if inside else past), place, bar.text.replace("%", "% of peak"), va="center",
                  fontsize=8, color="white" if inside and bar.group in _DARK else INK)  # fmt: skip
    names, heading = chartdata.row_names([bar.name for bar in rows])
    if heading:
        axis.set_title(_plain(heading), fontsize=8, color=INK, loc="left")
    axis.set_yticks(range(len(rows)), [_short(name) for name in names])
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xlim(0, top * 1.05)
    peak_words = f"; peak {peak:.1f}" if peak else ""
    axis.set_xlabel(f"{response.axis}{peak_words}", fontsize=9, color=INK)
    if ticks:
        axis.plot([], [], color=style.ACCENT, linewidth=2, label="predicted ceiling")
    else:
        for group in dict.fromkeys(bar.group for bar in rows):
            axis.barh(0, 0, color=colours.get(group, style.PREDICTED), label=f"bound by {group}")
    figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=4)
    return save(figure, path, title)


def mix(path: Path, slices: Sequence[Slice], *, title: str) -> Path:
    """Stacked shares of the classes in the hot loop: of the PTX, of the PTX as executed, and of the SASS."""
    slices = [part for part in slices if part.hot]
    names = list(dict.fromkeys(part.name for part in slices))
    mixes = list(dict.fromkeys(part.mix for part in slices))
    shown, heading = chartdata.row_names(names)
    figure, axes = _figure(1.7 + 0.24 * len(names), columns=len(mixes), sharey=True)
    place = {name: index for index, name in enumerate(names)}
    used = [cls for cls in style.CLASS_COLOURS if any(part.cls == cls for part in slices)]
    for axis, mix_name in zip(axes, mixes, strict=True):
        left = [0.0] * len(names)
        for cls in used:
            mine = {place[part.name]: part.share for part in slices if part.mix == mix_name and part.cls == cls}
            rows = sorted(mine)
            axis.barh(rows, [mine[r] for r in rows], left=[left[r] for r in rows], height=0.78, linewidth=0,
                      color=style.CLASS_COLOURS[cls])  # fmt: skip
            for r in rows:
                left[r] += mine[r]
        axis.set_xlim(0, 1)
        axis.set_xticks([0, 0.5, 1])
        axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        what, kind = chartdata.MIXES[mix_name]
        axis.set_xlabel(f"{what} ({kind})", fontsize=9, color=INK)
        axis.set_yticks(range(len(names)), [_short(name, 46) for name in shown])
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(len(names) - 0.4, -0.6)
    if heading:
        axes[0].set_title(_plain(heading), fontsize=8, color=INK, loc="left")
    handles = [Patch(color=style.CLASS_COLOURS[cls], label=cls) for cls in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return save(figure, path, title)


def effects(
    path: Path, found: Sequence[Effect], domain: tuple[float, float], response: Response, *, title: str
) -> Path:
    """Range and mean of the response at each value of each factor."""
    columns = min(len(found), 4)
    rows = -(-len(found) // columns)
    figure, axes = _figure(0.7 + 2.5 * rows, columns=columns, rows=rows, sharey=True)
    for axis, effect in zip(axes, found, strict=False):
        places = range(len(effect.levels))
        axis.grid(axis="y", color=FAINT, linewidth=0.5)
        axis.vlines(places, [v.low for v in effect.levels], [v.high for v in effect.levels], color=style.PREDICTED,
                    linewidth=5, alpha=0.4)  # fmt: skip
        axis.plot(places, [v.mean for v in effect.levels], "o-", color=style.MEASURED, linewidth=1.6, markersize=6)
        labels = [text(v.value) for v in effect.levels]
        upright = sum(min(len(label), 12) for label in labels) * columns > _MOST_LETTERS
        labels = [_short(label, 20 if upright else 12) for label in labels]
        axis.set_xticks(list(places), labels, rotation=90 if upright else 0)
        axis.set_xlim(-0.5, len(effect.levels) - 0.5)
        axis.set_ylim(*domain)
        axis.set_title(_short(f"{effect.factor} (η² = {effect.share:.2f})", 32), fontsize=9, color=INK, loc="left")
    for axis in axes[len(found) :]:
        axis.set_visible(False)
    for axis in axes[::columns]:
        axis.set_ylabel(f"{response.unit} ({response.kind})", fontsize=9, color=INK)
    return save(figure, path, title)
