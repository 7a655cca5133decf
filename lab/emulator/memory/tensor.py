"""Tensor memory: the columns that a block has allocated, their contents, and the matrix products on their way to them.

A product is executed at once. What is remembered is that its result, and its operands in shared memory, are settled
only for threads that know a phase of an mbarrier to be complete on which a `tcgen05.commit` behind it has arrived.
`lab.emulator.memory.asyncshadow` keeps which phases a thread knows of, itself or by a barrier.

PTX ISA, Tensor Memory; TensorCore 5th Generation Family Instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Indices, Mask
from lab.emulator.batch import Batch
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes, warp_of
from lab.emulator.memory.watch import AccessWatch
from lab.emulator.program import RegisterName

LANES = 128
COLUMNS = 512
WARPS = LANES // WARP_SIZE
_COUNTS = (32, 64, 128, 256, 512)
"""Columns that a block can allocate together."""


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of a block's tensor memory.

    Attributes:
        block: The block of the batch.
        lanes: The lanes, ascending.
        first: The first column.
        columns: How many there are.
    """

    block: int
    lanes: tuple[int, ...]
    first: int
    columns: int

    def meets(self, other: Area) -> bool:
        """Return whether the two have a cell in common."""
        apart = self.first >= other.first + other.columns or other.first >= self.first + self.columns
        return self.block == other.block and not apart and not set(self.lanes).isdisjoint(other.lanes)

    def covers(self, other: Area) -> bool:
        """Return whether all cells of the other are among its own."""
        ends = other.first + other.columns <= self.first + self.columns
        return self.block == other.block and self.first <= other.first and ends and set(self.lanes) >= set(other.lanes)


@dataclass(slots=True, eq=False)
class _Product:
    """A matrix product that may still be at work.

    Attributes:
        area: Where its result goes.
        position: Index of the instruction.
        thread: The batch's index of the thread that asked for it.
        cells: Cells of shared memory that it reads.
        who: (cells,) the thread.
        commits: Mbarriers, by their blocks and numbers, with the phases in which commits behind it arrived.
        read: Some thread knows that it has read its operands.
    """

    area: Area
    position: int
    thread: int
    cells: Indices
    who: Indices
    commits: list[tuple[int, int, int]] = field(default_factory=list)
    read: bool = False


