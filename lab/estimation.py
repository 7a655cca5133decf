"""Execute a variant on the CPU and, with what was counted, estimate its throughput: a stage for worker processes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.emulation import EmulationTask, emulate
from lab.emulator.results import MemoryCount
from lab.isa.mix import KernelMix, LoopMix
from lab.isa.model import InstructionClass
from lab.limits import Gpu
from lab.limits.gpus import WARP
from lab.pipeline import Edges, MainLoop, Pace, Traffic, estimate
from lab.store import EmulationRecord, ExecutedLines

_FETCHES = ("global.load", "global.copy", "shared.copy")
"""Keys of `ExecutedCounts.memory`."""


@dataclass(frozen=True, slots=True)
class EstimateTask:
    """What the model of the schedulers needs of one kernel besides the counts.

    Attributes:
        gpu: Where it would run.
        loop: Main loop of its SASS.
        ptx: Static mix of its PTX, which the counts are of.
        warps_per_block: Warps of a block.
        blocks_per_sm: Resident blocks.
        before_s: Seconds of the launches before it.
    """

    gpu: Gpu
    loop: MainLoop
    ptx: KernelMix
    warps_per_block: int
    blocks_per_sm: int
    before_s: float = 0.0


def execute(task: EmulationTask, ptx: str, model: EstimateTask | None) -> tuple[EmulationRecord, Pace | None]:
    """Execute, and estimate where there is a model and the counts are of its kernel."""
    done = emulate(task, ptx)
    steps = [step for step in done.launches if model and step.entry == model.ptx.name and step.executed]
    if model is None or len(steps) != 1 or steps[0].executed is None:
        return done, None
    counted = steps[0].executed
    found = estimate(
        model.gpu,
        model.loop,
        warps_per_block=model.warps_per_block,
        blocks_per_sm=model.blocks_per_sm,
        traffic=traffic_of(main_memory(done.lines, model.ptx, counted.memory)),
        trips=trips_of(done.lines, model.ptx, model.loop.fma) if model.loop.nested else None,
        edges=edges_of(done.lines, model.ptx, counted.memory, math.prod(steps[0].launch.grid), model.warps_per_block),
    )
    return done, found


def loop_memory(lines: Sequence[ExecutedLines], ptx: KernelMix) -> dict[str, MemoryCount]:
    """Traffic of the main loop alone: what a small problem does before and after it would blur the mean costs.

    The main loop is the hot loop, or the innermost loop around it that fetches from global memory.

    Returns:
        By the keys of `ExecutedCounts.memory`; empty where the kernel has no loop, or nothing was counted in it.
    """
    loop = main_loop_of(ptx)
    inside = loop.numbers if loop else frozenset()
    found: dict[str, MemoryCount] = {}
    for group in lines:
        for _ in inside.intersection(group.lines):
            for key, count in group.memory.items():
                found[key] = found.get(key, MemoryCount()) + count
    return found


def edges_of(
    lines: Sequence[ExecutedLines], ptx: KernelMix, memory: Mapping[str, MemoryCount], blocks: int, warps: int
) -> Edges:
    """What a block does outside of the main loop, from counts of `blocks` blocks of `warps` warps."""
    loop = main_loop_of(ptx)
    first, last = ptx.lines or (0, -1)
    inside = loop.numbers if loop else frozenset()
    outside = sum(
        group.warps for group in lines for line in group.lines if first <= line <= last and line not in inside
    )
    return Edges(outside / (blocks * warps), memory.get("global.store", MemoryCount()).bytes_used / blocks)


def main_loop_of(ptx: KernelMix) -> LoopMix | None:
    """The hot loop, or the innermost loop around it that fetches from global memory; None in a kernel without."""
    loop = ptx.hot_loop
    while loop is not None and not loop.fetches and (outer := ptx.around(loop)):
        loop = outer
    return loop


def main_memory(
    lines: Sequence[ExecutedLines], ptx: KernelMix, whole: Mapping[str, MemoryCount]
) -> Mapping[str, MemoryCount]:
    """Traffic that the main loop's mean costs are made of.

    A small problem may end before its loop fetches anything: what was fetched before it is then taken for the loop's.

    Args:
        lines: What was executed of each line.
        ptx: Static mix of the PTX.
        whole: Traffic of the whole kernel.
    """
    inside = loop_memory(lines, ptx)
    if not inside or any(key in inside for key in _FETCHES):
        return inside or whole
    return {**inside, **{key: count for key, count in whole.items() if key in _FETCHES}}


def traffic_of(memory: Mapping[str, MemoryCount]) -> Traffic:
    """Mean costs of memory instructions, from what was counted of them by the keys of `ExecutedCounts.memory`."""
    loads, stores = (memory.get(name, MemoryCount()) for name in ("shared.load", "shared.store"))
    fetched = sum((memory.get(name, MemoryCount()) for name in ("global.load", "global.copy")), MemoryCount())
    copied = memory.get("shared.copy", MemoryCount())
    return Traffic(
        load_wavefronts=loads.wavefronts / max(1, loads.requests),
        store_wavefronts=stores.wavefronts / max(1, stores.requests),
        load_bytes=loads.bytes_used / max(1, loads.requests) / WARP,
        store_bytes=stores.bytes_used / max(1, stores.requests) / WARP,
        sectors=fetched.sectors_per_request,
        copy_wavefronts=copied.wavefronts / max(1, copied.requests),
    )


def trips_of(lines: Sequence[ExecutedLines], ptx: KernelMix, sass_fma: int) -> float | None:
    """Turns of the SASS's hot loop in one turn of the loop around it.

    The PTX's loops were counted; ptxas may have unrolled its hot loop further, which the fma of both texts tell.

    Returns:
        None where the PTX's hot loop stands alone, or its counts do not say.
    """
    hot = ptx.hot_loop
    around = ptx.around(hot) if hot else None
    if hot is None or around is None or not sass_fma:
        return None
    counted = {line: group.warps for group in lines for line in group.lines}
    # warp instructions of the most executed line outside the loops within
    inner, outer = (max((counted.get(line, 0) for line in ptx.own_lines(loop)), default=0) for loop in (hot, around))
    if not inner or not outer:
        return None
    return inner / outer * hot.counts.by_class.get(InstructionClass.FMA, 0) / sass_fma
