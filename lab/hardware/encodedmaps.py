"""How the driver encodes a map: from a `TensorMap` and an address to a `CUtensorMap`.

Here are the arguments of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`, not the driver: the caller passes the
function. The driver is called through ctypes, because it needs the map at a multiple of 64 bytes and `cuda.bindings`
does not guarantee that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

from lab.base.elements import ELEMENT_BYTES
from lab.hardware.tensormaps import ALIGNMENT, BYTES, SWIZZLES, TensorMap

DATA_TYPES: Final = {
    "uint8": 0,
    "int8": 0,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
    "uint16": 1,
    "int16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
}
"""`CUtensorMapDataType` by element type; a copy moves the bits of those of eight and 16 bits, whatever they mean."""

Words = tuple[int, ...]
"""A `CUtensorMap` as 64-bit words."""

EncodeTiled = Callable[..., int]
"""The driver's function for a map, of a library that ctypes loaded. Returns the status."""

_NONE: Final = 0
"""No interleaving, no promotion in L2, zeros out of bounds."""


def function_of(one: TensorMap) -> str:
    """Return the name of the driver's function that encodes a map."""
    return "cuTensorMapEncodeTiled" if one.pixels is None else "cuTensorMapEncodeIm2col"


class EncodedMap:
    """Room for a `CUtensorMap` in the host's memory, where a launch can read it.

    Attributes:
        address: Where the map lies, a multiple of 64 bytes.
    """

    __slots__ = ("_room", "address")

    def __init__(self) -> None:
        """Take the room; it holds no map yet."""
        self._room = ctypes.create_string_buffer(BYTES + ALIGNMENT)
        start = ctypes.addressof(self._room)
        self.address = start + -start % ALIGNMENT

    @property
    def words(self) -> Words:
        """The map."""
        return tuple((ctypes.c_uint64 * (BYTES // 8)).from_address(self.address))

    def encode(self, function: EncodeTiled, one: TensorMap, address: int) -> int:
        """Have the driver encode a map of a tensor at an address.

        Args:
            function: The driver's.
            one: The map; its element type is one of `DATA_TYPES`.
            address: Device address of the tensor.

        Returns:
            The driver's status; 0 is success.
        """
        rank = len(one.extents)
        if one.pixels is None:
            box: tuple[object, ...] = ((ctypes.c_uint32 * rank)(*one.box),)
            steps = (1,) * rank
        else:
            corners = ((ctypes.c_int * (rank - 2))(*corner) for corner in (one.pixels.lower, one.pixels.upper))
            box = (*corners, *map(ctypes.c_uint32, one.box))
            steps = (1, *one.pixels.steps, 1)
        return function(
            ctypes.c_void_p(self.address),
            ctypes.c_int(DATA_TYPES[one.dtype]),
            ctypes.c_uint32(rank),
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*one.extents),
            (ctypes.c_uint64 * max(1, rank - 1))(*(stride * ELEMENT_BYTES[one.dtype] for stride in one.strides)),
            *box,
            (ctypes.c_uint32 * rank)(*steps),
            ctypes.c_int(_NONE),
            ctypes.c_int(SWIZZLES.index(one.swizzle)),
            *(ctypes.c_int(_NONE) for _ in range(2)),
        )
