"""Buffers of elements as kernels see them; bfloat16, which NumPy lacks, as its bits in uint16."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.base.elements import PARTS
from lab.operators.base import STORED_AS, Array, Floats
from lab.operators.bfloat16 import BF16_NAN, from_float32, to_float32

UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Unit roundoff of each element type: half the distance from 1 to the next larger number."""
LEAST = {"float32": 2.0**-126, "float16": 2.0**-25, "bfloat16": 2.0**-126}
"""Absolute error of a result too small to have its full precision: half the least subnormal of float16; the least
normal number of the others, since CUDA's fast exponential flushes subnormal results to zero."""


def empty(count: int, dtype: str) -> Array:
    """Return a 1-D buffer of NaN."""
    if dtype in STORED_AS:
        return np.full(count, BF16_NAN, STORED_AS[dtype])
    if dtype in PARTS:
        return np.full(count, complex(np.nan, np.nan), dtype)
    return np.full(count, np.nan, dtype)


def stored(values: NDArray[np.float32], dtype: str) -> Array:
    """Round to the element type, any shape; bfloat16 as its bits."""
    return from_float32(values) if dtype == "bfloat16" else values.astype(dtype)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Draw standard normal elements, both parts of complex ones.

    They are drawn as float32 in any case, so that wider types get the same.

    Args:
        rng: Where they come from.
        shape: Their shape.
        dtype: Element type.
    """
    if dtype in PARTS:
        real, imaginary = rng.standard_normal((2, *shape), dtype=np.float32)
        made: Array = (real + 1j * imaginary).astype(dtype)
        return made
    return stored(rng.standard_normal(shape, dtype=np.float32), dtype)


def wide(elements: NDArray[Any]) -> NDArray[Any]:
    """Convert elements to float64, or to complex128 where they are complex, any shape."""
    return elements.astype(np.complex128) if elements.dtype.kind == "c" else widened(elements)


def parts(elements: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous buffer of complex numbers as that of their parts, twice as long; others as they are."""
    return elements.view(PARTS[elements.dtype.name]) if elements.dtype.kind == "c" else elements


def widened(elements: NDArray[Any]) -> Floats:
    """Convert real elements to float64, any shape; 16-bit integers are the bits of bfloat16."""
    return (to_float32(elements.view(np.uint16)) if elements.dtype == np.uint16 else elements).astype(np.float64)
