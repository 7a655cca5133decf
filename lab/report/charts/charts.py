"""Definitions of every chart of a run, shared by the page and the PNGs.

`explain` defines those that explain a curve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from lab.measured.timing import Kind, Merit
from lab.recorded.run_records import Status, VariantRecord
from lab.report.charts import rows as chartdata
from lab.report.charts import style
from lab.report.charts.definition import (
    Axis,
    Bars,
    Chart,
    Choice,
    Colours,
    Data,
    Lines,
    Means,
    Reference,
    Row,
    Scale,
    Scatter,
    Shade,
    Stacks,
    Ticks,
    Tip,
    Trace,
)
from lab.report.charts.rows import MIXES, Bar, Slice
from lab.report.columns import Column
from lab.report.facts import searching
from lab.report.facts.agreement import Agreement
from lab.report.facts.curves import Curve
from lab.report.facts.effects import Effect, Interaction
from lab.report.facts.link import LinkGroup, MixLink, correlation_text, correlations
from lab.report.facts.searching import SearchPath
from lab.store.figures import Basis, Response, column_name, text

RECORDS: Final = "records"
"""The page's dataset of all variants: one row per record, its cells by column key."""

COMPARED: Final = {"status": tuple(map(str, (Status.VERIFIED, Status.PARTIAL, Status.INSPECTED)))}
"""Statuses of comparable variants: neither failed nor pruned."""

MOST_VALUED: Final = 60
"""Most points that have the asked parameter's value beside them."""

MOST_PATHS: Final = 200
"""Most paths whose points are joined; more lines are a thicket."""

HOVER: Final = (
    "registers", "spill_bytes", "shared_bytes", "occupancy", "ptx_fma_per_ld_shared", "ptx_fma_share", "sass_fma_share",
    "predicted_tflops", "predicted_bound",
)  # fmt: skip
HOVER_BYTES: Final = (
    "registers", "spill_bytes", "shared_bytes", "occupancy", "predicted_sectors", "emulated_sectors", "emulated_excess",
    "emulated_conflicts", "predicted_tflops",
)  # fmt: skip
"""Tooltip columns where throughput counts bytes."""
HOVER_MEASURED: Final = ("measured_tflops", "measured_peak_share", "measured_ms", "ratio_to_baseline")


def tips(columns: Sequence[Column], names: Sequence[str]) -> tuple[Tip, ...]:
    """Return columns as lines of a tooltip."""
    columns_by_name = {column.name: column for column in columns}
    return tuple(
        Tip(columns_by_name[name].key, columns_by_name[name].header, columns_by_name[name].format) for name in names
    )


def hover_names(columns: Sequence[Column], response: Response) -> list[str]:
    """Return the columns of a variant's tooltip: its name, swept parameters and figures."""
    parameters = [column.name for column in columns if column.name.startswith("p.") and column.shown]
    measured = HOVER_MEASURED if response.kind is Kind.MEASURED else ()
    names = ["variant", "kernel", *parameters, *measured]
    names += HOVER if response.unit is Merit.TFLOPS else HOVER_BYTES
    return [column_name(name, response.unit) for name in names]


def ratio_chart(
    columns: Sequence[Column],
    records: Sequence[VariantRecord],
    rows: Sequence[Row],
    axes: Sequence[Column],
    response: Response,
    *,
    link: MixLink,
    baseline: tuple[str, float] | None,
    labelled: bool,
) -> Chart:
    """Return the chart of mix figures against the response, with a choice per figure, that of the link first.

    Args:
        columns: Every column.
        records: Every record.
        rows: Every record's cells by column key.
        axes: Columns with the figures.
        response: The quantity on the vertical axis.
        link: The paths that join points, and the groups that colour them.
        baseline: Name and throughput of the baseline, a dashed line; None for no line.
        labelled: The points are labelled with their kernels.
    """
    tooltip = tips(columns, hover_names(columns, response))
    columns_by_name = {column.name: column for column in columns}
    by = link.by
    group_column = columns_by_name[f"p.{by.name}" if by.parameter else by.name] if by else None
    span = (column_name("tflops_p20", response.unit), column_name("tflops_p80", response.unit))

    def drawing(axis: Column) -> Scatter:
        data = Data(rows, RECORDS, COMPARED, (axis.key, response.column))
        points = chartdata.labelled_points(data.rows, axis.key, response.column) if labelled else ()
        along = link if axis is link.x else replace(link, x=axis)
        groups, pooled = correlations(records, along, response)
        return Scatter(
            data,
            Axis(axis.key, axis_title(axis), zero=False, ticks=Ticks.PERCENT if axis.is_share else Ticks.RATIO),
            Axis(response.column, response.axis, zero=False),
            style.MEASURED,
            _group_colours(group_column, groups),
            span if response.kind is Kind.MEASURED else None,
            Reference(baseline[1], f"{baseline[0]} {baseline[1]:.1f}") if baseline else None,
            labels=chartdata.point_labels(points),
            joined=_joined(along, groups, response) if len(link.paths) <= MOST_PATHS else (),
            valued=columns_by_name[f"p.{link.parameter}"].key if link.paths and len(rows) <= MOST_VALUED else "",
            caption=f"rank correlation {correlation_text(pooled)}, n = {pooled.n}" if pooled else "",
            tips=tooltip,
        )

    often = Counter(axis.title for axis in axes)
    choices = tuple(
        Choice(axis.title if often[axis.title] == 1 else f"{axis.title}, {axis.kind}", drawing(axis))
        for axis in (link.x, *(axis for axis in axes if axis is not link.x))
    )
    return Chart("ratio", f"{', '.join(axis.title for axis in axes)} against {response.kind} {response.title}", choices)


