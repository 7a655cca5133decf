"""Emulated kernels with matrix instructions: their loop along k, and the copies that feed it.

Of a small problem, which has few steps along k, most instructions may be those that make a result of the sums. The
loop along k is the innermost one whose text has matrix instructions, whichever executed most. What was executed in it
follows from them: a pass executes all of its text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lab.base.warp import LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.isa.matrix import WARPS_OF_A_GROUP, matrix_product
from lab.isa.mix import KernelMix, LoopMix
from lab.isa.model import InstructionClass as C
from lab.predict.work import Ring
from lab.recorded.run_records import EmulatedStep

_NONE: Final = MemoryCount()
_ACCESSES: Final = {
    "shared.load": (C.LD_SHARED,),
    "shared.store": (C.ST_SHARED,),
    "global.load": (C.LD_GLOBAL,),
    "global.store": (C.ST_GLOBAL,),
    "shared.copy": (C.CP_ASYNC, C.BULK_COPY),
    "global.copy": (C.CP_ASYNC, C.BULK_COPY),
}
"""Instruction classes of each kind of access."""


def counts_of_copies(opcode: str) -> bool:
    """Return whether `copies_of` or `multiplying_share` reads the count of a PTX opcode."""
    return opcode.startswith(("mbarrier.", "cp.async.bulk", _MORE_REGISTERS))


_MORE_REGISTERS: Final = "setmaxnreg.inc"


def multiplying_share(step: EmulatedStep, ptx: KernelMix | None, copies: Copies | None) -> float:
    """Return the share of consumer warps, which multiply; the others are producers.

    They may take the registers of those that copy. Else each makes a pass through the loop along k for each stage that
    is filled; without stages of bulk copies, all are taken to multiply.
    """
    executed = step.executed
    opcodes = executed.warps_by_opcode if executed is not None else {}
    taking = sum(n for opcode, n in opcodes.items() if opcode.startswith(_MORE_REGISTERS))
    if taking:
        return min(1.0, taking / (_warps(step) * math.prod(step.launch.grid)))
    fills = copies.fills if copies is not None else 0.0
    return min(1.0, _passes_along_k(step, ptx) / fills / _warps(step)) or 1.0 if fills else 1.0


_HANDED_OVER: Final = ("bar.arrive", "barrier.arrive", "barrier.cta.arrive")
"""Opcodes of an arrival at a block barrier without waiting, which hands over to other warps."""


def take_turns(ptx: KernelMix | None) -> bool:
    """Return whether warps hand over to others at a block barrier and go on to their epilogue.

    A small problem may have no turn to hand over, so that the text is asked.
    """
    return ptx is not None and any(opcode.startswith(_HANDED_OVER) for opcode in ptx.counts.by_opcode)


def with_loop_along_k(step: EmulatedStep, ptx: KernelMix | None) -> EmulatedStep:
    """Return the emulated step, with the loop along k as the hot loop if there are matrix instructions.

    Where that is the loop over tiles, too, the hot loop is what every pass executes.
    """
    executed = step.executed
    loop = (
        _loop_along_k(ptx) if ptx is not None and executed is not None and executed.warps_by_class.get(C.MMA) else None
    )
    if loop is None or executed is None:
        return step
    if loop.label != step.hot_label:
        return replace(step, hot_label=loop.label, hot_loop=_executed_in(loop, executed))
    every = step.hot_loop and _every_pass(loop, step.hot_loop)
    return step if every is step.hot_loop else replace(step, hot_loop=every)


def _loop_along_k(ptx: KernelMix) -> LoopMix | None:
    """Return the innermost loop with the most matrix instructions; None if all are outside of loops.

    Loops around it may have some of their own: the first step of a tile, which has no sums to add to.
    """
    multiplying = [loop for loop in ptx.loops if loop.counts.by_class.get(C.MMA, 0)]
    around = {outer.label for loop in multiplying for outer in multiplying if _inside(ptx, loop, outer)}
    innermost = (loop for loop in multiplying if loop.label not in around)
    return max(innermost, key=lambda loop: loop.counts.by_class[C.MMA], default=None)


def _executed_in(loop: LoopMix, executed: ExecutedCounts) -> ExecutedCounts:
    """Return the counts of a loop with matrix instructions, if every pass executes all of its text."""
    text = loop.counts.by_class
    passes = executed.warps_by_class[C.MMA] / text[C.MMA]
    warps = {cls: round(min(passes * n, executed.warps_by_class.get(cls, 0))) for cls, n in text.items()}
    memory = {}
    for key, classes in _ACCESSES.items():
        inside, all_of_them = (sum(of.get(cls, 0) for cls in classes) for of in (warps, executed.warps_by_class))
        if inside and key in executed.memory:
            memory[key] = _part(executed.memory[key], inside / all_of_them)
    return ExecutedCounts(sum(warps.values()), WARP_SIZE * sum(warps.values()), warps, {}, {}, {}, memory)


def _every_pass(loop: LoopMix, executed: ExecutedCounts) -> ExecutedCounts:
    """Return the counts of the loop along k without the epilogue, if it is also the loop over tiles.

    Such a loop stores results in some of its passes: a share r of them. Of a class with T instructions in the text, of
    which E each pass executes in the mean, those that every pass executes are (E - r T) / (1 - r).
    """
    text = loop.counts.by_class
    passes = executed.warps_by_class.get(C.MMA, 0) / text[C.MMA]
    stored = _stores(loop)
    if stored is None or not passes:
        return executed
    share = executed.warps_by_class.get(stored, 0) / text[stored] / passes
    if share > _SELDOM:
        return executed
    warps, memory = {}, dict(executed.memory)
    for cls, n in executed.warps_by_class.items():
        every = (n / passes - share * text.get(cls, 0)) / (1 - share)
        warps[cls] = min(n, round(passes * max(0.0, every)))
    for key, classes in _ACCESSES.items():
        per_pass, total = (sum(of.get(cls, 0) for cls in classes) for of in (warps, executed.warps_by_class))
        if key in memory:
            memory[key] = _part(memory[key], per_pass / total if total else 0.0)
    return replace(executed, warps=sum(warps.values()), warps_by_class=warps, memory=memory)


def _stores(loop: LoopMix) -> C | None:
    """Return the class of the instructions that may store results in a loop, to global memory or for bulk copies."""
    text = loop.counts.by_class
    if text.get(C.ST_GLOBAL):
        return C.ST_GLOBAL
    return C.ST_SHARED if text.get(C.ST_SHARED) and text.get(C.BULK_COPY) else None


_SELDOM: Final = 0.9
"""Share of the passes up to which results belong to a tile of several steps."""


def _part(count: MemoryCount, share: float) -> MemoryCount:
    return replace(
        count,
        requests=round(share * count.requests),
        wavefronts=round(share * count.wavefronts),
        sectors=round(share * count.sectors),
        bytes_used=round(share * count.bytes_used),
    )


def stores_results(ptx: KernelMix | None, step: EmulatedStep) -> bool:
    """Return whether a loop has the epilogue of a tile, but not in each pass of the loop along k.

    They are stored to global memory, or to shared memory, from where bulk copies take them. Either in a loop around the
    one along k, or in some of its passes, where it is the loop over tiles, too.

    Args:
        ptx: Static mix of the PTX, with the loop along k as its hot one.
        step: What the CPU executed, as `with_loop_along_k` returns it.
    """
    hot = ptx.hot_loop if ptx is not None else None
    if ptx is None or hot is None or step.executed is None or not step.executed.warps_by_class.get(C.MMA):
        return False
    return _flattened(hot, step) or any(_stores_beside(ptx, loop, hot) for loop in ptx.loops if loop.depth == 1)


def _flattened(hot: LoopMix, step: EmulatedStep) -> bool:
    """Return whether the loop along k is also the loop over tiles, and stores results in some passes."""
    looped, stored = step.hot_loop, _stores(hot)
    return (
        looped is not None
        and stored is not None
        and looped.warps_by_class.get(C.MMA, 0) > 0 == looped.warps_by_class.get(stored, 0)
    )


def _stores_beside(ptx: KernelMix, loop: LoopMix, hot: LoopMix) -> bool:
    """Return whether a loop stores results outside of the loop along k, by threads or by bulk copies."""
    nested = {hot.label} if loop.label == hot.label or _inside(ptx, hot, loop) else set()
    own = {cls: n - (hot.counts.by_class.get(cls, 0) if nested else 0) for cls, n in loop.counts.by_class.items()}
    copied = bool(nested) and own.get(C.ST_SHARED, 0) > 0 and own.get(C.BULK_COPY, 0) > 0
    return own.get(C.ST_GLOBAL, 0) > 0 or copied


def tile_visits(ptx: KernelMix | None, step: EmulatedStep) -> float:
    """Return the tiles per block whose results threads stage for bulk copies; at least 1.

    A scheduler of tiles may give blocks some that lie beyond the data: their products are made, and nothing is stored.
    """
    hot, executed = ptx.hot_loop if ptx is not None else None, step.executed
    if ptx is None or hot is None or executed is None:
        return 1.0
    for loop in ptx.loops:
        laid = loop.counts.by_class.get(C.ST_SHARED, 0) - hot.counts.by_class.get(C.ST_SHARED, 0)
        if loop.depth == 1 and loop.label != hot.label and _stores_beside(ptx, loop, hot) and laid > 0:
            warps = multiplying_share(step, ptx, None) * _warps(step) * math.prod(step.launch.grid)
            return max(1.0, executed.warps_by_class.get(C.ST_SHARED, 0) / laid / warps)
    return 1.0


def _inside(ptx: KernelMix, loop: LoopMix, outer: LoopMix) -> bool:
    around = ptx.around(loop)
    return around is not None and (around.label == outer.label or _inside(ptx, around, outer))


def both_sides(area: float, step: EmulatedStep, copies: Copies | None) -> float | None:
    """Return the sum of a tile's sides for its area, from the bytes of bulk copies per byte multiplied.

    A step of b bytes along k brings b for each row and each column of a tile, of which each element has products of
    b bytes. None where no bulk copies bring what four warps multiply together.
    """
    executed = step.executed
    shapes = [] if executed is None else [(matrix_product(opcode), n) for opcode, n in executed.warps_by_opcode.items()]
    product_bytes = sum(
        n * _ROWS * of.columns * _ROW_BYTES / WARPS_OF_A_GROUP for of, n in shapes if of is not None and of.group
    )
    return area * copies.shared_bytes / product_bytes if copies is not None and product_bytes else None


def tiles_grown(
    area: float,
    blocks: tuple[int, int],
    small: tuple[int, int],
    real: tuple[int, int],
    cluster: int,
    *,
    sides_sum: float | None = None,
) -> float | None:
    """Return the ratio of tile counts, real result to small one, with one tile per block of the small one.

    The sides of a tile are not known, but its area is, and how many of them cover the small result. Of all sides that
    fit both, and their sum where that is known, those that give each block a tile of the real result, too, come first;
    else the mean is taken.

    Args:
        area: Elements of a tile.
        blocks: Blocks of the small launch and of the real one.
        small: m and n of the small result.
        real: Those of the real one.
        cluster: Blocks of a cluster, which share a row or a column of tiles; there are whole clusters.
        sides_sum: Sum of the sides of a tile; None where that is not known.

    Returns:
        None where no sides fit.
    """

    def tiles(size: tuple[int, int], sides: tuple[float, float], along: int) -> int:
        counts = [math.ceil(n / side) for n, side in zip(size, sides, strict=True)]
        counts[along] = -(-counts[along] // cluster) * cluster
        return math.prod(counts)

    sides = [(side, area / side) for side in range(_SIDE, _LONGEST + 1, _SIDE) if area % (side * _SIDE) == 0]
    sides = [pair for pair in sides if max(pair) <= _LONGEST]
    sides = [pair for pair in sides if sides_sum is not None and abs(sum(pair) - sides_sum) < _SIDE] or sides
    fitting = [(pair, along) for pair in sides for along in (0, 1) if tiles(small, pair, along) == blocks[0]]
    tile_counts = [tiles(real, *candidate) for candidate in fitting]
    tile_counts = [blocks[1]] if blocks[1] in tile_counts else tile_counts
    return sum(tile_counts) / len(tile_counts) / blocks[0] if tile_counts else None


_SIDE: Final = 16
"""Granularity of a tile's sides: the smallest shape of matrix instructions, except for n, which is 8."""
_LONGEST: Final = 512


