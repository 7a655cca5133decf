"""The points of an experiment's parameter space."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab import kernels
from lab.errors import Location, UserError
from lab.experiment.load import Experiment, KernelEntry
from lab.expressions import Scalar, evaluate

DEFAULT_MAX_VARIANTS = 1000
"""Larger sweeps want `--max-variants`, so that a list too many does not cost a night."""

_MOST_COMBINATIONS = 2_000_000
"""Combinations before constraints; listing more takes minutes."""


@dataclass(frozen=True)
class Point:
    """One point of the space: a kernel with all of its parameters.

    Attributes:
        kernel: The experiment's kernel.
        parameters: Every parameter of the template with its value.
        label: What tells it from the other points of its kernel: ``unroll=4 padding=0``; empty for a single point.
    """

    kernel: KernelEntry
    parameters: Mapping[str, Scalar]
    label: str


@dataclass(frozen=True)
class Expansion:
    """All points of an experiment.

    Attributes:
        points: In file order, the last swept parameter varying fastest.
        combinations: How many there were before constraints.
        excluded: Constraint or requirement to the number of combinations it left out.
    """

    points: tuple[Point, ...]
    combinations: int
    excluded: Mapping[str, int]


def expand(experiment: Experiment, *, max_variants: int | None = None) -> Expansion:
    """List the points.

    Args:
        experiment: The experiment.
        max_variants: The most points times toolchains times architectures; `DEFAULT_MAX_VARIANTS` by default.

    Raises:
        UserError: a kernel of which no point is left, or more variants than allowed.
    """
    combinations = sum(math.prod(len(v) for v in kernel.axes.values()) for kernel in experiment.kernels)
    if combinations > _MOST_COMBINATIONS:
        raise UserError(
            f"the sweep has {combinations} combinations before constraints",
            at=Location(experiment.file),
            key="kernels",
            accepted=f"at most {_MOST_COMBINATIONS}",
            suggestion="shorten some lists",
        )
    excluded: Counter[str] = Counter()
    points: list[Point] = []
    for i, kernel in enumerate(experiment.kernels):
        before, reasons = len(points), Counter[str]()
        points += _points(kernel, experiment.problem, reasons)
        if len(points) == before:
            raise _nothing_left(experiment, i, kernel, reasons)
        excluded += reasons
    variants = len(points) * len(experiment.toolchains) * len(experiment.archs)
    limit = DEFAULT_MAX_VARIANTS if max_variants is None else max_variants
    if variants > limit:
        raise UserError(
            f"the sweep has {variants} variants ({len(points)} points, {len(experiment.toolchains)} toolchains, "
            f"{len(experiment.archs)} architectures)",
            at=Location(experiment.file),
            key="kernels",
            accepted=f"at most {limit}",
            suggestion=f"shorten some lists, or pass --max-variants {variants}",
        )
    return Expansion(tuple(points), combinations, dict(excluded))


def _points(kernel: KernelEntry, problem: Mapping[str, Scalar], excluded: Counter[str]) -> Iterator[Point]:
    swept = kernel.swept
    for values in itertools.product(*kernel.axes.values()):
        parameters = dict(zip(kernel.axes, values, strict=True))
        reason = _excluded_by(kernel, parameters, problem)
        if reason:
            excluded[reason] += 1
        else:
            yield Point(kernel, parameters, " ".join(f"{name}={show(parameters[name])}" for name in swept))


def _excluded_by(kernel: KernelEntry, parameters: Mapping[str, Scalar], problem: Mapping[str, Scalar]) -> str:
    names = kernels.expression_names(kernel.template, parameters)
    for expression, at in kernel.constraints:
        if not evaluate(expression, names, at=at, key="constraints"):
            return expression
    requirement = kernels.unmet(kernel.template, parameters, problem)
    return f"{requirement.that} ({requirement.because})" if requirement else ""


def show(value: Scalar) -> str:
    """A parameter's value as YAML spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _nothing_left(experiment: Experiment, i: int, kernel: KernelEntry, reasons: Counter[str]) -> UserError:
    total = math.prod(len(v) for v in kernel.axes.values())
    blame = "; ".join(f"{reason}: {count}" for reason, count in reasons.most_common(3))
    at = kernel.constraints[0][1] if kernel.constraints else Location(experiment.file)
    return UserError(
        f"no combination of the parameters of kernel {kernel.name!r} is left",
        at=at,
        key=f"kernels[{i}]",
        found=f"{total} combinations, left out by: {blame}",
        accepted="at least one combination that every constraint and requirement allows",
    )
