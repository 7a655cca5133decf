"""Tensor maps in the emulator's encoding: opaque bytes for bulk tensor copies.

The encoding of `cuTensorMapEncodeTiled` is not documented; this one is specific to the emulator.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lab.emulator.opcodes import UnknownForm
from lab.hardware.tensormaps import BYTES, PixelBox

MAGIC = b"tensormp"
"""The first bytes of a map."""

_MOST_RANK = 5
_MOST_SPACE = 3
_FIELDS = struct.Struct("<8sQ5Q4Q5HHBB5BB6h")
"""The layout: magic, base, extents, strides, box, swizzle, type, rank, steps, im2col flag, pixel corners."""

ELEMENTS: Final = (
    ("u8", 1), ("u16", 2), ("u32", 4), ("s32", 4), ("u64", 8), ("s64", 8), ("f16", 2), ("f32", 4), ("f32", 4),
    ("f64", 8), ("bf16", 2), ("f32", 4), ("f32", 4),
)  # fmt: skip
"""Element types and their bytes, indexed by `tensormap.replace` numbers; tf32 is held as f32."""
_BYTES: Final = dict(ELEMENTS)


class MapField(Enum):
    """A replaceable field: its offset, the bytes per part, and the number of parts."""

    BASE = (8, 8, 1)
    EXTENT = (16, 8, _MOST_RANK)
    STRIDE = (56, 8, _MOST_RANK - 1)
    BOX = (88, 2, _MOST_RANK)
    SWIZZLE = (98, 2, 1)
    ELEMENT = (100, 1, 1)
    RANK = (101, 1, 1)
    STEP = (102, 1, _MOST_RANK)


def place_of(field: MapField, ordinal: int) -> tuple[int, int]:
    """Return the offset and size of a field's part.

    Raises:
        UnknownForm: The field has no such part.
    """
    begin, width, parts = field.value
    if not 0 <= ordinal < parts:
        raise UnknownForm(f"dimension {ordinal} of a tensor map")
    return begin + ordinal * width, width


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A tensor of up to five dimensions in global memory; the contiguous dimension comes first.

    Attributes:
        base: Generic address of its first byte.
        element: Type of an element, of `ELEMENTS`.
        extents: Size in elements.
        strides: Bytes from one element to the next along every direction but the contiguous one.
        box: Size in elements of the tile one copy moves.
        swizzle: Bytes of the span in shared memory within which pieces of 16 bytes are swizzled; 0 for none.
        pixels: The pixel box of an im2col map; `box` then has the channels and the number of pixels.
    """

    base: int
    element: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    pixels: PixelBox | None = None

    @property
    def element_bytes(self) -> int:
        """The bytes per element."""
        return _BYTES[self.element]

    @property
    def box_bytes(self) -> int:
        """The bytes one copy writes to shared memory, including zeros outside of the matrix."""
        return math.prod(self.box) * self.element_bytes

    def encode(self) -> bytes:
        """Encode the map as bytes of the kernel's parameter."""
        rank = len(self.extents)
        extents, box = ((*sizes, *[1] * (_MOST_RANK - len(sizes))) for sizes in (self.extents, self.box))
        strides = (*self.strides, *[0] * (_MOST_RANK - rank))
        number = ELEMENTS.index((self.element, self.element_bytes))
        steps, corners = [1] * _MOST_RANK, [0] * (2 * _MOST_SPACE)
        if self.pixels is not None:
            space = rank - 2
            steps[1 : 1 + space] = self.pixels.steps
            corners[:space], corners[_MOST_SPACE : _MOST_SPACE + space] = self.pixels.lower, self.pixels.upper
        form = (self.swizzle, number, rank, *steps, self.pixels is not None, *corners)
        fields = _FIELDS.pack(MAGIC, self.base, *extents, *strides, *box, *form)
        return fields.ljust(BYTES, b"\0")


def decode(raw: bytes) -> Descriptor | None:
    """Decode a map; return None for invalid maps and for boxes that skip elements."""
    magic, base, *sizes = _FIELDS.unpack_from(raw)
    swizzle, number, rank = sizes[14:17]
    steps, of_pixels, corners = sizes[17:22], sizes[22], sizes[23:]
    if magic != MAGIC or not 1 <= rank <= _MOST_RANK or number >= len(ELEMENTS):
        return None
    extents, strides = tuple(sizes[:rank]), tuple(sizes[5 : 4 + rank])
    if of_pixels:
        space = rank - 2
        parts = corners[:space], corners[_MOST_SPACE : _MOST_SPACE + space], steps[1 : 1 + space]
        pixels = PixelBox(*(tuple(corner) for corner in parts))
        return Descriptor(base, ELEMENTS[number][0], extents, strides, tuple(sizes[9:11]), swizzle, pixels)
    if any(step != 1 for step in steps[:rank]):
        return None
    return Descriptor(base, ELEMENTS[number][0], extents, strides, tuple(sizes[9 : 9 + rank]), swizzle)
