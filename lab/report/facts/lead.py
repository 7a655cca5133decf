"""The lead of the page: which variant is best, and what each parameter changed, in at most sixty words.

The effect of a parameter is that of variants which differ in it alone: the median of their ratios. Where constraints
leave no such pairs, the best variants with each value are compared. A difference within the figures' scatter or error
counts as none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from lab.measured.timing import Kind
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.report.columns import Value
from lab.report.facts.causes import CodeChange, Pair, because, causes
from lab.report.facts.effects import MOST_LEVELS
from lab.store import figures
from lab.store.figures import Basis, Response, name_of, text

MOST_WORDS: Final = 60
_LEVELS: Final = 3
"""Most values of a parameter the lead names, besides the base value."""
_LONG: Final = 14
"""Most words of a name; a longer one gives way to the variant's id."""


@dataclass(frozen=True, slots=True)
class LevelEffect:
    """The effect of one value of a parameter, compared with its first value.

    Attributes:
        level: The value.
        ratio: Throughput over that with the first value.
        matters: The difference exceeds the figures' scatter or error.
        causes: Changes in the machine code that can explain it.
        pairs: The variants that were compared.
    """

    level: Value
    ratio: float
    matters: bool
    causes: tuple[CodeChange, ...]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class ParameterEffect:
    """The effect of a parameter.

    Attributes:
        name: The parameter.
        base: Its first value: the least number, or the first in the experiment.
        levels: The other values, in order.
        asked: The question names it.
    """

    name: str
    base: Value
    levels: tuple[LevelEffect, ...]
    asked: bool

    @property
    def size(self) -> float:
        """Largest effect on a logarithmic scale."""
        return max((abs(math.log(level.ratio)) for level in self.levels), default=0.0)


def parameter_effects(
    run: RunRecord, records: tuple[VariantRecord, ...], response: Response
) -> tuple[ParameterEffect, ...]:
    """Return the effect of each swept parameter: those of the question first, then the largest first."""
    ranked = tuple(r for r in records if response.of(r))
    problems = {r.variant: label for label, group in figures.by_problem(run, ranked).items() for r in group}
    swept_effects = []
    for name in run.swept:
        values = {text(v): v for r in ranked if (v := r.parameters.get(name)) is not None}
        if not 1 < len(values) <= MOST_LEVELS:
            continue
        order = _ordered(list(values.values()))
        pairing = _Pairing(name, ranked, problems, response)
        comparable = [
            [(level, pairs) for level in order[place + 1 :] if _ratios(pairs := pairing.pairs(base, level), response)]
            for place, base in enumerate(order[:-1])
        ]
        base_place = max(range(len(comparable)), key=lambda place: len(comparable[place]))
        effects = tuple(
            effect for level, pairs in comparable[base_place] if (effect := _compared(level, pairs, response))
        )
        if effects:
            swept_effects.append(ParameterEffect(name, order[base_place], effects, asked(name, run.question)))
    return tuple(sorted(swept_effects, key=lambda effect: (not effect.asked, -effect.size)))


def asked(name: str, question: str) -> bool:
    """Return whether a question contains a word of a parameter's name, of at least four letters."""
    words = [word for word in name.lower().split("_") if len(word) >= 4]  # noqa: PLR2004 - shorter ones occur anywhere
    return any(word in question.lower() for word in words)


def _ordered(values: list[Value]) -> list[Value]:
    numbers = [v for v in values if isinstance(v, int | float)]
    return sorted(values, key=lambda v: float(v or 0)) if len(numbers) == len(values) else values


class _Pairing:
    """Pairs of variants that differ in one parameter."""

    def __init__(
        self, name: str, records: Sequence[VariantRecord], problems: Mapping[str, str], response: Response
    ) -> None:
        """Sort variants by their values.

        Args:
            name: The parameter.
            records: Variants that have a response.
            problems: Variant id to its problem's label.
            response: The quantity that ranks variants.
        """
        self._with: dict[Value, list[tuple[object, VariantRecord]]] = {}
        self._best: dict[Value, dict[tuple[str, str], VariantRecord]] = {}
        for record in records:
            value = record.parameters.get(name)
            self._with.setdefault(value, []).append((_rest(record, name), record))
            best, key = self._best.setdefault(value, {}), (problems[record.variant], record.kernel)
            if (response.standing(record) or 0.0) > (response.standing(best[key]) or 0.0 if key in best else 0.0):
                best[key] = record

    def pairs(self, base: Value, level: Value) -> list[Pair]:
        """Return pairs of variants that differ in the parameter alone; without any, the best of each kernel.

        The latter are paired problem by problem.
        """
        before = dict(self._with.get(base, ()))
        if matched := [(before[setting], record) for setting, record in self._with.get(level, ()) if setting in before]:
            return matched
        first, second = self._best.get(base, {}), self._best.get(level, {})
        return [(record, second[key]) for key, record in first.items() if key in second]


