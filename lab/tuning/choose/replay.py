"""Replay halving on a complete table of times: time saved and losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.base.sizes import Size
from lab.gpu.timing.survey import most_ms
from lab.measured.timing import Samples
from lab.tuning.choose import halving
from lab.tuning.file.schema import HalvingModel
from lab.tuning.file.sizes import Sizes

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
