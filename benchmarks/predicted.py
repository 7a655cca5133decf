"""Write a page of what is estimated of kernels before anyone measured them.

python -m lab run experiments/others/fir.yaml --no-gpu -o RUN
python benchmarks/predicted.py benchmarks/predicted.md RUN …

The times are those of `lab.predict.time_estimates` for the runs given, which need no GPU. The file is committed before
the kernels are measured, so that what a model says of them cannot follow what a GPU said.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from lab.base import environment
from lab.predict.time_estimates import TimeEstimate, cannot_tell, estimates
from lab.store.database import Store
from lab.store.lean import lean_records

_HEAD = """\
<!-- made by benchmarks/predicted.py; do not edit -->
# Predicted before they were measured

Estimated times of kernels of experiments/others on an H200, before any of them ran on a GPU, at commit {commit}.
Where the times of a sweep lie within 20 % of each other it has no first pick.

| kernel | variants | first pick | estimated µs | likely between | slowest |
|---|---:|---|---:|---:|---:|
{rows}

"""


def main(page: Path, runs: Sequence[Path]) -> None:
    """Write the page of some run directories."""
    rows, sections = [], []
    for run in runs:
        with Store(run) as store:
            name, records = store.run().experiment, lean_records(store)
        found = estimates(records)
        known = [record for record in records if record.variant in found]
        ordered = sorted(((found[v.variant].ms, v.label, found[v.variant]) for v in known), key=lambda row: row[:2])
        first, last = ordered[0][2], ordered[-1][2]
        pick = "cannot tell" if cannot_tell(list(found.values())) else ordered[0][1]
        between = f"{first.low_ms * 1e3:.0f} to {first.high_ms * 1e3:.0f}"
        rows.append(
            f"| [{name}](../experiments/others/{name}.yaml) | {len(ordered)} of {len(records)} | {pick} "
            f"| {first.ms * 1e3:.1f} | {between} | {last.ms * 1e3:.1f} |"
        )
        sections += [f"## {name}", "", "| variant | estimated µs | low | high |", "|---|---:|---:|---:|"]
        sections += [f"| {label} | {_times(one)} |" for _, label, one in ordered] + [""]
    head = _HEAD.format(commit=environment.commit().removesuffix("+dirty"), rows="\n".join(rows))
    page.write_text(head + "\n".join(sections), encoding="utf-8")
    print(page)


def _times(estimate: TimeEstimate) -> str:
    return " | ".join(f"{ms * 1e3:.1f}" for ms in (estimate.ms, estimate.low_ms, estimate.high_ms))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(one) for one in sys.argv[2:]])
