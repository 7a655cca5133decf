"""Steps 1 to 6 of the protocol: from a group's parameters to the kernels that step 7 times at all sizes.

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
"""Times by the kernel's name and the size."""

TITLES = (
    "InitialSolutionParameters",
    "BenchmarkCommonParameters",
    "ForkParameters",
    "BenchmarkForkParameters",
    "JoinParameters",
    "BenchmarkJoinParameters",
    "BenchmarkFinalParameters",
)
"""Tensile's names of the steps, 1 to 7."""


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
"""Times every kernel at every size. A kernel that fails has a `Timed` that says why; one that is left out has none."""


@dataclass
class _Walk:
    """One group, and the steps that it has gone through."""

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
    """Go through a group's steps 1 to 6.

    Args:
        group: The group.
        bench: Times kernels at sizes.

    Returns:
        The kernels for step 7, each once, and a record of each step.

    Raises:
        UserError: no kernel is left.
    """
    walk = _Walk(group, bench)
    given = dict(group.initial)
    walk.note(1, _values_in_words(given) or "The template's defaults hold.")
    given = _common(walk, given)
    forks = _fork(walk, given)
    forks = _each(walk, 4, group.fork_benchmark, forks)
    forks = _join(walk, forks)
    forks = _each(walk, 6, group.join_benchmark, forks)
    return tuple({one.name: one for one in forks}.values()), tuple(walk.steps)


def candidate(group: Group, given: names.Given) -> Candidate | str:
    """Return the kernel that parameters describe, or the constraint or requirement that they break."""
    parameters = names.completed(group.template, given)
    if isinstance(parameters, str):
        return parameters
    problem = product(group.type, group.type.least)
    words = {key: value for key, value in problem.items() if isinstance(value, str)}
    known = Instance(group.template, parameters, words).names
    for text, at in group.constraints:
        if not evaluate(text, known, at=at, key="constraints"):
            return text
    requirement = Instance(group.template, parameters, problem).unmet(sizes=False)
    if requirement:
        return f"{requirement.that} ({requirement.because})"
    return Candidate(group, names.short(group.template, parameters, words), parameters, dict(given))


def score(times: Mapping[Size, Timed], sizes: Sequence[Size]) -> float | None:
    """Return the geometric mean of a kernel's times over sizes, ms; None where a time is missing."""
    found = [times[size].ms if size in times else None for size in sizes]
    if not found or any(ms is None for ms in found):
        return None
    return math.exp(sum(math.log(ms) for ms in found if ms) / len(found))


def _common(walk: _Walk, given: dict[str, Scalar]) -> dict[str, Scalar]:
    """Step 2: find one combination for all kernels."""
    step = walk.group.common
    if step is None:
        walk.note(2, "Empty.")
        return given
    made, excluded = _made(walk.group, [(given, option, "") for option in step.options])
    rows = _timed(walk, made, step.sizes.all)
    best = _best(rows)
    walk.note(
        2,
        "Every combination is timed; the fastest is kept for all kernels.",
        _marked(rows, best),
        step.sizes.all,
        excluded,
    )
    winner = next((one for one, _, row in rows if (row.name, row.competes) in best), None)
    if winner is None:
        raise _nothing_left(walk, 2, excluded)
    return dict(winner.given)


def _fork(walk: _Walk, given: dict[str, Scalar]) -> list[Candidate]:
    """Step 3: keep every combination."""
    made, excluded = _made(walk.group, [(given, option, "") for option in walk.group.fork])
    if not made:
        raise _nothing_left(walk, 3, excluded)
    text = f"{len(made)} kernels." if walk.group.fork != (Option({}, {}),) else "Empty."
    rows = [StepRow(one.name, option.values, None, "", wins=True) for one, option, _ in made]
    walk.note(3, text, rows if len(rows) > 1 else (), excluded=excluded)
    return [one for one, _, _ in made]


def _each(walk: _Walk, number: int, step: Benchmark | None, forks: list[Candidate]) -> list[Candidate]:
    """Step 4 or 6: keep the fastest combination for each kernel."""
    if step is None:
        walk.note(number, "Empty.")
        return forks
    made, excluded = _made(walk.group, [(fork.given, option, fork.name) for fork in forks for option in step.options])
    rows = _timed(walk, made, step.sizes.all)
    best = _best(rows)
    text = f"The fastest combination for each of {len(forks)} kernels is kept."
    walk.note(number, text, _marked(rows, best), step.sizes.all, excluded)
    kept = [one for one, _, row in rows if (row.name, row.competes) in best]
    if not kept:
        raise _nothing_left(walk, number, excluded)
    return kept


def _join(walk: _Walk, forks: list[Candidate]) -> list[Candidate]:
    """Step 5: keep the fastest of the kernels that agree in the joined parameters."""
    step = walk.group.join
    if step is None:
        walk.note(5, "Empty.")
        return forks
    made = []
    for one in forks:
        known = Instance(walk.group.template, one.parameters, product(walk.group.type, walk.group.type.least)).names
        values = {name: names.joined(name, known) or "" for name in step.by}
        made.append((one, Option({}, values), " ".join(values.values())))
    rows = _timed(walk, made, step.sizes.all)
    best = _best(rows)
    text = f"Of the kernels that agree in {', '.join(step.by)}, the fastest is kept: {len(best)} of {len(forks)}."
    walk.note(5, text, _marked(rows, best), step.sizes.all)
    kept = [one for one, _, row in rows if (row.name, row.competes) in best]
    if not kept:
        raise _nothing_left(walk, 5, {})
    return kept


_Made = tuple[Candidate, Option, str]


def _made(group: Group, wanted: Iterable[tuple[names.Given, Option, str]]) -> tuple[list[_Made], dict[str, int]]:
    """Return the kernels of some combinations, each once, and how many combinations each broken rule excluded."""
    found: dict[tuple[str, str], _Made] = {}
    excluded: Counter[str] = Counter()
    for given, option, competes in wanted:
        one = candidate(group, names.merged(given, option.given))
        if isinstance(one, str):
            excluded[one] += 1
        else:
            found.setdefault((one.name, competes), (one, option, competes))
    return list(found.values()), dict(excluded)


def _timed(walk: _Walk, made: Sequence[_Made], sizes: Sequence[Size]) -> list[tuple[Candidate, Option, StepRow]]:
    """Time kernels and return their rows; no row wins yet."""
    times = walk.bench([one for one, _, _ in made], sizes)
    rows = []
    for one, option, competes in made:
        own = times.get(one.name, {})
        failure = next((timed.failure for timed in own.values() if timed.failure), "")
        rows.append(
            (one, option, StepRow(one.name, option.values, score(own, sizes), competes, wins=False, failure=failure))
        )
    return rows


def _best(rows: Sequence[tuple[Candidate, Option, StepRow]]) -> set[tuple[str, str]]:
    """Return the fastest row of each competition, as its name and what it competes for."""
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


def _values_in_words(given: names.Given) -> str:
    return ", ".join(f"{name} {names.shown(value)}" for name, value in given.items())


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
