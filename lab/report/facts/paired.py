"""Effects of swept parameters on throughput, over pairs of variants that differ in one parameter alone.

An effect is the geometric mean of the pairs' ratios, with Student's 95 % interval on their logarithms. Where
constraints leave no such pairs, the best variants with each value are compared.

Another factor *modifies* an effect where the pairs' ratios differ from value to value of that factor: then the mean
over all pairs describes none of them, and the effects within each value are given instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from lab.recorded.run_records import RunRecord, VariantRecord
from lab.report.columns import Value
from lab.report.facts.causes import CodeChange, Pair, causes
from lab.report.facts.effects import MOST_LEVELS, Factor, factors
from lab.report.rank_correlation import mean_ratio
from lab.store import figures
from lab.store.figures import Response, text

_EXPLAINED: Final = 0.4
"""Least share of the variance of the pairs' ratios that a modifying factor explains, adjusted for its values."""
_WORTH: Final = 0.03
"""Least difference between such effects, on a logarithmic scale, that is worth a sentence."""
_MATERIAL: Final = 0.5
"""Least difference between effects within values of a modifying factor, relative to the effect over all pairs."""


@dataclass(frozen=True, slots=True)
class RatioEffect:
    """The effect of one change of a parameter.

    Attributes:
        ratio: Throughput after over before: the geometric mean over the pairs.
        interval: Its 95 % interval; None for fewer than three pairs.
        agreed: All pairs are on one side.
        matters: The difference exceeds the figures' scatter or error.
        causes: Changes in the machine code that can explain it.
        pairs: The variants that were compared.
    """

    ratio: float
    interval: tuple[float, float] | None
    agreed: bool
    matters: bool
    causes: tuple[CodeChange, ...]
    pairs: tuple[Pair, ...]

    @property
    def clear(self) -> bool:
        """True if the difference matters and has one sign over its interval, or in all of too few pairs for one."""
        if self.interval is None:
            return self.matters and self.agreed
        low, high = self.interval
        return self.matters and (low > 1 or high < 1)


@dataclass(frozen=True, slots=True)
class Modifier:
    """A factor on whose value an effect depends.

    Attributes:
        name: The factor.
        within: Effect within each of its values, in order.
        flips: The effect is a gain at some values and a loss at others.
    """

    name: str
    within: tuple[tuple[Value, RatioEffect], ...]
    flips: bool


@dataclass(frozen=True, slots=True)
class LevelEffect:
    """The effect of one value of a parameter, compared with its first value.

    Attributes:
        level: The value.
        effect: Over all pairs.
        modifier: The factor on which the effect depends most; None where it depends on none.
    """

    level: Value
    effect: RatioEffect
    modifier: Modifier | None = None

    @property
    def ratio(self) -> float:
        """Throughput over that with the first value."""
        return self.effect.ratio

    @property
    def matters(self) -> bool:
        """True if the difference matters over all pairs, or within a value of the modifying factor."""
        return self.effect.matters or self.modifier is not None


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

    def at(self, value: Value) -> LevelEffect:
        """Return the effect of a value; that of the largest effect where it is the first value or unknown."""
        chosen = (level for level in self.levels if text(level.level) == text(value))
        return next(chosen, None) or max(self.levels, key=lambda level: abs(math.log(level.ratio)))


def parameter_effects(
    run: RunRecord, records: tuple[VariantRecord, ...], response: Response
) -> tuple[ParameterEffect, ...]:
    """Return the effect of each swept parameter: those of the question first, then the largest first."""
    ranked = tuple(r for r in records if response.of(r))
    problems = {r.variant: label for label, group in figures.by_problem(run, ranked).items() for r in group}
    varied, swept_effects = factors(run, ranked), []
    for name in run.swept:
        values = {text(v): v for r in ranked if (v := r.parameters.get(name)) is not None}
        if not 1 < len(values) <= MOST_LEVELS:
            continue
        order = ordered(list(values.values()))
        pairing = Pairing(name, ranked, problems, response)
        others = [factor for factor in varied if factor.name != name]
        comparable = [
            [(level, pairs) for level in order[place + 1 :] if _ratios(pairs := pairing.pairs(base, level), response)]
            for place, base in enumerate(order[:-1])
        ]
        base_place = max(range(len(comparable)), key=lambda place: len(comparable[place]))
        effects = tuple(
            LevelEffect(level, effect, modifier(pairs, effect, others, response))
            for level, pairs in comparable[base_place]
            if (effect := compared(pairs, response))
        )
        if effects:
            swept_effects.append(ParameterEffect(name, order[base_place], effects, asked(name, run.question)))
    return tuple(sorted(swept_effects, key=lambda effect: (not effect.asked, -effect.size)))


def headline_change(
    effects: Sequence[ParameterEffect], best: VariantRecord | None
) -> tuple[ParameterEffect, LevelEffect] | None:
    """Return the first effect with its change to the best variant's value; None without effects or variants."""
    if not effects or best is None:
        return None
    return effects[0], effects[0].at(best.parameters.get(effects[0].name))


