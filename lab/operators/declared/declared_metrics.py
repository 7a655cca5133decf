"""Declared metrics: ``GB/s: 12 * n / time``, work over the time of a launch in seconds."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, evaluate, names_in
from lab.measured.metrics import DeclaredFigure

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
_BINARY: Final = frozenset({"Ki", "Mi", "Gi", "Ti"})
_BYTES: Final = ("B", "byte", "bytes")
_FLOPS: Final = ("FLOP", "flop", "FLOPs", "flops", "FLOPS", "Flop", "Flops")
_UNIT = re.compile(r"(Ki|Mi|Gi|Ti|[kMGTP]?)([A-Za-z]\w*)/s")
_FLOPS_ALONE = re.compile(r"([kMGTP]?)(FLOPS|FLOPs|Flops|flops)")
_NUMBER = re.compile(r"(?<![\w.])((?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(\s*\*\*\s*\d+)?(?![\w.])")
_LEAST_SHARE: Final = 1e-5
"""Work below this share of the arrays' bytes is implausible where the expression holds a division by the prefix."""
_MOST_DIGITS: Final = 1000
"""A number in an expression that is smaller than this over the prefix holds a division by the prefix: ``2e-12``."""


class MetricKind(StrEnum):
    """The kind of work a metric counts."""

    BYTES = "bytes"
    FLOPS = "floating-point operations"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Metric:
    """A declared metric.

    Attributes:
        unit: As the file writes it: ``GB/s``.
        expression: Over the problem, parameters and `time`.
    """

    unit: str
    expression: str

    @property
    def kind(self) -> MetricKind:
        """Return the kind of work it counts, from its unit."""
        counted = _parts(self.unit)[1]
        return MetricKind.BYTES if counted in _BYTES else MetricKind.FLOPS if counted in _FLOPS else MetricKind.OTHER

    @property
    def factor(self) -> float:
        """Return the size of the unit: 10^9 for ``GB/s``."""
        return _parts(self.unit)[0]

    def value(self, names: Mapping[str, Scalar], seconds: float) -> float:
        """Return the metric, in its unit, for a launch of some seconds.

        Raises:
            UserError: The expression cannot be evaluated, or is not a number.
        """
        return self._amount(names, seconds) / self.factor

    def work(self, names: Mapping[str, Scalar], array_bytes: int = 0) -> int:
        """Return the work of one launch, rounded: the metric's value at one second.

        Args:
            names: Values of the names in the expression.
            array_bytes: Size of the kernel's arrays, to judge how much work is plausible; 0 if unknown.

        Raises:
            UserError: The figure is not work over time, or its expression divides by the unit's prefix, too.
        """
        return round(self.amount(names, array_bytes))

    def amount(self, names: Mapping[str, Scalar], array_bytes: int = 0) -> float:
        """Return the work of one launch as the expression gives it, without the unit's prefix; see `work`.

        Raises:
            UserError: As `work`.
        """
        at_one, at_two = self._amount(names, 1.0), self._amount(names, 2.0)
        if not math.isclose(at_one, 2 * at_two, rel_tol=1e-9) or at_one <= 0 or not math.isfinite(at_one):
            accepted = f"work over time, such as 2 * m * n * k / {TIME}"
            advice = f"every run lists times in ms anyway; write a rate first, such as launches/s: 1 / {TIME}"
            raise UserError(
                "the first metric must be a rate",
                code="wrong-value",
                key=self.key,
                found=self.expression,
                accepted=accepted,
                suggestion=advice,
            )
        least = _LEAST_SHARE * array_bytes if self.factor > 1 else 0.0
        if (self.factor == 1 and self.kind is MetricKind.OTHER) or at_one >= max(1, least):
            return at_one
        undivided = self._undivided(names) if self.factor > 1 else ""
        if at_one >= 1 and not undivided:
            return at_one
        raise self._too_small(at_one, undivided)

    def _too_small(self, work: float, undivided: str) -> UserError:
        """Return the error for an expression that yields almost no work."""
        counted, accepted, advice = self._counted, f"{self._counted} a second", None
        if self.factor > 1:
            scaled = undivided or f"{_power(self.factor).replace('^', '**')} * ({self.expression})"
            accepted = f"{accepted}: {scaled}"
            advice = f"the prefix of {self.unit} divides by {_power(self.factor)} already"
        return UserError(
            f"the metric counts {work:.3g} {counted} a launch",
            code="out-of-range",
            key=self.key,
            found=self.expression,
            accepted=accepted,
            suggestion=advice,
        )

    @property
    def _counted(self) -> str:
        """Plural name of what it counts."""
        return _parts(self.unit)[1] if self.kind is MetricKind.OTHER else str(self.kind)

    def _undivided(self, names: Mapping[str, Scalar]) -> str:
        """Return the expression without a redundant division by the prefix; empty if there is none."""
        text, target = self.expression, self.factor * self._amount(names, 1.0)
        candidates: list[str] = []
        for number in _NUMBER.finditer(text):
            before, behind, value = text[: number.start()], text[number.end() :], float(number[1])
            if before.rstrip().endswith(("/", "*")):
                candidates.append(f"{before.rstrip()[:-1].rstrip()}{behind}")
            candidates.append(before + re.sub(r"^\s*\*\s*", "", behind))
            if value * self.factor < _MOST_DIGITS:
                candidates.append(f"{before}{value * self.factor:.12g}{behind}")
        for candidate in candidates:
            with contextlib.suppress(UserError):
                if math.isclose(self.factor * Metric(self.unit, candidate).value(names, 1.0), target, rel_tol=1e-6):
                    return candidate
        return ""

    def figure(self, names: Mapping[str, Scalar]) -> DeclaredFigure:
        """Return the metric as records hold it, with the values of the names it reads.

        Raises:
            UserError: The text is not an expression.
        """
        used_names = names_in(self.expression, at=Location("metrics"), key=self.key) - {TIME}
        return DeclaredFigure(
            self.unit, self.expression, {name: names[name] for name in sorted(used_names)}, self.factor
        )

    @property
    def key(self) -> str:
        """Return its key in the file."""
        return f"metrics.{self.unit}"

    def _amount(self, names: Mapping[str, Scalar], seconds: float) -> float:
        try:
            value = evaluate(self.expression, {**names, TIME: seconds}, at=Location("metrics"), key=self.key)
        except UserError as error:
            raise error.placed(None, self.key) from error
        if isinstance(value, str | bool):
            raise UserError(
                "the metric must evaluate to a number",
                code="wrong-type",
                key=self.key,
                found=self.expression,
                accepted="a number",
            )
        return float(value)


def _parts(unit: str) -> tuple[float, str]:
    """Return the factor of a unit's prefix, and what it counts per second.

    A unit that is not a rate has no prefix: ``ms: 1000 * time``. For units other than bytes and operations, `M` and `G`
    are prefixes; `k`, `T` and `P` are prefixes only before capital letters, so that ``keys/s`` and ``Tokens/s`` have
    none; and there are no binary prefixes: ``Mitems/s`` counts millions of items.
    """
    match = _UNIT.fullmatch(unit) or _FLOPS_ALONE.fullmatch(unit)
    if match is None:
        return 1.0, unit
    prefix, counted = match.groups()
    if counted not in _BYTES and counted not in _FLOPS:
        if prefix in _BINARY:
            prefix, counted = prefix[0], prefix[1:] + counted
        if prefix in {"k", "K", "T", "P"} and (prefix == "K" or not counted[0].isupper()):
            return 1.0, prefix + counted
    return _PREFIXES[prefix], counted


def _power(factor: float) -> str:
    """Write a prefix's size as a power: ``10^9``, ``2^30``."""
    decimal = round(math.log10(factor))
    return f"10^{decimal}" if factor == 10.0**decimal else f"2^{round(math.log2(factor))}"
