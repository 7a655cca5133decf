"""Scaling of the work from the emulated problem size to the real one.

Where throughput counts operations, these say it. Else the least bytes of the problem do, unless what was executed at
half of a size shows that instructions grow faster than bytes (`EmulationRecord.growth`): a row of attention reads all
keys, so that twice the queries and twice the keys are four times the work on twice the bytes.

Where the CPU executed three sizes or more, curves through their counts (`lab.predict.count_curves`) come first: what a
block does once and what it does for each step add up, and no power of the size describes the sum.

Threads beyond the data either leave at once, so that the instructions of all threads grow by whole powers of the
sizes; or they compute something that nobody keeps, so that those of a block do, and the grids at both sizes say how
many blocks there are. A small problem rarely fills its blocks evenly: only one of the two then shows whole powers, the
same ones in all variants.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from lab.base.expressions import Scalar
from lab.measured.timing import Merit
from lab.predict.count_curves import FIGURES, CountsBySize, figure_of, follows_blocks, resized_counts
from lab.recorded.run_records import LaunchRecord, VariantRecord

_REGULAR: Final = 0.1
"""Distance from a whole number up to which a power is regular: fixed work and partial tiles shift it."""
_CLEARLY: Final = 1.25
"""Factor by which instructions must grow faster than bytes to define the work."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Ratios of executed instructions in the hot loop, in other loops, and outside of loops."""

    hot: float
    around: float
    outside: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The work of a problem relative to the emulated one.

    Attributes:
        likely: The factor.
        most: The factor if growth that is not regular, with no whole power of a size, goes on as between the two sizes
            that were executed; else `likely`.
        by_blocks: Blocks that the executed problem fills in part showed it: each executes as much as at the real size,
            of which there are so many.
        parts: How the instructions of a single launch grow, where curves through counts say it.
    """

    likely: float
    most: float
    by_blocks: bool = False
    parts: Parts | None = None


@dataclass(frozen=True, slots=True)
class _Powers:
    """Growth exponents of one problem's variants, by size, over all blocks or per block."""

    shown: Mapping[str, tuple[float, ...]]

    @property
    def middle(self) -> Mapping[str, float]:
        return {name: median(powers) for name, powers in self.shown.items()}

    @property
    def away(self) -> float:
        """Mean distance of the variants' exponents from common whole powers, at the worst size."""
        return max(
            sum(abs(power - round(self.middle[name])) for power in powers) / len(powers)
            for name, powers in self.shown.items()
        )

    def growth(self, ratios: Mapping[str, float], blocks: float) -> Growth:
        """Return the growth for ratios of sizes and of blocks; its likely value is 1 if it is irregular."""
        powers = self.middle
        upper = blocks * math.prod(ratio ** powers[name] for name, ratio in ratios.items())
        if any(abs(power - round(power)) > _REGULAR for power in powers.values()):
            return Growth(1.0, upper)
        likely = blocks * math.prod(ratio ** round(powers[name]) for name, ratio in ratios.items())
        return Growth(likely, likely)


def declared(record: VariantRecord) -> float:
    """Return the declared work relative to the small problem: operations if they count, else bytes."""
    emulated = record.emulation.counted if record.emulation is not None else None
    if emulated is not None and record.merit is Merit.TFLOPS and emulated.flops and record.flops:
        return record.flops / emulated.flops
    return record.bytes_moved / emulated.bytes_needed if emulated is not None and emulated.bytes_needed else 1.0


def counted(records: Sequence[VariantRecord]) -> dict[str, Growth]:
    """Return the growth of executed instructions to the real size, by variant id.

    Returns:
        Nothing where a size that differs was not halved in any variant, or throughput counts operations.
    """
    if any(record.emulation is None or record.merit is Merit.TFLOPS for record in records):
        return {}
    ratios = {record.variant: _ratios(record) for record in records}
    differing = {name for own_ratios in ratios.values() for name in own_ratios}
    emulations = [record.emulation.counted for record in records if record.emulation is not None]
    overall_powers = _powers([emulation.growth for emulation in emulations], differing)
    of_block = _powers([emulation.growth_of_block for emulation in emulations], differing)
    if not differing or overall_powers is None:
        return {}
    if of_block is None or overall_powers.away <= of_block.away:
        return {variant: overall_powers.growth(own_ratios, 1.0) for variant, own_ratios in ratios.items()}
    regular = overall_powers.away > _REGULAR >= of_block.away
    grown = {record.variant: of_block.growth(ratios[record.variant], _blocks(record)) for record in records}
    return {variant: replace(growth, by_blocks=regular) for variant, growth in grown.items()}