def _group_colours(column: Column | None, groups: Sequence[LinkGroup]) -> Colours | None:
    """Return the colours of the groups, with the correlation within each in the legend."""
    if column is None or not groups:
        return None
    shades = tuple(
        Shade(
            group.value,
            style.series_colour(place),
            note=correlation_text(group.correlation) if group.correlation else "",
        )
        for place, group in enumerate(groups)
    )
    return Colours(column.key, shades, f"{column.title} (rank correlation within)")


def _joined(link: MixLink, groups: Sequence[LinkGroup], response: Response) -> tuple[Trace, ...]:
    """Return a line for each path of variants that differ in the parameter alone, in its group's colour."""
    colours = {text(group.value): style.series_colour(place) for place, group in enumerate(groups)}
    traces = []
    for path in link.paths:
        points = [
            (float(x), y)
            for record in path
            if isinstance(x := link.x.get(record), int | float) and (y := response.of(record)) is not None
        ]
        group = text(link.by.of(path[0])) if link.by else ""
        traces += [Trace(tuple(points), "", colours.get(group, style.MEASURED))] if len(points) > 1 else []
    return tuple(traces)


def axis_title(axis: Column) -> str:
    """Return an axis title: static figures are of the hot loop, all others of the whole launch."""
    return f"{axis.header}{' of the hot loop' if axis.kind is Kind.STATIC else ''} ({axis.kind})"


def along(curve: Curve) -> Axis:
    """Return the horizontal axis of a curve and of the charts that explain it."""
    return Axis("x", f"{curve.axis} (problem)", Scale.LOG2 if curve.wide else Scale.LINEAR, zero=False)


def curve_chart(curve: Curve, response: Response) -> Chart:
    """Return the chart of throughput along a problem axis, with a strip of the fastest kernels; a choice per facet."""
    rows = [asdict(point) for point in curve.points]
    shades = [Shade(name, style.series_colour(index)) for index, name in enumerate(curve.kernels)]
    shades += [
        Shade(name, style.BASELINES[index % len(style.BASELINES)], dashed=True)
        for index, name in enumerate(curve.baselines)
    ]
    x_axis = along(curve)
    tooltip = (
        Tip("name", "kernel"),
        Tip("x", curve.axis),
        Tip("value", f"{response.kind} ({response.unit})", response.format),
        Tip("label", "best variant"),
    )
    choices = tuple(
        Choice(
            facet or "curve",
            Lines(
                Data(rows, "curve", {"part": (facet,)}),
                x_axis,
                Axis("value", response.axis),
                Colours("name", tuple(shades)),
                marked=True,
                strip=("best", "fastest kernel"),
                tips=tooltip,
            ),
        )
        for facet in curve.parts
    )
    return Chart("curve", f"{response.axis} against {curve.axis}", choices)


