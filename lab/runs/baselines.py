"""The baselines that a run meets: what each one is, which are missing, and whether they move between GPU workers."""

from __future__ import annotations

from collections.abc import Mapping

from lab.gpu.process.job import JobResult
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
        self._last: dict[str, tuple[int, float]] = {}

    def meet(self, label: str, result: JobResult, worker: int) -> tuple[str, ...]:
        """Take note of the baselines beside one variant.

        Args:
            label: Of the variant's problem.
            result: Of its job.
            worker: Number of the GPU worker that ran it, from 1.

        Returns:
            Sentences for the reader of the report.
        """
        if result.baseline is not None:
            self.found.setdefault(label, baseline_fact(result.baseline))
        notes = left_out(result)
        if result.measurement and result.measurement.baseline:
            notes += self._drift(label, worker, result.measurement.baseline.median)
        return notes

    def _drift(self, label: str, worker: int, baseline_ms: float) -> tuple[str, ...]:
        """Compare a baseline's time with the last one that another worker took; without agreement, times differ too."""
        before, known_ms = self._last.get(label, (worker, baseline_ms))
        self._last[label] = (worker, baseline_ms)
        change = baseline_ms / known_ms - 1
        if before == worker or abs(change) <= DRIFT:
            return ()
        what = f" of {label}" if label else ""
        note = (
            f"In GPU worker {worker} the baseline{what} takes {change:+.1%} more time than in worker {before}: "
            "ratios to the baseline hold, times measured before and after do not compare better than that."
        )
        return (note,)
