"""The lead of the page: the answer to the question in at most a hundred words.

It begins with the effect of the parameter that the question names, within the values of another parameter where it
depends on one; then come the best variant and the effects of the other parameters, the largest first. A difference
within the figures' scatter or error counts as none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from lab.measured.timing import Kind
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.report.columns import Column
from lab.report.facts.causes import because
from lab.report.facts.link import moved, moving_axis
from lab.report.facts.paired import (
    LevelEffect,
    Modifier,
    ParameterEffect,
    RatioEffect,
    compared,
)
from lab.store import figures
from lab.store.figures import Basis, Response, name_of, text

MOST_WORDS: Final = 100
_LEVELS: Final = 3
"""Most values of a parameter, or of one that modifies its effect, that the lead names."""
_LONG: Final = 14
"""Most words of a name; a longer one gives way to the variant's id."""


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
        if len(pairs) == len(groups) and (effect := compared(pairs, response)) is not None:
            steps.append((before, LevelEffect(after, effect)))
    return tuple(sorted(steps, key=lambda step: -abs(math.log(step[1].ratio))))


def lead(
    run: RunRecord,
    records: tuple[VariantRecord, ...],
    response: Response,
    effects: Sequence[ParameterEffect] = (),
    axes: Sequence[Column] = (),
) -> tuple[str, ...]:
    """Write the sentences of the lead; at most `MOST_WORDS` words together, whatever the names are.

    Args:
        run: The run's facts.
        records: Every variant.
        response: The quantity that ranks variants.
        effects: Effects of the swept parameters, in order.
        axes: Mix figures, of which the lead names the one that the asked parameter moves.
    """
    winner, clauses = opening(run, records, response, effects, axes)
    asked_for = [pair for pair, asked in clauses if asked]
    others = [pair for pair, asked in clauses if not asked]
    sentences: list[str] = []
    for short, long in (*asked_for[:1], (winner, winner), *asked_for[1:], *others):
        room = MOST_WORDS - sum(len(sentence.split()) for sentence in sentences)
        if short != winner and winner not in sentences:
            room -= len(winner.split())
        chosen = next((clause for clause in (long, short) if len(clause.split()) <= room), "")
        if not chosen and winner in sentences:
            break  # what follows is smaller
        sentences += [chosen] if chosen else []
    return tuple(sentences)


Clause = tuple[tuple[str, str], bool]
"""A sentence without and with causes, and whether the question asks for it."""


def opening(
    run: RunRecord,
    records: tuple[VariantRecord, ...],
    response: Response,
    effects: Sequence[ParameterEffect],
    axes: Sequence[Column],
) -> tuple[str, list[Clause]]:
    """Return the sentence on the best variant and those on effects; arguments as of `lead`."""
    best = figures.ranked(records, response)
    if not best:
        return nothing_compared(records), []
    winner = _winners(run, records, response) if run.problem_axes else _winner(run, records, best, response)
    if response.basis is Basis.CEILING or (not run.problem_axes and all_tied(records, response)):
        return winner, []
    clauses: list[Clause] = []
    for effect in effects:
        headline = effect.at(best[0].parameters.get(effect.name))
        clauses.append((_sentence(effect, headline, response.kind, run.question, axes), effect.asked))
    clauses += [(_step(before, level), False) for before, level in kernel_steps(run, records, response)[:2]]
    return winner, [(pair, asked) for pair, asked in clauses if pair[0]]


def nothing_compared(records: Sequence[VariantRecord]) -> str:
    """Report that no variant can be ranked, with the counts by status."""
    counts = Counter(record.status for record in records)
    fared = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"No variant can be compared: {fared}." if fared else "No variant can be compared."


def all_tied(records: tuple[VariantRecord, ...], response: Response) -> bool:
    """Return whether no variant can be told apart from the best."""
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
    where = "" if measured or first.prediction is None else f" on {first.prediction.gpu}"
    if len(tied) > 1:
        ties = f"{len(tied) - 1} other{'s' if len(tied) > 2 else ''}"  # noqa: PLR2004 - one other
        best_of = f"{'' if measured else 'predicted '}best of {len(best)}{where}"
        return f"{_named(first)} and {ties} tie for the {best_of}: {rate}."
    verb = "is the fastest" if measured else "is predicted to be the fastest"
    return f"{_named(first)} {verb} of {len(best)}{where}: {rate}."


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


def percent_text(ratio: float) -> str:
    """`+11 %`, `-8.4 %`; from a factor of two on `× 2.02`."""
    if ratio >= 2 or ratio <= 0.5:  # noqa: PLR2004 - a factor reads better than +312 %
        return f"× {ratio:.2f}"
    change = (ratio - 1) * 100
    return f"{change:+.1f} %" if abs(change) < 9.95 else f"{change:+.0f} %"  # noqa: PLR2004 - two digits


