"""The results of an emulation: frozen counts and findings."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import SECTOR_BYTES
from lab.hardware.tensormaps import PixelBox
from lab.isa.model import SourceLocation

FindingKind = Literal[
    "out-of-bounds",
    "misaligned",
    "read-only",
    "uninitialised-read",
    "uninitialised-register",
    "shared-race",
    "global-race",
    "async-not-waited",
    "missing-proxy-fence",
    "mbarrier-misuse",
    "mbarrier-deadlock",
    "wgmma-misuse",
    "tensor-memory-misuse",
    "barrier-divergence",
    "missing-cluster-sync",
    "warp-divergence",
    "never-written",
    "undeclared-write",
    "deadlock",
    "endless-loop",
    "unfinished",
    "trap",
]


Engine = Literal["interpreted", "compiled"]
"""What executes a launch: NumPy on all threads at once, or machine code made for the kernel."""

NEVER_SET: Final = "nothing sets in constant memory"
"""How the note of an `Emulation` begins that names the variables in constant memory which hold zeros."""

EngineChoice = Literal["auto", "interpreted", "compiled"]
"""What a launch asks for: one of the two, or whichever is faster."""


class BlockWait(enum.Enum):
    """Which blocks (or clusters) of a launch some block waits for."""

    NONE = "none"
    """Every block ends by itself."""

    EARLIER = "earlier"
    """Blocks with lower numbers, which are resident before it."""

    ANY = "any"
    """A block with a higher number: all blocks must be resident together."""


class BufferSource(Protocol):
    """The contents of a buffer as a function of the index, for buffers of which blocks touch a small part."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element."""

    @property
    def size(self) -> int:
        """The number of elements."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the elements from `start` to `stop`, 1-D, in memory order."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A device buffer, with what the kernel may and must do with it.

    Attributes:
        array: Its contents, contiguous, of any dtype; read and written in place.
        initialised: False: the kernel may not read an element before it has written it.
        output: True: every element must be written by the kernel.
        name: What findings call it; empty: its place among the arguments.
        readonly: True: the kernel may not write to it.
        traced: True: `Emulation.stored` has what the kernel stores, and which blocks do; the array does not change.
    """

    array: NDArray[Any]
    initialised: bool = True
    output: bool = False
    name: str = ""
    readonly: bool = False
    traced: bool = False


@dataclass(frozen=True, slots=True)
class IndexedBuffer:
    """A device buffer of any size, of which a launch of some blocks touches little.

    Attributes:
        source: Its contents before the launch. They do not change: `Emulation.stored` has what the kernel stores.
        name: What findings call it.
        initialised: As of `Buffer`.
        readonly: As of `Buffer`.
    """

    source: BufferSource
    name: str
    initialised: bool = True
    readonly: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """The elements of a buffer that blocks stored to, one row for each block and element, in their order.

    Attributes:
        name: The buffer's name.
        blocks: (rows,) the block's number in the grid.
        elements: (rows,) the element's index, in memory order.
        values: (rows,) what the element holds in the end.
        updated: Atomics or reductions updated some of them.
    """

    name: str
    blocks: NDArray[np.int64]
    elements: NDArray[np.int64]
    values: NDArray[Any]
    updated: bool = False


