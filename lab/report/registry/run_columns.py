"""The columns of a run, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lab.isa.ratios import ratio_that_matters
from lab.measured.metrics import DeclaredFigure
from lab.measured.timing import Kind, Measurement, Merit
from lab.predict.time_estimates import TimeEstimate, estimates
from lab.predict.variant_scores import rate, scores
from lab.recorded.run_records import RepeatRecord, RunRecord, VariantRecord
from lab.report.columns import Column
from lab.report.registry import errors
from lab.report.registry.code import CODE
from lab.report.registry.execution import EXECUTION, tensor_columns
from lab.report.registry.getters import timed
from lab.report.registry.headline import HEADLINE, IDENTITY
from lab.store import figures
from lab.store.constant_sources import constants_of
from lab.store.figures import Basis, Response


def _in_unit(column: Column, unit: str) -> Column:
    """Return a column for a unit of throughput other than TFLOP/s; only columns of throughput differ."""
    if column.unit != Merit.TFLOPS:
        return column
    counts_bytes = unit == Merit.BANDWIDTH
    about = (_ABOUT_BYTES if counts_bytes else _ABOUT_OTHERS).get(column.name, column.about)
    name, form = figures.column_name(column.name, unit), ",.1f" if counts_bytes else figures.format_of(unit)
    return replace(column, name=name, unit=str(unit), format=form, about=about)


_ABOUT_BYTES: Final = {
    "measured_tflops": "fewest bytes that the problem must move, over the median time",
    "peak_tflops": "memory bandwidth of the GPU",
}
_ABOUT_OTHERS: Final = {
    "measured_tflops": "the first of the file's metrics, at the median time",
    "predicted_tflops": "of the least time in which the memory can move the arrays",
    "peak_tflops": "the GPU has no peak in this unit",
}


def _parameter(name: str, index: int, *, swept: bool) -> Column:
    return Column(
        f"p.{name}",
        name,
        None,
        lambda r: r.parameters.get(name),
        shown=swept,
        field=f"parameter_{index}",
        about="parameter of the template",
    )


def _problem(name: str, index: int) -> Column:
    return Column(
        f"problem.{name}",
        name,
        None,
        lambda r: r.problem.get(name),
        shown=True,
        field=f"problem_{index}",
        about="field of the problem",
    )


def columns_for(
    run: RunRecord, records: Sequence[VariantRecord], repeat: RepeatRecord | None = None
) -> tuple[Column, ...]:
    """Return the columns of a run: identity, varying problem fields, parameters (swept ones first), figures.

    Args:
        run: The run's facts.
        records: Its records.
        repeat: The comparison with its repetition; None where it was not repeated.
    """
    names = dict.fromkeys(run.swept)
    for record in records:
        names.update(dict.fromkeys(record.parameters))
    parameters = tuple(_parameter(name, index, swept=name in run.swept) for index, name in enumerate(names))
    problems = tuple(_problem(name, index) for index, name in enumerate(run.problem_axes))
    unit = figures.unit_of(records)
    further_baselines = dict.fromkeys(
        name for record in records if record.measurement for name in record.measurement.others
    )
    compared = tuple(column for name in further_baselines for column in _compared(name))
    several = len({record.compiler for record in records}) > 1
    compiler = Column("compiler", "compiler", None, lambda r: r.compiler, shown=several, about="toolchain and version")
    sets = len({record.options for record in records}) > 1
    options = Column(
        "options", "options", None, lambda r: " ".join(r.options) or None, shown=sets, about="further compiler options"
    )
    again = (_repeated(repeat),) if repeat is not None else ()
    response = figures.response_of(tuple(records))
    setting = _over_setting(run, records, response)
    chosen = (
        *_standing(run, records, response),
        *setting,
        *_scored(records, response),
        *_estimated_times(records),
        *_declared(records, response),
        *_ratio(records),
    )
    leading = (*IDENTITY, compiler, options, *problems, *parameters, *_cards(run, records))
    first, differ = errors.of_baselines(records), errors.differ(records)
    headline = tuple(
        replace(column, shown=True) if differ and column.name == errors.OWN else column for column in HEADLINE
    )
    columns = (*leading, *again, *chosen, *headline, *first, *EXECUTION, *tensor_columns(records), *CODE, *compared)
    if any(record.profile for record in records):  # the emulated traffic stands beside the counted one
        columns = tuple(
            replace(column, shown=True) if column.name == "moved_per_byte_needed" else column for column in columns
        )
    return columns if unit is Merit.TFLOPS else tuple(_in_unit(column, unit) for column in columns)


def _cards(run: RunRecord, records: Sequence[VariantRecord]) -> tuple[Column, ...]:
    """Return the columns on each variant's card, where several cards measured."""
    if not run.cards:
        return ()
    labels = {card.id: card.label for card in run.cards}
    doubt = any(map(figures.doubtful, records))
    return (
        Column(
            "card",
            "card",
            None,
            timed(lambda m: labels.get(m.card, m.card) or None),
            shown=True,
            about="the GPU that timed it; of the best ones, that of the final",
        ),
        Column(
            "card_differs",
            "card differs",
            None,
            timed(lambda m: bool(m.doubt)),
            shown=doubt,
            about="its time does not compare with those of other cards, and it does not win by it",
        ),
        Column(
            "sweep_ms",
            "time in the sweep",
            Kind.MEASURED,
            timed(lambda m: m.sweep.samples.median if m.sweep else None),
            "ms",
            ".4f",
            about="of a variant that was timed again, interleaved with the other finalists, on one card",
        ),
    )


