"""The searches of an experiment: one per problem, by its strategy and within its budget. It starts nothing.

A strategy that uses predictions has candidates, which are built and predicted before anything is measured
(`candidates`, `know`). Then `ask` returns what to measure next, and `tell` takes the results, until the budget is spent
or an improvement is unlikely.
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
"""Default number of points built beforehand, over all problems together."""

BATCH: Final = 8
"""Number of variants that are built concurrently if none is built beforehand."""

_LEAST_TOLD: Final = 8
"""Fewest measurements before the odds of an improvement are estimated."""

_STRATEGIES: Final = {
    "exhaustive": local.one_by_one,
    "annealing": local.annealing,
    "genetic": local.genetic,
    "differential_evolution": local.differential_evolution,
    "tabu_greywolf": local.tabu_greywolf,
}

Asked = tuple[int, Place]
"""Index of a problem in the experiment, and a point of its space."""


def cost_of(record: VariantRecord, *, measuring: bool) -> float:
    """Return the cost of a variant for a search: the logarithm of its time in ms, infinity if it has none.

    Args:
        record: Its record.
        measuring: Whether a GPU measures; without one, the search uses predictions.
    """
    if record.status is Status.PRUNED:
        if record.pruned_by in {PruneRule.PREDICTION, PruneRule.MEASUREMENT} and record.ceiling:
            return math.log(record.rate(1.0) / record.ceiling)  # a lower bound of its time
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
        rng: The random generator for all draws.
        candidates: Points that are predicted beforehand.
        search: The running search; None before predictions are known.
        prior: Predictions; None without.
        ended: Why it ended; empty while it goes on.
        looked_at: Number of costs at the last estimate of the odds.
        measured: Reported variants that were not pruned.
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
        """Create the spaces and draw the candidates."""
        self.rules = rules
        self._ones = [
            _ProblemSearch(SearchedProblem.of(experiment, problem), random.Random(rules.seed + i))  # noqa: S311 - no secret
            for i, problem in enumerate(experiment.problems)
        ]
        predicts = rules.strategy in {"prior", "surrogate"} and rules.candidates != 0 and rules.known is None
        count = rules.candidates or max(1, MOST_CANDIDATES // len(self._ones))
        for running in self._ones:
            if predicts:
                running.candidates = running.problem.space.sample(running.rng, count)
            else:
                if rules.known is not None:
                    running.prior = _of_file(running.problem, experiment.file.parent / rules.known)
                self._begin(running)

    @property
    def combinations(self) -> int:
        """Number of combinations of all problems, before constraints."""
        return sum(running.problem.space.combinations for running in self._ones)

    @property
    def candidates(self) -> list[Asked]:
        """Points to be built and predicted first; none without a prior."""
        return [(i, place) for i, running in enumerate(self._ones) for place in running.candidates]

    @property
    def predicts(self) -> bool:
        """True if there are candidates."""
        return any(running.candidates for running in self._ones)

    def problem(self, i: int) -> SearchedProblem:
        """Return a problem by its index."""
        return self._ones[i].problem

    @staticmethod
    def in_order(points: Sequence[Asked]) -> list[Asked]:
        """Return the distinct points grouped by problem, since a GPU holds one problem's data at a time."""
        return sorted(dict.fromkeys(points), key=lambda point: point[0])

    def know(self, records: Mapping[Asked, VariantRecord]) -> None:
        """Take the records of the candidates; none of them was measured for this search yet."""
        for i, problem_search in enumerate(self._ones):
            own_records = {place: records[i, place] for place in problem_search.candidates if (i, place) in records}
            running = [record for record in own_records.values() if record.status is not Status.PRUNED]
            times = predicted_ms(running)
            predicted = {place: record for place, record in own_records.items() if record.variant in times}
            facts = as_columns([known_before(record) for record in predicted.values()])
            costs = {place: math.log(times[record.variant]) for place, record in predicted.items()}
            problem_search.prior = surrogate_model.Prior(costs, dict(zip(predicted, facts, strict=True)))
            self._begin(problem_search)

    def _begin(self, problem_search: _ProblemSearch) -> None:
        space, rules = problem_search.problem.space, self.rules
        if rules.strategy == "surrogate":
            start: Callable[[SearchSpace, random.Random, int], Moves] = partial(
                surrogate_model.surrogate, prior=problem_search.prior
            )
        elif rules.strategy == "prior":
            start = partial(surrogate_model.in_order, prior=problem_search.prior or surrogate_model.Prior({}))
        else:
            start = _STRATEGIES[rules.strategy]
        batch = rules.batch or (1 if problem_search.prior else BATCH)
        problem_search.search = Search(space, start(space, problem_search.rng, batch), problem_search.rng)

    def ask(self) -> list[Asked]:
        """Return the points to measure next, of all problems; none at the end."""
        points: list[Asked] = []
        for i, problem_search in enumerate(self._ones):
            if problem_search.search is None or problem_search.ended:
                continue
            budget = math.inf if self.rules.evaluations is None else self.rules.evaluations - problem_search.measured
            if budget <= 0:
                problem_search.ended = f"{problem_search.measured} variants were measured, the limit of the experiment"
                continue
            self._look_at_odds(problem_search)
            proposed = [] if problem_search.ended else problem_search.search.ask()
            if not proposed and not problem_search.ended:
                problem_search.ended = "no untried variants were left"
            points += [(i, place) for place in proposed[: int(min(budget, len(proposed)))]]
        return points

    def tell(self, records: Mapping[Asked, VariantRecord], *, measuring: bool) -> None:
        """Take the records of variants; pruned ones do not count towards the budget.

        Args:
            records: Records by request.
            measuring: Whether a GPU measures; without one, predictions are searched.
        """
        for (i, place), record in records.items():
            problem_search = self._ones[i]
            assert problem_search.search is not None  # noqa: S101 - it requested this point
            problem_search.search.tell({place: cost_of(record, measuring=measuring)})
            problem_search.measured += record.status is not Status.PRUNED

    def stop(self, reason: str) -> None:
        """End all searches for this reason."""
        for problem_search in self._ones:
            problem_search.ended = problem_search.ended or reason

    @property
    def endings(self) -> list[str]:
        """Reasons why the searches ended, as sentences."""
        labels = [problem_search.problem.problem.label for problem_search in self._ones]
        return [
            f"The search{f' of {label}' if len(self._ones) > 1 else ''} ended: {problem_search.ended}."
            for problem_search, label in zip(self._ones, labels, strict=True)
            if problem_search.ended
        ]

    def _look_at_odds(self, running: _ProblemSearch) -> None:
        """End a search if an improvement is unlikely."""
        assert running.search is not None  # noqa: S101 - the caller has checked
        stop, costs = self.rules.stop, running.search.costs
        cost_count = len(costs)
        # estimated ever more rarely: each estimate fits the model
        if (
            stop is None
            or self.rules.strategy == "exhaustive"
            or cost_count < max(_LEAST_TOLD, running.looked_at * 1.15)
        ):
            return
        running.looked_at = cost_count
        surrogate = surrogate_model.Surrogate(running.problem.space, random.Random(self.rules.seed), running.prior)  # noqa: S311
        surrogate.tell(costs)
        untried = surrogate.candidates(costs)
        odds = surrogate.odds(untried, stop.better)
        if odds < stop.odds:
            running.ended = (
                f"after {cost_count} measurements the odds that one of the {len(untried)} other variants is more than "
                f"{100 * stop.better:g} % faster than the best are {100 * odds:.2g} %"
            )


def _of_file(problem: SearchedProblem, file: Path) -> surrogate_model.Prior:
    """Return measured times of a file as predictions; failures there count as the slowest time.

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
    times = [tuned_setting.ms for tuned_setting in tuned.settings if tuned_setting.ms is not None]
    costs: dict[Place, float] = {}
    for tuned_setting in tuned.settings:
        at = [
            places_of_axis.get(repr(tuned_setting.setting[axis.name])) if len(axis.values) > 1 else 0
            for axis, places_of_axis in zip(axes, places, strict=True)
        ]
        place = tuple(i for i in at if i is not None)
        if len(place) == len(axes) and place in problem.space and times:
            costs[place] = math.log(tuned_setting.ms if tuned_setting.ms is not None else max(times))
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
