"""Savings and losses of halving against brute force: step 7 replayed on a complete table.

    python benchmarks/halving_loss.py RUN [--coarse 2 3 4] [--nearest 4] [--keep 0.1 0.2 0.3] [--drop 0.15]

RUN is the folder of a `lab tune` run, best of one with `halving: null`, or of committed results. Of a run that halving
cut itself, only its complete part counts: the sizes at which most kernels have a time, and the kernels that have one at
all of them. Its coarse sizes are such a part. They lie further apart than the run's own sizes, so what is good at one
says less of the next.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.base.sizes import Size
from lab.measured.timing import Samples
from lab.store import published
from lab.store.tuning import TuningStore
from lab.store.tuning_model import FinalSizes, TimingStage
from lab.tuning.choose.replay import Table, replay
from lab.tuning.file.schema import HalvingModel
from lab.tuning.file.sizes import Sizes


def tables(folder: Path) -> Iterator[tuple[str, Sizes, Table]]:
    """Yield the complete part of each problem type of a run."""
    with TuningStore(folder) as store:
        facts, kernels, times = store.facts(), store.kernels(), store.times(TimingStage.FINAL)
    for label, final in facts.final.items():
        timed_kernels = {
            kernel.name: {size: timed.samples for size, timed in times.get(kernel.id, {}).items() if timed.samples}
            for kernel in kernels
            if kernel.type == label
        }
        yield f"{label}, {facts.kind}", *complete(final, timed_kernels)


def complete(final: FinalSizes, timed_kernels: Table) -> tuple[Sizes, Table]:
    """Return the sizes at which most kernels have a time, and the kernels that have one at all of them."""
    every = dict.fromkeys((*final.ranges, *final.exact))
    counts = {size: sum(size in own for own in timed_kernels.values()) for size in every}
    most = max(counts.values(), default=0)
    if most == 0:
        return Sizes(), {}
    kept = {size for size, count in counts.items() if count == most}
    table: dict[str, dict[Size, Samples]] = {
        name: {size: own[size] for size in every if size in kept}
        for name, own in timed_kernels.items()
        if kept <= own.keys()
    }
    ranges, exact = (tuple(size for size in sizes if size in kept) for sizes in (final.ranges, final.exact))
    return Sizes(ranges, exact), table


def show(label: str, sizes: Sizes, table: Table, rules: list[HalvingModel]) -> None:
    """Print a row for each set of rules."""
    print(f"{label}: {len(sizes.all)} sizes, {len(table)} kernels")
    print(
        "coarse nearest  keep  drop | coarse sizes  pairs run  sampled once  device time | loss: mean    p90  worst  at"
    )
    for rule in rules:
        found = replay(sizes, table, rule)
        print(
            f"{rule.coarse:>6}{rule.nearest:>8}{rule.keep:>6g}{rule.drop:>6g} |{found.coarse:>13}"
            f"{found.run / found.pairs:>11.1%}{found.sampled_once / found.pairs:>14.1%}"
            f"{found.halved_ms / found.brute_ms:>13.1%} |{found.mean:>11.2%}{found.quantile(0.9):>7.1%}"
            f"{found.quantile(1):>7.1%}  {' x '.join(map(str, found.worst))}"
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--coarse", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--nearest", type=int, nargs="+", default=[4])
    parser.add_argument("--keep", type=float, nargs="+", default=[0.1, 0.2, 0.3])
    parser.add_argument("--drop", type=float, nargs="+", default=[0.15])
    options = parser.parse_args()
    rules = [
        HalvingModel.model_validate({"coarse": coarse, "nearest": nearest, "keep": keep, "drop": drop})
        for coarse, nearest, keep, drop in itertools.product(
            options.coarse, options.nearest, options.keep, options.drop
        )
    ]
    with tempfile.TemporaryDirectory() as temporary:
        run = options.run
        if published.is_published(run):
            run = Path(temporary) / "run"
            published.restore(options.run, run)
        for label, sizes, table in tables(run):
            if len(sizes.all) > 1:
                show(label, sizes, table, rules)
            else:
                print(f"{label}: no two sizes have times of the same kernels")


if __name__ == "__main__":
    main()
