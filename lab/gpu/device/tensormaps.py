"""Tensor maps for a real GPU: what `cuTensorMapEncodeTiled` makes of `lab.hardware.tensormaps.TensorMap`.

The driver is called through ctypes: it wants the map at a multiple of 64 bytes, where that of `cuda.bindings` need not
lie.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Mapping

from lab.gpu.device.backend import RefusedError
from lab.hardware.tensormaps import ADDRESS_ALIGNMENT, ALIGNMENT, BYTES, TensorMap
from lab.operators.base import STORED_AS, Inputs
from lab.templates.front_matter import ELEMENT_BYTES

Words = tuple[int, ...]
Encode = Callable[[TensorMap, int], Words]

DATA_TYPES = {
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
}
"""`CUtensorMapDataType` by element type."""

_NONE = 0  # no interleaving, no swizzling, no promotion in L2, zeros out of bounds


def tensor_map_words(
    maps: Iterable[TensorMap],
    inputs: Inputs,
    pointers: Mapping[str, int],
    workspace: Mapping[str, str],
    encode: Encode | None = None,
) -> dict[str, Words]:
    """Encode the maps of a launch.

    Args:
        maps: What to encode.
        inputs: The operator's arrays, for their element types.
        pointers: Device address of every array and workspace buffer.
        workspace: Element type of every workspace buffer.
        encode: What encodes one, the driver by default.

    Returns:
        Name to the 64-bit words of the `CUtensorMap`.

    Raises:
        RefusedError: of an unknown array or one of another type, or the driver refuses.
    """
    elements = {**{name: array.dtype.name for name, array in inputs.arrays.items()}, **workspace}
    made: dict[str, Words] = {}
    for one in maps:
        if one.of not in elements:
            known = ", ".join(elements)
            raise RefusedError(f"tensor map {one.name}: the operator has no array {one.of}; it has {known}")
        if elements[one.of] not in (one.dtype, STORED_AS.get(one.dtype)):
            raise RefusedError(f"tensor map {one.name}: it is of {one.dtype}, the array holds {elements[one.of]}")
        address = pointers[one.of]
        if address % ADDRESS_ALIGNMENT:
            raise RefusedError(f"tensor map {one.name}: {one.of} lies at no multiple of {ADDRESS_ALIGNMENT} bytes")
        made[one.name] = (encode or _encode)(one, address)
    return made


def _encode(one: TensorMap, address: int) -> Words:
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
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
        *(ctypes.c_int(_NONE) for _ in range(4)),
    )
    if status:
        raise RefusedError(f"tensor map {one.name}: cuTensorMapEncodeTiled returns CUDA error {status} for {one}")
    return tuple(map_bytes)
