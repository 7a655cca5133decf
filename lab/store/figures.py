"""Figures derived from records: hot-loop counts, traffic, and the response that ranks variants.

The one place that decides *which* counts a figure is made of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lab.base.amounts import significant
from lab.base.expressions import Scalar
from lab.emulator.results import MemoryCount
from lab.isa.mix import Counts, KernelMix
from lab.measured.standing import baseline_beside, common_baseline, standing
from lab.measured.timing import Kind, Merit
from lab.predict.score import TOLERANCE
from lab.predict.time_estimates import SCHEDULERS_TOLERANCE, cannot_tell, estimates
from lab.predict.variant_scores import rate, scores
from lab.recorded.run_records import RunRecord, Status, VariantRecord
from lab.store.memo import remembered

GLOBAL_LOADS: Final = ("global.load", "global.copy")
GLOBAL: Final = (*GLOBAL_LOADS, "global.store", "global.atomic")
SHARED: Final = ("shared.load", "shared.store", "shared.atomic", "shared.copy")
"""Keys of `ExecutedCounts.memory`; the copies are the two sides of cp.async, which loads from global memory."""

_NONE: Final = MemoryCount()


def hot_counts(mix: KernelMix | None) -> Counts | None:
    """Return the counts of the hot loop, or of a kernel without loops; None without a mix."""
    return None if mix is None else mix.hot_counts


def fma_share(mix: KernelMix | None) -> float | None:
    """Return the share of fma in the hot loop's instructions, 0 to 1; None without a mix."""
    counts = hot_counts(mix)
    return None if counts is None else counts.fma_share


def wide_fences(mix: KernelMix | None) -> int | None:
    """Count the fences in a SASS hot loop that wait for visibility to the whole GPU.

    None where nothing was read. Releases wider than a block become such fences (`MEMBAR.ALL.GPU`, `.SYS`), each of
    which takes hundreds of cycles.
    """
    counts = hot_counts(mix)
    if counts is None:
        return None
    return sum(n for opcode, n in counts.by_opcode.items() if opcode.startswith("MEMBAR.") and opcode.endswith(_WIDE))


_WIDE: Final = (".GPU", ".SYS")


def unit_of(records: Iterable[VariantRecord]) -> str:
    """Return the unit of throughput in a run, whose records share the operator; TFLOP/s without records."""
    return next((record.unit for record in records), Merit.TFLOPS)


def predicted(record: VariantRecord) -> float | None:
    """Return the predicted ceiling, the lowest bound, in the record's unit; None without a bound."""
    return record.ceiling


@remembered
def measured(record: VariantRecord) -> float | None:
    """Return the measured median throughput in the record's unit.

    None for failed and for unmeasured variants, and where work or time is 0: nothing compares with that.
    """
    return None if record.status.failed else record.throughput or None


def estimated(record: VariantRecord) -> float | None:
    """Return the throughput in TFLOP/s by the scheduler model; None if it does not apply."""
    return record.estimate.tflops if record.estimate is not None and record.merit is Merit.TFLOPS else None


def peak(record: VariantRecord) -> float | None:
    """Return the GPU's peak in the record's unit; None if it is unknown or the unit is the user's own."""
    return (record.prediction.peak or None) if record.prediction and record.declared_rate is None else None


@remembered
def emulated_traffic(record: VariantRecord, *accesses: str) -> MemoryCount | None:
    """Return the emulated traffic of some kinds of access (keys of `ExecutedCounts.memory`); None without requests."""
    executed = record.emulation.executed if record.emulation else None
    counts = [executed.memory[access] for access in accesses if access in executed.memory] if executed else []
    total = sum(counts[1:], counts[0]) if counts else _NONE
    return total if total.requests else None


def emulated_sectors(record: VariantRecord) -> float | None:
    """Return the sectors per request of global loads and stores, averaged as in `predicted_sectors`."""
    counts = (emulated_traffic(record, *accesses) for accesses in (GLOBAL_LOADS, ("global.store",)))
    ratios = [count.sectors_per_request for count in counts if count]
    return sum(ratios) / len(ratios) if ratios else None


def emulated_excess(record: VariantRecord) -> float | None:
    """Return the bytes of touched sectors per requested byte of global accesses; 1 is perfectly coalesced."""
    total = emulated_traffic(record, *GLOBAL)
    return total.bytes_moved / total.bytes_used if total and total.bytes_used else None


