"""Getters of columns: functions from a record to a value, which is None where the record lacks it."""

from __future__ import annotations

from collections.abc import Callable

from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.isa.mix import Counts
from lab.isa.model import Isa
from lab.measured.counters import Profile
from lab.measured.timing import CardState, Measurement
from lab.recorded.run_records import BuildRecord, VariantRecord
from lab.report.columns import Getter, Value
from lab.store import figures


def built(getter: Callable[[BuildRecord], Value]) -> Getter:
    """Return a getter for a fact of the build."""
    return lambda record: None if record.build is None else getter(record.build)


def profiled(getter: Callable[[Profile], Value]) -> Getter:
    """Return a getter for a figure of the hardware counters."""
    return lambda record: None if record.profile is None else getter(record.profile)


def timed(getter: Callable[[Measurement], Value]) -> Getter:
    """Return a getter for a figure of the measurement; None for a variant that failed."""
    return lambda record: None if record.measurement is None or record.status.failed else getter(record.measurement)


def card(getter: Callable[[CardState], Value]) -> Getter:
    """Return a getter for the GPU's state when the last sample ended."""
    return timed(lambda measurement: getter(measurement.after))


def hot(isa: Isa, getter: Callable[[Counts], Value]) -> Getter:
    """Return a getter for a figure of the hot loop of the PTX or the SASS."""

    def get(record: VariantRecord) -> Value:
        counts = figures.hot_counts(record.ptx if isa == "ptx" else record.sass)
        return None if counts is None else getter(counts)

    return get


def executed(getter: Callable[[ExecutedCounts], Value]) -> Getter:
    """Return a getter for a figure of the whole emulated launch."""

    def get(record: VariantRecord) -> Value:
        executed = record.emulation.executed if record.emulation else None
        return None if executed is None else getter(executed)

    return get


def traffic(accesses: tuple[str, ...], getter: Callable[[MemoryCount], float]) -> Getter:
    """Return a getter for a figure of some kinds of emulated memory accesses together; None without any."""

    def get(record: VariantRecord) -> float | None:
        total = figures.emulated_traffic(record, *accesses)
        return getter(total) if total else None

    return get


def executed_share(cls: str) -> Getter:
    """Return a getter for the share of a class in the emulated warp instructions; None without any."""
    return executed(lambda e: e.warps_by_class.get(cls, 0) / e.warps if e.warps else None)


def sectors(count: MemoryCount) -> float:
    """Return 32-byte sectors per warp request."""
    return count.sectors_per_request


def conflicts(count: MemoryCount) -> float:
    """Return bank conflicts per warp request."""
    return count.bank_conflicts / count.requests
