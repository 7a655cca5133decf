"""FP8 (E4M3, E5M2) for NumPy, which lacks the types: their bits in uint8.

`float8_e4m3fn` has four exponent bits and three stored significand bits, no infinity, and NaN where all seven bits are
set; its largest number is 448. `float8_e5m2` has five and two, as float16 cut in half; its largest number is 57344.
Source: P. Micikevicius et al., FP8 Formats for Deep Learning, 2022. The names are those of ml_dtypes and PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

FP8_NAN: Final = 0x7F
"""A NaN in both formats, the one CUDA's conversions return."""

_SINGLE_FRACTION, _SINGLE_BIAS = 23, 127


@dataclass(frozen=True)
class Float8:
    """An FP8 format.

    Attributes:
        exponent: Bits of the exponent.
        fraction: Stored bits of the significand.
        bias: Exponent bias.
        largest_code: Code of the largest finite number.
        has_infinity: Whether the code after that is infinity; it is a NaN otherwise.
    """

    exponent: int
    fraction: int
    bias: int
    largest_code: int
    has_infinity: bool

    @property
    def unit(self) -> float:
        """Return the unit roundoff: half the distance from 1 to the next larger number."""
        return 2.0 ** -(self.fraction + 1)

    @property
    def least(self) -> float:
        """Return the smallest positive number, which is subnormal."""
        return 2.0 ** (1 - self.bias - self.fraction)

    @property
    def largest(self) -> float:
        """Return the largest finite number."""
        return float(self.values[self.largest_code])

    @cached_property
    def values(self) -> NDArray[np.float32]:
        """Return the value of each code, float32 of shape (256,)."""
        codes = np.arange(128)
        power, digits = codes >> self.fraction, codes & ((1 << self.fraction) - 1)
        digits = np.where(power > 0, digits + (1 << self.fraction), digits)
        size = np.ldexp(digits.astype(np.float64), np.maximum(power, 1) - self.bias - self.fraction)
        size[self.largest_code + 1 :] = np.nan
        if self.has_infinity:
            size[self.largest_code + 1] = np.inf
        return np.concatenate([size, -size]).astype(np.float32)


FORMATS: Final[Mapping[str, Float8]] = MappingProxyType(
    {
        "float8_e4m3fn": Float8(4, 3, 7, 0x7E, has_infinity=False),
        "float8_e5m2": Float8(5, 2, 15, 0x7B, has_infinity=True),
    }
)
"""The formats, by name."""


def from_float32(values: NDArray[np.float32], name: str) -> NDArray[np.uint8]:
    """Round float32 to nearest, ties to even; saturate to the largest finite number.

    Infinity saturates, too: this is CUDA's conversion, `cvt.rn.satfinite`.

    Args:
        values: float32, any shape.
        name: A key of `FORMATS`.

    Returns:
        uint8 of the same shape; every NaN becomes `FP8_NAN`.
    """
    form = FORMATS[name]
    single = np.ascontiguousarray(values, np.float32)
    size = np.minimum(np.abs(single), np.float32(form.largest))
    # Adding 1.5 times a power of two leaves no bits below the last place of the format, and rounds to nearest even.
    bits = np.maximum(size, np.float32(2.0 ** (1 - form.bias))).view(np.uint32)
    shift = _SINGLE_FRACTION - form.fraction
    one_place = ((bits >> np.uint32(_SINGLE_FRACTION)) + np.uint32(shift)) << np.uint32(_SINGLE_FRACTION)
    anchor = (one_place | np.uint32(1 << (_SINGLE_FRACTION - 1))).view(np.float32)
    rounded = (size + anchor) - anchor
    normal = (rounded.view(np.uint32) >> np.uint32(shift)).astype(np.int64)
    normal -= (_SINGLE_BIAS - form.bias) << form.fraction
    with np.errstate(invalid="ignore"):
        subnormal = (rounded / np.float32(form.least)).astype(np.int64)
    code = np.where(rounded < np.float32(2.0 ** (1 - form.bias)), subnormal, normal) | np.signbit(single) * 0x80
    return np.where(np.isnan(single), FP8_NAN, code).astype(np.uint8)


def to_float32(bits: NDArray[np.uint8], name: str) -> NDArray[np.float32]:
    """Return the values, exactly, as float32 of the same shape."""
    return FORMATS[name].values[bits]