def emulated_conflicts(record: VariantRecord) -> float | None:
    """Return the bank conflicts per request to shared memory, over all kinds of access."""
    total = emulated_traffic(record, *SHARED)
    return total.bank_conflicts / total.requests if total else None


def predicted_sectors(record: VariantRecord) -> float | None:
    """Return the sectors per request that the template predicts, averaged over its kinds of global access."""
    costs = [cost for name, cost in record.accesses.items() if name.startswith("global.")]
    return sum(costs) / len(costs) if costs else None


def predicted_accesses(record: VariantRecord) -> dict[str, tuple[float, float]]:
    """Compare the template's predicted accesses with the emulated counts.

    Returns:
        Kind of access to the predicted and the counted figure, where both are known: sectors per request for global
        memory, bank conflicts per request for shared memory.
    """
    figures = {}
    for name, predicted in record.accesses.items():
        accesses = GLOBAL_LOADS if name == "global.load" else (name,)
        if counted := emulated_traffic(record, *accesses):
            per_request = counted.bank_conflicts / counted.requests
            figures[name] = predicted, counted.sectors_per_request if name.startswith("global.") else per_request
    return figures


def shared_bytes(record: VariantRecord) -> int | None:
    """Return the static and dynamic shared memory of a block in bytes; the largest of several launches."""
    if record.build is None:
        return None
    if record.launch:
        return record.build.resources.shared_bytes + record.launch.dynamic_shared_bytes
    used = [(s.resources.shared_bytes if s.resources else 0) + s.launch.dynamic_shared_bytes for s in record.steps]
    return max(used, default=record.build.resources.shared_bytes)


class Basis(StrEnum):
    """The origin of the figure that ranks variants."""

    MEASURED = "measured"
    ESTIMATE = "estimate"
    SCORE = "score"
    CEILING = "ceiling"


@dataclass(frozen=True, slots=True)
class Response:
    """The figure that ranks variants: one figure of one kind for all of them.

    Attributes:
        basis: Its origin.
        column: Name of the column that holds it.
        title: Axis title without the unit.
        unit: Of throughput: a `Merit`, or one of the user's own.
        scored: Where the basis is the score, variant id to its throughput; else empty.
        in_turns: The baseline that every variant was timed in turns with, by which variants of one problem are ranked
            (`lab.measured.standing`); empty where the response ranks them.
    """

    basis: Basis
    column: str
    title: str
    unit: str = Merit.TFLOPS
    scored: Mapping[str, float] = field(default_factory=dict)
    in_turns: str = ""

    @property
    def kind(self) -> Kind:
        """The kind of the figure: measured or predicted."""
        return Kind.MEASURED if self.basis is Basis.MEASURED else Kind.PREDICTED

    def of(self, record: VariantRecord) -> float | None:
        """Return the response of a variant, in `unit`; None if it has none, failed or was pruned."""
        if record.status.failed or record.status is Status.PRUNED:
            return None
        if self.basis is Basis.SCORE:
            return self.scored.get(record.variant)
        figure = {Basis.MEASURED: measured, Basis.ESTIMATE: estimated, Basis.CEILING: predicted}[self.basis]
        return figure(record)

    def standing(self, record: VariantRecord) -> float | None:
        """Return the figure that ranks a variant within its problem, highest first; None without a response."""
        value, timed = self.of(record), record.measurement
        if value is None or not self.in_turns or timed is None or timed.baseline is None:
            return value
        return standing(value, timed.baseline.median)

    @property
    def rule(self) -> str:
        """The ranking rule as a sentence; empty if the response itself ranks."""
        if not self.in_turns:
            return ""
        return (
            f"Variants of one problem are ranked by their throughput over that of {self.in_turns}, which took turns "
            "with each (A B A B), so that both had the same clock."
        )

    @property
    def tolerance(self) -> float:
        """Relative difference below which two responses are tied, as far as it is common to all variants."""
        return _TOLERANCE[self.basis]

    def tied(self, first: VariantRecord, second: VariantRecord) -> bool:
        """Return whether two variants differ by no more than the error or scatter of their figures."""
        by = self.standing if first.problem == second.problem else self.of
        a, b = by(first), by(second)
        if a is None or b is None or (self.basis is Basis.MEASURED and doubtful(first) is not doubtful(second)):
            return False
        return abs(a - b) <= max(self.tolerance, noise(first), noise(second)) * max(a, b)

    @property
    def format(self) -> str:
        """Format specification of the figures."""
        return format_of(self.unit)

    def text(self, value: float) -> str:
        """Format a figure in `unit`, without the unit: a predicted time or rate in the digits that its error allows."""
        predicted_time = self.basis in {Basis.ESTIMATE, Basis.SCORE}
        return significant(value, _PREDICTED_DIGITS) if predicted_time else amount(value, self.unit)

    @property
    def axis(self) -> str:
        """Axis title with kind and unit."""
        return f"{self.title} ({self.unit}, {self.kind})"


