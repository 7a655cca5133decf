"""The page's opening: a paragraph made from the records, and nothing else."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from scipy import stats

from lab.measured.timing import Kind, Merit
from lab.report.facts import counted, winners
from lab.report.facts.agreement import costliest
from lab.report.facts.effects import factors, main_effects, observations
from lab.store import figures
from lab.store.figures import Basis, Response, name_of, percent
from lab.store.model import RunRecord, SearchRecord, Status, VariantRecord

_TELLING = 0.1
"""Share of the variance from which on a parameter is worth a word."""
FEWEST = 5
"""A rank correlation over fewer variants than this is not reported: with four, even a perfect order has p = 1/12."""


@dataclass(frozen=True, slots=True)
class ExplanatoryVariable:
    """A figure of a variant that may explain its throughput.

    Attributes:
        name: As a sentence names it: `the SASS FMA share`.
        of: The figure, or None.
        share: It is a share, shown in per cent.
        where: What it is counted in, behind the name where there is room.
    """

    name: str
    of: Callable[[VariantRecord], float | None]
    share: bool = False
    where: str = ""

    def text(self, value: float) -> str:
        """A value as a sentence shows it."""
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
"""Where throughput counts bytes."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """Spearman's rank correlation of a figure with the response.

    Attributes:
        n: Variants that have both.
        rho: The coefficient, or None where it is not defined or `n` is below `FEWEST`.
        p: Two-sided p-value (t approximation, as scipy computes it), or None.
        sentence: The finding in words, with n.
    """

    n: int
    rho: float | None
    p: float | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Sentences of the paragraph, in order; `headline` is the figure that the page sets large, if there is one."""

    headline: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The paragraph."""
        return " ".join(self.sentences)


def explanations(records: Sequence[VariantRecord], response: Response) -> tuple[ExplanatoryVariable, ...]:
    """What the response is correlated with: the FMA share, or the memory traffic as far as it is known."""
    if response.unit is Merit.TFLOPS:
        return (FMA_SHARE,)
    return tuple(one for one in TRAFFIC if any(one.of(record) is not None for record in records))


def correlate(
    records: Sequence[VariantRecord], response: Response, explanation: ExplanatoryVariable = FMA_SHARE
) -> Correlation:
    """Rank correlation of a figure with the response over the variants that have both."""
    pairs = [
        (share, value)
        for record in records
        if (share := explanation.of(record)) is not None and (value := response.of(record)) is not None
        if response.kind is Kind.PREDICTED or record.status is Status.VERIFIED
    ]
    n, what = len(pairs), f"{response.kind} {response.title}"
    over = f"n = {n} " + ("verified variants" if response.kind is Kind.MEASURED else "variants")
    if n < FEWEST:
        return Correlation(n, None, None, f"{over} are too few to correlate {explanation.name} with {what}.")
    shares, values = zip(*pairs, strict=True)
    for name, column in ((explanation.name, shares), (f"the {what}", values)):
        if math.isclose(min(column), max(column), rel_tol=1e-9):
            return Correlation(
                n, None, None, f"{name[0].upper()}{name[1:]} is the same for all {over}: no correlation."
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        found = stats.spearmanr(shares, values)
    rho, p = float(found.statistic), float(found.pvalue)
    shown = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"  # noqa: PLR2004 - the customary least p that is printed
    sentence = (
        f"The rank correlation (Spearman) of {explanation.name} with {what} is ρ = {rho:+.2f} over {over} ({shown})."
    )
    return Correlation(n, rho, p, sentence)


def answer(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> Answer:
    """The opening paragraph."""
    explained = explanations(records, response)
    best = figures.ranked(records, response)
    if not best:
        headline, sentences = "", ["No variant came far enough to be compared."]
    elif run.problem_axes:
        headline, sentences = winners.sentences(winners.winners(run, records, response), response)
    elif response.basis is Basis.MEASURED:
        headline, sentences = _measured(run, best, response)
    elif response.basis is Basis.ESTIMATE:
        headline, sentences = _estimated(best, response)
    else:
        headline, sentences = _predicted(best, response)
    if best and response.kind is Kind.MEASURED:
        sentences += [correlate(records, response, one).sentence for one in explained]
    elif best:
        sentences += [sentence for one in explained for sentence in _spread(run, records, one)]
    if said := mapped(records):
        sentences.append(said)
    if run.not_measured:
        sentences.append(_not_measured(run.not_measured))
    if run.search:
        sentences.append(searched(run.search, records))
    sentences.append(tally(run, records))
    return Answer(headline, tuple(sentences))


def mapped(records: Sequence[VariantRecord]) -> str:
    """How what the mappings predict of accesses agrees with what was counted; empty where nothing is predicted."""
    pairs = [(record, figures.predicted_accesses(record)) for record in records]
    known = [(record, both) for record, both in pairs if both]
    if not known:
        return ""
    spaces = {name.partition(".")[0] for _, both in known for name in both}
    words = [text for space, text in (("global", "sectors"), ("shared", "bank conflicts")) if space in spaces]
    what = f"{' and '.join(words).capitalize()} a request, as the mappings predict them,"
    off = [
        (record, name, *values)
        for record, both in known
        for name, values in both.items()
        if not math.isclose(*values, rel_tol=1e-6, abs_tol=1e-9)
    ]
    if not off:
        return f"{what} are those counted on the CPU in all {len(known)} variants."
    variants = len({record.variant for record, *_ in off})
    record, name, predicted, counted = max(off, key=lambda one: abs(one[2] - one[3]))
    return (
        f"{what} are those counted on the CPU in {len(known) - variants} of {len(known)} variants; furthest off is "
        f"{name_of(record)}, {name.replace('.', ' ')} {predicted:.2f} predicted, {counted:.2f} counted."
    )


def _not_measured(reason: str) -> str:
    """The run's reason as a sentence that says what it is a reason for."""
    reason = reason.strip().rstrip(".")
    return f"{reason}." if reason.lower().startswith("nothing was measured") else f"Nothing was measured: {reason}."


