"""The link between instruction mix and throughput: the figure that the asked parameter moves, and its correlation.

Of all mix figures, most do not change with the parameter of the question: unrolling leaves fma : ld.shared as it is.
The link is drawn along one that does. Variants that differ in the parameter alone form a path. Throughput and mix also
depend on other parameters, so that the rank correlation is given within each value of the most influential one, beside
that over all variants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from lab.measured.timing import Kind
from lab.recorded.run_records import VariantRecord
from lab.report.charts import style
from lab.report.columns import Column, Value
from lab.report.facts.causes import Pair
from lab.report.facts.effects import Effect, Factor
from lab.report.facts.paired import LevelEffect, ParameterEffect, ordered, rest
from lab.report.rank_correlation import RankCorrelation, rank_correlation
from lab.store.figures import Response, text

FEWEST: Final = 5
"""Fewest variants of a reported rank correlation: with four, even a perfect order has p = 1/12."""
_MOVED: Final = 0.5
"""Least share of the pairs in which the parameter changes the figure."""
_CHANGE: Final = 1e-3
"""Least relative change of a figure."""


@dataclass(frozen=True, slots=True)
class LinkGroup:
    """The variants that share a value of the grouping factor.

    Attributes:
        value: The value.
        correlation: Of the mix figure with the response; None with fewer than `FEWEST` variants, or where one of the
            two is the same for all.
    """

    value: Value
    correlation: RankCorrelation | None


@dataclass(frozen=True, slots=True)
class MixLink:
    """A mix figure against the response.

    Attributes:
        x: The mix figure.
        parameter: The parameter that forms the paths; empty without swept parameters.
        paths: Variants that differ in the parameter alone, in the order of its values; at least two each.
        moved: Median of the figure before and after the parameter's change that the lead reports; None without pairs.
        by: The factor that groups the variants; None where there is one group.
        groups: The groups, in order.
        pooled: Correlation over all variants, as in `LinkGroup`.
    """

    x: Column
    parameter: str
    paths: tuple[tuple[VariantRecord, ...], ...]
    moved: tuple[float, float] | None
    by: Factor | None
    groups: tuple[LinkGroup, ...]
    pooled: RankCorrelation | None

    def sentences(self, response: Response) -> tuple[str, ...]:
        """Describe the correlation within groups and pooled."""
        named = f"{self.x.title} with {response.kind} {response.title}"
        if self.pooled is None:
            return (f"The rank correlation of {named} is undefined: too few variants, or one value for all.",)
        pooled = f"Rank correlation (Spearman) of {named}, with its 95 % interval: {correlation_text(self.pooled)}"
        known = [group for group in self.groups if group.correlation is not None]
        if self.by is None or not known:
            return (f"{pooled}, n = {self.pooled.n}.",)
        within = "; ".join(
            f"{correlation_text(group.correlation)} at {text(group.value)}" for group in known if group.correlation
        )
        return (f"{pooled} over all {self.pooled.n} variants; within {self.by.name}: {within}.",)


def correlation_text(correlation: RankCorrelation) -> str:
    """`+0.87 (+0.65 to +0.95)`."""
    interval = correlation.interval
    span = f" ({interval[0]:+.2f} to {interval[1]:+.2f})" if interval else ""
    return f"{correlation.rho:+.2f}{span}"


def moving_axis(pairs: Sequence[Pair], axes: Sequence[Column], question: str) -> Column | None:
    """Return the mix figure that a change of a parameter moves.

    Of those that change in at least half of the pairs, one that the question names comes first, then one that was
    counted, then one of the machine code, then the one that changes most; None where the parameter moves none.
    """

    def order(column: Column, change: float) -> tuple[bool, bool, bool, float]:
        name = column.title.removeprefix("PTX ").removeprefix("SASS ")
        counted = column.kind is Kind.EMULATED
        return name.lower() in question.lower(), counted, column.title.startswith("SASS "), change

    moving = []
    for column in axes:
        changes = [abs(math.log(b / a)) for a, b in _values(pairs, column) if a > 0 and b > 0]
        if changes and sum(change > _CHANGE for change in changes) >= _MOVED * len(changes):
            moving.append((order(column, median(changes)), column))
    return max(moving, key=lambda pair: pair[0])[1] if moving else None


def moved(pairs: Sequence[Pair], column: Column) -> tuple[float, float] | None:
    """Return the medians of a figure before and after a change; None where no pair has it."""
    values = _values(pairs, column)
    return (median(a for a, _ in values), median(b for _, b in values)) if values else None


def _values(pairs: Sequence[Pair], column: Column) -> list[tuple[float, float]]:
    both = ((column.get(a), column.get(b)) for a, b in pairs)
    return [(float(a), float(b)) for a, b in both if isinstance(a, int | float) and isinstance(b, int | float)]


def link(
    records: Sequence[VariantRecord],
    response: Response,
    axes: Sequence[Column],
    question: str,
    *,
    change: tuple[ParameterEffect, LevelEffect] | None,
    effects: Sequence[Effect],
) -> MixLink | None:
    """Return the link of a run; None without axes.

    Args:
        records: Every variant.
        response: The quantity that ranks variants.
        axes: Mix figures.
        question: Of the experiment.
        change: The parameter of the question, or the one with the largest effect, and the change that the lead reports;
            None without swept parameters.
        effects: Main effects, the most influential factor first.
    """
    if not axes:
        return None
    counted = comparable(records, response)
    distinct = max(axes, key=lambda axis: (len({axis.get(r) for r in counted}), axis.title.startswith("SASS ")))
    if change is None:
        x = distinct
        return MixLink(x, "", (), None, None, (), correlation(counted, x, response))
    effect, level = change
    pairs = level.effect.pairs
    x = moving_axis([pair for one in effect.levels for pair in one.effect.pairs], axes, question) or distinct
    by = _grouping(effect, level, effects, counted)
    unknown = MixLink(x, effect.name, paths(counted, effect.name), moved(pairs, x), by, (), None)
    groups, pooled = correlations(records, unknown, response)
    return replace(unknown, groups=groups, pooled=pooled)


def correlations(
    records: Sequence[VariantRecord], link: MixLink, response: Response
) -> tuple[tuple[LinkGroup, ...], RankCorrelation | None]:
    """Correlate a link's figure with the response, within its groups and over all verified variants."""
    counted, by = comparable(records, response), link.by
    values = [value for r in counted if by is not None and (value := by.of(r)) is not None]
    groups = tuple(
        LinkGroup(value, correlation([r for r in counted if by and by.of(r) == value], link.x, response))
        for value in ordered(list({text(value): value for value in values}.values()))
    )
    return groups, correlation(counted, link.x, response)


