"""Tensor maps for a real GPU, encoded by the driver from `lab.hardware.tensormaps.TensorMap`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping

from lab.gpu.device.backend import RefusedError
from lab.gpu.device.packed_arguments import element_types, holds
from lab.hardware.encodedmaps import EncodedMap, Words, function_of
from lab.hardware.tensormaps import ADDRESS_ALIGNMENT, TensorMap
from lab.operators.base import Inputs

Encode = Callable[[TensorMap, int], Words]
"""A function from a tensor map and the device address of its matrix to the encoded words."""


def tensor_map_words(
    maps: Iterable[TensorMap],
    inputs: Inputs,
    pointers: Mapping[str, int],
    workspace: Mapping[str, str],
    encode: Encode | None = None,
) -> dict[str, Words]:
    """Encode the tensor maps of a launch.

    Args:
        maps: The maps.
        inputs: The operator's arrays, for their element types.
        pointers: Device address of every array and workspace buffer.
        workspace: Element type of every workspace buffer.
        encode: Encodes one map; the driver by default.

    Returns:
        The words of each map, by name.

    Raises:
        RefusedError: A map refers to an unknown array or to one with another element type, or the driver rejects it.
    """
    elements = element_types(inputs, workspace)
    words: dict[str, Words] = {}
    for tmap in maps:
        if tmap.of not in elements:
            names = ", ".join(elements)
            raise RefusedError(f"tensor map {tmap.name}: the operator has no array {tmap.of}; it has {names}")
        if not holds(elements[tmap.of], tmap.dtype):
            raise RefusedError(
                f"tensor map {tmap.name}: its type is {tmap.dtype}, the array {tmap.of} holds {elements[tmap.of]}"
            )
        address = pointers[tmap.of]
        if address % ADDRESS_ALIGNMENT:
            raise RefusedError(
                f"tensor map {tmap.name}: the address of {tmap.of} is not a multiple of {ADDRESS_ALIGNMENT} bytes"
            )
        words[tmap.name] = (encode or _encode)(tmap, address)
    return words


def _encode(tmap: TensorMap, address: int) -> Words:
    encoded = EncodedMap()
    name = function_of(tmap)
    status = encoded.encode(getattr(ctypes.CDLL("libcuda.so.1"), name), tmap, address)
    if status:
        raise RefusedError(f"tensor map {tmap.name}: {name} returns CUDA error {status} for {tmap}")
    return encoded.words
