"""Execute a variant on the CPU and estimate its throughput from the counts. Runs in worker processes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lab.base.warp import WARP_SIZE
from lab.emulator.results import MemoryCount
from lab.hardware.gpus import Gpu
from lab.isa.mix import KernelMix, LoopMix
from lab.isa.model import InstructionClass
from lab.predict.schedulers.estimate import Edges, Pace, estimate
from lab.predict.schedulers.loop import MainLoop, Traffic
from lab.recorded.run_records import EmulationRecord, ExecutedLines
from lab.stages.emulate import EmulationTask, emulate

_FETCHES = ("global.load", "global.copy", "shared.copy", "global.bulk", "shared.bulk")
"""Keys of `memory_of` for data from global memory."""


@dataclass(frozen=True, slots=True)
class EstimateTask:
    """Inputs of the scheduler model for a kernel, besides its counts.

    Attributes:
        gpu: The GPU to estimate for.
        loop: Main loop of its SASS.
        ptx: Static mix of its PTX, to whose lines the counts refer.
        warps_per_block: Warps of a block.
        blocks_per_sm: Resident blocks on an SM.
        before_s: Time of the preceding launches, in seconds.
    """

    gpu: Gpu
    loop: MainLoop
    ptx: KernelMix
    warps_per_block: int
    blocks_per_sm: int
    before_s: float = 0.0


def execute(task: EmulationTask, ptx: str, model: EstimateTask | None) -> tuple[EmulationRecord, Pace | None]:
    """Execute a variant, and estimate its throughput if there is a model and the counts belong to its kernel.

    The model assumes that one warp per block issues the bulk copies. Kernels in which several warps do have no
    estimate, nor have problems too small to enter the main loop.
    """
    if model is None or not task.spares_samples or not task.samples:
        return _executed(task, ptx, model)
    record, pace = _executed(replace(task, samples=()), ptx, model)
    return (record, pace) if pace is not None else (emulate(task, ptx), None)


def _executed(task: EmulationTask, ptx: str, model: EstimateTask | None) -> tuple[EmulationRecord, Pace | None]:
    record = emulate(task, ptx)
    steps = [step for step in record.launches if model and step.entry == model.ptx.name and step.executed]
    if model is None or len(steps) != 1 or not one_warp_asks(record.lines, model.ptx, model.warps_per_block):
        return record, None
    pace = estimate(
        model.gpu,
        model.loop,
        warps_per_block=model.warps_per_block,
        blocks_per_sm=model.blocks_per_sm,
        traffic=traffic_of(main_memory(record.lines, model.ptx)),
        trips=trips_of(record.lines, model.ptx, model.loop.fma) if model.loop.nested else None,
        edges=edges_of(record.lines, model.ptx, math.prod(steps[0].launch.grid), model.warps_per_block),
    )
    return record, pace


def memory_of(lines: Sequence[ExecutedLines], inside: frozenset[int]) -> dict[str, MemoryCount]:
    """Return the memory traffic of the PTX lines with the numbers `inside`.

    Returns:
        Counts by the keys of `ExecutedCounts.memory`. Bulk copies count separately, as `shared.bulk` and
        `global.bulk`, since one of them moves as much as hundreds of others.
    """
    traffic: dict[str, MemoryCount] = {}
    for group in lines:
        kind = "bulk" if group.cls == InstructionClass.BULK_COPY else "copy"
        for _ in inside.intersection(group.lines):
            for key, count in group.memory.items():
                renamed = key.replace("copy", kind)
                traffic[renamed] = traffic.get(renamed, MemoryCount()) + count
    return traffic


def edges_of(lines: Sequence[ExecutedLines], ptx: KernelMix, blocks: int, warps: int) -> Edges:
    """Return a block's work outside the main loop, from counts over `blocks` blocks of `warps` warps."""
    loop, everywhere = main_loop_of(ptx), lines_of(ptx)
    outside = everywhere - loop.numbers if loop else everywhere
    issued = sum(group.warps * len(outside.intersection(group.lines)) for group in lines)
    stored = memory_of(lines, everywhere).get("global.store", MemoryCount()).bytes_used
    return Edges(issued / (blocks * warps), stored / blocks)


def one_warp_asks(lines: Sequence[ExecutedLines], ptx: KernelMix, warps: int) -> bool:
    """Return whether at most one of a block's `warps` warps issues the main loop's bulk copies."""
    loop = main_loop_of(ptx)
    inside = [group for group in lines if loop and loop.numbers.intersection(group.lines)]
    bulk = max((group.warps for group in inside if group.cls == InstructionClass.BULK_COPY), default=0)
    return bulk * warps <= max((group.warps for group in inside), default=0)


def lines_of(ptx: KernelMix) -> frozenset[int]:
    """Return the line numbers of a kernel."""
    return frozenset(range(ptx.lines[0], ptx.lines[1] + 1)) if ptx.lines else frozenset()


def main_loop_of(ptx: KernelMix) -> LoopMix | None:
    """Return the hot loop, or the innermost enclosing loop that reads global memory; None without loops."""
    loop = ptx.hot_loop
    while loop is not None and not loop.fetches and (outer := ptx.around(loop)):
        loop = outer
    return loop


def main_memory(lines: Sequence[ExecutedLines], ptx: KernelMix) -> Mapping[str, MemoryCount]:
    """Return the traffic of the main loop alone; prologue and epilogue would distort means in a small problem.

    A small problem may end before its loop loads anything: then the loads before the loop are used. In a kernel
    without loops the whole kernel counts.

    Args:
        lines: Counts of each executed line.
        ptx: Static mix of the PTX.

    Returns:
        Counts by the keys of `memory_of`.
    """
    loop, whole_kernel = main_loop_of(ptx), memory_of(lines, lines_of(ptx))
    inside = memory_of(lines, loop.numbers) if loop else {}
    if not inside or any(key in inside for key in _FETCHES):
        return inside or whole_kernel
    return {**inside, **{key: count for key, count in whole_kernel.items() if key in _FETCHES}}


def traffic_of(memory: Mapping[str, MemoryCount]) -> Traffic:
    """Return mean costs of memory instructions, from the counts of `memory_of`."""
    loads, stores, copies, bulk = (
        memory.get(name, MemoryCount()) for name in ("shared.load", "shared.store", "shared.copy", "shared.bulk")
    )
    fetched = sum((memory.get(name, MemoryCount()) for name in ("global.load", "global.copy")), MemoryCount())
    return Traffic(
        load_wavefronts=loads.wavefronts / max(1, loads.requests),
        store_wavefronts=stores.wavefronts / max(1, stores.requests),
        load_bytes=loads.bytes_used / max(1, loads.requests) / WARP_SIZE,
        store_bytes=stores.bytes_used / max(1, stores.requests) / WARP_SIZE,
        sectors=fetched.sectors_per_request,
        copy_wavefronts=copies.wavefronts / max(1, copies.requests),
        bulk_wavefronts=bulk.wavefronts / max(1, bulk.requests),
        bulk_sectors=memory.get("global.bulk", MemoryCount()).sectors_per_request,
    )


def trips_of(lines: Sequence[ExecutedLines], ptx: KernelMix, sass_fma: int) -> float | None:
    """Return the iterations of the SASS's hot loop per iteration of the loop around it.

    The counts are those of the PTX's loops. ptxas may have unrolled the hot loop further; the ratio of fma instructions
    in SASS and PTX gives the factor.

    Returns:
        None if no loop encloses the PTX's hot loop, or the counts do not cover both.
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
