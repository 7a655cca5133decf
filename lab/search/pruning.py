"""What a search decides: which variants it leaves out, and from which ones it goes on."""

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
    """What a search remembers of a finished variant.

    Attributes:
        group: The problem that it computes; variants of equal groups compete.
        position: Its place in the run.
        ceiling: Its predicted ceiling, in the unit of the throughput, or None.
        rate: Its measured throughput where it was verified, or None.
        card: Id of the card that measured it; empty where none did.
        doubt: Its time does not compare with those of other cards.
        baseline: The baseline that it was timed in turns with; empty without one.
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
    """The problem that a variant computes."""
    return tuple(sorted(record.problem.items()))


def score(record: VariantRecord, position: int) -> Rank | None:
    """The score of a record; None where the variant failed or was pruned."""
    if record.status.failed or record.status is Status.PRUNED:
        return None
    measured = record.throughput if record.status.sound else None
    timed = record.measurement
    card, doubt = (timed.card, bool(timed.doubt)) if timed else ("", False)
    beside = timed.baseline.median if timed and timed.baseline else 0.0
    return Rank(group_of(record), position, record.ceiling, measured, card, doubt, baseline_beside(timed), beside)


@dataclass(frozen=True, slots=True)
class Pruning:
    """Why a variant is left out.

    Attributes:
        rule: The rule that it falls under.
        detail: The figures that decided it.
    """

    rule: PruneRule
    detail: str


@dataclass
class Pruner:
    """Judges variants. `judge` is called in the order of positions, so that a repeated run prunes the same variants.

    Attributes:
        rules: The experiment's rules.
        predicted: Best predicted ceiling of each group among the variants judged so far, in the unit of the throughput.
        measured: Best measured throughput of each group so far.
    """

    rules: PruneModel
    predicted: dict[Group, float] = field(default_factory=dict)
    measured: dict[Group, float] = field(default_factory=dict)

    def judge(self, record: VariantRecord) -> Pruning | None:
        """Decide whether to leave out a variant that was built; None where it is worth running."""
        if record.build is None or record.prediction is None:
            return None
        rate = record.ceiling
        spills = record.build.resources.spill_bytes
        if self.rules.spills and spills:
            return Pruning(PruneRule.SPILLS, f"{spills} bytes of spill stores and loads a thread")
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
        """Decide whether to leave out a variant because another one is faster than its predicted ceiling."""
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
    """The best of each group: as `lab.measured.standing` says where anything in it was measured, else by ceiling.

    A variant whose time is in doubt comes behind all others, unless `slower` says what its card does to times.

    Args:
        scores: Of finished variants.
        top: How many of each group.
        slower: Card to its times over those on the run's other cards, for cards that do not time alike: where
            throughput decides, it is the one that a variant of such a card would have on the others.
    """
    groups: dict[Group, list[Rank]] = {}
    for one in scores:
        groups.setdefault(one.group, []).append(one)
    found: list[Rank] = []
    for members in groups.values():
        measured = [one for one in members if one.rate is not None]
        if measured:
            worth = worths(measured, slower)
            found += sorted(measured, key=lambda one: (one.doubt and one.card not in slower, -worth(one)))[:top]
        else:
            rated = [one for one in members if one.ceiling is not None]
            found += sorted(rated, key=lambda one: -(one.ceiling or 0.0))[:top]
    return tuple(found)


def worths(measured: Sequence[Rank], slower: Mapping[str, float] = MappingProxyType({})) -> Callable[[Rank], float]:
    """Return what gives the figure by which the measured variants of a group are ranked, the highest first.

    A card's own speed is in the times of a variant and of the baseline beside it alike; a throughput is brought to that
    of the other cards.
    """
    if common_baseline(one.baseline for one in measured):
        return lambda one: standing(one.rate or 0.0, one.baseline_ms)
    return lambda one: (one.rate or 0.0) * slower.get(one.card, 1.0)
