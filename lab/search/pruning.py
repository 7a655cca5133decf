"""Decisions of a search: which variants are pruned, and which ones lead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from lab.experiment.schema import PruneModel
from lab.measured.standing import baseline_beside, common_baseline, standing
from lab.recorded.run_records import PruneRule, Status, VariantRecord
from lab.store.figures import amount

Group = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Rank:
    """The figures of a finished variant by which a search ranks it.

    Attributes:
        group: The problem that it computes; variants of equal groups compete.
        position: Its place in the run.
        ceiling: Its predicted ceiling, in the unit of the throughput, or None.
        rate: Its measured throughput where it was verified, or None.
        card: Id of the card that measured it; empty where none did.
        doubt: Its time does not compare with those of other cards.
        baseline: The baseline interleaved with it; empty without one.
        baseline_ms: That baseline's median time, in ms.
    """

    group: Group
    position: int
    ceiling: float | None
    rate: float | None
    card: str = ""
    doubt: bool = False
    baseline: str = ""
    baseline_ms: float = 0.0


def group_of(record: VariantRecord) -> Group:
    """Return the problem that a variant computes."""
    return tuple(sorted(record.problem.items()))


def score(record: VariantRecord, position: int) -> Rank | None:
    """Return the rank of a record; None if the variant failed or was pruned."""
    if record.status.failed or record.status is Status.PRUNED:
        return None
    measured = record.throughput if record.status.sound else None
    timed = record.measurement
    card, doubt = (timed.card, bool(timed.doubt)) if timed else ("", False)
    beside = timed.baseline.median if timed and timed.baseline else 0.0
    return Rank(group_of(record), position, record.ceiling, measured, card, doubt, baseline_beside(timed), beside)


@dataclass(frozen=True, slots=True)
class Pruning:
    """The reason why a variant is pruned.

    Attributes:
        rule: The rule that applies.
        detail: The figures that decided it.
    """

    rule: PruneRule
    detail: str


@dataclass
class Pruner:
    """Decides what to prune. Call `judge` in order of positions, so that a repeated run prunes the same variants.

    Attributes:
        rules: The experiment's rules.
        predicted: Best predicted ceiling of each group among the variants judged so far, in the unit of the throughput.
        measured: Best measured throughput of each group so far.
    """

    rules: PruneModel
    predicted: dict[Group, float] = field(default_factory=dict)
    measured: dict[Group, float] = field(default_factory=dict)

    def judge(self, record: VariantRecord) -> Pruning | None:
        """Return why to prune a built variant; None if it is worth running."""
        if record.build is None or record.prediction is None:
            return None
        rate = record.ceiling
        spills = record.build.resources.spill_bytes
        if self.rules.spills and spills:
            return Pruning(PruneRule.SPILLS, f"{spills} bytes of spill stores and loads per thread")
        if record.prediction.occupancy == 0:
            limit = record.prediction.limited_by
            return Pruning(PruneRule.OCCUPANCY, f"no block fits on an SM, limited by {limit}")
        if rate is None:
            return None
        group = group_of(record)
        best = self.predicted[group] = max(rate, self.predicted.get(group, 0.0))
        if rate < self.rules.below_prediction * best:
            share = f"{self.rules.below_prediction:.0%} of the best one, {amount(best, record.unit)}"
            return Pruning(
                PruneRule.PREDICTION, f"a ceiling of {amount(rate, record.unit)} {record.unit} is below {share}"
            )
        return None

    def overtaken(self, record: VariantRecord) -> Pruning | None:
        """Return why to prune a variant whose ceiling is below another one's measured throughput; else None."""
        ceiling = record.ceiling
        reached = self.measured.get(group_of(record), 0.0)
        if not self.rules.below_measured or ceiling is None or ceiling >= reached:
            return None
        limit, best = amount(ceiling, record.unit), amount(reached, record.unit)
        below = f"a ceiling of {limit} {record.unit} is below the {best} of another one"
        return Pruning(PruneRule.MEASUREMENT, below)

    def learn(self, finished: Rank) -> None:
        """Remember the throughput of a finished variant."""
        if finished.rate is not None:
            self.measured[finished.group] = max(finished.rate, self.measured.get(finished.group, 0.0))


def leaders(scores: Iterable[Rank], top: int, slower: Mapping[str, float] = MappingProxyType({})) -> tuple[Rank, ...]:
    """Return the best of each group: by standing (`lab.measured.standing`) if any is measured, else by ceiling.

    A variant with a doubtful time ranks last, unless `slower` gives the speed of its card.

    Args:
        scores: Ranks of finished variants.
        top: Number of leaders per group.
        slower: Ratio of a card's times to those of the run's other cards, for cards that differ: throughputs of such
            a card are scaled to the other cards before they are compared.
    """
    groups: dict[Group, list[Rank]] = {}
    for finished in scores:
        groups.setdefault(finished.group, []).append(finished)
    best: list[Rank] = []
    for members in groups.values():
        measured = [member for member in members if member.rate is not None]
        if measured:
            worth = worths(measured, slower)
            best += sorted(measured, key=lambda member: (member.doubt and member.card not in slower, -worth(member)))[
                :top
            ]
        else:
            rated = [member for member in members if member.ceiling is not None]
            best += sorted(rated, key=lambda member: -(member.ceiling or 0.0))[:top]
    return tuple(best)


def worths(measured: Sequence[Rank], slower: Mapping[str, float] = MappingProxyType({})) -> Callable[[Rank], float]:
    """Return the function that rates the measured variants of a group; the highest is best.

    A card's own speed affects a variant and the baseline beside it alike; a throughput is scaled to that of the other
    cards.
    """
    if common_baseline(rank.baseline for rank in measured):
        return lambda rank: standing(rank.rate or 0.0, rank.baseline_ms)
    return lambda rank: (rank.rate or 0.0) * slower.get(rank.card, 1.0)
