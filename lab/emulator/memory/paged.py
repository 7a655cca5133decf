"""A buffer of any size of which only the pages that a kernel touches exist.

Blocks sampled from a large grid touch little of arrays of many gigabytes. A page is filled from its source when it is
first reached. Offsets, as threads see them, stay those of the whole buffer; shadows, cells and data are indexed by
places among the pages that exist.
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
"""Bytes of a page: a multiple of every element and of the widest access."""

_MOST_BYTES: Final = 1 << 28
"""Bytes of the pages of one buffer; the operating system commits those that are touched."""


class PagedRegion(Region):
    """A global buffer whose pages are filled when they are first reached."""

    def __init__(self, name: str, base: int, source: BufferSource) -> None:
        """Begin without pages.

        Args:
            name: The name that findings use.
            base: Generic address of the first byte.
            source: The contents before the launch.
        """
        size = source.size * source.dtype.itemsize
        pages = -(-max(size, 1) // _PAGE)
        super().__init__(name, "global", base, min(pages * _PAGE, _MOST_BYTES))
        self.size, self._source = size, source
        self._slots: NDArray[np.int32] = np.zeros(pages, np.int32)  # 1 + the page's place among those that exist
        self._pages: list[int] = []

    def places(self, offsets: Addresses, rows: NDArray[np.int64] | slice) -> Addresses:
        """Return where in `data` the (count,) offsets lie.

        Raises:
            Outgrown: The pages take more than 256 MiB.
        """
        del rows
        pages = offsets >> _SHIFT
        slots = self._slots[pages]
        if not slots.all():
            self._fill(distinct(pages[slots == 0]))
            slots = self._slots[pages]
        found: Addresses = (slots.astype(np.int64) - 1 << _SHIFT) + (offsets & _PAGE - 1)
        return found

    def _fill(self, pages: Indices) -> None:
        if (len(self._pages) + len(pages)) * _PAGE > self.stride:
            raise Outgrown
        width = self._source.dtype.itemsize
        for page in pages.tolist():
            start = page * _PAGE
            values = self._source.read(start // width, min(start + _PAGE, self.size) // width)
            place = len(self._pages) * _PAGE
            held = np.ascontiguousarray(values).view(np.uint8)
            self.data[place : place + len(held)] = held
            self._pages.append(page)
            self._slots[page] = len(self._pages)
