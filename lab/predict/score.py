"""A predicted time of any kernel from the counts of an emulation, to rank variants without measurements.

Each GPU resource would need a certain time by itself, on the SM with the most blocks. The score combines these times by
their norm of order 4, ``(sum of t^4)^(1/4)``: nearly the largest, and up to 19 % more if two are equal, since resources
overlap imperfectly. Launch overhead is added. docs/explanation/score.md has the time of each resource with the source
of its constants, and compares the score with times on an H200.

`KernelScore.least_s` and `KernelScore.most_s` bound the time: the largest resource alone with all reuse in L1, and the
groups of `_GROUPS` serialised with no reuse in L1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from enum import Enum, auto
from typing import Final

from lab.base.warp import LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from lab.hardware.clusters import clusters_likely
from lab.hardware.gpus import Gpu
from lab.hardware.latencies import INSTRUCTION_BYTES, SmLatencies
from lab.isa.matrix import WARPS_OF_A_GROUP
from lab.isa.mix import WarpChain
from lab.isa.model import InstructionClass as C
from lab.predict.work import Fetched, LaunchWork, Ring, Spilled

TOLERANCE: Final = 0.05
"""Relative difference below which scores are tied and their order is not significant. docs/explanation/score.md counts
how many pairs of variants with a larger difference the hardware orders alike."""

ORDER: Final = 4
_GROUPS: Final = (
    (
        "issue slots", "instruction fetch", "floating point", "tensor cores", "integer", "special functions",
        "conversions", "shuffles", "load/store units", "shared memory", "constant cache", "L1",
    ),
    ("L2 reads", "L2 writes", "DRAM", "atomics"),
    ("latency", "copies", "stages", "starts of blocks"),
    ("ends of blocks",),
)  # fmt: skip
"""Resources that overlap in any kernel: issue, memory traffic, latency, and prologue and epilogue. In the worst case
these groups run one after the other."""
_LIMIT_ORDER: Final = 16
"""Order of the norm of the time and the power-limited time."""
_STAGES: Final = "stages"
_DRAM: Final = "DRAM"
_READS: Final = "L2 reads"
_PRODUCTS: Final = "tensor cores"
_ENDS: Final = "ends of blocks"
"""The resource that overlaps with nothing else."""
_SMALL_BLOCK: Final = 8
_MEMORY: Final = (
    C.LD_GLOBAL, C.ST_GLOBAL, C.LD_SHARED, C.ST_SHARED, C.LD_LOCAL, C.ST_LOCAL, C.ATOMIC, C.CP_ASYNC,
)  # fmt: skip


class Reuse(Enum):
    """Share of repeated reads that L1 serves: from `Fetched` if it was counted.

    If it was not, `LIKELY` is the geometric mean of the two bounds.
    """

    LIKELY = auto()
    ALL = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class KernelScore:
    """A predicted time and its components.

    Attributes:
        seconds: Total time, launch overhead included.
        resources: Seconds each resource would need by itself, largest first.
        launches_s: Launch overhead in seconds.
        least_s: Total time under the most favourable assumptions.
        most_s: Total time under the least favourable assumptions.
    """

    seconds: float
    resources: Mapping[str, float] = field(default_factory=dict)
    launches_s: float = 0.0
    least_s: float = 0.0
    most_s: float = 0.0

    @property
    def bound(self) -> str:
        """The limiting resource: the one that needs the most time."""
        return next(iter(self.resources))


def score(gpu: Gpu, launches: Sequence[LaunchWork], bytes_moved: int, *, warm_below_s: float = 0.0) -> KernelScore:
    """Predict the time of launches that run one after the other.

    Args:
        gpu: The GPU.
        launches: At least one.
        bytes_moved: Compulsory DRAM bytes of the problem; 0 if unknown.
        warm_below_s: Shorter launches are assumed to run back to back, with a warm L2 and overlapped launch overhead.

    Returns:
        The score. Times of several launches add up resource by resource.
    """
    cold = _scored(gpu, gpu.latencies, launches, bytes_moved)
    if cold.seconds >= warm_below_s:
        return cold
    queued = replace(gpu.latencies, launch_s=gpu.latencies.relaunch_s)
    # cyclic reads beyond L2's capacity evict the data needed next
    l2_capacity = gpu.latencies.l2_share * gpu.l2_bytes
    evicted = min(1.0, max(0.0, (bytes_moved - l2_capacity) / max(1.0, gpu.l2_bytes - l2_capacity)))
    warm = [
        launch if launch.least_bytes is None else replace(launch, least_bytes=evicted * launch.least_bytes)
        for launch in launches
    ]
    return _scored(gpu, queued, warm, round(evicted * bytes_moved))


def _scored(gpu: Gpu, machine: SmLatencies, launches: Sequence[LaunchWork], bytes_moved: int) -> KernelScore:
    """Predict the time of launches for one state of L2."""
    started = machine.launch_s * len(launches)
    likely, best, worst = (_seconds(gpu, machine, launches, bytes_moved, reuse) for reuse in Reuse)
    power = sum(_allowed(gpu, machine, launch) for launch in launches) - started
    combined = _together(machine, likely)
    if power > 0:
        combined = (combined**_LIMIT_ORDER + power**_LIMIT_ORDER) ** (1 / _LIMIT_ORDER)
        likely["power"] = power
    by_group = [max((worst.get(name, 0.0) for name in group), default=0.0) for group in _GROUPS]
    resources = dict(sorted(((n, s) for n, s in likely.items() if s), key=lambda item: -item[1]))
    return KernelScore(
        started + combined,
        resources or {"launch": started},
        started,
        least_s=started + max(best.values(), default=0.0),
        most_s=started + max(combined, sum(by_group)),
    )


def _together(machine: SmLatencies, resources: Mapping[str, float]) -> float:
    """Return the combined time of all resources, in seconds.

    The stages of a GEMM wait together: blocks that start at the same time request the same steps of their tiles from
    DRAM. So DRAM time is hidden only in part.
    """
    together = _STAGES in resources and resources.get(_PRODUCTS, 0.0) > 0
    apart = {_ENDS, _DRAM} if together else {_ENDS}
    norm: float = sum(seconds**ORDER for name, seconds in resources.items() if name not in apart) ** (1 / ORDER)
    bare = machine.bare_dram * resources.get(_DRAM, 0.0) if together else 0.0
    return norm + bare + resources.get(_ENDS, 0.0)


def _seconds(
    gpu: Gpu, machine: SmLatencies, launches: Sequence[LaunchWork], bytes_moved: int, reuse: Reuse
) -> dict[str, float]:
    """Return the seconds each resource would need by itself for all launches."""
    clock = gpu.clock_mhz * 1e6
    resources: dict[str, float] = {}
    for launch in launches:
        least = bytes_moved / len(launches) if launch.least_bytes is None else launch.least_bytes
        for name, cycles in _cycles(gpu, machine, launch, least, reuse).items():
            resources[name] = resources.get(name, 0.0) + launch.uneven * cycles / clock
        update = machine.float_update_s if launch.one_float else machine.atomic_update_s
        meeting = launch.updates * update / busy_slices(launch.chunks, machine.l2_slices)
        for name, seconds in (("atomics", meeting), ("starts of blocks", launch.blocks * machine.block_start_s)):
            resources[name] = resources.get(name, 0.0) + seconds
    if gpu.dram_gb_s:
        dram_bytes = max(float(bytes_moved), sum(_passed_on(gpu, launch, reuse) for launch in launches))
        with_partial = dram_bytes + sum(launch.partial_bytes for launch in launches)
        if reuse is Reuse.LIKELY:
            dram_bytes = with_partial
        elif reuse is Reuse.NONE:  # unused bytes of sectors are fetched again by their users
            dram_bytes = with_partial + sum(map(_unused, launches))
        dram_bytes += sum(
            launch.spilled.past_l1 * launch.spilled.past_l2 * launch.spilled.bytes
            for launch in launches
            if launch.spilled
        )
        resources[_DRAM] = dram_bytes / (gpu.dram_gb_s * 1e9 * machine.dram_share)
        if reuse is Reuse.LIKELY:
            resources[_DRAM] += sum(
                _lost(gpu, machine, launch.fetched, bytes_moved) for launch in launches if launch.fetched
            )
        # while the last blocks make an extra pass, they do not saturate DRAM
        resources[_DRAM] *= sum(launch.uneven for launch in launches) / len(launches)
    return resources


def _passed_on(gpu: Gpu, work: LaunchWork, reuse: Reuse) -> float:
    """Return the DRAM bytes of a launch in a sequence: the data L2 does not hold from the previous launch."""
    if work.least_bytes is None or reuse is Reuse.ALL:
        return 0.0
    return max(0.0, work.least_bytes - gpu.l2_bytes) if reuse is Reuse.LIKELY else work.least_bytes


def _unused(work: LaunchWork) -> float:
    """Return the bytes of loaded sectors that are not used by the loads."""
    if work.fetched is not None:
        return work.fetched.unused
    return max(0.0, SECTOR_BYTES * work.load_sectors - work.load_bytes)


def _lost(gpu: Gpu, machine: SmLatencies, fetched: Fetched, bytes_moved: int) -> float:
    """Return the DRAM seconds, beyond the compulsory bytes, for data evicted from L2."""
    rate = (gpu.dram_gb_s or 0.0) * 1e9 * machine.dram_share
    among = fetched.lonely_share * bytes_moved
    beyond = max(0.0, 1 - gpu.l2_bytes * machine.l2_share / among) if among else 0.0
    alone = max(0.0, fetched.lonely * machine.dram_sector_s - fetched.lonely_bytes / rate)
    return beyond * alone + SECTOR_BYTES * fetched.again / rate


def _stored_bytes(work: LaunchWork) -> float:
    """Return the bytes that L2 takes as long for as for the stores, if they fill lines.

    A sector alone in its line takes as long as a whole line: 32 million of them, in transpositions of three axes
    without a tile, took an H200 530 to 720 µs, and 660 by this rule. With two and four sectors in a line it was 93 to
    186 a nanosecond, which no such rule explains.
    """
    return SECTOR_BYTES * work.store_sectors + (LINE_BYTES - SECTOR_BYTES) * work.stored_alone


def _passes(work: LaunchWork) -> float:
    """Return the passes through the data banks of L1; for records without them, one per line."""
    passes = work.fetched.passes if work.fetched is not None else None
    return _lines(work) if passes is None else passes


def _lines(work: LaunchWork) -> float:
    """Return the 128-byte lines that loads look up: a coalesced access takes one per four sectors.

    If lines were not counted, sectors beyond the minimum for the same bytes are assumed to lie in separate lines.
    """
    if work.fetched is not None:
        return work.fetched.lines
    filled = min(work.load_sectors, work.load_bytes / SECTOR_BYTES)
    return filled / _SECTORS_PER_LINE + (work.load_sectors - filled)


_SECTORS_PER_LINE: Final = 4


def busy_slices(chunks: int, slices: int) -> float:
    """Return the expected number of L2 slices that hold at least one of some randomly placed chunks."""
    return slices * (1 - (1 - 1 / slices) ** max(1, chunks))


def _cycles(gpu: Gpu, machine: SmLatencies, work: LaunchWork, least: float, reuse: Reuse) -> dict[str, float]:
    """Return the cycles that each resource of the fullest SM needs; `least` bytes must come from DRAM."""
    sm = gpu.architecture
    fullest = _fullest(gpu, work)
    share = fullest / work.blocks  # of the launch, on the fullest SM

    def warps(*classes: C) -> float:
        return sum(work.by_class.get(cls, 0.0) for cls in classes) * share

    fp64 = sm.fp64_lanes or sm.fp32_lanes
    fp = WARP_SIZE * ((1 - work.double) / sm.fp32_lanes + work.double / fp64)
    every = SECTOR_BYTES * work.load_sectors
    dram_read = max(0.0, least - SECTOR_BYTES * work.store_sectors + work.partial_bytes) if least else every
    served = work.fetched
    fetched = {
        Reuse.LIKELY: SECTOR_BYTES * served.likely if served else math.sqrt(every * min(every, dram_read)),
        Reuse.ALL: SECTOR_BYTES * served.least if served else min(every, dram_read),
        Reuse.NONE: SECTOR_BYTES * served.most if served else every,
    }[reuse]
    sent = fetched if served else every
    even = min(1.0, work.load_bytes / sent) if sent else 1.0  # share of the sectors' bytes that are used
    cycles = {
        "issue slots": work.instructions * share / sm.sub_partitions,
        "instruction fetch": share * _fetching(machine, work, min(max(1, work.blocks_per_sm), fullest)),
        "floating point": warps(C.FMA, C.FLOAT) * fp,
        _PRODUCTS: share * _multiplying(gpu, machine, work),
        "integer": warps(C.INTEGER, C.COMPARE) * WARP_SIZE / machine.integer_lanes,
        "special functions": warps(C.SPECIAL) * WARP_SIZE / machine.special_lanes,
        "conversions": warps(C.CONVERT) * WARP_SIZE / machine.convert_lanes,
        "shuffles": warps(C.SHUFFLE) * WARP_SIZE / machine.shuffle_lanes,
        "load/store units": warps(*_MEMORY) * WARP_SIZE / sm.lsu_lanes,
        "shared memory": work.wavefronts * share / machine.shared_wavefronts,
        "constant cache": work.constant_passes * share * machine.constant_pass,
        "L1": share * max(_lines(work) / machine.l1_tags, _passes(work) / machine.l1_lines),
        _READS: share * fetched * (even / machine.l2_read_bytes + (1 - even) / machine.l2_scattered_bytes)
        + _received(gpu, work, share),
        "L2 writes": _stored_bytes(work) / machine.store_bytes * share,
    }
    if work.spilled is not None:
        requests, past = work.spilled.loads + work.spilled.stores, work.spilled.past_l1
        cycles["load/store units"] += requests * WARP_SIZE / sm.lsu_lanes * share
        cycles["L1"] += requests / machine.l1_lines * share
        cycles[_READS] += past * work.spilled.loads * LINE_BYTES / machine.l2_read_bytes * share
        cycles["L2 writes"] += past * work.spilled.stores * LINE_BYTES / machine.store_bytes * share
    resident = min(max(1, work.blocks_per_sm), fullest)
    queueing = _queueing(gpu, machine, work, resident)
    # the large-block loss is already contained in the queueing for tensor cores
    doublings = 0.0 if queueing else max(0.0, math.log2(work.warps_per_block / _SMALL_BLOCK))
    loss = 1 + machine.large_block_loss * doublings
    chain = loss * (_alone(gpu, machine, work, least) + queueing)
    rounds, (full_rounds, last) = chain * fullest / resident, divmod(fullest, resident)
    if queueing and last:  # the last round has fewer co-resident blocks
        rounds = chain * (full_rounds + 1) - loss * (queueing - _queueing(gpu, machine, work, last))
    bare, hidden = _ends(gpu, work, least, loss)
    # co-resident blocks multiply during a block's prologue and epilogue; without any, nothing does
    alone = 0 if work.ends is None else fullest if resident == 1 else 1
    cycles["latency"] = rounds + (hidden * fullest + bare * max(0, fullest - resident * alone)) / resident
    cycles[_ENDS] = bare * alone
    if work.ring is not None:
        cycles.update(_copying(gpu, work, work.ring, least, resident))
    return cycles


def _fullest(gpu: Gpu, work: LaunchWork) -> int:
    """Return the number of blocks on the SM that executes most of them."""
    if work.cluster <= 1:
        return -(-work.blocks // gpu.sms)
    resident = max(1, work.blocks_per_sm)
    blocks = clusters_likely(gpu, resident, work.cluster) * work.cluster
    return -(-work.blocks // max(1, blocks // resident))


def _copying(gpu: Gpu, work: LaunchWork, ring: Ring, least: float, resident: int) -> dict[str, float]:
    """Return the cycles in which the stages of a ring arrive.

    A producer warp requests a stage as soon as it is free. It learns this when the MMAs of the next step are queued, of
    which only the last can wait while the others execute. So a round takes one arrival and a step's MMAs except its
    last instruction. Warps that copy and multiply request one stage per step and wait for another. A stage read by
    wgmma can be refilled when its MMAs have completed, at the end of a step; a stage loaded into registers can be
    refilled after the block barrier, at the beginning of a step.
    """
    machine = gpu.latencies
    share = _fullest(gpu, work) / work.blocks  # of the launch, on the fullest SM
    if ring.in_turn:
        arrival = ring.fills * (_last_line(gpu, work, ring, least) + ring.bytes / machine.copy_bytes)
        before = work.blocks * _alone(gpu, machine, work, least) if work.group_products else 0.0
        return {"copies": share / resident * (arrival + before) / ring.ahead}
    shared = machine.cluster_latency if work.cluster > 1 else 0.0
    queued = _queued(work, ring) * _multiplying(gpu, machine, work)
    round_trip = ring.fills * (_arrival(gpu, work, ring, least) + shared) + queued
    return {_STAGES: share * round_trip / ring.ahead / resident}


def _queued(work: LaunchWork, ring: Ring) -> float:
    """Return the share of a step's MMA time before its last instruction is queued: all but one instruction's.

    If instructions were not counted, that is 1.
    """
    instructions = work.by_class.get(C.MMA, 0.0) / WARPS_OF_A_GROUP / ring.fills
    return 1 - 1 / max(1.0, instructions) if instructions else 1.0


def _received(gpu: Gpu, work: LaunchWork, share: float) -> float:
    """Return the cycles in which L2 sends the data of bulk copies.

    For stages, the bandwidth is shared by all SMs: if only a few SMs have an extra block, these receive faster.
    """
    machine, ring = gpu.latencies, work.ring
    if ring is None or ring.in_turn:
        return share * SECTOR_BYTES * work.bulk_sectors / machine.l2_bytes
    return ring.fills * _stretched(machine, ring) / machine.stage_bytes / gpu.sms / work.uneven


def _arrival(gpu: Gpu, work: LaunchWork, ring: Ring, least: float) -> float:
    """Return the cycles from the request of a stage until it is completely written."""
    write_cycles = _stretched(gpu.latencies, ring) / LINE_BYTES / gpu.latencies.shared_wavefronts
    return _last_line(gpu, work, ring, least) + write_cycles


def _stretched(machine: SmLatencies, ring: Ring) -> float:
    """Return the effective bytes of a stage: its size, or the cost of the rows fetched for it if larger.

    Rows that begin within lines count for more. Multicast data fetched by other blocks of a cluster is charged to
    those blocks.
    """
    by_alignment = dict(machine.unaligned_rows)
    return max(ring.bytes, sum(fetched * by_alignment.get(alignment, 1.0) for alignment, fetched in ring.rows))


def _last_line(gpu: Gpu, work: LaunchWork, ring: Ring, least: float) -> float:
    """Return the cycles until the last line of a stage arrives: `least` bytes come from DRAM, the rest from L2.

    Concurrent blocks reach the same step at the same time. Blocks in a row or column of tiles, about sqrt(W) of W,
    load the same lines, so all of them wait if these come from DRAM.
    """
    machine, together = gpu.latencies, min(work.blocks, gpu.sms * max(1, work.blocks_per_sm))
    distant = max(0.0, least - SECTOR_BYTES * work.store_sectors) / max(1.0, ring.fills * ring.fetched)
    waiting = min(1.0, distant * math.sqrt(together))
    return (1 - waiting) * machine.l2_latency + waiting * machine.global_latency


def _ends(gpu: Gpu, work: LaunchWork, least: float, loss: float) -> tuple[float, float]:
    """Return the cycles of a block's prologue and epilogue: those nothing hides, and those other warps hide.

    The prologue lasts until the first stage is ready; in the epilogue, results are converted and stored. In the hidden
    cycles, other warps of the block multiply.
    """
    machine = gpu.latencies
    if work.ends is None:
        return loss * machine.block_latency, 0.0
    first = _arrival(gpu, work, work.ring, least) if work.ring is not None else 0.0
    waits = min(work.ends.global_loads, work.end_loads / (work.blocks * work.warps_per_block))
    epilogue = _along(machine, work, replace(work.ends, global_loads=0.0), least)
    epilogue += waits * _load_latency(machine, work, work.ends, least)
    results = max(epilogue, SECTOR_BYTES * work.store_sectors / work.blocks / machine.store_bytes)
    bare = first + loss * (machine.block_latency + results / work.turns)
    return bare, loss * results * (1 - 1 / work.turns)


def _allowed(gpu: Gpu, machine: SmLatencies, work: LaunchWork) -> float:
    """Return the seconds of these MMAs under the GPU's power limit, launch overhead and stalls included."""
    cycles = _documented(gpu, work.group_products) / (machine.group_products * machine.tensor_clock)
    return cycles / gpu.sms / (gpu.clock_mhz * 1e6)


