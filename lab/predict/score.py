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
    mma.sync and wgmma each reach a part on sm_90. wgmma reads its operands in shared memory, where small shapes take
    longer, in clusters beside a part of what is copied there, and reaches the same part of that.
power (whole GPU)
    What wgmma multiplies, at 0.71 of that rate: with all SMs at work, the GPU lowers its clock. Pauses count, so that a
    kernel whose SMs wait keeps the clock. It limits the whole, with a norm of order 16.
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
    serves repeated reads as `lab.predict.caches` says; for records that lack what was read again: see `Reuse`. Bulk
    copies pass by L1. Of those that fill stages, L2 sends all SMs together 55 bytes a cycle for each SM, and fewer of
    rows that begin within lines.
stages, copies
    Asynchronous copies that fill a ring of stages in shared memory. A stage is there when its last line has come, 900
    cycles after it was asked for from DRAM and 502 from L2, and its wavefronts have been written; as many are under way
    as the ring has, less the one that is read. Blocks that want the same lines wait for DRAM together. Where a warp
    does nothing but ask for stages, it asks again when the products of the next step have been queued, so that a round
    takes an arrival and the products of a step but those of its last instruction, and of a cluster 140 cycles more.
    Where the warps that ask also multiply, each step takes what it waits for, a latency and its bytes at 26 a cycle; of
    wgmma also what it does.
atomics
    Updates of global memory that wait for each other, over the slices of L2 that the touched elements lie in
    (`busy_slices`); those of shared memory are wavefronts.
starts of blocks
    0.6 ns each, over the whole GPU.
DRAM
    Least bytes of the problem, and once more the rest of each sector that stores fill only in part, over 0.867 of the
    bandwidth; words that are read at random and rows that are read again, where L2 does not hold them. Launches of a
    sequence that declare their bytes move those, less what L2 can hold from one to the next. Half of it is added to
    what stages take, which all wait for the same first steps of their tiles.
local memory
    What ptxas spills, by the SASS: load/store units and tags as for other accesses; of what the resident threads keep
    there, the share that L1 does not hold goes to L2, and the share of that which L2 does not hold to DRAM.
latency
    What a block waits for, over the blocks that an SM holds at once, so that occupancy hides it: what its warps would
    need alone, by the order and the scheduling bits of their SASS (`lab.predict.chains`), and 350 cycles for its start
    and end. Warps that meet at barriers also wait for each other's mma.sync on their sub-partition and for what the
    others read in shared memory, if they multiply matrices, and for the blocks beside theirs, which do the same; the
    last blocks of an SM take a round of their own. Other blocks of more than 8 warps take 22 % more for each doubling.
    A global load takes 900 cycles from DRAM, 502 from L2 and 55 from L1, as long as the last line of those that are
    waited for together; a warp waits for no more loads than the CPU executed. Records without chains: 900 for each
    group of global loads, as large as the hot region's; 20 for a barrier, 24 for a shuffle, 4 for each instruction (Jia
    et al., arXiv 1804.06826).
ends of blocks
    Of kernels with matrix instructions, what a block does outside of the loop that multiplies: until its first stage is
    there, and when it makes results of its sums and stores them, no faster than L2 takes them. Where an SM holds one
    block, nothing multiplies meanwhile, in every tile, unless warps hand over their turn by a named barrier; else this
    is so once. It is added to the rest.

Blocks that loop over the data make whole passes, or take whole tiles. The blocks of a cluster start together, as many
clusters as the GPU likely holds (`lab.hardware.clusters`). All of these times are of the block that makes most; those
of the whole GPU are not, but for DRAM's, which the last blocks do not keep busy.

Launches that are shorter than 50 µs are timed in a queue, where the next is prepared while one runs, and with what L2
holds in L2 (`warm_below_s`).

