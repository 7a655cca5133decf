"""How far predictions hold: the ceiling and the estimate of every measured variant, against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from scipy.stats import spearmanr

from lab.store import figures
from lab.store.model import Status, VariantRecord

_FEWEST = 4
"""Variants that a rank correlation needs to say anything."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One prediction against the measurements.

    Attributes:
        name: `estimate` or `ceiling`.
        column: The table's column with it, as it is called where operations count.
        points: (variant, measured, predicted), throughput in the operator's unit.
        error: Median of |predicted / measured - 1|.
        correlation: Spearman's rank correlation; None where all of one side are equal.
        worst: Variant with the largest error.
    """

    name: str
    column: str
    points: tuple[tuple[str, float, float], ...]
    error: float
    correlation: float | None
    worst: str

    @property
    def sentence(self) -> str:
        """The figures in words."""
        rank = "" if self.correlation is None else f", Spearman's rank correlation {self.correlation:.2f}"
        return f"{self.name}: median absolute error {self.error:.1%}{rank}, n = {len(self.points)}"


def agreements(records: Sequence[VariantRecord]) -> tuple[Agreement, ...]:
    """The estimate's agreement and the ceiling's, as far as there are enough measured variants with them."""
    found = (
        agreement("estimate", "estimated_tflops", _points(records, figures.estimated)),
        agreement("ceiling", "predicted_tflops", _points(records, figures.predicted)),
    )
    return tuple(one for one in found if one is not None)


def costliest(record: VariantRecord) -> tuple[str, float] | None:
    """What the model says costs most besides fma, and its share of the cycles."""
    shares = record.estimate.shares if record.estimate else {}
    others = ((cause, share) for cause, share in shares.items() if cause != "fma")
    return max(others, key=lambda cost: cost[1], default=None)


def loss(record: VariantRecord) -> str | None:
    """`costliest` in words."""
    cost = costliest(record)
    return f"{cost[0]} {cost[1]:.0%}" if cost else None


def agreement(name: str, column: str, points: Sequence[tuple[str, float, float]]) -> Agreement | None:
    """Compare a prediction with measurements; None where there are too few. Arguments as `Agreement`'s attributes."""
    if len(points) < _FEWEST:
        return None
    errors = {variant: abs(value / measured - 1) for variant, measured, value in points}
    varied = all(len({point[side] for point in points}) > 1 for side in (1, 2))
    rank = float(spearmanr([p[1] for p in points], [p[2] for p in points]).statistic) if varied else None
    worst = max(errors, key=lambda variant: errors[variant])
    return Agreement(name, column, tuple(points), median(errors.values()), rank, worst)


def _points(
    records: Sequence[VariantRecord], predicted: Callable[[VariantRecord], float | None]
) -> list[tuple[str, float, float]]:
    return [
        (record.variant, measured, value)
        for record in records
        if record.status is Status.VERIFIED
        and (measured := figures.measured(record)) is not None
        and (value := predicted(record)) is not None
    ]
