"""Occupancy: the number of resident blocks per SM, by the rules of NVIDIA's occupancy calculator.

The rules are those of the toolkit's `cuda_occupancy.h` (the code behind
`cuOccupancyMaxActiveBlocksPerMultiprocessor`) and of Nsight Compute's calculator, with the numbers of
`lab.hardware.gpus.Architecture`:

registers
    A warp gets ``registers x 32`` rounded up to the register unit. Each of the four sub-partitions holds a quarter of
    the registers, so an SM holds ``4 x floor(registers_per_sm / 4 / allocated)`` warps. For the launch itself, the
    warps of the block are rounded up to a multiple of four and must fit into the register file.
shared memory
    A block gets static + dynamic + reserved bytes rounded up to the unit. The SM has its largest carve-out, which
    the driver chooses if the program states no preference. With a preference it has the smallest carve-out of at least
    that percentage of the largest, or if a block needs more, the smallest that holds one block.
warps, blocks
    The architecture's limits.
barriers
    Since compute capability 9.0, the resident blocks share the SM's named barriers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lab.base.warp import WARP_SIZE
from lab.hardware.gpus import Architecture

LARGEST_CARVEOUT = 100
"""Largest carve-out preference, in percent of an SM's largest shared memory."""


class ResourceUse(Protocol):
    """Resource usage of a kernel, such as `lab.toolchain.base.Resources`."""

    @property
    def registers(self) -> int:
        """Registers per thread."""

    @property
    def shared_bytes(self) -> int:
        """Bytes of static shared memory per block."""

    @property
    def barriers(self) -> int:
        """Named barriers per block."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Occupancy of one SM by a kernel.

    Attributes:
        blocks_per_sm: Resident blocks; 0 if the kernel cannot be launched.
        warps: Resident warps.
        fraction: Resident warps over the SM's maximum, 0 to 1.
        limited_by: Every resource that allows no more than `blocks_per_sm` blocks, in the order `registers`, `shared
            memory`, `warps`, `blocks`, `barriers`.
        block_limits: Blocks that each resource alone would allow; a resource that the kernel does not use is absent.
        shared_per_block: Bytes of shared memory allocated to a block, including reserve and rounding.
        carveout_bytes: Shared memory of an SM in bytes: by the preferred carve-out, or else the smallest configuration
            that holds the resident blocks. The rest is L1 cache.
        reason: Why the kernel cannot be launched; empty if it can.
    """

    blocks_per_sm: int
    warps: int
    fraction: float
    limited_by: tuple[str, ...]
    block_limits: Mapping[str, int]
    shared_per_block: int
    carveout_bytes: int
    reason: str


def occupancy(
    architecture: Architecture,
    use: ResourceUse,
    threads_per_block: int,
    dynamic_shared_bytes: int = 0,
    carveout: int | None = None,
) -> Occupancy:
    """Compute the occupancy of a kernel on one SM.

    The kernel is assumed to have opted in to the dynamic shared memory with which it is launched
    (``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES``).

    Args:
        architecture: The SM.
        use: Registers per thread, static shared bytes and barriers per block.
        threads_per_block: Threads in a block.
        dynamic_shared_bytes: Bytes of dynamic shared memory per block.
        carveout: Preferred shared memory of the SM in percent of its largest; None leaves it to the driver.

    Raises:
        ValueError: There is less than one thread, a size is negative, or the carve-out is not a percentage.
    """
    if threads_per_block < 1 or min(dynamic_shared_bytes, use.registers, use.shared_bytes, use.barriers) < 0:
        raise ValueError("a block needs at least one thread, and no resource may be negative")
    if carveout is not None and not 0 <= carveout <= LARGEST_CARVEOUT:
        raise ValueError(f"a carve-out is 0 to 100 percent, not {carveout}")
    warps = -(-threads_per_block // WARP_SIZE)
    shared = _round_up(use.shared_bytes + dynamic_shared_bytes + architecture.reserved_shared, architecture.shared_unit)
    refusals = _refusals(architecture, use, threads_per_block, use.shared_bytes + dynamic_shared_bytes)
    room = architecture.shared_per_sm if carveout is None else preferred_bytes(architecture, shared, carveout)
    limits = _block_limits(architecture, use, warps, shared, room) | dict.fromkeys(refusals, 0)
    blocks = min(limits.values())
    smallest_carveout = next((size for size in architecture.shared_carveouts if size >= blocks * shared), 0)
    return Occupancy(
        blocks_per_sm=blocks,
        warps=blocks * warps,
        fraction=blocks * warps / architecture.warps_per_sm,
        limited_by=tuple(name for name, limit in limits.items() if limit == blocks),
        block_limits=limits,
        shared_per_block=shared,
        carveout_bytes=smallest_carveout if carveout is None else room,
        reason="; ".join(refusals.values()),
    )


def preferred_bytes(architecture: Architecture, shared: int, carveout: int) -> int:
    """Return the shared memory per SM for a kernel with a preferred carve-out.

    This follows ``cudaOccMaxBlocksPerSMSmemLimit`` of ``cuda_occupancy.h``. The driver treats a preference as a hint
    and may override it if the kernel cannot run otherwise.

    Args:
        architecture: The SM.
        shared: Bytes allocated to a block, including reserve and rounding.
        carveout: The preference, 0 to 100 percent of the largest shared memory of an SM.

    Returns:
        The smallest configurable size in bytes of at least the percentage, or that holds one block if it needs more.
    """
    least = max(architecture.shared_per_sm * carveout // LARGEST_CARVEOUT, shared)
    return next((size for size in architecture.shared_carveouts if size >= least), architecture.shared_per_sm)


def _block_limits(architecture: Architecture, use: ResourceUse, warps: int, shared: int, room: int) -> dict[str, int]:
    """Return the block limit of each resource, in the docstring's order; `room` is an SM's shared memory."""
    limits: dict[str, int] = {}
    if use.registers:
        per_part = architecture.registers_per_sm // architecture.sub_partitions
        warps_per_sm = per_part // _registers_per_warp(architecture, use) * architecture.sub_partitions
        limits["registers"] = warps_per_sm // warps
    if shared:
        limits["shared memory"] = room // shared
    limits["warps"] = architecture.warps_per_sm // warps
    limits["blocks"] = architecture.blocks_per_sm
    if use.barriers and architecture.barriers_per_sm is not None:
        limits["barriers"] = architecture.barriers_per_sm // use.barriers
    return limits


def _refusals(architecture: Architecture, use: ResourceUse, threads: int, shared: int) -> dict[str, str]:
    """Return why a launch would fail, by resource; empty if the kernel can be launched."""
    reasons: dict[str, str] = {}
    warps = _round_up(-(-threads // WARP_SIZE), architecture.sub_partitions)
    registers = _registers_per_warp(architecture, use) * warps
    if use.registers > architecture.registers_per_thread:
        reasons["registers"] = f"{use.registers} registers per thread; at most {architecture.registers_per_thread}"
    elif registers > architecture.registers_per_sm:
        reasons["registers"] = (
            f"{use.registers} registers x {threads} threads take {registers} registers per block; "
            f"at most {architecture.registers_per_sm}"
        )
    if shared > architecture.shared_per_block:
        reasons["shared memory"] = (
            f"{shared} bytes of shared memory per block; at most {architecture.shared_per_block} on {architecture.arch}"
        )
    if threads > architecture.threads_per_block:
        reasons["warps"] = f"{threads} threads per block; at most {architecture.threads_per_block}"
    return reasons


def _registers_per_warp(architecture: Architecture, use: ResourceUse) -> int:
    return _round_up(use.registers * WARP_SIZE, architecture.register_unit)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
