"""What a launch executes at the problem's real size: the figures that `lab.predict.score` makes a time of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.base.warp import WARP_SIZE
from lab.isa.mix import WarpChain


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
class Ring:
    """Copies of a launch that fill stages of shared memory while others are read.

    Attributes:
        fills: Stages that are filled, of the whole launch.
        bytes: Bytes of a stage.
        fetched: Bytes that are fetched for it: fewer where blocks of a cluster share them.
        ahead: Stages that are filled while another one is read: steps from the request for one to its use.
        in_turn: The warps that ask for copies are those that wait for them and multiply.
        rows: Of each tensor map that bulk copies go by, what rows begin at multiples of in global memory, in bytes, and
            the bytes that are asked for by it for a stage, in the mean; empty where that is not known.
    """

    fills: float
    bytes: float
    fetched: float
    ahead: float
    in_turn: bool
    rows: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchWork:
    """What one launch executes at the problem's real size.

    Attributes:
        blocks: Blocks of its grid.
        warps_per_block: Warps of a block.
        blocks_per_sm: Blocks that an SM holds at once, at least 1.
        instructions: Warp instructions of the whole launch.
        by_class: Warp instructions by `InstructionClass` value.
        load_requests: Warp requests that load from global memory, copies included but for bulk copies.
        load_sectors: Their sectors.
        load_bytes: Bytes that their threads asked for.
        store_sectors: Sectors that global stores touch.
        partial_bytes: Bytes of those sectors that the same request did not fill.
        wavefronts: Passes through shared memory.
        waited_wavefronts: Of these, what threads load and store: asynchronous copies keep none of them waiting.
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
        group_wavefronts: Passes through shared memory in which these read their operands.
        bulk_sectors: Sectors that bulk copies read, which L1 does not hold.
        ring: Asynchronous copies that fill stages; None where there are none or the CPU did not count them.
        ends: The part of `chain` outside of the loops that multiply matrices; None without such loops.
        end_loads: Warp requests that load from global memory there, copies left out.
        turns: Tiles of a block of which one is stored while the next is multiplied; 1 where none are.
        cluster: Blocks of a cluster, which start together; 1 where there are none.
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
    waited_wavefronts: float = 0.0
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
    group_wavefronts: float = 0.0
    bulk_sectors: float = 0.0
    ring: Ring | None = None
    ends: WarpChain | None = None
    end_loads: float = 0.0
    turns: float = 1.0
    cluster: int = 1