@dataclass(frozen=True, slots=True)
class StructureArgument:
    """A structure that a kernel takes by value, of members some of which point to buffers.

    Attributes:
        members: In order: arrays and `Buffer`s, which are passed as pointers, and NumPy scalars.
    """

    members: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TensorMapArgument:
    """A kernel argument that describes a matrix, or a tensor of one to five dimensions, to bulk tensor copies.

    It is passed by value, or where the parameter is a pointer by the address of a map that the host has laid in global
    memory.

    Sizes are in elements, the contiguous direction first.

    Attributes:
        of: The device buffer; the matrix begins at its first element.
        extents: Size of the matrix; copies fill what lies outside with zeros.
        leading: Elements from the start of one column to the start of the next.
        box: Size of the part that one copy moves.
        swizzle: Bytes of the span in shared memory within which pieces of 16 bytes are swizzled: 32, 64, 128; 0 for
            none.
        outer: Elements from one matrix to the next, and so on, for the dimensions beyond the second.
        element: Type of an element as PTX calls it, for what NumPy has no type: bf16. Else that of the buffer.
        pixels: Of a map for im2col, where its pixels lie; `box` then has the channels and the number of pixels.
    """

    of: Buffer
    extents: tuple[int, ...]
    leading: int
    box: tuple[int, ...]
    swizzle: int = 0
    outer: tuple[int, ...] = ()
    element: str = ""
    pixels: PixelBox | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a race.

    Attributes:
        kind: `read`, `write` or `atomic`.
        line: PTX line.
        thread: Thread index (x, y, z).
        source: Source line where the PTX carries one.
        block: Block index (x, y, z); None where it was not recorded.
        warp: Number of the warp in its block; None where it was not recorded.
        calls: Lines of the user's code that called the function of `source`, the innermost one first.
    """

    kind: str
    line: int
    thread: tuple[int, int, int]
    source: SourceLocation | None = None
    block: tuple[int, int, int] | None = None
    warp: int | None = None
    calls: tuple[SourceLocation, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, at the first place it was seen.

    Attributes:
        kind: What is wrong.
        line: PTX line, from 1; 0 where no single instruction is at fault (`never-written`).
        text: The instruction.
        source: Source line, where the PTX carries one: of the user's code, also for an access in one of CUDA's headers.
        block: Block index (x, y, z) of the first occurrence.
        thread: Thread index (x, y, z) of the first occurrence.
        address: Address in the state space that was accessed (for shared and local memory an offset in its
            window), or None where there is none.
        detail: One sentence.
        other: The other side of a race.
        count: Threads (or elements) seen with this fault on this line.
        variable: The variable and the element, such as ``s[17] of .shared .f32 s[128]``; empty where none is known.
        remedy: What would put it right; empty where that is not known.
        warp: Number of that thread's warp in its block.
        calls: Lines of the user's code that called the function of `source`, the innermost one first.
    """

    kind: FindingKind
    line: int
    text: str
    source: SourceLocation | None
    block: tuple[int, int, int] | None
    thread: tuple[int, int, int] | None
    address: int | None
    detail: str
    other: Access | None = None
    count: int = 1
    variable: str = ""
    remedy: str = ""
    warp: int | None = None
    calls: tuple[SourceLocation, ...] = ()

    @property
    def summary(self) -> str:
        """What is wrong and where, one line; the line of the source comes first, where it is known."""
        element = self.variable.partition(", elements of ")[0].partition(" of ")[0]
        touched = f", {element}" if element else ""
        other = self.other if self.other is not None and self.other.line != self.line else None
        against = f"; the {other.kind} is at {_reached(other.source, other.calls)}" if other and other.source else ""
        place = f" at {_placed(self.line, self.source, self.calls)}" if self.line else ""
        return f"{self.kind}{place}: {self.detail}{touched}{against}"


def _placed(line: int, source: SourceLocation | None, calls: tuple[SourceLocation, ...]) -> str:
    return f"{_reached(source, calls)} (PTX line {line})" if source else f"PTX line {line}"


def _reached(source: SourceLocation, calls: tuple[SourceLocation, ...]) -> str:
    return ", called at ".join(_in_short(one) for one in (source, *calls))


def _in_short(source: SourceLocation) -> str:
    return f"{PurePosixPath(source.file).name}:{source.line}"