def _multiplying(gpu: Gpu, machine: SmLatencies, work: LaunchWork) -> float:
    """Return the tensor core cycles of the whole launch on one SM, at the highest clock."""
    alone, together = (_documented(gpu, products) for products in (work.products, work.group_products))
    if together:  # limited by shared memory, which a cluster's copies also use
        beside = machine.copies_beside if work.cluster > 1 else 0.0
        waves = work.group_wavefronts + beside * work.wavefronts
        together = max(together, waves / machine.shared_wavefronts)
    return alone / machine.warp_products + together / machine.group_products


def _queueing(gpu: Gpu, machine: SmLatencies, work: LaunchWork, resident: int) -> float:
    """Return the cycles that a warp waits for the MMAs and shared-memory reads of other warps.

    Warps that meet at barriers multiply at the same time, serialised on each sub-partition, and read operands from
    shared memory at the same time. A warp's own instructions are on its chain; wgmma does not block a warp. Each
    co-resident block occupies the tensor cores or shared memory, in proportion to its demand for each, for its service
    time there (proportional bounds of closed queueing networks: Hsieh and Lam, Performance Evaluation 7, 1987).
    """
    if work.chain is None or work.chain.barriers < 1 or not (work.products or work.group_products):
        return 0.0
    products = _documented(gpu, work.products) / machine.warp_products / work.blocks
    reads = work.waited_wavefronts / machine.shared_wavefronts / work.blocks
    multiplying = max(0.0, 1 - gpu.architecture.sub_partitions / work.warps_per_block)
    waiting = multiplying * products + (1 - 1 / work.warps_per_block) * reads
    beside = (products**2 + reads**2) / (products + reads) if products else 0.0
    return waiting + (resident - 1) * beside


