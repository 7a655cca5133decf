"""Latency bound of a warp in the real launch: the dependency chains of its SASS and the counts of its PTX.

The chains (`lab.predict.chains`) are of one pass through a loop or through the code outside of loops. How many passes a
warp makes follows from instructions that ptxas keeps one by one, which both texts have: however far it unrolls a loop,
a pass does as much of the work as its text has of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Final

from lab.base.warp import WARP_SIZE
from lab.emulator.results import ExecutedCounts
from lab.isa.mix import ANCHORS, BODY, KEPT, Counts, KernelMix, LoopMix, WarpChain, likeness
from lab.isa.model import InstructionClass
from lab.recorded.run_records import EmulatedStep, LaunchRecord

_ALIKE: Final = 0.97
"""Likeness of two sibling loops above which one is the remainder of the other."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Ratios of executed instructions, real size to emulated size.

    Attributes:
        inside: In loops.
        outside: Outside of loops.
        around: In loops other than the hot one; None where they grow alike.
    """

    inside: float
    outside: float
    around: float | None = None


def warps_of(launch: LaunchRecord) -> int:
    """Return the number of warps of a launch."""
    return math.prod(launch.grid) * -(-math.prod(launch.block) // WARP_SIZE)


def warp_chain(
    texts: tuple[KernelMix | None, KernelMix | None],
    small: EmulatedStep,
    launch: LaunchRecord,
    looped: ExecutedCounts,
    scale: Scaling,
    *,
    ends: bool = False,
    share: float = 1.0,
) -> WarpChain | None:
    """Return the mean latencies that a warp of the real launch waits for.

    What was executed in the hot loop of the PTX makes passes through that of the SASS, and what was executed in other
    loops makes passes through the others there. Outside of loops a warp passes once, or as much of once as was executed
    of the PTX.

    Args:
        texts: Static mixes of the PTX and of the SASS.
        small: What the CPU executed of the launch.
        launch: Geometry of the real launch.
        looped: What the CPU executed in loops.
        scale: What the real launch executes over that.
        ends: Without the hot loop.
        share: Share of the warps that execute the loops; the others do next to nothing.

    Returns:
        None where the SASS was not read for chains, as in records of older runs.
    """
    ptx, sass = texts
    if ptx is None or sass is None or BODY not in sass.chains or small.executed is None:
        return None
    outside, loops = _passes((ptx, sass), small, launch, looped, scale)
    totals = _add((0.0,) * len(astuple(sass.chains[BODY])), sass.chains[BODY], outside)
    for loop, passes in loops:
        if not (ends and loop.hot):
            totals = _add(totals, sass.chains[loop.label], passes / share)
    return WarpChain(round(totals[0]), *totals[1:])


def local_requests(
    texts: tuple[KernelMix | None, KernelMix | None],
    small: EmulatedStep,
    launch: LaunchRecord,
    looped: ExecutedCounts,
    scale: Scaling,
) -> tuple[float, float]:
    """Return a warp's local loads and stores in the real launch: spills, which PTX lacks.

    Args:
        texts: Static mixes of the PTX and of the SASS.
        small: What the CPU executed of the launch.
        launch: Geometry of the real launch.
        looped: What the CPU executed in loops.
        scale: What the real launch executes over that.

    Returns:
        Loads and stores; none where the SASS was not read for chains.
    """
    ptx, sass = texts
    if ptx is None or sass is None or BODY not in sass.chains or small.executed is None:
        return 0.0, 0.0
    outside, loops = _passes((ptx, sass), small, launch, looped, scale)
    straight = sass.straight.by_class

    def executed(cls: str) -> float:
        return outside * straight.get(cls, 0) + sum(passes * _own(sass, loop).get(cls, 0) for loop, passes in loops)

    return executed(InstructionClass.LD_LOCAL), executed(InstructionClass.ST_LOCAL)


def long_code(
    texts: tuple[KernelMix | None, KernelMix | None],
    small: EmulatedStep,
    launch: LaunchRecord,
    looped: ExecutedCounts,
    scale: Scaling,
) -> tuple[tuple[int, float], ...]:
    """Return the instructions that the real launch executes per code region, with the region's length.

    Args:
        texts: Static mixes of the PTX and of the SASS.
        small: What the CPU executed of the launch.
        launch: Geometry of the real launch.
        looped: What the CPU executed in loops.
        scale: What the real launch executes over that.

    Returns:
        Of the code outside of loops and of each loop that makes a pass at least: instructions of its text, nested loops
        included, and warp instructions executed in it but not in nested loops.
    """
    ptx, sass = texts
    if ptx is None or sass is None or small.executed is None:
        return ()
    outside, loops = _passes((ptx, sass), small, launch, looped, scale)
    straight = sass.straight.instructions
    regions = [(straight, outside * straight)]
    regions += [(loop.counts.instructions, passes * sum(_own(sass, loop).values())) for loop, passes in loops]
    return tuple((text, instructions * warps_of(launch)) for text, instructions in regions)


def _passes(
    texts: tuple[KernelMix, KernelMix],
    small: EmulatedStep,
    launch: LaunchRecord,
    looped: ExecutedCounts,
    scale: Scaling,
) -> tuple[float, list[tuple[LoopMix, float]]]:
    """Return how often a warp passes through the code outside of loops, and through each loop of the SASS."""
    ptx, sass = texts
    hot = small.hot_loop.warps_by_class if small.hot_loop is not None else {}
    elsewhere = {cls: max(0, n - hot.get(cls, 0)) for cls, n in looped.warps_by_class.items()}
    loops, warps = _unrolled(sass), warps_of(launch)
    straight = ptx.straight.instructions
    executed = small.executed.warps if small.executed is not None else 0
    outside = (executed - looped.warps) * scale.outside / warps / straight if straight else 1.0
    loop_passes = []
    around = scale.inside if scale.around is None else scale.around
    for counts, group, grown in (
        (hot, [loop for loop in loops if loop.hot], scale.inside),
        (elsewhere, [loop for loop in loops if not loop.hot], around),
    ):
        done, text = _kept(counts, [_own(sass, loop) for loop in group])
        passes = grown * done / warps / text if text else 0.0
        loop_passes += [(loop, passes) for loop in group]
    return min(1.0, outside), loop_passes


def _add(totals: Sequence[float], chain: WarpChain, passes: float) -> tuple[float, ...]:
    return tuple(n + passes * value for n, value in zip(totals, astuple(chain), strict=True))


def _kept(counts: Mapping[str, int], texts: Sequence[Mapping[str, int]]) -> tuple[int, int]:
    """Count the executed and the static instructions of the classes that ptxas changes least, of those both have.

    Accesses to memory it keeps one by one; to arithmetic it adds, as to scale the argument of an exponential.
    """
    for classes in (_EXACT, ANCHORS, KEPT):
        done = sum(counts.get(cls, 0) for cls in classes)
        text = sum(by_class.get(cls, 0) for by_class in texts for cls in classes)
        if done and text:
            return done, text
    return 0, 0


def _own(sass: KernelMix, loop: LoopMix) -> dict[str, int]:
    """Count a loop's instructions by class, without nested loops."""
    inner = [nested.counts.by_class for nested in sass.loops if nested.parent == loop.label]
    return {cls: n - sum(by_class.get(cls, 0) for by_class in inner) for cls, n in loop.counts.by_class.items()}


