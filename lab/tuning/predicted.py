"""A coarse time model of a kernel at a size. It ranks kernels; it does not give accurate times.

A launch is a number of blocks of equal work. The fullest SM decides: it works on the blocks that it holds at once, and
on one round of them after another:

    time = overhead + rounds x max(blocks at once x work / rate, turns x latency) + ends, at least bytes / bandwidth

work, rate
    Operations of a block, its edges included, and how many of them an SM does per second at the lowest of the main
    loop's bounds (`lab.predict.bounds`: issue slots, shared memory, memory pipe).
turns, latency
    Passes of a block over the main loop's text, and the cycles of one pass that nothing in the block hides: its own
    instructions, one per cycle and warp, a barrier, and a read of shared memory. With prefetching the latency of global
    memory runs beside them, else after them. Latencies are those of `lab.hardware.latencies`.
ends
    A block's first tile comes from global memory and its last results go there: two latencies per round.
bytes
    What blocks read of A and B through L2, one 32-byte sector per cycle and SM; and what must come through DRAM.
overhead
    Of a launch behind another, 2 µs: what an empty kernel takes on an H100 or H200, within about a half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lab.base.elements import ELEMENT_BYTES, arithmetic_of, operations
from lab.base.sizes import Size, extents
from lab.base.warp import SECTOR_BYTES, WARP_SIZE
from lab.hardware.gpus import Gpu
from lab.hardware.occupancy import ResourceUse, occupancy
from lab.isa.matrix import matrix_products
from lab.isa.mix import KernelMix
from lab.predict.bounds import LaunchFacts, predict
from lab.store.tuning_model import block_tile
from lab.templates.launches import Launch

OVERHEAD_MS = 2e-3
L2_BYTES_PER_CYCLE = SECTOR_BYTES
"""L2 bandwidth per SM in bytes per cycle: one sector."""
_FMA_CLASS = "fma"

_LOOP_BOUNDS = frozenset({"issue slots", "shared memory", "memory pipe", "tensor cores"})


@dataclass(frozen=True, slots=True)
class ProductLoop:
    """The model's inputs for an entry point that multiplies.

    Attributes:
        rate: Operations per second of one full SM, by the lowest bound of the main loop.
        blocks: Resident blocks per SM.
        fma: Multiply-accumulates of a thread in one pass over the loop; of matrix instructions, a warp's share each.
        instructions: All instructions of a thread in one pass.
        element_bytes: Size of an element of A, B and C.
        operations: Of a multiplication and an addition of elements.
    """

    rate: float
    blocks: int
    fma: float
    instructions: int
    element_bytes: int
    operations: int = 2


def loop_of(gpu: Gpu, mix: KernelMix, use: ResourceUse, launch: Launch, dtype: str) -> ProductLoop | None:
    """Return the model's inputs for a main loop; None if no block fits on an SM or the loop does not multiply."""
    threads = math.prod(launch.block)
    predicted = predict(
        gpu,
        mix,
        use,
        LaunchFacts(threads, launch.dynamic_shared_bytes, carveout=launch.carveout),
        flops=1,
        bytes_moved=0,
        dtype=arithmetic_of(dtype),
    )
    rates = [bound.tflops for bound in predicted.bounds if bound.name in _LOOP_BOUNDS]
    hot = mix.hot_loop
    if not rates or hot is None:
        return None
    adds = sum(matrix_products(hot.counts.by_opcode).values()) / WARP_SIZE or hot.counts.by_class.get(_FMA_CLASS, 0)
    if not adds:
        return None
    resident = occupancy(gpu.architecture, use, threads, launch.dynamic_shared_bytes, launch.carveout).blocks_per_sm
    return ProductLoop(
        min(rates) * 1e12 / gpu.sms,
        resident,
        adds,
        hot.counts.instructions,
        ELEMENT_BYTES[dtype],
        operations(dtype),
    )


def product_ms(
    gpu: Gpu, loop: ProductLoop, launch: Launch, size: Size, tile: tuple[int, int], *, prefetch: bool, adds: bool
) -> float:
    """Predict the time of the main GEMM launch, in ms.

    Args:
        gpu: The GPU that it would run on.
        loop: Its main loop.
        launch: Its geometry at the size.
        size: The size.
        tile: Rows and columns of C that a block computes.
        prefetch: The next tile is read while the present one is used.
        adds: Results are added to C, each by a read and a write in L2.
    """
    m, n, k, batch = extents(size)
    machine = gpu.latencies
    clock = gpu.clock_mhz * 1e6
    tiles, threads = math.ceil(m / tile[0]) * math.ceil(n / tile[1]) * batch, math.prod(launch.block)
    blocks = max(math.prod(launch.grid), tiles)  # a block that stays for several tiles counts as one for each
    depth = math.ceil(k / max(1, round(blocks / tiles)))
    work = float(loop.operations) * tile[0] * tile[1] * depth
    turns = work / 2 / threads / loop.fma
    alone = loop.instructions + machine.block_barrier + machine.shared_latency
    latency = max(alone, machine.global_latency) if prefetch else alone + machine.global_latency
    fullest = math.ceil(blocks / gpu.sms)
    at_once = min(loop.blocks, fullest)
    rounds = math.ceil(fullest / at_once)
    busy = rounds * max(at_once * work / loop.rate, turns * latency / clock)
    ends = rounds * 2 * machine.global_latency / clock
    through_l2 = blocks * float(loop.element_bytes) * (sum(tile) * depth + (2 * tile[0] * tile[1] if adds else 0))
    through_l2 /= L2_BYTES_PER_CYCLE * gpu.sms * clock
    return OVERHEAD_MS + 1e3 * max(busy + ends, through_l2, _dram_s(gpu, launch, size, loop.element_bytes))


def pass_ms(gpu: Gpu, launch: Launch, size: Size, element_bytes: int) -> float:
    """Predict the time of a launch that only moves data, in ms, from its template's declared bytes."""
    return OVERHEAD_MS + 1e3 * _dram_s(gpu, launch, size, element_bytes)


def _dram_s(gpu: Gpu, launch: Launch, size: Size, element_bytes: int) -> float:
    """Return the least time of a launch's DRAM traffic in seconds; 0 if the bandwidth is unknown."""
    m, n, k, batch = extents(size)
    traffic = launch.bytes_moved if launch.bytes_moved is not None else element_bytes * (m * k + k * n + m * n) * batch
    return traffic / (gpu.dram_gb_s * 1e9) if gpu.dram_gb_s else 0.0


def tile_of(names: Mapping[str, object], size: Size, blocks: int) -> tuple[int, int]:
    """Return the rows and columns of C per block: from the template's names, else a square of matching area."""
    if tile := block_tile(names):
        return tile
    m, n, _, batch = extents(size)
    side = max(1, math.isqrt(m * n * batch // max(1, blocks)))
    return side, side
