"""Compare two runs: faster and slower variants with confidence intervals, and changes in their code.

A variant's figure is the ratio of its throughput in B to that in A, which is the ratio of the median times A / B. Its
interval is the percentile bootstrap's (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13):
both runs' samples are resampled with replacement, and 95 % of the resulting ratios lie within the interval. It reflects
the scatter within each run, not what differs between two sessions (clocks, temperature, other users of the machine);
`relative` compares throughputs relative to the baseline that was interleaved with each variant, which cancels most of
that.

Where nothing was measured, estimates are compared: they have no scatter, so that the interval is the ratio itself.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.measured.timing import Kind, Measurement, Samples
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.runs.sides import Side, read_side
from lab.store import figures
from lab.store.figures import text

RESAMPLES = 1000
CONFIDENCE = 0.95
SAME = 0.01
"""Two variants count as the same if the whole interval of their ratio is closer to 1 than this."""

Key = tuple[object, ...]


class Verdict(StrEnum):
    """The verdict on a variant in B against the same variant in A."""

    FASTER = "faster"  # the whole interval is above 1
    SLOWER = "slower"  # the whole interval is below 1
    SAME = "same"  # the whole interval is within `SAME` of 1
    AMBIGUOUS = "ambiguous"  # the interval holds 1 and is wider than that
    BROKEN = "broken"  # correct in A, failed in B
    MENDED = "mended"  # failed in A, correct in B
    NOT_COMPARED = "not compared"  # one of the runs has no time for it


@dataclass(frozen=True, slots=True)
class Change:
    """One variant in both runs.

    Attributes:
        kernel: The kernel's name.
        label: Distinguishes the variant from its siblings, in B.
        variant_a: Id in A.
        variant_b: Id in B.
        verdict: The comparison.
        ratio: Throughput in B over that in A; None where it was not measured in both.
        low: Lower end of the interval.
        high: Upper end.
        n_a: Samples in A.
        n_b: Samples in B.
        same_code: Both runs have the same SASS; None where one has none.
        figures: Name to its values in A and in B: registers, spills, shares and counts of the hot loop.
        kind: `measured` where times were compared, `predicted` where estimates were; None where there is no ratio.
        unlike: What else differs, as texts of A and of B by name: parameters, problem, compiler, architecture, and
            instructions of the SASS hot loop by class.
    """

    kernel: str
    label: str
    variant_a: str
    variant_b: str
    verdict: Verdict
    ratio: float | None
    low: float | None
    high: float | None
    n_a: int
    n_b: int
    same_code: bool | None
    figures: Mapping[str, tuple[float | None, float | None]]
    kind: Kind | None = None
    unlike: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def regressed(self, threshold: float) -> bool:
        """Return whether it broke, or is slower by more than the fraction `threshold` with its interval below 1."""
        if self.verdict is Verdict.BROKEN:
            return True
        return self.verdict is Verdict.SLOWER and self.ratio is not None and self.ratio < 1 - threshold


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two runs.

    Attributes:
        a: Facts of the first.
        b: Facts of the second.
        changes: Variants of both, in the order of B.
        only_a: Variants that are not in B.
        only_b: Variants that are not in A.
        baseline: Baseline's throughput in B over that in A, median over the variants; None without one in both.
        relative: Throughputs are relative to the baseline's.
        source: Lines of a unified diff of the sources, where two single variants were compared.
    """

    a: RunRecord
    b: RunRecord
    changes: tuple[Change, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    baseline: float | None
    relative: bool
    source: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """Number of variants with each verdict."""
        return Counter(change.verdict for change in self.changes)


def compare(
    a: tuple[RunRecord, Sequence[VariantRecord]],
    b: tuple[RunRecord, Sequence[VariantRecord]],
    *,
    relative: bool = False,
    seed: int = 0,
) -> Comparison:
    """Compare two runs.

    Args:
        a: Facts and records of the first.
        b: Facts and records of the second.
        relative: Compare throughputs relative to the interleaved baseline.
        seed: Seed of the bootstrap.

    Raises:
        UserError: the runs have no variant in common.
    """
    (run_a, records_a), (run_b, records_b) = a, b
    keyed_a, keyed_b = _keyed(records_a, records_b)
    common = [key for key in keyed_b if key in keyed_a]
    if not common:
        raise UserError(
            "the two runs have no variant in common",
            code="nothing-left",
            found=f"{len(records_a)} and {len(records_b)} variants",
            accepted="runs of one experiment, or of two with the same kernel names, parameters and problems",
        )
    rng = np.random.default_rng(seed)
    changes = tuple(_change(keyed_a[key], keyed_b[key], relative=relative, rng=rng) for key in common)
    drifts = [
        before.baseline.median / after.baseline.median
        for key in common
        if (before := keyed_a[key].measurement) and (after := keyed_b[key].measurement)
        if before.baseline and after.baseline
    ]
    return Comparison(
        a=run_a,
        b=run_b,
        changes=changes,
        only_a=tuple(_name(record) for key, record in keyed_a.items() if key not in keyed_b),
        only_b=tuple(_name(record) for key, record in keyed_b.items() if key not in keyed_a),
        baseline=float(np.median(drifts)) if drifts else None,
        relative=relative,
    )


def compare_folders(a: Path | str, b: Path | str, *, relative: bool = False) -> Comparison:
    """Compare two runs or two variants, given by path; see `lab.runs.sides` and `compare`.

    Raises:
        UserError: the runs have no variant in common, or lack the variant that is named.
        StoreError: there is no run, or it cannot be read.
    """
    first, second = read_side(str(a)), read_side(str(b))
    if first.single and second.single:
        return _compare_variants(first, second, relative=relative)
    return compare((first.run, first.records), (second.run, second.records), relative=relative)


def _compare_variants(a: Side, b: Side, *, relative: bool) -> Comparison:
    """Compare two variants with any parameters."""
    ((record_a,), (record_b,)) = a.records, b.records
    change = _change(record_a, record_b, relative=relative, rng=np.random.default_rng(0))
    lines: tuple[str, ...] = ()
    if a.source is not None and b.source is not None:
        sources = a.source.splitlines(), b.source.splitlines()
        lines = tuple(difflib.unified_diff(*sources, record_a.variant, record_b.variant, n=1, lineterm=""))
    return Comparison(a.run, b.run, (change,), (), (), None, relative, lines)


def _keyed(
    records_a: Sequence[VariantRecord], records_b: Sequence[VariantRecord]
) -> tuple[dict[Key, VariantRecord], dict[Key, VariantRecord]]:
    """Return the records of both runs by a key that identifies a variant across runs.

    Two runs may differ in compiler and architecture: these belong to the key only where a run has several of them.
    """
    sides = (records_a, records_b)
    by_compiler = any(len({record.compiler for record in records}) > 1 for records in sides)
    by_arch = any(len({record.arch for record in records}) > 1 for records in sides)

    def key(record: VariantRecord) -> Key:
        fields = (_plain(record.parameters), _plain(record.problem))
        return (record.kernel, *fields, record.compiler if by_compiler else "", record.arch if by_arch else "")

    return {key(r): r for r in records_a}, {key(r): r for r in records_b}


def _plain(values: Mapping[str, Scalar]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in values.items()))


