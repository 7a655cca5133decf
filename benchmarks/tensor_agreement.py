"""Hold the times by counted work (`lab.predict.score`) of published pages against the measured ones, page by page.

python benchmarks/tensor_agreement.py reports/h200/hgemm_ladder

A page says nothing where its variants were not executed on the CPU; `benchmarks/estimate_again.py --counts` makes a run
directory with counts of such a page, which may be named here, too.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import median

from scipy.stats import spearmanr

from lab.predict.score import KernelScore
from lab.store import published
from lab.store.database import Store
from lab.store.model import VariantRecord
from lab.store.scores import scores


def _records(folder: Path) -> tuple[VariantRecord, ...]:
    """The records of a published page or of a run directory."""
    if (folder / "run.sqlite").exists():
        with Store(folder) as store:
            return tuple(store.each())
    return published.read_records(folder).records


def _first_picks(found: list[tuple[VariantRecord, float, KernelScore]]) -> list[float]:
    """What the variant with the least estimate reaches of the fastest one, of each problem."""
    groups: dict[tuple[object, ...], list[tuple[float, float]]] = defaultdict(list)
    for record, ms, one in found:
        groups[tuple(record.problem.items())].append((one.seconds, ms))
    return [min(ms for _, ms in group) / min(group)[1] for group in groups.values() if len(group) > 1]


def main() -> None:
    """Print a line for each page, and one for each of its kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, nargs="+", help="published pages or run directories")
    for page in parser.parse_args().pages:
        records = _records(page)
        estimates = scores(records)
        found = [
            (record, record.measurement.samples.median, estimates[record.variant])
            for record in records
            if record.measurement is not None and record.variant in estimates
        ]
        if not found:
            print(f"{page.name}: no measured variant was executed on the CPU")
            continue
        errors = sorted(abs(1e3 * one.seconds / ms - 1) for _, ms, one in found)
        rank = spearmanr([ms for _, ms, _ in found], [one.seconds for *_, one in found])[0]
        picks = _first_picks(found)
        print(
            f"{page.name}: {len(found)} variants, median error {median(errors):.1%}, "
            f"p90 {errors[int(0.9 * len(errors))]:.1%}, rank {rank:.2f}, first picks "
            f"{', '.join(f'{pick:.1%}' for pick in picks)}"
        )
        kernels: dict[str, list[float]] = defaultdict(list)
        for record, ms, one in found:
            kernels[record.kernel].append(1e3 * one.seconds / ms)
        for kernel, ratios in kernels.items():
            print(f"    {kernel}: {len(ratios)} variants, estimate over measured {median(ratios):.2f}")


if __name__ == "__main__":
    main()
