"""Tensor maps in the emulator's encoding: bytes that a kernel may only hand to a bulk tensor copy.

What `cuTensorMapEncodeTiled` writes is not documented, so this encoding is the emulator's own.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from lab.hardware.tensormaps import BYTES

_MAGIC = b"tensormp"
_MOST_RANK = 5
_FIELDS = struct.Struct("<8sQBBH5Q4Q5H")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A matrix, or a tensor of up to five dimensions, in global memory; the contiguous direction comes first.

    Attributes:
        base: Generic address of its first byte.
        element_bytes: Width of an element.
        extents: Size in elements.
        strides: Bytes from one element to the next along every direction but the contiguous one.
        box: Size in elements of the part that one copy moves.
        swizzle: Bytes of the span in shared memory within which pieces of 16 bytes are swizzled; 0 for none.
    """

    base: int
    element_bytes: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy writes to shared memory, zeros outside of the matrix included."""
        return math.prod(self.box) * self.element_bytes

    def encode(self) -> bytes:
        """Return the bytes of the kernel's parameter."""
        rank = len(self.extents)
        extents, box = ((*sizes, *[1] * (_MOST_RANK - rank)) for sizes in (self.extents, self.box))
        strides = (*self.strides, *[0] * (_MOST_RANK - rank))
        fields = _FIELDS.pack(_MAGIC, self.base, self.element_bytes, rank, self.swizzle, *extents, *strides, *box)
        return fields.ljust(BYTES, b"\0")


def decode(raw: bytes) -> Descriptor | None:
    """Read the bytes of a map; return None where they are not a map."""
    magic, base, element_bytes, rank, swizzle, *sizes = _FIELDS.unpack_from(raw)
    if magic != _MAGIC:
        return None
    extents, strides, box = sizes[:rank], sizes[5 : 4 + rank], sizes[9 : 9 + rank]
    return Descriptor(base, element_bytes, tuple(extents), tuple(strides), tuple(box), swizzle)
