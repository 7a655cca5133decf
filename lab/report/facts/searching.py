"""How a search went: the best so far after each measurement, what was predicted, and what chance would have found."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lab.recorded.run_records import RunRecord, Status, VariantRecord
from lab.store.figures import Basis, Response, by_problem, name_of, response_of

BEST: Final = "best so far"
MEASURED: Final = "measured"
PREDICTED: Final = "predicted"
RANDOM: Final = "random search, median"
LUCKY: Final = "random search, best tenth"

_QUANTILES: Final = {RANDOM: 0.5, LUCKY: 0.1}
"""Share of random searches that have found at least as much as the line says."""


@dataclass(frozen=True, slots=True)
class SearchPoint:
    """One mark of the chart.

    Attributes:
        part: The problem; empty where there is one.
        n: Measurements so far.
        value: Throughput, in the response's unit.
        line: What it belongs to.
        dot: It stands for itself rather than on a line.
        variant: Id of the variant; empty on random's lines.
        label: The variant's name.
    """

    part: str
    n: int
    value: float
    line: str
    dot: bool
    variant: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class SearchPath:
    """How a search went.

    Attributes:
        points: Of all problems.
        parts: The problems, in order; one empty name where there is one.
        lines: The lines and dots that occur.
    """

    points: tuple[SearchPoint, ...]
    parts: tuple[str, ...]
    lines: tuple[str, ...]


def search_path(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> SearchPath | None:
    """Follow a search; None where no strategy chose variants, or nothing was measured."""
    if run.search is None or not run.search.order or response.basis is not Basis.MEASURED:
        return None
    place = {variant: i for i, variant in enumerate(run.search.order)}
    points: list[SearchPoint] = []
    parts: list[str] = []
    groups = by_problem(run, records)
    for label, mine in groups.items():
        part = label if len(groups) > 1 else ""
        order = sorted((one for one in mine if one.variant in place), key=lambda one: place[one.variant])
        found = _points(part, order, response, _predicted(mine))
        if found:
            points += [*found, *_by_chance(part, mine, len(order), response)]
            parts.append(part)
    lines = tuple(line for line in (BEST, MEASURED, PREDICTED, *_QUANTILES) if any(one.line == line for one in points))
    return SearchPath(tuple(points), tuple(parts), lines) if points else None


def _predicted(records: Sequence[VariantRecord]) -> Mapping[str, float]:
    """Predicted throughput by variant, of the kind that a search goes by."""
    before = tuple(replace(one, measurement=None) for one in records if one.build and not one.status.failed)
    running = tuple(one for one in before if one.status is not Status.PRUNED)
    response = response_of(running)
    found = {one.variant: response.of(one) for one in running}
    return {variant: value for variant, value in found.items() if value}


def _points(
    part: str, order: Sequence[VariantRecord], response: Response, predicted: Mapping[str, float]
) -> list[SearchPoint]:
    points, best = [], 0.0
    for n, record in enumerate(order, 1):
        value, named = response.of(record), (record.variant, name_of(record))
        if value is not None:
            best = max(best, value)
            points.append(SearchPoint(part, n, value, MEASURED, True, *named))  # noqa: FBT003 - a dot
        if record.variant in predicted:
            points.append(SearchPoint(part, n, predicted[record.variant], PREDICTED, True, *named))  # noqa: FBT003
        if best:
            points.append(SearchPoint(part, n, best, BEST, False, *named))  # noqa: FBT003
    return points


def _by_chance(part: str, records: Sequence[VariantRecord], most: int, response: Response) -> list[SearchPoint]:
    """What random search would have found, if unmeasured variants err by as much as the measured ones at the median.

    Nothing where a variant has neither a time nor a prediction, as where only the chosen ones were built.
    """
    predicted = _predicted(records)
    measured = {one.variant: value for one in records if (value := response.of(one)) is not None}
    both = [value / predicted[variant] for variant, value in measured.items() if variant in predicted]
    if not both or len(measured) == len(records):
        return []
    factor = statistics.median(both)
    values = sorted((measured.get(v, predicted.get(v, 0.0) * factor) for v in {**predicted, **measured}), reverse=True)
    found = []
    for line, share in _QUANTILES.items():
        for n in range(1, most + 1):
            # the best of n draws is among the first i of N with chance 1 - (1 - i / N)^n
            first = math.ceil(len(values) * (1 - (1 - share) ** (1 / n)))
            found.append(SearchPoint(part, n, values[max(first, 1) - 1], line, dot=False))
    return found