_TOLERANCE: Final = {
    Basis.MEASURED: 0.005,
    Basis.ESTIMATE: SCHEDULERS_TOLERANCE,
    Basis.SCORE: TOLERANCE,
    Basis.CEILING: 1e-6,
}
"""Relative differences that mean nothing. Measured: medians of one session repeat within half a per cent at the median
of reports/h200 (what a variant's own samples scatter is added by `noise`). Estimate:
`lab.predict.time_estimates`. Score: `lab.predict.score`."""

_PREDICTED_DIGITS: Final = 2
"""Significant digits of figures by a predicted time: their errors are a tenth and more."""


@remembered
def noise(record: VariantRecord) -> float:
    """Return the relative scatter of a variant's samples, half of p20 to p80; 0 without a measurement."""
    return record.measurement.samples.spread / 2 if record.measurement else 0.0


def scored(records: Sequence[VariantRecord]) -> dict[str, float]:
    """Return throughputs by the score, capped by the ceiling; variants without a score are absent."""
    by_id = {record.variant: record for record in records}
    rates = {variant: rate(by_id[variant], kernel_score) for variant, kernel_score in scores(records).items()}
    return {variant: value for variant, value in rates.items() if value is not None}


def tied_with_best(records: tuple[VariantRecord, ...], response: Response) -> tuple[VariantRecord, ...]:
    """Return the best variant and those tied with it, best first."""
    best = ranked(records, response)
    if undecided(records, response):
        return best
    return tuple(record for record in best if record is best[0] or response.tied(best[0], record))


def undecided(records: Sequence[VariantRecord], response: Response) -> bool:
    """Return whether variants are ranked by predicted times that differ by less than their mutual error."""
    if response.basis is not Basis.SCORE:
        return False
    return cannot_tell(list(estimates([record for record in records if response.of(record) is not None]).values()))


def response_of(records: tuple[VariantRecord, ...]) -> Response:
    """Choose the response for a set of records.

    Measured throughput if any variant has it; else the estimate if all compared variants do; else the score if any
    does; else the ceiling. It is never a mixture: figures of different origins cannot be compared.
    """
    unit = unit_of(records)
    timed = [record.measurement for record in records if measured(record) is not None]
    if timed:
        in_turns = common_baseline(map(baseline_beside, timed))
        return Response(Basis.MEASURED, column_name("measured_tflops", unit), "throughput", unit, in_turns=in_turns)
    ceiling = Response(Basis.CEILING, column_name("predicted_tflops", unit), "throughput ceiling", unit)
    compared = [record for record in records if ceiling.of(record) is not None]
    if compared and all(estimated(record) is not None for record in compared):
        return Response(Basis.ESTIMATE, "estimated_tflops", "estimated throughput", unit)
    if throughputs := scored([record for record in records if record.status is not Status.PRUNED]):
        column = column_name("scored_tflops", unit)
        return Response(Basis.SCORE, column, "predicted throughput", unit, throughputs)
    return ceiling


def column_name(name: str, unit: str) -> str:
    """Return the name of a throughput column in a unit: ``measured_gb_s`` for ``measured_tflops``."""
    if unit == Merit.TFLOPS:
        return name
    words = re.sub(r"\W+", "_", unit.lower(), flags=re.ASCII).strip("_")
    return name.replace("tflops", f"{words}_rate".lstrip("_") if words in _TAKEN else words)


_TAKEN: Final = frozenset({"", "ms", "spread", "peak_share", "bound", "sectors", "loss", "tflops"})
"""Words that would clash with other columns behind ``measured_``, ``predicted_``, ``estimated_``, ``scored_``."""


def format_of(unit: str) -> str:
    """Return the format of a throughput: two decimals, or four significant digits for a user's own unit."""
    return ".2f" if isinstance(unit, Merit) else ".4g"


