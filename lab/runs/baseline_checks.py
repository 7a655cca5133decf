"""Baselines of a run: their identity, missing ones, and drift between GPU workers."""

from __future__ import annotations

from collections.abc import Mapping

from lab.gpu.process.cards import Ran
from lab.stages.run_facts import baseline_fact, left_out

DRIFT = 0.02
"""Relative change of a baseline's time between GPU workers beyond which the report notes it."""


class BaselineWatch:
    """A watch on the baseline of each problem.

    Attributes:
        found: Label of a problem to its baseline: name, library and kernel, as its first variant met it.
    """

    def __init__(self, baselines: Mapping[str, str]) -> None:
        """Start with the baselines an earlier, unfinished run recorded."""
        self.found = dict(baselines)
        self._facts: dict[str, dict[str, str]] = {}
        self._last: dict[tuple[str, str], tuple[int, float]] = {}

    def meet(self, label: str, ran: Ran) -> tuple[str, ...]:
        """Record the baselines timed beside one variant.

        Args:
            label: The label of the variant's problem.
            ran: The result of its job.

        Returns:
            Notes for the report.
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
        """Compare a baseline's identity on this card with that on the first card."""
        fact_by_card = self._facts.setdefault(label, {})
        if card in fact_by_card:
            return ()
        fact_by_card[card] = fact
        first, first_fact = next(iter(fact_by_card.items()))
        if first_fact == fact:
            return ()
        suffix = f" of {label}" if label else ""
        return (f"The baseline{suffix} is not the same on all cards: on {first} {first_fact}; on {card} {fact}.",)

    def _drift(self, label: str, ran: Ran, baseline_ms: float) -> tuple[str, ...]:
        """Compare a baseline's time with the last one another worker on the same card measured.

        If they disagree, the variants' times differ too.
        """
        worker = ran.worker
        before, known_ms = self._last.get((ran.card, label), (worker, baseline_ms))
        self._last[ran.card, label] = (worker, baseline_ms)
        change = baseline_ms / known_ms - 1
        if before == worker or abs(change) <= DRIFT:
            return ()
        suffix = f" of {label}" if label else ""
        note = (
            f"In GPU worker {worker} the baseline{suffix} takes {change:+.1%} more time than in worker {before}: "
            "ratios to the baseline hold, but times before and after compare no better than that."
        )
        return (note,)
