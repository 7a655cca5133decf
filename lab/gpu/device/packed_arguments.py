"""Kernel arguments: resolve names and C types to the packed values of a launch."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from lab.base.expressions import Scalar
from lab.base.structures import bytes_of, is_structure, members_of
from lab.gpu.device.backend import RefusedError
from lab.operators.base import STORED_AS, Inputs
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launches import NULL

SCALAR_TYPES: Final = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)
"""Types of scalar arguments, by their NumPy names."""

_CODES: Final = {"bool": "B", "float16": "H"}
"""`struct` codes that differ from NumPy's own characters: a half is passed as its 16-bit pattern."""


def element_types(inputs: Inputs, workspace: Mapping[str, str]) -> dict[str, str]:
    """Return the element type of every array and workspace buffer, by name."""
    return {**{name: array.dtype.name for name, array in inputs.arrays.items()}, **workspace}


def holds(stored: str, element: str) -> bool:
    """Return whether an array of type `stored` holds elements of type `element`; bfloat16 is stored as its bits."""
    return stored in (element, STORED_AS.get(element))


def marshal(
    arguments: Iterable[tuple[str, str]],
    inputs: Inputs,
    pointers: Mapping[str, int],
    workspace: Mapping[str, str] = MappingProxyType({}),
    tensor_maps: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    *,
    offsets: Sequence[int] | None = None,
) -> tuple[str, tuple[int | float, ...]]:
    """Resolve the arguments of a launch.

    Args:
        arguments: Name and C type of each, in the kernel's order.
        inputs: The operator's scalars and host arrays; the arrays only for their element types.
        pointers: Device address of every array and workspace buffer.
        workspace: Element type of every workspace buffer.
        tensor_maps: The encoded tensor maps, as 64-bit words.
        offsets: Byte offset of every parameter; needed with tensor maps and structures, whose alignment `struct` cannot
            express.

    Returns:
        A `struct` format with native alignment, which all other kernel parameters have, and one number per field.

    Raises:
        RefusedError: A name or type is unknown, the type cannot represent the value, a pointer has another type, or
            the offsets do not match the arguments.
    """
    arguments = tuple(arguments)
    if offsets is not None and len(offsets) != len(arguments):
        raise RefusedError(f"the kernel has {len(offsets)} parameters, the launch has {len(arguments)} arguments")
    codes, values = "", list[int | float]()
    elements = element_types(inputs, workspace)
    for position, (name, c_type) in enumerate(arguments):
        if offsets is not None:
            codes += _padding(name, position, offsets[position] - struct.calcsize(codes))
        if c_type == NULL:
            codes, values = codes + "P", [*values, 0]
            continue
        if c_type == TENSOR_MAP:
            if name not in tensor_maps:
                raise RefusedError(f"argument {name}: the launches have no tensor map of this name")
            codes += "Q" * len(tensor_maps[name])
            values += tensor_maps[name]
            continue
        members = members_of(c_type) if is_structure(c_type) else ((name, c_type),)
        for member, kind in members:
            code, value = (
                _pointer(member, kind, elements, pointers)
                if kind.endswith("*")
                else _scalar(member, kind, inputs.scalars)
            )
            codes += code
            values.append(value)
        if is_structure(c_type):  # pad its end to a multiple of its widest member
            codes += "x" * (-struct.calcsize(codes) % max(bytes_of(kind) for _, kind in members))
    return codes, tuple(values)


def _padding(name: str, position: int, gap: int) -> str:
    if gap < 0:
        raise RefusedError(f"argument {name}: parameter {position} of the kernel begins {-gap} bytes earlier")
    return "x" * gap


def _pointer(name: str, c_type: str, elements: Mapping[str, str], pointers: Mapping[str, int]) -> tuple[str, int]:
    element = c_type[:-1].strip()
    if name not in elements:
        raise RefusedError(f"argument {name}: the operator has no such array; it has {', '.join(elements)}")
    if not holds(elements[name], element):
        raise RefusedError(f"argument {name}: the kernel takes {c_type}, the array holds {elements[name]}")
    return "P", pointers[name]


def _scalar(name: str, c_type: str, scalars: Mapping[str, Scalar]) -> tuple[str, int | float]:
    if c_type not in SCALAR_TYPES:
        raise RefusedError(
            f"argument {name}: unknown type {c_type!r}; accepted: {', '.join(SCALAR_TYPES)}, "
            "or one of these with * for an array"
        )
    if name not in scalars:
        raise RefusedError(f"argument {name}: the operator has no such scalar; it has {', '.join(scalars)}")
    value = scalars[name]
    if isinstance(value, str):
        raise RefusedError(f"argument {name}: {value!r} is text; the kernel expects {c_type}")
    dtype = np.dtype(c_type)
    if dtype.kind in "iub":
        return _CODES.get(c_type, dtype.char), _integer(name, value, dtype)
    rounded = dtype.type(value)
    bits: int | float = rounded.view(np.uint16).item() if c_type == "float16" else rounded.item()
    return _CODES.get(c_type, dtype.char), bits


def _integer(name: str, value: float, dtype: np.dtype[np.generic]) -> int:
    limits = None if dtype.kind == "b" else np.iinfo(dtype.name)
    low, high = (int(limits.min), int(limits.max)) if limits else (0, 1)
    if value != int(value) or not low <= value <= high:
        raise RefusedError(f"argument {name}: {value!r} is not a value of {dtype.name} ({low} to {high})")
    return int(value)
