"""Draw charts as PNGs with matplotlib, legible in a README at 800 pixels.

Every title says what is shown, and every axis its unit and kind.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter
from PIL import Image

from lab.base.files import write_atomically
from lab.report.charts import style
from lab.report.charts.definition import (
    MOST_LETTERS,
    Axis,
    Bars,
    Drawing,
    Lines,
    Means,
    Picture,
    Row,
    Scale,
    Scatter,
    Shade,
    Stacks,
    Ticks,
)
from lab.report.charts.style import INK
from lab.report.columns import Value
from lab.store.figures import text

DPI: Final = 160
COLOURS: Final = 128
"""Size of a PNG's palette."""
PACKED: Final = 8
"""Level for zlib: 2 % larger files than 9 in half of the time, which is a sixth of what a picture takes."""
_MOST_FLAT: Final = 4096
"""Most distinct colours of a picture whose palette is chosen by frequency."""
WIDTH: Final = 7.5
"""Width in inches: 1200 pixels, so that the text stays legible when a README shows them at 800."""
FAINT: Final = "#d0d7de"

_MOST_LETTERS: Final = 90
"""Characters of tick labels that fit side by side in the figure's width; beyond that, labels are rotated."""
_MOST_COLUMNS: Final = 4
"""Most small charts side by side."""
_DASH: Final = (0, (5, 4))


def draw(picture: Picture, folder: Path) -> Path:
    """Write a picture to a folder.

    Returns:
        The file.
    """
    figure = _figure_of(picture.drawings)
    return save(figure, folder / picture.file, picture.title)


def _figure_of(drawings: Sequence[Drawing]) -> Figure:
    """Return one figure of drawings that all have the type of the first."""
    match drawings[0]:
        case Scatter():
            return _scatters([drawing for drawing in drawings if isinstance(drawing, Scatter)])
        case Lines() as lines:
            return _lines(lines)
        case Bars() as bars:
            return _bars(bars)
        case Stacks() as mix if any(isinstance(drawing, Bars) for drawing in drawings):
            return _mix_beside(mix, next(drawing for drawing in drawings if isinstance(drawing, Bars)))
        case Stacks():
            return _stacks([drawing for drawing in drawings if isinstance(drawing, Stacks)])
        case Means():
            return _means([drawing for drawing in drawings if isinstance(drawing, Means)])


def save(figure: Figure, path: Path, title: str) -> Path:
    """Write a figure under its title."""
    figure.suptitle(_plain(title), x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK, wrap=True)
    canvas: Any = FigureCanvasAgg(figure)  # its methods are untyped
    canvas.draw()
    content = io.BytesIO()
    with_palette(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")).save(
        content, "PNG", compress_level=PACKED, dpi=(DPI, DPI)
    )
    write_atomically(path, content.getvalue())
    return path


def with_palette(image: Image.Image) -> Image.Image:
    """Return an RGB image with a palette, which suffices for flat colours and takes a third of the bytes.

    The palette has the most frequent colours; the others are blends at edges, and become the nearest of them. Finding
    the best palette takes several times as long and is left for a picture of thousands of colours.
    """
    counted: Any = image.getcolors(_MOST_FLAT)  # (count, (red, green, blue)) of each colour
    if counted is None:
        return image.quantize(COLOURS, dither=Image.Dither.NONE)
    colours = np.array([colour for _, colour in sorted(counted, reverse=True)])
    palette = colours[:COLOURS]
    nearest = ((colours[:, None] - palette) ** 2).sum(axis=2).argmin(axis=1)
    place = np.zeros(1 << 24, np.uint8)
    place[colours @ np.array([1, 1 << 8, 1 << 16])] = nearest
    # a pixel's four bytes as one number, without the opacity: multiplying every one takes ten times as long
    codes = np.asarray(image.convert("RGBA")).view("<u4")[..., 0] & 0xFFFFFF
    paletted = Image.fromarray(place[codes])
    paletted.putpalette(palette.astype(np.uint8).tobytes())
    return paletted


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
    """Return text escaped from matplotlib's math mode."""
    return words.replace("$", r"\$")


def _short(words: str, limit: int = MOST_LETTERS) -> str:
    return _plain(words if len(words) <= limit else words[: limit - 1] + "…")


def _number(value: Value) -> float:
    """Return a value as a coordinate; NaN, which is not drawn, if it is not a number."""
    return float(value) if isinstance(value, int | float) else float("nan")


def _column(rows: Sequence[Row], field: str) -> list[float]:
    return [_number(row[field]) for row in rows]


