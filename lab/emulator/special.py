"""Special registers: the geometry of a launch as PTX shows it to each thread (PTX ISA, Special Registers)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Integers, Mask, Words
from lab.emulator.batch import Batch

VECTORS = ("%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid")
"""Registers with three axes; the fourth element reads 0."""

_WARPS_OF_A_MULTIPROCESSOR = 64

MULTIPROCESSORS = 132
"""The SM count of a seeded machine: an H100's."""


@dataclass(slots=True)
class StepClock:
    """A counter of the instructions the interpreter has issued.

    Attributes:
        steps: Instructions so far over all batches, one per group of threads.
        start: The clock registers' value before the first step.
    """

    steps: int = 0
    start: int = 0

    @property
    def reading(self) -> int:
        """The current value of the clock registers, modulo 2^64."""
        return (self.start + self.steps) % 2**64


def machine_clock(machine: int | None) -> StepClock:
    """Return a clock that starts at 0, or at a machine seed's value."""
    if machine is None:
        return StepClock()
    return StepClock(start=int(np.random.default_rng((machine, _CLOCK)).integers(2**63)))


_CLOCK, _BLOCK, _GRID = range(3)
"""Independent random streams of one machine seed."""


def special_registers(
    batch: Batch, shared_bytes: int, dynamic_bytes: int, workspace: int = 0, machine: int | None = None
) -> dict[str, Integers | Mask]:
    """Return the constant special registers.

    Args:
        batch: The threads.
        shared_bytes: Shared memory of a block, static and dynamic.
        dynamic_bytes: The dynamic part.
        workspace: Address of the grid sync workspace of cooperative groups.
        machine: Seed that distributes blocks over SMs and warps over slots; None for one SM and warps in order.

    Returns:
        Name to an array of (threads,), or of (1,) where all threads see the same value.
    """
    table = _indices(batch)
    table |= _of_clusters(batch)
    table |= _of_lanes(batch)
    table["%nwarpid"], table["%smid"], table["%nsmid"] = _fixed(_WARPS_OF_A_MULTIPROCESSOR), _fixed(0), _fixed(1)
    table["%gridid"] = np.array([1], np.uint64)
    table |= {f"%pm{i}": _fixed(0) for i in range(8)}  # performance monitors, which count nothing here
    table |= {f"%pm{i}_64": np.zeros(1, np.uint64) for i in range(8)}
    table |= {f"%envreg{i}": _fixed(0) for i in range(32)}
    table |= {f"%reserved_smem_offset_{name}": _fixed(0) for name in ("begin", "end", "cap", "0", "1")}
    table["%aggr_smem_size"], table["%current_graph_exec"] = _fixed(shared_bytes), np.zeros(1, np.uint64)
    table["%total_smem_size"], table["%dynamic_smem_size"] = _fixed(shared_bytes), _fixed(dynamic_bytes)
    table["%envreg1"], table["%envreg2"] = _fixed(workspace >> 32), _fixed(workspace & 0xFFFFFFFF)
    return table if machine is None else table | _of_machine(batch, machine)


def _of_machine(batch: Batch, machine: int) -> dict[str, Integers | Mask]:
    """Return the machine-dependent registers of a batch, independent of how a launch is split into batches."""
    threads_per_block = batch.threads // batch.blocks
    first, warps = batch.first_thread // threads_per_block, threads_per_block // WARP_SIZE
    multiprocessors = np.empty(batch.blocks, np.uint32)
    slots = np.empty((batch.blocks, warps), np.uint32)
    for i in range(batch.blocks):
        dice = np.random.default_rng((machine, _BLOCK, first + i))
        slots[i] = dice.permutation(_WARPS_OF_A_MULTIPROCESSOR)[:warps]
        multiprocessors[i] = dice.integers(MULTIPROCESSORS)  # an even distribution is not guaranteed
    return {
        "%smid": np.repeat(multiprocessors, threads_per_block),
        "%nsmid": _fixed(MULTIPROCESSORS),
        "%warpid": np.repeat(slots.reshape(-1), WARP_SIZE),
        "%gridid": np.random.default_rng((machine, _GRID)).integers(2, 2**32, 1).astype(np.uint64),
    }


def _fixed(value: int) -> Words:
    return np.array([value], np.uint32)


def _indices(batch: Batch) -> dict[str, Integers | Mask]:
    table: dict[str, Integers | Mask] = {}
    for i, axis in enumerate("xyz"):
        table[f"%tid.{axis}"] = batch.tid[i].astype(np.uint32)
        table[f"%ctaid.{axis}"] = batch.ctaid[i].astype(np.uint32)
        table[f"%ntid.{axis}"], table[f"%nctaid.{axis}"] = _fixed(batch.block[i]), _fixed(batch.grid[i])
    return table


def _of_clusters(batch: Batch) -> dict[str, Integers | Mask]:
    table: dict[str, Integers | Mask] = {}
    rank, step = np.zeros(batch.threads, np.uint32), 1
    for i, axis in enumerate("xyz"):
        size = batch.shape[i]
        within = (batch.ctaid[i] % size).astype(np.uint32)
        rank, step = rank + within * np.uint32(step), step * size
        table[f"%clusterid.{axis}"] = (batch.ctaid[i] // size).astype(np.uint32)
        table[f"%nclusterid.{axis}"] = _fixed(batch.grid[i] // size)
        table[f"%cluster_nctaid.{axis}"] = _fixed(size)
        table[f"%cluster_ctaid.{axis}"] = within
    table["%cluster_ctarank"], table["%cluster_nctarank"] = rank, _fixed(batch.cluster)
    table["%is_explicit_cluster"] = np.array([batch.cluster > 1])
    return table


def _of_lanes(batch: Batch) -> dict[str, Integers | Mask]:
    x, y, _ = batch.block
    linear = batch.tid[0] + x * (batch.tid[1] + y * batch.tid[2])
    lane = (linear % WARP_SIZE).astype(np.uint32)
    table: dict[str, Integers | Mask] = {"%laneid": lane, "%warpid": (linear // WARP_SIZE).astype(np.uint32)}
    own = (np.uint64(1) << lane.astype(np.uint64)).astype(np.uint32)
    below = own - np.uint32(1)
    table["%lanemask_eq"], table["%lanemask_lt"], table["%lanemask_le"] = own, below, own | below
    table["%lanemask_gt"], table["%lanemask_ge"] = ~(own | below), ~below
    return table