def _rest(record: VariantRecord, name: str) -> object:
    other_parameters = tuple((key, value) for key, value in record.parameters.items() if key != name)
    return record.kernel, other_parameters, tuple(record.problem.items()), record.arch, record.compiler


def _ratios(pairs: Sequence[Pair], response: Response) -> list[float]:
    """Return the ratios of responses, after over before; empty if one of them is 0, so that nothing compares."""
    ratios = [(response.of(after) or 0.0) / before for a, after in pairs if (before := response.of(a))]
    return ratios if ratios and min(ratios) > 0 else []


def _compared(level: Value, pairs: Sequence[Pair], response: Response) -> LevelEffect | None:
    ratios = _ratios(pairs, response)
    if not ratios:
        return None
    ratio = median(ratios)
    scatter = median(max(figures.noise(a), figures.noise(b)) for a, b in pairs)
    matters = abs(ratio - 1) > max(response.tolerance, scatter)
    return LevelEffect(level, ratio, matters, causes(pairs, ratio) if matters else (), tuple(pairs))


def kernel_steps(
    run: RunRecord, records: tuple[VariantRecord, ...], response: Response
) -> tuple[tuple[str, LevelEffect], ...]:
    """Compare each kernel's best variant with that of the kernel before it, problem by problem.

    Returns:
        The earlier kernel's name and the effect of the later one, the largest first. Only a ladder has steps: kernels
        without swept parameters, each of which solves every problem.
    """
    if run.swept:
        return ()
    ranked = [r for r in records if response.of(r)]
    names = list(dict.fromkeys(r.kernel for r in ranked))
    groups = figures.by_problem(run, tuple(ranked)).values()
    steps = []
    for before, after in pairwise(names):
        pairs = []
        for group in groups:
            candidates = [[r for r in group if r.kernel == name] for name in (before, after)]
            if all(candidates):
                first, second = (
                    max(kernel_records, key=lambda r: response.standing(r) or 0.0) for kernel_records in candidates
                )
                pairs.append((first, second))
        if len(pairs) == len(groups) and (effect := _compared(after, pairs, response)) is not None:
            steps.append((before, effect))
    return tuple(sorted(steps, key=lambda step: -abs(math.log(step[1].ratio))))


