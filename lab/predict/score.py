"""A predicted time of any kernel, from counts of an execution on the CPU. It ranks variants where nothing was measured.

Each resource of the GPU would need a certain time if nothing else took any. The score combines these times as their
norm of order 4, ``(sum of t^4)^(1/4)``: nearly the largest, and up to 19 % more where two are equal, since resources do
not overlap perfectly. The cost of the launches is added. Seconds of a launch, on the SM that gets the most blocks
(``ceil(blocks / SMs)``, which is the tail of a grid that does not fill its last wave):

issue slots
    warp instructions / 4: each of the four schedulers issues one a cycle.
instruction fetch
    Warp instructions of code that is longer than the nearest instruction cache, straight or in a loop, at the rate that
    experiments/micro/code_size measured for so much code and so many resident warps.
arithmetic
    float and fma 128, integer and compare 64, special 16, shuffle 32 lanes a cycle and SM (CUDA C++ Programming Guide,
    Throughput of Native Arithmetic Instructions, 9.0), convert 32; fma in float64 at its own rate. Measured by
    experiments/micro/pipes: fma 107, integer 63, special 16, convert 32, float64 57.
tensor cores
    Multiply-adds of the matrix instructions at the rates of `lab.hardware.gpus.Architecture.tensor_lanes`, of which
    mma.sync and wgmma each reach a part on sm_90; wgmma also at the clock that the GPU keeps while it takes so much
    power.
load/store units
    Memory instructions, one of 32 lanes a cycle.
shared memory
    Wavefronts, one a cycle, as the CPU execution counted them: bank conflicts are in it.
L1
    Passes through its data banks, one a cycle (experiments/micro/l1_reuse, whose lanes all meet in one bank), and the
    lines of 128 bytes that loads look up, 2.8 a cycle (experiments/micro/random_sectors, whose lanes do not): the
    larger. Uncoalesced accesses are in it. Records that lack the passes have one for each line.
L2 reads, L2 writes
    Bytes of sectors over those that L2 sends to an SM and takes from it in a cycle (`lab.hardware.latencies`). L1
    serves repeated reads as `lab.store.caches` says; for records that lack what was read again: see `Reuse`.
atomics
    Updates of global memory that wait for each other, over the slices of L2 that the touched elements lie in
    (`busy_slices`); those of shared memory are wavefronts.
starts of blocks
    0.6 ns each, over the whole GPU.
DRAM
    Least bytes of the problem, and once more the rest of each sector that stores fill only in part, over 0.867 of the
    bandwidth; words that are read at random and rows that are read again, where L2 does not hold them. Launches of a
    sequence that declare their bytes move those, less what L2 can hold from one to the next.
local memory
    What ptxas spills, by the SASS: load/store units and tags as for other accesses; of what the resident threads keep
    there, the share that L1 does not hold goes to L2, and the share of that which L2 does not hold to DRAM.
latency
    What a block waits for, over the blocks that an SM holds at once, so that occupancy hides it: what its warps would
    need alone, by the order and the scheduling bits of their SASS (`lab.predict.chains`), and 350 cycles for its start
    and end. Warps that meet at barriers also wait for each other's mma.sync on their sub-partition. Blocks of more than
    8 warps take 22 % more for each doubling. A global load takes 900 cycles from DRAM, 502 from L2 and 55 from L1, as
    long as the last line of those that are waited for together; a warp waits for no more loads than the CPU executed.
    Records without chains: 900 for each group of global loads, as large as the hot region's; 20 for a barrier, 24 for a
    shuffle, 4 for each instruction (Jia et al., arXiv 1804.06826).

Blocks that loop over the data make whole passes. All of these times are of the block that makes most; those of the
whole GPU are not, but for DRAM's, which the last blocks do not keep busy.

docs/score.md, made by benchmarks/score_agreement.py, holds the score against the times of an H200. The order of the
norm and the charge for partly filled sectors were chosen with its errors in view; the other constants are those of
`lab.hardware.latencies` and of the documents named above, and a shuffle's latency is taken as that of shared memory.

`KernelScore.least_s` and `KernelScore.most_s` bound the time: the largest resource alone with all reuse in L1, and the
three groups of `_GROUPS` one after the other with none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from lab.base.warp import LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from lab.hardware.gpus import Gpu
from lab.hardware.latencies import INSTRUCTION_BYTES, SmLatencies
from lab.isa.mix import WarpChain
from lab.isa.model import InstructionClass as C

TOLERANCE: Final = 0.05
"""Scores that differ by less are tied. Of pairs of variants that score further apart, docs/score.md counts how many the
hardware orders alike; below this difference the order of the scores says nothing."""

ORDER: Final = 4
_GROUPS: Final = (
    (
        "issue slots", "instruction fetch", "floating point", "tensor cores", "integer", "special functions",
        "conversions", "shuffles", "load/store units", "shared memory", "L1",
    ),
    ("L2 reads", "L2 writes", "DRAM", "atomics"),
    ("latency", "starts of blocks"),
)  # fmt: skip
"""Resources that work side by side whatever a kernel does: what its warps issue, what memory moves, what they wait
for. At worst these three follow each other."""
_SMALL_BLOCK: Final = 8
_MEMORY: Final = (
    C.LD_GLOBAL, C.ST_GLOBAL, C.LD_SHARED, C.ST_SHARED, C.LD_LOCAL, C.ST_LOCAL, C.ATOMIC, C.CP_ASYNC,
)  # fmt: skip


class Reuse(Enum):
    """How much of what is read more than once L1 serves: what `Fetched` says, where that was counted.

    Where it was not, `LIKELY` is the geometric mean of the two bounds.
    """

    LIKELY = auto()
    ALL = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Fetched:
    """Loads of a launch as L1 and L2 serve them; sectors of the whole launch.

    Attributes:
        lines: Lines that L1 looks up.
        likely: Sectors that L1 misses.
        least: The same with four times the L1.
        most: The same with a quarter of the L1.
        lonely: Sectors of which neighbouring blocks use at most half.
        lonely_bytes: Bytes that they use of them.
        lonely_share: Share of the problem's bytes that the buffers have in which they lie.
        again: Sectors that were read before, miss L1, and no longer fit into L2.
        unused: Bytes of the sectors that neighbouring blocks do not use.
        passes: Passes through the data banks of L1; None where only lines were counted.
    """

    lines: float
    likely: float
    least: float
    most: float
    lonely: float = 0.0
    lonely_bytes: float = 0.0
    lonely_share: float = 0.0
    again: float = 0.0
    unused: float = 0.0
    passes: float | None = None


@dataclass(frozen=True, slots=True)
class Spilled:
    """Local memory, which ptxas uses for what registers do not hold.

    Attributes:
        loads: Warp requests of the whole launch that load from it.
        stores: Those that store there.
        past_l1: Share of what the threads of an SM keep there that its L1 does not hold, 0 to 1.
        past_l2: Share of what all resident threads keep there that L2 does not hold.
    """

    loads: float
    stores: float
    past_l1: float
    past_l2: float

    @property
    def bytes(self) -> float:
        """Bytes of all requests, 4 for each lane: ptxas lays the lanes' words side by side."""
        return 4.0 * WARP_SIZE * (self.loads + self.stores)


