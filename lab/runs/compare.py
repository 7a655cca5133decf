"""Compare two runs: faster and slower variants with confidence intervals, and changes in their code.

A variant's figure is the ratio of its throughput in B to that in A, which is the ratio of the median times A / B. Its
interval is the percentile bootstrap's (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13):
both runs' samples are resampled with replacement, and 95 % of the resulting ratios lie within the interval. It reflects
the scatter within each run, not what differs between two sessions (clocks, temperature, other users of the machine);
`relative` compares throughputs relative to the baseline that was interleaved with each variant, which cancels most of
that.

Where one of two variants was not measured, their predicted times are compared, by one model for both
(`lab.predict.time_estimates`). The interval is then the ratio with the model's mutual error. Times within its tolerance
are the same.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.advice.advise import advise
from lab.advice.contrast import Contrast, ContrastSide, contrast
from lab.base.display import Displayed
from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.measured.timing import Kind, Measurement, Samples
from lab.predict.time_estimates import TimeEstimate, mutual_error, mutual_estimates
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.runs.sides import Side, read_detail, read_side
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
class ComparedTime:
    """The time of one of two variants.

    Attributes:
        ms: Milliseconds of a launch: the median, or the predicted time.
        low: The 20th percentile, or the least likely time.
        high: The 80th percentile, or the greatest likely time.
        gpu: The GPU that it was predicted for; empty where it was measured, on that of its run.
    """

    ms: float
    low: float
    high: float
    gpu: str = ""


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
        tolerance: Ratios up to this factor count as the same.
        time_a: Time in A, of that kind; None where there is no ratio.
        time_b: Time in B.
        reasons: Why A and B have their status; empty where there is nothing to say.
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
    tolerance: float = 1 + SAME
    time_a: ComparedTime | None = None
    time_b: ComparedTime | None = None
    reasons: tuple[str, str] = ("", "")
    unlike: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def regressed(self, threshold: float) -> bool:
        """Return whether it broke, or is slower by more than the fraction `threshold` with its interval below 1."""
        if self.verdict is Verdict.BROKEN:
            return True
        return self.verdict is Verdict.SLOWER and self.ratio is not None and self.ratio < 1 - threshold


@dataclass(frozen=True, slots=True)
class Comparison(Displayed):
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
        contrast: The causes and facts that tell the leading change's variants apart; None where that was not asked for.
    """

    a: RunRecord
    b: RunRecord
    changes: tuple[Change, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    baseline: float | None
    relative: bool
    source: tuple[str, ...] = ()
    contrast: Contrast | None = None

    @property
    def leading(self) -> Change:
        """The change to tell first: what broke, else the surest and largest difference in time."""
        return max(self.changes, key=_weight)

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """Number of variants with each verdict."""
        return Counter(change.verdict for change in self.changes)


def _weight(change: Change) -> tuple[bool, bool, float]:
    decided = change.verdict in (Verdict.FASTER, Verdict.SLOWER)
    return change.verdict is Verdict.BROKEN, decided, abs(math.log(change.ratio)) if change.ratio else -1.0


def compare(
    a: tuple[RunRecord, Sequence[VariantRecord]],
    b: tuple[RunRecord, Sequence[VariantRecord]],
    *,
    relative: bool = False,
    seed: int = 0,
    peers: tuple[Sequence[VariantRecord], Sequence[VariantRecord]] | None = None,
) -> Comparison:
    """Compare two runs.

    Args:
        a: Facts and records of the first.
        b: Facts and records of the second.
        relative: Compare throughputs relative to the interleaved baseline.
        seed: Seed of the bootstrap.
        peers: All variants of both runs, from which predicted times follow; the records themselves by default.

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
            accepted="runs of one experiment, runs with the same kernel names, parameters and problems, or one "
            "variant of each: A#ID B#ID",
        )
    rng = np.random.default_rng(seed)
    pairs = [(keyed_a[key], keyed_b[key]) for key in common]
    predicted = _predicted(pairs, *(peers or (records_a, records_b)), relative=relative)
    changes = tuple(_change(before, after, predicted, relative=relative, rng=rng) for before, after in pairs)
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


def compare_folders(a: Path | str, b: Path | str, *, relative: bool = False, explain: bool = True) -> Comparison:
    """Compare two runs or two variants, given by path; see `lab.runs.sides` and `compare`.

    Two runs of a single variant each are compared as these variants are, whatever their parameters.

    Args:
        a: The first side.
        b: The second side.
        relative: Compare throughputs relative to the interleaved baseline.
        explain: Contrast the variants of the leading change.

    Raises:
        UserError: the runs have no variant in common, or lack the variant that is named.
        StoreError: there is no run, or it cannot be read.
    """
    first, second = read_side(str(a)), read_side(str(b))
    if len(first.records) == len(second.records) == 1:
        compared = _compare_variants(first, second, relative=relative)
    else:
        sides, peers = ((first.run, first.records), (second.run, second.records)), (first.peers, second.peers)
        compared = compare(*sides, relative=relative, peers=peers)
    return replace(compared, contrast=_contrast(compared.leading, first, second)) if explain else compared


def _compare_variants(a: Side, b: Side, *, relative: bool) -> Comparison:
    """Compare two variants with any parameters."""
    ((record_a,), (record_b,)) = a.records, b.records
    predicted = _predicted([(record_a, record_b)], a.peers, b.peers, relative=relative)
    change = _change(record_a, record_b, predicted, relative=relative, rng=np.random.default_rng(0))
    lines: tuple[str, ...] = ()
    if a.source is not None and b.source is not None:
        sources = a.source.splitlines(), b.source.splitlines()
        lines = tuple(difflib.unified_diff(*sources, record_a.variant, record_b.variant, n=1, lineterm=""))
    return Comparison(a.run, b.run, (change,), (), (), None, relative, lines)


def _contrast(change: Change, a: Side, b: Side) -> Contrast:
    """Contrast the variants of a change by all that is stored of them."""
    predicted = mutual_estimates(a.peers, b.peers)
    sides = []
    for side, variant, estimates in zip((a, b), (change.variant_a, change.variant_b), predicted, strict=True):
        detail = read_detail(side, variant)
        estimate = None if detail.record.status.failed else estimates.get(variant)
        sides.append(ContrastSide(detail.record, detail.evidence, advise(detail.evidence), estimate, detail.source))
    return contrast(sides[0], sides[1], change.ratio, change.tolerance)


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


_Predicted = tuple[Mapping[str, TimeEstimate], Mapping[str, TimeEstimate]]
"""Predicted times of both runs, by variant."""


def _predicted(
    pairs: Sequence[tuple[VariantRecord, VariantRecord]],
    peers_a: Sequence[VariantRecord],
    peers_b: Sequence[VariantRecord],
    *,
    relative: bool,
) -> _Predicted:
    """Predict the times of both runs, where times of some pair are missing."""
    if relative or all(a.measurement and b.measurement for a, b in pairs):
        return {}, {}
    return mutual_estimates(peers_a, peers_b)


def _change(
    a: VariantRecord, b: VariantRecord, predicted: _Predicted, *, relative: bool, rng: np.random.Generator
) -> Change:
    ratio = low = high = kind = before = after = None
    tolerance, same = 1 + SAME, False
    timed = _times(a, relative=relative), _times(b, relative=relative)
    if timed[0] and timed[1]:
        (ratio, low, high), kind = ratio_interval(timed[0], timed[1], rng), Kind.MEASURED
        before, after = (ComparedTime(side[0].median, side[0].p20, side[0].p80) for side in timed)
    elif not a.status.failed and not b.status.failed:
        first, second = predicted[0].get(a.variant), predicted[1].get(b.variant)
        if first is not None and second is not None:
            kind, ratio = Kind.PREDICTED, first.ms / second.ms
            tolerance, error = mutual_error(first, second)
            low, high, same = ratio / error, ratio * error, 1 / tolerance <= ratio <= tolerance
            before, after = _predicted_time(a, first), _predicted_time(b, second)
    return Change(
        kernel=b.kernel,
        label=b.label,
        variant_a=a.variant,
        variant_b=b.variant,
        verdict=_verdict(a, b, low, high, same=same),
        ratio=ratio,
        low=low,
        high=high,
        n_a=timed[0][0].n if timed[0] else 0,
        n_b=timed[1][0].n if timed[1] else 0,
        same_code=a.build.sass_sha256 == b.build.sass_sha256 if a.build and b.build else None,
        figures={name: (of(a), of(b)) for name, of in _FIGURES.items()},
        kind=kind,
        tolerance=tolerance,
        time_a=before,
        time_b=after,
        reasons=(a.reason, b.reason),
        unlike=dict(_unlike(a, b)),
    )


def _predicted_time(record: VariantRecord, estimate: TimeEstimate) -> ComparedTime:
    gpu = record.prediction.gpu if record.prediction else ""
    return ComparedTime(estimate.ms, estimate.low_ms, estimate.high_ms, gpu)


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


def _verdict(
    a: VariantRecord,
    b: VariantRecord,
    low: float | None,
    high: float | None,
    *,
    same: bool = False,
) -> Verdict:
    """Return the verdict; `same` is what is known of predicted times within their tolerance."""
    if a.status.failed != b.status.failed:
        return Verdict.BROKEN if b.status.failed else Verdict.MENDED
    if low is None or high is None:
        return Verdict.NOT_COMPARED
    if same or (low > 1 - SAME and high < 1 + SAME):
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
