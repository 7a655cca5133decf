"""Emulation results: immutable counts and findings."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lab.base.display import Displayed
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
"""The engine of a launch: NumPy on all threads at once, or compiled machine code."""

NEVER_SET: Final = "nothing sets in constant memory"
"""The start of an `Emulation` note on constant-memory variables that hold zeros."""

EngineChoice = Literal["auto", "interpreted", "compiled"]
"""The engine a launch requests: one of the two, or the faster one."""


class BlockWait(enum.Enum):
    """The blocks (or clusters) that some block of a launch waits for."""

    NONE = "none"
    """Every block finishes on its own."""

    EARLIER = "earlier"
    """Blocks with lower numbers, which become resident first."""

    ANY = "any"
    """A block with a higher number: all blocks must be co-resident."""


class BufferSource(Protocol):
    """A buffer defined by a function of the index, for buffers blocks access sparsely."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""

    @property
    def size(self) -> int:
        """The number of elements."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the elements from `start` to `stop`, 1-D, in memory order."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A device buffer with its access rules.

    Attributes:
        array: Its contents, contiguous, of any dtype; read and written in place.
        initialised: False: the kernel must write an element before it reads it.
        output: True: every element must be written by the kernel.
        name: Its name in findings; empty for its argument position.
        readonly: True: the kernel may not write to it.
        traced: True: `Emulation.stored` has the stored elements and their blocks; the array does not change.
    """

    array: NDArray[Any]
    initialised: bool = True
    output: bool = False
    name: str = ""
    readonly: bool = False
    traced: bool = False


@dataclass(frozen=True, slots=True)
class IndexedBuffer:
    """A device buffer of any size, for launches of a few blocks.

    Attributes:
        source: Its contents before the launch. They do not change: `Emulation.stored` has the kernel's stores.
        name: Its name in findings.
        initialised: As in `Buffer`.
        readonly: As in `Buffer`.
    """

    source: BufferSource
    name: str
    initialised: bool = True
    readonly: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """The stored elements of a buffer, one row per block and element, in order.

    Attributes:
        name: The buffer's name.
        blocks: (rows,) the block's number in the grid.
        elements: (rows,) the element's index, in memory order.
        values: (rows,) the element's final value.
        updated: Atomics or reductions updated some of them.
    """

    name: str
    blocks: NDArray[np.int64]
    elements: NDArray[np.int64]
    values: NDArray[Any]
    updated: bool = False


@dataclass(frozen=True, slots=True)
class StructureArgument:
    """A by-value structure argument whose members may point to buffers.

    Attributes:
        members: In order: arrays and `Buffer`s, which are passed as pointers, and NumPy scalars.
    """

    members: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TensorMapArgument:
    """A tensor-map argument: a matrix, or a tensor of one to five dimensions, for bulk tensor copies.

    It is passed by value. For a pointer parameter, it is passed as the address of a map in global memory.

    Sizes are in elements, the contiguous direction first.

    Attributes:
        of: The device buffer; the matrix begins at its first element.
        extents: Size of the matrix; copies zero-fill elements outside.
        leading: Elements from the start of one column to the start of the next.
        box: Size of the tile one copy moves.
        swizzle: Bytes of the span in shared memory within which pieces of 16 bytes are swizzled: 32, 64, 128; 0 for
            none.
        outer: Elements from one matrix to the next, and so on, for the dimensions beyond the second.
        element: PTX element type where NumPy has none (bf16); empty for the buffer's type.
        pixels: The pixel box of an im2col map; `box` then has the channels and the number of pixels.
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
    """A fault, with its first occurrence.

    Attributes:
        kind: The kind of fault.
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
        remedy: A suggested fix; empty where none is known.
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
        """A one-line summary; the source line comes first where it is known."""
        element = self.variable.partition(", elements of ")[0].partition(" of ")[0]
        touched = f", {element}" if element else ""
        other = self.other if self.other is not None and self.other.line != self.line else None
        against = f"; the {other.kind} is at {_reached(other.source, other.calls)}" if other and other.source else ""
        place = f" at {_placed(self.line, self.source, self.calls)}" if self.line else ""
        return f"{self.kind}{place}: {self.detail}{touched}{against}"


def _placed(line: int, source: SourceLocation | None, calls: tuple[SourceLocation, ...]) -> str:
    return f"{_reached(source, calls)} (PTX line {line})" if source else f"PTX line {line}"


def _reached(source: SourceLocation, calls: tuple[SourceLocation, ...]) -> str:
    return ", called at ".join(location.short for location in (source, *calls))


