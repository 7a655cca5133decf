"""Memory regions with bounds, and the windows of the generic address space.

A generic address holds its segment in the bits from `SEGMENT_SHIFT` on. Each device buffer and each module
variable has its own segment, so that an out-of-bounds address never lands in another one. Shared and local memory have
one window each, with one row per block or per thread. State-space addresses are offsets in the window, as on hardware.
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
"""The bits of a generic address that hold the offset in its segment."""
SHARED_WINDOW = SHARED_SEGMENT << SEGMENT_SHIFT
LOCAL_WINDOW = LOCAL_SEGMENT << SEGMENT_SHIFT
PARAM_WINDOW = PARAM_SEGMENT << SEGMENT_SHIFT
WIDEST_ACCESS = 16
"""The bytes of a thread's widest access."""

_WIDEST_INTEGER = 8


class Region:
    """A memory region.

    Attributes:
        name: Its name in findings.
        space: `global`, `const`, `shared`, `local` or `param`.
        base: Generic address of the first byte.
        size: Bytes accessible to one thread.
        stride: Bytes per row, including padding.
        data: (rows * stride,) the bytes.
        rows: (threads,) byte offset of each thread's row in `data`; None where all threads share one row.
        shadow: The initialisation state of each byte; None without checks.
        cells: The latest accesses to a buffer that several blocks access; None without race checks.
        log: The stores to it; None if not requested.
        readonly: A store to it is a fault.
    """

    def __init__(self, name: str, space: str, base: int, size: int, *, row_count: int = 1) -> None:
        """Allocate zeroed rows, padded to fit the widest access."""
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
        """Assign a row to each thread, by (threads,) row numbers."""
        self.rows = row_of * self.stride

    def places(self, offsets: Addresses, rows: NDArray[np.int64] | slice) -> Addresses:
        """Return the positions in `data` of some threads' (count,) offsets.

        Args:
            offsets: Byte offsets, as each thread sees them.
            rows: The index of the threads in the batch, as in `Lanes`.
        """
        return offsets if self.rows is None else offsets + self.rows[rows]

    def view(self, width: int) -> NDArray[Any]:
        """Return the bytes as elements of 1, 2, 4, 8 (unsigned) or 16 bytes (void)."""
        elements = self._views.get(width)
        if elements is None:
            elements = self.data.view(f"u{width}" if width <= _WIDEST_INTEGER else f"V{width}")
            self._views[width] = elements
        return elements

    def load(self, offsets: Addresses, width: int, vector: int) -> list[Bits]:
        """Gather values.

        Args:
            offsets: (count,) byte offsets into `data`, aligned to the whole access and in bounds.
            width: Bytes of an element.
            vector: Elements of an access.

        Returns:
            One array of (count,) bits per element.
        """
        total_width = width * vector
        index = offsets >> (total_width.bit_length() - 1)
        gathered = self.view(total_width).take(index, mode="clip")
        if vector == 1:
            return [gathered]
        elements = gathered.view(f"u{width}").reshape(-1, vector)
        return [elements[:, i] for i in range(vector)]

    def store(self, offsets: Addresses, width: int, values: Sequence[Values]) -> None:
        """Scatter (count,) values, one array per element. Where offsets collide, the last one wins."""
        vector = len(values)
        total_width = width * vector
        index = offsets >> (total_width.bit_length() - 1)
        if vector == 1:
            self.view(total_width)[index] = values[0]
            return
        packed = np.empty((len(offsets), vector), f"u{width}")
        for i, value in enumerate(values):
            packed[:, i] = value
        self.view(total_width)[index] = packed.reshape(-1).view(self.view(total_width).dtype)


class AddressSpace:
    """The memory regions of a launch.

    Attributes:
        regions: Regions by segment.
    """

    def __init__(self) -> None:
        self.regions: dict[int, Region] = {}
        self._next = FIRST_BUFFER

    def allocate(self, name: str, space: str, size: int) -> Region:
        """Add a buffer or module variable of `size` bytes in its own segment."""
        return self.add(Region(name, space, self.next_base, size))

    @property
    def next_base(self) -> int:
        """The generic address of the next region."""
        return self._next << SEGMENT_SHIFT

    def add(self, region: Region) -> Region:
        """Add a region at `next_base`."""
        self.regions[self._next] = region
        self._next += 1
        return region

    def at(self, address: int) -> Region | None:
        """Return the region of a generic address; None where nothing is allocated."""
        return self.regions.get(address >> SEGMENT_SHIFT)

    def place(self, segment: int, region: Region) -> None:
        """Set the region of a fixed window: shared or local memory of the current batch, or the parameters."""
        self.regions[segment] = region