def asked(name: str, question: str) -> bool:
    """Return whether a question has a word of a name: of four letters, or of three at a word's beginning."""
    words, asked_for = name.lower().split("_"), question.lower()
    return any(
        word in asked_for if len(word) >= 4 else len(word) == 3 and re.search(rf"\b{re.escape(word)}", asked_for)  # noqa: PLR2004 - shorter ones occur anywhere
        for word in words
    )


def ordered(values: list[Value]) -> list[Value]:
    """Return numbers in ascending order, other values as they are."""
    numbers = [v for v in values if isinstance(v, int | float)]
    return sorted(values, key=lambda v: float(v or 0)) if len(numbers) == len(values) else values


class Pairing:
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
            self._with.setdefault(value, []).append((rest(record, name), record))
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


def rest(record: VariantRecord, name: str) -> object:
    """Return all of a variant's identity but one parameter."""
    other_parameters = tuple((key, value) for key, value in record.parameters.items() if key != name)
    return record.kernel, other_parameters, tuple(record.problem.items()), record.arch, record.compiler


def compared(pairs: Sequence[Pair], response: Response) -> RatioEffect | None:
    """Compare the second variant of each pair with the first; None where nothing compares."""
    ratios = _ratios(pairs, response)
    if not ratios:
        return None
    mean = mean_ratio(ratios)
    matters = abs(mean.ratio - 1) > max(response.tolerance, _scatter(pairs))
    agreed = min(ratios) > 1 or max(ratios) < 1
    return RatioEffect(
        mean.ratio, mean.interval, agreed, matters, causes(pairs, mean.ratio) if matters else (), tuple(pairs)
    )


def modifier(
    pairs: Sequence[Pair], pooled: RatioEffect, others: Sequence[Factor], response: Response
) -> Modifier | None:
    """Return the factor that explains most of the differences between the pairs' ratios.

    None where none explains enough of them, or where the effects within its values neither differ in sign nor by half
    of the effect over all pairs.
    """
    modifiers: list[tuple[float, Modifier]] = []
    for factor in others:
        groups = _groups(pairs, factor)
        # several values, and more pairs than values: with one pair a value, any factor explains everything
        if groups is None or len(groups) < 2 or (len(pairs) < 2 * len(groups) and len(others) > 1):  # noqa: PLR2004
            continue
        explained = _explained([_ratios(group, response) for _, group in groups])
        within = [(value, effect) for value, group in groups if (effect := compared(group, response))]
        if explained >= _EXPLAINED and len(within) == len(groups) and _material(within, pooled, response):
            signs = {effect.ratio > 1 for _, effect in within if effect.matters}
            modifiers.append((explained, Modifier(factor.name, tuple(within), len(signs) > 1)))
    return max(modifiers, key=lambda pair: pair[0])[1] if modifiers else None


def _material(within: Sequence[tuple[Value, RatioEffect]], pooled: RatioEffect, response: Response) -> bool:
    """Return whether effects differ by half of the effect over all pairs, and by more than their scatter."""
    sizes = [math.log(effect.ratio) for _, effect in within]
    scatter = max(response.tolerance, *(_scatter(effect.pairs) for _, effect in within))
    return max(sizes) - min(sizes) > max(_WORTH, 2 * scatter, _MATERIAL * abs(math.log(pooled.ratio)))


def _groups(pairs: Sequence[Pair], factor: Factor) -> list[tuple[Value, list[Pair]]] | None:
    """Return pairs by a factor's value; None where the variants of a pair differ in it, or lack it."""
    groups: dict[Value, list[Pair]] = {}
    for before, after in pairs:
        value = factor.of(before)
        if value is None or value != factor.of(after):
            return None
        groups.setdefault(value, []).append((before, after))
    return [(value, groups[value]) for value in ordered(list(groups))]


def _explained(groups: Sequence[Sequence[float]]) -> float:
    """Return the share of the variance of logarithms between groups, adjusted for the number of groups (ω-like).

    1 - (within / (n - groups)) / (total / (n - 1)); 1 where every group has one member.
    """
    logs = [[math.log(ratio) for ratio in group] for group in groups]
    every = [value for group in logs for value in group]
    n, middle = len(every), sum(every) / len(every)
    total = sum((value - middle) ** 2 for value in every)
    if n == len(groups) or not total:
        return 1.0 if total else 0.0
    inside = sum((value - sum(group) / len(group)) ** 2 for group in logs for value in group)
    return 1 - (inside / (n - len(groups))) / (total / (n - 1))


def _scatter(pairs: Sequence[Pair]) -> float:
    return median(max(figures.noise(a), figures.noise(b)) for a, b in pairs)


def _ratios(pairs: Sequence[Pair], response: Response) -> list[float]:
    """Return the ratios of responses, after over before; empty if one of them is 0, so that nothing compares."""
    ratios = [(response.of(after) or 0.0) / before for a, after in pairs if (before := response.of(a))]
    return ratios if ratios and min(ratios) > 0 else []
