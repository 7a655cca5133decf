"""Element types: their names, their sizes, and what C and CUDA call them. The one table of all rooms.

Names are NumPy's; bfloat16, float8_e4m3fn and float8_e5m2, which NumPy lacks, have those of ml_dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ELEMENT_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "bool": 1,
        **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
        "float16": 2,
        "bfloat16": 2,
        "float8_e4m3fn": 1,
        "float8_e5m2": 1,
        "float32": 4,
        "float64": 8,
        "complex64": 8,
        "complex128": 16,
    }
)
"""Size of an element, in bytes."""

PARTS: Final[Mapping[str, str]] = MappingProxyType({"complex64": "float32", "complex128": "float64"})
"""Element types of complex numbers, and the type of their parts: the real one first, as in C and Fortran."""

SUMS: Final[Mapping[str, str]] = MappingProxyType({"float16": "float32", "bfloat16": "float32"})
"""Types in which products sum elements, where that is not the elements' own."""


def arithmetic_of(dtype: str) -> str:
    """Return the type in which products of an element type are computed: that of their sums, or of their parts."""
    return SUMS.get(dtype, PARTS.get(dtype, dtype))


def operations(dtype: str) -> int:
    """Return the operations of a multiplication and an addition: 2, or 8 where elements are complex."""
    return 8 if dtype in PARTS else 2


CUDA_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bool": "bool",
        "int8": "signed char",
        "uint8": "unsigned char",
        "int16": "short",
        "uint16": "unsigned short",
        "int32": "int",
        "uint32": "unsigned int",
        "int64": "long long",
        "uint64": "unsigned long long",
        "float16": "__half",
        "bfloat16": "__nv_bfloat16",
        "float8_e4m3fn": "__nv_fp8_e4m3",
        "float8_e5m2": "__nv_fp8_e5m2",
        "float32": "float",
        "float64": "double",
        "complex64": "cuFloatComplex",
        "complex128": "cuDoubleComplex",
    }
)
"""What CUDA C++ calls them."""

C_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bool": "bool",
        "char": "int8",
        "signed char": "int8",
        "unsigned char": "uint8",
        "short": "int16",
        "unsigned short": "uint16",
        "int": "int32",
        "unsigned": "uint32",
        "long": "int64",
        "unsigned long": "uint64",
        "long long": "int64",
        "unsigned long long": "uint64",
        "float": "float32",
        "double": "float64",
        "size_t": "uint64",
        "ptrdiff_t": "int64",
        "ssize_t": "int64",
        "intptr_t": "int64",
        "uintptr_t": "uint64",
        "uchar": "uint8",
        "ushort": "uint16",
        "uint": "uint32",
        "ulong": "uint64",
        **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
        "__half": "float16",
        "half": "float16",
        "__half_raw": "float16",
        "__nv_bfloat16": "bfloat16",
        "nv_bfloat16": "bfloat16",
        "__nv_bfloat16_raw": "bfloat16",
        "__nv_fp8_e4m3": "float8_e4m3fn",
        "__nv_fp8_e5m2": "float8_e5m2",
        "cuComplex": "complex64",
        "cuFloatComplex": "complex64",
        "cuDoubleComplex": "complex128",
        "complex<float>": "complex64",
        "complex<double>": "complex128",
    }
)
"""From what CUDA on Linux calls a type to NumPy's name. Source: CUDA C++ Programming Guide; LP64."""

_IN_FULL: Final[Mapping[str, str]] = MappingProxyType(
    {"unsigned int": "uint32", "short int": "int16", "long int": "int64", "long long int": "int64"}
)


def element_named(word: str) -> str | None:
    """Return NumPy's name of an element type, of which C's or NumPy's is given; None for another word."""
    plain = " ".join(word.split())
    return plain if plain in ELEMENT_BYTES else C_NAMES.get(plain) or _IN_FULL.get(plain)


def cuda_name(word: str) -> str | None:
    """Return the word for an element type that CUDA C++ understands: C's as it is; None for no type."""
    plain = " ".join(word.split())
    named = element_named(plain)
    return plain if plain in C_NAMES or plain in _IN_FULL else CUDA_NAMES[named] if named else None
