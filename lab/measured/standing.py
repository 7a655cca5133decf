"""What decides which of several measured variants of one problem is the best one.

A GPU lowers its clock while it gets warm, so a throughput also tells when in the run a variant had its turn. A baseline
that was timed in turns with the variant (A B A B) met the same clock, and the ratio of their times tells nothing of it.
Therefore variants of one problem are ranked by throughput over that of the baseline beside them where each of them was
timed in turns with the same baseline, and by throughput otherwise. Pages, tables, pictures and commands that name a
best variant ask here.
"""

from __future__ import annotations

from collections.abc import Iterable

from lab.measured.timing import Measurement


def baseline_beside(timed: Measurement | None) -> str:
    """Name the baseline that a variant was timed in turns with; empty without one."""
    return "" if timed is None or timed.baseline is None else timed.baseline_name or "the baseline"


def common_baseline(names: Iterable[str]) -> str:
    """Return the baseline by which variants are ranked, from what `baseline_beside` says of each of them.

    Returns:
        Its name; empty where throughput ranks them.
    """
    common = ""
    for name in names:
        if not name or common not in {"", name}:
            return ""
        common = name
    return common


def standing(rate: float, baseline_ms: float) -> float:
    """Return what ranks a variant among those of its problem, where they have a common baseline: the highest is best.

    It is the work that the variant does while the baseline runs once. Of variants that do the same work, which those of
    one problem do where nothing else is declared, it is the ratio of the times but for a factor.

    Args:
        rate: Throughput of the variant, in the unit of all that it is compared with.
        baseline_ms: Median time of the baseline beside it, in ms.
    """
    return rate * baseline_ms
