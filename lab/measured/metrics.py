"""Figures of the user's own, from the time of a launch: what throughput is in a unit of theirs, and further columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, evaluate


@dataclass(frozen=True, slots=True)
class DeclaredRate:
    """What throughput is, in place of operations or bytes a second.

    Attributes:
        unit: As the user writes it: ``updates/ns``.
        amount: The throughput of a launch that takes a second, in `unit`.
    """

    unit: str
    amount: float

    def rate(self, ms: float) -> float:
        """Return the throughput of a launch that took `ms` milliseconds, in `unit`; 0 where no time passed."""
        return self.amount / ms * 1e3 if ms > 0 else 0.0


@dataclass(frozen=True, slots=True)
class DeclaredFigure:
    """A further figure of a launch: any expression over its time.

    Attributes:
        unit: As the user writes it: ``ms``.
        expression: Over `names` and `time`, the seconds of a launch.
        names: Values of the other names that the expression reads.
        factor: What the prefix of the unit divides by: 10^9 for ``GB/s``.
    """

    unit: str
    expression: str
    names: Mapping[str, Scalar]
    factor: float = 1.0

    def value(self, ms: float) -> float | None:
        """Return the figure of a launch that takes `ms` milliseconds; None where the expression has no number then."""
        try:
            names = {**self.names, "time": ms / 1e3}
            found = evaluate(self.expression, names, at=Location("metrics"), key=f"metrics.{self.unit}")
        except UserError:
            return None
        return None if isinstance(found, str | bool) else found / self.factor