def _titles(axes: Axes, x: Axis, y: Axis) -> None:
    """Set the titles of both axes and the format of their figures."""
    for axis, mpl_axis, title in ((x, axes.xaxis, axes.set_xlabel), (y, axes.yaxis, axes.set_ylabel)):
        if axis.title:
            title(_plain(axis.title), fontsize=9, color=INK)
        if axis.ticks is Ticks.PERCENT:
            mpl_axis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _scatters(drawings: Sequence[Scatter]) -> Figure:
    figure, axes = _figure(4.2, columns=len(drawings))
    for axis, drawing in zip(axes, drawings, strict=True):
        _scatter(axis, drawing)
    return figure


def _scatter(axes: Axes, drawing: Scatter) -> None:
    axes.grid(color=FAINT, linewidth=0.5)
    rows, colours = drawing.data.rows, drawing.colours
    if drawing.diagonal and drawing.x.domain:
        axes.plot(drawing.x.domain, drawing.x.domain, color=style.BASELINE, linestyle=_DASH, linewidth=1)
    if colours is None:
        _points(axes, drawing, rows, drawing.colour)
    else:
        for shade in colours.shades:
            mine = [row for row in rows if text(row[colours.field]) == text(shade.value)]
            _points(axes, drawing, mine, shade.colour, f"{text(shade.value)}{f': {shade.note}' if shade.note else ''}")
        axes.legend(title=_plain(colours.title), title_fontsize=8, fontsize=8, frameon=False, loc="best")
    _marks(axes, drawing)
    _limits(axes, drawing)
    if drawing.caption:
        axes.set_title(_plain(drawing.caption), fontsize=9, color=INK)
    _titles(axes, drawing.x, drawing.y)


def _marks(axes: Axes, drawing: Scatter) -> None:
    """Draw the lines and the texts besides the points."""
    for line in drawing.joined:
        axes.plot(*zip(*line.points, strict=True), color=line.colour, linewidth=0.9, alpha=0.45, zorder=1)
    for row in drawing.data.rows if drawing.valued else ():
        place = (_number(row[drawing.x.field]), _number(row[drawing.y.field]))
        axes.annotate(_short(text(row[drawing.valued]), 12), place, xytext=(4, -7), textcoords="offset points",
                      fontsize=6.5, color=INK)  # fmt: skip
    for label in drawing.labels:
        axes.annotate(_short(label.text), (label.x, label.y), xytext=(0, 6), textcoords="offset points", ha="center",
                      fontsize=8, color=INK)  # fmt: skip
    if reference := drawing.reference:
        axes.axhline(reference.value, color=style.BASELINE, linestyle=_DASH, linewidth=1)
        axes.annotate(_plain(reference.text), (0, reference.value), xycoords=("axes fraction", "data"), xytext=(4, 3),
                      textcoords="offset points", fontsize=8, color=style.BASELINE)  # fmt: skip
    for trace in drawing.traces:
        axes.plot(*zip(*trace.points, strict=True), color=trace.colour, linewidth=1.2)
        axes.annotate(_plain(trace.text), trace.points[-1], xytext=(-3, 3), textcoords="offset points", ha="right",
                      fontsize=8, color=INK)  # fmt: skip


def _limits(axes: Axes, drawing: Scatter) -> None:
    """Set the scales of both axes and their ends."""
    if drawing.x.scale is Scale.LOG2:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    if drawing.y.scale is Scale.LOG2:
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.margins(x=0.06)
    elif drawing.x.domain and drawing.y.domain:
        axes.set_xlim(*drawing.x.domain)
        axes.set_ylim(*drawing.y.domain)
    else:
        if drawing.y.zero:
            axes.set_ylim(bottom=0)
        axes.margins(x=0.06)


def _points(axes: Axes, drawing: Scatter, rows: Sequence[Row], colour: str, label: str | None = None) -> None:
    x = _column(rows, drawing.x.field)
    axes.scatter(x, _column(rows, drawing.y.field), s=30 if drawing.diagonal else 38, color=colour, alpha=0.85,
                 linewidths=0, label=_plain(label) if label else None)  # fmt: skip
    if drawing.span:
        low, high = drawing.span
        axes.vlines(x, _column(rows, low), _column(rows, high), color=colour, linewidth=1, alpha=0.6)


def _lines(drawing: Lines) -> Figure:
    figure = Figure(figsize=(WIDTH, 4.6), dpi=DPI, layout="constrained", facecolor="white")
    if drawing.strip:
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(12, 1))
        _strip(below, drawing)
    else:
        axes = below = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, linewidth=0.5)
    rows = drawing.data.rows
    for shade in drawing.colours.shades:
        if mine := [row for row in rows if row[drawing.colours.field] == shade.value]:
            _line(axes, drawing, mine, shade)
    if drawing.x.scale is Scale.LOG2:
        axes.set_xscale("log", base=2)
    elif drawing.x.scale is Scale.CATEGORY:
        axes.set_xticks(range(len(drawing.x.order)), [_short(text(value), 20) for value in drawing.x.order])
    if drawing.y.zero:
        axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.tick_params(colors=INK, labelsize=8, color=FAINT)
    _titles(axes, Axis("x"), drawing.y)
    below.set_xlabel(_plain(drawing.x.title), fontsize=9, color=INK)
    if drawing.colours.title:
        figure.legend(
            title=_plain(drawing.colours.title), fontsize=8, frameon=False, loc="outside lower center", ncols=4
        )
    else:
        figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=4)
    return figure


