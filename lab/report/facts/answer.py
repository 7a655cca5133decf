"""The opening paragraph of the page, made from the records alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lab.isa.ratios import ratio_that_matters
from lab.measured.timing import Kind, Merit
from lab.predict.time_estimates import SWEEP_ERROR
from lab.predict.variant_scores import scores
from lab.recorded.run_records import RunRecord, SearchRecord, Status, VariantRecord
from lab.report.columns import Column
from lab.report.facts import counted, winners
from lab.report.facts.agreement import costliest
from lab.report.facts.effects import factors, main_effects, observations
from lab.report.facts.lead import lead, nothing_compared
from lab.report.facts.link import MixLink
from lab.report.facts.paired import ParameterEffect
from lab.store import figures
from lab.store.constant_sources import never_compared
from lab.store.figures import Basis, Response, name_of, percent
from lab.store.verdicts import group_reasons, summarise_full_size

_TELLING = 0.1
"""Least share of the variance for which the paragraph mentions a parameter."""
_REASONS: Final = 4
"""Most reasons for verdicts in the paragraph."""


@dataclass(frozen=True, slots=True)
class ExplanatoryVariable:
    """A figure of a variant that may explain its throughput.

    Attributes:
        name: As a sentence names it: `the SASS FMA share`.
        of: The figure, or None.
        share: The figure is a share from 0 to 1 and is shown in per cent.
        where: What it is counted in; follows the name where there is room.
    """

    name: str
    of: Callable[[VariantRecord], float | None]
    share: bool = False
    where: str = ""

    def text(self, value: float) -> str:
        """Format a value for a sentence."""
        return percent(value) if self.share else f"{value:.2f}"


FMA_SHARE: Final = ExplanatoryVariable(
    "the SASS FMA share", lambda record: figures.fma_share(record.sass), share=True, where=" of the hot loop"
)
TRAFFIC: Final = (
    ExplanatoryVariable("the emulated number of sectors per request", figures.emulated_sectors),
    ExplanatoryVariable("the predicted number of sectors per request", figures.predicted_sectors),
    ExplanatoryVariable("the emulated number of bytes moved per byte used", figures.emulated_excess),
    ExplanatoryVariable("the emulated number of bank conflicts per shared-memory request", figures.emulated_conflicts),
)
"""Figures that may explain a throughput that counts bytes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The opening paragraph.

    Attributes:
        headline: The figure that the page sets in large type; empty where there is none.
        sentences: Everything said of the run as a whole, in order.
        lead: The opening of the page: the answer in few words, sentence by sentence.
        verdict: Number of variants per verdict, then a sentence per reason.
    """

    headline: str
    sentences: tuple[str, ...]
    lead: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The paragraph."""
        return " ".join(self.sentences)


def explanations(records: Sequence[VariantRecord], response: Response) -> tuple[ExplanatoryVariable, ...]:
    """Return the variables to correlate with the response: the FMA share, or the known memory-traffic figures."""
    if response.unit is Merit.TFLOPS and any(FMA_SHARE.of(record) for record in records):
        return (FMA_SHARE,)
    return tuple(variable for variable in TRAFFIC if any(variable.of(record) is not None for record in records))