@dataclass(frozen=True, slots=True)
class MemoryCount:
    """Traffic of memory instructions of one space and one direction.

    Attributes:
        requests: Warp instructions with at least one active lane.
        wavefronts: Shared memory: passes through the data array; zero for global memory.
        sectors: Global memory: 32-byte sectors touched, summed over requests; zero for shared memory.
        bytes_used: Bytes that the threads asked for.
        ideal_wavefronts: Shared memory: passes that the same bytes would need without bank conflicts.
        updates: Atomics: updates that wait for each other. In global memory, over the sectors of a request, the most
            that one element of the sector gets; in shared memory, over the requests, the most that one bank gets.
        chunks: Atomics in global memory: distinct pieces of `lab.hardware.memory.CHUNK_BYTES` that they touch, which
            the slices of L2 share; of several instructions, the most that one of them touches.
    """

    requests: int = 0
    wavefronts: int = 0
    sectors: int = 0
    bytes_used: int = 0
    ideal_wavefronts: int = 0
    updates: int = 0
    chunks: int = 0

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts beyond the conflict-free number."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def bytes_moved(self) -> int:
        """Bytes of the sectors moved."""
        return SECTOR_BYTES * self.sectors

    @property
    def sectors_per_request(self) -> float:
        """Mean sectors of a request; 0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0

    def __add__(self, other: MemoryCount) -> MemoryCount:
        return MemoryCount(
            self.requests + other.requests,
            self.wavefronts + other.wavefronts,
            self.sectors + other.sectors,
            self.bytes_used + other.bytes_used,
            self.ideal_wavefronts + other.ideal_wavefronts,
            self.updates + other.updates,
            max(self.chunks, other.chunks),
        )


@dataclass(frozen=True, slots=True)
class ReuseCount:
    """What a few blocks read again from global memory, and how much of it they use (`lab.emulator.memory.reuse`).

    Attributes:
        sectors: 32-byte sectors of their loads, summed over requests.
        lines: 128-byte lines of the same.
        again: Of those sectors, the ones that their block had read before, by the distance: entry i counts those that
            a cache of 2^i lines of its own would still hold, and one of half as many would not.
        held: Distinct lines that a block reads, the mean.
        read: Distinct sectors that the blocks read.
        used: Distinct bytes that they read.
        lonely: Sectors of `read` of which they use at most half.
        lonely_used: Distinct bytes that they read of these.
        lonely_share: Share of all buffers' bytes that the buffers have in which these lie.
        stored: Sectors of their stores, summed over requests.
        written: Distinct sectors that they store to.
        filled: Distinct bytes that they store.
        passes: Passes through the data banks of L1 that the loads take, summed over requests: of each, the words of its
            busiest bank. 0 in records of older runs.
    """

    sectors: int = 0
    lines: int = 0
    again: tuple[int, ...] = ()
    held: float = 0.0
    read: int = 0
    used: int = 0
    lonely: int = 0
    lonely_used: int = 0
    lonely_share: float = 0.0
    stored: int = 0
    written: int = 0
    filled: int = 0
    passes: int = 0


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """The lanes' addresses of a memory instruction (`lab.emulator.memory.samples`), and the cost of its first requests.

    Costs are wavefronts of shared memory, sectors of global memory, distinct words of constant memory.

    Attributes:
        line: PTX line.
        key: As of `ExecutedCounts.memory`, or `const.load`.
        width: Bytes of a lane's access.
        lanes: Byte offsets of the 32 lanes in their buffer, or in the block's shared memory, in the request that costs
            most beyond its ideal cost; -1 for a lane that takes no part.
        requests: Requests that were looked at.
        cost: Cost of these.
        ideal: Cost of the same bytes without bank conflicts, or in the fewest sectors or words.
    """

    line: int
    key: str
    width: int
    lanes: tuple[int, ...]
    requests: int
    cost: int
    ideal: int


@dataclass(frozen=True, slots=True)
class LineCount:
    """How often one instruction was executed.

    Attributes:
        line: PTX line.
        opcode: With every modifier.
        cls: `InstructionClass` value.
        warps: Warp instructions issued.
        threads: Thread instructions whose guard was true.
        memory: Traffic, for instructions on shared or global memory, by the keys of `ExecutedCounts.memory`.
    """

    line: int
    opcode: str
    cls: str
    warps: int
    threads: int
    memory: dict[str, MemoryCount]

    @property
    def active_lanes(self) -> float:
        """Mean active lanes of a warp instruction."""
        return self.threads / self.warps if self.warps else 0.0


@dataclass(frozen=True, slots=True)
class ExecutedCounts:
    """Instructions executed by a kernel or within one loop.

    Attributes:
        warps: Warp instructions.
        threads: Thread instructions with a true guard.
        warps_by_class: Class to warp instructions.
        threads_by_class: Class to thread instructions.
        warps_by_opcode: Opcode to warp instructions.
        threads_by_opcode: Opcode to thread instructions.
        memory: `shared.load`, `shared.store`, `shared.atomic`, `shared.copy`, `global.load`, `global.store`,
            `global.atomic`, `global.copy` to traffic; generic accesses count where they fell. The copies are the two
            sides of cp.async and of bulk copies. The fragments of wmma count as element-wise accesses, which is not how
            the hardware moves them.
    """

    warps: int
    threads: int
    warps_by_class: dict[str, int]
    threads_by_class: dict[str, int]
    warps_by_opcode: dict[str, int]
    threads_by_opcode: dict[str, int]
    memory: dict[str, MemoryCount]

    @property
    def active_lanes(self) -> float:
        """Mean active lanes of a warp instruction."""
        return self.threads / self.warps if self.warps else 0.0

    def __add__(self, other: ExecutedCounts) -> ExecutedCounts:
        return ExecutedCounts(
            self.warps + other.warps,
            self.threads + other.threads,
            _added(self.warps_by_class, other.warps_by_class),
            _added(self.threads_by_class, other.threads_by_class),
            _added(self.warps_by_opcode, other.warps_by_opcode),
            _added(self.threads_by_opcode, other.threads_by_opcode),
            {
                key: self.memory.get(key, MemoryCount()) + other.memory.get(key, MemoryCount())
                for key in {**self.memory, **other.memory}
            },
        )


def _added(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}


@dataclass(frozen=True, slots=True)
class LoopCounts:
    """Executed counts of one natural loop of the kernel, nested loops included.

    Attributes:
        label: The header's label.
        depth: 1 for an outermost loop.
        counts: Instructions executed within the loop.
    """

    label: str
    depth: int
    counts: ExecutedCounts


@dataclass(frozen=True, slots=True)
class Emulation:
    """The outcome of one launch.

    Attributes:
        kernel: Name of the kernel.
        counts: Counts of the whole kernel, device functions included; None with ``count=False``.
        loops: Counts of each loop of the kernel; empty with ``count=False``.
        lines: Counts of each instruction that was executed, in listing order; empty with ``count=False``.
        findings: Distinct by kind and line, in the order they were met.
        steps: Instructions issued: by the interpreter each for all threads that were together, by the compiled engine
            each for one warp, and counted only with ``count=True``.
        notes: What was left out.
        engine: What executed the launch.
        not_compiled: Why the compiled engine did not execute it though it was asked to; empty otherwise.
        printed: What threads printed, in the order of execution.
        reuse: What the first blocks read again; None unless asked for, and where nothing was read or stored.
        fetched_by_map: Of each tensor map among the arguments, the bytes of the boxes that bulk copies brought into
            shared memory, once where several blocks share them; with what lies beyond the tensor, so that they do not
            depend on how much of its tiles a problem fills. Empty with ``count=False``.
        finished: Blocks that ran to their end.
        wraps: Source lines of the products that wrap around, where asked for: an index may be too large for its type.
        stored: Elements that these blocks stored to, of each `IndexedBuffer` and each buffer that is traced.
        patterns: Addresses of the first blocks' memory instructions; empty unless `reuse` was asked for.
        waits_for_blocks: Which other blocks the launch's blocks wait for. None where nobody looked: a launch with a
            seed (of an order, a machine, a rounding).
    """

    kernel: str
    counts: ExecutedCounts | None
    loops: tuple[LoopCounts, ...]
    lines: tuple[LineCount, ...]
    findings: tuple[Finding, ...]
    steps: int
    notes: tuple[str, ...] = ()
    engine: Engine = "interpreted"
    not_compiled: str = ""
    printed: str = ""
    reuse: ReuseCount | None = None
    fetched_by_map: tuple[int, ...] = ()
    finished: int = 0
    stored: tuple[Stored, ...] = ()
    wraps: tuple[SourceLocation, ...] = ()
    waits_for_blocks: BlockWait | None = None
    patterns: tuple[AccessPattern, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings
