"""Rows of the charts: bars, segments of bars and labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from statistics import median
from typing import Final

from lab.measured.timing import Kind, Merit
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.report.charts import style
from lab.report.charts.definition import MOST_LETTERS, Label, Row
from lab.report.columns import Column
from lab.report.variant.executed_counts import executed_by_class, threads_of
from lab.store import figures
from lab.store.figures import Basis, Response, name_of

MOST_BARS: Final = 40
"""Most bars of a chart with one bar per variant; the table has every variant."""

MOST_NAMES: Final = 3
"""Most names in one label of the ratio chart; a cluster of points can be a dozen."""

_LETTER: Final = 0.009
"""Width of a label's character as a fraction of the axes: 4.5 points in axes of 6.9 inches."""

_PARAMETER: Final = re.compile(r"[\w.]+=(?!>)")


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the ladder or the sweep.

    Attributes:
        name: Unique on the chart.
        variant: Variant id; empty for the baseline.
        value: The response.
        low: 20th percentile of the throughput, or None.
        high: 80th percentile of the throughput, or None.
        ceiling: Predicted ceiling, in the same unit, or None.
        share: `value` over the peak, or None.
        group: Colour key of the bar: `variant`, `baseline`, `estimate`, or for a ceiling the name of its bound.
        format: Format specification of `value`.
    """

    name: str
    variant: str
    value: float
    low: float | None
    high: float | None
    ceiling: float | None
    share: float | None
    group: str
    format: str = ".2f"

    @property
    def text(self) -> str:
        """`46.31 · 69 %`; below a tenth of the peak with one more digit."""
        if self.share is None:
            return format(self.value, self.format)
        return f"{self.value:{self.format}} · {self.share * 100:.{0 if self.share >= 0.1 else 1}f} %"  # noqa: PLR2004 - a tenth

    @property
    def words(self) -> str:
        """`46.31 · 69 % of peak`, which needs no explanation beside it."""
        return self.text if self.share is None else f"{self.text} of peak"

    @property
    def row(self) -> Row:
        """The bar as a row of its chart."""
        return asdict(self) | {"text": self.text, "words": self.words}


def is_ladder(records: Sequence[VariantRecord]) -> bool:
    """Return whether there are several kernels: a ladder, shown in order; otherwise a sweep, shown best first."""
    return len({record.kernel for record in records}) > 1


def shown_records(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> tuple[VariantRecord, ...]:
    """Return the variants with a bar: a ladder's in order, else the best of each problem, best first."""
    groups = figures.by_problem(run, records)
    per_problem = max(1, MOST_BARS // max(1, len(groups)))
    best = figures.ranked(
        tuple(record for group in groups.values() for record in figures.ranked(group, response)[:per_problem]), response
    )[:MOST_BARS]
    if not is_ladder(records):
        return best
    chosen = {record.variant for record in best}
    return tuple(record for record in records if record.variant in chosen)


def names(records: Sequence[VariantRecord]) -> dict[str, str]:
    """Return a unique name per variant: the label, with the kernel in a ladder and the id where needed."""
    ladder = is_ladder(records)
    plain = {r.variant: name_of(r) if ladder or not r.label else r.label for r in records}
    often = Counter(plain.values())
    return {key: name if often[name] == 1 else f"{name} ({key})" for key, name in plain.items()}


def row_names(names: Sequence[str]) -> tuple[list[str], str]:
    """Return names for rows beside narrow axes: a sweep's values alone, with a heading for the parameters.

    Returns:
        The names and the heading. Names without parameters (a baseline's) are kept; where two names have different
        parameters, all are kept and the heading is empty.
    """
    split = {name: [word.partition("=") for word in _words(name)] for name in names if "=" in name}
    keys = {tuple(key for key, _, _ in words) for words in split.values()}
    if len(keys) != 1 or not all(sign for words in split.values() for _, sign, _ in words):
        return list(names), ""
    short = {name: " · ".join(value for *_, value in words) for name, words in split.items()}
    return [short.get(name, name) for name in names], " · ".join(keys.pop())


def _words(name: str) -> list[str]:
    """Split a name into words, keeping each `parameter=value` whole: a mapping as a value has spaces."""
    words: list[str] = []
    for word in name.split():
        inside = words and sum(words[-1].count(sign) for sign in "([") > sum(words[-1].count(sign) for sign in ")]")
        if words and (inside or not _PARAMETER.match(word)):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def bars(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> tuple[Bar, ...]:
    """Return a bar per variant and per problem's baseline: baselines last in a ladder, by value in a sweep."""
    charted = shown_records(run, records, response)
    name, drawn = names(charted), []
    for record in charted:
        value = response.of(record) or 0.0
        measured = response.kind is Kind.MEASURED and record.measurement is not None
        samples = record.measurement.samples if record.measurement and measured else None
        ceiling = record.prediction.ceiling if record.prediction else None
        peak = figures.peak(record)
        drawn.append(
            Bar(
                name[record.variant],
                record.variant,
                value,
                record.rate(samples.p80) if samples else None,
                record.rate(samples.p20) if samples else None,
                record.ceiling,
                value / peak if peak else None,
                _group(response, ceiling.name if ceiling else None),
                response.format,
            )
        )
    peak = common_peak(records)
    for label, group in figures.by_problem(run, records).items() if response.kind is Kind.MEASURED else ():
        base = baseline_rate(group)
        if base is not None and len(drawn) < 2 * MOST_BARS:
            title = next((r.measurement.baseline_name for r in group if r.measurement and r.measurement.baseline), None)
            title = title or run.baselines.get(label) or "baseline"
            drawn.append(Bar(f"{title} {label}".strip(), "", base, None, None, None,
                            base / peak if peak else None, "baseline", response.format))  # fmt: skip
    if is_ladder(records):
        return tuple(drawn)
    return tuple(sorted(drawn, key=_place(records, charted, response)))


def _place(
    records: Sequence[VariantRecord], charted: Sequence[VariantRecord], response: Response
) -> Callable[[Bar], float]:
    """Return the sort key of a sweep's bars: variants by rank, a baseline like a variant as fast."""
    by_id, rank = {record.variant: record for record in charted}, figures.ranking(records, response)
    level = records[0].rate(1.0) if figures.rule_of(records, response) else None

    def place(bar: Bar) -> float:
        if bar.variant:
            return -(rank(by_id[bar.variant]) or 0.0)
        return -(bar.value if level is None else level)

    return place


def _group(response: Response, bound: str | None) -> str:
    """Return the colour key of a bar: measured, estimated, or the bound that sets its ceiling."""
    if response.basis is Basis.CEILING and bound:
        return bound
    return "estimate" if response.basis is Basis.ESTIMATE else "variant"


def baseline_rate(records: Sequence[VariantRecord]) -> float | None:
    """Return the median over variants of the baseline's median throughput beside each; None without a baseline."""
    rates = [r.rate(r.measurement.baseline.median) for r in records if r.measurement and r.measurement.baseline]
    return median(rates) if rates else None


def common_peak(records: Sequence[VariantRecord]) -> float | None:
    """Return the peak, if all variants share one, in the unit of their merit."""
    peaks = {peak for record in records if (peak := figures.peak(record)) is not None}
    return peaks.pop() if len(peaks) == 1 else None


MIXES: Final[dict[str, tuple[str, Kind]]] = {
    "ptx": ("PTX", Kind.STATIC),
    "executed": ("PTX executed", Kind.EMULATED),
    "sass": ("SASS", Kind.STATIC),
}
"""Title and kind of each mix, in display order."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One instruction class in a variant's hot loop or whole kernel.

    Attributes:
        name: The variant's, unique on the chart.
        variant: Variant id.
        mix: A key of `MIXES`.
        hot: Of the hot loop, else of the whole kernel.
        cls: Instruction class.
        count: Instructions of the text, or those that a thread executed, on average.
        share: Share of all instructions there, 0 to 1.
    """

    name: str
    variant: str
    mix: str
    hot: bool
    cls: str
    count: float
    share: float


def mix_slices(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> tuple[Slice, ...]:
    """Return instructions by class, in the order of the bars; of every inspected variant if none ranks."""
    charted = shown_records(run, records, response) or tuple(r for r in records if r.ptx or r.sass)[:MOST_BARS]
    name = names(charted)
    slices: list[Slice] = []
    for mix, hot in product(MIXES, (True, False)):
        for record in charted:
            by_class = _by_class(record, mix, hot=hot) or {}
            total = sum(by_class.values())
            threads = threads_of(record.emulation) if mix == "executed" and record.emulation else 1
            slices.extend(
                Slice(name[record.variant], record.variant, mix, hot, cls, count / threads, count / total)
                for cls in style.CLASS_COLOURS
                if (count := by_class.get(cls, 0))
            )
    return tuple(slices)


def _by_class(record: VariantRecord, mix: str, *, hot: bool) -> Mapping[str, int] | None:
    if mix == "executed":
        return executed_by_class(record, hot=hot)
    static = record.ptx if mix == "ptx" else record.sass
    counts = figures.hot_counts(static) if hot or static is None else static.counts
    return counts.by_class if counts else None


def pack_slices(slices: Sequence[Slice]) -> dict[str, object]:
    """Return the slices in compact form for the page: names once, and a short row per slice.

    Returns:
        `variants`: (name, id) in order; `classes` and `mixes`: their names; `parts`: rows of indices of these three, 1
        for the hot loop or 0, count and share, to five digits.
    """
    variants = list(dict.fromkeys((segment.name, segment.variant) for segment in slices))
    place = {key: index for index, key in enumerate(variants)}
    classes, mixes = list(style.CLASS_COLOURS), list(MIXES)
    order = {cls: index for index, cls in enumerate(classes)}
    parts = [
        (
            place[segment.name, segment.variant],
            order[segment.cls],
            mixes.index(segment.mix),
            int(segment.hot),
            float(f"{segment.count:.5g}"),
            round(segment.share, 5),
        )
        for segment in slices
    ]
    return {"variants": variants, "classes": classes, "mixes": mixes, "parts": parts}


TENSOR_RATIOS: Final = (
    "matrix_flop_per_shared_byte",
    "matrix_flop_per_global_byte",
    "matrix_instruction_share",
    "bytes_in_flight",
    "consumer_registers",
    "producer_registers",
    "counted_pipe_tensor",
)
"""Preferred axes of the ratio chart where variants multiply on tensor cores."""

RATIOS: Final = (
    "ptx_fma_over_fma_plus_ld_shared",
    "ptx_fma_share",
    "sass_fma_share",
    "ptx_fma_per_ld_shared",
    "sass_fma_over_fma_plus_ld_shared",
    "ratio_that_matters",
)
"""Axes of the ratio chart, the preferred one first."""

TRAFFIC: Final = (
    "emulated_sectors",
    "predicted_sectors",
    "emulated_excess",
    "emulated_conflicts",
    "ratio_that_matters",
)
"""Axes of the ratio chart where throughput counts bytes."""


def ratio_columns(
    columns: Sequence[Column], records: Sequence[VariantRecord], response: Response
) -> tuple[Column, ...]:
    """Return the ratio columns whose values differ; none where the response is the same for every variant."""
    if response.unit is not Merit.TFLOPS and response.kind is Kind.PREDICTED:
        ceilings = [value for record in records if (value := response.of(record)) is not None]
        if max(ceilings, default=0.0) <= min(ceilings, default=0.0) * (1 + 1e-9):
            return ()  # a single launch has one bound, the memory's bandwidth; sequences of launches differ
    columns_by_name = {column.name: column for column in columns}
    # the share comes from executing the PTX, the registers from reading it
    multiplied = [
        columns_by_name[name] for name in ("matrix_instruction_share", "consumer_registers") if name in columns_by_name
    ]
    tensor = TENSOR_RATIOS if any(column.get(record) for column in multiplied for record in records) else ()
    names = (*tensor, *RATIOS) if response.unit is Merit.TFLOPS else TRAFFIC
    # several launches have no ratio of their own
    present = (columns_by_name[name] for name in names if name in columns_by_name)
    values = {column: {ratio for record in records if (ratio := column.get(record)) is not None} for column in present}
    return tuple(column for column, distinct in values.items() if len(distinct) > 1)


NamedPoint = tuple[float, float, str]
"""(x, y, name)"""


def point_labels(points: Sequence[NamedPoint], *, near: tuple[float, float] = (0.05, 0.045)) -> tuple[Label, ...]:
    """Return labels of points, one per cluster of points whose labels would overlap.

    Args:
        points: The points, in the order in which a label names them.
        near: Points that are closer than these shares of the range of x (from its least value) and of y (from 0) share
            a label.

    Returns:
        A label at the highest point of each cluster, with at most `MOST_NAMES` names.
    """
    if not points:
        return ()
    width = (max(p[0] for p in points) - min(p[0] for p in points)) or 1.0
    height = max(p[1] for p in points) or 1.0
    order = {point[2]: index for index, point in enumerate(points)}
    step = near[1] * height
    clusters = _clusters(points, (near[0] * width, step))
    labels = [_label(cluster, order) for cluster in clusters]
    while overlapping := _overlap(labels, width, step):
        first, second = overlapping
        clusters[first] += clusters.pop(second)  # the second comes behind the first
        labels = [_label(cluster, order) for cluster in clusters]
    return tuple(labels)


def _label(cluster: Sequence[NamedPoint], order: Mapping[str, int]) -> Label:
    """Return the label of a cluster, above its highest point."""
    x, y, _ = max(cluster, key=lambda p: p[1])
    words = list(dict.fromkeys(sorted((p[2] for p in cluster), key=order.__getitem__)))
    unnamed = len(words) - MOST_NAMES
    return Label(x, y, ", ".join(words) if unnamed <= 0 else f"{', '.join(words[:MOST_NAMES])} and {unnamed} more")


def _overlap(labels: Sequence[Label], width: float, height: float) -> tuple[int, int] | None:
    """Return the first two labels that overlap, or None."""
    for (first, label_a), (second, label_b) in combinations(enumerate(labels), 2):
        letters = (min(len(label_a.text), MOST_LETTERS) + min(len(label_b.text), MOST_LETTERS)) / 2
        if abs(label_a.x - label_b.x) < letters * _LETTER * width and abs(label_a.y - label_b.y) < height:
            return first, second
    return None


def _clusters(points: Sequence[NamedPoint], near: tuple[float, float]) -> list[list[NamedPoint]]:
    """Group points: each is near, in both directions, to an earlier one of its group."""
    clusters: list[list[NamedPoint]] = []
    for point in sorted(points):
        for cluster in clusters:
            if any(abs(point[0] - p[0]) <= near[0] and abs(point[1] - p[1]) <= near[1] for p in cluster):
                cluster.append(point)
                break
        else:
            clusters.append([point])
    return clusters


def labelled_points(rows: Sequence[Row], x: str, y: str) -> tuple[NamedPoint, ...]:
    """Return the points of a scatter that get a label, each with the name of its kernel.

    Of more than `MOST_BARS` points, only the best `MOST_BARS` kernels are named, each at its best point alone.

    Args:
        rows: Rows that have both figures and a `kernel`.
        x: Field on the horizontal axis.
        y: Field on the vertical axis.
    """
    points = tuple(
        (float(a), float(b), str(row["kernel"]))
        for row in rows
        if isinstance(a := row[x], int | float) and isinstance(b := row[y], int | float)
    )
    if len(points) <= MOST_BARS:
        return points
    best = {name: (a, b, name) for a, b, name in sorted(points, key=lambda point: point[1])}
    chosen = set(sorted(best.values(), key=lambda point: -point[1])[:MOST_BARS])
    return tuple(point for point in dict.fromkeys(points) if point in chosen)