class TensorMemory:
    """The tensor memory of a batch's blocks."""

    def __init__(self, batch: Batch, watch: AccessWatch, findings: BatchFindings) -> None:
        """Begin without allocated columns."""
        self._batch, self._watch, self._findings = batch, watch, findings
        self._cells: NDArray[np.uint32] = np.zeros((0, LANES, COLUMNS), np.uint32)
        self._written: Mask = np.zeros((0, LANES, COLUMNS), np.bool_)
        self._allocated: dict[int, dict[int, tuple[int, int, int]]] = {}  # block: first column: count, position, thread
        self._relinquished: set[int] = set()
        self._products: list[_Product] = []
        self._loaded: dict[RegisterName, Mask] = {}
        self._stores: list[tuple[Area, int]] = []  # with the warp that has not waited for it

    def _fault(self, position: int, detail: str, threads: Indices, remedy: str = "") -> None:
        self._findings.add("tensor-memory-misuse", position, detail, threads, remedy=remedy)

    # --- allocation -------------------------------------------------------------------------------------------

    def allocate(self, position: int, block: int, columns: int, thread: int) -> int | None:
        """Allocate columns of a block; return the address of the first one, or None where a finding says why not."""
        threads = np.array([thread])
        if columns not in _COUNTS:
            self._fault(position, f"{columns} columns; accepted are {', '.join(map(str, _COUNTS))}", threads)
            return None
        if block in self._relinquished:
            self._fault(position, "this block has given up its right to allocate", threads)
            return None
        taken = self._allocated.setdefault(block, {})
        free = [
            at for at in range(0, COLUMNS, columns) if all(not _overlap(at, columns, *span) for span in _spans(taken))
        ]
        if not free:
            detail = f"a block has {COLUMNS} columns, and {columns} more are not free: these threads wait forever"
            self._fault(position, detail, threads, "tcgen05.dealloc of columns that are no longer used")
            return None
        taken[free[0]] = (columns, position, thread)
        if not len(self._cells):
            shape = (self._batch.blocks, LANES, COLUMNS)
            self._cells, self._written = np.zeros(shape, np.uint32), np.zeros(shape, np.bool_)
        self._written[block, :, free[0] : free[0] + columns] = False
        return free[0]

    def free(self, position: int, block: int, address: int, columns: int, thread: int) -> None:
        """Free columns of a block; arguments other than allocated ones become a finding."""
        taken = self._allocated.get(block, {})
        held = taken.get(address)
        if held is None or held[0] != columns:
            detail = f"tcgen05.dealloc of {columns} columns at {address:#x}, which were not allocated together"
            self._fault(position, detail, np.array([thread]))
            return
        area = Area(block, tuple(range(LANES)), address, columns)
        self._find_at_work(position, area, np.array([thread]), "frees")
        del taken[address]

    def relinquish(self, block: int) -> None:
        """Note that a block allocates no more."""
        self._relinquished.add(block)

    def leave(self, lanes: Lanes, alive: Mask) -> None:
        """Note what is left where the last threads of a block have ended.

        Args:
            lanes: The threads that end.
            alive: (threads,) those that have not ended.
        """
        size = self._batch.threads // self._batch.blocks
        for block in np.unique(self._batch.block_of[lanes.indices()]).tolist():
            if alive[block * size : (block + 1) * size].any():
                continue
            for columns, position, thread in self._allocated.pop(block, {}).values():
                detail = f"the block ends and has not freed these {columns} columns of tensor memory"
                self._fault(position, detail, np.array([thread]), "tcgen05.dealloc by a warp before the block ends")
            for product in self._products:
                if product.area.block == block and not product.read and self._watch.bulk is not None:
                    detail = "the block ends before any of its threads has waited for this product"
                    self._findings.add("async-not-waited", product.position, detail, np.array([product.thread]))
            self._products = [product for product in self._products if product.area.block != block]

    # --- contents ---------------------------------------------------------------------------------------------

    def within(self, position: int, area: Area, threads: Indices) -> bool:
        """Return whether an area is allocated; note a fault where it is not."""
        spans = _spans(self._allocated.get(area.block, {}))
        if any(first <= area.first and area.first + area.columns <= first + count for first, count in spans):
            return True
        held = ", ".join(f"{first} to {first + count - 1}" for first, count in spans) or "none"
        detail = f"columns {area.first} to {area.first + area.columns - 1} of tensor memory; allocated are {held}"
        self._fault(position, detail, threads, "tcgen05.alloc before the first use, and the address that it gives")
        return False

    def read(self, position: int, area: Area, threads: Indices) -> NDArray[np.uint32]:
        """Return the cells of an area, (lanes, columns), for threads that load them.

        A column is reported that no lane of the area has been written in: a product of 64 rows leaves half of the lanes
        that a warp loads as they were.
        """
        self._find_at_work(position, area, threads, "reads")
        part = np.ix_(area.lanes, range(area.first, area.first + area.columns))
        if not self._written[area.block][part].any(axis=0).all():
            detail = "these columns of tensor memory hold something that nothing wrote"
            self._findings.add("uninitialised-read", position, detail, threads[:1])
        return np.asarray(self._cells[area.block][part])

    def held(self, position: int, area: Area, thread: int) -> NDArray[np.uint32]:
        """Return the cells of an area, (lanes, columns), for a product, which follows earlier ones in their order."""
        part = np.ix_(area.lanes, range(area.first, area.first + area.columns))
        if not self._written[area.block][part].all():
            detail = "the product adds to columns of tensor memory that nothing wrote"
            self._findings.add("uninitialised-read", position, detail, np.array([thread]))
        if any(area.meets(other) for other, _ in self._stores):
            detail = "the product reads what a tcgen05.st wrote that its warp has not waited for"
            self._findings.add("async-not-waited", position, detail, np.array([thread]), remedy="tcgen05.wait::st")
        return np.asarray(self._cells[area.block][part])

    def write(self, area: Area, values: NDArray[np.uint32]) -> None:
        """Set the cells of an area to (lanes, columns) values."""
        part = np.ix_(area.lanes, range(area.first, area.first + area.columns))
        self._cells[area.block][part] = values
        self._written[area.block][part] = True

    def store(self, position: int, area: Area, values: NDArray[np.uint32], threads: Indices) -> None:
        """Store (lanes, columns) values of a warp's threads, which may be at work until the warp waits."""
        self._find_at_work(position, area, threads, "overwrites")
        self.write(area, values)
        self._stores.append((area, int(warp_of(threads[:1])[0])))

    # --- products ---------------------------------------------------------------------------------------------

    def begin(self, position: int, area: Area, thread: int, cells: Indices, who: Indices) -> None:
        """Remember a product. One that an equal or larger area covers is complete before it: their order is kept."""
        over = [area.covers(product.area) and (product.read or not product.cells.size) for product in self._products]
        self._products = [one for one, gone in zip(self._products, over, strict=True) if not gone]
        self._products.append(_Product(area, position, thread, cells, who))

    def commit(self, thread: int, block: int, number: int, phase: int) -> None:
        """Let a phase of a block's mbarrier tell of the products that a thread has asked for."""
        for product in self._products:
            if product.thread == thread:
                product.commits.append((block, number, phase))

    def _knows(self, one: _Product, threads: Indices) -> Mask:
        """Return which (count,) threads know that a product is complete; all where nothing is watched."""
        bulk = self._watch.bulk
        if bulk is None:
            return np.ones(len(threads), np.bool_)
        knows, blocks = np.zeros(len(threads), np.bool_), self._batch.block_of[threads]
        for block, number, phase in one.commits:
            knows |= (blocks == block) & (bulk.seen[number, threads] > phase)
        return knows

    def see(self, threads: Indices) -> None:
        """Let threads, which have seen a phase complete, know of the products that it tells of."""
        shadow, clocks = self._watch.shadow, self._watch.clocks
        if shadow is None or clocks is None:
            return
        for product in self._products:
            mine = threads[self._batch.block_of[threads] == product.area.block]
            knows = self._knows(product, mine)
            if not knows.any() or not product.cells.size:
                product.read |= bool(knows.any())
                continue
            if not product.read:
                # noted as one of the thread's warp, which alone is passed on without what the thread did otherwise
                shadow.end_async_read(product.cells, product.who, product.position, warp=True)
            product.read = True
            clocks.order_warps_reads(mine[knows], warp_of(np.array([product.thread])), clocks.arrival())

    def _find_at_work(self, position: int, area: Area, threads: Indices, verb: str) -> None:
        """Note a fault of threads that use an area while a product to it may be at work."""
        for product in self._products:
            knows = self._knows(product, threads)
            if knows.all() or not product.area.meets(area):
                continue
            detail = f"this {verb} what a tcgen05.mma writes that has not been waited for"
            remedy = "a wait for the mbarrier of its tcgen05.commit before the access"
            if not product.commits:
                detail = f"this {verb} what a tcgen05.mma writes that no tcgen05.commit lets an mbarrier tell of"
                remedy = "tcgen05.commit behind the tcgen05.mma, and a wait for its mbarrier before the access"
            self._findings.add("async-not-waited", position, detail, threads[~knows], remedy=remedy)
            return

    # --- registers --------------------------------------------------------------------------------------------

    def load(self, lanes: Lanes, names: Sequence[RegisterName]) -> None:
        """Note that a load to registers is on its way."""
        for name in names:
            self._loaded.setdefault(name, np.zeros(self._batch.threads, np.bool_))[lanes.rows] = True

    def touch(self, position: int, lanes: Lanes, reads: Sequence[RegisterName], writes: Sequence[RegisterName]) -> None:
        """Note that threads use registers, which a load may still write, beyond computing; and that they set others."""
        for name in writes:
            if name in self._loaded:
                self._loaded[name][lanes.rows] = False
        for name in reads:
            marks = self._loaded.get(name)
            if marks is not None and marks[lanes.rows].any():
                late = np.flatnonzero(marks[lanes.rows])
                detail = f"{name[1]} is the result of a tcgen05.ld that has not been waited for"
                remedy = "tcgen05.wait::ld.sync.aligned before the access"
                self._findings.add("async-not-waited", position, detail, lanes.indices()[late], remedy=remedy)
                return

    def compute(self, lanes: Lanes, reads: Sequence[RegisterName], writes: Sequence[RegisterName]) -> None:
        """Let an operation on registers pass on that a value is on its way."""
        late = np.zeros(self._batch.threads, np.bool_)
        for name in reads:
            marks = self._loaded.get(name)
            if marks is not None:
                late |= marks
        for name in writes:
            self._loaded.setdefault(name, np.zeros(self._batch.threads, np.bool_))[lanes.rows] = late[lanes.rows]

    def wait_for_loads(self, lanes: Lanes) -> None:
        """Let all loads of threads arrive."""
        for marks in self._loaded.values():
            marks[lanes.rows] = False

    def wait_for_stores(self, lanes: Lanes) -> None:
        """Let all stores of threads arrive."""
        warps = set(warp_of(lanes.indices()).tolist())
        self._stores = [store for store in self._stores if store[1] not in warps]


def _spans(taken: dict[int, tuple[int, int, int]]) -> list[tuple[int, int]]:
    return [(first, held[0]) for first, held in sorted(taken.items())]


def _overlap(first: int, count: int, other: int, others: int) -> bool:
    return first < other + others and other < first + count