@dataclass(frozen=True, slots=True)
class MemoryCount:
    """The traffic of memory instructions of one space and direction.

    Attributes:
        requests: Warp instructions with at least one active lane.
        wavefronts: Shared memory: passes through the data array; zero for global memory.
        sectors: Global memory: 32-byte sectors touched, summed over requests; zero for shared memory.
        bytes_used: Bytes requested by the threads.
        ideal_wavefronts: Shared memory: wavefronts of the same bytes without bank conflicts.
        updates: Atomics: serialised updates. Global memory: for each sector of a request, the updates of its busiest
            element; shared memory: for each request, the updates of its busiest bank.
        chunks: Atomics in global memory: distinct chunks of `lab.hardware.memory.CHUNK_BYTES` touched, which spread
            over the L2 slices; for several instructions, the largest number of one of them.
        passes: Constant memory: distinct words, each of which takes a pass, summed over requests whose lanes read
            different ones. A word that all lanes read takes none: it is an operand of the instruction that uses it.
    """

    requests: int = 0
    wavefronts: int = 0
    sectors: int = 0
    bytes_used: int = 0
    ideal_wavefronts: int = 0
    updates: int = 0
    chunks: int = 0
    passes: int = 0

    @property
    def bank_conflicts(self) -> int:
        """The wavefronts caused by bank conflicts."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def bytes_moved(self) -> int:
        """The bytes of all moved sectors."""
        return SECTOR_BYTES * self.sectors

    @property
    def sectors_per_request(self) -> float:
        """The mean sectors per request; 0 without requests."""
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
            self.passes + other.passes,
        )


@dataclass(frozen=True, slots=True)
class ReuseCount:
    """The global-memory data reuse of a few blocks (`lab.emulator.memory.reuse`).

    Attributes:
        sectors: 32-byte sectors of their loads, summed over requests.
        lines: 128-byte lines of their loads, summed likewise.
        again: Of those sectors, the ones already read by their block, by reuse distance: entry i counts hits in a
            private cache of 2^i lines that miss in one of half the size.
        held: Mean number of distinct lines a block reads.
        read: Distinct sectors read by the blocks.
        used: Distinct bytes read.
        lonely: Sectors of `read` with at most half their bytes used, and the other half of their 64 bytes unread.
        lonely_used: Distinct bytes read from these.
        lonely_share: Share of all buffers' bytes in the buffers that contain these.
        stored: Sectors of their stores, summed over requests.
        written: Distinct sectors stored to.
        filled: Distinct bytes stored.
        passes: Passes of the loads through L1's data banks, summed over requests: the words of each request's busiest
            bank. 0 in records of older runs.
        table_first: Sectors that a block reads first in a table: a buffer whose size is the same for all problems.
        table_again: Entries of `again` in tables.
        scattered: Of each buffer that the blocks read or update at irregular places all over it: its bytes; the
            distinct sectors that each block reads there, added up, without lonely ones; the passes through DRAM of such
            a sector that L2 does not hold: 2 where atomics update it.
        stored_alone: Those of `stored` of which the request stores to no other sector of their line; 0 in records of
            older runs.
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
    table_first: int = 0
    table_again: tuple[int, ...] = ()
    scattered: tuple[tuple[int, int, int], ...] = ()
    stored_alone: int = 0


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """The lanes' addresses of a memory instruction (`lab.emulator.memory.samples`), and the cost of its first requests.

    Costs are wavefronts of shared memory, sectors of global memory, distinct words of constant memory.

    Attributes:
        line: PTX line.
        key: As of `ExecutedCounts.memory`.
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
    """The execution count of one instruction.

    Attributes:
        line: PTX line.
        opcode: With every modifier.
        cls: `InstructionClass` value.
        warps: Warp instructions issued.
        threads: Thread instructions whose guard was true.
        memory: Traffic, for instructions on shared, global or constant memory, by the keys of
            `ExecutedCounts.memory`.
    """

    line: int
    opcode: str
    cls: str
    warps: int
    threads: int
    memory: dict[str, MemoryCount]

    @property
    def active_lanes(self) -> float:
        """The mean number of active lanes per warp instruction."""
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
            `global.atomic`, `global.copy`, `const.load` to traffic; generic accesses count where they fell. The copies
            are the two sides of cp.async and of bulk copies. Constant loads are there if the launch was traced. The
            fragments of wmma count as element-wise accesses, which is not how the hardware moves them.
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
        """The mean number of active lanes per warp instruction."""
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
class Emulation(Displayed):
    """The outcome of one launch.

    Attributes:
        kernel: Name of the kernel.
        counts: Counts of the whole kernel, device functions included; None with ``count=False``.
        loops: Counts of each loop of the kernel; empty with ``count=False``.
        lines: Counts of each instruction that was executed, in listing order; empty with ``count=False``.
        findings: Distinct by kind and line, in order of occurrence.
        steps: Instructions issued: by the interpreter for a whole group of threads, by the compiled engine for one warp
            (counted only with ``count=True``).
        notes: Notes on omissions.
        engine: The engine that executed the launch.
        not_compiled: Why the compiled engine, if requested, did not execute it; empty otherwise.
        printed: The output of printf, in execution order.
        reuse: The data reuse of the first blocks; None unless requested, and where nothing was read or stored.
        fetched_by_map: For each tensor map among the arguments, the bytes that bulk copies brought into shared memory.
            Multicast boxes count once. Padding beyond the tensor is included, so that the number does not depend on
            partially filled tiles. Empty with ``count=False``.
        finished: Blocks that ran to their end.
        wraps: Source lines of products that wrap around, if requested: an index may be too large for its type.
        stored: Elements these blocks stored to, for each `IndexedBuffer` and each traced buffer.
        patterns: Addresses of the first blocks' memory instructions; empty unless `reuse` was asked for.
        waits_for_blocks: The blocks that the launch's blocks wait for. None if not checked: a launch with a seed (of a
            schedule, a machine, a rounding).
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
        """Return whether there are no findings."""
        return not self.findings
