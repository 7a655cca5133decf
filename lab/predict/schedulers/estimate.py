"""Estimates the throughput of a kernel from the model of its main loop, with its cycles by cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.base.warp import WARP_SIZE
from lab.hardware.gpus import Gpu
from lab.hardware.latencies import SmLatencies
from lab.predict.schedulers.loop import MainLoop, Traffic, Unit
from lab.predict.schedulers.simulate import SUB_PARTITIONS, simulate
from lab.recorded.predictions import Estimate


@dataclass(frozen=True, slots=True)
class Edges:
    """Work of a block before and after its main loop (prologue and epilogue).

    Attributes:
        instructions: Instructions per warp outside the main loop.
        stored_bytes: Bytes that a block stores to global memory.
    """

    instructions: float = 0.0
    stored_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Speed of an SM in a kernel's main loop, and the work of its blocks outside of it.

    Attributes:
        gpu: The GPU.
        machine: Its SM's latencies and rates.
        rates: Floating-point operations per cycle and SM, by the number of resident blocks.
        warps_per_block: Warps of a block.
        edges: Work of a block outside the main loop.
        cycles: Cycles of one iteration with all resident blocks.
        shares: Shares of these cycles by cause.
    """

    gpu: Gpu
    machine: SmLatencies
    rates: Mapping[int, float]
    warps_per_block: int
    edges: Edges
    cycles: float
    shares: Mapping[str, float]

    @property
    def tflops(self) -> float:
        """Throughput of the main loop alone, in TFLOP/s, on a fully occupied GPU."""
        return self.rates[max(self.rates)] * self.gpu.sms * self.gpu.clock_mhz * 1e6 / 1e12

    def on(self, flops: int, blocks: int, *, bytes_moved: int = 0, before_s: float = 0.0) -> Estimate:
        """Estimate a whole launch, whose blocks run in full waves and a tail.

        Args:
            flops: Floating-point operations of all blocks; an fma counts as two.
            blocks: Blocks of the grid.
            bytes_moved: Compulsory DRAM bytes; their time is a lower limit.
            before_s: Seconds of other launches before this one.
        """
        resident = max(self.rates)
        rounds, tail_blocks = divmod(blocks, self.gpu.sms * resident)
        flops_per_block = flops / blocks
        cycles = rounds * self._round(resident, flops_per_block)
        if tail_blocks:
            cycles += self._round(-(-tail_blocks // self.gpu.sms), flops_per_block)
        if resident > 1:  # co-resident blocks hide each other's prologues
            cycles += self.machine.global_latency
        busy = cycles / (self.gpu.clock_mhz * 1e6)
        if self.gpu.dram_gb_s:
            busy = max(busy, bytes_moved / (self.gpu.dram_gb_s * 1e9 * self.machine.dram_share))
        seconds = before_s + self.machine.launch_s + busy
        return Estimate(flops / seconds / 1e12, self.cycles, self.shares)

    def _round(self, blocks: int, flops: float) -> float:
        """Return the cycles of `blocks` blocks of `flops` operations each, resident together on every SM."""
        edges, machine = self.edges, self.machine
        issued = edges.instructions * self.warps_per_block / SUB_PARTITIONS
        stored = edges.stored_bytes / machine.store_bytes
        latency = machine.global_latency if max(self.rates) == 1 else 0.0
        return blocks * (flops / self.rate(blocks) + issued + stored) + latency

    def rate(self, blocks: int) -> float:
        """Return an SM's operations per cycle with `blocks` resident, interpolated between simulated numbers."""
        above = min(simulated for simulated in self.rates if simulated >= blocks)
        below = max((simulated for simulated in self.rates if simulated <= blocks), default=above)
        if above == below:
            return self.rates[above]
        share = (blocks - below) / (above - below)
        return self.rates[below] * (1 - share) + self.rates[above] * share


def estimate(
    gpu: Gpu,
    loop: MainLoop,
    *,
    warps_per_block: int,
    blocks_per_sm: int,
    traffic: Traffic,
    trips: float | None = None,
    edges: Edges | None = None,
) -> Pace | None:
    """Estimate the pace of a kernel whose work is the fma of its hot loop.

    Args:
        gpu: The GPU.
        loop: The kernel's main loop.
        warps_per_block: Warps of a block.
        blocks_per_sm: Resident blocks per SM (`lab.hardware.occupancy`).
        traffic: Costs of its memory instructions.
        trips: Iterations of the hot loop per iteration of the loop around it; None if there is no such loop or the
            number is unknown.
        edges: Work of a block outside the main loop; none by default.

    Returns:
        The pace, or None if the model does not apply: the architecture was never validated on a GPU, the loop has no
        fma or uses tensor cores, no block fits an SM, or the loop waits for an mbarrier without issuing bulk copies
        itself, so that a producer warp copies in another loop.
    """
    machine = gpu.latencies
    path = loop.path(trips)
    fma = sum(slot.fma for slot in path)
    units = {slot.unit for slot in path}
    elsewhere = Unit.PHASE in units and Unit.BULK not in units
    if not machine.compared or not blocks_per_sm or not fma or elsewhere or Unit.TENSOR in units:
        return None
    simulations = {
        blocks: simulate(path, warps_per_block, blocks, machine, traffic) for blocks in _numbers(blocks_per_sm)
    }
    work = 2 * fma * WARP_SIZE * warps_per_block
    cycles = simulations[blocks_per_sm]
    return Pace(
        gpu,
        machine,
        {blocks: work * blocks / simulation.total for blocks, simulation in simulations.items()},
        warps_per_block,
        edges or Edges(),
        cycles.total,
        {cause.value: n / cycles.total for cause, n in cycles.by_cause.items()},
    )


def _numbers(largest: int) -> tuple[int, ...]:
    """Return the powers of two below `largest`, and `largest`."""
    return (*(2**power for power in range(largest.bit_length()) if 2**power < largest), largest)
