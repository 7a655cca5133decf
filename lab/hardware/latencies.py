"""Latencies and rates of an SM that the model needs and no document gives in one place.

Where the figures of sm_90 come from:

read window; one register a cycle from each bank
    Huerta, Abaie Shoushtary, Cruz, González, Analyzing Modern NVIDIA GPU Cores (arXiv 2503.20481, 2025), section 5.3,
    found on an Ampere GPU; the authors say that it does not match every case. Nothing is fitted here. That the operand
    cache holds registers for the next instruction alone was chosen over a cache entry for each bank, since it agrees
    better with the variants of reports/h200/fma_ceiling that multiply registers alone.
send
    A quarter of the SM's 32 load/store lanes (`lab.hardware.gpus.Architecture.lsu_lanes`) for each sub-partition.
share of DRAM
    4161 of 4800 GB/s: the fastest copy of reports/h200/copy_mapping.
launch
    The shortest rows of reports/h200/softmax_rows and softmax_half, less the time of their bytes, take 4.2 to 4.5 µs;
    of these two latencies of global memory, 0.9 µs, are no part of the launch.
L2's bytes a cycle
    Assumptions: that L2 sends an SM two sectors a cycle, and that it takes about 6 TB/s of stores from 132 SMs.
latencies, operands read, block barrier, branch, queue
    A coarse fit to the 56 variants of gemm_unroll and gemm_ladder as timed on an H200, made with an earlier form of the
    model and not made again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmLatencies:
    """One SM of an architecture, as the model sees it. All times in SM cycles unless their name has another unit.

    Attributes:
        shared_latency: From the end of a shared-memory access's passes to its result.
        global_latency: From the issue of a global load to its result, under load, L2 and DRAM mixed.
        operands_read: Until a memory instruction has read its registers, once its turn has come.
        variable_latency: Of other instructions that raise a barrier (special functions, special registers).
        block_barrier: From the last warp's arrival at a block's barrier to the next instruction.
        branch: After a taken branch.
        queue: Memory instructions of a sub-partition that may wait for their turn.
        send: A sub-partition sends a memory instruction's addresses in so many cycles.
        read_window: Cycles in which an arithmetic instruction's operands are read; each of the two banks delivers one
            register a cycle.
        l2_bytes: Bytes that an SM takes from L2 in a cycle.
        store_bytes: Bytes that L2 takes from each SM in a cycle, all of them storing.
        dram_share: Share of the data sheet's memory bandwidth that a copy reaches.
        launch_s: Seconds of a launch besides what its blocks do.
        source: Where the figures come from, in short; the module says it of each.
    """

    shared_latency: float
    global_latency: float
    operands_read: float
    variable_latency: float
    block_barrier: float
    branch: float
    queue: int
    send: float
    read_window: int
    l2_bytes: float
    store_bytes: float
    dram_share: float
    launch_s: float
    source: str


_MACHINES = {
    "sm_90": SmLatencies(
        shared_latency=24,
        global_latency=900,
        operands_read=8,
        variable_latency=20,
        block_barrier=20,
        branch=10,
        queue=9,
        send=4,
        read_window=3,
        l2_bytes=64,
        store_bytes=24,
        dram_share=0.867,
        launch_s=3.4e-6,
        source="documents and microbenchmarks; latencies under load from gemm_unroll and gemm_ladder on an H200",
    ),
}


def latencies_of(arch: str) -> SmLatencies | None:
    """The model of an architecture such as `sm_90` or `sm_90a`; None where it was never compared with a GPU."""
    return _MACHINES.get(arch.rstrip("af"))
