"""From a run directory to everything that a reader opens."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic_core import to_json as json_bytes

from lab.base.errors import StoreError
from lab.base.files import write_atomically
from lab.measured.timing import Merit
from lab.report.charts import charts, png, style
from lab.report.charts import rows as chartdata
from lab.report.charts.explain import explain_charts
from lab.report.charts.rows import Bar, Slice
from lab.report.columns import Column, Value, columns_for, row
from lab.report.facts import repeatability, winners
from lab.report.facts.agreement import Agreement, agreements
from lab.report.facts.answer import Answer, answer
from lab.report.facts.compilers import Compilers, compilers
from lab.report.facts.curves import Curve, curve
from lab.report.facts.effects import Effect, Interaction, factors, main_effects, observations, strongest_interaction
from lab.report.facts.explain import CurveExplanation, explain
from lab.report.facts.strays import Stray, strays
from lab.report.page.page import page
from lab.report.variant.executed import difference
from lab.report.variant.listings import BUDGET
from lab.store.codec import record_to_text, uncollected
from lab.store.database import Store
from lab.store.figures import Basis, Response, response_of
from lab.store.model import RepeatRecord, RunRecord, VariantRecord


@dataclass(frozen=True, slots=True)
class Analysis:
    """All that page, PNGs and tables have in common, computed once.

    Attributes:
        run: The run's facts.
        records: Every record, in the experiment's order, without `emulation.lines` (see `load`).
        columns: The registry for this run.
        response: What the variants are compared by.
        answer: The opening paragraph.
        winners: Problem by problem; None where the opening has a sentence for each.
        effects: Main effects, the most influential factor first.
        interaction: The strongest one, or None.
        bars: Ladder or sweep.
        slices: Instruction mix.
        axes: Ratio columns that have values.
        by: Column that colours the ratio chart and its values, or None.
        baseline: Name and throughput, where one is the same for all variants, else None.
        curve: Throughput along a problem axis, where the problems differ in one number (and in words); else None.
        explanation: What explains the curve, where its figures are known.
        agreements: Predictions against measurements, where there are enough of both.
        strays: Profiled variants that their prediction misses most, and what the counters say of them.
        compilers: The same variants by several compilers; None where there is one.
        repeat: How the run came out a second time; None where it was not repeated.
        different: Variant to a sentence, where its hot loop by execution is not the static one.
    """

    run: RunRecord
    records: tuple[VariantRecord, ...]
    columns: tuple[Column, ...]
    response: Response
    answer: Answer
    winners: winners.WinnerTable | None
    effects: tuple[Effect, ...]
    interaction: Interaction | None
    bars: tuple[Bar, ...]
    slices: tuple[Slice, ...]
    axes: tuple[Column, ...]
    by: tuple[Column, tuple[Value, ...]] | None
    baseline: tuple[str, float] | None
    curve: Curve | None
    explanation: CurveExplanation | None
    agreements: tuple[Agreement, ...]
    strays: tuple[Stray, ...]
    compilers: Compilers | None
    repeat: RepeatRecord | None
    different: Mapping[str, str]

    @property
    def ratio(self) -> str:
        """What the ratio chart sets against the response."""
        return "Instruction ratio" if self.response.unit is Merit.TFLOPS else "Memory traffic"

    @property
    def ladder(self) -> bool:
        """The experiment has more than one kernel."""
        return chartdata.is_ladder(self.records)


def load(store: Store) -> tuple[tuple[VariantRecord, ...], dict[str, str]]:
    """The records, and by variant the sentence where execution chooses another hot loop than the text.

    The counts of each executed line are half of a record; only the variants whose listings are embedded need them, and
    those are read again: of ten thousand records they would take more memory than all the rest.
    """
    records, different = [], {}
    for record in store.each():
        if sentence := difference(record):
            different[record.variant] = sentence
        lean = replace(record.emulation, lines=()) if record.emulation else None
        records.append(replace(record, emulation=lean))
    return tuple(records), different


def analyse(
    run: RunRecord,
    records: tuple[VariantRecord, ...],
    different: Mapping[str, str],
    repeat: RepeatRecord | None = None,
) -> Analysis:
    """Everything that is derived from the records, and from their comparison with a second run where there was one."""
    response = response_of(records)
    columns = columns_for(run, records, repeat)
    observed = observations(records, response.of)
    varied = factors(run, records)
    effects = main_effects(varied, observed)
    bars = chartdata.bars(run, records, response)
    found = curve(run, records, response)
    baselines = [(bar.name, bar.value) for bar in bars if bar.group == "baseline"]
    named = {column.name: column for column in columns}
    by = None
    if effects and len(effects[0].levels) <= len(style.SERIES) and not chartdata.is_ladder(records):
        first = effects[0]
        by = named[f"p.{first.factor}" if first.parameter else first.factor], tuple(v.value for v in first.levels)
    opening = answer(run, records, response)
    if (compared := compilers(run, records, response)) is not None:
        said = opening.sentences
        opening = replace(opening, sentences=(*said[:1], *compared.sentences, *said[1:]))
    if repeat is not None:
        opening = replace(opening, sentences=(*opening.sentences, *repeatability.sentences(repeat, response)))
    return Analysis(
        run,
        records,
        columns,
        response,
        opening,
        winners.table(run, records, columns, response),
        effects,
        strongest_interaction(varied, observed),
        bars,
        chartdata.mix_slices(run, records, response),
        chartdata.ratio_columns(columns, records, response) if observed else (),
        by,
        baselines[0] if len(baselines) == 1 else None,
        found,
        explain(found, records, columns, response.unit),
        agreements(records),
        strays(records),
        compared,
        repeat,
        different,
    )


def render(store: Store, *, listing_budget: int = BUDGET, folder: Path | None = None) -> tuple[Path, ...]:
    """Write the report of a run.

    Args:
        store: The run directory; `run`, `records` and the variants' files are read.
        listing_budget: Bytes of the page that embedded listings may take; the listings of further variants are
            links to their files.
        folder: Where it goes; the run directory where None.

    Returns:
        The files written: `index.html` first, then PNGs, `records.csv` and `records.json`.

    Raises:
        StoreError: the directory cannot be read or written.
    """
    with store.unchanging(), uncollected():
        return _render(store, listing_budget, folder or store.folder)


def _render(store: Store, listing_budget: int, folder: Path) -> tuple[Path, ...]:
    analysis = analyse(store.run(), *load(store), store.repeat())
    rows = [row(record, analysis.columns) for record in analysis.records]
    try:
        pngs = draw(analysis, folder)
        html = page(
            analysis,
            rows,
            charts=chart_list(analysis),
            store=store,
            pngs=[path.name for path in pngs],
            budget=listing_budget,
        )
        write_atomically(folder / "index.html", html)
        write_atomically(folder / "records.csv", to_csv(rows, analysis.columns))
        write_atomically(folder / "records.json", to_json(analysis, rows, store.texts()))
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error}") from error
    return (folder / "index.html", *pngs, folder / "records.csv", folder / "records.json")


def to_csv(rows: Sequence[dict[str, Value]], columns: Sequence[Column]) -> str:
    """One line a variant, full precision, empty where there is no value."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    for cells in rows:
        values = (cells[column.name] for column in columns)
        writer.writerow([str(v).lower() if isinstance(v, bool) else "" if v is None else v for v in values])
    return stream.getvalue()


