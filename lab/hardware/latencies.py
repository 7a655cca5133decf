"""Latencies and rates of an SM for the scheduler model; no single document has them.

Sources of the figures of sm_90:

read window; one register per cycle from each bank
    Huerta, Abaie Shoushtary, Cruz, González, Analyzing Modern NVIDIA GPU Cores (arXiv 2503.20481, 2025), section 5.3,
    found on an Ampere GPU; the authors say that it does not match every case. Nothing is fitted here. The operand cache
    holds registers for the next instruction only, rather than one entry per bank, since this agrees better with the
    register-only variants of reports/h200/fma_ceiling.
send
    A quarter of the SM's 32 load/store lanes (`lab.hardware.gpus.Architecture.lsu_lanes`) per sub-partition.
share of DRAM
    4161 of 4800 GB/s: the fastest copy of reports/h200/copy_mapping.
launch
    The shortest rows of reports/h200/softmax_rows and softmax_half, minus their transfer time, take 4.2 to 4.5 µs.
    This includes two global-memory latencies, 0.9 µs, which are not part of the launch.
passes of constant loads
    experiments/micro/constants.yaml on an H200: 2.01 cycles for each distinct word, from 4 to 32 words per request and
    in tables of 256 and 4096 bytes.
lines of L1
    experiments/micro/l1_reuse.yaml: rows of 64 words, read by a thread each, take 1.05 ms for 268 million lines, 1.03
    ms at one line a cycle and SM (`lab.predict.score`).
L2 bytes per cycle
    Assumed: L2 sends two sectors per cycle to an SM, and accepts about 6 TB/s of stores from 132 SMs.
L2 bytes per cycle while all SMs read
    experiments/micro/working_set.yaml: 9.24 TB/s over 32 MiB, each SM starting at its own place. Single-word
    reads of sectors, experiments/micro/random_sectors.yaml: 156 per nanosecond in 8 MiB.
isolated DRAM sectors
    experiments/micro/random_sectors.yaml: 45.1 per nanosecond in 512 MiB, of which L2 holds 32.4: 42.3 from DRAM.
block starts
    experiments/micro/block_rate.yaml: a million blocks of up to 512 threads take 604.5 µs, whatever they hold. With
    1024 threads, two blocks per SM, they take 750 µs: 390 cycles from the end of a block to the start of its successor.
atomics in L2
    experiments/micro/atomics_global.yaml, 16.8 million integer additions: 12.28 ms on one counter; 0.162 ms on 65,536
    separate ones, as if 76 slices worked at the first rate. Floating-point additions to one counter take 29.44 ms; to
    eight or more sectors they take as long as integers.
latencies, operands read, block barrier, branch, queue
    A coarse fit to the times of the 56 variants of gemm_unroll and gemm_ladder on an H200, made with an earlier version
    of the model and not repeated since.
integer, special-function, conversion and shuffle lanes
    CUDA C++ Programming Guide, Throughput of Native Arithmetic Instructions, 9.0; conversions: experiments/micro/pipes.
special functions, backward branches, for a single warp
    experiments/micro/pipes.yaml: 17.2 cycles for each of eight dependent rsqrt; eight dependent fma, whose stalls with
    those of the surrounding loop add up to 35 cycles, take 40.
loads from L1, for a single warp
    experiments/micro/chase.yaml: 60.7 cycles from load to load, 6 of them for the address.
loads from L2, under load
    The same: 381 cycles in L2, 683 in DRAM. The latency of DRAM under load is 900, hence that of L2 is 502.
dependent instructions
    Jia et al., arXiv 1804.06826: 4 cycles for arithmetic on Volta and later. A shuffle is assumed to have the latency
    of shared memory.
instruction fetch
    experiments/micro/code_size.yaml, a loop of independent fma: 3.9 per cycle and SM in 4 to 32 KiB of code; in 48
    to 128 KiB, 0.85 with 4 warps that start apart, 1.4 with 4 that start together, 2.3 with 32; 0.66 to 2.6 in 192 KiB.
mma.sync
    experiments/micro/tensor_pipes.yaml: 1205 of the documented 2048 multiply-adds per cycle and SM for float16 and
    bfloat16, 602 of 1024 for tf32, 2409 of 4096 for int8: 0.588 each.
wgmma
    The same: 16 instructions of m64n256k16 take 2336 cycles, 16 of m64n64k16 626, each with the wait for its group. The
    difference, 1536 cycles by the documented rate, is 1710: 0.898 of that rate.
power
    GEMMs of size 8192 in reports/h200/hgemm_ladder ran at 1380 to 1980 MHz, 1492 in the median, which is 0.75 of the
    highest clock. From 0.69 to 0.75, 0.71 has the least mean error over hgemm_ladder, hgemm_best, hgemm_layouts and
    the variants of hgemm_random that a hash of the parameters left in view (all as of commit 313f50ff). It depends on
    the numbers, the card and its temperature.
stage bytes per cycle
    Kernels with 64 x 64 tiles, which copy most per multiply-add, receive 46 to 57 on average. Of 48, 52, 55 and 58, 55
    has the least mean error over the pages named below. Multicast data counts for each block of the cluster. The
    bandwidth is shared by all SMs: where 72 of them have work, each receives up to 66 (1152 x 1024 x 5376 in
    hgemm_random).
rows not aligned to cache lines
    experiments/hgemm_unaligned.yaml: where columns of both operands begin at multiples of 64, 32 and 16 bytes instead
    of 128, tiles of 64 x 64 take 1.37, 1.51 and 2.36 times as long, and of 128 x 64 1.13, 1.25 and 1.74 times, each
    without the 3.5 µs of a launch and the ends of its blocks; the means.
overlap with stages of bulk copies
    Over hgemm_random, hgemm_ladder, hgemm_layouts, hgemm_best, hgemm_cutlass and hgemm_triton of reports/h200, and
    hgemm_random of reports/h100, all as of commit 949b323f: of 0.4, 0.5 and 0.6 for the exposed share of DRAM time, and
    of 0 and 140 extra cycles per stage of a cluster, which all its blocks must have read, 0.5 and 140 have the least
    mean error.
cluster copies concurrent with wgmma
    hgemm_random, of all draws and both cards: where instructions multiply 64 x 64, which read shared memory in every
    cycle, kernels without clusters take what they read, whatever is copied meanwhile (median 0.98 of 148 variants), and
    those in clusters of two and four 1.12 and 1.1 times that (152). Of 0, 0.2, 0.4, 0.5, 0.6 and 0.75 of what is
    written, 0.6 has the least mean error over the pages above.
copy bytes per cycle
    For cp.async by threads that also multiply: of 22, 24, 26, 28 and 32, 26 has the least mean error over either half
    of the variants of hgemm_ladder and hgemm_best.
queued launches
    experiments/micro/launch.yaml: an empty block takes 1.59 µs in a batch of launches.
large blocks
    In experiments/micro/block_tail.yaml, blocks of 16 warps took 1.21 to 1.29 times as long as those of 8, of 32 warps
    1.35 to 1.53 times, where they were latency-bound.

Other architectures use the figures of sm_90 where theirs are undocumented (`latencies_for`). `lab calibrate` measures
those of a live GPU (`lab.hardware.calibration`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

INSTRUCTION_BYTES: Final = 16
"""Bytes per instruction, since sm_70."""

NEVER_COMPARED: Final = "never compared with hardware"
"""Caveat of every estimate based on the figures of another GPU or on documents alone."""


@dataclass(frozen=True, slots=True)
class SmLatencies:
    """Latencies and rates of one SM of an architecture. Times are in SM cycles unless their name has another unit.

    Attributes:
        shared_latency: Time from the last wavefront of a shared-memory access to its result.
        global_latency: Time from the issue of a global load to its result, under load, with L2 hits and DRAM mixed.
        operands_read: Time that a memory instruction takes to read its registers, once it leaves the queue.
        variable_latency: Latency of other instructions that raise a barrier (special functions, special registers).
        block_barrier: Time from the last warp's arrival at a block's barrier to the next instruction.
        branch: Time lost after a taken branch.
        queue: Number of memory instructions that the queue of a sub-partition holds.
        send: Time that a sub-partition takes to send a memory instruction's addresses.
        read_window: Time in which an arithmetic instruction's operands are read; each of the two banks delivers one
            register per cycle.
        l2_bytes: Bytes that an SM receives from L2 per cycle.
        l2_read_bytes: Bytes that L2 sends to each SM per cycle while all SMs read.
        l2_scattered_bytes: The same for scattered sectors.
        stage_bytes: Bytes of bulk copies into stages that L2 sends per cycle and SM, counting idle SMs.
        unaligned_rows: Slowdown of bulk copies whose rows are aligned only to a number of bytes, by that number,
            relative to rows aligned to cache lines.
        bare_dram: Share of the DRAM time that stages of bulk copies do not hide.
        copies_beside: Share of the shared-memory wavefronts of copies and loads that delay the reads of wgmma, where
            the blocks of a cluster write into each other's shared memory.
        cluster_latency: Time from one cluster block's reading of a stage until another block may fill it.
        copy_bytes: Bytes of a stage of thread copies (`cp.async`) that arrive per cycle, after the first ones.
        store_bytes: Bytes that L2 accepts from each SM per cycle while all SMs store.
        dram_share: Share of the datasheet's memory bandwidth that a copy reaches.
        launch_s: Launch overhead in seconds, without the work of the blocks.
        relaunch_s: The same for a queued launch.
        block_start_s: Seconds between consecutive block starts, over the whole GPU.
        block_latency: Time from a block's last instruction to the first one of its successor on the SM.
        atomic_update_s: Seconds per update in one slice of L2.
        float_update_s: The same for floating-point updates of a single sector.
        l2_slices: Slices of L2 that process updates concurrently.
        source: Short sources of the figures; the module's docstring has the full ones.
        integer_lanes: Lanes of integer arithmetic and comparisons per cycle.
        special_lanes: The same for special functions.
        convert_lanes: The same for conversions.
        shuffle_lanes: The same for shuffles.
        shared_wavefronts: Shared-memory wavefronts per cycle.
        constant_pass: Time of an SM for each distinct word of a constant load.
        l1_lines: Accesses to the data banks of L1 per cycle, each of at most 128 bytes.
        l1_tags: L1 tag lookups of 128-byte lines per cycle.
        dependent_cycles: Time from an arithmetic instruction to a dependent one.
        special_cycles: The same for a special function or a conversion, for a single warp.
        l2_latency: The same as `global_latency`, for an L2 hit.
        l1_latency: Time from the issue of a global load to its result, for an L1 hit.
        taken_branch: Time that a single warp loses at a backward branch, besides the branch's own stall.
        shuffle_cycles: Time from a shuffle to a dependent instruction.
        large_block_loss: Relative latency added by each doubling of a block beyond 8 warps: its slot is only freed when
            its last warp ends.
        dram_sector_s: Seconds that DRAM needs for an isolated sector, over the whole GPU.
        l2_share: Share of L2 that holds distinct lines when all SMs read the same data. From random_sectors: 56.7
            sectors per nanosecond in 128 MiB and 45.2 in 512 imply 32.4 MiB of an H200's 60. The 64 and 256 MiB of
            working_set, not used for this, are then predicted 3 % and 1 % too short, or 12 % and 13 % with all 60.
        code_rates: Instruction fetch rates for code beyond an instruction cache: minimum code size in bytes, and warp
            instructions per cycle and SM by resident warps. From code_size, for warps that do not start together:
            32 KiB of code run at the full rate, 48 to 128 KiB at the first, 192 KiB at the second.
        warp_products: Share of the documented multiply-adds that mma.sync reaches.
        group_products: The same for wgmma, at any clock.
        tensor_clock: Share of the wgmma peak at the highest clock that the power limit allows.
        compared: Whether the scheduler model was compared with such a GPU.
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
    l2_read_bytes: float
    l2_scattered_bytes: float
    store_bytes: float
    dram_share: float
    launch_s: float
    block_start_s: float
    block_latency: float
    atomic_update_s: float
    float_update_s: float
    l2_slices: int
    source: str
    relaunch_s: float = 1.6e-6
    integer_lanes: float = 64
    special_lanes: float = 16
    stage_bytes: float = 55
    unaligned_rows: tuple[tuple[int, float], ...] = ((64, 1.25), (32, 1.38), (16, 2.05))
    bare_dram: float = 0.5
    copies_beside: float = 0.6
    cluster_latency: float = 140
    copy_bytes: float = 26
    convert_lanes: float = 32
    shuffle_lanes: float = 32
    shared_wavefronts: float = 1.0
    constant_pass: float = 2.0
    l1_lines: float = 1.0
    l1_tags: float = 2.8
    dependent_cycles: float = 4
    special_cycles: float = 17.2
    taken_branch: float = 5
    l1_latency: float = 55
    l2_latency: float = 502
    shuffle_cycles: float = 24
    large_block_loss: float = 0.22
    dram_sector_s: float = 23.6e-12
    l2_share: float = 0.54
    code_rates: tuple[tuple[int, tuple[tuple[int, float], ...]], ...] = (
        (32 << 10, ((4, 0.85), (8, 1.3), (16, 2.1), (32, 2.6))),
        (128 << 10, ((4, 0.66), (8, 1.29), (16, 2.57), (32, 2.0))),
    )
    warp_products: float = 1.0
    group_products: float = 1.0
    tensor_clock: float = 1.0
    compared: bool = False

    def fetched(self, code: int, warps: int) -> float | None:
        """Return the warp instructions fetched per cycle by an SM; None if the code fits an instruction cache.

        Args:
            code: Code size in bytes.
            warps: Resident warps per SM, at least 1.
        """
        rates = [by_warps for cached_bytes, by_warps in self.code_rates if code > cached_bytes]
        if not rates:
            return None
        rate_by_warps = dict(rates[-1])
        below = max((n for n in rate_by_warps if n <= warps), default=min(rate_by_warps))
        above = min((n for n in rate_by_warps if n >= warps), default=max(rate_by_warps))
        if below == above:
            return rate_by_warps[below] * min(1.0, warps / below)
        between = math.log2(warps / below) / math.log2(above / below)
        return rate_by_warps[below] + between * (rate_by_warps[above] - rate_by_warps[below])