def _powers(variant_powers: Sequence[Mapping[str, float]], differing: Iterable[str]) -> _Powers | None:
    """Return the variants' exponents of the differing sizes; None if no variant has one of a size."""
    powers_by_size = {name: tuple(powers[name] for powers in variant_powers if name in powers) for name in differing}
    return _Powers(powers_by_size) if all(powers_by_size.values()) else None


def _blocks(record: VariantRecord) -> float:
    """Return the blocks of all launches relative to those of the small problem."""
    real: Sequence[LaunchRecord | None] = [step.launch for step in record.steps] or [record.launch]
    assert record.emulation is not None  # noqa: S101 - the caller looked
    small = sum(math.prod(step.launch.grid) for step in record.emulation.counted.launches)
    return sum(math.prod(launch.grid) for launch in real if launch is not None) / small if small else 1.0


def works(records: Sequence[VariantRecord], labels: Mapping[str, str] | None = None) -> dict[str, Growth]:
    """Return the growth of the work of one problem's variants, by variant id.

    Curves through what was counted decide where they account for all of it, for all variants alike. Else what was
    counted decides where it grows clearly faster than what the problem declares; and also where it grows less because
    the executed problem fills its blocks in part, so that more is computed than it keeps.

    Args:
        records: The variants.
        labels: Label of the hot loop of variants with a single launch.
    """
    if (curved := _curved(records, labels or {})) is not None:
        return curved
    grown_counts = counted(records)
    growths = {}
    for record in records:
        least, grown = declared(record), grown_counts.get(record.variant)
        if grown is None:
            growths[record.variant] = Growth(least, least)
        elif grown.by_blocks:
            growths[record.variant] = grown
        else:
            likely, upper = (x if x > _CLEARLY * least else least for x in (grown.likely, grown.most))
            growths[record.variant] = Growth(likely, max(likely, upper))
    return growths


def _curved(records: Sequence[VariantRecord], labels: Mapping[str, str]) -> dict[str, Growth] | None:
    """Return the growth by fitted curves; None if they do not explain the counts or throughput counts operations."""
    curves = {
        record.variant: CountsBySize(done.problem, resized_counts({}, done.launches), done.resized)
        for record in records
        if record.emulation is not None and (done := record.emulation.counted).resized
    }
    if not curves or any(record.emulation is None or record.merit is Merit.TFLOPS for record in records):
        return None
    growths = {}
    for record in records:
        sources = {record.variant: curves[record.variant]} if record.variant in curves else curves
        grown = [_by_curves(record, counts, labels.get(variant, "")) for variant, counts in sources.items()]
        certain = [growth for growth in grown if growth is not None]
        if len(certain) < len(grown):
            return None
        growths[record.variant] = sorted(certain, key=lambda growth: growth.likely)[len(certain) // 2]
    return growths


def _by_curves(record: VariantRecord, reference: CountsBySize, label: str) -> Growth | None:
    """Return the growth of a variant by another variant's curves; its grid must grow as theirs did."""
    assert record.emulation is not None  # noqa: S101 - the caller looked
    small, real, sizes = record.emulation.counted.problem, record.problem, reference.problem
    names = [name for name in sizes if name in _ratios(record) or small.get(name) != sizes[name]]
    at_small, at_real = ({name: _over(problem.get(name), sizes[name]) for name in names} for problem in (small, real))
    if not all((*at_small.values(), *at_real.values())):
        return None
    blocks = reference.factor("blocks", at_small, at_real, label)
    if not names or blocks is None or not follows_blocks(blocks, _blocks(record)):
        return None
    figure = "looped" if reference.of.looped else "executed"
    parts = [reference.factor(kind, at_small, at_real, label) for kind in FIGURES]
    hot, around, outside = parts
    if hot is not None and around is not None and outside is not None:
        counts = [figure_of(reference.of, kind, label) for kind in FIGURES]
        total = (hot * counts[0] + around * counts[1]) / reference.of.looped if reference.of.looped else outside
        return Growth(total, total, parts=Parts(hot, around, outside) if label else None)
    whole_only = reference.factor(figure, at_small, at_real, label)
    return Growth(whole_only, whole_only) if whole_only is not None else None


def _over(size: Scalar | None, counted: Scalar) -> float:
    """Return the ratio of two sizes; 0 if they are not sizes."""
    return size / counted if isinstance(size, int) and isinstance(counted, int) and counted > 0 else 0.0


def _ratios(record: VariantRecord) -> dict[str, float]:
    """Return the ratios of real to emulated size, for sizes that differ."""
    assert record.emulation is not None  # noqa: S101 - the caller looked
    small = record.emulation.counted.problem
    return {
        name: real / size
        for name, real in record.problem.items()
        if isinstance(real, int) and isinstance(size := small.get(name), int) and 0 < size < real
        if not isinstance(real, bool)
    }
