"""Ranking of the measured variants of one problem.

A GPU lowers its clock while it gets warm, so throughput depends on when in the run a variant was timed. A baseline
interleaved with the variant (A B A B) ran at the same clock, so the ratio of their times does not depend on it.
Variants of one problem are therefore ranked by throughput relative to their baseline if each was interleaved with the
same one, and by throughput otherwise. Pages, tables, plots and commands that name a best variant use this module.
"""

from __future__ import annotations

from collections.abc import Iterable

from lab.measured.timing import Measurement


def baseline_beside(timed: Measurement | None) -> str:
    """Return the baseline that was interleaved with a variant's timing; empty without one."""
    return "" if timed is None or timed.baseline is None else timed.baseline_name or "the baseline"


def common_baseline(names: Iterable[str]) -> str:
    """Return the baseline by which variants are ranked, given `baseline_beside` of each of them.

    Returns:
        Its name; empty if they are ranked by throughput.
    """
    common = ""
    for name in names:
        if not name or common not in {"", name}:
            return ""
        common = name
    return common


def standing(rate: float, baseline_ms: float) -> float:
    """Return a variant's rank value among those with a common baseline: the highest is best.

    It is the work the variant does while the baseline runs once. For variants that do the same work, as those of one
    problem do unless declared otherwise, it is proportional to the ratio of the times.

    Args:
        rate: Throughput of the variant, in a unit common to all compared variants.
        baseline_ms: Median time of its interleaved baseline, in ms.
    """
    return rate * baseline_ms
