"""Tensor maps as this machine encodes them: 128 bytes that a kernel may only hand to a bulk tensor copy.

What `cuTensorMapEncodeTiled` writes is not documented, so these bytes are this machine's own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

BYTES = 128
ALIGNMENT = 64
_MAGIC = b"tensormp"
_FIELDS = struct.Struct("<8s7Q")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A matrix in global memory. Extents and box in elements, the contiguous direction first.

    Attributes:
        base: Generic address of its first byte.
        element_bytes: Width of an element.
        extents: Of the matrix.
        stride: Bytes from one column to the next.
        box: What one copy fetches.
    """

    base: int
    element_bytes: int
    extents: tuple[int, int]
    stride: int
    box: tuple[int, int]

    @property
    def box_bytes(self) -> int:
        """What arrives in shared memory, zeros outside of the matrix included."""
        return self.box[0] * self.box[1] * self.element_bytes

    def encode(self) -> bytes:
        """The bytes of the kernel's parameter."""
        fields = _FIELDS.pack(_MAGIC, self.base, self.element_bytes, *self.extents, self.stride, *self.box)
        return fields.ljust(BYTES, b"\0")


def decode(raw: bytes) -> Descriptor | None:
    """Read a map's bytes; None where they are none."""
    magic, base, element_bytes, rows, columns, stride, box_rows, box_columns = _FIELDS.unpack_from(raw)
    if magic != _MAGIC:
        return None
    return Descriptor(base, element_bytes, (rows, columns), stride, (box_rows, box_columns))
