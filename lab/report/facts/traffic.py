"""Predicted and measured gains of moving fewer bytes, between kernels and baselines of different declared traffic.

The time of a memory-bound kernel is that of its bytes, so one that moves a quarter of them should be four times as
fast: that is what fusing a softmax's operations is expected to gain, (8MN + 4M) / 2MN. Traffic is what a template
declares of each of its launches, and for one launch the least bytes of its problem. For baselines it is derived from
their operations (`lab.measured.baselines.declared_bytes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from lab.measured.baselines import declared_bytes
from lab.measured.timing import Kind, Merit
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.store import figures
from lab.store.figures import Response, name_of

_ALIKE: Final = 1.02
"""Ratio of traffic below which two count as equal, such as a column of row sums beside a matrix."""
_NAMED: Final = 4
"""Most problems whose gains are listed one by one."""
_MOST: Final = 3
"""Most kernels and baselines that get a sentence: those that move most."""


@dataclass(frozen=True, slots=True)
class TrafficGain:
    """One kernel or baseline against the fastest variant that moves the fewest bytes, in one problem.

    Attributes:
        problem: The problem's label; empty where there is one problem.
        fused: Name of the variant that moves the fewest bytes.
        other: Name of the kernel or baseline that moves more.
        bytes_fused: Declared traffic of the first, in bytes.
        bytes_other: Declared traffic of the second, in bytes.
        measured: Time of the second over that of the first; None where one of them was not measured.
    """

    problem: str
    fused: str
    other: str
    bytes_fused: int
    bytes_other: int
    measured: float | None

    @property
    def predicted(self) -> float:
        """Time of the second over that of the first, if both were bound by their bytes."""
        return self.bytes_other / self.bytes_fused


def declared_traffic(record: VariantRecord) -> int | None:
    """Return the bytes all launches of a variant move; None where one of several launches declares none."""
    if not record.steps:
        return record.bytes_moved or None
    step_bytes = [step.bytes_moved for step in record.steps]
    return sum(count for count in step_bytes if count) if all(count is not None for count in step_bytes) else None


def gains(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> tuple[TrafficGain, ...]:
    """Compare variants that move more bytes with the one that moves fewest, problem by problem.

    Nothing is compared where throughput counts operations: bytes say little of such kernels' times. Of each kernel the
    best variant counts; of one with variants that declare different traffic, the best of each.
    """
    if response.unit is Merit.TFLOPS or any(record.merit is not Merit.BANDWIDTH for record in records):
        return ()
    all_gains: list[TrafficGain] = []
    for label, group in figures.by_problem(run, records).items():
        moving: dict[tuple[str, int], VariantRecord] = {}
        for record in figures.ranked(group, response):
            if declared := declared_traffic(record):
                moving.setdefault((record.kernel, declared), record)
        if moving:
            all_gains += _of_problem(run, label, moving, response)
    return tuple(all_gains)


def _of_problem(
    run: RunRecord, label: str, moving: dict[tuple[str, int], VariantRecord], response: Response
) -> list[TrafficGain]:
    least = min(declared for _, declared in moving)
    # the first of those that move least is the fastest: they are in the order of their rank
    (kernel, own), best = next(item for item in moving.items() if item[0][1] < _ALIKE * least)
    kernels = [name for name, _ in moving]

    def display_name(kernel_name: str, record: VariantRecord) -> str:
        return kernel_name if kernels.count(kernel_name) == 1 else name_of(record, without=label)

    fused, compared = display_name(kernel, best), []
    own_ms = figures.time_ms(best, response) if response.kind is Kind.MEASURED else None
    for (rival, declared), record in moving.items():
        if declared >= _ALIKE * own:
            ms = figures.time_ms(record, response)
            ratio = ms / own_ms if ms and own_ms else None
            compared.append(TrafficGain(label, fused, display_name(rival, record), own, declared, ratio))
    timed = best.measurement
    for name in () if timed is None else (timed.baseline_name, *timed.others):
        by_baseline = declared_bytes(name, run.operator, best.problem) if name else None
        if name and by_baseline and by_baseline >= _ALIKE * own:
            ratio = timed.ratio_to(name) if timed and own_ms else None
            compared.append(TrafficGain(label, fused, name, own, by_baseline, ratio))
    return compared


def sentences(compared: Sequence[TrafficGain]) -> tuple[str, ...]:
    """Write predicted beside measured gains: a sentence per kernel or baseline that moves more."""
    by_rival: dict[str, list[TrafficGain]] = {}
    for gain in compared:
        by_rival.setdefault(gain.other, []).append(gain)
    largest = sorted(by_rival.values(), key=lambda own: -median(gain.predicted for gain in own))[:_MOST]
    return tuple(_sentence(own) for own in largest)


def _sentence(own: Sequence[TrafficGain]) -> str:
    names = {gain.fused for gain in own}
    fused = names.pop() if len(names) == 1 else "the fastest variant that moves least"
    claim = (
        f"By declared bytes, {fused} should be {_span([gain.predicted for gain in own])} × as fast as {own[0].other}"
    )
    timed = [(gain.problem, gain.measured) for gain in own if gain.measured is not None]
    if not timed:
        return f"{claim}."
    values = [measured for _, measured in timed]
    if len(timed) > _NAMED:
        return f"{claim}; measured: {_span(values)} × in {len(timed)} problems, median {median(values):.2f} ×."
    measured_ratios = [f"{measured:.2f} ×{f' ({problem})' if problem else ''}" for problem, measured in timed]
    return f"{claim}; measured: {', '.join(measured_ratios)}."


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
