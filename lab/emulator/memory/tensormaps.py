"""Tensor maps in the emulator's encoding: bytes that a kernel may only hand to a bulk tensor copy.

What `cuTensorMapEncodeTiled` writes is not documented, so this encoding is the emulator's own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from lab.hardware.tensormaps import BYTES

_MAGIC = b"tensormp"
_FIELDS = struct.Struct("<8s7Q")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A matrix in global memory. Extents and box are in elements, the contiguous direction first.

    Attributes:
        base: Generic address of its first byte.
        element_bytes: Width of an element.
        extents: Size of the matrix.
        stride: Bytes from the start of one column to the start of the next.
        box: Size of the part that one copy fetches.
    """

    base: int
    element_bytes: int
    extents: tuple[int, int]
    stride: int
    box: tuple[int, int]

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy writes to shared memory, zeros outside of the matrix included."""
        return self.box[0] * self.box[1] * self.element_bytes

    def encode(self) -> bytes:
        """Return the bytes of the kernel's parameter."""
        fields = _FIELDS.pack(_MAGIC, self.base, self.element_bytes, *self.extents, self.stride, *self.box)
        return fields.ljust(BYTES, b"\0")


def decode(raw: bytes) -> Descriptor | None:
    """Read the bytes of a map; return None where they are not a map."""
    magic, base, element_bytes, rows, columns, stride, box_rows, box_columns = _FIELDS.unpack_from(raw)
    if magic != _MAGIC:
        return None
    return Descriptor(base, element_bytes, (rows, columns), stride, (box_rows, box_columns))
