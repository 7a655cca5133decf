"""Control timings: time a few variants of each problem on every card that works on it.

They are the first measured variant of a problem, and up to four more, evenly spread over its variants,
at least `APART` apart: five show a card that slows down during a run, and cost each further card five timings
per problem. A problem done by a single card needs none, since its variants compare as on a machine with one card;
but those of the run's first problem are timed on every card, so that all cards are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from lab.base import interrupts
from lab.base.errors import MissingToolError
from lab.experiment.space import Point
from lab.gpu.process.cards import Cards, Ran
from lab.gpu.process.job import Job, Policy
from lab.measured.card_comparison import SLOWDOWNS, CardRecord, ControlTiming, standing
from lab.measured.timing import Measurement
from lab.search.pruning import Group

MOST: Final = 5
"""Most control timings per problem."""

APART: Final = 8
"""Fewest measured variants between two controls of a problem."""


@dataclass
class _Problem:
    """The state of a problem under measurement.

    Attributes:
        left: Variants not measured yet.
        apart: Measured variants from one control to the next.
        measured: Measured variants.
        at: Ids of the cards that worked on it.
        latest: The latest control; None before there is one, and when no variants are left.
    """

    left: int
    apart: int
    measured: int = 0
    at: set[str] = field(default_factory=set)
    latest: Job | None = None


class Controls:
    """Scheduler of control timings during a sweep; compares the cards by them.

    Attributes:
        timings: All control timings so far, including those of an earlier, interrupted run.
    """

    def __init__(
        self,
        cards: Cards,
        policy: Policy,
        names: Mapping[str, Sequence[str]],
        earlier_timings: Iterable[ControlTiming] = (),
    ) -> None:
        """Start with the timings an earlier run saved (`noted`).

        Args:
            cards: The cards.
            policy: How variants are timed.
            names: Id to label and host of the run's cards: of these, and of those of an earlier, unfinished run.
            earlier_timings: Timings of that run.
        """
        self._cards, self._policy, self._names = cards, policy, names
        self._problems: dict[Group, _Problem] = {}
        self._running: set[Future[Ran]] = set()
        self._variants: Counter[str] = Counter()
        self.timings = list(earlier_timings)

    def plan(self, points: Iterable[Point]) -> None:
        """Register the variants to be measured."""
        for group, number in Counter(tuple(sorted(point.problem.values.items())) for point in points).items():
            apart = max(APART, -(-number // MOST))
            every = set() if self._problems else {card.id for card in self._cards.cards}
            problem = self._problems.setdefault(group, _Problem(0, apart, at=every))
            problem.left += number

    def kept(self, measurement: Measurement | None) -> None:
        """Count a variant an earlier run measured."""
        if measurement is not None:
            self._variants[measurement.card] += 1

    def begin(self, group: Group, card: str) -> None:
        """Order a control before a card's first variant of a problem."""
        problem = self._problems.get(group)
        if problem is not None and card not in problem.at:
            problem.at.add(card)
            self._order(problem, card)

    def learn(self, group: Group, job: Job, ran: Ran) -> None:
        """Record a variant's measurement or failure; the variant may become a control."""
        problem, measurement = self._problems.get(group), ran.result.measurement
        if problem is None:
            return
        problem.left -= 1
        if measurement is not None:
            self._variants[ran.card] += 1
            if problem.measured % problem.apart == 0:
                self.timings.append(_timing(job.variant, ran.card, measurement))
                problem.latest = job
                for card in sorted(problem.at - {ran.card}):
                    self._order(problem, card)
            problem.measured += 1
        if problem.left <= 0:
            problem.latest = None  # it holds machine code

    def noted(self) -> list[dict[str, Any]]:
        """Return the timings in a form JSON can hold."""
        self._collect()
        return [asdict(timing) for timing in self.timings]

    def finish(self) -> None:
        """Wait for outstanding control timings."""
        interrupts.wait(wait, self._running)
        self._collect()

    def standing(self) -> tuple[CardRecord, ...]:
        """Return the cards, lost ones included, compared by the timings so far."""
        self._collect()
        cards = [CardRecord(name, label, host, self._variants[name]) for name, (label, host) in self._names.items()]
        return standing(cards, self.timings)

    def _order(self, problem: _Problem, card: str) -> None:
        if problem.latest is not None:
            self._running.add(self._cards.submit(problem.latest, self._policy, card=card))
        self._collect()

    def _collect(self) -> None:
        """Collect finished controls; skip those that failed or whose card was lost."""
        for future in [control for control in self._running if control.done()]:
            self._running.remove(future)
            try:
                ran = future.result()
            except MissingToolError:
                continue
            if ran.result.measurement is not None:
                self.timings.append(_timing(ran.result.variant, ran.card, ran.result.measurement))


def _timing(variant: str, card: str, measurement: Measurement) -> ControlTiming:
    after, samples = measurement.after, measurement.samples
    return ControlTiming(
        variant,
        card,
        samples.median,
        samples.spread,
        after.sm_clock_mhz,
        after.power_w,
        after.temperature_c,
        slowdown=bool(SLOWDOWNS & {*measurement.before.throttle_reasons, *after.throttle_reasons}),
        neighbours=after.neighbours,
    )


def notes_on(cards: Sequence[CardRecord]) -> tuple[str, ...]:
    """Return notes for the report on cards whose times differ from the others'."""
    return tuple(
        f"{card.label} differs from the other cards: {card.differs}. Its {card.variants} variants are marked, and none "
        "of them wins without being timed again on another card."
        for card in cards
        if card.differs
    )