def _name(record: VariantRecord) -> str:
    return f"{record.variant} {record.kernel} {record.label}".strip()


def _change(a: VariantRecord, b: VariantRecord, *, relative: bool, rng: np.random.Generator) -> Change:
    ratio = low = high = kind = None
    timed = _times(a, relative=relative), _times(b, relative=relative)
    if timed[0] and timed[1]:
        (ratio, low, high), kind = ratio_interval(timed[0], timed[1], rng), Kind.MEASURED
    elif not timed[0] and not timed[1] and (before := _estimate(a)) and (after := _estimate(b)):
        ratio = low = high = after / before
        kind = Kind.PREDICTED
    return Change(
        kernel=b.kernel,
        label=b.label,
        variant_a=a.variant,
        variant_b=b.variant,
        verdict=_verdict(a, b, low, high),
        ratio=ratio,
        low=low,
        high=high,
        n_a=timed[0][0].n if timed[0] else 0,
        n_b=timed[1][0].n if timed[1] else 0,
        same_code=a.build.sass_sha256 == b.build.sass_sha256 if a.build and b.build else None,
        figures={name: (of(a), of(b)) for name, of in _FIGURES.items()},
        kind=kind,
        unlike=dict(_unlike(a, b)),
    )


def _estimate(record: VariantRecord) -> float | None:
    return None if record.status.failed else figures.estimated(record)


