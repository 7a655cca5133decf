"""What moving fewer bytes should gain, and what it gained: kernels and baselines that declare different traffic.

A kernel bound by memory takes as long as its bytes do, so one that moves a quarter of them should be four times as
fast: that is what fusing a softmax's operations is expected to gain, (8MN + 4M) / 2MN. Traffic is what a template
declares of each of its launches, and for one launch the least bytes of its problem. Of baselines it is what is known of
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
"""Traffic that differs by a smaller factor is the same: a column of row sums beside a matrix."""
_NAMED: Final = 4
"""Most problems whose gains are listed one by one."""
_MOST: Final = 3
"""Most kernels and baselines that get a sentence: those that move most."""


@dataclass(frozen=True, slots=True)
class TrafficGain:
    """One kernel or baseline against the fastest variant that moves least, in one problem.

    Attributes:
        problem: The problem's label; empty where there is one problem.
        fused: Name of the variant that moves least.
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
        """Time of the second over that of the first, if both took as long as their bytes do."""
        return self.bytes_other / self.bytes_fused


def declared_traffic(record: VariantRecord) -> int | None:
    """Return the bytes that all launches of a variant move; None where a launch of several declares none."""
    if not record.steps:
        return record.bytes_moved or None
    each = [step.bytes_moved for step in record.steps]
    return sum(one for one in each if one) if all(one is not None for one in each) else None


def gains(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> tuple[TrafficGain, ...]:
    """Compare what moves more bytes with what moves least, problem by problem.

    Nothing is compared where throughput counts operations: bytes say little of such kernels' times. Of each kernel the
    best variant counts; of one with variants that declare different traffic, the best of each.
    """
    if response.unit is Merit.TFLOPS or any(record.merit is not Merit.BANDWIDTH for record in records):
        return ()
    made: list[TrafficGain] = []
    for label, group in figures.by_problem(run, records).items():
        moving: dict[tuple[str, int], VariantRecord] = {}
        for record in figures.ranked(group, response):
            if moved := declared_traffic(record):
                moving.setdefault((record.kernel, moved), record)
        if moving:
            made += _of_problem(run, label, moving, response)
    return tuple(made)


def _of_problem(
    run: RunRecord, label: str, moving: dict[tuple[str, int], VariantRecord], response: Response
) -> list[TrafficGain]:
    least = min(moved for _, moved in moving)
    # the first of those that move least is the fastest: they are in the order of their rank
    (kernel, own), best = next(item for item in moving.items() if item[0][1] < _ALIKE * least)
    kernels = [name for name, _ in moving]

    def named(one: str, record: VariantRecord) -> str:
        return one if kernels.count(one) == 1 else name_of(record, without=label)

    fused, found = named(kernel, best), []
    own_ms = figures.time_ms(best, response) if response.kind is Kind.MEASURED else None
    for (other, moved), record in moving.items():
        if moved >= _ALIKE * own:
            ms = figures.time_ms(record, response)
            ratio = ms / own_ms if ms and own_ms else None
            found.append(TrafficGain(label, fused, named(other, record), own, moved, ratio))
    timed = best.measurement
    for name in () if timed is None else (timed.baseline_name, *timed.others):
        by_baseline = declared_bytes(name, run.operator, best.problem) if name else None
        if name and by_baseline and by_baseline >= _ALIKE * own:
            ratio = timed.ratio_to(name) if timed and own_ms else None
            found.append(TrafficGain(label, fused, name, own, by_baseline, ratio))
    return found


def sentences(found: Sequence[TrafficGain]) -> tuple[str, ...]:
    """Write the predicted gain beside the measured one: a sentence for each kernel or baseline that moves more."""
    others: dict[str, list[TrafficGain]] = {}
    for gain in found:
        others.setdefault(gain.other, []).append(gain)
    most = sorted(others.values(), key=lambda own: -median(gain.predicted for gain in own))[:_MOST]
    return tuple(_sentence(own) for own in most)


def _sentence(own: Sequence[TrafficGain]) -> str:
    names = {gain.fused for gain in own}
    fused = names.pop() if len(names) == 1 else "the fastest variant that moves least"
    said = f"By declared bytes, {fused} should be {_span([gain.predicted for gain in own])} × as fast as {own[0].other}"
    timed = [(gain.problem, gain.measured) for gain in own if gain.measured is not None]
    if not timed:
        return f"{said}."
    values = [measured for _, measured in timed]
    if len(timed) > _NAMED:
        return f"{said}; measured: {_span(values)} × in {len(timed)} problems, median {median(values):.2f} ×."
    each = [f"{measured:.2f} ×{f' ({problem})' if problem else ''}" for problem, measured in timed]
    return f"{said}; measured: {', '.join(each)}."


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
