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
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.base.sizes import Size
from lab.gpu.timing.survey import most_ms
from lab.measured.timing import Samples
from lab.store import published
from lab.store.tuning import TuningStore
from lab.store.tuning_model import FinalSizes, TimingStage
from lab.tuning.choose import halving
from lab.tuning.file.size_lists import Sizes
from lab.tuning.file.tuning_schema import HalvingModel

Table = Mapping[str, Mapping[Size, Samples]]
"""Samples by kernel and size; a kernel that failed at a size has no samples there."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of halving rules applied to a table.

    Attributes:
        coarse: Sizes at which all kernels would have run.
        pairs: Pairs of kernel and size in the table.
        run: Pairs that would have run at all.
        sampled_once: Pairs of these that would have got one sample alone.
        brute_ms: Device time of all samples of all pairs, ms.
        halved_ms: Device time of the samples that would have been taken, ms.
        losses: For each size the time that the kernel with the least time among those taken needs beyond the fastest
            one's, as a share of the latter's.
    """

    coarse: int
    pairs: int
    run: int
    sampled_once: int
    brute_ms: float
    halved_ms: float
    losses: Mapping[Size, float]

    @property
    def mean(self) -> float:
        """Mean loss over the sizes."""
        return math.fsum(self.losses.values()) / len(self.losses)

    def quantile(self, share: float) -> float:
        """Return the loss not exceeded by this share of the sizes; 1 gives the worst."""
        return float(np.quantile(list(self.losses.values()), share, method="inverted_cdf"))

    @property
    def worst(self) -> Size:
        """The size with the largest loss."""
        return max(self.losses, key=lambda size: self.losses[size])


def replay(sizes: Sizes, table: Table, rules: HalvingModel) -> Replay:
    """Replay step 7 under `rules`, except `below_prediction`: a table has no predictions.

    A kernel that gets all samples takes as many as the size's other kernels, at its median: of a table whose own run
    stopped slow kernels after a first sample, that is an estimate.

    Args:
        sizes: Those of step 7; each needs a time of at least one kernel.
        table: Samples of every kernel at every size.
        rules: What may be left out.
    """
    at = {size: {name: own[size] for name, own in table.items() if size in own} for size in sizes.all}
    first = halving.coarse(sizes, rules.coarse, rules.coarse_gflop)
    everywhere = frozenset(first)
    coarse_times = {name: {size: own[size].median for size in first if size in own} for name, own in table.items()}
    run = once = 0
    brute_ms = halved_ms = 0.0
    losses = {}
    for size, samples in at.items():
        entrants = samples if size in everywhere else _surviving(size, samples, coarse_times, first, rules)
        dropped = _dropped(entrants, rules.drop)
        count = max(timing.n for timing in samples.values())
        full_ms = {name: timing.batch * timing.median * count for name, timing in samples.items()}
        brute_ms += math.fsum(full_ms.values())
        halved_ms += math.fsum(
            timing.batch * timing.ms[0] if name in dropped else full_ms[name] for name, timing in entrants.items()
        )
        recorded_ms = {name: timing.ms[0] if name in dropped else timing.median for name, timing in entrants.items()}
        picked = min(recorded_ms, key=lambda name: recorded_ms[name])
        best = min(timing.median for timing in samples.values())
        losses[size] = samples[picked].median / best - 1
        run += len(entrants)
        once += len(dropped)
    return Replay(len(first), sum(map(len, at.values())), run, once, brute_ms, halved_ms, losses)


def _surviving(
    size: Size, samples: Mapping[str, Samples], coarse_times: halving.Ms, first: Sequence[Size], rules: HalvingModel
) -> Mapping[str, Samples]:
    eligible = {name: times for name, times in coarse_times.items() if name in samples}
    good = halving.survivors(size, eligible, first, nearest=rules.nearest, keep=rules.keep)
    return {name: timing for name, timing in samples.items() if name in good} or samples


def _dropped(entrants: Mapping[str, Samples], drop: float) -> set[str]:
    """Return the kernels that are dropped after their first sample."""
    fastest = min(timing.ms[0] for timing in entrants.values())
    return {name for name, timing in entrants.items() if timing.ms[0] > most_ms(fastest, drop, timing.batch)}


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
    timed_by_most = {size for size, count in counts.items() if count == most}
    table: dict[str, dict[Size, Samples]] = {
        name: {size: own[size] for size in every if size in timed_by_most}
        for name, own in timed_kernels.items()
        if timed_by_most <= own.keys()
    }
    ranges, exact = (tuple(size for size in sizes if size in timed_by_most) for sizes in (final.ranges, final.exact))
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