def answer(
    run: RunRecord,
    records: tuple[VariantRecord, ...],
    response: Response,
    *,
    effects: Sequence[ParameterEffect] = (),
    axes: Sequence[Column] = (),
    linked: MixLink | None = None,
) -> Answer:
    """Write the opening paragraph.

    Args:
        run: The run's facts.
        records: Every variant.
        response: The quantity that ranks variants.
        effects: Effects of the swept parameters, as of `lead`.
        axes: Mix figures, as of `lead`.
        linked: The link of mix and throughput.
    """
    explained = explanations(records, response)
    best = figures.ranked(records, response)
    if not best:
        headline, sentences = "", [nothing_compared(records)]
    elif run.problem_axes:
        headline, sentences = winners.sentences(winners.winners(run, records, response), response)
    elif response.basis is Basis.MEASURED:
        headline, sentences = _measured(run, best, response)
    elif response.basis is Basis.ESTIMATE:
        headline, sentences = _estimated(best, response)
    elif response.basis is Basis.SCORE:
        headline, sentences = _scored(records, best, response)
    else:
        headline, sentences = _predicted(best, response)
    if best and response.kind is Kind.MEASURED:
        sentences += [response.rule] if response.rule else []
        sentences += linked.sentences(response) if linked else ()
    elif best:
        sentences += [sentence for variable in explained for sentence in _spread(run, records, variable)]
    ratio = ratio_that_matters([record.sass.hot_counts for record in records if record.sass is not None])
    if ratio is not None:
        sentences.append(f"The ratio that matters is {ratio.name}, {ratio.why}.")
    if mapping_sentence := mapped(records):
        sentences.append(mapping_sentence)
    doubt = never_compared(best) if response.kind is Kind.PREDICTED else ""
    sentences += filter(None, [doubt, run.not_measured])
    if run.search:
        sentences.append(searched(run.search, records))
    verdict = (tally(run, records), *reasons(records))
    return Answer(headline, tuple(sentences), lead(run, records, response, effects, axes), verdict)


def mapped(records: Sequence[VariantRecord]) -> str:
    """Describe how accesses predicted from mappings agree with counted ones; empty where none are predicted."""
    pairs = [(record, figures.predicted_accesses(record)) for record in records]
    with_accesses = [(record, accesses) for record, accesses in pairs if accesses]
    if not with_accesses:
        return ""
    spaces = {name.partition(".")[0] for _, accesses in with_accesses for name in accesses}
    words = [text for space, text in (("global", "sectors"), ("shared", "bank conflicts")) if space in spaces]
    claim = f"The {' and '.join(words)} per request that the mappings predict equal those counted on the CPU in"
    off = [
        (record, name, *values)
        for record, accesses in with_accesses
        for name, values in accesses.items()
        if not math.isclose(*values, rel_tol=1e-6, abs_tol=1e-9)
    ]
    if not off:
        return f"{claim} all {len(with_accesses)} variants."
    variants = len({record.variant for record, *_ in off})
    record, name, predicted, counted = max(off, key=lambda difference: abs(difference[2] - difference[3]))
    return (
        f"{claim} {len(with_accesses) - variants} of {len(with_accesses)} variants; the largest difference is that of "
        f"{name_of(record)}, {name.replace('.', ' ')}: {predicted:.2f} predicted, {counted:.2f} counted."
    )


def _measured(run: RunRecord, best: tuple[VariantRecord, ...], response: Response) -> tuple[str, list[str]]:
    first = best[0]
    rate, unit = response.of(first) or 0.0, response.unit
    gpu = run.gpu.name if run.gpu else "the GPU"
    text = f"Of {len(best)} measured variants, {name_of(first)} is the fastest on {gpu}: {response.text(rate)} {unit}"
    headline = f"{response.text(rate)} {unit}"
    peak = figures.peak(first)
    if peak:
        share = percent(rate / peak)
        text += f", {share} of the {peak:.1f} {unit} peak"
        headline += f" · {share} of peak"
    measurement = first.measurement
    ratio = measurement.ratio_to_baseline if measurement else None
    if measurement and ratio is not None:
        name = measurement.baseline_name or "the baseline"
        text += f" and {ratio:.3f} times the throughput of {name}"
        headline += f" · {ratio:.3f} × {name}"
    sentences = [f"{text}."]
    if measurement and measurement.remeasured:
        again = first.rate(measurement.remeasured.median)
        sentences.append(f"Measured again in a fresh process it reaches {response.text(again)} {unit}.")
    if counter_sentence := counted.sentence(first):
        sentences.append(counter_sentence)
    return headline, sentences