def search_chart(search_path: SearchPath, response: Response) -> Chart:
    """Return the chart of a search's best result after each measurement, beside random search; a choice per problem."""
    rows = [asdict(point) for point in search_path.points]
    colours = {
        searching.BEST: style.MEASURED,
        searching.MEASURED: style.series_colour(1),
        searching.PREDICTED: style.PREDICTED,
        searching.RANDOM: style.BASELINES[0],
        searching.LUCKY: style.BASELINES[1 % len(style.BASELINES)],
    }
    shades = tuple(Shade(line, colours[line]) for line in search_path.lines)
    tooltip = (
        Tip("line", "figure"),
        Tip("n", "measurements"),
        Tip("value", response.unit, response.format),
        Tip("label", "variant"),
    )
    choices = tuple(
        Choice(
            facet or "search",
            Lines(
                Data(rows, "", {"part": (facet,)}),
                Axis("n", "measurements"),
                Axis("value", response.axis),
                Colours("line", shades),
                dots=("dot", True),
                tips=tooltip,
            ),
        )
        for facet in search_path.parts
    )
    return Chart("search", f"{response.axis} against measurements of the search", choices)


def model_chart(
    columns: Sequence[Column], rows: Sequence[Row], agreements: Sequence[Agreement], response: Response
) -> Chart:
    """Return the chart of predicted against measured throughput, with a choice per prediction.

    Args:
        columns: Every column.
        rows: Every record's cells by column key.
        agreements: The predictions.
        response: The measured throughput.
    """
    columns_by_name = {column.name: column for column in columns}
    measured = columns_by_name[column_name("measured_tflops", response.unit)]

    def drawing(agreement: Agreement) -> Scatter:
        predicted = columns_by_name[column_name(agreement.column, response.unit)]
        side = (0.0, 1.05 * max(value for _, *pair in agreement.points for value in pair))
        rank = "" if agreement.correlation is None else f", rank correlation {agreement.correlation:.2f}"
        return Scatter(
            Data(rows, RECORDS, COMPARED, (measured.key, predicted.key)),
            Axis(measured.key, response.axis, domain=side),
            Axis(predicted.key, f"{agreement.name} ({response.unit}, {Kind.PREDICTED})", domain=side),
            style.MEASURED,
            diagonal=True,
            caption=f"median error {agreement.error:.1%}{rank}, n = {len(agreement.points)}",
            tips=tips(columns, [*hover_names(columns, response), predicted.name]),
        )

    choices = tuple(Choice(agreement.name, drawing(agreement)) for agreement in agreements)
    return Chart("model", "predicted against measured throughput", choices)


def bars_chart(bars: Sequence[Bar], response: Response, peak: float | None) -> Chart:
    """Return a bar per variant with its share of the peak, 20th to 80th percentile and predicted ceiling.

    Args:
        bars: In the order of the chart.
        response: The quantity shown as the bars' lengths.
        peak: The peak that all variants share, in the response's unit; None where they have none in common.
    """
    bound = response.basis is Basis.CEILING  # the bars are the ceilings
    names, heading = chartdata.row_names([bar.name for bar in bars])
    groups = {"variant": style.MEASURED, "baseline": style.BASELINE, **style.BOUND_COLOURS}
    shades = tuple(
        Shade(group, groups.get(group, style.PREDICTED)) for group in dict.fromkeys(bar.group for bar in bars)
    )
    drawing = Bars(
        Data([bar.row for bar in bars], "bars"),
        Axis("value", response.axis),
        Axis("name", scale=Scale.CATEGORY, order=tuple(bar.name for bar in bars)),
        Colours("group", shades, "binding bound", legend=bound),
        not bound,
        tuple(names),
        heading,
        f"peak {peak:.1f}" if peak else "",
        (
            Tip("name", "variant"),
            Tip("value", f"{response.kind} ({response.unit})", response.format),
            Tip("share", "of peak", ".1%"),
            Tip("ceiling", f"predicted ceiling ({response.unit})", response.format),
        ),
    )
    return Chart("bars", f"{response.kind} {response.title} of each variant", (Choice("", drawing),))


MIX_CHOICES: Final = (
    ("hot loop, share", True, "share"),
    ("hot loop, count", True, "count"),
    ("kernel, share", False, "share"),
    ("kernel, count", False, "count"),
)
"""Views of a mix chart: label, whether it shows the hot loop, and the field of its rows."""


