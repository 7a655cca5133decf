"""Hold the times by counted work (`lab.predict.score`) of published pages against the measured ones, page by page.

python benchmarks/tensor_agreement.py reports/h200/hgemm_ladder

A page says nothing where its variants were not executed on the CPU; `benchmarks/estimate_again.py --counts` makes a run
directory with counts of such a page, which may be named here, too.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from scipy.stats import spearmanr

from lab.predict.variant_scores import scores
from lab.recorded.run_records import VariantRecord
from lab.runs.sides import read_side
from lab.store.figures import by_problem


def _first_picks(
    groups: Iterable[Sequence[VariantRecord]], times_by_variant: Mapping[str, tuple[float, float]]
) -> list[float]:
    """Return, for each problem, the fastest time over the time of the variant with the lowest estimate."""
    times = (
        [times_by_variant[record.variant] for record in group if record.variant in times_by_variant] for group in groups
    )
    return [min(ms for _, ms in own) / min(own)[1] for own in times if len(own) > 1]


def agreement(time_pairs: Sequence[tuple[float, float]]) -> str:
    """Say how well estimated times agree with measured ones: their errors and their order."""
    errors = sorted(abs(made / ms - 1) for made, ms in time_pairs)
    rank = spearmanr(*zip(*time_pairs, strict=True))[0]
    return f"median error {median(errors):.1%}, p90 {errors[int(0.9 * len(errors))]:.1%}, rank {rank:.2f}"


def main() -> None:
    """Print a line for each page, and one for each of its kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, nargs="+", help="published pages or run directories")
    for page in parser.parse_args().pages:
        side = read_side(str(page))
        estimates = scores(side.records)
        times_by_variant = {
            record.variant: (1e3 * estimates[record.variant].seconds, record.measurement.samples.median)
            for record in side.records
            if record.measurement is not None and record.variant in estimates
        }
        if not times_by_variant:
            print(f"{page.name}: no measured variant was executed on the CPU")
            continue
        picks = _first_picks(by_problem(side.run, side.records).values(), times_by_variant)
        print(
            f"{page.name}: {len(times_by_variant)} variants, {agreement(list(times_by_variant.values()))}, first picks "
            f"{', '.join(f'{pick:.1%}' for pick in picks)}"
        )
        kernels: dict[str, list[float]] = defaultdict(list)
        for record in side.records:
            if record.variant in times_by_variant:
                made, ms = times_by_variant[record.variant]
                kernels[record.kernel].append(made / ms)
        for kernel, ratios in kernels.items():
            print(f"    {kernel}: {len(ratios)} variants, estimate over measured {median(ratios):.2f}")


if __name__ == "__main__":
    main()
