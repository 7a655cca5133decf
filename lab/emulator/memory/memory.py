"""The machine's memories: allocations with bounds, and the windows of the generic address space.

A generic address holds its segment in the bits from `SEGMENT_SHIFT` on. Each device buffer and each module
variable is a segment of its own, so that an address that leaves one never lands in another. Shared and local
memory have one window each; within them a thread's own row is chosen by its block or by itself, and
state-space addresses are offsets in the window, as on hardware.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.memory.shadow import Shadow

Array = NDArray[Any]

SEGMENT_SHIFT = 36  # a segment spans 64 GiB
SHARED_SEGMENT, LOCAL_SEGMENT, PARAM_SEGMENT, FIRST_BUFFER = 1, 2, 3, 16
SHARED_WINDOW = SHARED_SEGMENT << SEGMENT_SHIFT
LOCAL_WINDOW = LOCAL_SEGMENT << SEGMENT_SHIFT
PARAM_WINDOW = PARAM_SEGMENT << SEGMENT_SHIFT
_ALIGN = 16  # the widest access


class Region:
    """Bytes that one kind of access can reach.

    Attributes:
        name: As findings call it.
        space: `global`, `const`, `shared`, `local` or `param`.
        base: Generic address of the first byte.
        size: Bytes that one thread can reach.
        rows: Per thread, the byte offset of its own row, or None where all threads share one.
        shadow: What is known about each byte, or None where nothing is checked.
    """

    def __init__(self, name: str, space: str, base: int, size: int, *, row_count: int = 1) -> None:
        """Allocate zeroed rows, padded so that the widest access always has room."""
        self.name, self.space, self.base, self.size = name, space, base, size
        self.stride = -(-max(size, 1) // _ALIGN) * _ALIGN
        self.data: Array = np.zeros(self.stride * row_count // 8, np.uint64).view(np.uint8)
        self.rows: Array | None = None
        self.shadow: Shadow | None = None
        self._views: dict[int, Array] = {}

    def view(self, width: int) -> Array:
        """Return the bytes as elements of 1, 2, 4, 8 or 16 bytes."""
        found = self._views.get(width)
        if found is None:
            found = self.data.view(f"u{width}" if width <= 8 else "V16")  # noqa: PLR2004  the widest integer
            self._views[width] = found
        return found

    def load(self, offsets: Array, width: int, vector: int) -> list[Array]:
        """Gather.

        Args:
            offsets: Byte offsets into `data`, int64, aligned to the whole access and in bounds.
            width: Bytes of an element.
            vector: Elements of an access.

        Returns:
            One unsigned array for each element.
        """
        whole = width * vector
        index = offsets >> (whole.bit_length() - 1)
        taken = self.view(whole).take(index, mode="clip")
        if vector == 1:
            return [taken]
        elements = taken.view(f"u{width}").reshape(-1, vector)
        return [elements[:, i] for i in range(vector)]

    def store(self, offsets: Array, width: int, values: list[Array]) -> None:
        """Scatter; where offsets collide the last one wins. Arguments as in `load`."""
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
    """Every region of a launch, found by segment."""

    def __init__(self) -> None:
        self.regions: dict[int, Region] = {}
        self._next = FIRST_BUFFER

    def allocate(self, name: str, space: str, size: int) -> Region:
        """Add a buffer or module variable in a segment of its own."""
        region = Region(name, space, self._next << SEGMENT_SHIFT, size)
        self.regions[self._next] = region
        self._next += 1
        return region

    def place(self, segment: int, region: Region) -> None:
        """Put the shared, local or parameter window of the current batch in place."""
        self.regions[segment] = region