def counterpart(sass: KernelMix, loop: LoopMix) -> str:
    """Return the label of the SASS loop that corresponds to a PTX loop; empty if ptxas unrolled it completely.

    Of loops side by side that do alike it is the longest, since ptxas leaves a remainder behind an unrolled loop.
    """
    similar = next((candidate for candidate in sass.loops if candidate.label == sass.like(loop)), None)
    if similar is None or not _has_anchors(similar.counts, loop.counts):
        return ""
    beside = (
        candidate for candidate in sass.loops if candidate.parent == similar.parent and _alike(candidate, similar)
    )
    return max(beside, key=lambda candidate: candidate.counts.instructions, default=similar).label


def _has_anchors(counts: Counts, wanted: Counts) -> bool:
    """Return whether a region has some of the arithmetic, stores or shuffles of another one, if that has any."""
    anchors = [cls for cls in ANCHORS if wanted.by_class.get(cls, 0)]
    return not anchors or any(counts.by_class.get(cls, 0) for cls in anchors)


def _unrolled(sass: KernelMix) -> list[LoopMix]:
    """Return the loops of the SASS, longest first, without remainder loops.

    The small problem may execute the remainder alone, so that it is the hot loop; the longer one is marked hot then.
    """
    loops: list[LoopMix] = []
    for loop in sorted(sass.loops, key=lambda candidate: -candidate.counts.instructions):
        if loop.label not in sass.chains:
            continue
        places = (
            place for place, earlier in enumerate(loops) if earlier.parent == loop.parent and _alike(earlier, loop)
        )
        place = next(places, None)
        if place is None:
            loops.append(loop)
        elif loop.hot:
            loops[place] = replace(loops[place], hot=True)
    return loops


def _alike(first: LoopMix, second: LoopMix) -> bool:
    """Return whether a loop may be the remainder of another one: alike, with accesses of the same kinds."""
    kinds = [{cls for cls in _ACCESSES if loop.counts.by_class.get(cls, 0)} for loop in (first, second)]
    return kinds[0] == kinds[1] and likeness(first.counts, second.counts) > _ALIKE


_EXACT: Final = (
    InstructionClass.LD_GLOBAL, InstructionClass.ST_GLOBAL, InstructionClass.ST_SHARED, InstructionClass.ATOMIC,
    InstructionClass.SHUFFLE, InstructionClass.MMA, InstructionClass.CP_ASYNC,
)  # fmt: skip
_ACCESSES: Final = (
    InstructionClass.LD_GLOBAL, InstructionClass.ST_GLOBAL, InstructionClass.LD_SHARED, InstructionClass.ST_SHARED,
    InstructionClass.ATOMIC, InstructionClass.SHUFFLE, InstructionClass.MMA,
)  # fmt: skip
