"""The search space of a problem: one axis per parameter, one for the kernel and one for the compiler options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lab.base.expressions import Scalar
from lab.experiment.model import Experiment, KernelEntry
from lab.experiment.problems import ProblemCase
from lab.experiment.space import Point, point_at
from lab.search.search_space import Place, SearchAxis, SearchSpace

KERNEL: Final = "kernel"
OPTIONS: Final = "options"
"""Names of the axes that are not parameters."""


@dataclass(frozen=True)
class SearchedProblem:
    """A problem and the space of its variants.

    Attributes:
        experiment: The experiment.
        problem: The problem.
        space: Its points. The first axis is the kernel, the last one the set of compiler options; a kernel without a
            parameter of another kernel only has the first value of that axis.
    """

    experiment: Experiment
    problem: ProblemCase
    space: SearchSpace
    _points: dict[Place, Point | None] = field(default_factory=dict)

    @classmethod
    def of(cls, experiment: Experiment, problem: ProblemCase) -> SearchedProblem:
        """Create the space of a problem."""
        names = dict.fromkeys(name for kernel in experiment.kernels for name in kernel.axes)
        values = {name: _union([kernel.axes.get(name, ()) for kernel in experiment.kernels]) for name in names}
        axes = (
            SearchAxis(KERNEL, tuple(kernel.name for kernel in experiment.kernels)),
            *(SearchAxis(name, listed) for name, listed in values.items()),
            SearchAxis(OPTIONS, tuple(" ".join(options) for options in experiment.options)),
        )
        created: list[SearchedProblem] = []
        space = SearchSpace(axes, lambda place: created[0].point(place) is not None)
        created.append(cls(experiment, problem, space))
        return created[0]

    def point(self, place: Place) -> Point | None:
        """Return the point at a place; None if the combination is invalid."""
        code = (*place[:-1], 0)  # options exclude no point
        if code not in self._points:
            self._points[code] = self._made(place)
        return self._points[code]

    def options(self, place: Place) -> tuple[str, ...]:
        """Return the compiler options at a place."""
        return self.experiment.options[place[-1]]

    def _made(self, place: Place) -> Point | None:
        kernel = self.experiment.kernels[place[0]]
        parameters: dict[str, Scalar] = {}
        for axis, i in zip(self.space.axes[1:-1], place[1:-1], strict=True):
            value = axis.values[i]
            listed = kernel.axes.get(axis.name)
            if listed is None:
                if i:
                    return None
            elif _is_among(value, listed):
                parameters[axis.name] = value
            else:
                return None
        return point_at(kernel, _in_order(kernel, parameters), self.problem)


def _in_order(kernel: KernelEntry, parameters: dict[str, Scalar]) -> dict[str, Scalar]:
    return {name: parameters[name] for name in kernel.axes}


def _is_among(value: Scalar, listed: tuple[Scalar, ...]) -> bool:
    return any(repr(value) == repr(candidate) for candidate in listed)  # 1 and true are equal, and different values


def _union(lists: list[tuple[Scalar, ...]]) -> tuple[Scalar, ...]:
    """Return the distinct values in order, numbers by size, so that neighbours in one kernel are neighbours in all."""
    values = list({repr(value): value for listed in lists for value in listed}.values())
    different = len({tuple(map(repr, listed)) for listed in lists if listed}) > 1
    if different and not any(isinstance(value, bool | str) for value in values):
        values.sort(key=float)
    return tuple(values)
