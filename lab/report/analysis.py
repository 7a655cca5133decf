"""The analysis of a run for its report, derived from the records alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lab.predict.variant_scores import lean
from lab.recorded.run_records import RepeatRecord, RunRecord, VariantRecord
from lab.report.charts import rows as chartdata
from lab.report.charts.definition import Row
from lab.report.charts.rows import Bar, Slice
from lab.report.columns import Column, table
from lab.report.facts import repeatability, traffic, winners
from lab.report.facts.agreement import Agreement, agreements
from lab.report.facts.answer import Answer, answer
from lab.report.facts.compilers import Compilers, compilers
from lab.report.facts.curve_explanation import CurveExplanation, explain
from lab.report.facts.curves import Curve, curve
from lab.report.facts.effects import Effect, Interaction, factors, main_effects, observations, strongest_interaction
from lab.report.facts.lead import lead
from lab.report.facts.link import MixLink, link
from lab.report.facts.paired import ParameterEffect, headline_change, parameter_effects
from lab.report.facts.searching import SearchPath, search_path
from lab.report.facts.strays import Stray, strays
from lab.report.registry.run_columns import columns_for
from lab.report.variant.executed_counts import difference
from lab.store import figures
from lab.store.database import Store
from lab.store.figures import Basis, Response, response_of

_LEAST_ANSWERED: Final = 2
MOST_ANSWERED: Final = 2_000
"""Most variants of which a command computes the effects again, some 2 ms for each, after the page has them."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The analysis shared by the page, the PNGs and the tables, computed once.

    Attributes:
        run: The run's facts.
        records: Every record, in the experiment's order, without `emulation.lines` (see `load`).
        columns: The run's columns.
        rows: Each record's cells by column key; None is an empty cell.
        response: The quantity variants are compared by.
        answer: The opening paragraph.
        winners: Problem by problem; None where the opening has a sentence for each.
        effects: Main effects, the most influential factor first.
        interaction: The strongest one, or None.
        bars: Ladder or sweep.
        slices: Instruction mix.
        axes: Mix figures whose values differ.
        swept_effects: Effects of the swept parameters: those of the question first, then the largest first.
        link: The mix figure that the asked parameter moves, with its correlations; None without axes.
        baseline: Name and throughput, where one is the same for all variants, else None.
        curve: Throughput along a problem axis, where the problems differ in one number (and in words); else None.
        explanation: Figures that explain the curve, where they are known.
        agreements: Predictions against measurements, where there are enough of both.
        strays: Outliers: profiled variants with the largest prediction errors, and their counters.
        compilers: The same variants by several compilers; None where there is one.
        repeat: How the run came out a second time; None where it was not repeated.
        search: The course of a strategy's search; None without one.
        different: Variant id to a sentence, where execution spends most in another loop than the static hot loop.
    """

    run: RunRecord
    records: tuple[VariantRecord, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    response: Response
    answer: Answer
    winners: winners.WinnerTable | None
    effects: tuple[Effect, ...]
    interaction: Interaction | None
    bars: tuple[Bar, ...]
    slices: tuple[Slice, ...]
    axes: tuple[Column, ...]
    swept_effects: tuple[ParameterEffect, ...]
    link: MixLink | None
    baseline: tuple[str, float] | None
    curve: Curve | None
    explanation: CurveExplanation | None
    agreements: tuple[Agreement, ...]
    strays: tuple[Stray, ...]
    compilers: Compilers | None
    repeat: RepeatRecord | None
    search: SearchPath | None
    different: Mapping[str, str]

    @property
    def rule(self) -> str:
        """The ranking rule as a sentence; empty where variants rank by the response itself."""
        return figures.rule_of(self.records, self.response)

    @property
    def ladder(self) -> bool:
        """True if the experiment has more than one kernel."""
        return chartdata.is_ladder(self.records)


def load(store: Store) -> tuple[tuple[VariantRecord, ...], dict[str, str]]:
    """Read the records of a run, without the counts per PTX line.

    These counts are half of a record, and ten thousand records with them would take more memory than all else. Only the
    variants whose listings are embedded need them; their records are read again.

    Returns:
        The records in the experiment's order, and `Analysis.different`.
    """
    records, different = [], {}
    for record in store.each():
        if sentence := difference(record):
            different[record.variant] = sentence
        records.append(lean(record))
    return tuple(records), different


def brief_answer(run: RunRecord, records: tuple[VariantRecord, ...]) -> tuple[str, ...]:
    """Return the sentences with which the page opens; none for fewer than two or more than `MOST_ANSWERED` variants.

    They are those of `lab.report.facts.lead`, without the rest of the analysis.
    """
    response = response_of(records)
    if len(figures.ranked(records, response)) < _LEAST_ANSWERED or len(records) > MOST_ANSWERED:
        return ()
    axes = chartdata.ratio_columns(columns_for(run, records), records, response)
    return lead(run, records, response, parameter_effects(run, records, response), axes)


def analyse(
    run: RunRecord,
    records: tuple[VariantRecord, ...],
    different: Mapping[str, str],
    repeat: RepeatRecord | None = None,
) -> Analysis:
    """Derive everything the report says.

    Args:
        run: The run's facts.
        records: As `load` returns them.
        different: As `load` returns it.
        repeat: How the run came out a second time; None where it was not repeated.
    """
    response = response_of(records)
    columns = columns_for(run, records, repeat)
    observed = observations(records, response.of)
    varied = factors(run, records)
    effects = main_effects(varied, observed)
    # Equal ceilings rank nothing: bars of 100 % of the peak would look like a prediction.
    alike = response.basis is Basis.CEILING and len(figures.tied_with_best(records, response)) == len(records) > 1
    bars = () if alike else chartdata.bars(run, records, response)
    throughput_curve = curve(run, records, response)
    baselines = [(bar.name, bar.value) for bar in bars if bar.group == "baseline"]
    axes = chartdata.ratio_columns(columns, records, response) if observed else ()
    swept_effects = parameter_effects(run, records, response)
    change = headline_change(swept_effects, next(iter(figures.ranked(records, response)), None))
    linked = link(records, response, axes, run.question, change=change, effects=effects)
    opening = answer(run, records, response, effects=swept_effects, axes=axes, linked=linked)
    if (compared := compilers(run, records, response)) is not None:
        sentences = opening.sentences
        opening = replace(opening, sentences=(*sentences[:1], *compared.sentences, *sentences[1:]))
    moving = traffic.sentences(traffic.gains(run, records, response))
    opening = replace(opening, sentences=(*opening.sentences, *moving))
    if repeat is not None:
        opening = replace(opening, sentences=(*opening.sentences, *repeatability.sentences(repeat, response)))
    return Analysis(
        run,
        records,
        columns,
        table(records, columns),
        response,
        opening,
        winners.table(run, records, columns, response),
        effects,
        strongest_interaction(varied, observed),
        bars,
        chartdata.mix_slices(run, records, response),
        axes,
        swept_effects,
        linked,
        baselines[0] if len(baselines) == 1 else None,
        throughput_curve,
        explain(throughput_curve, records, columns, response.unit),
        agreements(records),
        strays(records),
        compared,
        repeat,
        search_path(run, records, response),
        different,
    )
