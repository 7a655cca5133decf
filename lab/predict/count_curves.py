"""How a count grows with the sizes of a problem, from what was counted at a few of them.

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
"""How far the terms of a count may lie from it at any size, as a share of it."""
_ALIKE: Final = 0.05
"""How far the blocks of a grid may be from what their curve says: the last ones of a large grid are filled in part."""
_JOINED: Final = 0.01
"""How far what curves of several sizes say together may lie from a count: each may be off by `_EXACT`."""
_FEWEST: Final = 3
_MOST: Final = 4
"""Sizes that are executed, the counted one among them."""

_Term = tuple[int, int]
"""Powers of a size and of its logarithm."""
_TERMS: Final[Sequence[Sequence[_Term]]] = (
    ((0, 0),), ((1, 0),), ((2, 0),), ((3, 0),),
    ((0, 0), (1, 0)), ((0, 0), (0, 1)), ((1, 0), (1, 1)), ((1, 0), (2, 0)), ((0, 0), (2, 0)),
    ((2, 0), (3, 0)), ((0, 0), (3, 0)),
    ((0, 0), (1, 0), (2, 0)), ((0, 0), (1, 0), (1, 1)), ((1, 0), (1, 1), (1, 2)),
)  # fmt: skip
"""What counts are made of, the simplest first. Of each the last term grows fastest."""


@dataclass(frozen=True, slots=True)
class CountCurve:
    """A count over that of one size, as a sum of terms of the ratio of sizes."""

    terms: Mapping[_Term, float]

    def at(self, ratio: float) -> float:
        """The count at a size over that at size 1."""
        return sum(one * _value(term, ratio) for term, one in self.terms.items())


def _value(term: _Term, ratio: float) -> float:
    power, logarithms = term
    return float(ratio**power * math.log2(ratio) ** logarithms)


def fitted(points: Mapping[float, float]) -> CountCurve | None:
    """Return the curve of the fewest terms through counts; None where there is none, or more terms than counts tell.

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
        found = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
        if found[-1] > 0 and np.max(np.abs(columns @ found - 1)) <= _EXACT:
            return CountCurve({term: float(one) for term, one in zip(terms, found, strict=True)})
    return None


@dataclass(frozen=True, slots=True)
class CountsBySize:
    """Counts of a problem, and of the same with some of its sizes changed.

    Attributes:
        problem: Its sizes.
        of: What was counted of it.
        resized: What was counted of the others.
    """

    problem: Mapping[str, Scalar]
    of: ResizedCounts
    resized: Sequence[ResizedCounts]

    def factor(self, figure: str, small: Mapping[str, float], real: Mapping[str, float], label: str) -> float | None:
        """Return how many times as much there is at one set of sizes as at another; None where no curves say it.

        Args:
            figure: As `figure_of`.
            small: Sizes over those of `problem`.
            real: The same of the other sizes.
            label: Label of the hot loop.
        """
        own = figure_of(self.of, figure, label)
        curves = {name: self._curve(figure, name, label) for name in real}
        if not own:
            none = all(not figure_of(one, figure, label) for one in self.resized)
            return 1.0 if none else None
        known = {name: curve for name, curve in curves.items() if curve is not None}
        if len(known) < len(curves):
            return None
        joined = self._joined(figure, known, label)
        least, most = (joined(small), joined(real)) if joined is not None else (0.0, 0.0)
        return most / least if least > 0 and most > 0 else None

    def _curve(self, figure: str, name: str, label: str) -> CountCurve | None:
        base, own = self.problem[name], figure_of(self.of, figure, label)
        if not isinstance(base, int) or not own:
            return None
        found = {
            one.sizes[name] / base: figure_of(one, figure, label) / own
            for one in self.resized
            if list(one.sizes) == [name]
        }
        return fitted({1.0: 1.0, **found})

    def _joined(self, figure: str, curves: Mapping[str, CountCurve], label: str) -> _Product | _Sum | None:
        """Whether sizes multiply each other or add up; the first where nothing says it."""
        forms = (_Product(curves), _Sum(curves))
        for one in self.resized:
            if len(one.sizes) > 1 and set(curves) <= set(one.sizes):
                ratios = {
                    name: one.sizes[name] / base for name in curves if isinstance(base := self.problem[name], int)
                }
                found = figure_of(one, figure, label) / figure_of(self.of, figure, label)
                return next((form for form in forms if math.isclose(form(ratios), found, rel_tol=_JOINED)), None)
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
"""Instructions of threads in the hot loop, in other loops or around it, and outside of loops."""


def figure_of(counts: ResizedCounts, figure: str, label: str = "") -> int:
    """A figure of what was counted: `blocks`, `executed`, `looped`, or one of `FIGURES`."""
    hot = counts.loops.get(label, 0)
    if figure == "hot":
        return hot
    if figure == "around":
        return counts.looped - hot
    if figure == "outside":
        return counts.executed - counts.looped
    return int(getattr(counts, figure))


def resized_counts(sizes: Mapping[str, int], steps: Iterable[EmulatedStep]) -> ResizedCounts:
    """Add up what launches executed."""
    blocks, executed, looped, loops = 0, 0, 0, dict[str, int]()
    for step in steps:
        blocks += math.prod(step.launch.grid)
        executed += step.executed.threads if step.executed is not None else 0
        looped += step.looped.threads if step.looped is not None else 0
        for label, threads in step.loops.items():
            loops[label] = loops.get(label, 0) + threads
    return ResizedCounts(sizes, blocks, executed, looped, loops)


def is_open(
    name: str, problem: Mapping[str, Scalar], steps: Sequence[EmulatedStep], known: Sequence[ResizedCounts]
) -> bool:
    """Whether it takes another size to say how the counts of a problem grow with one of its sizes."""
    if len(known) + 1 < _FEWEST or len(known) + 1 >= _MOST:
        return len(known) + 1 < _FEWEST
    counted, real = CountsBySize(problem, resized_counts({}, steps), known), {name: 2.0}
    hot = [step.hot_label for step in steps if step.hot_label]
    label = hot[0] if len(steps) == 1 and hot else ""
    return any(counted.factor(figure, {name: 1.0}, real, label) is None for figure in FIGURES)


def follows_blocks(grown: float, blocks: float) -> bool:
    """Whether a grid grows as its curve says: else the small problem fills its blocks in part, or blocks stay."""
    return math.isclose(grown, blocks, rel_tol=_ALIKE)