@dataclass(frozen=True, slots=True)
class LaunchWork:
    """What one launch executes at the problem's real size.

    Attributes:
        blocks: Blocks of its grid.
        warps_per_block: Warps of a block.
        blocks_per_sm: Blocks that an SM holds at once, at least 1.
        instructions: Warp instructions of the whole launch.
        by_class: Warp instructions by `InstructionClass` value.
        load_requests: Warp requests that load from global memory, copies included.
        load_sectors: Their sectors.
        load_bytes: Bytes that their threads asked for.
        store_sectors: Sectors that global stores touch.
        partial_bytes: Bytes of those sectors that the same request did not fill.
        wavefronts: Passes through shared memory.
        updates: Updates of global memory by atomics that wait for each other (`MemoryCount.updates`).
        chunks: Pieces of global memory that they touch (`MemoryCount.chunks`).
        one_float: Whether they add floating-point numbers to a single sector.
        loads_together: Global loads of the hot region's text, which a warp can have under way at once; at least 1.
        double: Share of the floating-point instructions that are float64, 0 to 1.
        fetched: What L1 and L2 serve of the loads; None where that was not counted.
        uneven: Work of the block that has most over that of the mean; 1 where they are alike.
        least_bytes: Least bytes through DRAM that are declared for it, of a sequence; None where none are.
        chain: What a warp waits for from its first to its last instruction, in the mean; None where the SASS was not
            read for it.
        spilled: What its threads keep in local memory; None where they keep nothing there.
        code: Of each piece of code that is executed over and over: instructions of its text, and warp instructions of
            the whole launch in it.
        products: Multiply-adds of its matrix instructions of one warp by the type of the factors, as `lab.isa.matrix`
            names them.
        group_products: The same of those of four warps together (wgmma).
    """

    blocks: int
    warps_per_block: int
    blocks_per_sm: int
    instructions: float
    by_class: Mapping[str, float]
    load_requests: float = 0.0
    load_sectors: float = 0.0
    load_bytes: float = 0.0
    store_sectors: float = 0.0
    partial_bytes: float = 0.0
    wavefronts: float = 0.0
    updates: float = 0.0
    chunks: int = 1
    one_float: bool = False
    loads_together: float = 1.0
    double: float = 0.0
    fetched: Fetched | None = None
    uneven: float = 1.0
    least_bytes: float | None = None
    chain: WarpChain | None = None
    spilled: Spilled | None = None
    code: tuple[tuple[int, float], ...] = ()
    products: Mapping[str, float] = field(default_factory=dict)
    group_products: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelScore:
    """A predicted time and what it is made of.

    Attributes:
        seconds: The whole, launches included.
        resources: Seconds that each resource alone would need, the largest first.
        launches_s: Seconds of starting the launches.
        least_s: The whole under the assumptions that favour it most.
        most_s: The whole under those that favour it least.
    """

    seconds: float
    resources: Mapping[str, float] = field(default_factory=dict)
    launches_s: float = 0.0
    least_s: float = 0.0
    most_s: float = 0.0

    @property
    def bound(self) -> str:
        """The resource that needs the most time."""
        return next(iter(self.resources))