def _standing(run: RunRecord, records: Sequence[VariantRecord], response: Response) -> tuple[Column, ...]:
    """Return the column of best and tied variants; none is best where all are tied."""
    standings: dict[str, str] = {}
    for group in figures.by_problem(run, tuple(records)).values():
        tied = figures.tied_with_best(group, response)
        first = "best" if len(tied) == 1 else "tied"
        standings |= {record.variant: first for record in tied}
    about = "best of its problem, or within the noise or the prediction's error of the best"
    return (Column("standing", "standing", response.kind, lambda r: standings.get(r.variant), shown=True, about=about),)


def _over_setting(run: RunRecord, records: Sequence[VariantRecord], response: Response) -> tuple[Column, ...]:
    """Return the column of throughput over that with the experiment's baseline parameters."""
    if not run.setting:
        return ()
    ratios, words = figures.over_setting(run, records, response), figures.setting_in_words(run.setting)
    about = f"throughput over that of the variant which differs in {words} alone"
    name = f"over {words}"
    return (
        Column(
            "over_setting",
            name,
            response.kind,
            lambda r: ratios.get(r.variant),
            format=".3f",
            shown=True,
            about=about,
        ),
    )


def _scored(records: Sequence[VariantRecord], response: Response) -> tuple[Column, ...]:
    """Return the throughput and bound of the predicted time, shown where they rank the variants."""
    visible, predictions = response.basis is Basis.SCORE, scores(records)
    rates = {r.variant: rate(r, predictions[r.variant]) for r in records if r.variant in predictions}
    bounds = {variant: prediction.bound for variant, prediction in predictions.items()}
    about = "from a predicted time: each resource's work, by counts of the CPU execution (docs/explanation/score.md)"
    return (
        Column(
            "scored_tflops",
            "predicted throughput",
            Kind.PREDICTED,
            lambda r: rates.get(r.variant),
            str(Merit.TFLOPS),
            ".2f",
            shown=visible,
            about=about,
        ),
        Column(
            "scored_bound",
            "takes longest",
            Kind.PREDICTED,
            lambda r: bounds.get(r.variant),
            shown=visible,
            about="resource of the GPU that needs the most time by itself",
        ),
    )