def _line(axes: Axes, drawing: Lines, rows: Sequence[Row], shade: Shade) -> None:
    dots = [row for row in rows if drawing.dots and row[drawing.dots[0]] == drawing.dots[1]]
    joined = [row for row in rows if row not in dots]
    axes.plot(_along(drawing.x, joined), _column(joined, drawing.y.field), color=shade.colour, linewidth=1.4,
              linestyle=(0, (5, 3)) if shade.dashed else "solid", label=_short(text(shade.value)))  # fmt: skip
    if dots:
        axes.scatter(_along(drawing.x, dots), _column(dots, drawing.y.field), s=18, color=shade.colour, linewidths=0)


def _along(axis: Axis, rows: Sequence[Row]) -> list[float]:
    """Return the rows' positions on an axis, which may be a category axis."""
    if axis.scale is Scale.CATEGORY:
        return [float(axis.order.index(row[axis.field])) for row in rows]
    return _column(rows, axis.field)


def _strip(axes: Axes, drawing: Lines) -> None:
    """Draw which line is best at each value: a band of its colour, halfway to the neighbours."""
    rows = drawing.data.rows
    chosen, title = drawing.strip or ("", "")
    values = sorted(set(_column(rows, drawing.x.field)))
    edges = [values[0], *((a + b) / 2 for a, b in pairwise(values)), values[-1]]
    for row in rows:
        if row[chosen]:
            place = values.index(_number(row[drawing.x.field]))
            colour = drawing.colours.of(row[drawing.colours.field])
            axes.axvspan(edges[place], edges[place + 1], color=colour, linewidth=0)
    axes.set_yticks([0.5], [title.replace(" ", "\n")])
    axes.set_ylim(0, 1)
    axes.spines[:].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8, color=FAINT)


def _mix_beside(mix: Stacks, bars: Bars) -> Figure:
    """Return the mix on the left and the figure on the right, a row per variant."""
    figure, (left, right) = _figure(1.7 + 0.2 * len(bars.y.order), columns=2, sharey=True)
    used = _stack(left, mix)
    _bar_axes(right, bars, "text")
    _row_names(left, mix.names, mix.heading, 44)
    handles = [
        Patch(color=shade.colour, label=text(shade.value)) for shade in mix.colours.shades if shade.value in used
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return figure


def _bars(drawing: Bars) -> Figure:
    figure, (axes,) = _figure(1.4 + 0.26 * len(drawing.data.rows))
    _bar_axes(axes, drawing)
    _row_names(axes, drawing.names, drawing.heading, 44)
    if drawing.ceilings:
        axes.plot([], [], color=style.ACCENT, linewidth=2, label="predicted ceiling")
    else:
        for shade in drawing.colours.shades:
            axes.barh(0, 0, color=shade.colour, label=f"bound by {text(shade.value)}")
    figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=4)
    return figure


def _bar_axes(axes: Axes, drawing: Bars, words: str = "words") -> None:
    """Draw the bars with their spans, ceilings and texts, which stand in the field `words`."""
    rows, colours = drawing.data.rows, drawing.colours
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    top = max(_number(row[name] or 0.0) for row in rows for name in (drawing.x.field, "ceiling"))
    values = _column(rows, drawing.x.field)
    shades = [colours.of(row[colours.field]) for row in rows]
    _boxes(axes, [(place, 0.0, value) for place, value in enumerate(values)], 0.7, shades)
    spans = [place for place, row in enumerate(rows) if row["low"] is not None and row["high"] is not None]
    low, high = (_column([rows[place] for place in spans], end) for end in ("low", "high"))
    axes.hlines(spans, low, high, color=INK, linewidth=1.2, capstyle="projecting")
    if drawing.ceilings:
        capped = [place for place, row in enumerate(rows) if row["ceiling"] is not None]
        axes.vlines(_column([rows[place] for place in capped], "ceiling"), [place - 0.35 for place in capped],
                    [place + 0.35 for place in capped], color=style.ACCENT, linewidth=2,
                    capstyle="projecting")  # fmt: skip
    for place, (row, value, colour) in enumerate(zip(rows, values, shades, strict=True)):
        ceiling = row["ceiling"]
        inside = value > drawing.least_inside
        past = max(value, _number(ceiling or 0.0) if drawing.ceilings else 0.0)  # not across the ceiling's tick
        axes.text(0.01 * top + (0 if inside else past), place, str(row[words]), va="center", fontsize=8,
                  color="white" if inside and colour in style.DARK else INK)  # fmt: skip
    axes.set_xlim(0, top * 1.05)
    note = f"; {drawing.note}" if drawing.note else ""
    axes.set_xlabel(_plain(f"{drawing.x.title}{note}"), fontsize=9, color=INK)