def score(gpu: Gpu, launches: Sequence[LaunchWork], bytes_moved: int) -> KernelScore:
    """Predict the time of launches that run one after the other.

    Args:
        gpu: The GPU.
        launches: At least one.
        bytes_moved: Least bytes of the problem through DRAM; 0 where that is not known.

    Returns:
        The score. Times of several launches add up resource by resource.
    """
    machine = gpu.latencies
    started = machine.launch_s * len(launches)
    likely, best, worst = (_seconds(gpu, machine, launches, bytes_moved, reuse) for reuse in Reuse)
    norm = sum(seconds**ORDER for seconds in likely.values()) ** (1 / ORDER)
    apart = [max((worst.get(name, 0.0) for name in group), default=0.0) for group in _GROUPS]
    shown = dict(sorted(((n, s) for n, s in likely.items() if s), key=lambda item: -item[1]))
    return KernelScore(
        started + norm,
        shown or {"launch": started},
        started,
        least_s=started + max(best.values(), default=0.0),
        most_s=started + max(norm, sum(apart)),
    )


def _seconds(
    gpu: Gpu, machine: SmLatencies, launches: Sequence[LaunchWork], bytes_moved: int, reuse: Reuse
) -> dict[str, float]:
    """Return the seconds that each resource alone would need for all launches."""
    clock = gpu.clock_mhz * 1e6
    found: dict[str, float] = {}
    for launch in launches:
        least = bytes_moved / len(launches) if launch.least_bytes is None else launch.least_bytes
        for name, cycles in _cycles(gpu, machine, launch, least, reuse).items():
            found[name] = found.get(name, 0.0) + launch.uneven * cycles / clock
        update = machine.float_update_s if launch.one_float else machine.atomic_update_s
        meeting = launch.updates * update / busy_slices(launch.chunks, machine.l2_slices)
        for name, seconds in (("atomics", meeting), ("starts of blocks", launch.blocks * machine.block_start_s)):
            found[name] = found.get(name, 0.0) + seconds
    if gpu.dram_gb_s:
        moved = max(float(bytes_moved), sum(_passed_on(gpu, launch, reuse) for launch in launches))
        whole = moved + sum(launch.partial_bytes for launch in launches)
        if reuse is Reuse.LIKELY:
            moved = whole
        elif reuse is Reuse.NONE:  # what is not used of the sectors is fetched again for who does
            moved = whole + sum(map(_unused, launches))
        moved += sum(one.spilled.past_l1 * one.spilled.past_l2 * one.spilled.bytes for one in launches if one.spilled)
        found["DRAM"] = moved / (gpu.dram_gb_s * 1e9 * machine.dram_share)
        if reuse is Reuse.LIKELY:
            found["DRAM"] += sum(_lost(gpu, machine, one.fetched, bytes_moved) for one in launches if one.fetched)
        # while the last blocks make a pass that the others do not, they keep no DRAM busy
        found["DRAM"] *= sum(launch.uneven for launch in launches) / len(launches)
    return found


def _passed_on(gpu: Gpu, work: LaunchWork, reuse: Reuse) -> float:
    """Return the bytes that a launch of a sequence moves through DRAM: what L2 does not hold from the last one."""
    if work.least_bytes is None or reuse is Reuse.ALL:
        return 0.0
    return max(0.0, work.least_bytes - gpu.l2_bytes) if reuse is Reuse.LIKELY else work.least_bytes


