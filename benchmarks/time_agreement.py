"""Hold the estimated time of any kernel against committed times of an H200, by what was known when it was made.

python benchmarks/time_agreement.py

prints the tables that benchmarks/model.py puts into docs/explanation/model.md. Counts are those of the
reports' own executions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np
from recorded_space import FOLDER, read  # the modules beside this one
from score_agreement import LATER, OWN, REPORTS, correlation, scored_records

from lab.predict.time_estimates import COUNTS, SWEEP_ERROR, TimeEstimate, cannot_tell, estimates
from lab.recorded.run_records import VariantRecord
from lab.store import published
from lab.store.figures import by_problem, measured

ROOT = Path(__file__).parents[1]
PREDICTED = tuple(Path(__file__).parent / name for name in ("predicted_15.md", "predicted.md"))
"""Pages of benchmarks/predicted.py, the newest first."""
HELD = tuple((Path(__file__).parent / "held_out.txt").read_text(encoding="utf-8").split())
"""Kernels from elsewhere that no constant and no form is chosen by."""
UNSEEN = tuple(name for name in HELD if name not in (*OWN, *LATER, "plain/vector_add", "plain/softmax_triton"))
"""Those of them that were measured after the model and its intervals were made."""
KNOWN = tuple(name for name in HELD if name not in UNSEEN)
"""Those that were measured before; the errors' percentiles set the width of the intervals."""
TUNED = tuple(name for name in (*OWN, *LATER) if name not in HELD)
"""The other kernels from elsewhere, whose residuals led to changes."""
SCHEDULERS = (
    "fma_ceiling", "gemm_best", "gemm_bulk", "gemm_ladder", "gemm_odd", "gemm_small", "gemm_techniques", "gemm_unroll",
    "gemm_winners",
)  # fmt: skip
BLIND = ("convolution", "interactions")
"""Spaces whose times nobody looked at while the model was made."""
ENOUGH = 0.95
"""Share of the fastest variant's throughput that a first pick should reach."""
_FEWEST = 5


@dataclass(frozen=True, slots=True)
class Timed:
    """A measured variant with its estimate."""

    ms: float
    estimate: TimeEstimate


@dataclass(frozen=True, slots=True)
class Sweep:
    """The variants of one problem of a report.

    Attributes:
        name: The report.
        found: Its variants that have both times.
    """

    name: str
    found: tuple[Timed, ...]

    @property
    def reached(self) -> float:
        """Share of the fastest variant's throughput that the one with the least estimate reaches."""
        return self.fastest / min(self.found, key=lambda one: one.estimate.ms).ms

    @property
    def random(self) -> float:
        """The mean of that share over all variants."""
        return fmean(self.fastest / one.ms for one in self.found)

    @property
    def fastest(self) -> float:
        """Least measured time, in milliseconds."""
        return min(one.ms for one in self.found)

    @property
    def told(self) -> bool:
        """Return whether the estimates name a first variant."""
        return not cannot_tell([one.estimate for one in self.found])

    @property
    def rank(self) -> float | None:
        """Rank correlation; None with few variants, or where a side does not vary."""
        if len(self.found) < _FEWEST:
            return None
        return correlation([(one.ms, one.estimate.ms) for one in self.found])


def sweeps(name: str) -> tuple[Sweep, ...]:
    """Read a committed report; none where it is not there."""
    if not (ROOT / "reports" / "h200" / name / "records.json.xz").exists():
        return ()
    run, records = scored_records(name)
    # the models are chosen within a problem: only its variants are compared
    return tuple(
        Sweep(name, both)
        for group in by_problem(run, records).values()
        if (both := tuple(_timed(group, estimates(group))))
    )


def _timed(group: Sequence[VariantRecord], estimates: dict[str, TimeEstimate]) -> list[Timed]:
    return [
        Timed(one.measurement.samples.median, estimates[one.variant])
        for one in group
        if measured(one) is not None and one.measurement is not None and one.variant in estimates
    ]


def quantile(values: Sequence[tuple[float, float]], share: float) -> float:
    """Return a quantile of weighted values, (value, weight)."""
    ordered = sorted(values)
    sums = np.cumsum([weight for _, weight in ordered])
    return ordered[min(int(np.searchsorted(sums, share * sums[-1])), len(ordered) - 1)][0]


