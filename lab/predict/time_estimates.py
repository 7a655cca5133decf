"""Estimated times of variants with intervals, for any operator: the single figure by which predictions rank.

Where every compared variant has an estimate of the schedulers (`lab.predict.schedulers`), it is that; else it is the
predicted time of any kernel (`lab.predict.score`) for all of them, since figures of two models cannot be compared.

The schedulers' model takes each fma for two operations and nothing else for one. A problem that counts others as well,
as 20 for an interaction of bodies, would be estimated too slow: it has a time by counted work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from lab.isa.model import InstructionClass
from lab.predict.score import TOLERANCE, KernelScore
from lab.predict.variant_scores import scores
from lab.recorded.run_records import Status, VariantRecord

SCHEDULERS: Final = "model of the schedulers"
COUNTS: Final = "counted work"

LIKELY_ERROR: Final = MappingProxyType({SCHEDULERS: (0.85, 1.75), COUNTS: (0.75, 1.31)})
"""Error factors of a time, below and above its model's bounds, by model.

Schedulers: the 5th and the 90th percentile of measured over estimated time, of gemm_small, gemm_odd, contraction and
gemm_bulk in equal parts, to which no constant was fitted. Counted work: the 5th and the 95th percentile of measured
over least and over greatest time, of the twelve kernels in benchmarks/held_out.txt that were measured by 2026-11-22.
docs/explanation/model.md counts how many measured times of other kernels such intervals hold.
"""
SWEEP_ERROR: Final = 1.2
"""Error factor of the times of one sweep by counted work, relative to each other.

In half of the sweeps of experiments/plain and experiments/others, two thirds of the variants were within 1.12 of the
sweep's median error, in three quarters within 1.25.
"""

SCHEDULERS_TOLERANCE: Final = 0.02
"""Relative difference of two times by the schedulers that means nothing: docs/explanation/model.md finds that orders of
instructions that change throughput by 2 % and more are within its error on one loop."""
MUTUAL_ERROR: Final = MappingProxyType(
    {SCHEDULERS: (SCHEDULERS_TOLERANCE, 1 + SCHEDULERS_TOLERANCE), COUNTS: (TOLERANCE, SWEEP_ERROR)}
)
"""Tolerance of two times, and error factor of their ratio, by model."""


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """The estimated time of a variant, all launches included.

    Attributes:
        ms: Milliseconds.
        low_ms: Least time that is likely, in milliseconds.
        high_ms: Greatest time that is likely, in milliseconds.
        origin: `SCHEDULERS` or `COUNTS`.
        shares: Where the time goes: shares of the cycles by cause, or what each resource alone would need over the
            whole; the largest first. The latter overlap, and so do not add up to 1.
    """

    ms: float
    low_ms: float
    high_ms: float
    origin: str
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def cost(self) -> str:
        """The largest shares of the time, in words: `DRAM 85%, latency 40%`."""
        return ", ".join(f"{name} {share:.0%}" for name, share in list(self.shares.items())[:_SHOWN] if share >= _LEAST)


_SHOWN: Final = 3
_LEAST: Final = 0.1


def estimates(records: Sequence[VariantRecord]) -> dict[str, TimeEstimate]:
    """Estimate the times of variants to be compared with each other.

    Args:
        records: Variants of one run; failed and pruned ones do not decide which model is used.

    Returns:
        Variant id to its estimate; variants without counts of an execution on the CPU, or on a GPU that is not in the
        table, are absent.
    """
    running = [record for record in records if not record.status.failed and record.status is not Status.PRUNED]
    modelled = all(record.estimate is not None and record.estimate.tflops * record.flops > 0 for record in running)
    if running and modelled and not any(map(_counts_others, running)):
        return {record.variant: _of_schedulers(record) for record in running}
    return _by_counts(records)


def mutual_estimates(
    first: Sequence[VariantRecord], second: Sequence[VariantRecord]
) -> tuple[dict[str, TimeEstimate], dict[str, TimeEstimate]]:
    """Estimate the times of two runs whose variants are to be compared with each other, by one model for both."""
    both = estimates(first), estimates(second)
    if len({estimate.origin for side in both for estimate in side.values()}) > 1:
        return _by_counts(first), _by_counts(second)
    return both


def mutual_error(first: TimeEstimate, second: TimeEstimate) -> tuple[float, float]:
    """Return the factor below which two times are equal to the model, and the error factor of their ratio."""
    tolerance, error = MUTUAL_ERROR[SCHEDULERS if first.origin == second.origin == SCHEDULERS else COUNTS]
    return 1 + tolerance, error


def _by_counts(records: Sequence[VariantRecord]) -> dict[str, TimeEstimate]:
    return {variant: _of_counts(kernel_score) for variant, kernel_score in scores(records).items()}


def cannot_tell(compared: Sequence[TimeEstimate]) -> bool:
    """Return whether times by counted work differ by less than their mutual error, so that none is first."""
    times = [estimate.ms for estimate in compared]
    return (
        len(times) > 1
        and max(times) < SWEEP_ERROR * min(times)
        and any(estimate.origin == COUNTS for estimate in compared)
    )


def _counts_others(record: VariantRecord) -> bool:
    """Return whether the problem has more operations than its executed fma.

    Tiles beyond the data execute more than the problem counts, so that one variant alone may hide it.
    """
    emulation = record.emulation
    if emulation is None or emulation.executed is None:
        return False
    fma = emulation.executed.threads_by_class.get(InstructionClass.FMA, 0)
    return bool(fma) and emulation.flops > _SURELY * 2 * fma


_SURELY: Final = 1.02
"""Factor that operations outside a loop, such as the scaling of a result, do not reach."""


def _of_schedulers(record: VariantRecord) -> TimeEstimate:
    assert record.estimate is not None  # noqa: S101 - the caller looked
    ms = record.flops / record.estimate.tflops / 1e9
    low, high = LIKELY_ERROR[SCHEDULERS]
    shares = dict(sorted(record.estimate.shares.items(), key=lambda item: -item[1]))
    return TimeEstimate(ms, low * ms, high * ms, SCHEDULERS, shares)


def _of_counts(kernel_score: KernelScore) -> TimeEstimate:
    low, high = LIKELY_ERROR[COUNTS]
    shares = {name: seconds / kernel_score.seconds for name, seconds in kernel_score.resources.items()}
    return TimeEstimate(
        kernel_score.seconds * 1e3, low * kernel_score.least_s * 1e3, high * kernel_score.most_s * 1e3, COUNTS, shares
    )
