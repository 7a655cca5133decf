"""The latest accesses to a memory, one cell per granule of its bytes.

A granule is the kernel's smallest access width, so that neighbouring elements have separate cells. Each slot holds the
stamp of an access (see `lab.emulator.memory.clocks`) and its instruction. Reads, and atomic updates, do not order one
another, so two of each are kept: the latest, and the most distant one (another block rather than another warp, another
warp rather than another lane). Slots are allocated on first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses, Indices, Mask
from lab.emulator.memory.clocks import Stamps
from lab.emulator.memory.observed import Chains

Numbers = NDArray[np.int32]
"""Instructions, or thread numbers plus one."""

_SPARSE = 64
"""The cells per touched cell up to which marking is faster than np.unique."""

WRITTEN = 1
"""The stamp of memory with a defined value whose writer does not matter."""


@dataclass(frozen=True, slots=True, eq=False)
class AccessSlot:
    """One recorded access per cell.

    Attributes:
        stamps: (cells,) its stamp; 0 for none.
        at: (cells,) index of its instruction.
    """

    stamps: Stamps
    at: Numbers


@dataclass(frozen=True, slots=True)
class PendingRead:
    """A bulk copy that reads memory until an mbarrier phase completes.

    Attributes:
        phases: The mbarrier's key for `BatchClocks.have_seen`, and the phase; for a multicast, those of each block.
        thread: The issuing thread, numbered launch-wide.
        position: Index of its instruction.
    """

    phases: tuple[tuple[int, int], ...]
    thread: int
    position: int


Pair = tuple[AccessSlot, AccessSlot]
"""The latest access, and a distant one."""


class Cells:
    """The latest accesses to each granule of a memory.

    Attributes:
        granule: Bytes of a cell.
        per_row: Cells per row: a block's shared memory, or a whole buffer.
        total: Cells of all rows.
        write: The latest plain write.
        readers: Plain reads, or None before the first one.
        atomics: Strong writes and updates, or None.
        watchers: Strong reads, or None.
        read_only: The first and the latest loads that assume read-only memory, or None.
        bulk: (cells,) whether a bulk copy was the last writer, or None.
        arriving: (cells,) number of bulk copies that may still write a cell, or None.
        wide: All strong accesses so far have device scope.
        chains: Origins and observers of the cells' values.
    """

    def __init__(self, row_bytes: int, rows: int, granule: int) -> None:
        """Start without accesses: `rows` rows of `row_bytes` bytes."""
        self.granule, self.per_row = granule, -(-row_bytes // granule)
        self.total = self.per_row * rows
        self.write = self._slot()
        self.readers: Pair | None = None
        self.atomics: Pair | None = None
        self.watchers: Pair | None = None
        self.read_only: Pair | None = None
        self.arriving: NDArray[np.int16] | None = None
        self.bulk: Mask | None = None
        self._copied_by: NDArray[np.int32] | None = None
        self._copies: list[PendingRead] = []
        self.wide = True
        self.chains = Chains(self.total)

    def _slot(self) -> AccessSlot:
        return AccessSlot(np.zeros(self.total, np.int64), np.zeros(self.total, np.int32))

    def reading(self) -> Pair:
        """Return the slots of plain reads."""
        if self.readers is None:
            self.readers = self._slot(), self._slot()
        return self.readers

    def updating(self) -> Pair:
        """Return the slots of strong writes and updates."""
        if self.atomics is None:
            self.atomics = self._slot(), self._slot()
        return self.atomics

    def watching(self) -> Pair:
        """Return the slots of strong reads."""
        if self.watchers is None:
            self.watchers = self._slot(), self._slot()
        return self.watchers

    def note_read_only(self, cells: Indices, stamps: Stamps, position: int) -> None:
        """Record loads of (count,) cells, with (count,) stamps, that assume read-only memory."""
        if self.read_only is None:
            self.read_only = self._slot(), self._slot()
        first, latest = self.read_only
        new = np.flatnonzero(first.stamps[cells] == 0)[::-1]  # of several threads at one cell, keep the first
        first.stamps[cells[new]], first.at[cells[new]] = stamps[new], position
        latest.stamps[cells], latest.at[cells] = stamps, position

    def still_arriving(self) -> NDArray[np.int16]:
        """Return the number of bulk copies that may still write each cell."""
        if self.arriving is None:
            self.arriving = np.zeros(self.total, np.int16)
        return self.arriving

    def by_bulk(self) -> Mask:
        """Return which cells were last written by a bulk copy."""
        if self.bulk is None:
            self.bulk = np.zeros(self.total, np.bool_)
        return self.bulk

    def note_read(self, cells: Indices, copy: PendingRead) -> None:
        """Record that a bulk copy may read some cells until its mbarrier phase completes."""
        if self._copied_by is None:
            self._copied_by = np.zeros(self.total, np.int32)
        self._copies.append(copy)
        self._copied_by[cells] = len(self._copies)

    def read_for_another(self, phase: tuple[int, int]) -> None:
        """Record that the latest of these copies also goes to another block, with its own mbarrier phase."""
        if self._copies:
            self._copies[-1] = replace(self._copies[-1], phases=(*self._copies[-1].phases, phase))

    def reads_in_row(self, number: int) -> list[PendingRead]:
        """Return the bulk copies that have read cells of a row."""
        if self._copied_by is None:
            return []
        return [
            self._copies[copy_number - 1]
            for copy_number in np.unique(self._copied_by[self.row(number)]).tolist()
            if copy_number
        ]

    def pending_reads(self, cells: Indices) -> Iterator[tuple[PendingRead, Indices]]:
        """Yield the latest bulk copies that read some of (count,) cells, with the positions of these cells."""
        if self._copied_by is None:
            return
        numbers = self._copied_by[cells]
        for number in np.unique(numbers[numbers > 0]).tolist():
            yield self._copies[number - 1], np.flatnonzero(numbers == number)

    def span(self, offset: int, size: int) -> Indices:
        """Return the cells of `size` bytes at an offset."""
        return np.arange(offset // self.granule, (offset + size) // self.granule)

    def under(self, offsets: Addresses, size: int) -> Indices:
        """Return the cells of `size`-byte spans at (count,) byte offsets, distinct and ascending."""
        return self.under_each(offsets[None], size)[1]

    def under_each(self, offsets: Addresses, size: int) -> tuple[Indices, Indices]:
        """Return the distinct cells of each access's spans.

        Args:
            offsets: (accesses, count) byte offsets.
            size: Bytes of a span.

        Returns:
            (cells,) the access, ascending, and the cell, ascending within an access.
        """
        pieces = np.append(np.arange(0, size, self.granule), np.arange(size)[-1:])  # the last may lie in one cell more
        cells: Indices = (offsets[..., None] + pieces).reshape(len(offsets), -1) // self.granule
        first, extent = cells.min(initial=self.total), int(np.ptp(cells)) + 1 if cells.size else 0
        which = np.arange(len(offsets))[:, None]
        if extent > _SPARSE * cells.shape[1]:
            keys = np.unique(which * self.total + cells)
            return keys // self.total, keys % self.total
        touched = np.zeros((len(offsets), extent), np.bool_)
        touched[which, cells - first] = True
        of, at = np.nonzero(touched)
        return of, at + first

    def row(self, number: int) -> slice:
        """Return the slice of a row's cells."""
        return slice(number * self.per_row, (number + 1) * self.per_row)

    def covered(self, offsets: Addresses, width: int) -> Indices:
        """Return the cells of an access, (count, pieces).

        Args:
            offsets: (count,) byte offsets into the memory.
            width: Bytes of the access.
        """
        first = offsets // self.granule
        pieces = max(1, width // self.granule)
        return first[:, None] + np.arange(pieces) if pieces > 1 else first[:, None]