def to_json(analysis: Analysis, rows: Sequence[dict[str, Value]], texts: Iterable[bytes]) -> Iterator[str | bytes]:
    """The run and its records as the store holds them, each record, a line, with its `derived` columns; in parts.

    Args:
        analysis: Everything derived from the records.
        rows: Cells by column name, one dict a record.
        texts: The records' own JSON texts: ten thousand of them need not be made again from objects.
    """
    derived = [column.name for column in analysis.columns if column.kind is not None]
    yield f'{{"run": {record_to_text(analysis.run)},\n"records": [\n'
    for place, (text, cells) in enumerate(zip(texts, rows, strict=True)):
        yield b",\n" if place else b""
        yield text[:-1]
        yield b', "derived": '
        yield json_bytes({name: cells[name] for name in derived}, inf_nan_mode="null")  # JSON has neither
        yield b"}"
    yield "\n]}\n"


def chart_list(analysis: Analysis) -> tuple[charts.Chart, ...]:
    """The page's charts; those without data are left out."""
    a, made = analysis, []
    if a.curve:
        made.append(charts.curve_chart(a.curve, a.response))
    if a.curve and a.explanation:
        made.extend(explain_charts(a.explanation, a.curve))
    if a.axes:
        points = {axis.name: chartdata.labelled_points(a.records, axis, a.response) for axis in a.axes if a.ladder}
        labels = {name: chartdata.point_labels(rows) for name, rows in points.items()}
        made.append(charts.ratio_chart(a.columns, a.axes, a.response, a.by, a.baseline, labels=labels))
    if a.bars:
        made.append(charts.bars_chart(a.bars, a.response))
    if a.agreements:
        made.append(charts.model_chart(a.columns, a.agreements, a.response))
    if a.slices:
        made.extend(charts.mix_charts(a.slices))
    made.extend(charts.effect_charts(a.effects, {column.name: column for column in a.columns}, a.response))
    if a.interaction:
        made.append(charts.interaction_chart(a.interaction, a.response))
    return tuple(made)


def draw(analysis: Analysis, folder: Path) -> list[Path]:
    """Write the PNGs that have data."""
    a, made = analysis, []
    name = a.run.experiment
    words = {Basis.MEASURED: "throughput", Basis.ESTIMATE: "estimated throughput", Basis.CEILING: "predicted ceiling"}
    what = words[a.response.basis]
    if a.curve:
        for number, part in enumerate(a.curve.parts):
            file = "curve.png" if not number else f"curve-{number + 1}.png"
            title = f"{name}: {what} against {a.curve.axis}{f', {part}' if part else ''}"
            made.append(png.curve(folder / file, a.curve.only(part), a.response, title=title))
    if a.axes:
        made.append(
            png.ratio(
                folder / "ratio_vs_throughput.png", records=a.records, axis_column=a.axes[0], response=a.response,
                by=a.by, baseline=a.baseline, labelled=a.ladder, title=f"{name}: {a.ratio.lower()} against {what}",
            )
        )  # fmt: skip
    if a.bars:
        file, title = ("ladder.png", "each rung") if a.ladder else ("sweep.png", "the variants")
        peak = chartdata.common_peak(a.records)
        made.append(png.bars(folder / file, a.bars, a.response, peak, title=f"{name}: {what} of {title}"))
    if a.agreements:
        title = f"{name}: predicted against measured throughput"
        made.append(png.model(folder / "model.png", a.agreements, a.response, title=title))
    if a.slices:
        made.append(png.mix(folder / "instruction_mix.png", a.slices, title=f"{name}: instructions of the hot loop"))
    if a.effects:
        domain = charts.effect_domain(a.effects)
        title = f"{name}: main effects on {what} (mean, and range over the variants)"
        made.append(png.effects(folder / "main_effects.png", a.effects, domain, a.response, title=title))
    return made