def _measured(run: RunRecord, best: tuple[VariantRecord, ...], response: Response) -> tuple[str, list[str]]:
    first = best[0]
    rate, unit = response.of(first) or 0.0, response.unit
    gpu = run.gpu.name if run.gpu else "the GPU"
    text = f"Of {len(best)} measured variants, {name_of(first)} is the fastest on {gpu}: {rate:.2f} {unit}"
    headline = f"{rate:.2f} {unit}"
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
        sentences.append(f"Measured again in a fresh process it reaches {again:.2f} {unit}.")
    if said := counted.sentence(first):
        sentences.append(said)
    return headline, sentences


def _estimated(best: tuple[VariantRecord, ...], response: Response) -> tuple[str, list[str]]:
    first = best[0]
    rate, unit, peak = response.of(first) or 0.0, response.unit, figures.peak(first)
    gpu = first.prediction.gpu if first.prediction else "the GPU"
    text = f"By the model of the schedulers {name_of(first)} is the fastest on {gpu}: {rate:.2f} {unit}"
    headline = f"≈ {rate:.2f} {unit} estimated"
    if peak:
        share = percent(rate / peak)
        text, headline = f"{text}, {share} of peak", f"{headline} · {share} of peak"
    sentences = [f"{text}."]
    if cost := costliest(first):
        sentences.append(f"Besides fma its cycles go most into {cost[0]} ({cost[1]:.0%}).")
    if first.prediction and (bound := first.prediction.ceiling):
        sentences.append(f"It cannot exceed {bound.rate:.2f} {unit}, bound by {bound.name}.")
    return headline, sentences


def _predicted(best: tuple[VariantRecord, ...], response: Response) -> tuple[str, list[str]]:
    first = best[0]
    rate, unit = response.of(first) or 0.0, response.unit
    ties = sum(math.isclose(response.of(record) or 0.0, rate, rel_tol=1e-6) for record in best)
    gpu = first.prediction.gpu if first.prediction else "the GPU"
    bound = first.prediction.ceiling if first.prediction else None
    text = f"The best predicted ceiling on {gpu} is {rate:.2f} {unit}"
    headline = f"≤ {rate:.2f} {unit} predicted"
    peak = figures.peak(first)
    if peak:
        share = percent(rate / peak)
        text, headline = f"{text}, {share} of peak", f"{headline} · {share} of peak"
    if bound:
        text += f", bound by {bound.name}"
    held = f"{ties} of {len(best)} variants share it" if ties > 1 else f"{name_of(first)} alone reaches it"
    return headline, [f"{text}; {held}."]


def _spread(run: RunRecord, records: tuple[VariantRecord, ...], explanation: ExplanatoryVariable) -> list[str]:
    """Range of a figure and the parameter that moves it most."""
    observed = observations(records, explanation.of)
    if not observed:
        return []
    low, high = min(value for _, value in observed), max(value for _, value in observed)
    name = f"{explanation.name[0].upper()}{explanation.name[1:]}{explanation.where}"
    if math.isclose(low, high, rel_tol=1e-9):
        return [f"{name} is {explanation.text(low)} in all {len(observed)} variants."]
    text = f"{name} runs from {explanation.text(low)} to {explanation.text(high)}"
    effects = main_effects(factors(run, records), observed)
    if effects and effects[0].share >= _TELLING:
        most = effects[0]
        text += f"; {most.factor} explains {percent(most.share, 0)} of the variance, more than any other parameter"
    return [f"{text}."]


def searched(search: SearchRecord, records: Sequence[VariantRecord]) -> str:
    """How a search came to its variants, and what became of them."""
    sample, *rounds = search.rounds
    text = f"Of {search.combinations:.3g} combinations, {search.drawn:,} were drawn (seed {search.seed})"
    text += f" to find {sample:,} valid variants"
    if rounds:
        text += f"; refining around the best added {', '.join(f'{n:,}' for n in rounds)}"
    reasons = Counter(record.prune_rule for record in records if record.status is Status.PRUNED)
    why = f" ({', '.join(f'{count} by {reason}' for reason, count in reasons.items())})" if reasons else ""
    built = sum(record.build is not None for record in records)
    run = sum(record.verification is not None or record.measurement is not None for record in records)
    verified = sum(record.status is Status.VERIFIED for record in records)
    return (
        f"{text}. {built:,} were built, {sum(reasons.values()):,} pruned{why}, {run:,} run on a GPU and "
        f"{verified:,} verified."
    )


def tally(run: RunRecord, records: Sequence[VariantRecord]) -> str:
    """How many variants were verified, inspected only, failed (and why), or are missing."""
    counts = Counter(record.status for record in records)
    where = "" if run.gpu else " by executing their PTX on the CPU"
    parts = [f"{counts[Status.VERIFIED]} verified{where}"] if counts[Status.VERIFIED] else []
    if counts[Status.INSPECTED]:
        parts.append(f"{counts[Status.INSPECTED]} compiled and inspected without being executed")
    if counts[Status.PRUNED]:
        parts.append(f"{counts[Status.PRUNED]} pruned")
    failed = {status: count for status, count in counts.items() if status.failed}
    if failed:
        why = ", ".join(f"{count} {status}" for status, count in failed.items())
        parts.append(f"{sum(failed.values())} failed ({why})")
    else:
        parts.append("none failed")
    missing = run.variants - len(records)
    if missing > 0:
        parts.append(f"{missing} not reached before the run ended")
    return f"Of {max(run.variants, len(records))} variants: {'; '.join(parts)}."
