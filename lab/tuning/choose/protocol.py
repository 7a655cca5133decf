"""Steps 1 to 6 of the protocol: from a group's parameters to the kernels for step 7.

Nothing runs here: the caller passes a function that times kernels at sizes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, evaluate
from lab.base.sizes import Size
from lab.store.tuning_model import ProtocolStep, StepRow, Timed
from lab.templates.instance import Instance
from lab.tuning.file import names
from lab.tuning.file.load import Benchmark, Group, Option
from lab.tuning.product import product

Times = Mapping[str, Mapping[Size, Timed]]
"""Times by the kernel's name and size."""

TITLES = (
    "InitialSolutionParameters",
    "BenchmarkCommonParameters",
    "ForkParameters",
    "BenchmarkForkParameters",
    "JoinParameters",
    "BenchmarkJoinParameters",
    "BenchmarkFinalParameters",
)
"""Tensile's names of steps 1 to 7."""


@dataclass(frozen=True)
class Candidate:
    """A kernel with all of its parameters.

    Attributes:
        group: Its group.
        name: Its abbreviation.
        parameters: Every parameter of the template.
        given: The values that the steps have determined so far; further steps add to them.
    """

    group: Group
    name: str
    parameters: Mapping[str, Scalar]
    given: names.Given


Timer = Callable[[Sequence[Candidate], Sequence[Size]], Times]
"""A function that times kernels at sizes. A failed kernel's `Timed` has a reason; dropped kernels are absent."""


@dataclass
class _Walk:
    """One group and its completed steps."""

    group: Group
    bench: Timer
    steps: list[ProtocolStep] = field(default_factory=list)

    def note(
        self,
        number: int,
        text: str,
        rows: Iterable[StepRow] = (),
        sizes: Sequence[Size] = (),
        excluded: Mapping[str, int] | None = None,
    ) -> None:
        """Record a step."""
        title = TITLES[number - 1]
        step = ProtocolStep(self.group.name, number, title, text, tuple(sizes), tuple(rows), dict(excluded or {}))
        self.steps.append(step)


def select(group: Group, bench: Timer) -> tuple[tuple[Candidate, ...], tuple[ProtocolStep, ...]]:
    """Run steps 1 to 6 of a group.

    Args:
        group: The group.
        bench: Times kernels at sizes.

    Returns:
        The kernels for step 7, each once, and a record of each step.

    Raises:
        UserError: no kernel is left.
    """
    walk = _Walk(group, bench)
    values = dict(group.initial)
    walk.note(1, _values_in_words(values) or "The template's defaults hold.")
    values = _common(walk, values)
    forks = _fork(walk, values)
    forks = _each(walk, 4, group.fork_benchmark, forks)
    forks = _join(walk, forks)
    forks = _each(walk, 6, group.join_benchmark, forks)
    return tuple({fork.name: fork for fork in forks}.values()), tuple(walk.steps)


def candidate(group: Group, values: names.Given) -> Candidate | str:
    """Return the kernel for some parameters, or the constraint or requirement they violate."""
    parameters = names.completed(group.template, values)
    if isinstance(parameters, str):
        return parameters
    problem = product(group.type, group.type.least)
    words = {key: value for key, value in problem.items() if isinstance(value, str)}
    scope = Instance(group.template, parameters, words).names
    for text, at in group.constraints:
        if not evaluate(text, scope, at=at, key="constraints"):
            return text
    requirement = Instance(group.template, parameters, problem).unmet(sizes=False)
    if requirement:
        return f"{requirement.that} ({requirement.because})"
    return Candidate(group, names.short(group.template, parameters, words), parameters, dict(values))


def score(times: Mapping[Size, Timed], sizes: Sequence[Size]) -> float | None:
    """Return the geometric mean of a kernel's times over sizes, ms; None if a time is missing."""
    ms_per_size = [times[size].ms if size in times else None for size in sizes]
    if not ms_per_size or any(ms is None for ms in ms_per_size):
        return None
    return math.exp(sum(math.log(ms) for ms in ms_per_size if ms) / len(ms_per_size))


def _common(walk: _Walk, values: dict[str, Scalar]) -> dict[str, Scalar]:
    """Run step 2: find one combination for all kernels."""
    step = walk.group.common
    if step is None:
        walk.note(2, "Empty.")
        return values
    candidates, excluded = _made(walk.group, [(values, option, "") for option in step.options])
    rows = _timed(walk, candidates, step.sizes.all)
    best = _best(rows)
    walk.note(
        2,
        "Every combination is timed; the fastest is kept for all kernels.",
        _marked(rows, best),
        step.sizes.all,
        excluded,
    )
    winner = next((kernel for kernel, _, row in rows if (row.name, row.competes) in best), None)
    if winner is None:
        raise _nothing_left(walk, 2, excluded)
    return dict(winner.given)


