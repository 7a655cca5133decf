"""The latest accesses to shared memory, one entry for each granule of its bytes.

A granule is the smallest width in which the kernel touches shared memory, so that neighbours are never mistaken for one
another. Threads are kept plus one, so that 0 means nobody and clearing is a fill with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses, Indices

Numbers = NDArray[np.int32]
"""Threads plus one, or instructions."""


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Who accessed each granule since the last barrier. The arrays have one element for each entry of the batch.

    Attributes:
        granule: Bytes of an entry.
        per_row: Entries of a block.
        rows: Blocks of the batch.
        threads: Threads of the batch.
        writer: Thread of the latest write, plus one.
        reader: A thread that read, plus one.
        other_reader: A thread of another warp than `reader`'s that read, plus one.
    """

    granule: int
    per_row: int
    rows: int
    threads: int
    writer: Numbers
    reader: Numbers
    other_reader: Numbers

    @property
    def total(self) -> int:
        """Entries of the batch."""
        return self.per_row * self.rows

    def block(self, row: int) -> slice:
        """Return where the entries of a block are."""
        return slice(row * self.per_row, (row + 1) * self.per_row)

    def covered(self, offsets: Addresses, width: int) -> tuple[Indices, int]:
        """Return the entries of an access, (count * pieces,), and the number of pieces of each thread's access.

        Args:
            offsets: (count,) byte offsets into the batch's shared memory.
            width: Bytes of the access.
        """
        first = offsets // self.granule
        pieces = max(1, width // self.granule)
        if pieces == 1:
            return first, 1
        return (first[:, None] + np.arange(pieces)).reshape(-1), pieces

    def order_blocks(self, rows: Indices | slice) -> None:
        """Forget the accesses of whole blocks, whose threads have all passed a barrier."""
        for names in (self.writer, self.reader, self.other_reader):
            names.reshape(-1, self.per_row)[rows] = 0

    def order_threads(self, threads: Indices) -> None:
        """Forget the accesses of some threads, (count,) indices, that have passed a barrier."""
        took_part = np.zeros(self.threads + 1, np.bool_)
        took_part[threads + 1] = True
        for names in (self.writer, self.reader, self.other_reader):
            names[took_part[names]] = 0


def make_entries(row_bytes: int, rows: int, granule: int, threads: int) -> Entries:
    """Return entries that nobody has accessed.

    Args:
        row_bytes: Bytes of a block's shared memory, a multiple of the granule.
        rows: Blocks of the batch.
        granule: Bytes of an entry.
        threads: Threads of the batch.
    """
    per_row = row_bytes // granule
    writer, reader, other_reader = (np.zeros(per_row * rows, np.int32) for _ in range(3))
    return Entries(granule, per_row, rows, threads, writer, reader, other_reader)
