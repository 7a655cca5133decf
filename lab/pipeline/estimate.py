"""The model's answer for one kernel: throughput, and where the cycles go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lab.limits.gpus import WARP, Gpu
from lab.pipeline.machine import machine_of
from lab.pipeline.simulate import SUB_PARTITIONS, simulate
from lab.pipeline.trace import MainLoop, Traffic


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a kernel would reach on a GPU, by the model.

    Attributes:
        tflops: Throughput, an fma being two operations.
        cycles: Cycles of one iteration of the main loop with all resident warps.
        shares: What the schedulers' cycles go into (`lab.pipeline.simulate.Cause`), as shares of all.
    """

    tflops: float
    cycles: float
    shares: Mapping[str, float]

    def on(self, gpu: Gpu, blocks: int, blocks_per_sm: int) -> Estimate:
        """The same for a grid of so many blocks, whose last round takes as long as one that fills the GPU."""
        at_once = gpu.sms * blocks_per_sm
        return replace(self, tflops=self.tflops * blocks / (at_once * -(-blocks // at_once)))

    def delayed(self, flops: int, seconds: float) -> Estimate:
        """The same with other launches before it, which take so long and do none of the operations."""
        return replace(self, tflops=flops / (flops / self.tflops + seconds * 1e12)) if seconds else self


def estimate(
    gpu: Gpu, loop: MainLoop, *, warps_per_block: int, blocks_per_sm: int, traffic: Traffic, trips: float | None = None
) -> Estimate | None:
    """Estimate the throughput of a kernel whose work is the fma of its hot loop, on a GPU full of its blocks.

    Args:
        gpu: Where it would run.
        loop: Its main loop.
        warps_per_block: Warps of a block.
        blocks_per_sm: Resident blocks (`lab.limits.occupancy`).
        traffic: What its memory instructions cost.
        trips: Turns of the hot loop in one of the loop around it; None where there is none, or it is not known.

    Returns:
        None where the model does not apply: an architecture that it was never compared with, no fma in the loop, no
        resident block, or less than a warp for each sub-partition.
    """
    machine = machine_of(gpu.architecture.arch)
    warps = warps_per_block * blocks_per_sm // SUB_PARTITIONS
    path = loop.path(trips)
    fma = sum(slot.fma for slot in path)
    if machine is None or not warps or not fma:
        return None
    cycles = simulate(path, warps_per_block, blocks_per_sm, machine, traffic)
    rate = 2 * fma * WARP * warps_per_block * blocks_per_sm / cycles.total * gpu.sms * gpu.clock_mhz * 1e6 / 1e12
    return Estimate(rate, cycles.total, {cause.value: n / cycles.total for cause, n in cycles.by_cause.items()})
