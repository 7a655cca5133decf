r"""Compare estimated times of kernels that nobody tuned the model for with their times on a GPU.

python benchmarks/unseen_kernels.py before.json --measured RUNS --estimated RUNS        (at the older commit)
python benchmarks/unseen_kernels.py docs/results/predictions.md --measured RUNS --estimated RUNS --commit 1dac344c \
    --before before.json --before-commit 02af100c --learned csr_spmv …

A folder of runs has a run directory for each kernel. Those of `--measured` come from a GPU, the others from a machine
without one. Variants are matched by their parameters. Without `--before`, only the estimates are written. Kernels of
`--learned` were in view while the model changed; the others were not.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from score_agreement import correlation  # the module beside this one

from lab.predict.time_estimates import COUNTS, TimeEstimate, estimates
from lab.predict.variant_scores import lean
from lab.recorded.run_records import VariantRecord
from lab.store.database import Store

_HEAD = """\
<!-- made by benchmarks/unseen_kernels.py; do not edit -->
# Predictions of unseen kernels

Estimates without a GPU against times on an H200. The kernels were written before the model was read and are not part of
the repository. Estimates are those of commit {commit}; "before" is commit {before}. The median of the errors over all
variants gives each kernel the same weight. "First pick" is the throughput of the variant with the least estimate over
the best one's.
"""
_COLUMNS = (
    "| kernel | variants | slowest over fastest | median error | before | p90 | before | bias | rank | before | "
    "first pick | before | in its interval |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of a kernel's estimates with its times.

    Attributes:
        errors: Relative error of each variant.
        bias: Median of estimate over time, minus 1.
        rank: Spearman's correlation; None where a side does not vary.
        first_pick: Least time over that of the variant with the least estimate.
        within: Share of the times in their intervals.
        spread: Greatest time over the least.
    """

    errors: tuple[float, ...]
    bias: float
    rank: float | None
    first_pick: float
    within: float
    spread: float


def agreement_of(pairs: Sequence[tuple[float, TimeEstimate]]) -> Agreement:
    """Compare times in milliseconds with their estimates, at least one of them."""
    ratios = np.array([estimate.ms / ms for ms, estimate in pairs])
    fastest = min(ms for ms, _ in pairs)
    return Agreement(
        tuple(abs(ratios - 1).tolist()),
        float(np.median(ratios)) - 1,
        correlation([(ms, estimate.ms) for ms, estimate in pairs]),
        fastest / min(pairs, key=lambda pair: pair[1].ms)[0],
        sum(estimate.low_ms <= ms <= estimate.high_ms for ms, estimate in pairs) / len(pairs),
        max(ms for ms, _ in pairs) / fastest,
    )


def _records(run: Path) -> list[VariantRecord]:
    with Store(run) as store:
        return [lean(record) for record in store.each()]


def _times_of(run: Path) -> dict[str, VariantRecord]:
    """Return the measured variants of a run by their parameters."""
    return {record.label: record for record in _records(run) if record.measurement is not None}


def _estimated(run: Path, timed: dict[str, VariantRecord]) -> dict[str, list[float]]:
    """Estimate the measured variants from a run without a GPU: time, least and greatest likely time, in ms."""
    # whether L2 is warm is known of the measurement alone
    records = [replace(r, measurement=timed[r.label].measurement) for r in _records(run) if r.label in timed]
    times = estimates(records)
    return {
        r.label: [times[r.variant].ms, times[r.variant].low_ms, times[r.variant].high_ms]
        for r in records
        if r.variant in times
    }


def _stored(figures: list[float]) -> TimeEstimate:
    ms, low_ms, high_ms = figures
    return TimeEstimate(ms, low_ms, high_ms, COUNTS)


def _compared(estimated: dict[str, list[float]], timed: dict[str, VariantRecord]) -> Agreement:
    return agreement_of(
        [
            (record.measurement.samples.median, _stored(estimated[label]))
            for label, record in timed.items()
            if record.measurement is not None and label in estimated
        ]
    )


def table(rows: Sequence[tuple[str, Agreement, Agreement]]) -> str:
    """Format rows of (kernel, agreement now, agreement before), and a row of all."""

    def cells(*figures: float | None) -> str:
        return " | ".join("" if figure is None else f"{figure:.2f}" for figure in figures)

    lines = [_COLUMNS]
    for name, now, before in rows:
        medians = " | ".join(f"{np.median(side.errors):.1%}" for side in (now, before))
        tails = " | ".join(f"{np.quantile(side.errors, 0.9):.0%}" for side in (now, before))
        lines.append(
            f"| {name} | {len(now.errors)} | {now.spread:.2f} | {medians} | {tails} | "
            f"{now.bias:+.1%} | {cells(now.rank, before.rank, now.first_pick, before.first_pick)} | {now.within:.0%} |"
        )
    now_all, before_all = [now for _, now, _ in rows], [before for _, _, before in rows]
    all_medians, all_tails = (
        " | ".join(f"{_of_all(side, share):.1%}" for side in (now_all, before_all)) for share in (0.5, 0.9)
    )
    count = sum(len(now.errors) for now in now_all)
    within = sum(now.within for now in now_all) / len(rows)
    lines.append(f"| all | {count} | | {all_medians} | {all_tails} | | | | | | {within:.0%} |")
    return "\n".join(lines)


def _of_all(side: Sequence[Agreement], share: float) -> float:
    """Return a quantile of the errors of all kernels, each with the same weight."""
    steps = np.linspace(0, 1, 101)
    return float(np.quantile(np.concatenate([np.quantile(kernel.errors, steps) for kernel in side]), share))


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, help="the page, or the file of estimates, that is written")
    for name in ("measured", "estimated"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="folder of run directories")
    parser.add_argument("--before", type=Path, default=None, help="estimates of an older commit, as it wrote them")
    parser.add_argument("--commit", default="", help="commit of --estimated")
    parser.add_argument("--before-commit", default="", help="commit of --before")
    parser.add_argument("--note", default="", help="paragraph about the choice of kernels")
    parser.add_argument("--learned", nargs="*", default=[], help="kernels that were in view")
    options = parser.parse_args()
    names = sorted(run.name for run in options.measured.iterdir() if (options.estimated / run.name).exists())
    timed = {name: _times_of(options.measured / name) for name in names}
    estimated = {name: _estimated(options.estimated / name, timed[name]) for name in names}
    if options.before is None:
        options.page.write_text(json.dumps(estimated), encoding="utf-8")
        return
    before = json.loads(options.before.read_text(encoding="utf-8"))
    rows = [(name, _compared(estimated[name], timed[name]), _compared(before[name], timed[name])) for name in names]
    sections = [_HEAD.format(commit=options.commit, before=options.before_commit)]
    if options.note:
        sections.append(options.note + "\n")
    for title, learned in (("Held out", False), ("In view while the model changed", True)):
        if chosen := [row for row in rows if (row[0] in options.learned) == learned]:
            sections.append(f"## {title}\n\n{table(chosen)}\n")
    options.page.write_text("\n".join(sections), encoding="utf-8")
    print(options.page)


if __name__ == "__main__":
    main()
