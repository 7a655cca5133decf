"""Throughput along a problem axis: one line a kernel and a baseline, and which kernel is fastest where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from lab.measurement import Kind, Samples
from lab.report.figures import Response
from lab.store import RunRecord, VariantRecord

LEAST_VALUES: Final = 3
"""Values of an axis that make a curve."""


@dataclass(frozen=True, slots=True)
class Point:
    """One kernel, or one baseline, at one value of the axis.

    Attributes:
        x: Value of the problem's field.
        name: The kernel's name or the baseline's.
        value: The response: a kernel's best variant, a baseline's median over the variants that it ran beside.
        label: What tells the best variant from its siblings; empty for a baseline.
        variant: Its id; empty for a baseline.
        group: `kernel` or `baseline`.
        best: No kernel has more at this value. A baseline never is.
    """

    x: float
    name: str
    value: float
    label: str
    variant: str
    group: str
    best: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """What the chart along an axis shows.

    Attributes:
        axis: The problem's field.
        points: By line, along the axis.
        wide: The axis spans so much that a logarithmic scale shows it better.
    """

    axis: str
    points: tuple[Point, ...]
    wide: bool

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels' lines."""
        return tuple(dict.fromkeys(point.name for point in self.points if point.group == "kernel"))

    @property
    def baselines(self) -> tuple[str, ...]:
        """Names of the baselines' lines."""
        return tuple(dict.fromkeys(point.name for point in self.points if point.group == "baseline"))


def curve(run: RunRecord, records: Sequence[VariantRecord], response: Response) -> Curve | None:
    """The curve of a run whose problems differ in one number alone; None for any other."""
    numbers = [name for name in run.problem_axes if any(_is_number(r.problem.get(name)) for r in records)]
    if len(run.problem_axes) != 1 or not numbers:
        return None
    axis = numbers[0]
    at: dict[float, list[VariantRecord]] = {}
    for record in records:
        at.setdefault(float(record.problem[axis]), []).append(record)
    if len(at) < LEAST_VALUES:
        return None
    points = [point for x in sorted(at) for point in _points(x, at[x], response)]
    names = list(dict.fromkeys([*(record.kernel for record in records), *(point.name for point in points)]))
    points.sort(key=lambda point: (names.index(point.name), point.x))
    return Curve(axis, tuple(points), max(at) > 0 < min(at) and max(at) / min(at) > 100) if points else None  # noqa: PLR2004


def _points(x: float, records: Sequence[VariantRecord], response: Response) -> list[Point]:
    best: dict[str, tuple[float, VariantRecord]] = {}
    for record in records:
        value = response.of(record)
        if value is not None and (record.kernel not in best or value > best[record.kernel][0]):
            best[record.kernel] = (value, record)
    top = max((value for value, _ in best.values()), default=0.0)
    made = [
        Point(x, name, value, record.label, record.variant, "kernel", value == top)
        for name, (value, record) in best.items()
    ]
    if response.kind is Kind.MEASURED:
        made += [Point(x, name, value, "", "", "baseline", best=False) for name, value in _baselines(records).items()]
    return made


def _baselines(records: Sequence[VariantRecord]) -> dict[str, float]:
    rates: dict[str, list[float]] = {}
    for record in records:
        timed = record.measurement
        if timed is None:
            continue
        beside: dict[str, Samples] = {}
        if timed.baseline is not None and timed.baseline_name:
            beside[timed.baseline_name] = timed.baseline
        beside |= timed.others
        for name, samples in beside.items():
            rates.setdefault(name, []).append(record.rate(samples.median))
    return {name: median(values) for name, values in rates.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
