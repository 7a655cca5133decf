"""The figures of a results table: unit, digits by error, and names of what varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.base.amounts import digits_of, scale_of, significant
from lab.measured.timing import Kind, Merit
from lab.predict.time_estimates import LIKELY_ERROR, SCHEDULERS, estimates
from lab.recorded.run_records import VariantRecord
from lab.store import figures
from lab.store.figures import Basis, Response


@dataclass(frozen=True, slots=True)
class ShownFigures:
    """The columns of a results table for the ranking figure.

    Attributes:
        title: Its name.
        unit: Its unit, with the prefix that fits.
        texts: Figures of the listed variants, in that unit; of predicted times with their ranges.
        names: Variant id to the values of what varies among the ranked variants.
        note: The reason why times are shown in place of throughputs; empty where there is none.
    """

    title: str
    unit: str
    texts: tuple[str, ...]
    names: Mapping[str, str]
    note: str = ""


def shown_figures(listed: Sequence[VariantRecord], ranked: Sequence[VariantRecord], response: Response) -> ShownFigures:
    """Choose what a results table shows.

    Bytes of arguments that are not all read give a rate beyond the GPU's bandwidth. That is not a throughput, so times
    are shown instead.

    Args:
        listed: Variants of the table.
        ranked: All variants with a response.
        response: The figure that ranks.
    """
    values = [response.of(record) or 0.0 for record in listed]
    ranges = _ranges(listed, ranked, response)
    title, unit, note = response.title, response.unit, ""
    if response.unit == Merit.BANDWIDTH and any(_beyond_peak(record, response) for record in ranked):
        title, unit, note = "time", "ms", "; the arguments are not all read"
        values = [record.rate(1.0) / value if value else 0.0 for record, value in zip(listed, values, strict=True)]
        ranges = [
            pair and (record.rate(1.0) / pair[1], record.rate(1.0) / pair[0])
            for record, pair in zip(listed, ranges, strict=True)
        ]
    factor, unit = scale_of(unit, values)
    texts = []
    for record, value, pair in zip(listed, values, ranges, strict=True):
        if pair is not None:
            digits = digits_of((pair[1] - pair[0]) / 2 / value) if value else 2
            middle, low, high = (significant(one * factor, digits) for one in (value, *pair))
            texts.append(f"≈ {middle}, {low} to {high}")
        else:
            error = figures.noise(record) if response.kind is Kind.MEASURED else 0.0
            texts.append(significant(value * factor, digits_of(error)))
    return ShownFigures(title, unit, tuple(texts), varying_names(ranked), note)


def _beyond_peak(record: VariantRecord, response: Response) -> bool:
    peak, value = figures.peak(record), response.of(record)
    return peak is not None and value is not None and value > peak


def _ranges(
    listed: Sequence[VariantRecord], ranked: Sequence[VariantRecord], response: Response
) -> list[tuple[float, float] | None]:
    """Return the likely range of each predicted throughput; None for measured ones and for ceilings."""
    if response.basis is Basis.SCORE:
        times = estimates(ranked)
        errors = [
            (times[one.variant].ms / times[one.variant].high_ms, times[one.variant].ms / times[one.variant].low_ms)
            if one.variant in times
            else None
            for one in listed
        ]
    elif response.basis is Basis.ESTIMATE:
        low, high = LIKELY_ERROR[SCHEDULERS]
        errors = [(1 / high, 1 / low)] * len(listed)
    else:
        errors = [None] * len(listed)
    return [
        pair and (pair[0] * (response.of(record) or 0.0), pair[1] * (response.of(record) or 0.0))
        for record, pair in zip(listed, errors, strict=True)
    ]


def varying_names(records: Sequence[VariantRecord]) -> dict[str, str]:
    """Return names of what varies: the kernel and the parameters that differ between some variants.

    Variants that differ in something else, such as the problem or the compiler, keep their whole labels.
    """
    same_problem = all(one.problem == records[0].problem and one.arch == records[0].arch for one in records)
    if not same_problem or len({one.compiler for one in records}) > 1:
        return {one.variant: figures.name_of(one) for one in records}
    kernels = len({one.kernel for one in records}) > 1
    every = dict.fromkeys(name for one in records for name in one.parameters)
    varying = [name for name in every if len({figures.text(one.parameters.get(name)) for one in records}) > 1]
    names = {}
    for record in records:
        own = [f"{name}={figures.text(record.parameters[name])}" for name in varying if name in record.parameters]
        names[record.variant] = " ".join([record.kernel] * kernels + own)
    return names
