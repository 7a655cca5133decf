"""Estimates the throughput of a kernel from the model of its main loop, and where the cycles go."""

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
    """Work of a block before and after its main loop.

    Attributes:
        instructions: Instructions of a warp outside the main loop.
        stored_bytes: Bytes that a block stores to global memory.
    """

    instructions: float = 0.0
    stored_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Speed of an SM in a kernel's main loop, and the other work of its blocks.

    Attributes:
        gpu: The GPU.
        machine: Its SM's latencies and rates.
        rates: Floating-point operations a cycle of an SM, by the number of its resident blocks.
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
        """Throughput of the main loop alone, in TFLOP/s, on a GPU full of blocks."""
        return self.rates[max(self.rates)] * self.gpu.sms * self.gpu.clock_mhz * 1e6 / 1e12

    def on(self, flops: int, blocks: int, *, moved: int = 0, before_s: float = 0.0) -> Estimate:
        """Estimate a whole launch, whose blocks run in rounds that fill the GPU, and a last round with the rest.

        Args:
            flops: Floating-point operations of all blocks; an fma counts as two.
            blocks: Blocks of the grid.
            moved: Least bytes through DRAM; their time is a lower limit.
            before_s: Seconds of other launches before this one.
        """
        most = max(self.rates)
        rounds, rest = divmod(blocks, self.gpu.sms * most)
        each = flops / blocks
        cycles = rounds * self._round(most, each)
        if rest:
            cycles += self._round(-(-rest // self.gpu.sms), each)
        if most > 1:  # where several blocks share an SM, the others go on while one begins
            cycles += self.machine.global_latency
        busy = cycles / (self.gpu.clock_mhz * 1e6)
        if self.gpu.dram_gb_s:
            busy = max(busy, moved / (self.gpu.dram_gb_s * 1e9 * self.machine.dram_share))
        seconds = before_s + self.machine.launch_s + busy
        return Estimate(flops / seconds / 1e12, self.cycles, self.shares)

    def _round(self, blocks: int, flops: float) -> float:
        """Return the cycles of `blocks` blocks, of `flops` operations each, that run at once on every SM."""
        edges, machine = self.edges, self.machine
        issued = edges.instructions * self.warps_per_block / SUB_PARTITIONS
        stored = edges.stored_bytes / machine.store_bytes
        latency = machine.global_latency if max(self.rates) == 1 else 0.0
        return blocks * (flops / self.rate(blocks) + issued + stored) + latency

    def rate(self, blocks: int) -> float:
        """Return an SM's operations a cycle with so many blocks, interpolated linearly between simulated numbers."""
        above = min(known for known in self.rates if known >= blocks)
        below = max((known for known in self.rates if known <= blocks), default=above)
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
        blocks_per_sm: Most resident blocks (`lab.hardware.occupancy`).
        traffic: Costs of its memory instructions.
        trips: Iterations of the hot loop in one iteration of the loop around it; None if there is none, or the number
            is unknown.
        edges: Work of a block outside the main loop; none by default.

    Returns:
        The pace, or None where the model does not apply: the architecture was never compared with a GPU, the loop has
        no fma or uses tensor cores, no block is resident, or the loop waits for an mbarrier without requesting bulk
        copies itself, so that a warp of its own copies in another loop.
    """
    machine = gpu.latencies
    path = loop.path(trips)
    fma = sum(slot.fma for slot in path)
    units = {slot.unit for slot in path}
    elsewhere = Unit.PHASE in units and Unit.BULK not in units
    if not machine.compared or not blocks_per_sm or not fma or elsewhere or Unit.TENSOR in units:
        return None
    found = {blocks: simulate(path, warps_per_block, blocks, machine, traffic) for blocks in _numbers(blocks_per_sm)}
    work = 2 * fma * WARP_SIZE * warps_per_block
    cycles = found[blocks_per_sm]
    return Pace(
        gpu,
        machine,
        {blocks: work * blocks / one.total for blocks, one in found.items()},
        warps_per_block,
        edges or Edges(),
        cycles.total,
        {cause.value: n / cycles.total for cause, n in cycles.by_cause.items()},
    )


def _numbers(most: int) -> tuple[int, ...]:
    """Return the powers of two below `most`, and `most`."""
    return (*(2**power for power in range(most.bit_length()) if 2**power < most), most)