def row(title: str, sweeps: Sequence[Sweep]) -> str:
    """One list's line: every sweep has the same weight, however many variants it has."""
    ratios = [(one.estimate.ms / one.ms, 1 / len(sweep.found)) for sweep in sweeps for one in sweep.found]
    errors = [(abs(ratio - 1), weight) for ratio, weight in ratios]
    within_range = fmean(
        fmean(one.estimate.low_ms <= one.ms <= one.estimate.high_ms for one in s.found) for s in sweeps
    )
    wide = [(one.estimate.high_ms / one.estimate.low_ms, 1 / len(s.found)) for s in sweeps for one in s.found]
    ranks = [(rank, 1.0) for sweep in sweeps if (rank := sweep.rank) is not None]
    told = [sweep for sweep in sweeps if sweep.told and len(sweep.found) > 1]
    good = f"{sum(sweep.reached >= ENOUGH for sweep in told)} of {len(told)}"
    return (
        f"| {title} | {len(sweeps)} | {sum(len(s.found) for s in sweeps)} | {quantile(errors, 0.5):.1%} | "
        f"{quantile(errors, 0.9):.0%} | {quantile(ratios, 0.5) - 1:+.1%} | "
        f"{f'{quantile(ranks, 0.5):.2f}' if ranks else ''} | {good} | {within_range:.0%} | {quantile(wide, 0.5):.1f} |"
    )


