"""Throughput along a problem axis: a line per kernel and baseline, and the fastest kernel at each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from lab.measured.timing import Kind, Samples
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.store.figures import Response, text

LEAST_VALUES: Final = 3
"""Fewest values of an axis that make a curve."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One kernel, or one baseline, at one value of the axis.

    Attributes:
        x: Value of the problem's field.
        name: The kernel's name or the baseline's.
        value: The response: of a kernel's best variant, or a baseline's median over the variants that it ran beside.
        label: Parameters that distinguish the best variant; empty for a baseline.
        variant: Its id; empty for a baseline.
        group: `kernel` or `baseline`.
        best: No kernel has a higher response at this value; always false for a baseline.
        part: The other fields of its problem that vary, `dtype=float16`; empty where the axis is the only one.
    """

    x: float
    name: str
    value: float
    label: str
    variant: str
    group: str
    best: bool
    part: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """The data of a chart along an axis: a curve, or one per value of the problem's other fields.

    Attributes:
        axis: The problem's field.
        points: By part, by line, along the axis.
        wide: The axis spans more than a factor of 100, so that a logarithmic scale shows it better.
    """

    axis: str
    points: tuple[CurvePoint, ...]
    wide: bool

    @property
    def parts(self) -> tuple[str, ...]:
        """Labels of the curves; a single empty label where there is one curve."""
        return tuple(dict.fromkeys(point.part for point in self.points))

    def only(self, facet: str) -> Curve:
        """Return the curve of one part."""
        return replace(self, points=tuple(point for point in self.points if point.part == facet))

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels' lines."""
        return tuple(dict.fromkeys(point.name for point in self.points if point.group == "kernel"))

    @property
    def baselines(self) -> tuple[str, ...]:
        """Names of the baselines' lines."""
        return tuple(dict.fromkeys(point.name for point in self.points if point.group == "baseline"))


def curve(run: RunRecord, records: Sequence[VariantRecord], response: Response) -> Curve | None:
    """Return the curve of a run whose problems differ in exactly one number (and perhaps in words); None otherwise."""
    numbers = [name for name in run.problem_axes if any(_is_number(r.problem.get(name)) for r in records)]
    if len(numbers) != 1:
        return None
    axis = numbers[0]
    other_axes = [name for name in run.problem_axes if name != axis]
    at: dict[str, dict[float, list[VariantRecord]]] = {}
    for record in records:
        facet = " ".join(f"{name}={text(record.problem.get(name))}" for name in other_axes)
        at.setdefault(facet, {}).setdefault(float(record.problem[axis]), []).append(record)
    xs = sorted({x for values in at.values() for x in values})
    if len(xs) < LEAST_VALUES:
        return None
    points = [
        point
        for facet, values in at.items()
        for x in sorted(values)
        for point in _points(x, values[x], response, facet)
    ]
    parts = list(at)
    names = list(dict.fromkeys([*(record.kernel for record in records), *(point.name for point in points)]))
    points.sort(key=lambda point: (parts.index(point.part), names.index(point.name), point.x))
    return Curve(axis, tuple(points), xs[0] > 0 and xs[-1] / xs[0] > 100) if points else None  # noqa: PLR2004


def _points(x: float, records: Sequence[VariantRecord], response: Response, facet: str) -> list[CurvePoint]:
    best: dict[str, tuple[float, VariantRecord]] = {}
    for record in records:
        value = response.standing(record)
        if value is not None and (record.kernel not in best or value > best[record.kernel][0]):
            best[record.kernel] = (value, record)
    top = max((value for value, _ in best.values()), default=0.0)
    points = [
        CurvePoint(
            x,
            name,
            response.of(best_record) or 0.0,
            best_record.label,
            best_record.variant,
            "kernel",
            value == top,
            facet,
        )
        for name, (value, best_record) in best.items()
    ]
    if response.kind is Kind.MEASURED:
        beside = _baselines(records).items()
        points += [CurvePoint(x, name, value, "", "", "baseline", best=False, part=facet) for name, value in beside]
    return points


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
