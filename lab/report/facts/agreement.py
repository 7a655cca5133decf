"""Agreement of estimate and predicted time with the measurement of each variant.

A ceiling is not among them: it is a bound, and how far below it a kernel stays is not an error of the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from lab.predict.variant_scores import rate, scores
from lab.recorded.run_records import VariantRecord
from lab.report.rank_correlation import rank_correlation
from lab.store import figures

_FEWEST = 4
"""Fewest variants for which a rank correlation is reported."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One prediction against the measurements.

    Attributes:
        name: `predicted time` or `estimate`.
        column: Name of the table's column with it where throughput counts operations.
        points: (variant, measured, predicted), throughput in the operator's unit.
        error: Median of |predicted / measured - 1|.
        correlation: Spearman's rank correlation, -1 to 1; None where all values of one side are equal.
        worst: Variant with the largest error.
    """

    name: str
    column: str
    points: tuple[tuple[str, float, float], ...]
    error: float
    correlation: float | None
    worst: str

    @property
    def usable(self) -> bool:
        """True if the prediction has the right scale: at the median it is off by less than a factor of two."""
        return self.error < 1

    @property
    def sentence(self) -> str:
        """The figures as a sentence without its full stop."""
        if not self.usable:
            return f"{self.name}: off by more than a factor of two at the median, and not shown, n = {len(self.points)}"
        rank = "" if self.correlation is None else f", Spearman's rank correlation {self.correlation:.2f}"
        return f"{self.name}: median absolute error {self.error:.1%}{rank}, n = {len(self.points)}"


def agreements(records: Sequence[VariantRecord]) -> tuple[Agreement, ...]:
    """Compare predicted times and estimates with measurements.

    Each is absent where too few measured variants have it.
    """
    scored = scores(records)
    rates = {record.variant: rate(record, scored[record.variant]) for record in records if record.variant in scored}
    candidates = (
        agreement("predicted time", "scored_tflops", _points(records, lambda record: rates.get(record.variant))),
        agreement("estimate", "estimated_tflops", _points(records, figures.estimated)),
    )
    return tuple(candidate for candidate in candidates if candidate is not None)


def costliest(record: VariantRecord) -> tuple[str, float] | None:
    """Return the costliest cause besides fma by the scheduler model, and its share of the cycles, 0 to 1."""
    shares = record.estimate.shares if record.estimate else {}
    costs = ((cause, share) for cause, share in shares.items() if cause != "fma")
    return max(costs, key=lambda cost: cost[1], default=None)


def loss(record: VariantRecord) -> str | None:
    """`costliest` as text: ``stall 12%``."""
    cost = costliest(record)
    return f"{cost[0]} {cost[1]:.0%}" if cost else None


def agreement(name: str, column: str, points: Sequence[tuple[str, float, float]]) -> Agreement | None:
    """Compare a prediction with measurements; None where there are too few. Arguments are as in `Agreement`.

    Points without a measured throughput above 0 are left out: an error is relative to it.
    """
    points = [point for point in points if point[1] > 0]
    if len(points) < _FEWEST:
        return None
    errors = {variant: abs(value / measured - 1) for variant, measured, value in points}
    varied = all(len({point[side] for point in points}) > 1 for side in (1, 2))
    rank = rank_correlation([p[1] for p in points], [p[2] for p in points]).rho if varied else None
    worst = max(errors, key=lambda variant: errors[variant])
    return Agreement(name, column, tuple(points), median(errors.values()), rank, worst)


def _points(
    records: Sequence[VariantRecord], predicted: Callable[[VariantRecord], float | None]
) -> list[tuple[str, float, float]]:
    return [
        (record.variant, measured, value)
        for record in records
        if record.status.sound
        and (measured := figures.measured(record)) is not None
        and (value := predicted(record)) is not None
    ]