def comparable(records: Sequence[VariantRecord], response: Response) -> list[VariantRecord]:
    """Return the variants that have a response; of measured ones those that are verified."""
    ranked = [record for record in records if response.of(record) is not None]
    return [record for record in ranked if response.kind is Kind.PREDICTED or record.status.sound]


def _grouping(
    effect: ParameterEffect, level: LevelEffect, effects: Sequence[Effect], records: Sequence[VariantRecord]
) -> Factor | None:
    """Return the factor on which the parameter's effect depends, else the most influential other one."""
    names = [level.modifier.name] if level.modifier else []
    names += [other.factor for other in effects]
    parameters = {name for record in records for name in record.parameters}
    for name in names:
        factor = Factor(name, parameter=name in parameters)
        values = {text(value) for record in records if (value := factor.of(record)) is not None}
        if name != effect.name and 1 < len(values) <= len(style.SERIES):
            return factor
    return None


def correlation(records: Sequence[VariantRecord], x: Column, response: Response) -> RankCorrelation | None:
    """Correlate a mix figure with the response; None with too few variants, or where one of them is constant."""
    pairs = [
        (float(value), rate)
        for record in records
        if isinstance(value := x.get(record), int | float) and (rate := response.of(record)) is not None
    ]
    if len(pairs) < FEWEST:
        return None
    found = rank_correlation(*zip(*pairs, strict=True))
    return None if math.isnan(found.rho) else found


def paths(records: Sequence[VariantRecord], parameter: str) -> tuple[tuple[VariantRecord, ...], ...]:
    """Return the variants that differ in a parameter alone, in the order of its values; paths of two or more."""
    groups: dict[object, list[VariantRecord]] = {}
    for record in records:
        if parameter in record.parameters:
            groups.setdefault(rest(record, parameter), []).append(record)
    values = ordered(
        list(
            {
                text(r.parameters[parameter]): r.parameters[parameter] for r in records if parameter in r.parameters
            }.values()
        )
    )
    order = {text(value): place for place, value in enumerate(values)}
    return tuple(
        tuple(sorted(group, key=lambda r: order[text(r.parameters[parameter])]))
        for group in groups.values()
        if len(group) > 1
    )
