"""bfloat16 for NumPy, which lacks the type: its bits in uint16.

A bfloat16 is the upper half of a float32: one sign bit, eight exponent bits, seven stored significand bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BF16_NAN = 0x7FFF
"""A quiet NaN."""


def from_float32(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round float32 to bfloat16, to nearest, ties to even.

    Args:
        values: float32, any shape.

    Returns:
        uint16 of the same shape; every NaN becomes `BF16_NAN`.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    # Adding half of the last kept place, less one where that place is even, carries exactly when the value rounds up.
    rounded = bits >> np.uint32(16)
    rounded &= np.uint32(1)
    rounded += np.uint32(0x7FFF)
    rounded += bits
    rounded >>= np.uint32(16)
    return np.where(np.isnan(values), np.uint16(BF16_NAN), rounded.astype(np.uint16))


def to_float32(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return the values, exactly, as float32 of the same shape and order."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
