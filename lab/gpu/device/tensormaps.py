"""Tensor maps for a real GPU: `lab.hardware.tensormaps.TensorMap` encoded by the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping

from lab.gpu.device.arguments import element_types, holds
from lab.gpu.device.backend import RefusedError
from lab.hardware.encodedmaps import EncodedMap, Words, function_of
from lab.hardware.tensormaps import ADDRESS_ALIGNMENT, TensorMap
from lab.operators.base import Inputs

Encode = Callable[[TensorMap, int], Words]
"""From a map and the device address of its matrix to words."""


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
    made = EncodedMap()
    name = function_of(one)
    status = made.encode(getattr(ctypes.CDLL("libcuda.so.1"), name), one, address)
    if status:
        raise RefusedError(f"tensor map {one.name}: {name} returns CUDA error {status} for {one}")
    return made.words
