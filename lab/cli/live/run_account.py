"""The account of a run: the best variant of each problem, and the figure that ranks it.

Variants are compared as in the report (`lab.store.figures.response_of`): by what was measured where anything was, else
by the estimate where all have one, else by the predicted throughput, else by the ceiling. What was measured is compared
as `lab.measured.standing` says, so the best variant by its ratio to a baseline and the one by throughput are both kept
until a variant without that baseline decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lab.base.amounts import scale_of, significant, time_text
from lab.cli.live.account import Account
from lab.cli.live.snapshot import Best, Row, Stage
from lab.measured.standing import baseline_beside, common_baseline, standing
from lab.measured.timing import Merit
from lab.predict.variant_scores import lean
from lab.recorded.run_records import Status, VariantRecord
from lab.runs.observer import RunObserver
from lab.store import figures
from lab.store.figures import Basis

if TYPE_CHECKING:  # the stages take seconds to import
    from lab.experiment.model import Experiment
    from lab.experiment.space import Expansion
    from lab.experiment.variants import Planned
    from lab.stages.build import BuildFailure, Built

BUILT: Final = "built"
EXECUTED: Final = "executed on the CPU"
MEASURED: Final = "measured"
RECORDED: Final = "recorded"
COUNTED: Final = "profiled"
_ORDER: Final = (BUILT, EXECUTED, MEASURED, RECORDED, COUNTED)

KIND_WORDS: Final = {
    Basis.MEASURED: "measured",
    Basis.ESTIMATE: "predicted, estimate",
    Basis.SCORE: "predicted",
    Basis.CEILING: "predicted, ceiling",
}

_PREDICTED_DIGITS: Final = 2
_CEILING_DIGITS: Final = 4

_MOST_SCORED: Final = 1000
"""Most variants that are compared by their predicted throughput, which needs all of their records at once; in a larger
run without a GPU and without estimates, ceilings are compared until the report is drawn."""

_GROWTH: Final = 1.1
"""Growth in variants that triggers a new computation of predicted throughputs, which depend on each other."""


class RunAccount(Account, RunObserver):
    """The state of a run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty.

        Args:
            clock: A monotonic clock, in seconds.
        """
        super().__init__(clock)
        self._labels: dict[tuple[object, ...], str] = {}
        self._leading: dict[Basis, dict[str, tuple[float, Best]]] = {basis: {} for basis in Basis}
        self._kept: list[VariantRecord] | None = []
        self._scored_at = 0
        self._all_estimated = True
        self._in_turns: dict[str, tuple[float, Best]] = {}
        self._baselines: set[str] = set()
        self._basis = Basis.CEILING
        self._under_way: set[str] = set()

    def planned(self, experiment: Experiment, expansion: Expansion, variants: int, gpu: str) -> None:
        """Record the number of variants."""
        del expansion
        with self._lock:
            if len(experiment.problems) > 1:
                self._labels = {_key(problem.values.items()): problem.label for problem in experiment.problems}
            self._begin(
                experiment.name, experiment.question, gpu, (Stage(BUILT, 0, variants), Stage(RECORDED, 0, variants))
            )

    def more(self, variants: int) -> None:
        """Add the further variants of a search."""
        with self._lock:
            self._lengthen(BUILT, variants)
            self._lengthen(RECORDED, variants)

    def built(self, planned: Planned, outcome: Built | BuildFailure) -> None:
        """Record that a variant was compiled, or could not be."""
        del outcome
        with self._lock:
            self._advance(BUILT)
            self._under_way.add(planned.variant)
            self._latest = f"built: {planned.variant} {planned.label}".rstrip()

    def executed(self, record: VariantRecord) -> None:
        """Record that a variant was emulated."""
        with self._lock:
            self._count(EXECUTED)
            self._latest = f"executed on the CPU: {_name(record)}, {record.status}{_registers(record)}"

    def recorded(self, record: VariantRecord) -> None:
        """Record a finished variant."""
        with self._lock:
            self._advance(RECORDED)
            if record.variant in self._under_way:
                self._under_way.discard(record.variant)
                self._pace.add()
            else:  # of an earlier run: it says nothing of this one's pace
                self._advance(BUILT)
                self._pace.begin()
            if record.measurement is not None:
                self._count(MEASURED)
            self._append(self._row(record))
            self._latest = f"finished: {_name(record)}, {record.status}"
            self._compare(record)

    def confirming(self) -> None:
        """Record that the fastest variants are about to be measured again."""
        with self._lock:
            self._latest = "every variant is finished; the fastest are measured again"

    def counting(self, variants: int) -> None:
        """Add variants whose hardware counters are about to be read."""
        with self._lock:
            self._lengthen(COUNTED, variants)

    def counted(self, variants: int) -> None:
        """Count variants whose hardware counters were read."""
        with self._lock:
            self._advance(COUNTED, variants)

    def _left(self) -> float | None:
        stage = self._stages.get(RECORDED)
        return self._pace.left_s((stage.total or 0) - stage.done) if stage else None

    def _count(self, name: str) -> None:
        """Count a variant in a stage that not every variant reaches."""
        if name not in self._stages:
            stages = self._stages | {name: Stage(name, 0)}
            self._stages = {stage: stages[stage] for stage in _ORDER if stage in stages}
        self._advance(name)

    def _row(self, record: VariantRecord) -> Row:
        figure = _figure(record)
        return Row(
            number=0,
            variant=record.variant,
            name=figures.name_of(record),
            status=str(record.status),
            figure="" if figure is None else _amount(figure[1], record, figure[0]),
            kind="" if figure is None else _kind(record, figure[0]),
            failed=record.status.failed,
            reason=record.reason,
        )

    def _compare(self, record: VariantRecord) -> None:
        """Update the best variant of a problem."""
        if record.status.failed or record.status is Status.PRUNED:
            return
        values = {
            Basis.MEASURED: None if figures.doubtful(record) else figures.measured(record),
            Basis.ESTIMATE: figures.estimated(record),
            Basis.CEILING: figures.predicted(record),
        }
        if values[Basis.CEILING] is not None and values[Basis.ESTIMATE] is None:
            self._all_estimated = False
        for basis, value in values.items():
            if value is not None:
                self._lead(basis, record, value)
        if (rate := values[Basis.MEASURED]) is not None:
            timed = record.measurement
            self._baselines.add(baseline_beside(timed))
            if timed is not None and timed.baseline is not None:
                self._lead_in(self._in_turns, record, standing(rate, timed.baseline.median), rate, Basis.MEASURED)
        self._basis = self._basis_with(record)

    def _best(self) -> tuple[Best, ...]:
        by_ratio = self._basis is Basis.MEASURED and common_baseline(self._baselines)
        return tuple(best for _, best in (self._in_turns if by_ratio else self._leading[self._basis]).values())

    def _basis_with(self, record: VariantRecord) -> Basis:
        """Return the figure that ranks variants now; compute predicted throughputs where they do."""
        if self._leading[Basis.MEASURED]:
            self._kept = None
            return Basis.MEASURED
        if self._kept is not None:
            self._kept.append(lean(record))
            if len(self._kept) > _MOST_SCORED:
                self._kept = None
                self._leading[Basis.SCORE] = {}
        if self._all_estimated and self._leading[Basis.ESTIMATE]:
            return Basis.ESTIMATE
        if self._kept is not None and len(self._kept) >= self._scored_at:
            self._scored_at = int(len(self._kept) * _GROWTH) + 1
            self._leading[Basis.SCORE] = {}
            rates = figures.scored(self._kept)
            for scored_record in self._kept:
                if scored_record.variant in rates:
                    self._lead(Basis.SCORE, scored_record, rates[scored_record.variant])
        return Basis.SCORE if self._leading[Basis.SCORE] else Basis.CEILING

    def _lead(self, basis: Basis, record: VariantRecord, value: float) -> None:
        self._lead_in(self._leading[basis], record, value, value, basis)

    def _lead_in(
        self, leading: dict[str, tuple[float, Best]], record: VariantRecord, worth: float, figure: float, basis: Basis
    ) -> None:
        """Make a variant the leader of its problem if it is worth more; `figure` is shown beside its name."""
        group = self._labels.get(_key(record.problem.items()), "")
        leader = leading.get(group)
        if leader is None or worth > leader[0]:
            name = figures.name_of(record, without=group)
            shown = _amount(figure, record, basis)
            leading[group] = worth, Best(group, name, record.variant, shown, _kind(record, basis))


def _key(items: object) -> tuple[object, ...]:
    return tuple(sorted(items))  # type: ignore[call-overload]


def _figure(record: VariantRecord) -> tuple[Basis, float] | None:
    """Return the throughput for a variant's own row: the best figure known of it alone."""
    if record.status.failed:
        return None
    for basis, of in (
        (Basis.MEASURED, figures.measured),
        (Basis.ESTIMATE, figures.estimated),
        (Basis.CEILING, figures.predicted),
    ):
        if (value := of(record)) is not None:
            return basis, value
    return None


