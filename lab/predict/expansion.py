"""Expansion of the emulated PTX into SASS by ptxas: instruction ratios in loops and outside of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lab.emulator.results import ExecutedCounts
from lab.isa.mix import ANCHORS, KEPT, Counts, KernelMix
from lab.isa.model import InstructionClass as C
from lab.predict.executed_chains import warps_of
from lab.recorded.run_records import EmulatedStep

_MOST: Final = 8.0
"""Ratio above which two texts are not the same code."""


@dataclass(frozen=True, slots=True)
class Expansions:
    """SASS instructions per PTX instruction.

    Attributes:
        inside: Of those in loops.
        outside: Of the others.
    """

    inside: float
    outside: float


AS_PTX: Final = Expansions(1.0, 1.0)


def expansions(ptx: KernelMix | None, sass: KernelMix | None, passes: float, cls: C | None = None) -> Expansions:
    """Return the expansion of the instructions in loops and outside of them.

    Args:
        ptx: Static mix of the PTX.
        sass: Static mix of the SASS.
        passes: How often a warp passes through the hot loop of the PTX each time that it comes to it. Where ptxas
            unrolled that loop further than this, what is executed is a remainder, of whose length nothing is known.
        cls: A class; None for all instructions.
    """
    overall = expansion(ptx, sass, cls)
    if ptx is None or sass is None or not ptx.loops:
        return Expansions(overall, overall)
    if not sass.loops:
        return Expansions(overall, 1.0)
    anchors = _anchors(ptx.hot_counts, sass.hot_counts)
    unrolled = anchors[1] / anchors[0] if anchors is not None else 1.0
    before, after = (_of_class(mix.straight, cls) for mix in (ptx, sass))
    outside = after / before if before and after else 1.0
    return Expansions(overall if passes >= unrolled or unrolled <= 1 else 1.0, max(1 / _MOST, min(outside, _MOST)))


def _of_class(counts: Counts, cls: C | None) -> int:
    """Return the number of instructions of a class; of all for None."""
    return counts.instructions if cls is None else counts.by_class.get(cls, 0)


def _anchors(*regions: Counts) -> tuple[int, ...] | None:
    """Count the anchor instructions of each region, which ptxas keeps one by one; None if a region has none."""
    for classes in (ANCHORS, KEPT):
        counts = tuple(sum(region.by_class.get(cls, 0) for cls in classes) for region in regions)
        if all(counts):
            return counts
    return None


def expansion(ptx: KernelMix | None, sass: KernelMix | None, cls: C | None = None) -> float:
    """Return the SASS instructions per PTX instruction of the hot region.

    A remainder is one instruction of PTX and some twenty of SASS; loads of neighbours become one. Both texts may be
    unrolled differently, so each is related to its instructions of the classes that ptxas keeps one by one.

    Args:
        ptx: Static mix of the PTX.
        sass: Static mix of the SASS.
        cls: A class; None for all instructions.

    Returns:
        1 where a text lacks such instructions.
    """
    if ptx is None or sass is None:
        return 1.0
    regions = ptx.hot_counts, sass.hot_counts
    if (anchors := _anchors(*regions)) is None:
        return 1.0
    before, after = (_of_class(region, cls) / anchor for region, anchor in zip(regions, anchors, strict=True))
    return max(1 / _MOST, min(after / before, _MOST)) if before and after else 1.0


def hot_passes(ptx: KernelMix | None, small: EmulatedStep, looped: ExecutedCounts) -> float:
    """Return how often a warp passes through the hot loop of the PTX each time it enters it.

    Args:
        ptx: Static mix of the PTX.
        small: What the CPU executed of the launch.
        looped: What it executed in loops.
    """
    hot, executed = ptx.hot_loop if ptx is not None else None, small.hot_loop or looped
    if ptx is None or hot is None or not executed.warps:
        return 0.0
    around = next((loop for loop in ptx.loops if loop.label == hot.parent), None)
    entries = float(warps_of(small.launch))
    if around is not None and around.counts.instructions > hot.counts.instructions:
        own = around.counts.instructions - hot.counts.instructions
        entries = max(entries, (looped.warps - executed.warps) / own)
    return executed.warps / hot.counts.instructions / entries