HEADER = (
    "| list | sweeps | variants | median error | p90 | bias | rank | first pick at least 95 % | in its interval | "
    "width |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def lists() -> str:
    """The table of the lists."""
    templates = tuple(chain.from_iterable(map(sweeps, SCHEDULERS)))
    by_schedulers = [template for template in templates if template.found[0].estimate.origin != COUNTS]
    rows = [
        ("templates, model of the schedulers", by_schedulers),
        ("templates, counted work: its form was chosen with them in view", _all(REPORTS[:-1])),
        ("templates, counted work: contraction, nothing chosen for it", _all(REPORTS[-1:])),
        ("kernels from elsewhere, their residuals in view", _all(TUNED)),
        ("kernels from elsewhere, held out; their errors set the intervals", _all(KNOWN)),
        ("kernels from elsewhere, measured when the model was done", _all(UNSEEN)),
        ("kernels from elsewhere, predicted before they ran; their residuals in view since", _all(newest())),
    ]
    return "\n".join([HEADER, *(row(*one) for one in rows)])


def newest() -> tuple[str, ...]:
    """The kernels of the newest page of predictions."""
    return tuple(f"others/{name}" for name in committed(PREDICTED[0].read_text(encoding="utf-8")))


def _all(names: Sequence[str]) -> list[Sweep]:
    return [sweep for name in names for sweep in sweeps(name)]


def each(names: Sequence[str]) -> str:
    """One line a kernel."""
    lines = [
        "| kernel | variants | median error | bias | rank | first pick reaches | a random one | in its interval |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for sweep in _all(names):
        ratios = [one.estimate.ms / one.ms for one in sweep.found]
        within_range = fmean(one.estimate.low_ms <= one.ms <= one.estimate.high_ms for one in sweep.found)
        rank = "" if sweep.rank is None or math.isnan(sweep.rank) else f"{sweep.rank:.2f}"
        pick = f"{sweep.reached:.1%}" if sweep.told else f"cannot tell ({sweep.reached:.1%})"
        lines.append(
            f"| [{sweep.name.partition('/')[2]}](../../experiments/{sweep.name}.yaml) | {len(sweep.found)} | "
            f"{np.median([abs(ratio - 1) for ratio in ratios]):.1%} | {np.median(ratios) - 1:+.1%} | {rank} | "
            f"{pick} | {sweep.random:.1%} | {within_range:.0%} |"
        )
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Committed:
    """An estimate of one of `PREDICTED`, which was committed before its kernel ran on a GPU.

    Attributes:
        us: Estimated time, in microseconds.
        low_us: Least likely time.
        high_us: Greatest likely time.
    """

    us: float
    low_us: float
    high_us: float


def committed(page: str) -> dict[str, dict[str, Committed]]:
    """Read what was estimated: by kernel, then by the variant's label."""
    estimates: dict[str, dict[str, Committed]] = {}
    name = ""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            name = line[3:]
        elif name and len(cells) == _CELLS and _NUMBER.fullmatch(cells[1]):
            estimates.setdefault(name, {})[cells[0]] = Committed(*map(float, cells[1:]))
    return estimates


_CELLS = 4  # label, estimate, low, high
_NUMBER = re.compile(r"[0-9.]+")


def blind(page: Path) -> str:
    """The committed estimates of a page against what was measured afterwards: a line for each kernel, one of all."""
    lines = [
        "| kernel | variants | median error | bias | in its interval | first pick reaches |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    every: list[tuple[float, bool]] = []
    for name, estimated_us in committed(page.read_text(encoding="utf-8")).items():
        folder = ROOT / "reports" / "h200" / "others" / name
        if not (folder / "records.json.xz").exists():
            continue
        times = {
            record.label: record.measurement.samples.median * 1e3
            for record in published.read_records(folder).records
            if measured(record) is not None and record.measurement is not None
        }
        both = [(estimated_us[label], us) for label, us in times.items() if label in estimated_us]
        rows = [(one.us / us, one.low_us <= us <= one.high_us) for one, us in both]
        every += rows
        alike = max(one.us for one, _ in both) < SWEEP_ERROR * min(one.us for one, _ in both)
        reached = min(us for _, us in both) / min(both, key=lambda pair: pair[0].us)[1]
        pick = "cannot tell" if alike else f"{reached:.1%}"
        lines.append(f"| [{name}](../../experiments/others/{name}.yaml) | {_errors(rows)} | {pick} |")
    errors = [abs(ratio - 1) for ratio, _ in every]
    lines.append(f"| all, p90 of the error {np.quantile(errors, 0.9):.0%} | {_errors(every)} | |")
    return "\n".join(lines)


def spaces() -> str:
    """The spaces of benchmarks/spaces, whose every variant was measured, against the estimates in their files."""
    lines = [
        "| space | variants | median error | p90 | bias | rank | first pick reaches | the median variant |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    kept_spaces = sorted(map(read, FOLDER.glob("*.json.gz")), key=lambda kept: (kept.name not in BLIND, kept.name))
    for space in kept_spaces:
        timed = [variant for variant in space.variants if variant.ms is not None]
        kind = "estimate" if all("estimate" in one.estimates for one in timed) else "score"
        pairs = [(one.estimates[kind], one.ms) for one in timed if kind in one.estimates and one.ms is not None]
        ratios = [estimate / ms for estimate, ms in pairs]
        errors = [abs(ratio - 1) for ratio in ratios]
        picked, middle = min(pairs)[1], np.median([ms for _, ms in pairs])
        lines.append(
            f"| [{space.name}](../../experiments/spaces/{space.name}.yaml) | {len(pairs)} | {np.median(errors):.1%} | "
            f"{np.quantile(errors, 0.9):.0%} | {np.median(ratios) - 1:+.1%} | {correlation(pairs) or 0:.2f} | "
            f"{space.best_ms / picked:.1%} | {space.best_ms / middle:.1%} |"
        )
    return "\n".join(lines)


def _errors(rows: Sequence[tuple[float, bool]]) -> str:
    """Variants, median error, bias and how many lie in their intervals; rows are (estimate over measured, within)."""
    ratios = [ratio for ratio, _ in rows]
    error = np.median([abs(ratio - 1) for ratio in ratios])
    return f"{len(rows)} | {error:.1%} | {np.median(ratios) - 1:+.1%} | {sum(held for _, held in rows)} of {len(rows)}"


def main() -> None:
    """Print the tables."""
    print(lists())
    print(f"\n{spaces()}")
    for page in PREDICTED:
        print(f"\n{blind(page)}")
    for names in (TUNED, KNOWN, UNSEEN):
        print(f"\n{each(names)}")


if __name__ == "__main__":
    main()
