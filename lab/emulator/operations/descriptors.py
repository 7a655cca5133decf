"""Matrix descriptors of wgmma: the location of an operand's 16-byte pieces in shared memory.

PTX ISA, Asynchronous Warpgroup Level Matrix Shared Memory Layout. A pattern of eight rows of 16, 32, 64 or 128 bytes is
repeated; within it, a piece's position in its row is swizzled by the row number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses

PIECE = 16
"""The bytes of a swizzling unit."""

_PATTERN_ROWS = 8
_FIELD = np.uint64(0x3FFF)
_ROW_SHIFT = 7  # the bits of an address that swizzle begin here
_PIECES = np.array([1, 8, 4, 2])
"""The pieces per row of the pattern, by the descriptor's mode: none, 128, 64 and 32 bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Descriptors:
    """Decoded matrix descriptors, (count,) arrays in bytes.

    Attributes:
        start: Address of the first piece.
        leading: Leading dimension byte offset.
        stride: Stride dimension byte offset.
        base: Base offset, in rows of 128 bytes.
        pieces: Pieces per row of the pattern: 1 without swizzling.
    """

    start: Addresses
    leading: Addresses
    stride: Addresses
    base: Addresses
    pieces: Addresses


def decode(words: NDArray[np.uint64]) -> Descriptors:
    """Decode (count,) matrix descriptors."""

    def field(shift: int) -> Addresses:
        return ((words >> np.uint64(shift)) & _FIELD).astype(np.int64) * PIECE

    base = ((words >> np.uint64(49)) & np.uint64(7)).astype(np.int64)
    return Descriptors(field(0), field(16), field(32), base, _PIECES[(words >> np.uint64(62)).astype(np.int64)])


def decode_tcgen05(word: int) -> Descriptors | None:
    """Decode a matrix descriptor of tcgen05, as (1,) arrays; None where a fixed field has another value.

    Its patterns are those of wgmma; the mode of swizzling has three bits. Offsets that are absolute addresses, and
    swizzling by 32 bytes, are not known here.
    """
    pieces = {0: 1, 2: 8, 4: 4, 6: 2}.get(word >> 61)
    if pieces is None or word >> 46 & 7 != 1 or word >> 52 & 0x1FF:
        return None

    def field(first: int) -> Addresses:
        return np.array([(word >> first & int(_FIELD)) * PIECE])

    return Descriptors(field(0), field(16), field(32), np.array([word >> 49 & 7]), np.array([pieces]))


def along_k(descriptors: Descriptors, rows: int, count: int) -> Addresses:
    """Return the piece addresses of matrices whose rows (columns of B) are contiguous along k.

    Args:
        descriptors: The matrices.
        rows: Rows along m or n.
        count: Pieces along k.

    Returns:
        (matrices, rows, count).
    """
    start, leading, stride, pieces = (
        field[:, None, None]
        for field in (descriptors.start, descriptors.leading, descriptors.stride, descriptors.pieces)
    )
    row, piece = np.arange(rows)[:, None], np.arange(count)
    step = np.where(pieces == 1, leading, PIECE)
    plain = start + row % _PATTERN_ROWS * pieces * PIECE + row // _PATTERN_ROWS * stride + piece * step
    return _swizzled(plain, descriptors)


def across_k(descriptors: Descriptors, depth: int, count: int) -> Addresses:
    """Return the piece addresses of matrices that are contiguous along m or n.

    Args:
        descriptors: The matrices.
        depth: Elements along k.
        count: Pieces along m or n.

    Returns:
        (matrices, depth, count).
    """
    start, leading, stride, pieces = (
        field[:, None, None]
        for field in (descriptors.start, descriptors.leading, descriptors.stride, descriptors.pieces)
    )
    k, piece = np.arange(depth)[:, None], np.arange(count)
    over_k, over_pieces = np.where(pieces == 1, leading, stride), np.where(pieces == 1, stride, leading)
    plain = (
        start
        + k % _PATTERN_ROWS * pieces * PIECE
        + k // _PATTERN_ROWS * over_k
        + piece % pieces * PIECE
        + piece // pieces * over_pieces
    )
    return _swizzled(plain, descriptors)


def _swizzled(plain: Addresses, descriptors: Descriptors) -> Addresses:
    """Return swizzled addresses: the piece's position in its row XOR the row number."""
    pieces, base = descriptors.pieces[:, None, None], descriptors.base[:, None, None]
    row = (plain >> _ROW_SHIFT) - base
    return plain ^ ((row & (pieces - 1)) * PIECE)