@dataclass(frozen=True, slots=True)
class Copies:
    """Bulk copies of a launch.

    Attributes:
        sectors: Sectors that they read in global memory.
        stored: Sectors that they write there.
        leaving: Share of what passes through shared memory that leaves it.
        fills: Stages that they fill, each with what an mbarrier waits for; 0 where mbarriers tell of none.
        shared_bytes: Bytes that they write to shared memory.
        ahead: Stages that are filled while another one is read.
    """

    sectors: float
    stored: float
    leaving: float
    fills: float
    shared_bytes: float
    ahead: int


def copies_of(step: EmulatedStep, beyond: float) -> Copies | None:
    """Separate a launch's bulk copies that load operands from those that store results.

    The traffic of both is counted as one. What leaves shared memory has been stored there by threads, whole tiles, of
    which global memory gets what is not beyond the data.

    Args:
        step: What the CPU executed.
        beyond: What tiles compute over what the problem asks for.

    Returns:
        None where there are no bulk copies.
    """
    counts = step.executed
    if counts is None or not counts.warps_by_class.get(C.BULK_COPY):
        return None
    opcodes = counts.warps_by_opcode
    from_global, to_shared = (counts.memory.get(key, _NONE) for key in ("global.copy", "shared.copy"))
    leaves = any(".global.shared::cta" in opcode for opcode in opcodes)
    outgoing = min(counts.memory.get("shared.store", _NONE).bytes_used, to_shared.bytes_used) if leaves else 0
    stored = min(outgoing / beyond, from_global.bytes_used)
    share = stored / from_global.bytes_used if from_global.bytes_used else 0.0

    # a single thread does this; where all warps come by, most of them are predicated off
    executions = {opcode: counts.threads_by_opcode.get(opcode, n) for opcode, n in opcodes.items()}

    def executed(*beginnings: str, without: str = "?") -> int:
        return sum(n for opcode, n in executions.items() if opcode.startswith(beginnings) and without not in opcode)

    fills = executed("mbarrier.arrive.expect_tx", "mbarrier.expect_tx")
    blocks = math.prod(step.launch.grid)
    # a ring has an mbarrier that says when a stage is full, and one that says when it has been read, if that is said
    pairs = 2 if executed("mbarrier.arrive", without="expect_tx") else 1
    stages = executed("mbarrier.init") // blocks // pairs
    return Copies(
        sectors=from_global.sectors * (1 - share),
        stored=stored / SECTOR_BYTES,
        leaving=outgoing / to_shared.bytes_used if to_shared.bytes_used else 0.0,
        fills=fills,
        shared_bytes=to_shared.bytes_used - outgoing,
        ahead=max(1, stages - 1),
    )


