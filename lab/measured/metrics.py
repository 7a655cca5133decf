"""Declared metrics, computed from a launch's time: throughput in the user's unit, and further columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, evaluate


@dataclass(frozen=True, slots=True)
class DeclaredRate:
    """A declared throughput, instead of operations or bytes per second.

    Attributes:
        unit: As the user writes it: ``updates/ns``.
        amount: The throughput of a launch of one second, in `unit`.
    """

    unit: str
    amount: float

    def rate(self, ms: float) -> float:
        """Return the throughput of a launch of `ms` milliseconds, in `unit`; 0 if no time passed."""
        return self.amount / ms * 1e3 if ms > 0 else 0.0


@dataclass(frozen=True, slots=True)
class DeclaredFigure:
    """A further metric of a launch: any expression over its time.

    Attributes:
        unit: As the user writes it: ``ms``.
        expression: Over `names` and `time`, the seconds of a launch.
        names: Values of the other names that the expression reads.
        factor: Factor of the unit's prefix: 10^9 for ``GB/s``.
    """

    unit: str
    expression: str
    names: Mapping[str, Scalar]
    factor: float = 1.0

    def value(self, ms: float) -> float | None:
        """Return the metric of a launch of `ms` milliseconds; None if the expression does not yield a number."""
        try:
            names = {**self.names, "time": ms / 1e3}
            result = evaluate(self.expression, names, at=Location("metrics"), key=f"metrics.{self.unit}")
        except UserError:
            return None
        return None if isinstance(result, str | bool) else result / self.factor
