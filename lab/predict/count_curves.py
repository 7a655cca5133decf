"""Scaling model of a count: its growth with the problem's sizes, fitted to counts at a few sizes.

A count is a sum of powers of a size, with logarithms where a loop halves what is left: what a kernel does once for each
block, and what it does for each element. Three sizes show whether two such terms account for it, four whether three do.
The counts are exact, so that terms which miss one of them by more than `_EXACT` are not the right ones.

Several sizes multiply each other, as rows and columns do, or add up, as two loops behind each other do. A problem with
all of them changed says which.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lab.base.expressions import Scalar
from lab.recorded.run_records import EmulatedStep, ResizedCounts

_EXACT: Final = 1e-3
"""Relative error allowed for a fitted curve at any size."""
_ALIKE: Final = 0.05
"""Relative difference allowed between a grid and its curve: the last blocks of a large grid are partly filled."""
_JOINED: Final = 0.01
"""Relative error allowed for curves of several sizes combined: each may be off by `_EXACT`."""
_FEWEST: Final = 3
_MOST: Final = 4
"""Most sizes that are executed, including the counted one."""

_Term = tuple[int, int]
"""Powers of a size and of its logarithm."""
_TERMS: Final[Sequence[Sequence[_Term]]] = (
    ((0, 0),), ((1, 0),), ((2, 0),), ((3, 0),),
    ((0, 0), (1, 0)), ((0, 0), (0, 1)), ((1, 0), (1, 1)), ((1, 0), (2, 0)), ((0, 0), (2, 0)),
    ((2, 0), (3, 0)), ((0, 0), (3, 0)),
    ((0, 0), (1, 0), (2, 0)), ((0, 0), (1, 0), (1, 1)), ((1, 0), (1, 1), (1, 2)),
)  # fmt: skip
"""Candidate terms of a count, simplest first. The last term of each grows fastest."""


@dataclass(frozen=True, slots=True)
class CountCurve:
    """A count over that of one size, as a sum of terms of the ratio of sizes."""

    terms: Mapping[_Term, float]

    def at(self, ratio: float) -> float:
        """Return the count at a size, relative to size 1."""
        return sum(coefficient * _value(term, ratio) for term, coefficient in self.terms.items())


def _value(term: _Term, ratio: float) -> float:
    power, logarithms = term
    return float(ratio**power * math.log2(ratio) ** logarithms)


def fitted(points: Mapping[float, float]) -> CountCurve | None:
    """Return the simplest curve through the counts; None if none fits or there are too few counts.

    Args:
        points: Counts by size, both over those of one of the sizes.
    """
    sizes, counts = list(points), np.array(list(points.values()))
    if len(points) < _FEWEST or not np.all(counts > 0):
        return None
    for terms in _TERMS:
        if len(terms) >= len(points):
            continue
        columns = np.array([[_value(term, size) for term in terms] for size in sizes]) / counts[:, None]
        coefficients = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
        if coefficients[-1] > 0 and np.max(np.abs(columns @ coefficients - 1)) <= _EXACT:
            return CountCurve({term: float(coefficient) for term, coefficient in zip(terms, coefficients, strict=True)})
    return None


@dataclass(frozen=True, slots=True)
class CountsBySize:
    """Counts of a problem, and of the same problem with some sizes changed.

    Attributes:
        problem: Its sizes.
        of: What was counted of it.
        resized: What was counted of the others.
    """

    problem: Mapping[str, Scalar]
    of: ResizedCounts
    resized: Sequence[ResizedCounts]

    def factor(self, figure: str, small: Mapping[str, float], real: Mapping[str, float], label: str) -> float | None:
        """Return the ratio of a figure between two sets of sizes; None if no curves determine it.

        Args:
            figure: As `figure_of`.
            small: Sizes over those of `problem`.
            real: The same of the other sizes.
            label: Label of the hot loop.
        """
        own = figure_of(self.of, figure, label)
        curves = {name: self._curve(figure, name, label) for name in real}
        if not own:
            none = all(not figure_of(counts, figure, label) for counts in self.resized)
            return 1.0 if none else None
        fitted_curves = {name: curve for name, curve in curves.items() if curve is not None}
        if len(fitted_curves) < len(curves):
            return None
        joined = self._joined(figure, fitted_curves, label)
        least, upper = (joined(small), joined(real)) if joined is not None else (0.0, 0.0)
        return upper / least if least > 0 and upper > 0 else None

    def _curve(self, figure: str, name: str, label: str) -> CountCurve | None:
        base, own = self.problem[name], figure_of(self.of, figure, label)
        if not isinstance(base, int) or not own:
            return None
        points = {
            counts.sizes[name] / base: figure_of(counts, figure, label) / own
            for counts in self.resized
            if list(counts.sizes) == [name]
        }
        return fitted({1.0: 1.0, **points})

    def _joined(self, figure: str, curves: Mapping[str, CountCurve], label: str) -> _Product | _Sum | None:
        """Return how the curves of several sizes combine: as a product or a sum; a product if nothing tells."""
        forms = (_Product(curves), _Sum(curves))
        for counts in self.resized:
            if len(counts.sizes) > 1 and set(curves) <= set(counts.sizes):
                ratios = {
                    name: counts.sizes[name] / base for name in curves if isinstance(base := self.problem[name], int)
                }
                observed = figure_of(counts, figure, label) / figure_of(self.of, figure, label)
                return next((form for form in forms if math.isclose(form(ratios), observed, rel_tol=_JOINED)), None)
        return forms[0]


@dataclass(frozen=True, slots=True)
class _Product:
    curves: Mapping[str, CountCurve]

    def __call__(self, ratios: Mapping[str, float]) -> float:
        return math.prod(curve.at(ratios[name]) for name, curve in self.curves.items())


@dataclass(frozen=True, slots=True)
class _Sum:
    curves: Mapping[str, CountCurve]

    def __call__(self, ratios: Mapping[str, float]) -> float:
        return 1 + sum(curve.at(ratios[name]) - 1 for name, curve in self.curves.items())


FIGURES: Final = ("hot", "around", "outside")
"""Thread instructions in the hot loop, in other or enclosing loops, and outside of loops."""


def figure_of(counts: ResizedCounts, figure: str, label: str = "") -> int:
    """Return one figure of the counts: `blocks`, `executed`, `looped`, or one of `FIGURES`."""
    hot = counts.loops.get(label, 0)
    if figure == "hot":
        return hot
    if figure == "around":
        return counts.looped - hot
    if figure == "outside":
        return counts.executed - counts.looped
    return int(getattr(counts, figure))


def resized_counts(sizes: Mapping[str, int], steps: Iterable[EmulatedStep]) -> ResizedCounts:
    """Add up the counts of launches."""
    blocks, executed, looped, loops = 0, 0, 0, dict[str, int]()
    for step in steps:
        blocks += math.prod(step.launch.grid)
        executed += step.executed.threads if step.executed is not None else 0
        looped += step.looped.threads if step.looped is not None else 0
        for label, threads in step.loops.items():
            loops[label] = loops.get(label, 0) + threads
    return ResizedCounts(sizes, blocks, executed, looped, loops)


def is_open(
    name: str, problem: Mapping[str, Scalar], steps: Sequence[EmulatedStep], resized: Sequence[ResizedCounts]
) -> bool:
    """Return whether another size must be executed to determine the growth with one of the sizes."""
    if len(resized) + 1 < _FEWEST or len(resized) + 1 >= _MOST:
        return len(resized) + 1 < _FEWEST
    counted, real = CountsBySize(problem, resized_counts({}, steps), resized), {name: 2.0}
    hot = [step.hot_label for step in steps if step.hot_label]
    label = hot[0] if len(steps) == 1 and hot else ""
    return any(counted.factor(figure, {name: 1.0}, real, label) is None for figure in FIGURES)


def follows_blocks(grown: float, blocks: float) -> bool:
    """Return whether a grid grows as its curve says; else blocks are partly filled or persistent."""
    return math.isclose(grown, blocks, rel_tol=_ALIKE)
