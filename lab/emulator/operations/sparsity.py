"""Structured sparsity: the positions of A's stored elements in its rows.

Half of the elements of every chunk of a row are stored; two bits of metadata per stored element (four for tf32) give
its position. PTX ISA, Warp-level matrix instructions: mma.sp, Sparse matrix storage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.emulator.arrays import Doubles, Indices, Words
from lab.emulator.operations.elements import BITS

_WORD = 32
_ROWS = 16
_NIBBLE = 4  # bits of metadata of a chunk


@dataclass(frozen=True, slots=True)
class Sparsity:
    """The storage format of a sparse A's rows.

    Attributes:
        t: Element type.
        k: Columns of A, including those not stored.
    """

    t: str
    k: int

    @property
    def chunk(self) -> int:
        """The elements per chunk: 2 for tf32, 4, or 8 for sub-byte integers, which go in pairs."""
        return {32: 2, 4: 8}.get(BITS[self.t], 4)

    @property
    def pair(self) -> int:
        """The number of adjacent elements per metadata index."""
        return 2 if BITS[self.t] == _NIBBLE else 1

    @property
    def row_bits(self) -> int:
        """The metadata bits per row."""
        return self.k // self.chunk * _NIBBLE

    @property
    def givers(self) -> int:
        """The number of lanes per quad that provide metadata."""
        return self.row_bits * _ROWS // _WORD // 8

    @property
    def selectors(self) -> int:
        """The number of selector values, which choose the lanes of a quad that provide metadata."""
        return 4 // self.givers

    def chosen(self, words: Words, selector: int) -> Words:
        """Return (warps, 16 rows, row_bits / 16) metadata halves, first columns first, from (warps, 32) words.

        If a row takes 16 or 32 bits of two lanes, a lane holds 16 bits of a row in its low half, and those of the row
        eight rows below in its high half. Metadata of 8-bit and sub-byte elements use whole words: the first lane holds
        those of a row, the second those of the row eight below, and the next two lanes the following ones.
        """
        quads = words.reshape(-1, 8, 4)[:, :, selector * self.givers : (selector + 1) * self.givers]
        low, high = quads & np.uint32(0xFFFF), quads >> np.uint32(16)
        if BITS[self.t] > 8:  # noqa: PLR2004  bits
            return np.concatenate([low, high], axis=1)
        halves = np.stack([low, high], axis=3)  # (warps, 8 quads, lanes, 2)
        first, second = halves[:, :, 0::2], halves[:, :, 1::2]
        return np.concatenate([first.reshape(len(words), 8, -1), second.reshape(len(words), 8, -1)], axis=1)


def places(metadata: Words, stored: Sparsity) -> Indices:
    """Return the column of each stored element.

    Args:
        metadata: (tiles, rows, halves) as `Sparsity.chosen` returns them.
        stored: The storage format.

    Returns:
        (tiles, rows, k / 2).
    """
    shifts = np.arange(0, 16, _NIBBLE, dtype=np.uint32)
    nibbles = ((metadata[..., None] >> shifts) & np.uint32(15)).reshape(*metadata.shape[:2], -1).astype(np.int64)
    starts = np.arange(nibbles.shape[2]) * stored.chunk
    if stored.chunk == 2:  # noqa: PLR2004  tf32: 0b1110 is the upper element of two, 0b0100 the lower
        return starts + (nibbles >> 3)
    indices = np.stack([nibbles & 3, nibbles >> 2], axis=3) * stored.pair
    columns = (starts[:, None] + indices)[..., None] + np.arange(stored.pair)
    result: Indices = columns.reshape(*nibbles.shape[:2], -1)
    return result


def expand(a: Doubles, metadata: Words, stored: Sparsity) -> Doubles:
    """Expand (tiles, rows, k / 2) stored elements to the (tiles, rows, k) matrix."""
    full = np.zeros((*a.shape[:2], stored.k))
    np.put_along_axis(full, places(metadata, stored), a, axis=2)
    return full
