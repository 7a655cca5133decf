"""What halving would have saved and lost, by a table of times in which nothing was left out."""

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
"""Samples by kernel and size; a kernel that failed at a size has none there."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What some rules would have made of a table.

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
        """Loss that this share of the sizes does not exceed; 1 gives the worst."""
        return float(np.quantile(list(self.losses.values()), share, method="inverted_cdf"))

    @property
    def worst(self) -> Size:
        """The size that loses most."""
        return max(self.losses, key=lambda size: self.losses[size])


def replay(sizes: Sizes, table: Table, rules: HalvingModel) -> Replay:
    """Replay step 7 under `rules`, `below_prediction` left out: a table holds no predictions.

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
    known = {name: {size: own[size].median for size in first if size in own} for name, own in table.items()}
    run = once = 0
    brute_ms = halved_ms = 0.0
    losses = {}
    for size, samples in at.items():
        entrants = samples if size in everywhere else _surviving(size, samples, known, first, rules)
        dropped = _dropped(entrants, rules.drop)
        count = max(one.n for one in samples.values())
        full_ms = {name: one.batch * one.median * count for name, one in samples.items()}
        brute_ms += math.fsum(full_ms.values())
        halved_ms += math.fsum(
            one.batch * one.ms[0] if name in dropped else full_ms[name] for name, one in entrants.items()
        )
        taken = {name: one.ms[0] if name in dropped else one.median for name, one in entrants.items()}
        picked = min(taken, key=lambda name: taken[name])
        best = min(one.median for one in samples.values())
        losses[size] = samples[picked].median / best - 1
        run += len(entrants)
        once += len(dropped)
    return Replay(len(first), sum(map(len, at.values())), run, once, brute_ms, halved_ms, losses)


def _surviving(
    size: Size, samples: Mapping[str, Samples], known: halving.Ms, first: Sequence[Size], rules: HalvingModel
) -> Mapping[str, Samples]:
    eligible = {name: times for name, times in known.items() if name in samples}
    good = halving.survivors(size, eligible, first, nearest=rules.nearest, keep=rules.keep)
    return {name: one for name, one in samples.items() if name in good} or samples


def _dropped(entrants: Mapping[str, Samples], drop: float) -> set[str]:
    """Kernels whose first sample is so slow that they get no other."""
    fastest = min(one.ms[0] for one in entrants.values())
    return {name for name, one in entrants.items() if one.ms[0] > most_ms(fastest, drop, one.batch)}