def _documented(gpu: Gpu, products: Mapping[str, float]) -> float:
    """Return the tensor core cycles of one SM for some multiply-adds at the documented rates."""
    lanes = gpu.architecture.tensor_lanes
    return sum(n / lanes[elements] for elements, n in products.items() if elements in lanes)


def _fetching(machine: SmLatencies, work: LaunchWork, blocks: int) -> float:
    """Return the instruction fetch cycles of an SM, with `blocks` resident, for code that exceeds the caches."""
    warps = blocks * work.warps_per_block
    return sum(n / rate for text, n in work.code if (rate := machine.fetched(text * INSTRUCTION_BYTES, warps)))


def _alone(gpu: Gpu, machine: SmLatencies, work: LaunchWork, least: float) -> float:
    """Return the cycles from a warp's first to its last instruction if it has an SM to itself.

    Without a dependency chain, each instruction is assumed to depend on the previous one. A chain that excludes waits
    for copies lacks the work these waits hid: a warp takes at least its issue time, one instruction per cycle, and its
    MMA time on its sub-partition.
    """
    per_warp = 1 / (work.blocks * work.warps_per_block)  # share of one warp in the launch
    if work.chain is not None:
        chain_cycles = _along(machine, work, _without(work.chain, work.ends), least)
        if work.ring is None or not work.ring.in_turn:
            return chain_cycles
        multiplied = _documented(gpu, work.products) / machine.warp_products * gpu.architecture.sub_partitions
        return max(chain_cycles, per_warp * work.instructions, per_warp * multiplied)
    return (
        -(-work.load_requests * per_warp // work.loads_together) * machine.global_latency
        + work.by_class.get(C.BARRIER, 0.0) * per_warp * machine.block_barrier
        + work.by_class.get(C.SHUFFLE, 0.0) * per_warp * machine.shuffle_cycles
        + work.instructions * per_warp * machine.dependent_cycles
    )


def _without(chain: WarpChain, excluded: WarpChain | None) -> WarpChain:
    """Return a chain without some part of it."""
    if excluded is None:
        return chain
    instructions, *waits = (max(0.0, n - removed) for n, removed in zip(astuple(chain), astuple(excluded), strict=True))
    return WarpChain(round(instructions), *waits)


def _along(machine: SmLatencies, work: LaunchWork, chain: WarpChain, least: float) -> float:
    """Return the cycles of a chain, or of a part of it."""
    return (
        chain.stalls
        + _waited_loads(work, chain) * _load_latency(machine, work, chain, least)
        + chain.atomics * machine.l2_latency
        + chain.local_loads * _local_latency(machine, work.spilled)
        + chain.shared_loads * machine.shared_latency
        + chain.barriers * machine.block_barrier
        + chain.others * machine.special_cycles
    )


def _waited_loads(work: LaunchWork, chain: WarpChain) -> float:
    """Return the number of serialised global loads of a warp: no more than it executes.

    The chain is static and also has the loads of rarely taken paths, as at the edge of a tile.
    """
    return min(chain.global_loads, work.load_requests / (work.blocks * work.warps_per_block))


def _local_latency(machine: SmLatencies, spilled: Spilled | None) -> float:
    """Return the cycles that a warp waits for a local-memory load."""
    past = spilled.past_l1 if spilled is not None else 0.0
    far = spilled.past_l2 if spilled is not None else 0.0
    beyond = (1 - far) * machine.l2_latency + far * machine.global_latency
    return (1 - past) * machine.l1_latency + past * beyond


def _load_latency(machine: SmLatencies, work: LaunchWork, chain: WarpChain, least: float) -> float:
    """Return the mean wait of a warp for global loads, in cycles: it waits for the last line of all of them.

    Lines are assumed to hit L1 independently, at the hit rate of sectors, and likewise L2. Of the L1 misses, `least`
    bytes come from DRAM.
    """
    served, waits = work.fetched, _waited_loads(work, chain)
    if served is None or not work.load_sectors or not waits:
        return machine.global_latency
    lines = max(1.0, served.lines / (work.blocks * work.warps_per_block * waits))
    missed = min(1.0, served.likely / work.load_sectors)
    distant = min(missed, least / (SECTOR_BYTES * work.load_sectors))
    in_l1: float = (1 - missed) ** lines
    in_l2: float = (1 - distant) ** lines
    return in_l1 * machine.l1_latency + (in_l2 - in_l1) * machine.l2_latency + (1 - in_l2) * machine.global_latency
