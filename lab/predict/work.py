"""The work of a launch at the problem's real size: the inputs of `lab.predict.score`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.base.warp import WARP_SIZE
from lab.isa.mix import WarpChain


@dataclass(frozen=True, slots=True)
class Fetched:
    """Loads of a launch by the cache level that serves them, in sectors of the whole launch.

    Attributes:
        lines: Lines that L1 looks up.
        likely: Sectors that L1 misses.
        least: The same with four times the L1.
        most: The same with a quarter of the L1.
        lonely: Sectors of which neighbouring blocks use at most half.
        lonely_bytes: Bytes used of these sectors.
        lonely_share: Share of the problem's bytes in the buffers that contain them.
        again: Repeatedly read sectors that miss L1 and no longer fit into L2.
        unused: Bytes of the sectors that neighbouring blocks do not use.
        passes: Passes through the data banks of L1; None if only lines were counted.
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
    """Local-memory traffic: register spills.

    Attributes:
        loads: Warp load requests of the whole launch.
        stores: Warp store requests of the whole launch.
        past_l1: Share of the spilled data of an SM's threads that exceeds its L1, 0 to 1.
        past_l2: Share of the spilled data of all resident threads that exceeds L2.
    """

    loads: float
    stores: float
    past_l1: float
    past_l2: float

    @property
    def bytes(self) -> float:
        """Bytes of all requests, 4 per lane: ptxas places the lanes' words next to each other."""
        return 4.0 * WARP_SIZE * (self.loads + self.stores)


@dataclass(frozen=True, slots=True)
class Ring:
    """A multistage copy pipeline: copies that fill stages of shared memory while other stages are read.

    Attributes:
        fills: Stage fills of the whole launch.
        bytes: Bytes of a stage.
        fetched: Bytes fetched per stage: fewer if blocks of a cluster share them (multicast).
        ahead: Prefetch distance: stages in flight while another one is read.
        in_turn: The same warps issue copies, wait for them and multiply (no warp specialisation).
        rows: For each tensor map of the bulk copies, the alignment of rows in global memory, in bytes, and the mean
            bytes it fetches per stage; empty if unknown.
    """

    fills: float
    bytes: float
    fetched: float
    ahead: float
    in_turn: bool
    rows: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchWork:
    """Work of one launch at the problem's real size.

    Attributes:
        blocks: Blocks of its grid.
        warps_per_block: Warps of a block.
        blocks_per_sm: Resident blocks per SM, at least 1.
        instructions: Warp instructions of the whole launch.
        by_class: Warp instructions by `InstructionClass` value.
        load_requests: Warp load requests to global memory, including copies other than bulk copies.
        load_sectors: Their sectors.
        load_bytes: Bytes requested by their threads.
        store_sectors: Sectors that global stores touch.
        stored_alone: Those of these sectors that are the only ones of their line in a request; 0 if not counted.
        partial_bytes: Bytes of those sectors that the same request did not fill.
        wavefronts: Shared-memory wavefronts.
        waited_wavefronts: Wavefronts of threads' loads and stores; asynchronous copies do not stall threads.
        constant_passes: Passes of divergent constant loads: distinct words of each request.
        updates: Serialised atomic updates of global memory (`MemoryCount.updates`).
        chunks: Chunks of global memory that they touch (`MemoryCount.chunks`).
        one_float: Whether they add floating-point numbers to a single sector.
        loads_together: Static global loads of the hot region, which a warp can have in flight together; at least 1.
        double: Share of the floating-point instructions that are float64, 0 to 1.
        fetched: Cache behaviour of the loads; None if it was not counted.
        uneven: Load imbalance: work of the block with the most over the mean; 1 if all are equal.
        least_bytes: Declared compulsory DRAM bytes of a launch in a sequence; None if not declared.
        chain: Mean dependency chain of a warp, from its first to its last instruction; None if the SASS was not
            analysed.
        spilled: Spills; None without any.
        code: For each repeatedly executed code region, its static instructions and the warp instructions of the whole
            launch in it.
        products: Multiply-adds of single-warp matrix instructions by input type, as named by `lab.isa.matrix`.
        group_products: The same for warpgroup instructions (wgmma).
        group_wavefronts: Shared-memory wavefronts in which these read their operands.
        bulk_sectors: Sectors read by bulk copies, which bypass L1.
        ring: The multistage copy pipeline; None if there is none or it was not counted.
        ends: The part of `chain` outside of loops with matrix instructions; None without such loops.
        end_loads: Warp load requests to global memory in that part, without copies.
        turns: Tiles per block whose epilogue overlaps the next tile's MMAs; 1 without overlap.
        cluster: Blocks per cluster, which start together; 1 without clusters.
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
    stored_alone: float = 0.0
    partial_bytes: float = 0.0
    wavefronts: float = 0.0
    waited_wavefronts: float = 0.0
    constant_passes: float = 0.0
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