def _estimated_times(records: Sequence[VariantRecord]) -> tuple[Column, ...]:
    """Return the columns of every variant's estimated time, its interval and its costs."""
    by_variant = estimates(records)

    def column(name: str, title: str, value: Callable[[TimeEstimate], float], about: str) -> Column:
        def of(record: VariantRecord) -> float | None:
            estimate = by_variant.get(record.variant)
            return None if estimate is None else value(estimate)

        return Column(name, title, Kind.PREDICTED, of, "ms", ".4g", about=about)

    about = "all launches, by the model of the schedulers where every variant has that, else by counted work"
    costs = {variant: estimate.cost for variant, estimate in by_variant.items() if estimate.cost}
    return (
        column("estimated_ms", "estimated time", lambda time: time.ms, about),
        column(
            "estimated_ms_low",
            "at least",
            lambda time: time.low_ms,
            "least time of the interval (docs/explanation/model.md)",
        ),
        column("estimated_ms_high", "at most", lambda time: time.high_ms, "greatest time that is likely"),
        Column(
            "estimated_cost",
            "where the time goes",
            Kind.PREDICTED,
            lambda r: costs.get(r.variant),
            about="shares of the schedulers' cycles, or what each resource alone would need; those overlap",
        ),
        Column(
            "estimated_from",
            "constants of the estimate",
            Kind.PREDICTED,
            lambda r: (constants_of(r) or None) if r.variant in by_variant else None,
            about="measured on such a GPU, calibrated by this user, or published and never compared with hardware",
        ),
    )


def _declared(records: Sequence[VariantRecord], response: Response) -> tuple[Column, ...]:
    """Return the file's further metrics, measured or predicted like the response; none for a ceiling."""
    if response.basis is Basis.CEILING:
        return ()
    declared: dict[str, dict[str, DeclaredFigure]] = {}
    for record in records:
        for figure in record.declared_figures:
            declared.setdefault(figure.unit, {})[record.variant] = figure

    def column(index: int, unit: str, by_variant: Mapping[str, DeclaredFigure]) -> Column:
        def value(record: VariantRecord) -> float | None:
            figure, ms = by_variant.get(record.variant), figures.time_ms(record, response)
            return None if figure is None or ms is None else figure.value(ms)

        about = f"one of the file's metrics: {next(iter(by_variant.values())).expression}"
        name = f"metrics.{unit}"
        return Column(name, unit, response.kind, value, "", ".4g", shown=True, field=f"metric_{index}", about=about)

    return tuple(column(index, unit, by_variant) for index, (unit, by_variant) in enumerate(declared.items()))


def _ratio(records: Sequence[VariantRecord]) -> tuple[Column, ...]:
    """Return the column of the ratio that matters, over the instructions of the hot region."""
    ratio = ratio_that_matters([mix.hot_counts for r in records if (mix := r.sass) is not None])
    if ratio is None:
        return ()
    return (
        Column(
            RATIO,
            f"SASS {ratio.name}",
            Kind.STATIC,
            lambda r: None if r.sass is None else ratio.of(r.sass.hot_counts),
            format=".1%" if ratio.share else ".3g",
            shown=True,
            about=f"of the hot loop, or of a body without loops; chosen {ratio.why}",
        ),
    )


RATIO: Final = "ratio_that_matters"
"""Name of the column of `lab.isa.ratios.ratio_that_matters`."""


def _repeated(repeat: RepeatRecord) -> Column:
    """Return the column of the run-to-run change of the ranking figure."""
    kind = repeat.figures[0].kind if repeat.figures else Kind.MEASURED
    differences = repeat.differences
    about = "of the figure that ranks the variants: second run over first, less 1"
    return Column(
        "run_to_run", "run to run", kind, lambda r: differences.get(r.variant), format="+.2%", shown=True, about=about
    )


def _compared(name: str) -> tuple[Column, Column]:
    """Return the columns of a further baseline."""
    return (
        Column(
            f"ratio_to_{name}",
            f"ratio to {name}",
            Kind.MEASURED,
            timed(lambda m: m.ratio_to(name)),
            format=".3f",
            shown=True,
            about=f"throughput over that of {name}, interleaved A/B timing; above 1 is faster",
        ),
        Column(f"{name}_ms", f"{name} median", Kind.MEASURED, timed(lambda m: _median_of(m, name)), "ms", ".4f"),
    )


def _median_of(measurement: Measurement, name: str) -> float | None:
    samples = measurement.others.get(name)
    return None if samples is None else samples.median
