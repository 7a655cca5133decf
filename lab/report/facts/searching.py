"""Progress of a search: best so far after each measurement, predictions, and random search."""

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
"""Share of random searches that reach at least the value of the line."""


@dataclass(frozen=True, slots=True)
class SearchPoint:
    """One mark of the search chart.

    Attributes:
        part: The problem; empty where there is one.
        n: Measurements so far.
        value: Throughput, in the response's unit.
        line: The line it belongs to.
        dot: It is a dot rather than a point of a line.
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
    """The progress of a search.

    Attributes:
        points: Points of all problems.
        parts: The problems, in order; one empty name where there is one.
        lines: The lines and dots that occur.
    """

    points: tuple[SearchPoint, ...]
    parts: tuple[str, ...]
    lines: tuple[str, ...]


def search_path(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> SearchPath | None:
    """Return the progress of a search; None where no strategy chose variants, or nothing was measured."""
    if run.search is None or not run.search.order or response.basis is not Basis.MEASURED:
        return None
    place = {variant: i for i, variant in enumerate(run.search.order)}
    points: list[SearchPoint] = []
    parts: list[str] = []
    groups = by_problem(run, records)
    for label, mine in groups.items():
        facet = label if len(groups) > 1 else ""
        order = sorted((record for record in mine if record.variant in place), key=lambda record: place[record.variant])
        problem_points = _points(facet, order, response, _predicted(mine))
        if problem_points:
            points += [*problem_points, *_by_chance(facet, mine, len(order), response)]
            parts.append(facet)
    lines = tuple(
        line for line in (BEST, MEASURED, PREDICTED, *_QUANTILES) if any(point.line == line for point in points)
    )
    return SearchPath(tuple(points), tuple(parts), lines) if points else None


def _predicted(records: Sequence[VariantRecord]) -> Mapping[str, float]:
    """Return predicted throughput by variant, of the kind a search uses."""
    before = tuple(replace(record, measurement=None) for record in records if record.build and not record.status.failed)
    running = tuple(record for record in before if record.status is not Status.PRUNED)
    response = response_of(running)
    throughputs = {record.variant: response.of(record) for record in running}
    return {variant: value for variant, value in throughputs.items() if value}


def _points(
    facet: str, order: Sequence[VariantRecord], response: Response, predicted: Mapping[str, float]
) -> list[SearchPoint]:
    points, best = [], 0.0
    for n, record in enumerate(order, 1):
        value, identity = response.of(record), (record.variant, name_of(record))
        if value is not None:
            best = max(best, value)
            points.append(SearchPoint(facet, n, value, MEASURED, True, *identity))  # noqa: FBT003 - a dot
        if record.variant in predicted:
            points.append(SearchPoint(facet, n, predicted[record.variant], PREDICTED, True, *identity))  # noqa: FBT003
        if best:
            points.append(SearchPoint(facet, n, best, BEST, False, *identity))  # noqa: FBT003
    return points


def _by_chance(facet: str, records: Sequence[VariantRecord], draws: int, response: Response) -> list[SearchPoint]:
    """Return what random search would find, if unmeasured variants err like the median measured one.

    Empty where a variant has neither a time nor a prediction, as where only the chosen ones were built.
    """
    predicted = _predicted(records)
    measured = {record.variant: value for record in records if (value := response.of(record)) is not None}
    ratios = [value / predicted[variant] for variant, value in measured.items() if variant in predicted]
    if not ratios or len(measured) == len(records):
        return []
    factor = statistics.median(ratios)
    values = sorted((measured.get(v, predicted.get(v, 0.0) * factor) for v in {**predicted, **measured}), reverse=True)
    points = []
    for line, share in _QUANTILES.items():
        for n in range(1, draws + 1):
            # the best of n draws is among the first i of N with chance 1 - (1 - i / N)^n
            first = math.ceil(len(values) * (1 - (1 - share) ** (1 / n)))
            points.append(SearchPoint(facet, n, values[max(first, 1) - 1], line, dot=False))
    return points