def _estimated(best: tuple[VariantRecord, ...], response: Response) -> tuple[str, list[str]]:
    first = best[0]
    rate, unit, peak = response.of(first) or 0.0, response.unit, figures.peak(first)
    gpu = first.prediction.gpu if first.prediction else "the GPU"
    text = f"The scheduler model predicts that {name_of(first)} is the fastest on {gpu}: {response.text(rate)} {unit}"
    headline = f"≈ {response.text(rate)} {unit} estimated on {gpu}"
    if peak:
        share = percent(rate / peak)
        text, headline = f"{text}, {share} of peak", f"{headline} · {share} of peak"
    sentences = [f"{text}."]
    if cost := costliest(first):
        sentences.append(f"Apart from fma, most of its cycles go to {cost[0]} ({cost[1]:.0%}).")
    if first.prediction and (bound := first.prediction.ceiling):
        sentences.append(f"It cannot exceed {bound.rate:.2f} {unit}, bound by {bound.name}.")
    return headline, sentences


def _scored(
    records: tuple[VariantRecord, ...], best: tuple[VariantRecord, ...], response: Response
) -> tuple[str, list[str]]:
    first, unit = best[0], response.unit
    tied, gpu = figures.tied_with_best(records, response), first.prediction.gpu if first.prediction else "the GPU"
    score = scores(records)[first.variant]
    rate = f"{response.text(response.of(first) or 0.0)} {unit}"
    if figures.undecided(records, response):
        within = f"lie within {SWEEP_ERROR - 1:.0%}, no more than their errors against each other"
        text = f"The predicted times of all {len(best)} variants on {gpu} {within}"
        return f"≈ {rate} predicted on {gpu} · cannot tell", [f"{text}: the prediction cannot tell which is fastest."]
    sentences = [f"By its predicted time on {gpu}, {name_of(first)} is first of {len(best)} variants, at {rate}."]
    if len(tied) > 1:
        sentences.append(
            f"{len(tied) - 1} more are within {response.tolerance:.0%}, which the prediction cannot tell apart."
        )
    sentences.append(f"Most of its time goes to {score.bound}.")
    return f"≈ {rate} predicted on {gpu}", sentences


def _predicted(best: tuple[VariantRecord, ...], response: Response) -> tuple[str, list[str]]:
    first = best[0]
    rate, unit = response.of(first) or 0.0, response.unit
    ties = sum(response.tied(first, record) for record in best)
    gpu = first.prediction.gpu if first.prediction else "the GPU"
    bound = first.prediction.ceiling if first.prediction else None
    text = f"The best predicted ceiling on {gpu} is {response.text(rate)} {unit}"
    headline = f"ceiling {response.text(rate)} {unit} on {gpu}"
    peak = figures.peak(first)
    if ties == len(best) > 1:
        text = f"Every variant has the same predicted ceiling on {gpu}, {response.text(rate)} {unit}"
        claim = f"{text}, bound by {bound.name}" if bound else text
        return headline, [f"{claim}: variants with the same ceiling are not ranked."]
    if peak:
        share = percent(rate / peak)
        text, headline = f"{text}, {share} of peak", f"{headline} · {share} of peak"
    if bound:
        text += f", bound by {bound.name}"
    sharing = f"{ties} of {len(best)} variants share it" if ties > 1 else f"only {name_of(first)} reaches it"
    return headline, [f"{text}; {sharing}."]


def _spread(run: RunRecord, records: tuple[VariantRecord, ...], explanation: ExplanatoryVariable) -> list[str]:
    """Describe the range of a figure and the parameter that explains most of it."""
    observed = observations(records, explanation.of)
    if not observed:
        return []
    low, high = min(value for _, value in observed), max(value for _, value in observed)
    name = f"{explanation.name[0].upper()}{explanation.name[1:]}{explanation.where}"
    if math.isclose(low, high, rel_tol=1e-9):
        return [f"{name} is {explanation.text(low)} in all {len(observed)} variants."]
    text = f"{name} ranges from {explanation.text(low)} to {explanation.text(high)}"
    effects = main_effects(factors(run, records), observed)
    if effects and effects[0].share >= _TELLING:
        effect = effects[0]
        text += f"; {effect.factor} explains {percent(effect.share, 0)} of the variance, more than any other parameter"
    return [f"{text}."]


