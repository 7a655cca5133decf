"""Rows of the page's table of effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.recorded.run_records import VariantRecord
from lab.report.facts.causes import because
from lab.report.facts.lead import percent_text
from lab.report.facts.paired import ParameterEffect, RatioEffect
from lab.store.figures import text


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One row.

    Attributes:
        parameter: The parameter; empty where the row above names it.
        change: `1 to 4`.
        where: The value of the modifying factor, or `all`.
        effect: The mean ratio as text.
        interval: Its 95 % interval; empty for too few pairs.
        pairs: Pairs of variants.
        cause: Changes in the machine code that can explain it.
        tone: `gain` or `loss` where the effect is clear, else empty.
        within: The effect is that within a value of the modifying factor.
    """

    parameter: str
    change: str
    where: str
    effect: str
    interval: str
    pairs: int
    cause: str
    tone: str
    within: bool


def effect_rows(effects: Sequence[ParameterEffect]) -> tuple[EffectRow, ...]:
    """Return a row per change of a parameter, and one per value of the factor that it depends on."""
    return tuple(row for effect in effects for row in _rows(effect))


def largest_gains(effects: Sequence[ParameterEffect], best: VariantRecord, most: int = 2) -> tuple[str, ...]:
    """Name the values of a variant that gain most over all pairs: `pad 0 to 1 (+52 %)`."""
    values = {name: text(value) for name, value in best.parameters.items()}
    gaining = [
        (level.ratio, f"{effect.name} {text(effect.base)} to {text(level.level)} ({percent_text(level.ratio)})")
        for effect in effects
        for level in effect.levels
        if level.effect.clear and level.ratio > 1 and values.get(effect.name) == text(level.level)
    ]
    return tuple(words for _, words in sorted(gaining, reverse=True)[:most])


def _rows(effect: ParameterEffect) -> Iterator[EffectRow]:
    name = effect.name
    for level in effect.levels:
        change = f"{text(effect.base)} to {text(level.level)}"
        yield _row(name, change, "all", level.effect, within=False)
        name = ""
        if level.modifier is not None:
            for value, found in level.modifier.within:
                yield _row("", "", f"{level.modifier.name} {text(value)}", found, within=True)


def _row(parameter: str, change: str, where: str, effect: RatioEffect, *, within: bool) -> EffectRow:
    low, high = effect.interval or (0.0, 0.0)
    tone = ("gain" if effect.ratio > 1 else "loss") if effect.clear else ""
    return EffectRow(
        parameter,
        change,
        where,
        percent_text(effect.ratio),
        f"{percent_text(low)} to {percent_text(high)}" if effect.interval else "",
        len(effect.pairs),
        because(effect.causes, effect.pairs).removeprefix("because "),
        tone,
        within,
    )