def amount(value: float, unit: str) -> str:
    """Format a throughput without its unit."""
    return format(value, format_of(unit))


def time_ms(record: VariantRecord, response: Response) -> float | None:
    """Return milliseconds per launch by a response: measured, or derived from the predicted throughput."""
    if response.basis is Basis.MEASURED:
        return record.measurement.samples.median if measured(record) is not None and record.measurement else None
    figure = response.of(record)
    return record.rate(1.0) / figure if figure else None


def ranked(records: tuple[VariantRecord, ...], response: Response) -> tuple[VariantRecord, ...]:
    """Return records with a response, best first; ties keep the experiment's order.

    Records of one problem are ranked by their standing, those of several by the response, in which alone they compare.
    Those that are `doubtful` come last: a variant does not win by the time of a card that differs from the others.
    """
    by = ranking(records, response)
    having = [(value, record) for record in records if (value := by(record)) is not None]
    measured = response.basis is Basis.MEASURED
    return tuple(r for _, r in sorted(having, key=lambda pair: (measured and doubtful(pair[1]), -pair[0])))


def ranking(records: Sequence[VariantRecord], response: Response) -> Callable[[VariantRecord], float | None]:
    """Return the ranking function: the standing for records of one problem, else the response."""
    return response.standing if _alike(records) else response.of


def rule_of(records: Sequence[VariantRecord], response: Response) -> str:
    """Return the ranking rule as a sentence; empty if the response itself ranks."""
    return response.rule if _alike(records) else ""


def _alike(records: Sequence[VariantRecord]) -> bool:
    return all(record.problem == records[0].problem for record in records)


def doubtful(record: VariantRecord) -> bool:
    """Return whether a variant's time is not comparable with those of the run's other cards."""
    return record.measurement is not None and bool(record.measurement.doubt)


def setting_in_words(setting: Mapping[str, Scalar]) -> str:
    """Format a setting of parameters as labels do: ``block=256 fast=true``."""
    return " ".join(f"{name}={str(v).lower() if isinstance(v, bool) else v}" for name, v in setting.items())


def over_setting(run: RunRecord, records: Sequence[VariantRecord], response: Response) -> dict[str, float]:
    """Return each variant's throughput relative to its counterpart with the run's setting.

    A variant whose counterpart failed or does not exist is left out; so is every variant where the run has no setting.
    """
    if not run.setting:
        return {}
    rates = {_identity(record, {}): response.of(record) for record in records}
    ratios: dict[str, float] = {}
    for record in records:
        own, counterpart = response.of(record), rates.get(_identity(record, run.setting))
        if own and counterpart:
            ratios[record.variant] = own / counterpart
    return ratios


def _identity(record: VariantRecord, setting: Mapping[str, Scalar]) -> str:
    """Return the identity of a variant, with some parameters replaced."""
    parameters = sorted({**record.parameters, **setting}.items())
    conditions = (sorted(record.problem.items()), record.arch, record.compiler, record.options)
    return repr((record.kernel, parameters, *conditions))


def by_problem(run: RunRecord, records: tuple[VariantRecord, ...]) -> dict[str, tuple[VariantRecord, ...]]:
    """Group records by their problem's label: its name, or ``m=2048 layout=nt``; empty for a single problem.

    Only variants of the same problem compete: each problem has its own winner and its own baseline.
    """
    groups: dict[str, list[VariantRecord]] = {}
    for record in records:
        axis_values = {name: text(record.problem[name]) for name in run.problem_axes if name in record.problem}
        label = " ".join(value if name == "name" else f"{name}={value}" for name, value in axis_values.items())
        groups.setdefault(label, []).append(record)
    return {label: tuple(group) for label, group in groups.items()}


def text(value: object) -> str:
    """Format a value as in experiment files."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def name_of(record: VariantRecord, *, without: str = "") -> str:
    """Return a variant's name for a sentence: kernel and label, `without` a leading problem label."""
    label = record.label.removeprefix(without).strip()
    return record.kernel if not label or label == record.kernel else f"{record.kernel} {label}"


def percent(share: float, digits: int = 1) -> str:
    """Format a share as a percentage: `87.3 %` for 0.873, with a no-break space."""
    return f"{share * 100:.{digits}f}\N{NO-BREAK SPACE}%"
