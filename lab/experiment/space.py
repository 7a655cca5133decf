"""The points of an experiment's parameter space: all of them, a random sample, or the neighbours of some."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, evaluate
from lab.experiment.model import Experiment, KernelEntry
from lab.experiment.problems import ProblemCase, show
from lab.operators.declared.operator import Declared
from lab.templates.front_matter import NO_VALUE
from lab.templates.instance import Instance

DEFAULT_MAX_VARIANTS = 1000
"""Larger sweeps need `--max-variants`, so that one list too many does not cost a night."""

_MOST_COMBINATIONS = 2_000_000
"""Maximum combinations before constraints; listing more takes minutes. Searches have no such limit."""

_MOST_DRAWS = 500_000
"""Maximum combinations a search draws; if it finds too few, the constraints need rewriting."""


@dataclass(frozen=True)
class Point:
    """One point of the space: a kernel with all of its parameters, for one problem.

    Attributes:
        kernel: The experiment's kernel.
        parameters: Every parameter of the template with its value.
        problem: The problem.
        label: Text that distinguishes it from its kernel's other points: ``m=2048 unroll=4``; empty for a single point.
    """

    kernel: KernelEntry
    parameters: Mapping[str, Scalar]
    problem: ProblemCase
    label: str

    @property
    def instance(self) -> Instance:
        """The template with these parameters for this problem; built on each access, as a sweep has many points."""
        return Instance(self.kernel.template, self.parameters, self.problem.values)


@dataclass(frozen=True)
class Expansion:
    """Points of an experiment.

    Attributes:
        points: Problem by problem, then in file order, the last swept parameter varying fastest.
        combinations: Number of combinations before constraints, over all problems.
        excluded: Number of combinations excluded by each constraint or requirement.
        drawn: Combinations drawn by a search; None if all were listed.
    """

    points: tuple[Point, ...]
    combinations: int
    excluded: Mapping[str, int]
    drawn: int | None = None


def expand(experiment: Experiment, *, max_variants: int | None = None) -> Expansion:
    """List the points of an experiment; for a search, its sample.

    Args:
        experiment: The experiment.
        max_variants: Maximum points times toolchains times architectures; `DEFAULT_MAX_VARIANTS` by default.

    Raises:
        UserError: A kernel has no point left, or there are more variants than allowed.
    """
    expansion = _sample(experiment) if experiment.search and experiment.search.sample else _everything(experiment)
    points = len(expansion.points)
    built = sum(len(point.kernel.compilers(experiment.toolchains)) for point in expansion.points)
    variants = built * len(experiment.archs) * len(experiment.options)
    limit = DEFAULT_MAX_VARIANTS if max_variants is None else max_variants
    if variants > limit:
        raise UserError(
            f"the sweep has {variants} variants ({points} points, {len(experiment.toolchains)} toolchains, "
            f"{len(experiment.archs)} architectures, {len(experiment.options)} sets of options)",
            code="out-of-range",
            at=Location(experiment.file),
            key="kernels",
            accepted=f"at most {limit}",
            suggestion=f"shorten some lists, add a `search`, or pass --max-variants {variants}",
        )
    return expansion


def neighbours(points: Iterable[Point], visited: Iterable[Point]) -> tuple[Point, ...]:
    """Return the valid points that differ from one of `points` in one parameter, without those in `seen`.

    A number's neighbours are the next values below and above among those the experiment lists; a word or a switch
    has all of its other values.
    """
    seen_keys = {_key(point) for point in visited}
    near_points: list[Point] = []
    for point in points:
        for name, values in point.kernel.axes.items():
            for value in _beside(values, point.parameters[name]):
                parameters = {**point.parameters, name: value}
                near = _point(point.kernel, parameters, point.problem)
                if _key(near) not in seen_keys and not _excluded_by(point.kernel, parameters, point.problem):
                    seen_keys.add(_key(near))
                    near_points.append(near)
    return tuple(near_points)


def _key(point: Point) -> tuple[object, ...]:
    return (point.kernel.name, point.problem.label, tuple(repr(value) for value in point.parameters.values()))


def _beside(values: tuple[Scalar, ...], value: Scalar) -> tuple[Scalar, ...]:
    if any(isinstance(candidate, bool | str) for candidate in values):
        return tuple(candidate for candidate in values if candidate != value)
    ordered = sorted(values, key=float)
    place = ordered.index(value)
    return tuple(ordered[i] for i in (place - 1, place + 1) if 0 <= i < len(ordered))


def _combinations(kernel: KernelEntry) -> int:
    return math.prod(len(values) for values in kernel.axes.values())


def _everything(experiment: Experiment) -> Expansion:
    combinations = sum(map(_combinations, experiment.kernels)) * len(experiment.problems)
    if combinations > _MOST_COMBINATIONS:
        raise UserError(
            f"the sweep has {combinations} combinations before constraints",
            code="out-of-range",
            at=Location(experiment.file),
            key="kernels",
            accepted=f"at most {_MOST_COMBINATIONS}",
            suggestion="shorten some lists, or add `search: {sample: 400}` to run a sample",
        )
    reasons: list[Counter[str]] = [Counter() for _ in experiment.kernels]
    points: list[Point] = []
    for problem in experiment.problems:
        for kernel, excluded in zip(experiment.kernels, reasons, strict=True):
            for values in itertools.product(*kernel.axes.values()):
                parameters = dict(zip(kernel.axes, values, strict=True))
                if reason := _excluded_by(kernel, parameters, problem):
                    excluded[reason] += 1
                else:
                    points.append(_point(kernel, parameters, problem))
    kernel_names = {point.kernel.name for point in points}
    for i, (kernel, excluded) in enumerate(zip(experiment.kernels, reasons, strict=True)):
        if kernel.name not in kernel_names:
            raise _nothing_left(experiment, i, kernel, excluded)
    return Expansion(tuple(points), combinations, dict(sum(reasons, Counter())))


def _sample(experiment: Experiment) -> Expansion:
    """Draw combinations that are valid for at least one problem, without replacement.

    Every valid combination is as likely as any other. Only combinations that are drawn are ever looked at, so that
    the product may be of any size.
    """
    assert experiment.search is not None  # noqa: S101 - the caller has looked
    sizes = [_combinations(kernel) for kernel in experiment.kernels]
    excluded, chosen, drawn = Counter[str](), list[tuple[Point, ...]](), 0
    for index in _indices(sum(sizes), random.Random(experiment.search.seed)):  # noqa: S311 - no secret
        drawn += 1
        kernel, parameters = _decode(experiment.kernels, sizes, index)
        valid = []
        for problem in experiment.problems:
            if reason := _excluded_by(kernel, parameters, problem):
                excluded[reason] += 1
            else:
                valid.append(_point(kernel, parameters, problem))
        if valid:
            chosen.append(tuple(valid))
        if len(chosen) == experiment.search.sample:
            break
    if not chosen:
        raise _nothing_left(experiment, 0, experiment.kernels[0], excluded)
    # problem by problem, since a GPU keeps one problem's data at a time
    order = {id(problem): place for place, problem in enumerate(experiment.problems)}
    points = sorted((p for group in chosen for p in group), key=lambda point: order[id(point.problem)])
    return Expansion(tuple(points), sum(sizes) * len(experiment.problems), dict(excluded), drawn)


def _indices(total: int, rng: random.Random) -> Iterator[int]:
    """Yield integers below `total` in random order, each once, at most `_MOST_DRAWS` of them."""
    if total <= _MOST_DRAWS:
        yield from rng.sample(range(total), total)
        return
    drawn: set[int] = set()
    while len(drawn) < _MOST_DRAWS:
        index = rng.randrange(total)
        if index not in drawn:
            drawn.add(index)
            yield index


def _decode(entries: tuple[KernelEntry, ...], sizes: list[int], index: int) -> tuple[KernelEntry, Mapping[str, Scalar]]:
    """Return the combination with a number: kernel after kernel, the last parameter varying fastest."""
    place = 0
    while index >= sizes[place]:
        index -= sizes[place]
        place += 1
    kernel, digits = entries[place], {}
    for name in reversed(list(kernel.axes)):
        index, digit = divmod(index, len(kernel.axes[name]))
        digits[name] = kernel.axes[name][digit]
    return kernel, {name: digits[name] for name in kernel.axes}


def _point(kernel: KernelEntry, parameters: Mapping[str, Scalar], problem: ProblemCase) -> Point:
    label = " ".join(f"{name}={show(parameters[name])}" for name in kernel.swept)
    return Point(kernel, parameters, problem, f"{problem.label} {label}".strip())


def _excluded_by(kernel: KernelEntry, parameters: Mapping[str, Scalar], problem: ProblemCase) -> str:
    """Return the reason a combination is excluded; empty if it is a point."""
    instance = Instance(kernel.template, parameters, problem.values)
    refused = instance.unsupported()
    if refused:
        return f"{kernel.template.name} supports only {refused[0]} {', '.join(map(str, refused[1]))}"
    absent = dict.fromkeys(problem.values.absent, NO_VALUE)
    names = {**kernel.facts, **absent, **problem.values, **instance.parameter_values}
    for expression, at in kernel.constraints:
        if not evaluate(expression, names, at=at, key="constraints"):
            return expression
    requirement = instance.unmet()
    return f"{requirement.that} ({requirement.because})" if requirement else ""


def _nothing_left(experiment: Experiment, i: int, kernel: KernelEntry, reasons: Counter[str]) -> UserError:
    blame = "; ".join(f"{reason}: {count}" for reason, count in reasons.most_common(3))
    at = kernel.constraints[0][1] if kernel.constraints else Location(experiment.file)
    return UserError(
        f"no combination of the parameters of kernel {kernel.name!r} is left",
        code="nothing-left",
        at=at,
        key="constraints" if isinstance(experiment.operator, Declared) else f"kernels[{i}]",
        found=f"{sum(reasons.values())} combinations, left out by: {blame}",
        accepted="at least one combination that every constraint and requirement allows",
    )


def nothing_left(experiment: Experiment) -> UserError:
    """Return the error for a search that found no point."""
    return _nothing_left(experiment, 0, experiment.kernels[0], Counter({"the constraints and requirements": 1}))


def point_at(kernel: KernelEntry, parameters: Mapping[str, Scalar], problem: ProblemCase) -> Point | None:
    """Return the point with these parameters; None if a constraint or requirement excludes it."""
    return None if _excluded_by(kernel, parameters, problem) else _point(kernel, parameters, problem)