docs/explanation/score.md, made by benchmarks/score_agreement.py, holds the score against the times of an H200. The
order of the norm and the charge for partly filled sectors were chosen with its errors in view; the other constants
are those of `lab.hardware.latencies` and of the documents named above, and a shuffle's latency is taken as that of
shared memory.

`KernelScore.least_s` and `KernelScore.most_s` bound the time: the largest resource alone with all reuse in L1, and the
groups of `_GROUPS` one after the other with none.
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
"""Scores that differ by less are tied. Of pairs of variants that score further apart, docs/explanation/score.md
counts how many the hardware orders alike; below this difference the order of the scores says nothing."""

ORDER: Final = 4
_GROUPS: Final = (
    (
        "issue slots", "instruction fetch", "floating point", "tensor cores", "integer", "special functions",
        "conversions", "shuffles", "load/store units", "shared memory", "L1",
    ),
    ("L2 reads", "L2 writes", "DRAM", "atomics"),
    ("latency", "copies", "stages", "starts of blocks"),
    ("ends of blocks",),
)  # fmt: skip
"""Resources that work side by side whatever a kernel does: what its warps issue, what memory moves, what they wait
for, and how they begin and end. At worst these follow each other."""
_LIMIT_ORDER: Final = 16
"""Order of the norm of the time and of the one that the GPU's power allows."""
_STAGES: Final = "stages"
_DRAM: Final = "DRAM"
_READS: Final = "L2 reads"
_PRODUCTS: Final = "tensor cores"
_ENDS: Final = "ends of blocks"
"""What no other resource works beside."""
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


def score(gpu: Gpu, launches: Sequence[LaunchWork], bytes_moved: int, *, warm_below_s: float = 0.0) -> KernelScore:
    """Predict the time of launches that run one after the other.

    Args:
        gpu: The GPU.
        launches: At least one.
        bytes_moved: Least bytes of the problem through DRAM; 0 where that is not known.
        warm_below_s: What takes less is launched again and again, so that L2 holds what it can and the next launch is
            prepared while one runs.

    Returns:
        The score. Times of several launches add up resource by resource.
    """
    cold = _scored(gpu, gpu.latencies, launches, bytes_moved)
    if cold.seconds >= warm_below_s:
        return cold
    queued = replace(gpu.latencies, launch_s=gpu.latencies.relaunch_s)
    # what is read in turn and does not fit pushes out what comes next
    kept = gpu.latencies.l2_share * gpu.l2_bytes
    past = min(1.0, max(0.0, (bytes_moved - kept) / max(1.0, gpu.l2_bytes - kept)))
    warm = [one if one.least_bytes is None else replace(one, least_bytes=past * one.least_bytes) for one in launches]
    return _scored(gpu, queued, warm, round(past * bytes_moved))


def _scored(gpu: Gpu, machine: SmLatencies, launches: Sequence[LaunchWork], bytes_moved: int) -> KernelScore:
    """Predict the time of launches in one state of L2."""
    started = machine.launch_s * len(launches)
    likely, best, worst = (_seconds(gpu, machine, launches, bytes_moved, reuse) for reuse in Reuse)
    power = sum(_allowed(gpu, machine, launch) for launch in launches) - started
    whole = _together(machine, likely)
    if power > 0:
        whole = (whole**_LIMIT_ORDER + power**_LIMIT_ORDER) ** (1 / _LIMIT_ORDER)
        likely["power"] = power
    apart = [max((worst.get(name, 0.0) for name in group), default=0.0) for group in _GROUPS]
    shown = dict(sorted(((n, s) for n, s in likely.items() if s), key=lambda item: -item[1]))
    return KernelScore(
        started + whole,
        shown or {"launch": started},
        started,
        least_s=started + max(best.values(), default=0.0),
        most_s=started + max(whole, sum(apart)),
    )


