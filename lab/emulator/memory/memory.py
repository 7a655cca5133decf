"""Memory regions with bounds, and the windows of the generic address space.

A generic address holds its segment in the bits from `SEGMENT_SHIFT` on. Each device buffer and each module
variable is a segment of its own, so that an address that leaves one never lands in another. Shared and local memory
have one window each. A thread's row in them is that of its block, or its own. State-space addresses are offsets in the
window, as on hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses, Bits, Bytes, Values
from lab.emulator.memory.cells import Cells
from lab.emulator.memory.shadow import Shadow
from lab.emulator.memory.stores import StoreLog

SEGMENT_SHIFT = 36  # a segment spans 64 GiB
SHARED_SEGMENT, LOCAL_SEGMENT, PARAM_SEGMENT, FIRST_BUFFER = 1, 2, 3, 16
WITHIN_SEGMENT = (1 << SEGMENT_SHIFT) - 1
"""The bits of a generic address that are an offset in its segment."""
SHARED_WINDOW = SHARED_SEGMENT << SEGMENT_SHIFT
LOCAL_WINDOW = LOCAL_SEGMENT << SEGMENT_SHIFT
PARAM_WINDOW = PARAM_SEGMENT << SEGMENT_SHIFT
WIDEST_ACCESS = 16
"""Bytes of the widest access of one thread."""

_WIDEST_INTEGER = 8


class Region:
    """Bytes that one kind of access can reach.

    Attributes:
        name: The name that findings use.
        space: `global`, `const`, `shared`, `local` or `param`.
        base: Generic address of the first byte.
        size: Bytes that one thread can reach.
        stride: Bytes of a row, padding included.
        data: (rows * stride,) the bytes.
        rows: (threads,) byte offset of each thread's row in `data`; None where all threads share one row.
        shadow: What is known about each byte; None where nothing is checked.
        cells: The latest accesses to a buffer that several blocks reach; None where races are not watched for.
        log: The stores to it; None where nobody asked.
        readonly: A store to it is a fault.
    """

    def __init__(self, name: str, space: str, base: int, size: int, *, row_count: int = 1) -> None:
        """Allocate zeroed rows, padded so that the widest access always has room."""
        self.name, self.space, self.base, self.size = name, space, base, size
        self.stride = -(-max(size, 1) // WIDEST_ACCESS) * WIDEST_ACCESS
        self.data: Bytes = np.zeros(self.stride * row_count // 8, np.uint64).view(np.uint8)
        self.rows: Addresses | None = None
        self.shadow: Shadow | None = None
        self.cells: Cells | None = None
        self.log: StoreLog | None = None
        self.readonly = False
        self._views: dict[int, NDArray[Any]] = {}

    def give_rows(self, row_of: Addresses) -> None:
        """Give each thread a row, by (threads,) row numbers."""
        self.rows = row_of * self.stride

    def places(self, offsets: Addresses, rows: NDArray[np.int64] | slice) -> Addresses:
        """Return where in `data` the (count,) offsets of some threads lie.

        Args:
            offsets: Byte offsets, as each thread sees them.
            rows: What selects the threads from all of the batch, as in `Lanes`.
        """
        return offsets if self.rows is None else offsets + self.rows[rows]

    def view(self, width: int) -> NDArray[Any]:
        """Return the bytes as elements of 1, 2, 4, 8 (unsigned) or 16 bytes (void)."""
        found = self._views.get(width)
        if found is None:
            found = self.data.view(f"u{width}" if width <= _WIDEST_INTEGER else f"V{width}")
            self._views[width] = found
        return found

    def load(self, offsets: Addresses, width: int, vector: int) -> list[Bits]:
        """Gather.

        Args:
            offsets: (count,) byte offsets into `data`, aligned to the whole access and in bounds.
            width: Bytes of an element.
            vector: Elements of an access.

        Returns:
            One array of (count,) bits for each element.
        """
        whole = width * vector
        index = offsets >> (whole.bit_length() - 1)
        taken = self.view(whole).take(index, mode="clip")
        if vector == 1:
            return [taken]
        elements = taken.view(f"u{width}").reshape(-1, vector)
        return [elements[:, i] for i in range(vector)]

    def store(self, offsets: Addresses, width: int, values: Sequence[Values]) -> None:
        """Scatter (count,) values, one array for each element. Where offsets collide, the last one wins."""
        vector = len(values)
        whole = width * vector
        index = offsets >> (whole.bit_length() - 1)
        if vector == 1:
            self.view(whole)[index] = values[0]
            return
        packed = np.empty((len(offsets), vector), f"u{width}")
        for i, value in enumerate(values):
            packed[:, i] = value
        self.view(whole)[index] = packed.reshape(-1).view(self.view(whole).dtype)


class AddressSpace:
    """Every region of a launch.

    Attributes:
        regions: Segment to region.
    """

    def __init__(self) -> None:
        self.regions: dict[int, Region] = {}
        self._next = FIRST_BUFFER

    def allocate(self, name: str, space: str, size: int) -> Region:
        """Add a buffer or a module variable of `size` bytes in a segment of its own."""
        return self.add(Region(name, space, self.next_base, size))

    @property
    def next_base(self) -> int:
        """Generic address of the next region's first byte."""
        return self._next << SEGMENT_SHIFT

    def add(self, region: Region) -> Region:
        """Add a region that begins at `next_base`."""
        self.regions[self._next] = region
        self._next += 1
        return region

    def at(self, address: int) -> Region | None:
        """Return the region of a generic address; None where nothing is allocated."""
        return self.regions.get(address >> SEGMENT_SHIFT)

    def place(self, segment: int, region: Region) -> None:
        """Set the region of a fixed window: shared or local memory of the current batch, or the parameters."""
        self.regions[segment] = region
