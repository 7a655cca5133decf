"""The baselines that a run meets: what each one is, which are missing, and whether they move between GPU workers."""

from __future__ import annotations

from collections.abc import Mapping

from lab.gpu.process.cards import Ran
from lab.stages.facts import baseline_fact, left_out

DRIFT = 0.02
"""A baseline whose time changes by a larger fraction from one GPU worker to the next is noted in the report."""


class BaselineWatch:
    """Remembers the baseline of each problem.

    Attributes:
        found: Label of a problem to its baseline: name, library and kernel, as its first variant met it.
    """

    def __init__(self, found: Mapping[str, str]) -> None:
        """Start with what an earlier, unfinished run found."""
        self.found = dict(found)
        self._facts: dict[str, dict[str, str]] = {}
        self._last: dict[tuple[str, str], tuple[int, float]] = {}

    def meet(self, label: str, ran: Ran) -> tuple[str, ...]:
        """Take note of the baselines beside one variant.

        Args:
            label: Of the variant's problem.
            ran: Its job.

        Returns:
            Sentences for the reader of the report.
        """
        result = ran.result
        notes = left_out(result)
        if result.baseline is not None:
            fact = baseline_fact(result.baseline)
            self.found.setdefault(label, fact)
            notes += self._same_everywhere(label, ran.card, fact)
        if result.measurement and result.measurement.baseline:
            notes += self._drift(label, ran, result.measurement.baseline.median)
        return notes

    def _same_everywhere(self, label: str, card: str, fact: str) -> tuple[str, ...]:
        """Compare what a baseline is on a card with what it is on the card that met it first."""
        known = self._facts.setdefault(label, {})
        if card in known:
            return ()
        known[card] = fact
        first, one = next(iter(known.items()))
        if one == fact:
            return ()
        what = f" of {label}" if label else ""
        return (f"The baseline{what} is not the same on all cards: on {first} {one}; on {card} {fact}.",)

    def _drift(self, label: str, ran: Ran, baseline_ms: float) -> tuple[str, ...]:
        """Compare a baseline's time with the last one that another worker of the card took.

        Without agreement, the variants' times differ too.
        """
        worker = ran.worker
        before, known_ms = self._last.get((ran.card, label), (worker, baseline_ms))
        self._last[ran.card, label] = (worker, baseline_ms)
        change = baseline_ms / known_ms - 1
        if before == worker or abs(change) <= DRIFT:
            return ()
        what = f" of {label}" if label else ""
        note = (
            f"In GPU worker {worker} the baseline{what} takes {change:+.1%} more time than in worker {before}: "
            "ratios to the baseline hold, times measured before and after do not compare better than that."
        )
        return (note,)