def searched(search: SearchRecord, records: Sequence[VariantRecord]) -> str:
    """Describe how a search chose its variants, and their outcomes."""
    sample, *rounds = search.rounds
    if search.strategy != "random":
        return _by_strategy(search, records)
    text = f"Of {search.combinations:.3g} combinations, {search.drawn:,} were drawn (seed {search.seed})"
    text += f" to find {sample:,} valid variants"
    if rounds:
        text += f"; refining around the best added {', '.join(f'{n:,}' for n in rounds)}"
    reasons = Counter(record.pruned_by for record in records if record.status is Status.PRUNED)
    by_rule = f" ({', '.join(f'{count} by {reason}' for reason, count in reasons.items())})" if reasons else ""
    built = sum(record.build is not None for record in records)
    run = sum(record.verification is not None or record.measurement is not None for record in records)
    verified = sum(record.status.sound for record in records)
    partial = sum(record.status is Status.PARTIAL for record in records)
    return (
        f"{text}. {built:,} were built, {sum(reasons.values()):,} pruned{by_rule}, {run:,} run on a GPU and "
        f"{verified:,} verified{f', {partial:,} of them in part' if partial else ''}."
    )


def _by_strategy(search: SearchRecord, records: Sequence[VariantRecord]) -> str:
    """Describe a search by a strategy: what it built, left out and measured, and why it ended."""
    name = search.strategy.replace("_", " ")
    text = f"Of {search.combinations:.3g} combinations, the strategy {name} (seed {search.seed})"
    built = sum(record.build is not None for record in records)
    text += f" had {built:,} built{' and predicted' if search.candidates else ''}"
    reasons = Counter(record.pruned_by for record in records if record.status is Status.PRUNED)
    if reasons:
        text += f", left {sum(reasons.values()):,} out ({', '.join(f'{n} by {rule}' for rule, n in reasons.items())})"
    rounds = len(search.rounds) - (1 if search.candidates else 0)
    return " ".join([f"{text} and tried {len(search.order):,}, in {rounds:,} rounds.", *search.endings])


def tally(run: RunRecord, records: Sequence[VariantRecord]) -> str:
    """Count variants verified, verified in part, only inspected, failed (with reasons) or missing."""
    counts = Counter(record.status for record in records)
    by_emulation = "" if run.gpu else " by executing their PTX on the CPU"
    sound = [status for status in (Status.VERIFIED, Status.PARTIAL) if counts[status]]
    parts = [f"{counts[status]} {status}{by_emulation}" for status in sound]
    if counts[Status.INSPECTED]:
        parts.append(f"{counts[Status.INSPECTED]} compiled and inspected without being executed")
    if counts[Status.PRUNED]:
        parts.append(f"{counts[Status.PRUNED]} pruned")
    failed = {status: count for status, count in counts.items() if status.failed}
    if failed:
        statuses = ", ".join(f"{count} {status}" for status, count in failed.items())
        parts.append(f"{sum(failed.values())} failed ({statuses})")
    else:
        parts.append("none failed")
    missing = run.variants - len(records)
    if missing > 0:
        parts.append(f"{missing} not reached before the run ended")
    return f"Of {max(run.variants, len(records))} variants: {'; '.join(parts)}."


def reasons(records: Sequence[VariantRecord]) -> list[str]:
    """Explain wrong, suspect or partly verified variants, one sentence per reason, and full-size runs."""
    groups = group_reasons(records)
    sentences = [f"{group.text[0].upper()}{group.text[1:].rstrip('.')}." for group in groups[:_REASONS]]
    if len(groups) > _REASONS:
        sentences.append(f"There are {len(groups) - _REASONS} further reasons.")
    sampled = summarise_full_size(records)
    return [*sentences, *([f"{sampled[0].upper()}{sampled[1:]}."] if sampled else [])]
