"""What a search decides: which variants are not worth running, and which ones to go on from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lab.experiment.schema import PruneModel
from lab.store.model import Status, VariantRecord

Group = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """What is remembered of a finished variant.

    Attributes:
        group: Variants with equal groups compete: they compute the same problem.
        position: Place in the run.
        ceiling: Predicted, in the unit that throughput has, or None.
        rate: Measured throughput of a verified variant, or None.
    """

    group: Group
    position: int
    ceiling: float | None
    rate: float | None


def group_of(record: VariantRecord) -> Group:
    """The problem that a variant computes."""
    return tuple(sorted(record.problem.items()))


def score(record: VariantRecord, position: int) -> Score | None:
    """The score of a record; None where it failed or was pruned."""
    if record.status.failed or record.status is Status.PRUNED:
        return None
    ceiling = record.prediction.ceiling if record.prediction else None
    measured = record.throughput if record.status is Status.VERIFIED else None
    return Score(group_of(record), position, ceiling.rate if ceiling else None, measured)


@dataclass
class Pruner:
    """Judges variants; `judge` in the order of their positions, so that the same run prunes the same ones again.

    Attributes:
        rules: The experiment's.
        predicted: Best predicted ceiling of each group among the variants judged so far, in the unit of throughput.
        measured: Best measured throughput of each group so far, in the unit of throughput.
    """

    rules: PruneModel
    predicted: dict[Group, float] = field(default_factory=dict)
    measured: dict[Group, float] = field(default_factory=dict)

    def judge(self, record: VariantRecord) -> str:
        """Why the variant is not worth running: a word, a colon and the figures; empty where it is."""
        if record.build is None or record.prediction is None:
            return ""
        ceiling = record.prediction.ceiling
        spills = record.build.resources.spill_bytes
        if self.rules.spills and spills:
            return f"spills: {spills} bytes of spill stores and loads a thread"
        if record.prediction.occupancy == 0:
            return f"occupancy: no block fits on an SM, limited by {record.prediction.limited_by}"
        if ceiling is None:
            return ""
        group, rate = group_of(record), ceiling.rate
        best = self.predicted[group] = max(rate, self.predicted.get(group, 0.0))
        if rate < self.rules.below_prediction * best:
            share = f"{self.rules.below_prediction:.0%} of the best one, {best:.2f}"
            return f"prediction: a ceiling of {rate:.2f} {record.merit} is below {share}"
        return ""

    def overtaken(self, record: VariantRecord) -> str:
        """Why the variant need not be measured any more: another one was faster than its predicted ceiling."""
        ceiling = record.prediction.ceiling if record.prediction else None
        reached = self.measured.get(group_of(record), 0.0)
        if not self.rules.below_measured or ceiling is None or ceiling.rate >= reached:
            return ""
        return f"measurement: a ceiling of {ceiling.rate:.2f} {record.merit} is below the {reached:.2f} of another one"

    def learn(self, finished: Score) -> None:
        """Remember what a finished variant reached."""
        if finished.rate is not None:
            self.measured[finished.group] = max(finished.rate, self.measured.get(finished.group, 0.0))


def leaders(scores: Iterable[Score], top: int) -> tuple[Score, ...]:
    """The best of each group: by throughput where anything in the group was measured, else by predicted ceiling."""
    groups: dict[Group, list[Score]] = {}
    for one in scores:
        groups.setdefault(one.group, []).append(one)
    found: list[Score] = []
    for members in groups.values():
        measured = [one for one in members if one.rate is not None]
        rated = measured or [one for one in members if one.ceiling is not None]
        found += sorted(rated, key=lambda one: -((one.rate if measured else one.ceiling) or 0.0))[:top]
    return tuple(found)
