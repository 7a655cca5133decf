"""Buffers of elements as kernels see them; bfloat16, which NumPy lacks, as its bits in uint16."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    return np.full(count, np.nan, dtype)


def stored(values: NDArray[np.float32], dtype: str) -> Array:
    """Round to the element type, any shape; bfloat16 as its bits."""
    return from_float32(values) if dtype == "bfloat16" else values.astype(dtype)


def widened(elements: NDArray[Any]) -> Floats:
    """Convert elements to float64, any shape; 16-bit integers are the bits of bfloat16."""
    return (to_float32(elements.view(np.uint16)) if elements.dtype == np.uint16 else elements).astype(np.float64)