def ring_of(
    step: EmulatedStep,
    ptx: KernelMix | None,
    copies: Copies | None,
    grown: float,
    shared_bytes: int,
    *,
    alignments: Sequence[int] = (),
) -> Ring | None:
    """Return the ring of stages that a real launch's asynchronous copies fill.

    Args:
        step: What the CPU executed.
        ptx: Static mix of the PTX, with the loop along k as its hot one.
        copies: Its bulk copies; None where there are none.
        grown: What the real launch executes in its loops over that.
        shared_bytes: Shared memory of a block.
        alignments: Of each tensor map of the real launch, what rows begin at multiples of (`LaunchRecord`).

    Returns:
        None where there are no stages, or nothing says how many are filled.
    """
    if copies is not None:
        if not copies.fills:
            return None
        stage, fetched = copies.shared_bytes / copies.fills, SECTOR_BYTES * copies.sectors / copies.fills
        # there may be mbarriers for other things
        ahead = min(copies.ahead, int(shared_bytes / stage) - 1) if stage else copies.ahead
        bytes_per_fill = (map_bytes / copies.fills for map_bytes in step.fetched_by_map)
        rows = tuple(zip(alignments, bytes_per_fill, strict=False))  # either is empty in older records
        return Ring(grown * copies.fills, stage, fetched, max(1, ahead), in_turn=False, rows=rows)
    executed, fills = step.executed, _steps_along_k(step, ptx)
    if executed is None or not fills or not (copied := executed.memory.get("shared.copy", _NONE).bytes_used):
        return None
    hot = ptx.hot_loop if ptx is not None else None
    # what the first steps of all need, and what the last ones ask for without need, is copied beside the loop
    bytes_per_pass = hot.counts.load_bytes_global * math.prod(step.launch.block) if hot is not None else 0
    stage = min(copied / fills, bytes_per_pass or math.inf)
    stages_ahead = hot.copies_ahead if hot is not None else None
    if stages_ahead is None:  # older records: what four warps multiply together is read until all have waited for it
        in_use = 2 if any(opcode.startswith("wgmma") for opcode in executed.warps_by_opcode) else 1
        stages_ahead = int(shared_bytes / stage) - in_use
    return Ring(grown * fills, stage, stage, max(1, stages_ahead), in_turn=True)