def _amount(value: float, record: VariantRecord, basis: Basis) -> str:
    """Return a figure with its unit, in the digits that its origin allows.

    A rate of bytes beyond the GPU's bandwidth is of arguments that are not all read: then it is the time.
    """
    if basis is Basis.MEASURED:
        return f"{figures.amount(value, record.unit)} {record.unit}"
    about, digits = ("", _CEILING_DIGITS) if basis is Basis.CEILING else ("≈ ", _PREDICTED_DIGITS)
    peak = figures.peak(record)
    if record.unit == Merit.BANDWIDTH and peak is not None and value > peak:
        return about + time_text(record.rate(1.0) / value, digits)
    factor, unit = scale_of(record.unit, (value,))
    return f"{about}{significant(value * factor, digits)} {unit}"


def _kind(record: VariantRecord, basis: Basis) -> str:
    """Return the kind of a figure, and the GPU that a predicted one is for."""
    gpu = record.prediction.gpu if record.prediction is not None and basis is not Basis.MEASURED else ""
    return f"{KIND_WORDS[basis]} for {gpu}" if gpu else KIND_WORDS[basis]


def _name(record: VariantRecord) -> str:
    return f"{record.variant} {figures.name_of(record)}"


def _registers(record: VariantRecord) -> str:
    return f", {record.build.resources.registers} registers" if record.build else ""