def _unlike(a: VariantRecord, b: VariantRecord) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each difference between two variants besides their figures, with both texts."""
    groups: list[tuple[str, Mapping[str, object], Mapping[str, object]]] = [
        ("", {"kernel": a.kernel, "template": a.template}, {"kernel": b.kernel, "template": b.template}),
        ("", a.parameters, b.parameters),
        ("problem.", a.problem, b.problem),
        ("", {"compiler": a.compiler, "arch": a.arch}, {"compiler": b.compiler, "arch": b.arch}),
        ("", {"status": a.status}, {"status": b.status}),
    ]
    loops = [figures.hot_counts(record.sass) for record in (a, b)]
    if loops[0] is not None and loops[1] is not None:
        groups.append(("hot-loop ", loops[0].by_class, loops[1].by_class))
    for prefix, first, second in groups:
        nothing = "0" if prefix == "hot-loop " else ""
        for name in dict.fromkeys([*first, *second]):
            texts = tuple(text(side[name]) if name in side else nothing for side in (first, second))
            if texts[0] != texts[1]:
                yield f"{prefix}{name}", (texts[0], texts[1])


def _times(record: VariantRecord, *, relative: bool) -> tuple[Samples, ...]:
    """Return the samples of a correct variant, and of its baseline if relative; empty where one is missing."""
    measurement: Measurement | None = record.measurement if record.status.sound else None
    if measurement is None or (relative and measurement.baseline is None):
        return ()
    return (measurement.samples, measurement.baseline) if relative and measurement.baseline else (measurement.samples,)


def ratio_interval(a: Sequence[Samples], b: Sequence[Samples], rng: np.random.Generator) -> tuple[float, float, float]:
    """Return the ratio of throughputs, B to A, with its confidence interval.

    Args:
        a: The variant's samples in A; behind them the baseline's, where throughputs are relative to it.
        b: The same in B.
        rng: Draws the resamples.
    """

    def cost(sides: Sequence[Samples]) -> tuple[float, NDArray[np.float64]]:
        point, drawn = 1.0, np.ones(RESAMPLES)
        for samples, power in zip(sides, (1, -1), strict=False):
            used = np.asarray(samples.used)
            medians = np.median(used[rng.integers(0, len(used), (RESAMPLES, len(used)))], axis=1)
            point, drawn = point * samples.median**power, drawn * medians**power
        return point, drawn

    (point_a, drawn_a), (point_b, drawn_b) = cost(a), cost(b)
    low, high = np.quantile(drawn_a / drawn_b, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return point_a / point_b, float(low), float(high)


def _verdict(a: VariantRecord, b: VariantRecord, low: float | None, high: float | None) -> Verdict:
    if a.status.failed != b.status.failed:
        return Verdict.BROKEN if b.status.failed else Verdict.MENDED
    if low is None or high is None:
        return Verdict.NOT_COMPARED
    if low > 1 - SAME and high < 1 + SAME:
        return Verdict.SAME
    if low > 1:
        return Verdict.FASTER
    return Verdict.SLOWER if high < 1 else Verdict.AMBIGUOUS


def _hot(name: str, record: VariantRecord) -> float | None:
    counts = figures.hot_counts(record.sass)
    return None if counts is None else getattr(counts, name)


_FIGURES = {
    "registers": lambda r: r.build.resources.registers if r.build else None,
    "spill bytes": lambda r: r.build.resources.spill_bytes if r.build else None,
    "occupancy": lambda r: r.prediction.occupancy if r.prediction else None,
    "hot-loop instructions": lambda r: _hot("instructions", r),
    "hot-loop fma": lambda r: _hot("fma", r),
    "hot-loop ld.shared": lambda r: _hot("ld_shared", r),
    "FMA share": lambda r: _hot("fma_share", r),
    "predicted ceiling": figures.predicted,
}
"""Figures shown beside each ratio."""