def _together(machine: SmLatencies, found: Mapping[str, float]) -> float:
    """Return the seconds of all resources together.

    Stages of a product wait together: blocks that start at the same time ask DRAM for the same steps of their tiles. So
    what DRAM needs is hidden in part only.
    """
    together = _STAGES in found and found.get(_PRODUCTS, 0.0) > 0
    apart = {_ENDS, _DRAM} if together else {_ENDS}
    norm: float = sum(seconds**ORDER for name, seconds in found.items() if name not in apart) ** (1 / ORDER)
    bare = machine.bare_dram * found.get(_DRAM, 0.0) if together else 0.0
    return norm + bare + found.get(_ENDS, 0.0)


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
        found[_DRAM] = moved / (gpu.dram_gb_s * 1e9 * machine.dram_share)
        if reuse is Reuse.LIKELY:
            found[_DRAM] += sum(_lost(gpu, machine, one.fetched, bytes_moved) for one in launches if one.fetched)
        # while the last blocks make a pass that the others do not, they keep no DRAM busy
        found[_DRAM] *= sum(launch.uneven for launch in launches) / len(launches)
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
    fullest = _fullest(gpu, work)
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
        _PRODUCTS: share * _multiplying(gpu, machine, work),
        "integer": warps(C.INTEGER, C.COMPARE) * WARP_SIZE / machine.integer_lanes,
        "special functions": warps(C.SPECIAL) * WARP_SIZE / machine.special_lanes,
        "conversions": warps(C.CONVERT) * WARP_SIZE / machine.convert_lanes,
        "shuffles": warps(C.SHUFFLE) * WARP_SIZE / machine.shuffle_lanes,
        "load/store units": warps(*_MEMORY) * WARP_SIZE / sm.lsu_lanes,
        "shared memory": work.wavefronts * share / machine.shared_wavefronts,
        "L1": share * max(_lines(work) / machine.l1_tags, _passes(work) / machine.l1_lines),
        _READS: share * fetched * (even / machine.l2_read_bytes + (1 - even) / machine.l2_scattered_bytes)
        + _received(gpu, work, share),
        "L2 writes": SECTOR_BYTES * work.store_sectors / machine.store_bytes * share,
    }
    if work.spilled is not None:
        requests, past = work.spilled.loads + work.spilled.stores, work.spilled.past_l1
        made["load/store units"] += requests * WARP_SIZE / sm.lsu_lanes * share
        made["L1"] += requests / machine.l1_lines * share
        made[_READS] += past * work.spilled.loads * LINE_BYTES / machine.l2_read_bytes * share
        made["L2 writes"] += past * work.spilled.stores * LINE_BYTES / machine.store_bytes * share
    resident = min(max(1, work.blocks_per_sm), fullest)
    queueing = _queueing(gpu, machine, work, resident)
    # what is counted for warps that wait for each other's products is not lost once more
    doublings = 0.0 if queueing else max(0.0, math.log2(work.warps_per_block / _SMALL_BLOCK))
    loss = 1 + machine.large_block_loss * doublings
    chain = loss * (_alone(gpu, machine, work, least) + queueing)
    rounds, (whole, last) = chain * fullest / resident, divmod(fullest, resident)
    if queueing and last:  # these blocks take as long, with fewer beside them
        rounds = chain * (whole + 1) - loss * (queueing - _queueing(gpu, machine, work, last))
    bare, hidden = _ends(gpu, work, least, loss)
    # blocks beside it multiply while one begins or ends; without any, nothing does
    alone = 0 if work.ends is None else fullest if resident == 1 else 1
    made["latency"] = rounds + (hidden * fullest + bare * max(0, fullest - resident * alone)) / resident
    made[_ENDS] = bare * alone
    if work.ring is not None:
        made.update(_copying(gpu, work, work.ring, least, resident))
    return made


