"""Tensor maps for a real GPU: `lab.hardware.tensormaps.TensorMap` encoded by the driver's `cuTensorMapEncodeTiled`.

The driver is called through ctypes, because it needs the map at a multiple of 64 bytes and `cuda.bindings` does not
guarantee that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from lab.base.elements import ELEMENT_BYTES
from lab.gpu.device.arguments import element_types, holds
from lab.gpu.device.backend import RefusedError
from lab.hardware.tensormaps import ADDRESS_ALIGNMENT, ALIGNMENT, BYTES, SWIZZLES, TensorMap
from lab.operators.base import Inputs

Words = tuple[int, ...]
"""A `CUtensorMap` as 64-bit words."""

Encode = Callable[[TensorMap, int], Words]
"""From a map and the device address of its matrix to words."""

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

_NONE: Final = 0
"""No interleaving, no promotion in L2, zeros out of bounds."""


def tensor_map_words(
    maps: Iterable[TensorMap],
    inputs: Inputs,
    pointers: Mapping[str, int],
    workspace: Mapping[str, str],
    encode: Encode | None = None,
) -> dict[str, Words]:
    """Encode the maps of a launch.

    Args:
        maps: The maps.
        inputs: The operator's arrays, for their element types.
        pointers: Device address of every array and workspace buffer.
        workspace: Element type of every workspace buffer.
        encode: Encodes one map; the driver by default.

    Returns:
        The words of each map, by name.

    Raises:
        RefusedError: A map is of an unknown array or of one with another element type, or the driver refuses it.
    """
    elements = element_types(inputs, workspace)
    made: dict[str, Words] = {}
    for one in maps:
        if one.of not in elements:
            known = ", ".join(elements)
            raise RefusedError(f"tensor map {one.name}: the operator has no array {one.of}; it has {known}")
        if not holds(elements[one.of], one.dtype):
            raise RefusedError(
                f"tensor map {one.name}: its type is {one.dtype}, the array {one.of} holds {elements[one.of]}"
            )
        address = pointers[one.of]
        if address % ADDRESS_ALIGNMENT:
            raise RefusedError(
                f"tensor map {one.name}: the address of {one.of} is not a multiple of {ADDRESS_ALIGNMENT} bytes"
            )
        made[one.name] = (encode or _encode)(one, address)
    return made


def _encode(one: TensorMap, address: int) -> Words:
    library = ctypes.CDLL("libcuda.so.1")
    room = ctypes.create_string_buffer(BYTES + ALIGNMENT)
    start = -ctypes.addressof(room) % ALIGNMENT
    map_bytes = (ctypes.c_uint64 * (BYTES // 8)).from_buffer(room, start)
    status = library.cuTensorMapEncodeTiled(
        ctypes.byref(map_bytes),
        ctypes.c_int(DATA_TYPES[one.dtype]),
        ctypes.c_uint32(len(one.extents)),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * 2)(*one.extents),
        (ctypes.c_uint64 * 1)(one.leading * ELEMENT_BYTES[one.dtype]),
        (ctypes.c_uint32 * 2)(*one.box),
        (ctypes.c_uint32 * 2)(1, 1),
        ctypes.c_int(_NONE),
        ctypes.c_int(SWIZZLES.index(one.swizzle)),
        *(ctypes.c_int(_NONE) for _ in range(2)),
    )
    if status:
        raise RefusedError(f"tensor map {one.name}: cuTensorMapEncodeTiled returns CUDA error {status} for {one}")
    return tuple(map_bytes)
