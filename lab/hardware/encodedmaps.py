"""Encoding of a `TensorMap` and an address as a `CUtensorMap`, by the driver.

This module prepares the arguments of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`; the caller passes the
driver's function. It is called through ctypes, because the map must be aligned to 64 bytes, which `cuda.bindings` does
not guarantee.
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
"""`CUtensorMapDataType` by element type; a TMA copy moves raw bits, so types of equal width can share one."""

Words = tuple[int, ...]
"""A `CUtensorMap` as 64-bit words."""

EncodeTiled = Callable[..., int]
"""The driver's encoding function, loaded with ctypes. Returns the status."""

_NONE: Final = 0
"""No interleaving, no L2 promotion, zero fill out of bounds."""


def function_of(tensor_map: TensorMap) -> str:
    """Return the name of the driver function that encodes a map."""
    return "cuTensorMapEncodeTiled" if tensor_map.pixels is None else "cuTensorMapEncodeIm2col"


class EncodedMap:
    """An aligned buffer in host memory for a `CUtensorMap`, from which a launch can read it.

    Attributes:
        address: Host address of the map, a multiple of 64.
    """

    __slots__ = ("_room", "address")

    def __init__(self) -> None:
        """Allocate the buffer; it does not hold a map yet."""
        self._room = ctypes.create_string_buffer(BYTES + ALIGNMENT)
        start = ctypes.addressof(self._room)
        self.address = start + -start % ALIGNMENT

    @property
    def words(self) -> Words:
        """The encoded map."""
        return tuple((ctypes.c_uint64 * (BYTES // 8)).from_address(self.address))

    def encode(self, function: EncodeTiled, tensor_map: TensorMap, address: int) -> int:
        """Let the driver encode a map of a tensor at an address.

        Args:
            function: The driver's function.
            tensor_map: The map; its element type is one of `DATA_TYPES`.
            address: Device address of the tensor.

        Returns:
            The driver's status; 0 is success.
        """
        rank = len(tensor_map.extents)
        if tensor_map.pixels is None:
            box: tuple[object, ...] = ((ctypes.c_uint32 * rank)(*tensor_map.box),)
            steps = (1,) * rank
        else:
            corners = (
                (ctypes.c_int * (rank - 2))(*corner) for corner in (tensor_map.pixels.lower, tensor_map.pixels.upper)
            )
            box = (*corners, *map(ctypes.c_uint32, tensor_map.box))
            steps = (1, *tensor_map.pixels.steps, 1)
        return function(
            ctypes.c_void_p(self.address),
            ctypes.c_int(DATA_TYPES[tensor_map.dtype]),
            ctypes.c_uint32(rank),
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*tensor_map.extents),
            (ctypes.c_uint64 * max(1, rank - 1))(
                *(stride * ELEMENT_BYTES[tensor_map.dtype] for stride in tensor_map.strides)
            ),
            *box,
            (ctypes.c_uint32 * rank)(*steps),
            ctypes.c_int(_NONE),
            ctypes.c_int(SWIZZLES.index(tensor_map.swizzle)),
            *(ctypes.c_int(_NONE) for _ in range(2)),
        )
