"""Main effects and interactions of the swept parameters on the response.

The figures are descriptive: a factor's share of the response's variance (the correlation ratio η² of one-way
analysis of variance, Fisher 1925: between-group over total sum of squares) and the mean at each value. In an
unbalanced space (constraints removed some combinations) shares of several factors may overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.report.columns import Value
from lab.report.figures import text
from lab.store import RunRecord, VariantRecord

MOST_LEVELS: Final = 24
"""A factor with more values (a seed, a fine grid) has no main effect worth a chart."""

Observation = tuple[VariantRecord, float]


@dataclass(frozen=True, slots=True)
class Level:
    """The response of all variants that share one value of a factor.

    Attributes:
        value: The value.
        n: Variants.
        mean: Mean response.
        median: Median response.
        low: Least response.
        high: Greatest response.
    """

    value: Value
    n: int
    mean: float
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Effect:
    """One factor's main effect.

    Attributes:
        factor: Parameter name, `problem.` and a field's name, or `toolchain` or `arch`.
        parameter: The factor is a template's parameter.
        share: η², 0 to 1; 0 where the response does not vary.
        levels: One for each value: numbers ascending, else in the order they occur.
    """

    factor: str
    parameter: bool
    share: float
    levels: tuple[Level, ...]

    @property
    def range(self) -> float:
        """Greatest less least mean, in the unit of the response."""
        means = [level.mean for level in self.levels]
        return max(means) - min(means)


@dataclass(frozen=True, slots=True)
class Interaction:
    """Two factors together.

    Attributes:
        first: Factor on the axis.
        second: Factor that makes the lines.
        share: Share of variance that the pair explains beyond the sum of both factors alone, 0 to 1.
        cells: (value of first, value of second, mean response, variants).
    """

    first: str
    second: str
    share: float
    cells: tuple[tuple[Value, Value, float, int], ...]


@dataclass(frozen=True, slots=True)
class Factor:
    """Something that differs between variants."""

    name: str
    parameter: bool

    def of(self, record: VariantRecord) -> Value:
        """The factor's value for a variant; None where the variant does not have it."""
        if self.parameter:
            return record.parameters.get(self.name)
        if self.name.startswith("problem."):
            return record.problem.get(self.name.removeprefix("problem."))
        return record.arch if self.name == "arch" else record.build.toolchain if record.build else None


def factors(run: RunRecord, records: Sequence[VariantRecord]) -> tuple[Factor, ...]:
    """What took 2 to `MOST_LEVELS` values: swept parameters, problem fields, toolchain, architecture."""
    known = [Factor(name, parameter=True) for name in run.swept]
    known += [Factor(f"problem.{name}", parameter=False) for name in run.problem_axes]
    known += [Factor(name, parameter=False) for name in ("toolchain", "arch")]

    def levels(factor: Factor) -> int:
        return len({text(value) for record in records if (value := factor.of(record)) is not None})

    return tuple(factor for factor in known if 1 < levels(factor) <= MOST_LEVELS)


def observations(
    records: Iterable[VariantRecord], response: Callable[[VariantRecord], float | None]
) -> tuple[Observation, ...]:
    """The records that have a response, with it."""
    return tuple((record, value) for record in records if (value := response(record)) is not None)


def main_effects(factors: Iterable[Factor], observed: Sequence[Observation]) -> tuple[Effect, ...]:
    """Main effects, the most influential factor first."""
    effects = [effect for factor in factors if (effect := _effect(factor, observed)) is not None]
    return tuple(sorted(effects, key=lambda effect: -effect.share))


def strongest_interaction(factors: Sequence[Factor], observed: Sequence[Observation]) -> Interaction | None:
    """The pair of factors that explains most beyond both alone; None with fewer than two factors.

    Pairs whose combinations hold one variant each are left out: they would explain everything.
    """
    found = [
        interaction
        for first, second in combinations(factors, 2)
        if (interaction := _interaction(first, second, observed)) is not None
    ]
    return max(found, key=lambda interaction: interaction.share, default=None)


def _groups(keys: Sequence[object], values: Sequence[float]) -> dict[object, NDArray[np.float64]]:
    groups: dict[object, list[float]] = {}
    for key, value in zip(keys, values, strict=True):
        groups.setdefault(key, []).append(value)
    return {key: np.asarray(group) for key, group in groups.items()}


def _share(groups: Iterable[NDArray[np.float64]]) -> float:
    """Between-group over total sum of squares (η²); 0 where nothing varies beyond rounding."""
    listed = list(groups)
    pooled = np.concatenate(listed)
    total = float(((pooled - pooled.mean()) ** 2).sum())
    if total <= (1e-9 * abs(float(pooled.mean()))) ** 2 * len(pooled):
        return 0.0
    between = sum(len(group) * float((group.mean() - pooled.mean()) ** 2) for group in listed)
    return min(between / total, 1.0)


def _order(value: Value) -> tuple[int, float]:
    return (0, float(value)) if isinstance(value, int | float) else (1, 0.0)


def _effect(factor: Factor, observed: Sequence[Observation]) -> Effect | None:
    having = [(v, response) for record, response in observed if (v := factor.of(record)) is not None]
    values = sorted({text(v): v for v, _ in having}.items(), key=lambda item: _order(item[1]))
    if len(values) < 2:  # noqa: PLR2004 - an effect compares at least two values
        return None
    groups = _groups([text(v) for v, _ in having], [response for _, response in having])
    levels = tuple(
        Level(value, len(g := groups[name]), float(g.mean()), float(np.median(g)), float(g.min()), float(g.max()))
        for name, value in values
    )
    return Effect(factor.name, factor.parameter, _share(groups.values()), levels)


def _interaction(first: Factor, second: Factor, observed: Sequence[Observation]) -> Interaction | None:
    having = [
        (a, b, response)
        for record, response in observed
        if (a := first.of(record)) is not None and (b := second.of(record)) is not None
    ]
    responses = [response for *_, response in having]
    alone = [_groups([text(row[i]) for row in having], responses) for i in (0, 1)] if having else []
    if any(len(groups) < 2 for groups in alone) or not alone:  # noqa: PLR2004 - see _effect
        return None
    cells = _groups([(text(a), text(b)) for a, b, _ in having], responses)
    if len(cells) == len(having):
        return None
    beyond = _share(cells.values()) - sum(_share(groups.values()) for groups in alone)
    raw = {(text(a), text(b)): (a, b) for a, b, _ in having}
    ordered = sorted(raw.items(), key=lambda item: tuple(map(_order, item[1])))
    rows = tuple((*pair, float(cells[key].mean()), len(cells[key])) for key, pair in ordered)
    return Interaction(first.name, second.name, max(0.0, beyond), rows)
