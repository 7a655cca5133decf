"""Control timings: a few variants of each problem are timed on every card that works on it.

These are the first variant of a problem that is measured, and up to four more that are evenly spread over its variants,
at least `APART` apart: five show a card that grows slow in the course of a run, and cost each further card five timings
a problem. A problem that one card does alone needs none, since its variants compare as on a machine with one card;
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
from lab.measured.cards import SLOWDOWNS, CardRecord, ControlTiming, standing
from lab.measured.timing import Measurement
from lab.search.pruning import Group

MOST: Final = 5
"""Controls of a problem."""

APART: Final = 8
"""Fewest measured variants from one control of a problem to the next."""


@dataclass
class _Problem:
    """A problem at work.

    Attributes:
        left: Variants of it that are not measured yet.
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
    """Orders control timings while a sweep works, and compares the cards by them.

    Attributes:
        timings: What was timed so far, with what an earlier, interrupted run found.
    """

    def __init__(
        self,
        cards: Cards,
        policy: Policy,
        names: Mapping[str, Sequence[str]],
        known: Iterable[ControlTiming] = (),
    ) -> None:
        """Start with what an earlier run noted (`noted`).

        Args:
            cards: The cards.
            policy: How variants are timed.
            names: Id to label and host of the run's cards: of these, and of those of an earlier, unfinished run.
            known: Timings of that run.
        """
        self._cards, self._policy, self._names = cards, policy, names
        self._problems: dict[Group, _Problem] = {}
        self._running: set[Future[Ran]] = set()
        self._variants: Counter[str] = Counter()
        self.timings = list(known)

    def plan(self, points: Iterable[Point]) -> None:
        """Take note of the variants that are to be measured."""
        for group, number in Counter(tuple(sorted(one.problem.values.items())) for one in points).items():
            apart = max(APART, -(-number // MOST))
            every = set() if self._problems else {card.id for card in self._cards.cards}
            known = self._problems.setdefault(group, _Problem(0, apart, at=every))
            known.left += number

    def kept(self, measurement: Measurement | None) -> None:
        """Take note of a variant that an earlier run measured."""
        if measurement is not None:
            self._variants[measurement.card] += 1

    def begin(self, group: Group, card: str) -> None:
        """A card is about to get a variant of a problem: if it is the card's first, the control goes before it."""
        problem = self._problems.get(group)
        if problem is not None and card not in problem.at:
            problem.at.add(card)
            self._order(problem, card)

    def learn(self, group: Group, job: Job, ran: Ran) -> None:
        """A variant of a problem was measured, or could not be; it may become a control."""
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
        """What was timed, as JSON can hold it."""
        self._collect()
        return [asdict(one) for one in self.timings]

    def finish(self) -> None:
        """Wait for the control timings that are under way."""
        interrupts.wait(wait, self._running)
        self._collect()

    def standing(self) -> tuple[CardRecord, ...]:
        """The cards and how they compare, by what is known so far; lost ones too."""
        self._collect()
        cards = [CardRecord(name, label, host, self._variants[name]) for name, (label, host) in self._names.items()]
        return standing(cards, self.timings)

    def _order(self, problem: _Problem, card: str) -> None:
        if problem.latest is not None:
            self._running.add(self._cards.submit(problem.latest, self._policy, card=card))
        self._collect()

    def _collect(self) -> None:
        """Take what is finished; a control that failed, or whose card was lost, says nothing."""
        for future in [one for one in self._running if one.done()]:
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
    """Sentences for the reader of the report on cards whose times do not compare with the others'."""
    return tuple(
        f"{card.label} differs from the other cards: {card.differs}. Its {card.variants} variants are marked, and none "
        "of them wins without being timed again on another card."
        for card in cards
        if card.differs
    )