def awaited_share(step: EmulatedStep, ring: Ring | None, grown: float) -> float:
    """Return the share of the bytes of asynchronous copies that belongs to a stage of some step.

    Beside it, the last steps of a tile may ask for stages beyond it, of which a small problem has as many as a large
    one. They write zeros and fetch nothing.
    """
    copied = step.executed.memory.get("shared.copy", _NONE).bytes_used if step.executed is not None else 0
    if ring is None or not ring.in_turn or not copied:
        return 1.0
    return min(1.0, ring.fills * ring.bytes / (grown * copied))


def _steps_along_k(step: EmulatedStep, ptx: KernelMix | None) -> float:
    """Return the passes of all blocks through the loop along k, if `cp.async` fills a stage in each; else 0."""
    copied = step.executed is not None and step.executed.warps_by_class.get(C.CP_ASYNC)
    return _passes_along_k(step, ptx) / _warps(step) if copied else 0.0


def _passes_along_k(step: EmulatedStep, ptx: KernelMix | None) -> float:
    """Return the passes of all warps through the loop along k; 0 without one."""
    executed, hot = step.executed, ptx.hot_loop if ptx is not None else None
    text = hot.counts.by_class.get(C.MMA, 0) if hot is not None else 0
    return executed.warps_by_class.get(C.MMA, 0) / text if executed is not None and text else 0.0


