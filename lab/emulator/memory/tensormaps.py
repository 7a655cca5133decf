"""Tensor maps in the emulator's encoding: bytes that a kernel may only hand to a bulk tensor copy.

What `cuTensorMapEncodeTiled` writes is not documented, so this encoding is the emulator's own.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lab.emulator.opcodes import UnknownForm
from lab.hardware.tensormaps import BYTES

MAGIC = b"tensormp"
"""The first bytes of a map."""

_MOST_RANK = 5
_FIELDS = struct.Struct("<8sQ5Q4Q5HHBB5B")
"""Magic, base, extents, strides, box, swizzle, element type, rank, steps: each at a multiple of its size."""

ELEMENTS: Final = (
    ("u8", 1), ("u16", 2), ("u32", 4), ("s32", 4), ("u64", 8), ("s64", 8), ("f16", 2), ("f32", 4), ("f32", 4),
    ("f64", 8), ("bf16", 2), ("f32", 4), ("f32", 4),
)  # fmt: skip
"""Element types and their bytes by the numbers that `tensormap.replace` has for them; tf32 is held as f32."""
_BYTES: Final = dict(ELEMENTS)


class MapField(Enum):
    """A field that a kernel may replace: where it begins, the bytes of a part, and its parts."""

    BASE = (8, 8, 1)
    EXTENT = (16, 8, _MOST_RANK)
    STRIDE = (56, 8, _MOST_RANK - 1)
    BOX = (88, 2, _MOST_RANK)
    SWIZZLE = (98, 2, 1)
    ELEMENT = (100, 1, 1)
    RANK = (101, 1, 1)
    STEP = (102, 1, _MOST_RANK)


def place_of(field: MapField, ordinal: int) -> tuple[int, int]:
    """Return where a part of a field begins, and its bytes.

    Raises:
        UnknownForm: The field has no such part.
    """
    begin, width, parts = field.value
    if not 0 <= ordinal < parts:
        raise UnknownForm(f"dimension {ordinal} of a tensor map")
    return begin + ordinal * width, width


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A matrix, or a tensor of up to five dimensions, in global memory; the contiguous direction comes first.

    Attributes:
        base: Generic address of its first byte.
        element: Type of an element, of `ELEMENTS`.
        extents: Size in elements.
        strides: Bytes from one element to the next along every direction but the contiguous one.
        box: Size in elements of the part that one copy moves.
        swizzle: Bytes of the span in shared memory within which pieces of 16 bytes are swizzled; 0 for none.
    """

    base: int
    element: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return _BYTES[self.element]

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy writes to shared memory, zeros outside of the matrix included."""
        return math.prod(self.box) * self.element_bytes

    def encode(self) -> bytes:
        """Return the bytes of the kernel's parameter."""
        rank = len(self.extents)
        extents, box = ((*sizes, *[1] * (_MOST_RANK - rank)) for sizes in (self.extents, self.box))
        strides = (*self.strides, *[0] * (_MOST_RANK - rank))
        number = ELEMENTS.index((self.element, self.element_bytes))
        steps = [1] * _MOST_RANK
        fields = _FIELDS.pack(MAGIC, self.base, *extents, *strides, *box, self.swizzle, number, rank, *steps)
        return fields.ljust(BYTES, b"\0")


def decode(raw: bytes) -> Descriptor | None:
    """Read the bytes of a map; return None where they are no map, or one whose boxes leave elements out."""
    magic, base, *sizes = _FIELDS.unpack_from(raw)
    swizzle, number, rank, *steps = sizes[14:]
    if magic != MAGIC or not 1 <= rank <= _MOST_RANK or any(step != 1 for step in steps[:rank]):
        return None
    if number >= len(ELEMENTS):
        return None
    extents, strides, box = sizes[:rank], sizes[5 : 4 + rank], sizes[9 : 9 + rank]
    return Descriptor(base, ELEMENTS[number][0], tuple(extents), tuple(strides), tuple(box), swizzle)