def effect_text(effect: RatioEffect) -> str:
    """`+11 % (+1.0 to +23 %)` or `× 2.02 (1.71 to 2.39)`: an effect with its 95 % interval, where it has one."""
    if effect.interval is None:
        return percent_text(effect.ratio)
    texts = [percent_text(value) for value in (effect.ratio, *effect.interval)]
    if len(set(texts)) == 1:
        return texts[0]
    if any(text.startswith("×") for text in texts):
        low, high = effect.interval
        return f"× {effect.ratio:.2f} ({low:.2f} to {high:.2f})"
    return f"{texts[0]} ({texts[1].removesuffix(' %')} to {texts[2]})"


def _sentence(
    effect: ParameterEffect, headline: LevelEffect, kind: Kind, question: str, axes: Sequence[Column]
) -> tuple[str, str]:
    """Describe the effect of a parameter, without and with causes."""
    if not any(level.matters for level in effect.levels):
        if effect.asked:
            kind_word = "measurable" if kind is Kind.MEASURED else "predicted"
            return (f"{effect.name}: no {kind_word} difference.",) * 2
        return "", ""
    change = f"{effect.name} {text(effect.base)} to {text(headline.level)}"
    if headline.modifier is None:
        return _over_all(effect, headline)
    if not effect.asked:
        low, high = (end(headline.modifier.within, key=lambda pair: pair[1].ratio) for end in (min, max))
        span = " to ".join(
            f"{percent_text(found.ratio)} at {headline.modifier.name if found is low[1] else ''} {text(value)}".replace(
                "  ", " "
            )
            for value, found in (low, high)
        )
        return (f"{change}: {percent_text(headline.ratio)}, from {span}.",) * 2
    if (x := moving_axis(headline.effect.pairs, axes, question)) and (ends := moved(headline.effect.pairs, x)):
        change += f" takes the {x.title} from {x.text(ends[0])} to {x.text(ends[1])} and"
    short = f"{change} {_within(headline.modifier)}"
    cause = _cause(headline.modifier)
    return f"{short}.", f"{short}{cause}."


def _over_all(effect: ParameterEffect, headline: LevelEffect) -> tuple[str, str]:
    """Describe an effect that depends on no other parameter: level by level, with the interval of one."""
    chosen = _chosen(effect.levels, headline)
    explained = max((x for x in chosen if x.effect.causes), key=lambda x: abs(math.log(x.ratio)), default=None)
    sentences = []
    for with_causes in (False, True):
        parts = []
        for level in chosen:
            words = "no difference"
            if level.matters:
                words = effect_text(level.effect) if level is headline else percent_text(level.ratio)
            clause = f"to {text(level.level)}: {words}"
            if with_causes and level is explained:
                clause += f", {because(level.effect.causes, level.effect.pairs)}"
            parts.append(clause)
        sentences.append(f"{effect.name} {text(effect.base)} {'; '.join(parts)}.")
    return sentences[0], sentences[1]


def _chosen(levels: Sequence[LevelEffect], headline: LevelEffect) -> list[LevelEffect]:
    """Return the levels to name: all of a few; of many the best, the worst and the one of the best variant."""
    if len(levels) <= _LEVELS:
        return list(levels)
    keep = {id(max(levels, key=lambda x: x.ratio)), id(min(levels, key=lambda x: x.ratio)), id(headline)}
    return [level for level in levels if id(level) in keep]


def _within(modifier: Modifier) -> str:
    """`gains at vector_width 4 (+11 %, …) and 2 (+6.1 %, …), loses at 1 (-8.4 %, …)`; of many values, the two ends."""
    within = sorted(modifier.within, key=lambda pair: -pair[1].ratio)
    if len(within) > _LEVELS:
        within = [within[0], within[-1]]
    parts, named = [], False
    for verb, holds in (
        ("gains", lambda found: found.clear and found.ratio > 1),
        ("shows no clear difference", lambda found: not found.clear),
        ("loses", lambda found: found.clear and found.ratio < 1),
    ):
        values = [f"{text(value)} ({_bare(found)})" for value, found in within if holds(found)]
        if values:
            parts.append(f"{verb} at {'' if named else f'{modifier.name} '}{' and '.join(values)}")
            named = True
    return ", ".join(parts)


def _bare(effect: RatioEffect) -> str:
    """`+11 %, +1.0 to +23 %`, for a place inside parentheses."""
    return effect_text(effect).replace(" (", ", ").removesuffix(")")


def _cause(modifier: Modifier) -> str:
    """Say why: at the value where the effect is against the others, else where it is largest."""
    explained = [(value, found) for value, found in modifier.within if found.causes]
    if not explained:
        return ""
    if modifier.flips:
        value, effect = min(explained, key=lambda pair: pair[1].ratio)
    else:
        value, effect = max(explained, key=lambda pair: abs(math.log(pair[1].ratio)))
    words = because(effect.causes, effect.pairs).removeprefix("because ")
    return f", because at {modifier.name} {text(value)} {words}"


def _step(before: str, level: LevelEffect) -> tuple[str, str]:
    if not level.matters:
        return "", ""
    short = f"{before} to {level.level}: {percent_text(level.ratio)}"
    cause = because(level.effect.causes, level.effect.pairs)
    return f"{short}.", f"{short}, {cause}." if cause else f"{short}."
