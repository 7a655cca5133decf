r"""Compare estimated times of kernels that nobody tuned the model for with their times on a GPU.

python benchmarks/unseen_kernels.py docs/results/predictions.md --commit 454d3044 --measured RUNS --estimated RUNS \
    --before RUNS --before-commit 02af100c --learned csr_spmv …

A folder of runs has a run directory for each kernel. Those of `--measured` come from a GPU, the others from a machine
without one. Variants are matched by their parameters. Kernels of `--learned` were in view while the model changed; the
others were not opened before the commit.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from score_agreement import correlation  # the module beside this one

from lab.predict.time_estimates import TimeEstimate, estimates
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


def _compared(estimated: Path, measured: Path) -> Agreement:
    """Match the variants of two runs of one kernel; both must have the same ones."""
    timed = {record.label: record.measurement for record in _records(measured) if record.measurement is not None}
    # whether L2 is warm is known of the measurement alone
    records = [replace(r, measurement=timed[r.label]) for r in _records(estimated) if r.label in timed]
    times = estimates(records)
    pairs = [
        (record.measurement.samples.median, times[record.variant])
        for record in records
        if record.measurement is not None and record.variant in times
    ]
    if len(pairs) < len(timed):
        print(f"{measured.name}: {len(timed) - len(pairs)} of {len(timed)} measured variants have no estimate")
    return agreement_of(pairs)


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
    parser.add_argument("page", type=Path, help="the page that is written")
    for name in ("measured", "estimated", "before"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="folder of run directories")
    parser.add_argument("--commit", required=True, help="commit of --estimated")
    parser.add_argument("--before-commit", required=True, help="commit of --before")
    parser.add_argument("--learned", nargs="*", default=[], help="kernels that were in view")
    given = parser.parse_args()
    names = sorted(run.name for run in given.measured.iterdir() if (given.estimated / run.name).exists())
    rows = [
        (
            name,
            _compared(given.estimated / name, given.measured / name),
            _compared(given.before / name, given.measured / name),
        )
        for name in names
    ]
    sections = [_HEAD.format(commit=given.commit, before=given.before_commit)]
    for title, learned in (("Held out", False), ("In view while the model changed", True)):
        if chosen := [row for row in rows if (row[0] in given.learned) == learned]:
            sections.append(f"## {title}\n\n{table(chosen)}\n")
    given.page.write_text("\n".join(sections), encoding="utf-8")
    print(given.page)


if __name__ == "__main__":
    main()