def lead(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> str:
    """Write the lead; at most `MOST_WORDS` words, whatever the names are."""
    best = figures.ranked(records, response)
    if not best:
        return nothing_compared(records)
    first = _winners(run, records, response) if run.problem_axes else _winner(run, records, best, response)
    sentences, words = [first], len(first.split())
    if response.basis is Basis.CEILING or (not run.problem_axes and _all_tied(records, response)):
        return " ".join(sentences)
    clauses = [_sentence(effect, response.kind) for effect in parameter_effects(run, records, response)]
    clauses += [_step(before, level) for before, level in kernel_steps(run, records, response)[:2]]
    for short, long in clauses:
        chosen = next((clause for clause in (long, short) if clause and words + len(clause.split()) <= MOST_WORDS), "")
        if chosen:
            sentences.append(chosen)
            words += len(chosen.split())
    return " ".join(sentences)


def nothing_compared(records: Sequence[VariantRecord]) -> str:
    """Report that no variant can be ranked, with the counts by status."""
    counts = Counter(record.status for record in records)
    fared = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"No variant can be compared: {fared}." if fared else "No variant can be compared."


def _all_tied(records: tuple[VariantRecord, ...], response: Response) -> bool:
    return len(figures.tied_with_best(records, response)) == len(figures.ranked(records, response)) > 1


def _winner(
    run: RunRecord, records: tuple[VariantRecord, ...], best: tuple[VariantRecord, ...], response: Response
) -> str:
    """Name the best variant with its ratio, or report a tie."""
    first, tied = best[0], figures.tied_with_best(records, response)
    rate = f"{response.text(response.of(first) or 0.0)} {response.unit}"
    if response.basis is Basis.CEILING:
        if len(tied) == len(best) > 1:
            return f"The variants cannot be told apart without a GPU: the ceiling of each is {rate}."
        return f"The highest ceiling is {rate}, of {_named(first)}. A ceiling is not a prediction of throughput."
    measured = response.kind is Kind.MEASURED
    if len(tied) == len(best) > 1:
        if measured:
            return f"All {len(best)} variants reach {rate} within the noise: no measurable difference."
        return f"The {len(best)} variants cannot be told apart without a GPU: their predicted times differ too little."
    rate += _against(run, first, best, response)
    if len(tied) > 1:
        ties = f"{len(tied) - 1} other{'s' if len(tied) > 2 else ''}"  # noqa: PLR2004 - one other
        return f"{_named(first)} and {ties} tie for the {'' if measured else 'predicted '}best of {len(best)}: {rate}."
    verb = "is the fastest" if measured else "is predicted to be the fastest"
    return f"{_named(first)} {verb} of {len(best)}: {rate}."


def _against(run: RunRecord, first: VariantRecord, best: Sequence[VariantRecord], response: Response) -> str:
    """Compare with the baseline setting, else with the baseline implementation, else with the median variant."""
    over = figures.over_setting(run, best, response).get(first.variant)
    if over is not None:
        return f", {over:.3f} × {figures.setting_in_words(run.setting)}"
    timed = first.measurement if response.kind is Kind.MEASURED else None
    if timed is not None and timed.ratio_to_baseline is not None:
        return f", {timed.ratio_to_baseline:.3f} × {timed.baseline_name or 'the baseline'}"
    middle = median(response.of(r) or 0.0 for r in best)
    value = response.of(first) or 0.0
    return f", {value / middle:.2f} × the median variant" if middle and len(best) > 1 else ""


def _winners(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> str:
    """Report which kernel, or which variant, is best in how many problems."""
    groups = [group for group in figures.by_problem(run, records).values() if figures.ranked(group, response)]
    firsts = [figures.ranked(group, response)[0] for group in groups]
    distinct = [len(figures.tied_with_best(g, response)) < len(figures.ranked(g, response)) for g in groups]
    alone = all(len(figures.ranked(g, response)) == 1 for g in groups)
    rates = sorted(response.of(record) or 0.0 for record in firsts)
    low, high, measured = response.text(rates[0]), response.text(rates[-1]), response.kind is Kind.MEASURED
    span = f"{low} {response.unit}" if low == high else f"{low} to {high} {response.unit}"
    if response.basis is Basis.CEILING:
        return f"The highest ceilings of {len(groups)} problems are {span}. A ceiling does not predict throughput."
    if not any(distinct) and not alone:
        reason = "no measurable difference" if measured else "cannot be told apart without a GPU"
        return f"In each of {len(groups)} problems the variants tie ({reason}): {span}."
    if len({record.kernel for record in records}) > 1:
        name, count = Counter(record.kernel for record in firsts).most_common(1)[0]
        verb = "is best" if measured else "is predicted to be best"
        claim = f"{name} {verb} in {count} of {len(groups)} problems: {span}"
    else:
        claim = (
            f"The best variants of {len(groups)} problems {'reach' if measured else 'are predicted to reach'} {span}"
        )
    return f"{claim}{_beside(firsts) if measured else ''}."


def _beside(firsts: Sequence[VariantRecord]) -> str:
    """Compare winners with their baseline, if all share one."""
    timed = [record.measurement for record in firsts if record.measurement]
    ratios = [measurement.ratio_to_baseline for measurement in timed if measurement.ratio_to_baseline is not None]
    names = {measurement.baseline_name for measurement in timed if measurement.baseline_name}
    return f", median {median(ratios):.3f} × {names.pop()}" if ratios and len(names) == 1 else ""


def _named(record: VariantRecord) -> str:
    name = name_of(record)
    return name if len(name.split()) <= _LONG else f"{record.kernel} {record.variant}"


def _percent(ratio: float) -> str:
    if ratio >= 2 or ratio <= 0.5:  # noqa: PLR2004 - a factor reads better than +312 %
        return f"× {ratio:.2f}"
    change = (ratio - 1) * 100
    return f"{change:+.1f} %" if abs(change) < 9.95 else f"{change:+.0f} %"  # noqa: PLR2004 - two digits


def _chosen(levels: Sequence[LevelEffect]) -> list[LevelEffect]:
    """Return the levels to name: all of a few; of many the best, the worst and the last."""
    if len(levels) <= _LEVELS:
        return list(levels)
    keep = {id(max(levels, key=lambda x: x.ratio)), id(min(levels, key=lambda x: x.ratio)), id(levels[-1])}
    return [level for level in levels if id(level) in keep]


def _sentence(effect: ParameterEffect, kind: Kind) -> tuple[str, str]:
    """Describe the effect of a parameter, without and with causes."""
    if not any(level.matters for level in effect.levels):
        if effect.asked:
            kind_word = "measurable" if kind is Kind.MEASURED else "predicted"
            return (f"{effect.name}: no {kind_word} difference.",) * 2
        return "", ""
    chosen = _chosen(effect.levels)
    explained = max((x for x in chosen if x.causes), key=lambda x: abs(math.log(x.ratio)), default=None)
    sentences = []
    for with_causes in (False, True):
        parts = []
        for level in chosen:
            effect_text = _percent(level.ratio) if level.matters else "no difference"
            clause = f"to {text(level.level)}: {effect_text}"
            if with_causes and level is explained:
                clause += f", {because(level.causes, level.pairs)}"
            parts.append(clause)
        sentences.append(f"{effect.name} {text(effect.base)} {'; '.join(parts)}.")
    return sentences[0], sentences[1]


def _step(before: str, level: LevelEffect) -> tuple[str, str]:
    if not level.matters:
        return "", ""
    short = f"{before} to {level.level}: {_percent(level.ratio)}"
    cause = because(level.causes, level.pairs)
    return f"{short}.", f"{short}, {cause}." if cause else f"{short}."
