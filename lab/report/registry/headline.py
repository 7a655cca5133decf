"""Columns of a record's identity and of its headline figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.measured.timing import Kind, Samples
from lab.recorded.run_records import VariantRecord
from lab.report.columns import Column
from lab.report.facts.agreement import loss
from lab.report.registry.getters import built, hot, timed
from lab.store import figures

S, P, M = Kind.STATIC, Kind.PREDICTED, Kind.MEASURED


def _rate_at(record: VariantRecord, time: Callable[[Samples], float]) -> float | None:
    """Return the throughput at a quantile of the time, which is the opposite quantile of the throughput.

    The median throughput is likewise that of the median time, so that p20 <= median <= p80 always holds.
    """
    if record.measurement is None or record.status.failed:
        return None
    return record.rate(time(record.measurement.samples))


def _again(record: VariantRecord) -> float | None:
    """Return the throughput of a winner that was measured again."""
    again = record.measurement.remeasured if record.measurement and not record.status.failed else None
    return None if again is None else record.rate(again.median)


def _share_of_peak(record: VariantRecord, rate: float | None) -> float | None:
    peak = figures.peak(record)
    return None if rate is None or peak is None else rate / peak


def _ceiling_name(record: VariantRecord) -> str | None:
    ceiling = record.prediction.ceiling if record.prediction else None
    return ceiling.name if ceiling else None


IDENTITY: Final = (
    Column(
        "variant",
        "variant",
        None,
        lambda r: r.variant,
        shown=True,
        about="short hash of everything that decides the machine code",
    ),
    Column("kernel", "kernel", None, lambda r: r.kernel, shown=True),
    Column(
        "label", "label", None, lambda r: r.label, about="what distinguishes the variant from the others of its kernel"
    ),
    Column("status", "status", None, lambda r: str(r.status), shown=True),
    Column("reason", "reason", None, lambda r: r.reason or None),
)

HEADLINE: Final = (
    Column(
        "measured_tflops",
        "throughput",
        M,
        figures.measured,
        "TFLOP/s",
        ".2f",
        shown=True,
        about="operations of the problem over the median time",
    ),
    Column(
        "measured_peak_share",
        "throughput / peak",
        M,
        lambda r: _share_of_peak(r, figures.measured(r)),
        format=".1%",
        shown=True,
    ),
    Column(
        "ratio_to_baseline",
        "ratio to baseline",
        M,
        timed(lambda m: m.ratio_to_baseline),
        format=".3f",
        shown=True,
        about="throughput over the baseline's, interleaved A/B timing; above 1 is faster",
    ),
    Column("measured_ms", "median time", M, timed(lambda m: m.samples.median), "ms", ".4f", shown=True),
    Column(
        "measured_spread",
        "spread",
        M,
        timed(lambda m: m.samples.spread),
        format=".1%",
        about="of the time: 80th percentile less the 20th, over the median",
    ),
    Column(
        "remeasured_tflops",
        "in a fresh process",
        M,
        _again,
        "TFLOP/s",
        ".2f",
        about="throughput of a problem's winner, from its median time in a second process",
    ),
    Column(
        "predicted_tflops",
        "predicted ceiling",
        P,
        figures.predicted,
        "TFLOP/s",
        ".2f",
        shown=True,
        about="the lowest of the bounds",
    ),
    Column("predicted_bound", "binding bound", P, _ceiling_name, shown=True, about="the lowest bound"),
    Column(
        "estimated_tflops",
        "estimate",
        P,
        figures.estimated,
        "TFLOP/s",
        ".2f",
        shown=True,
        about="throughput by a model of the schedulers that issues the hot loop's SASS; it can be exceeded",
    ),
    Column("estimated_loss", "costs most besides fma", P, loss, shown=True, about="share of the model's cycles"),
    Column(
        "occupancy",
        "occupancy",
        P,
        lambda r: r.prediction.occupancy if r.prediction else None,
        format=".0%",
        shown=True,
        about="resident warps over the most that an SM can hold",
    ),
    Column(
        "ptx_fma_per_ld_shared",
        "PTX fma : ld.shared",
        S,
        hot("ptx", lambda c: c.fma_per_ld_shared),
        format=".2f",
        shown=True,
        about="hot loop; empty without a load from shared memory",
    ),
    Column(
        "ptx_fma_share",
        "PTX FMA share",
        S,
        hot("ptx", lambda c: c.fma_share),
        format=".1%",
        shown=True,
        about="fma over all instructions of the hot loop",
    ),
    Column(
        "sass_fma_share",
        "SASS FMA share",
        S,
        hot("sass", lambda c: c.fma_share),
        format=".1%",
        shown=True,
        about="fma over all instructions of the hot loop",
    ),
    Column(
        "registers",
        "registers",
        S,
        built(lambda b: b.resources.registers),
        format=",d",
        shown=True,
        about="per thread, as allocated by ptxas",
    ),
    Column(
        "spill_bytes",
        "spills",
        S,
        built(lambda b: b.resources.spill_bytes),
        "B",
        ",d",
        shown=True,
        about="bytes of spill stores and loads per thread",
    ),
    Column(
        "shared_bytes",
        "shared memory",
        S,
        figures.shared_bytes,
        "B",
        ",d",
        shown=True,
        about="per block, static and dynamic",
    ),
    Column(
        "predicted_peak_share",
        "ceiling / peak",
        P,
        lambda r: _share_of_peak(r, figures.predicted(r)),
        format=".1%",
    ),
    Column(
        "baseline_ms", "baseline median", M, timed(lambda m: m.baseline.median if m.baseline else None), "ms", ".4f"
    ),
    Column("p20_ms", "time p20", M, timed(lambda m: m.samples.p20), "ms", ".4f"),
    Column("p80_ms", "time p80", M, timed(lambda m: m.samples.p80), "ms", ".4f"),
    Column(
        "best_ms",
        "time, best sample",
        M,
        timed(lambda m: m.samples.best),
        "ms",
        ".4f",
        about="of the samples that count; each is the mean of its batch of launches",
    ),
    Column("samples", "samples", M, timed(lambda m: m.samples.n), format=",d"),
    Column(
        "tflops_p20",
        "throughput p20",
        M,
        lambda r: _rate_at(r, lambda samples: samples.p80),
        "TFLOP/s",
        ".2f",
        about="20th percentile of the throughput: four fifths of the samples are at least as fast",
    ),
    Column(
        "tflops_p80",
        "throughput p80",
        M,
        lambda r: _rate_at(r, lambda samples: samples.p20),
        "TFLOP/s",
        ".2f",
        about="80th percentile of the throughput: one fifth of the samples is at least as fast",
    ),
    Column(
        "tflops_best",
        "throughput, best sample",
        M,
        lambda r: _rate_at(r, lambda samples: samples.best),
        "TFLOP/s",
        ".2f",
        about="throughput of the fastest sample, as reported by benchmarks that keep the best of several runs",
    ),
    Column(
        "max_error",
        "largest error",
        None,
        lambda r: r.verification.max_error if r.verification else None,
        format=".3g",
        about="largest scaled difference from the float64 reference",
    ),
)
