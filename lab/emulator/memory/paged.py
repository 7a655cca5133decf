"""A buffer of any size that only stores the pages a kernel accesses.

Blocks sampled from a large grid access little of arrays of many gigabytes. A page is filled from its source on first
access. Threads see offsets in the whole buffer; shadows, cells and data are indexed by positions in the existing pages.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.emulator.allowance import Outgrown
from lab.emulator.arrays import Addresses, Indices, distinct
from lab.emulator.memory.memory import Region
from lab.emulator.results import BufferSource

_SHIFT: Final = 12
_PAGE: Final = 1 << _SHIFT
"""The page size in bytes: a multiple of every element and of the widest access."""

_MOST_BYTES: Final = 1 << 28
"""The maximum bytes of one buffer's pages; the operating system commits only touched memory."""


class PagedRegion(Region):
    """A global buffer whose pages are filled on first access."""

    def __init__(self, name: str, base: int, source: BufferSource) -> None:
        """Start without pages.

        Args:
            name: Its name in findings.
            base: Generic address of the first byte.
            source: The contents before the launch.
        """
        size = source.size * source.dtype.itemsize
        pages = -(-max(size, 1) // _PAGE)
        super().__init__(name, "global", base, min(pages * _PAGE, _MOST_BYTES))
        self.size, self._source = size, source
        self._slots: NDArray[np.int32] = np.zeros(pages, np.int32)  # 1 + the page's index among the existing ones
        self._pages: list[int] = []

    def places(self, offsets: Addresses, rows: NDArray[np.int64] | slice) -> Addresses:
        """Return the positions in `data` of (count,) offsets, filling pages as needed.

        Raises:
            Outgrown: The pages exceed 256 MiB.
        """
        del rows
        pages = offsets >> _SHIFT
        slots = self._slots[pages]
        if not slots.all():
            self._fill(distinct(pages[slots == 0]))
            slots = self._slots[pages]
        result: Addresses = (slots.astype(np.int64) - 1 << _SHIFT) + (offsets & _PAGE - 1)
        return result

    def _fill(self, pages: Indices) -> None:
        if (len(self._pages) + len(pages)) * _PAGE > self.stride:
            raise Outgrown
        width = self._source.dtype.itemsize
        for page in pages.tolist():
            start = page * _PAGE
            values = self._source.read(start // width, min(start + _PAGE, self.size) // width)
            place = len(self._pages) * _PAGE
            raw = np.ascontiguousarray(values).view(np.uint8)
            self.data[place : place + len(raw)] = raw
            self._pages.append(page)
            self._slots[page] = len(self._pages)
