"""Element types: their names, their sizes, and their C and CUDA names. The one table of all rooms.

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
"""Complex element types and the type of their parts, stored real part first as in C and Fortran."""

SUMS: Final[Mapping[str, str]] = MappingProxyType({"float16": "float32", "bfloat16": "float32"})
"""Accumulator types of GEMMs, for element types that are not accumulated in their own type."""


def arithmetic_of(dtype: str) -> str:
    """Return the type in which a GEMM computes: the accumulator type, or the part type of complex elements."""
    return SUMS.get(dtype, PARTS.get(dtype, dtype))


def operations(dtype: str) -> int:
    """Return the operations of one multiply-add: 2, or 8 for complex elements."""
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
"""CUDA C++ names of the element types."""

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
"""NumPy names of the C types of CUDA on Linux (LP64). Source: CUDA C++ Programming Guide."""

_IN_FULL: Final[Mapping[str, str]] = MappingProxyType(
    {"unsigned int": "uint32", "short int": "int16", "long int": "int64", "long long int": "int64"}
)


def element_named(word: str) -> str | None:
    """Return NumPy's name of an element type given by its C or NumPy name; None for any other word."""
    plain = " ".join(word.split())
    return plain if plain in ELEMENT_BYTES else C_NAMES.get(plain) or _IN_FULL.get(plain)


def cuda_name(word: str) -> str | None:
    """Return the CUDA C++ name of an element type, a C name unchanged; None for any other word."""
    plain = " ".join(word.split())
    element = element_named(plain)
    return plain if plain in C_NAMES or plain in _IN_FULL else CUDA_NAMES[element] if element else None
