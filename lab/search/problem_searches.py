"""The searches of an experiment: one for each problem, by its strategy and within its budget. It starts nothing.

A strategy that knows predictions has candidates, which are built and predicted before anything is measured
(`candidates`, `know`). Then `ask` names what to measure next, and `tell` takes what it took, until a budget is spent or
nothing better is likely.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from lab.base.errors import Location, UserError
from lab.experiment.model import Experiment
from lab.experiment.schema import SearchModel
from lab.recorded.run_records import PruneRule, Status, VariantRecord
from lab.search import local, surrogate_model
from lab.search.prior import as_columns, known_before, predicted_ms
from lab.search.problem_space import SearchedProblem
from lab.search.search import Moves, Search
from lab.search.search_space import Place, SearchSpace
from lab.store.tuned import read_tuned

MOST_CANDIDATES: Final = 1000
"""Points that are built beforehand where the experiment does not say how many; of several problems, all together."""

BATCH: Final = 8
"""Variants that are built side by side where nothing is built beforehand."""

_LEAST_TOLD: Final = 8
"""Measurements before which nobody can say what is likely."""

_STRATEGIES: Final = {
    "exhaustive": local.one_by_one,
    "annealing": local.annealing,
    "genetic": local.genetic,
    "differential_evolution": local.differential_evolution,
    "tabu_greywolf": local.tabu_greywolf,
}

Asked = tuple[int, Place]
"""A problem's place among the experiment's, and a point of its space."""


def cost_of(record: VariantRecord, *, measuring: bool) -> float:
    """Return what a search is told of a variant: the logarithm of its time in ms, infinity where it has none.

    Args:
        record: Its record.
        measuring: Whether a GPU measures; without one, predictions are searched.
    """
    if record.status is Status.PRUNED:
        if record.pruned_by in {PruneRule.PREDICTION, PruneRule.MEASUREMENT} and record.ceiling:
            return math.log(record.rate(1.0) / record.ceiling)  # it would have taken at least as long
        return math.inf
    if record.status.failed:
        return math.inf
    if measuring:
        median = record.measurement.samples.median if record.measurement else 0.0
        return math.log(median) if median > 0 else math.inf
    ms = predicted_ms([record]).get(record.variant)
    return math.log(ms) if ms else math.inf


@dataclass
class _ProblemSearch:
    """The search of one problem.

    Attributes:
        problem: The problem and its space.
        rng: Of all that is drawn.
        candidates: Points that are predicted beforehand.
        search: Under way; None before predictions are known.
        prior: Predictions; None without.
        ended: Why it ended; empty while it goes on.
        looked_at: Number of costs at which the odds were last looked at.
        measured: Variants that were told of and not pruned.
    """

    problem: SearchedProblem
    rng: random.Random
    candidates: list[Place] = field(default_factory=list)
    search: Search | None = None
    prior: surrogate_model.Prior | None = None
    ended: str = ""
    looked_at: int = 0
    measured: int = 0


class Searching:
    """The searches of an experiment's problems."""

    def __init__(self, experiment: Experiment, rules: SearchModel) -> None:
        """Make the spaces, and draw the candidates."""
        self.rules = rules
        self._ones = [
            _ProblemSearch(SearchedProblem.of(experiment, problem), random.Random(rules.seed + i))  # noqa: S311 - no secret
            for i, problem in enumerate(experiment.problems)
        ]
        predicts = rules.strategy in {"prior", "surrogate"} and rules.candidates != 0 and rules.known is None
        most = rules.candidates or max(1, MOST_CANDIDATES // len(self._ones))
        for one in self._ones:
            if predicts:
                one.candidates = one.problem.space.sample(one.rng, most)
            else:
                if rules.known is not None:
                    one.prior = _of_file(one.problem, experiment.file.parent / rules.known)
                self._begin(one)

    @property
    def combinations(self) -> int:
        """Combinations of all problems, before constraints."""
        return sum(one.problem.space.combinations for one in self._ones)

    @property
    def candidates(self) -> list[Asked]:
        """What is to be built and predicted first; nothing where nothing is known beforehand."""
        return [(i, place) for i, one in enumerate(self._ones) for place in one.candidates]

    @property
    def predicts(self) -> bool:
        """Whether there are candidates."""
        return any(one.candidates for one in self._ones)

    def problem(self, i: int) -> SearchedProblem:
        """A problem by its place."""
        return self._ones[i].problem

    @staticmethod
    def in_order(asked: Sequence[Asked]) -> list[Asked]:
        """Each once, problem by problem, since a GPU keeps one problem's data at a time."""
        return sorted(dict.fromkeys(asked), key=lambda one: one[0])

    def know(self, records: Mapping[Asked, VariantRecord]) -> None:
        """Take the records of the candidates, none of which was measured for this search yet."""
        for i, one in enumerate(self._ones):
            mine = {place: records[i, place] for place in one.candidates if (i, place) in records}
            running = [record for record in mine.values() if record.status is not Status.PRUNED]
            times = predicted_ms(running)
            known = {place: record for place, record in mine.items() if record.variant in times}
            facts = as_columns([known_before(record) for record in known.values()])
            costs = {place: math.log(times[record.variant]) for place, record in known.items()}
            one.prior = surrogate_model.Prior(costs, dict(zip(known, facts, strict=True)))
            self._begin(one)

    def _begin(self, one: _ProblemSearch) -> None:
        space, rules = one.problem.space, self.rules
        if rules.strategy == "surrogate":
            start: Callable[[SearchSpace, random.Random, int], Moves] = partial(
                surrogate_model.surrogate, prior=one.prior
            )
        elif rules.strategy == "prior":
            start = partial(surrogate_model.in_order, prior=one.prior or surrogate_model.Prior({}))
        else:
            start = _STRATEGIES[rules.strategy]
        batch = rules.batch or (1 if one.prior else BATCH)
        one.search = Search(space, start(space, one.rng, batch), one.rng)

    def ask(self) -> list[Asked]:
        """What to measure next, of all problems; nothing at the end."""
        found: list[Asked] = []
        for i, one in enumerate(self._ones):
            if one.search is None or one.ended:
                continue
            left = math.inf if self.rules.evaluations is None else self.rules.evaluations - one.measured
            if left <= 0:
                one.ended = f"{one.measured} variants were measured, as many as the experiment allows"
                continue
            self._look_at_odds(one)
            asked = [] if one.ended else one.search.ask()
            if not asked and not one.ended:
                one.ended = "there was nothing left to try"
            found += [(i, place) for place in asked[: int(min(left, len(asked)))]]
        return found

    def tell(self, records: Mapping[Asked, VariantRecord], *, measuring: bool) -> None:
        """Take the records of variants; pruned ones are not part of the budget.

        Args:
            records: By what was asked for.
            measuring: Whether a GPU measures; without one, predictions are searched.
        """
        for (i, place), record in records.items():
            one = self._ones[i]
            assert one.search is not None  # noqa: S101 - it asked for this
            one.search.tell({place: cost_of(record, measuring=measuring)})
            one.measured += record.status is not Status.PRUNED

    def stop(self, why: str) -> None:
        """End all searches."""
        for one in self._ones:
            one.ended = one.ended or why

    @property
    def endings(self) -> list[str]:
        """Why each search ended, as sentences."""
        labels = [one.problem.problem.label for one in self._ones]
        return [
            f"The search{f' of {label}' if len(self._ones) > 1 else ''} ended: {one.ended}."
            for one, label in zip(self._ones, labels, strict=True)
            if one.ended
        ]

    def _look_at_odds(self, one: _ProblemSearch) -> None:
        """End a search where nothing better is likely."""
        assert one.search is not None  # noqa: S101 - the caller has looked
        stop, costs = self.rules.stop, one.search.costs
        told = len(costs)
        # looked at ever more seldom: each look is a fit of the model
        if stop is None or self.rules.strategy == "exhaustive" or told < max(_LEAST_TOLD, one.looked_at * 1.15):
            return
        one.looked_at = told
        surrogate = surrogate_model.Surrogate(one.problem.space, random.Random(self.rules.seed), one.prior)  # noqa: S311
        surrogate.tell(costs)
        left = surrogate.candidates(costs)
        odds = surrogate.odds(left, stop.better)
        if odds < stop.odds:
            one.ended = (
                f"after {told} measurements the odds that one of the {len(left)} other variants is more than "
                f"{100 * stop.better:g} % faster than the best are {100 * odds:.2g} %"
            )


def _of_file(problem: SearchedProblem, file: Path) -> surrogate_model.Prior:
    """Times that somebody else measured, as predictions; what failed there counts as the slowest.

    Raises:
        UserError: The file cannot be read, has other parameters, or none of the space's points.
    """
    tuned, axes = read_tuned(file), problem.space.axes
    varying = [axis.name for axis in axes if len(axis.values) > 1]
    if lacking := [name for name in varying if name not in tuned.values]:
        raise UserError(
            "lacks parameters of the experiment",
            code="missing-key",
            at=Location(file),
            found=list(tuned.values),
            accepted=lacking,
        )
    places = [{repr(value): i for i, value in enumerate(axis.values)} for axis in axes]
    times = [one.ms for one in tuned.settings if one.ms is not None]
    costs: dict[Place, float] = {}
    for one in tuned.settings:
        at = [
            known.get(repr(one.setting[axis.name])) if len(axis.values) > 1 else 0
            for axis, known in zip(axes, places, strict=True)
        ]
        place = tuple(i for i in at if i is not None)
        if len(place) == len(axes) and place in problem.space and times:
            costs[place] = math.log(one.ms if one.ms is not None else max(times))
    if not costs:
        values = [f"{axis.name}: {', '.join(map(str, axis.values))}" for axis in axes if len(axis.values) > 1]
        raise UserError(
            "has no point of the experiment",
            code="nothing-left",
            at=Location(file),
            found=dict(tuned.values),
            accepted=values,
        )
    return surrogate_model.Prior(costs)
