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

from lab.recorded.run_records import RunRecord, VariantRecord
from lab.report.columns import Value
from lab.store.figures import text

MOST_LEVELS: Final = 24
"""Most values of a factor with a chart; a seed or a fine grid has more."""

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
        factor: Parameter name, `problem.` and a field's name, or `compiler` or `arch`.
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
        """Greatest minus least mean, in the unit of the response."""
        means = [level.mean for level in self.levels]
        return max(means) - min(means)


@dataclass(frozen=True, slots=True)
class Interaction:
    """The interaction of two factors.

    Attributes:
        first: Factor on the axis.
        second: Factor that distinguishes the lines.
        share: Share of variance that the pair explains beyond the sum of both factors alone, 0 to 1.
        cells: (value of first, value of second, mean response, variants).
    """

    first: str
    second: str
    share: float
    cells: tuple[tuple[Value, Value, float, int], ...]


@dataclass(frozen=True, slots=True)
class Factor:
    """A property that differs between variants.

    Attributes:
        name: Parameter name, `problem.` and a field's name, `compiler` or `arch`.
        parameter: It is a template's parameter.
    """

    name: str
    parameter: bool

    def of(self, record: VariantRecord) -> Value:
        """Return the factor's value for a variant; None where the variant has none."""
        if self.parameter:
            return record.parameters.get(self.name)
        if self.name.startswith("problem."):
            return record.problem.get(self.name.removeprefix("problem."))
        return record.arch if self.name == "arch" else record.compiler or None


def factors(run: RunRecord, records: Sequence[VariantRecord]) -> tuple[Factor, ...]:
    """Return the swept parameters, problem fields, compiler and architecture that take 2 to `MOST_LEVELS` values."""
    candidates = [Factor(name, parameter=True) for name in run.swept]
    candidates += [Factor(f"problem.{name}", parameter=False) for name in run.problem_axes]
    candidates += [Factor(name, parameter=False) for name in ("compiler", "arch")]

    def levels(factor: Factor) -> int:
        return len({text(value) for record in records if (value := factor.of(record)) is not None})

    return tuple(factor for factor in candidates if 1 < levels(factor) <= MOST_LEVELS)


def observations(
    records: Iterable[VariantRecord], response: Callable[[VariantRecord], float | None]
) -> tuple[Observation, ...]:
    """Pair each record that has a response with it."""
    return tuple((record, value) for record in records if (value := response(record)) is not None)


def main_effects(factors: Iterable[Factor], observed: Sequence[Observation]) -> tuple[Effect, ...]:
    """Compute the main effects, the most influential factor first."""
    effects = [effect for factor in factors if (effect := _effect(factor, observed)) is not None]
    return tuple(sorted(effects, key=lambda effect: -effect.share))


def strongest_interaction(factors: Sequence[Factor], observed: Sequence[Observation]) -> Interaction | None:
    """Return the pair of factors that explains most beyond both alone; None with fewer than two factors.

    Pairs with only one variant per combination are left out: they would explain everything.
    """
    responses = np.array([response for _, response in observed])
    columns = [_column(factor, observed) for factor in factors]
    interactions = [
        interaction
        for first, second in combinations(columns, 2)
        if (interaction := _interaction(first, second, responses)) is not None
    ]
    return max(interactions, key=lambda interaction: interaction.share, default=None)


@dataclass(frozen=True, slots=True)
class _Column:
    """A factor's values over the observations.

    Attributes:
        factor: Its name.
        values: The distinct values, in the order of the charts.
        codes: Place in `values` of each observation; -1 where it has none.
    """

    factor: str
    values: tuple[Value, ...]
    codes: NDArray[np.int64]


def _column(factor: Factor, observed: Sequence[Observation]) -> _Column:
    values = [factor.of(record) for record, _ in observed]
    distinct = sorted({text(v): v for v in values if v is not None}.items(), key=lambda item: _order(item[1]))
    places = {name: place for place, (name, _) in enumerate(distinct)}
    codes = np.array([-1 if v is None else places[text(v)] for v in values], np.int64)
    return _Column(factor.name, tuple(value for _, value in distinct), codes)


def _groups(keys: Sequence[object], values: Sequence[float]) -> dict[object, NDArray[np.float64]]:
    groups: dict[object, list[float]] = {}
    for key, value in zip(keys, values, strict=True):
        groups.setdefault(key, []).append(value)
    return {key: np.asarray(group) for key, group in groups.items()}


def _share(groups: Iterable[NDArray[np.float64]]) -> float:
    """Return between-group over total sum of squares (η²); 0 where nothing varies beyond rounding."""
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


def _interaction(first: _Column, second: _Column, responses: NDArray[np.float64]) -> Interaction | None:
    having = (first.codes >= 0) & (second.codes >= 0)
    a, b, values = first.codes[having], second.codes[having], responses[having]
    if any(len(np.unique(codes)) < 2 for codes in (a, b)):  # noqa: PLR2004 - see _effect
        return None
    pairs = a * len(second.values) + b
    cells, counts = np.unique(pairs, return_counts=True)
    if len(cells) == len(values):
        return None
    beyond = _share_of(pairs, values) - _share_of(a, values) - _share_of(b, values)
    means = np.bincount(pairs, values)[cells] / counts
    rows = tuple(
        (first.values[cell // len(second.values)], second.values[cell % len(second.values)], float(mean), int(count))
        for cell, mean, count in zip(cells, means, counts, strict=True)
    )
    return Interaction(first.factor, second.factor, max(0.0, beyond), rows)


def _share_of(codes: NDArray[np.int64], values: NDArray[np.float64]) -> float:
    """Return `_share` of groups given by codes."""
    return _share([values[codes == code] for code in np.unique(codes)])