def _unused(work: LaunchWork) -> float:
    """Return the bytes of loaded sectors that those who load them do not use."""
    if work.fetched is not None:
        return work.fetched.unused
    return max(0.0, SECTOR_BYTES * work.load_sectors - work.load_bytes)


def _lost(gpu: Gpu, machine: SmLatencies, found: Fetched, bytes_moved: int) -> float:
    """Return the seconds that DRAM needs beyond the least bytes for what L2 holds no longer."""
    rate = (gpu.dram_gb_s or 0.0) * 1e9 * machine.dram_share
    among = found.lonely_share * bytes_moved
    beyond = max(0.0, 1 - gpu.l2_bytes * machine.l2_share / among) if among else 0.0
    alone = max(0.0, found.lonely * machine.dram_sector_s - found.lonely_bytes / rate)
    return beyond * alone + SECTOR_BYTES * found.again / rate


def _passes(work: LaunchWork) -> float:
    """Return the passes through the data banks of L1, of records that lack them one for each line."""
    passes = work.fetched.passes if work.fetched is not None else None
    return _lines(work) if passes is None else passes


def _lines(work: LaunchWork) -> float:
    """Return the lines of 128 bytes that loads look up: an even access takes one for four sectors.

    Where lines were not counted, sectors beyond those that the same bytes would fill lie in lines of their own.
    """
    if work.fetched is not None:
        return work.fetched.lines
    filled = min(work.load_sectors, work.load_bytes / SECTOR_BYTES)
    return filled / _SECTORS_PER_LINE + (work.load_sectors - filled)


_SECTORS_PER_LINE: Final = 4


def busy_slices(chunks: int, slices: int) -> float:
    """Return how many slices of L2 hold at least one of some chunks, if each lies in a slice at random."""
    return slices * (1 - (1 - 1 / slices) ** max(1, chunks))