def _fullest(gpu: Gpu, work: LaunchWork) -> int:
    """Return the blocks of the SM that executes most of them."""
    if work.cluster <= 1:
        return -(-work.blocks // gpu.sms)
    resident = max(1, work.blocks_per_sm)
    blocks = clusters_likely(gpu, resident, work.cluster) * work.cluster
    return -(-work.blocks // max(1, blocks // resident))


def _copying(gpu: Gpu, work: LaunchWork, ring: Ring, least: float, resident: int) -> dict[str, float]:
    """Return the cycles in which the stages of a ring arrive.

    A warp that does nothing but copy asks for a stage as soon as it is free. That is known when the products of the
    next step have been queued, of which only the last can wait while the others are made. So the stages that are ahead
    take an arrival and a step but its last instruction. Warps that also multiply ask for one a step, and wait for
    another. What wgmma reads they may fill again when its products have been made, behind all that a step takes them;
    what they have loaded into registers, once they have met, at the beginning of one.
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
    """Return the share of a step's products that are made before the last of its instructions is queued: all but one's.

    Where instructions were not counted, that is all.
    """
    instructions = work.by_class.get(C.MMA, 0.0) / WARPS_OF_A_GROUP / ring.fills
    return 1 - 1 / max(1.0, instructions) if instructions else 1.0


def _received(gpu: Gpu, work: LaunchWork, share: float) -> float:
    """Return the cycles in which L2 sends what bulk copies read.

    Of stages, it has so much for all SMs together: where few have a block more, these receive faster.
    """
    machine, ring = gpu.latencies, work.ring
    if ring is None or ring.in_turn:
        return share * SECTOR_BYTES * work.bulk_sectors / machine.l2_bytes
    return ring.fills * _stretched(machine, ring) / machine.stage_bytes / gpu.sms / work.uneven


def _arrival(gpu: Gpu, work: LaunchWork, ring: Ring, least: float) -> float:
    """Return the cycles from the request for a stage until all of it has been written."""
    written = _stretched(gpu.latencies, ring) / LINE_BYTES / gpu.latencies.shared_wavefronts
    return _last_line(gpu, work, ring, least) + written


def _stretched(machine: SmLatencies, ring: Ring) -> float:
    """Return the bytes of a stage, or those that the block fetches for it if they take longer.

    Of these, what is fetched in rows that begin within lines counts for more. What other blocks of a cluster fetch and
    share has cost them that.
    """
    by_alignment = dict(machine.unaligned_rows)
    return max(ring.bytes, sum(fetched * by_alignment.get(alignment, 1.0) for alignment, fetched in ring.rows))


def _last_line(gpu: Gpu, work: LaunchWork, ring: Ring, least: float) -> float:
    """Return the cycles until the last line of a stage comes: `least` bytes of all come from DRAM, the rest from L2.

    Blocks that run side by side take the same step at the same time. Those of a row or a column of tiles, of W blocks
    about the root of W, want the same lines, so that all of them wait when these come from DRAM.
    """
    machine, together = gpu.latencies, min(work.blocks, gpu.sms * max(1, work.blocks_per_sm))
    distant = max(0.0, least - SECTOR_BYTES * work.store_sectors) / max(1.0, ring.fills * ring.fetched)
    waiting = min(1.0, distant * math.sqrt(together))
    return (1 - waiting) * machine.l2_latency + waiting * machine.global_latency


def _ends(gpu: Gpu, work: LaunchWork, least: float, loss: float) -> tuple[float, float]:
    """Return the cycles of a block before it multiplies, until its first stage is there, and while it makes results.

    Those in which no warps of it multiply, and those in which others do, whose turn it is.
    """
    machine = gpu.latencies
    if work.ends is None:
        return loss * machine.block_latency, 0.0
    first = _arrival(gpu, work, work.ring, least) if work.ring is not None else 0.0
    waits = min(work.ends.global_loads, work.end_loads / (work.blocks * work.warps_per_block))
    made = _along(machine, work, replace(work.ends, global_loads=0.0), least)
    made += waits * _load_latency(machine, work, work.ends, least)
    results = max(made, SECTOR_BYTES * work.store_sectors / work.blocks / machine.store_bytes)
    bare = first + loss * (machine.block_latency + results / work.turns)
    return bare, loss * results * (1 - 1 / work.turns)


def _allowed(gpu: Gpu, machine: SmLatencies, work: LaunchWork) -> float:
    """Return the seconds in which the GPU's power lets its SMs multiply so much, launches and pauses included."""
    cycles = _documented(gpu, work.group_products) / (machine.group_products * machine.tensor_clock)
    return cycles / gpu.sms / (gpu.clock_mhz * 1e6)


def _multiplying(gpu: Gpu, machine: SmLatencies, work: LaunchWork) -> float:
    """Return the cycles, at the highest clock, that one SM's tensor cores would take for the whole launch."""
    alone, together = (_documented(gpu, made) for made in (work.products, work.group_products))
    if together:  # they read no faster than shared memory lets them, beside what blocks of a cluster copy there
        beside = machine.copies_beside if work.cluster > 1 else 0.0
        waves = work.group_wavefronts + beside * work.wavefronts
        together = max(together, waves / machine.shared_wavefronts)
    return alone / machine.warp_products + together / machine.group_products


def _queueing(gpu: Gpu, machine: SmLatencies, work: LaunchWork, resident: int) -> float:
    """Return the cycles that a warp waits for what other warps multiply and read.

    Warps that meet at barriers multiply at the same time, those of a sub-partition one after the other, and read what
    they multiply in shared memory at the same time. A warp's own instructions are on its chain; those of four warps
    together (wgmma) keep no warp from going on. Each block beside it is with the tensor cores or with shared memory, in
    proportion to what it needs of both, and there as long as they take for it (proportional bounds of closed queueing
    networks: Hsieh and Lam, Performance Evaluation 7, 1987).
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
    """Return the cycles of one SM's tensor cores for some multiply-adds at the documented rates."""
    lanes = gpu.architecture.tensor_lanes
    return sum(n / lanes[elements] for elements, n in products.items() if elements in lanes)


def _fetching(machine: SmLatencies, work: LaunchWork, blocks: int) -> float:
    """Return the cycles in which an SM with so many resident blocks fetches what no instruction cache holds."""
    warps = blocks * work.warps_per_block
    return sum(n / rate for text, n in work.code if (rate := machine.fetched(text * INSTRUCTION_BYTES, warps)))


def _alone(gpu: Gpu, machine: SmLatencies, work: LaunchWork, least: float) -> float:
    """Return the cycles from a warp's first to its last instruction, if it has an SM for itself.

    Where the order of its instructions is not known, each is taken to need the result of the one before. Where it is,
    but waits for copies are not on it, the chain lacks what these waits hid: a warp takes no less than it issues, an
    instruction a cycle, and than its sub-partition multiplies for it.
    """
    each = 1 / (work.blocks * work.warps_per_block)  # of the launch, in one warp
    if work.chain is not None:
        found = _along(machine, work, _without(work.chain, work.ends), least)
        if work.ring is None or not work.ring.in_turn:
            return found
        multiplied = _documented(gpu, work.products) / machine.warp_products * gpu.architecture.sub_partitions
        return max(found, each * work.instructions, each * multiplied)
    return (
        -(-work.load_requests * each // work.loads_together) * machine.global_latency
        + work.by_class.get(C.BARRIER, 0.0) * each * machine.block_barrier
        + work.by_class.get(C.SHUFFLE, 0.0) * each * machine.shuffle_cycles
        + work.instructions * each * machine.dependent_cycles
    )


def _without(chain: WarpChain, part: WarpChain | None) -> WarpChain:
    """Return a chain without a part of it."""
    if part is None:
        return chain
    instructions, *waits = (max(0.0, n - one) for n, one in zip(astuple(chain), astuple(part), strict=True))
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
