"""Latencies and rates of an SM for the model of its schedulers, which no document gives in one place.

Sources of the figures of sm_90:

read window; one register a cycle from each bank
    Huerta, Abaie Shoushtary, Cruz, González, Analyzing Modern NVIDIA GPU Cores (arXiv 2503.20481, 2025), section 5.3,
    found on an Ampere GPU; the authors say that it does not match every case. Nothing is fitted here. An operand cache
    that holds registers for the next instruction only was preferred to one with an entry for each bank, since it agrees
    better with the variants of reports/h200/fma_ceiling that multiply only registers.
send
    A quarter of the SM's 32 load/store lanes (`lab.hardware.gpus.Architecture.lsu_lanes`) for each sub-partition.
share of DRAM
    4161 of 4800 GB/s: the fastest copy of reports/h200/copy_mapping.
launch
    The shortest rows of reports/h200/softmax_rows and softmax_half, less the time of their bytes, take 4.2 to 4.5 µs.
    Two latencies of global memory in it, 0.9 µs, are not part of the launch.
lines of L1
    experiments/micro/l1_reuse.yaml: rows of 64 words, read by a thread each, take 1.05 ms for 268 million lines, 1.03
    ms at one line a cycle and SM (`lab.predict.score`).
L2's bytes a cycle
    Assumed: L2 sends two sectors a cycle to an SM, and takes about 6 TB/s of stores from 132 SMs.
L2's bytes a cycle while all SMs read
    experiments/micro/working_set.yaml: 9.24 TB/s of 32 MiB, read by all SMs each from its place. Sectors of which one
    word is read, experiments/micro/random_sectors.yaml: 156 a nanosecond in 8 MiB.
sectors of DRAM that are read alone
    experiments/micro/random_sectors.yaml: 45.1 a nanosecond in 512 MiB, of which L2 holds 32.4: 42.3 from DRAM.
starts of blocks
    experiments/micro/block_rate.yaml: a million blocks of up to 512 threads take 604.5 µs, whatever they hold. Of 1024
    threads, of which an SM holds two blocks, they take 750 µs: 390 cycles from one block to the next in its place.
atomics in L2
    experiments/micro/atomics_global.yaml, 16.8 million integer additions: 12.28 ms on one counter; 0.162 ms on 65,536
    that lie apart, as if 76 slices worked at the first rate. Floating-point additions to one counter take 29.44 ms; to
    eight sectors or more they take as long as integers.
latencies, operands read, block barrier, branch, queue
    A coarse fit to the times of the 56 variants of gemm_unroll and gemm_ladder on an H200, made with an earlier form of
    the model and not repeated since.
lanes of integers, special functions, conversions, shuffles
    CUDA C++ Programming Guide, Throughput of Native Arithmetic Instructions, 9.0; conversions: experiments/micro/pipes.
special functions, branches back, for a warp alone
    experiments/micro/pipes.yaml: 17.2 cycles for each of eight dependent rsqrt; eight dependent fma, whose stalls and
    those of the loop around them add up to 35 cycles, take 40.
loads from L1, for a warp alone
    experiments/micro/chase.yaml: 60.7 cycles from load to load, of which 6 compute the address.
loads from L2, under load
    The same: 381 cycles in L2, 683 in DRAM. The latency under load is 900 of DRAM, so that of L2 is 502.
dependent instructions
    Jia et al., arXiv 1804.06826: 4 cycles for arithmetic on Volta and later. A shuffle's latency is taken as that of
    shared memory.
instruction fetch
    experiments/micro/code_size.yaml, a loop of independent fma: 3.9 a cycle and SM in 4 to 32 KiB of code; in 48 to
    128 KiB 0.85 with 4 warps that start apart and 1.4 with 4 that start together, 2.3 with 32; 0.66 to 2.6 in 192 KiB.
mma.sync
    experiments/micro/tensor_pipes.yaml: 1205 multiply-adds a cycle and SM of the documented 2048 of float16 and
    bfloat16, 602 of 1024 of tf32, 2409 of 4096 of int8: 0.588 each.
wgmma
    The same: 16 instructions of m64n256k16 take 2336 cycles, 16 of m64n64k16 626, each with the wait for its group. The
    1536 cycles that the former take longer by the documented rate are 1710: 0.898 of it.
power
    Products of 8192 cubed in reports/h200/hgemm_ladder ran at 1380 to 1980 MHz, 1492 in the median, which is 0.75 of
    the highest clock. From 0.69 to 0.75, 0.71 has the least mean error over hgemm_ladder, hgemm_best, hgemm_layouts and
    the variants of hgemm_random that a hash of the parameters left in view (all as of commit 313f50ff). It depends on
    the numbers, the card and its temperature.
bytes of stages a cycle
    Kernels with 64 x 64 tiles, which copy most for each product, receive 46 to 57 in the mean. Of 48, 52, 55 and 58, 55
    has the least mean error over the pages that are named below. What is multicast to the blocks of a cluster counts in
    each of them. It is what L2 has for all SMs: where 72 of them have work, each receives up to 66 (1152 x 1024 x 5376
    in hgemm_random).
rows that begin within lines
    experiments/hgemm_unaligned.yaml: where columns of both operands begin at multiples of 64, 32 and 16 bytes instead
    of 128, tiles of 64 x 64 take 1.37, 1.51 and 2.36 times as long, and of 128 x 64 1.13, 1.25 and 1.74 times, each
    without the 3.5 µs of a launch and the ends of its blocks; the means.
beside stages of bulk copies
    Over hgemm_random, hgemm_ladder, hgemm_layouts, hgemm_best, hgemm_cutlass and hgemm_triton of reports/h200, and
    hgemm_random of reports/h100, all as of commit 949b323f: of 0.4, 0.5 and 0.6 of DRAM's time that is not hidden, and
    of 0 and 140 cycles that a stage of a cluster takes longer, since all its blocks must have read it, 0.5 and 140 have
    the least mean error.
copies of a cluster beside wgmma
    hgemm_random, of all draws and both cards: where instructions multiply 64 x 64, which read shared memory in every
    cycle, kernels without clusters take what they read, whatever is copied meanwhile (median 0.98 of 148 variants), and
    those in clusters of two and four 1.12 and 1.1 times that (152). Of 0, 0.2, 0.4, 0.5, 0.6 and 0.75 of what is
    written, 0.6 has the least mean error over the pages above.
bytes of copies a cycle
    Copies of threads (cp.async) that multiply, too: of 22, 24, 26, 28 and 32, 26 has the least mean error over either
    half of the variants of hgemm_ladder and hgemm_best.
launches in a queue
    experiments/micro/launch.yaml: a block that does nothing takes 1.59 µs in a batch of launches.
large blocks
    In experiments/micro/block_tail.yaml, blocks of 16 warps took 1.21 to 1.29 times as long as those of 8, of 32 warps
    1.35 to 1.53 times, where latency was what they waited for.

Other architectures have the figures of sm_90 where no document gives theirs (`latencies_for`). `lab calibrate` measures
those of a GPU at hand (`lab.hardware.calibration`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

INSTRUCTION_BYTES: Final = 16
"""Bytes of an instruction, since sm_70."""

NEVER_COMPARED: Final = "never compared with hardware"
"""What every estimate says that stands on the figures of another GPU or of documents alone."""


@dataclass(frozen=True, slots=True)
class SmLatencies:
    """Latencies and rates of one SM of an architecture. Times are in SM cycles unless their name has another unit.

    Attributes:
        shared_latency: Time from the end of a shared-memory access's passes to its result.
        global_latency: Time from the issue of a global load to its result, under load, with L2 hits and DRAM mixed.
        operands_read: Time that a memory instruction takes to read its registers, once its turn has come.
        variable_latency: Latency of other instructions that raise a barrier (special functions, special registers).
        block_barrier: Time from the last warp's arrival at a block's barrier to the next instruction.
        branch: Time lost after a taken branch.
        queue: Number of memory instructions of a sub-partition that can wait for their turn.
        send: Time that a sub-partition takes to send a memory instruction's addresses.
        read_window: Time in which an arithmetic instruction's operands are read; each of the two banks delivers one
            register a cycle.
        l2_bytes: Bytes that an SM receives from L2 in a cycle.
        l2_read_bytes: Bytes that L2 sends to each SM in a cycle while all SMs read.
        l2_scattered_bytes: The same of sectors that lie apart from each other.
        stage_bytes: Bytes of bulk copies into stages that L2 sends in a cycle, for each SM, whether it has work or not.
        unaligned_rows: How many times as long bulk copies take whose rows begin at multiples of so many bytes only, by
            these bytes, of those whose rows begin with lines.
        bare_dram: Share of the time that DRAM needs which stages of bulk copies do not hide.
        copies_beside: Share of the passes through shared memory in which it is written or loaded that keep matrix
            instructions of four warps (wgmma) from reading it, where the blocks of a cluster write into that of others.
        cluster_latency: Time from a stage's reading by one block of a cluster until another may fill it.
        copy_bytes: Bytes of a stage of copies of threads (`cp.async`) that arrive in a cycle, once the first are there.
        store_bytes: Bytes that L2 takes from each SM in a cycle while all SMs store.
        dram_share: Share of the datasheet's memory bandwidth that a copy reaches.
        launch_s: Seconds of a launch without the work of its blocks.
        relaunch_s: The same of a launch that follows others in a queue.
        block_start_s: Seconds from the start of a block to that of the next, over the whole GPU.
        block_latency: Time from the end of a block to the first instruction of the next one in its place, and from its
            last instruction to its end.
        atomic_update_s: Seconds that a slice of L2 takes for an update.
        float_update_s: The same for floating-point numbers that all go to one sector.
        l2_slices: Slices of L2 that make updates at the same time.
        source: Sources of the figures in short; the module's docstring has them in full.
        integer_lanes: Lanes that integer arithmetic and comparisons take in a cycle.
        special_lanes: The same of special functions.
        convert_lanes: The same of conversions.
        shuffle_lanes: The same of shuffles.
        shared_wavefronts: Passes through shared memory in a cycle.
        l1_lines: Passes through the data banks of L1 in a cycle, each of at most 128 bytes.
        l1_tags: Lines of 128 bytes that loads look up in L1 in a cycle.
        dependent_cycles: Time from an arithmetic instruction to the one that needs its result.
        special_cycles: The same of a special function or a conversion, for a warp alone.
        l2_latency: The same as `global_latency`, if L2 has it.
        l1_latency: Time from the issue of a global load to its result, if L1 has it.
        taken_branch: Time that a warp alone loses at a branch back, beside the branch's own stall.
        shuffle_cycles: The same of a shuffle.
        large_block_loss: What each doubling of a block beyond 8 warps adds to its latency: its place stays taken until
            its last warp ends.
        dram_sector_s: Seconds that DRAM needs for a sector that is read alone, over the whole GPU.
        l2_share: Share of L2 that holds different lines where all SMs read the same data. From random_sectors: 56.7
            sectors a nanosecond in 128 MiB and 45.2 in 512 mean 32.4 MiB of an H200's 60. The 64 and 256 MiB of
            working_set, which were not asked, then take 3 % and 1 % less than measured, and 12 % and 13 % with all 60.
        code_rates: What is fetched of code that an instruction cache does not hold: for bytes of code from which on it
            holds, warp instructions in a cycle and SM, by the warps that an SM holds. From code_size, by warps that do
            not start together: 32 KiB of code run at the full rate, 48 to 128 KiB at the first, 192 KiB at the second.
        warp_products: Share of the documented multiply-adds that matrix instructions of one warp reach.
        group_products: The same of those of four warps (wgmma), at whatever clock.
        tensor_clock: Share of what all SMs could multiply at the highest clock by matrix instructions of four warps
            (wgmma) that the GPU's power allows.
        compared: Whether the model of the schedulers was compared with such a GPU.
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
        """Return the warp instructions that an SM with so many warps fetches in a cycle; None where a cache has them.

        Args:
            code: Bytes of the code.
            warps: Resident warps of an SM, at least 1.
        """
        rates = [by_warps for held, by_warps in self.code_rates if code > held]
        if not rates:
            return None
        known = dict(rates[-1])
        below = max((n for n in known if n <= warps), default=min(known))
        above = min((n for n in known if n >= warps), default=max(known))
        if below == above:
            return known[below] * min(1.0, warps / below)
        between = math.log2(warps / below) / math.log2(above / below)
        return known[below] + between * (known[above] - known[below])


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
"""What documents give of other architectures, beside the table of `lab.hardware.gpus`."""


def latencies_of(arch: str) -> SmLatencies | None:
    """Return the latencies of an architecture such as `sm_90` or `sm_90a`; None if no such GPU was compared with."""
    return _LATENCIES.get(arch.rstrip("af"))


def latencies_for(arch: str) -> SmLatencies:
    """Return the latencies of an architecture; where none were compared with a GPU, what is published and sm_90's."""
    known = latencies_of(arch)
    if known is not None:
        return known
    documented, source = _DOCUMENTED.get(arch, ({}, ""))
    others = f"figures of {_REFERENCE} where no document gives those of {arch}"
    # what the tensor cores of sm_90 reach of their documented rates says nothing of others
    reference = replace(_LATENCIES[_REFERENCE], warp_products=1.0, group_products=1.0, tensor_clock=1.0)
    return replace(reference, **documented, compared=False, source="; ".join(filter(None, [source, others])))
