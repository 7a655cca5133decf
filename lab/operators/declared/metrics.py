"""Figures that a file declares: ``GB/s: 12 * n / time``, work over the time of a launch in seconds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, evaluate

TIME: Final = "time"
"""The name of a launch's seconds in a metric."""

_PREFIXES: Final[Mapping[str, float]] = {
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
_BYTES: Final = ("B", "byte", "bytes")
_FLOPS: Final = ("FLOP", "flop", "FLOPs", "flops", "FLOPS", "Flop", "Flops")
_UNIT = re.compile(r"(Ki|Mi|Gi|Ti|[kMGTP]?)([A-Za-z]\w*)/s")
_FLOPS_ALONE = re.compile(r"([kMGTP]?)(FLOPS|FLOPs|Flops|flops)")


class MetricKind(StrEnum):
    """What a metric counts."""

    BYTES = "bytes"
    FLOPS = "floating-point operations"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Metric:
    """One declared figure.

    Attributes:
        unit: As the file writes it: ``GB/s``.
        expression: Over the problem, parameters and `time`.
    """

    unit: str
    expression: str

    @property
    def kind(self) -> MetricKind:
        """Return what it counts, by its unit."""
        thing = _parts(self.unit)[1]
        return MetricKind.BYTES if thing in _BYTES else MetricKind.FLOPS if thing in _FLOPS else MetricKind.OTHER

    @property
    def factor(self) -> float:
        """Return the size of the unit: 10^9 for ``GB/s``."""
        return _parts(self.unit)[0]

    def value(self, names: Mapping[str, Scalar], seconds: float) -> float:
        """Return the figure, in its unit, for a launch that took some seconds.

        Raises:
            UserError: The expression cannot be evaluated, or is no number.
        """
        return self._amount(names, seconds) / self.factor

    def work(self, names: Mapping[str, Scalar]) -> int:
        """Return the work of one launch: what the figure is at one second.

        Raises:
            UserError: The figure is not work over time.
        """
        one, two = self._amount(names, 1.0), self._amount(names, 2.0)
        if not math.isclose(one, 2 * two, rel_tol=1e-9) or one <= 0:
            accepted = f"work over time, such as 2 * m * n * k / {TIME}"
            raise UserError("the metric is no rate", key=self.key, found=self.expression, accepted=accepted)
        return round(one)

    @property
    def key(self) -> str:
        """Return its key in the file."""
        return f"metrics.{self.unit}"

    def _amount(self, names: Mapping[str, Scalar], seconds: float) -> float:
        try:
            found = evaluate(self.expression, {**names, TIME: seconds}, at=Location("metrics"), key=self.key)
        except UserError as error:
            raise error.placed(None, self.key) from error
        if isinstance(found, str | bool):
            raise UserError("the metric is no number", key=self.key, found=self.expression, accepted="a number")
        return float(found)


def _parts(unit: str) -> tuple[float, str]:
    """The factor of a unit's prefix, and what it counts a second of.

    A unit that is no rate has no prefix: ``ms: 1000 * time``. `k` is a prefix in front of capital letters only, so that
    ``keys/s`` has none; the other prefixes are capital letters.
    """
    found = _UNIT.fullmatch(unit) or _FLOPS_ALONE.fullmatch(unit)
    if found is None:
        return 1.0, unit
    prefix, thing = found.groups()
    if not prefix or (prefix == "k" and not (thing[0].isupper() or thing in _BYTES or thing in _FLOPS)):
        return 1.0, prefix + thing
    return _PREFIXES[prefix], thing