def _cycles(gpu: Gpu, machine: SmLatencies, work: LaunchWork, least: float, reuse: Reuse) -> dict[str, float]:
    """Return the cycles that each resource of the fullest SM needs; `least` bytes must come from DRAM."""
    sm = gpu.architecture
    fullest = -(-work.blocks // gpu.sms)
    share = fullest / work.blocks  # of the launch, on the fullest SM

    def warps(*classes: C) -> float:
        return sum(work.by_class.get(cls, 0.0) for cls in classes) * share

    fp64 = sm.fp64_lanes or sm.fp32_lanes
    fp = WARP_SIZE * ((1 - work.double) / sm.fp32_lanes + work.double / fp64)
    every = SECTOR_BYTES * work.load_sectors
    read = max(0.0, least - SECTOR_BYTES * work.store_sectors + work.partial_bytes) if least else every
    served = work.fetched
    fetched = {
        Reuse.LIKELY: SECTOR_BYTES * served.likely if served else math.sqrt(every * min(every, read)),
        Reuse.ALL: SECTOR_BYTES * served.least if served else min(every, read),
        Reuse.NONE: SECTOR_BYTES * served.most if served else every,
    }[reuse]
    sent = fetched if served else every
    even = min(1.0, work.load_bytes / sent) if sent else 1.0  # share of the sectors' bytes that are used
    made = {
        "issue slots": work.instructions * share / sm.sub_partitions,
        "instruction fetch": share * _fetching(machine, work, min(max(1, work.blocks_per_sm), fullest)),
        "floating point": warps(C.FMA, C.FLOAT) * fp,
        "tensor cores": share * _multiplying(gpu, machine, work),
        "integer": warps(C.INTEGER, C.COMPARE) * WARP_SIZE / machine.integer_lanes,
        "special functions": warps(C.SPECIAL) * WARP_SIZE / machine.special_lanes,
        "conversions": warps(C.CONVERT) * WARP_SIZE / machine.convert_lanes,
        "shuffles": warps(C.SHUFFLE) * WARP_SIZE / machine.shuffle_lanes,
        "load/store units": warps(*_MEMORY) * WARP_SIZE / sm.lsu_lanes,
        "shared memory": work.wavefronts * share / machine.shared_wavefronts,
        "L1": share * max(_lines(work) / machine.l1_tags, _passes(work) / machine.l1_lines),
        "L2 reads": fetched * (even / machine.l2_read_bytes + (1 - even) / machine.l2_scattered_bytes) * share,
        "L2 writes": SECTOR_BYTES * work.store_sectors / machine.store_bytes * share,
    }
    if work.spilled is not None:
        requests, past = work.spilled.loads + work.spilled.stores, work.spilled.past_l1
        made["load/store units"] += requests * WARP_SIZE / sm.lsu_lanes * share
        made["L1"] += requests / machine.l1_lines * share
        made["L2 reads"] += past * work.spilled.loads * LINE_BYTES / machine.l2_read_bytes * share
        made["L2 writes"] += past * work.spilled.stores * LINE_BYTES / machine.store_bytes * share
    chain = _alone(machine, work, least) + _queueing(gpu, machine, work) + machine.block_latency
    chain *= 1 + machine.large_block_loss * max(0.0, math.log2(work.warps_per_block / _SMALL_BLOCK))
    made["latency"] = chain * fullest / min(max(1, work.blocks_per_sm), fullest)
    return made


def _multiplying(gpu: Gpu, machine: SmLatencies, work: LaunchWork) -> float:
    """Return the cycles, at the highest clock, that one SM's tensor cores would take for the whole launch."""
    alone, together = (_documented(gpu, made) for made in (work.products, work.group_products))
    return alone / machine.warp_products + together / (machine.group_products * machine.tensor_clock)


def _queueing(gpu: Gpu, machine: SmLatencies, work: LaunchWork) -> float:
    """Return the cycles that a warp waits for the matrix instructions of its block's other warps.

    Warps that meet at barriers multiply at the same time, those of a sub-partition one after the other. A warp's own
    instructions are on its chain; those of four warps together (wgmma) keep no warp from going on.
    """
    if work.chain is None or work.chain.barriers < 1:
        return 0.0
    others = max(0.0, 1 - gpu.architecture.sub_partitions / work.warps_per_block)
    return others * _documented(gpu, work.products) / machine.warp_products / work.blocks


def _documented(gpu: Gpu, products: Mapping[str, float]) -> float:
    """Return the cycles of one SM's tensor cores for some multiply-adds at the documented rates."""
    lanes = gpu.architecture.tensor_lanes
    return sum(n / lanes[elements] for elements, n in products.items() if elements in lanes)


def _fetching(machine: SmLatencies, work: LaunchWork, blocks: int) -> float:
    """Return the cycles in which an SM with so many resident blocks fetches what no instruction cache holds."""
    warps = blocks * work.warps_per_block
    return sum(n / rate for text, n in work.code if (rate := machine.fetched(text * INSTRUCTION_BYTES, warps)))


def _alone(machine: SmLatencies, work: LaunchWork, least: float) -> float:
    """Return the cycles from a warp's first to its last instruction, if it has an SM for itself.

    Where the order of its instructions is not known, each is taken to need the result of the one before.
    """
    chain = work.chain
    if chain is not None:
        return (
            chain.stalls
            + _waited_loads(work, chain) * _load_latency(machine, work, chain, least)
            + chain.atomics * machine.l2_latency
            + chain.local_loads * _local_latency(machine, work.spilled)
            + chain.shared_loads * machine.shared_latency
            + chain.barriers * machine.block_barrier
            + chain.others * machine.special_cycles
        )
    each = 1 / (work.blocks * work.warps_per_block)  # of the launch, in one warp
    return (
        -(-work.load_requests * each // work.loads_together) * machine.global_latency
        + work.by_class.get(C.BARRIER, 0.0) * each * machine.block_barrier
        + work.by_class.get(C.SHUFFLE, 0.0) * each * machine.shuffle_cycles
        + work.instructions * each * machine.dependent_cycles
    )


def _waited_loads(work: LaunchWork, chain: WarpChain) -> float:
    """Return how many global loads a warp waits for one after the other: no more than it executes.

    The chain is that of the text, which also has the loads of paths that are seldom taken, as at the edge of a tile.
    """
    return min(chain.global_loads, work.load_requests / (work.blocks * work.warps_per_block))


def _local_latency(machine: SmLatencies, spilled: Spilled | None) -> float:
    """Return the cycles that a warp waits for what it kept in local memory."""
    past = spilled.past_l1 if spilled is not None else 0.0
    far = spilled.past_l2 if spilled is not None else 0.0
    beyond = (1 - far) * machine.l2_latency + far * machine.global_latency
    return (1 - past) * machine.l1_latency + past * beyond


def _load_latency(machine: SmLatencies, work: LaunchWork, chain: WarpChain, least: float) -> float:
    """Return the cycles that a warp waits for global loads in the mean: it waits for the last line of all of them.

    Lines are taken to be in L1 independently of each other, as often as sectors are, and so in L2. Of what L1 misses,
    `least` bytes come from DRAM.
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
