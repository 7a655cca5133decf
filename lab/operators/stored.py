"""Element buffers as kernels see them: bits for the types NumPy lacks (`lab.operators.base.STORED_AS`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.base.elements import PARTS
from lab.operators import bfloat16, float8
from lab.operators.base import STORED_AS, Array, Floats

UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Unit roundoff of each element type: half the distance from 1 to the next larger number."""
LEAST = {"float32": 2.0**-126, "float16": 2.0**-25, "bfloat16": 2.0**-126}
"""Absolute error of a result too small to have its full precision: half the least subnormal of float16; the least
normal number of the others, since CUDA's fast exponential flushes subnormal results to zero."""


NANS = {"bfloat16": bfloat16.BF16_NAN, **dict.fromkeys(float8.FORMATS, float8.FP8_NAN)}
"""NaN bits of the types NumPy lacks."""

POISON_BYTE = 0xA5
"""The poison of integer buffers, byte by byte, in place of NaN."""


def empty(count: int, dtype: str) -> Array:
    """Return a poisoned 1-D buffer: NaN, or `POISON_BYTE` in each byte of integers."""
    if dtype in STORED_AS:
        return np.full(count, NANS[dtype], STORED_AS[dtype])
    if dtype in PARTS:
        return np.full(count, complex(np.nan, np.nan), dtype)
    if np.dtype(dtype).kind in "iu":
        return np.full(count * np.dtype(dtype).itemsize, POISON_BYTE, np.uint8).view(dtype)
    return np.full(count, np.nan, dtype)


def stored(values: NDArray[np.float32], dtype: str) -> Array:
    """Round to the element type, any shape; return bits for types NumPy lacks."""
    if dtype == "bfloat16":
        return bfloat16.from_float32(values)
    return float8.from_float32(values, dtype) if dtype in float8.FORMATS else values.astype(dtype)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Draw standard normal elements; for complex elements, both parts.

    They are drawn as float32 in any case, so that wider types get the same.

    Args:
        rng: Source of randomness.
        shape: Their shape.
        dtype: Element type.
    """
    if dtype in PARTS:
        real, imaginary = rng.standard_normal((2, *shape), dtype=np.float32)
        elements: Array = (real + 1j * imaginary).astype(dtype)
        return elements
    return stored(rng.standard_normal(shape, dtype=np.float32), dtype)


def wide(elements: NDArray[Any], dtype: str = "bfloat16") -> NDArray[Any]:
    """Convert complex elements to complex128 and others to float64 as `widened` does; any shape."""
    return elements.astype(np.complex128) if elements.dtype.kind == "c" else widened(elements, dtype)


def parts(elements: NDArray[Any]) -> NDArray[Any]:
    """View a contiguous complex buffer as its parts, twice as long; return others unchanged."""
    return elements.view(PARTS[elements.dtype.name]) if elements.dtype.kind == "c" else elements


def widened(elements: NDArray[Any], dtype: str = "bfloat16") -> Floats:
    """Convert real elements to float64, any shape.

    Args:
        elements: Elements as they are held.
        dtype: Their type, which matters where integers are the bits of a type that NumPy lacks.
    """
    if elements.dtype == np.uint8 and dtype in float8.FORMATS:
        return float8.to_float32(elements.view(np.uint8), dtype).astype(np.float64)
    bits = elements.dtype == np.uint16 and dtype == "bfloat16"
    return (bfloat16.to_float32(elements.view(np.uint16)) if bits else elements).astype(np.float64)


def is_empty(elements: NDArray[Any], dtype: str = "bfloat16") -> NDArray[np.bool_]:
    """Mark elements that still hold the poison of `empty`, any shape."""
    if elements.dtype.kind in "iu" and dtype not in STORED_AS:
        return np.asarray(elements == empty(1, elements.dtype.name)[0])
    return np.asarray(np.isnan(widened(elements, dtype)))
