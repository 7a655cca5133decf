"""The model's answer for one variant: throughput, and where the cycles go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.isa.mix import KernelMix
from lab.isa.model import Function
from lab.limits.gpus import WARP, Gpu
from lab.pipeline.machine import machine_of
from lab.pipeline.simulate import SUB_PARTITIONS, Cause, simulate
from lab.pipeline.trace import Traffic, fma_of, main_path, slots


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a kernel would reach on a GPU, by the model.

    Attributes:
        tflops: Throughput, an fma being two operations.
        cycles: Cycles of one iteration of the main loop with all resident warps.
        shares: What the scheduler's cycles go into, as shares of all.
    """

    tflops: float
    cycles: float
    shares: Mapping[Cause, float]


def estimate(
    gpu: Gpu,
    function: Function,
    code: bytes,
    mix: KernelMix,
    *,
    warps_per_block: int,
    blocks_per_sm: int,
    blocks: int,
    traffic: Traffic,
    trips: float | None = None,
) -> Estimate | None:
    """Estimate the throughput of a kernel whose work is the fma of its hot loop.

    Args:
        gpu: Where it would run.
        function: Its SASS.
        code: Its machine code (`lab.toolchain.cubin.code`), for the scheduling bits.
        mix: Static mix of its SASS.
        warps_per_block: Warps of a block.
        blocks_per_sm: Resident blocks (`lab.limits.occupancy`).
        blocks: Blocks of the grid: a last round of blocks that does not fill the GPU counts as a full one.
        traffic: What its memory instructions cost.
        trips: Turns of the hot loop in one of the loop around it; None where there is none, or it is not known.

    Returns:
        None where the model does not apply: an architecture that it was never compared with, no fma in the loop, no
        resident block, or less than a warp for each sub-partition.
    """
    machine = machine_of(gpu.architecture.arch)
    warps = warps_per_block * blocks_per_sm // SUB_PARTITIONS
    if machine is None or not warps:
        return None
    issued = slots(function, code, traffic, machine)
    path = [issued[i] for i in main_path(function, mix, trips)]
    fma = fma_of(path)
    if not fma:
        return None
    cycles = simulate(path, warps, blocks_per_sm, machine)
    at_once = gpu.sms * blocks_per_sm
    filled = blocks / (at_once * -(-blocks // at_once))
    rate = 2 * fma * WARP * warps * SUB_PARTITIONS / cycles.total * gpu.sms * gpu.clock_mhz * 1e6 / 1e12
    return Estimate(rate * filled, cycles.total, {cause: n / cycles.total for cause, n in cycles.by_cause.items()})