def _warps(step: EmulatedStep) -> int:
    """Return the number of warps per block."""
    return -(-math.prod(step.launch.block) // WARP_SIZE)


def products_of(executed: ExecutedCounts, instructions: float, *, group: bool) -> dict[str, float]:
    """Return the multiply-adds of some matrix instructions by type, in the proportions of the emulated ones.

    Args:
        executed: What the CPU executed.
        instructions: Matrix instructions of warps.
        group: Of those that four warps execute together, or of the others.
    """
    products = [(made, n) for opcode, n in executed.warps_by_opcode.items() if (made := matrix_product(opcode))]
    scale = instructions / (sum(n for _, n in products) or 1)
    totals: dict[str, float] = {}
    for product, n in products:
        if product.group is group:
            totals[product.elements] = totals.get(product.elements, 0.0) + scale * n * product.multiply_adds
    return totals


def multiply_adds(executed: ExecutedCounts) -> float:
    """Return the multiply-adds of all emulated matrix instructions with known opcodes."""
    instructions = executed.warps_by_class.get(C.MMA, 0)
    return sum(sum(products_of(executed, instructions, group=group).values()) for group in (False, True))


def operand_wavefronts(executed: ExecutedCounts, instructions: float) -> float:
    """Return the shared-memory wavefronts in which some wgmma instructions read their operands.

    Of those that four warps execute together, which read 32 bytes of each of 64 rows and of each column: k is as many
    elements. That the rows may be in registers, the opcode does not say.
    """
    products = [(made, n) for opcode, n in executed.warps_by_opcode.items() if (made := matrix_product(opcode))]
    scale = instructions / (sum(n for _, n in products) or 1)
    lines = sum(n * (_ROWS + product.columns) for product, n in products if product.group)
    return scale * lines * _ROW_BYTES / WARPS_OF_A_GROUP / LINE_BYTES


_ROWS: Final = 64
_ROW_BYTES: Final = 32