_LATENCIES = {
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
        l2_read_bytes=36,
        l2_scattered_bytes=20,
        store_bytes=24,
        dram_share=0.867,
        launch_s=3.4e-6,
        block_start_s=0.601e-9,
        block_latency=350,
        atomic_update_s=0.732e-9,
        float_update_s=1.755e-9,
        l2_slices=76,
        warp_products=0.588,
        group_products=0.898,
        tensor_clock=0.71,
        source="documents and microbenchmarks; latencies under load from gemm_unroll and gemm_ladder on an H200",
        compared=True,
    ),
}
_REFERENCE: Final = "sm_90"
_DOCUMENTED: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "sm_70": ({"l2_read_bytes": 2048 / 80}, "L2: NVIDIA A100 whitepaper (V100: 2048 bytes a clock, 80 SMs)"),
    "sm_80": ({"l2_read_bytes": 5120 / 108}, "L2: NVIDIA A100 whitepaper (5120 bytes a clock, 108 SMs)"),
}
"""Documented figures of other architectures, besides the table of `lab.hardware.gpus`."""


def latencies_of(arch: str) -> SmLatencies | None:
    """Return the latencies of an architecture such as `sm_90` or `sm_90a`; None if they were never compared."""
    return _LATENCIES.get(arch.rstrip("af"))


def latencies_for(arch: str) -> SmLatencies:
    """Return the latencies of an architecture: compared ones, or published figures completed by those of sm_90."""
    compared = latencies_of(arch)
    if compared is not None:
        return compared
    documented, source = _DOCUMENTED.get(arch, ({}, ""))
    fallback = f"figures of {_REFERENCE} where undocumented for {arch}"
    # the efficiency of sm_90's tensor cores does not carry over to other architectures, nor does its rate of block
    # starts, which would bound a vector addition on any GPU with more bandwidth
    reference = replace(
        _LATENCIES[_REFERENCE], warp_products=1.0, group_products=1.0, tensor_clock=1.0, block_start_s=0.0
    )
    return replace(reference, **documented, compared=False, source="; ".join(filter(None, [source, fallback])))