def _boxes(axes: Axes, bars: Sequence[tuple[float, float, float]], height: float, colours: Sequence[str]) -> None:
    """Draw horizontal bars as one object, since one object per bar takes milliseconds.

    Args:
        axes: Where to draw.
        bars: Position from the top, start and end of each bar.
        height: Height of a bar as a fraction of its row.
        colours: A colour for each bar, or one for all.
    """
    half = height / 2
    corners = [
        [(begin, place - half), (end, place - half), (end, place + half), (begin, place + half)]
        for place, begin, end in bars
    ]
    axes.add_collection(PolyCollection(corners, facecolors=colours, linewidths=0))


def _row_names(axes: Axes, names: Sequence[str], heading: str, limit: int) -> None:
    """Set the names of horizontal bars, the first at the top."""
    if heading:
        axes.set_title(_plain(heading), fontsize=8, color=INK, loc="left")
    axes.set_yticks(range(len(names)), [_short(name, limit) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _stacks(drawings: Sequence[Stacks]) -> Figure:
    bars = drawings[0].y.order
    figure, axes = _figure(1.7 + 0.24 * len(bars), columns=len(drawings), sharey=True)
    used: set[Value] = set()
    for axis, drawing in zip(axes, drawings, strict=True):
        used |= _stack(axis, drawing)
        _row_names(axis, drawing.names, drawing.heading if axis is axes[0] else "", 46)
    handles = [
        Patch(color=shade.colour, label=text(shade.value))
        for shade in drawings[0].colours.shades
        if shade.value in used
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return figure


def _stack(axes: Axes, drawing: Stacks) -> set[Value]:
    """Draw one column of stacked bars.

    Returns:
        The values that have a segment.
    """
    place = {name: index for index, name in enumerate(drawing.y.order)}
    offsets = [0.0] * len(place)
    rows = drawing.data.rows
    boxes, colours = [], []
    for shade in drawing.colours.shades:
        mine = {
            place[row[drawing.y.field]]: _number(row[drawing.x.field])
            for row in rows
            if row[drawing.colours.field] == shade.value
        }
        for bar in sorted(mine):
            boxes.append((bar, offsets[bar], offsets[bar] + mine[bar]))
            colours.append(shade.colour)
            offsets[bar] += mine[bar]
    _boxes(axes, boxes, 0.78, colours)
    axes.set_xlim(0, 1.05 * max(offsets))
    if drawing.x.domain:
        axes.set_xlim(*drawing.x.domain)
        axes.set_xticks([0, 0.5, 1])
    _titles(axes, Axis(drawing.x.field, drawing.caption, ticks=drawing.x.ticks), Axis(drawing.y.field))
    return {row[drawing.colours.field] for row in rows}


def _means(drawings: Sequence[Means]) -> Figure:
    columns = min(len(drawings), _MOST_COLUMNS)
    figure, axes = _figure(0.7 + 2.5 * -(-len(drawings) // columns), columns=columns, rows=-(-len(drawings) // columns),
                           sharey=True)  # fmt: skip
    for axis, drawing in zip(axes, drawings, strict=False):
        _mean(axis, drawing, columns)
    for axis in axes[len(drawings) :]:
        axis.set_visible(False)
    for axis in axes[::columns]:
        axis.set_ylabel(_plain(drawings[0].y.title), fontsize=9, color=INK)
    return figure


def _mean(axes: Axes, drawing: Means, columns: int) -> None:
    rows = drawing.data.rows
    places = range(len(rows))
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.vlines(places, _column(rows, "low"), _column(rows, "high"), color=style.PREDICTED, linewidth=5, alpha=0.4)
    axes.plot(places, _column(rows, drawing.y.field), "o-", color=style.MEASURED, linewidth=1.6, markersize=6)
    labels = [text(value) for value in drawing.x.order]
    upright = sum(min(len(label), 12) for label in labels) * columns > _MOST_LETTERS
    labels = [_short(label, 20 if upright else 12) for label in labels]
    axes.set_xticks(list(places), labels, rotation=90 if upright else 0)
    axes.set_xlim(-0.5, len(rows) - 0.5)
    if drawing.y.domain:
        axes.set_ylim(*drawing.y.domain)
    axes.set_title(_short(drawing.caption, 32), fontsize=9, color=INK, loc="left")