def mix_charts(slices: Sequence[Slice], order: Sequence[str] = ()) -> tuple[Chart, ...]:
    """Return stacked bars of PTX, executed PTX and SASS: of the hot loop or the kernel, as shares or counts.

    Args:
        slices: The segments.
        order: Names of the rows, where other bars stand beside them; by default those of the slices.
    """
    places = {cls: index for index, cls in enumerate(style.CLASS_COLOURS)}
    rows: list[Row] = [asdict(segment) | {"hot": int(segment.hot), "order": places[segment.cls]} for segment in slices]
    bars = tuple(order or dict.fromkeys(segment.name for segment in slices))
    used = {segment.cls for segment in slices}
    shades = tuple(Shade(cls, colour) for cls, colour in style.CLASS_COLOURS.items() if cls in used)
    tooltip = (
        Tip("name", "variant"),
        Tip("cls", "class"),
        Tip("count", "instructions", ",.5~r"),
        Tip("share", "share", ".1%"),
    )
    names, heading = chartdata.row_names(bars)

    def drawing(mix: str, *, hot: bool, field: str) -> Stacks:
        title, kind = MIXES[mix]
        quantity = (
            "share" if field == "share" else "instructions per thread" if kind is Kind.EMULATED else "instructions"
        )
        share = Axis("share", f"share ({kind})", domain=(0.0, 1.0), ticks=Ticks.PERCENT)
        return Stacks(
            Data(rows, "mix", {"mix": (mix,), "hot": (int(hot),)}),
            share if field == "share" else Axis("count", f"{quantity} ({kind})", ticks=Ticks.COUNT),
            Axis("name", scale=Scale.CATEGORY, order=bars),
            Colours("cls", shades, legend=False),
            tuple(names),
            heading,
            f"{title} ({kind})",
            tooltip,
        )

    return tuple(
        Chart(
            f"mix-{mix}",
            f"Instruction classes, {MIXES[mix][0]} ({MIXES[mix][1]})",
            tuple(Choice(label, drawing(mix, hot=hot, field=field)) for label, hot, field in MIX_CHOICES),
        )
        for mix in dict.fromkeys(segment.mix for segment in slices)
    )


def effect_domain(effects: Sequence[Effect]) -> tuple[float, float]:
    """Return one vertical range for all main effects, so that they can be compared."""
    low = min(level.low for effect in effects for level in effect.levels)
    high = max(level.high for effect in effects for level in effect.levels)
    pad = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return max(0.0, low - pad), high + pad


def effect_charts(
    effects: Sequence[Effect], columns: Mapping[str, Column], rows: Sequence[Row], response: Response
) -> tuple[Chart, ...]:
    """Return a small chart per factor: every variant, with the mean and the range at each value.

    Args:
        effects: The most influential factor first.
        columns: Every column by name.
        rows: Every record's cells by column key.
        response: The quantity the effects are on.
    """
    if not effects:
        return ()
    domain = effect_domain(effects)

    def drawing(index: int, effect: Effect) -> Means:
        column = columns[f"p.{effect.factor}" if effect.parameter else effect.factor]
        statistics = (Tip(name, name, response.format) for name in ("mean", "median", "low", "high"))
        return Means(
            Data([asdict(level) for level in effect.levels]),
            Axis("value", effect.factor, Scale.CATEGORY, order=tuple(level.value for level in effect.levels)),
            Axis("mean", f"{response.unit} ({response.kind})" if index == 0 else "", zero=False, domain=domain),
            Data(rows, RECORDS, COMPARED, (response.column, column.key)),
            (column.key, response.column),
            f"{effect.factor} (η² = {effect.share:.2f})",
            (Tip("value", effect.factor), *statistics, Tip("n", "variants")),
        )

    return tuple(
        Chart(f"effect-{index}", f"Main effect of {effect.factor}", (Choice("", drawing(index, effect)),))
        for index, effect in enumerate(effects)
    )


def interaction_chart(interaction: Interaction, response: Response) -> Chart:
    """Return the chart of mean responses per pair of values: parallel lines mean independent factors."""
    firsts, seconds = (tuple(dict.fromkeys(cell[i] for cell in interaction.cells)) for i in (0, 1))
    drawing = Lines(
        Data([{"a": a, "b": b, "mean": mean, "n": n} for a, b, mean, n in interaction.cells]),
        Axis("a", interaction.first, Scale.CATEGORY, order=firsts),
        Axis("mean", f"mean {response.unit} ({response.kind})", zero=False),
        Colours("b", tuple(Shade(v, style.series_colour(i)) for i, v in enumerate(seconds)), interaction.second),
        marked=True,
        height=240,
        tips=(
            Tip("a", interaction.first),
            Tip("b", interaction.second),
            Tip("mean", "mean", response.format),
            Tip("n", "variants"),
        ),
    )
    label = f"Interaction of {interaction.first} and {interaction.second}"
    return Chart("interaction", label, (Choice("", drawing),))
