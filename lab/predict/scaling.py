"""How the work of a problem grows from the size that the CPU executed to the real one.

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
"""How far a power may lie from a whole number: what a block does once, and tiles filled in part, shift it so much."""
_CLEARLY: Final = 1.25
"""How many times faster than bytes instructions must grow to be what the work is taken from."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How often as many instructions are executed in the hot loop, in the other loops, and outside of loops."""

    hot: float
    around: float
    outside: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The work of a problem over that of the executed one.

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
    """The powers that the variants of one problem showed, by size, of all blocks together or of one."""

    shown: Mapping[str, tuple[float, ...]]

    @property
    def middle(self) -> Mapping[str, float]:
        return {name: median(found) for name, found in self.shown.items()}

    @property
    def away(self) -> float:
        """How far the variants are from whole powers that all share, at the worst size, in the mean."""
        return max(
            sum(abs(one - round(self.middle[name])) for one in found) / len(found) for name, found in self.shown.items()
        )

    def growth(self, ratios: Mapping[str, float], blocks: float) -> Growth:
        """Return what the sizes' ratios make, for so many times as many blocks; 1 likely where it is not regular."""
        powers = self.middle
        most = blocks * math.prod(ratio ** powers[name] for name, ratio in ratios.items())
        if any(abs(power - round(power)) > _REGULAR for power in powers.values()):
            return Growth(1.0, most)
        likely = blocks * math.prod(ratio ** round(powers[name]) for name, ratio in ratios.items())
        return Growth(likely, likely)


def declared(record: VariantRecord) -> float:
    """The work of the real problem over that of the small one: operations where they count, else bytes."""
    done = record.emulation.counted if record.emulation is not None else None
    if done is not None and record.merit is Merit.TFLOPS and done.flops and record.flops:
        return record.flops / done.flops
    return record.bytes_moved / done.bytes_needed if done is not None and done.bytes_needed else 1.0


def counted(records: Sequence[VariantRecord]) -> dict[str, Growth]:
    """How often as many instructions the variants of one problem execute at the real size, by variant id.

    Returns:
        Nothing where a size that differs was not halved in any variant, or throughput counts operations.
    """
    if any(record.emulation is None or record.merit is Merit.TFLOPS for record in records):
        return {}
    ratios = {record.variant: _ratios(record) for record in records}
    differing = {name for one in ratios.values() for name in one}
    done = [record.emulation.counted for record in records if record.emulation is not None]
    whole = _powers([one.growth for one in done], differing)
    of_block = _powers([one.growth_of_block for one in done], differing)
    if not differing or whole is None:
        return {}
    if of_block is None or whole.away <= of_block.away:
        return {variant: whole.growth(one, 1.0) for variant, one in ratios.items()}
    regular = whole.away > _REGULAR >= of_block.away
    grown = {record.variant: of_block.growth(ratios[record.variant], _blocks(record)) for record in records}
    return {variant: replace(one, by_blocks=regular) for variant, one in grown.items()}


def _powers(found: Sequence[Mapping[str, float]], differing: Iterable[str]) -> _Powers | None:
    """What variants showed of the sizes that differ; None where no variant showed one of them."""
    shown = {name: tuple(powers[name] for powers in found if name in powers) for name in differing}
    return _Powers(shown) if all(shown.values()) else None


def _blocks(record: VariantRecord) -> float:
    """Blocks of all launches over those of the small problem."""
    real: Sequence[LaunchRecord | None] = [step.launch for step in record.steps] or [record.launch]
    assert record.emulation is not None  # noqa: S101 - the caller looked
    small = sum(math.prod(step.launch.grid) for step in record.emulation.counted.launches)
    return sum(math.prod(one.grid) for one in real if one is not None) / small if small else 1.0


def works(records: Sequence[VariantRecord], labels: Mapping[str, str] | None = None) -> dict[str, Growth]:
    """How the work of the variants of one problem grows, by variant id.

    Curves through what was counted decide where they account for all of it, for all variants alike. Else what was
    counted decides where it grows clearly faster than what the problem declares; and also where it grows less because
    the executed problem fills its blocks in part, so that more is computed than it keeps.

    Args:
        records: The variants.
        labels: Label of the hot loop of variants with a single launch.
    """
    if (curved := _curved(records, labels or {})) is not None:
        return curved
    shown = counted(records)
    found = {}
    for record in records:
        least, grown = declared(record), shown.get(record.variant)
        if grown is None:
            found[record.variant] = Growth(least, least)
        elif grown.by_blocks:
            found[record.variant] = grown
        else:
            likely, most = (x if x > _CLEARLY * least else least for x in (grown.likely, grown.most))
            found[record.variant] = Growth(likely, max(likely, most))
    return found


def _curved(records: Sequence[VariantRecord], labels: Mapping[str, str]) -> dict[str, Growth] | None:
    """What curves say of all variants; None where they do not account for what was counted, or throughput does it."""
    known = {
        record.variant: CountsBySize(done.problem, resized_counts({}, done.launches), done.resized)
        for record in records
        if record.emulation is not None and (done := record.emulation.counted).resized
    }
    if not known or any(record.emulation is None or record.merit is Merit.TFLOPS for record in records):
        return None
    found = {}
    for record in records:
        shown = {record.variant: known[record.variant]} if record.variant in known else known
        grown = [_by_curves(record, one, labels.get(variant, "")) for variant, one in shown.items()]
        certain = [one for one in grown if one is not None]
        if len(certain) < len(grown):
            return None
        found[record.variant] = sorted(certain, key=lambda one: one.likely)[len(certain) // 2]
    return found


def _by_curves(record: VariantRecord, shown: CountsBySize, label: str) -> Growth | None:
    """What the curves of a variant say of a variant of the same problem, whose grid must grow as theirs did."""
    assert record.emulation is not None  # noqa: S101 - the caller looked
    small, real, sizes = record.emulation.counted.problem, record.problem, shown.problem
    names = [name for name in sizes if name in _ratios(record) or small.get(name) != sizes[name]]
    at_small, at_real = ({name: _over(one.get(name), sizes[name]) for name in names} for one in (small, real))
    if not all((*at_small.values(), *at_real.values())):
        return None
    blocks = shown.factor("blocks", at_small, at_real, label)
    if not names or blocks is None or not follows_blocks(blocks, _blocks(record)):
        return None
    figure = "looped" if shown.of.looped else "executed"
    parts = [shown.factor(one, at_small, at_real, label) for one in FIGURES]
    hot, around, outside = parts
    if hot is not None and around is not None and outside is not None:
        counts = [figure_of(shown.of, one, label) for one in FIGURES]
        whole = (hot * counts[0] + around * counts[1]) / shown.of.looped if shown.of.looped else outside
        return Growth(whole, whole, parts=Parts(hot, around, outside) if label else None)
    whole_only = shown.factor(figure, at_small, at_real, label)
    return Growth(whole_only, whole_only) if whole_only is not None else None


def _over(size: Scalar | None, counted: Scalar) -> float:
    """One size over another; 0 where they are no sizes."""
    return size / counted if isinstance(size, int) and isinstance(counted, int) and counted > 0 else 0.0


def _ratios(record: VariantRecord) -> dict[str, float]:
    """Real over executed size, of the sizes that differ."""
    assert record.emulation is not None  # noqa: S101 - the caller looked
    small = record.emulation.counted.problem
    return {
        name: real / size
        for name, real in record.problem.items()
        if isinstance(real, int) and isinstance(size := small.get(name), int) and 0 < size < real
        if not isinstance(real, bool)
    }