def _fork(walk: _Walk, values: dict[str, Scalar]) -> list[Candidate]:
    """Run step 3: keep every combination."""
    candidates, excluded = _made(walk.group, [(values, option, "") for option in walk.group.fork])
    if not candidates:
        raise _nothing_left(walk, 3, excluded)
    text = f"{len(candidates)} kernels." if walk.group.fork != (Option({}, {}),) else "Empty."
    rows = [StepRow(kernel.name, option.values, None, "", wins=True) for kernel, option, _ in candidates]
    walk.note(3, text, rows if len(rows) > 1 else (), excluded=excluded)
    return [kernel for kernel, _, _ in candidates]


def _each(walk: _Walk, number: int, step: Benchmark | None, forks: list[Candidate]) -> list[Candidate]:
    """Run step 4 or 6: keep the fastest combination for each kernel."""
    if step is None:
        walk.note(number, "Empty.")
        return forks
    candidates, excluded = _made(
        walk.group, [(fork.given, option, fork.name) for fork in forks for option in step.options]
    )
    rows = _timed(walk, candidates, step.sizes.all)
    best = _best(rows)
    text = f"The fastest combination for each of {len(forks)} kernels is kept."
    walk.note(number, text, _marked(rows, best), step.sizes.all, excluded)
    winners = [kernel for kernel, _, row in rows if (row.name, row.competes) in best]
    if not winners:
        raise _nothing_left(walk, number, excluded)
    return winners


def _join(walk: _Walk, forks: list[Candidate]) -> list[Candidate]:
    """Run step 5: keep the fastest of the kernels with equal joined parameters."""
    step = walk.group.join
    if step is None:
        walk.note(5, "Empty.")
        return forks
    candidates = []
    for fork in forks:
        scope = Instance(walk.group.template, fork.parameters, product(walk.group.type, walk.group.type.least)).names
        values = {name: names.joined(name, scope) or "" for name in step.by}
        candidates.append((fork, Option({}, values), " ".join(values.values())))
    rows = _timed(walk, candidates, step.sizes.all)
    best = _best(rows)
    text = f"Of the kernels that agree in {', '.join(step.by)}, the fastest is kept: {len(best)} of {len(forks)}."
    walk.note(5, text, _marked(rows, best), step.sizes.all)
    winners = [kernel for kernel, _, row in rows if (row.name, row.competes) in best]
    if not winners:
        raise _nothing_left(walk, 5, {})
    return winners


_Made = tuple[Candidate, Option, str]


def _made(group: Group, combinations: Iterable[tuple[names.Given, Option, str]]) -> tuple[list[_Made], dict[str, int]]:
    """Return the kernels of some combinations, each once, and the number of combinations excluded per rule."""
    candidates: dict[tuple[str, str], _Made] = {}
    excluded: Counter[str] = Counter()
    for values, option, competes in combinations:
        outcome = candidate(group, names.merged(values, option.given))
        if isinstance(outcome, str):
            excluded[outcome] += 1
        else:
            candidates.setdefault((outcome.name, competes), (outcome, option, competes))
    return list(candidates.values()), dict(excluded)


def _timed(walk: _Walk, candidates: Sequence[_Made], sizes: Sequence[Size]) -> list[tuple[Candidate, Option, StepRow]]:
    """Time kernels and return their rows, without winners yet."""
    times = walk.bench([kernel for kernel, _, _ in candidates], sizes)
    rows = []
    for kernel, option, competes in candidates:
        own = times.get(kernel.name, {})
        failure = next((timed.failure for timed in own.values() if timed.failure), "")
        rows.append(
            (
                kernel,
                option,
                StepRow(kernel.name, option.values, score(own, sizes), competes, wins=False, failure=failure),
            )
        )
    return rows


def _best(rows: Sequence[tuple[Candidate, Option, StepRow]]) -> set[tuple[str, str]]:
    """Return the name and the competition of the fastest row of each competition."""
    best: dict[str, StepRow] = {}
    for _, _, row in rows:
        if row.ms is not None and (row.competes not in best or row.ms < (best[row.competes].ms or 0)):
            best[row.competes] = row
    return {(row.name, row.competes) for row in best.values()}


def _marked(rows: Sequence[tuple[Candidate, Option, StepRow]], best: set[tuple[str, str]]) -> list[StepRow]:
    return [
        StepRow(r.name, r.values, r.ms, r.competes, wins=(r.name, r.competes) in best, failure=r.failure)
        for _, _, r in rows
    ]


def _values_in_words(values: names.Given) -> str:
    return ", ".join(f"{name} {names.shown(value)}" for name, value in values.items())


def _nothing_left(walk: _Walk, number: int, excluded: Mapping[str, int]) -> UserError:
    rows = walk.steps[-1].rows if walk.steps else ()
    failures = Counter(row.failure for row in rows if row.failure).most_common(2)
    blame = "; ".join(f"{reason}: {count}" for reason, count in [*excluded.items(), *failures])
    at: Location = walk.group.constraints[0][1] if walk.group.constraints else Location(walk.group.template.file)
    return UserError(
        f"no kernel of the group {walk.group.name!r} is left after step {number}, {TITLES[number - 1]}",
        code="nothing-left",
        at=at,
        found=blame or "no combination",
        accepted="at least one combination that satisfies every constraint and requirement, and that runs",
    )
