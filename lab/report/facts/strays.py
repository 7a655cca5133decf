"""Outliers: variants with the largest prediction errors, and the costs the hardware counters show."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lab.measured.counters import Profile
from lab.predict.schedulers.simulate import Cause
from lab.recorded.run_records import VariantRecord
from lab.report.facts.agreement import loss
from lab.report.facts.counted import busiest, words
from lab.store import figures

MOST: Final = 6
"""Most variants the page shows."""

CAUSES: Final[dict[str, str]] = {
    "long_scoreboard": Cause.GLOBAL,
    "short_scoreboard": Cause.SHARED,
    "mio_throttle": Cause.QUEUE,
    "lg_throttle": Cause.QUEUE,
    "math_pipe_throttle": Cause.PIPE,
    "barrier": Cause.BARRIER,
    "wait": Cause.STALL,
    "dispatch_stall": Cause.BANKS,
}
"""State of a warp to cause in the scheduler model, which lacks the other states."""

ISSUING: Final = "issuing"
"""Cause of the cycles in which an instruction issues; the model splits them into fma and others."""

_ISSUED: Final = (str(Cause.FMA), str(Cause.OTHER))
_WAITS = 3


@dataclass(frozen=True, slots=True)
class Stray:
    """A profiled variant with an outlying prediction.

    Attributes:
        variant: Id.
        prediction: `estimate`, or `ceiling` of a variant without one.
        predicted: In the operator's unit.
        measured: In the same unit.
        modelled: Largest cost in the model besides fma; empty without an estimate.
        issue: Share of the cycles with an issue, as text; empty where it was not counted.
        pipe: The busiest pipe and its utilisation; may be empty.
        waits: Stall reasons, the most frequent first; may be empty.
        missing: Cost that the prediction lacks or overestimates; empty where the counters do not show it.
    """

    variant: str
    prediction: str
    predicted: float
    measured: float
    modelled: str
    issue: str
    pipe: str
    waits: str
    missing: str

    @property
    def ratio(self) -> float:
        """Predicted over measured: above 1, the prediction is too high."""
        return self.predicted / self.measured


def strays(records: Sequence[VariantRecord]) -> tuple[Stray, ...]:
    """Return at most `MOST` profiled variants, the largest relative error of the prediction first."""
    outliers = [outlier for record in records if (outlier := _stray(record)) is not None]
    return tuple(sorted(outliers, key=lambda outlier: -abs(math.log(outlier.ratio)))[:MOST])


def _stray(record: VariantRecord) -> Stray | None:
    measured, profile = figures.measured(record), record.profile
    estimate = figures.estimated(record)
    predicted = figures.predicted(record) if estimate is None else estimate
    if profile is None or not record.status.sound or not measured or not predicted:
        return None
    pipe = busiest(profile)
    return Stray(
        record.variant,
        "ceiling" if estimate is None else "estimate",
        predicted,
        measured,
        loss(record) or "",
        "" if profile.issue_share is None else f"{profile.issue_share:.0%}",
        f"{pipe[0]} {pipe[1]:.0%}" if pipe else "",
        ", ".join(f"{words(state)} {share:.0%}" for state, share in list(profile.waits.items())[:_WAITS]),
        missing(profile, record.estimate.shares if record.estimate else {}, predicted / measured),
    )


def missing(profile: Profile, shares: Mapping[str, float], ratio: float) -> str:
    """Return the cost in which counters and model differ most, in the direction that explains the error.

    Both are compared in cycles of the prediction: 100 predicted cycles took 100 times `ratio` on the GPU, so that the
    differences of all costs add up to the error. Empty where nothing was counted.

    Args:
        profile: The counters.
        shares: Share of the model's cycles by cause; empty for a ceiling, which has only issue cycles.
        ratio: Predicted over measured throughput: above 1 the prediction lacks a cost, below 1 it has one too many.
    """
    counted = {cause: share * ratio for cause, share in _counted(profile).items()}
    modelled = {cause: share for cause, share in shares.items() if cause not in _ISSUED}
    modelled[ISSUING] = sum(shares.get(cause, 0.0) for cause in _ISSUED) if shares else 1.0
    sign = 1 if ratio > 1 else -1
    differences = {
        cause: sign * (counted.get(cause, 0.0) - modelled.get(cause, 0.0)) for cause in {**counted, **modelled}
    }
    worst = max(differences, key=lambda cause: differences[cause])
    if not counted or differences[worst] <= 0:
        return ""
    origin = "in the model" if shares else "in the ceiling"
    counted_share, modelled_share = counted.get(worst, 0.0), modelled.get(worst, 0.0)
    return f"{worst}: {counted_share * 100:.0f} cycles of each 100 predicted, {modelled_share * 100:.0f} {origin}"


def _counted(profile: Profile) -> dict[str, float]:
    """Return the counted share of cycles by the model's causes; states that the model lacks keep their names."""
    if profile.issue_share is None:
        return {}
    shares: dict[str, float] = defaultdict(float, {ISSUING: profile.issue_share})
    for state, share in profile.idle.items():
        shares[CAUSES.get(state, words(state))] += share
    return dict(shares)
