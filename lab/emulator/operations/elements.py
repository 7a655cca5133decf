"""Element types of matrix operands: register packing and decoding.

PTX ISA, Alternate Floating-Point Data Formats, and Sub-byte integers in the sections on matrix fragments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator import floats
from lab.emulator.arrays import Bits, Doubles

BITS = {
    "b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f16": 16, "bf16": 16, "tf32": 32, "f32": 32,
    "s32": 32, "f64": 64,
}  # fmt: skip
"""Bit widths by element type. A tf32 occupies 32 bits, of which 19 count."""

SMALLEST = {"e4m3": -6, "e5m2": -14, "f16": -14, "bf16": -126, "tf32": -126, "f32": -126}
"""The exponent of the smallest normal number, by floating-point type."""

REGISTER_BITS = 32

_INVALID64 = np.uint64(0xFFF8_0000_0000_0000)
"""The NaN of an H200's tensor cores in f64 for infinity minus infinity and zero times infinity."""

_TF32 = np.uint32(0xFFFFE000)  # sign, exponent and 10 fraction bits
_NATIVE = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32}


def per_register(t: str) -> int:
    """Return the number of elements per 32-bit register; 1 for elements that take two registers."""
    return max(1, REGISTER_BITS // BITS[t])


def container(t: str) -> str:
    """Return the PTX type of the registers that hold an element type."""
    return "b64" if t == "f64" else "b32"


def _eighths(exponent_bits: int, bias: int, *, infinite: bool) -> Doubles:
    """Return the 256 values of an 8-bit floating-point format.

    Args:
        exponent_bits: Bits of its exponent.
        bias: The exponent bias.
        infinite: The largest exponent encodes infinity and NaN; otherwise only all ones encode NaN.
    """
    fraction_bits = 7 - exponent_bits
    code = np.arange(128)
    field, fraction = code >> fraction_bits, code & ((1 << fraction_bits) - 1)
    significand = np.where(field > 0, 1.0, 0.0) + fraction / (1 << fraction_bits)
    values = np.ldexp(significand, np.maximum(field, 1) - bias)
    if infinite:
        top = field == (1 << exponent_bits) - 1
        values[top] = np.where(fraction[top] == 0, np.inf, np.nan)
    else:
        values[-1] = np.nan
    return np.concatenate([values, -values])


_EIGHT = {"e4m3": _eighths(4, 7, infinite=False), "e5m2": _eighths(5, 15, infinite=True)}


def decode(raw: Bits, t: str) -> Doubles:
    """Return the elements of registers, concatenated, lowest bits first.

    Args:
        raw: (..., registers) contiguous uint32, or uint64 for f64.
        t: The element type.

    Returns:
        (..., registers * elements of a register).
    """
    values: NDArray[Any]
    if t in _EIGHT:
        values = _EIGHT[t][raw.view(np.uint8)]
    elif t == "bf16":
        values = floats.bf16_to_32(raw.view(np.uint16))
    elif t == "tf32":
        values = (raw & _TF32).view(np.float32)
    elif BITS[t] < 8:  # noqa: PLR2004  sub-byte integers
        values = _unpacked(raw, t)
    else:
        values = raw.view(_NATIVE[t])
    return values.astype(np.float64)


def _unpacked(raw: Bits, t: str) -> NDArray[np.int64]:
    """Return the elements of registers with sub-byte integers."""
    bits = BITS[t]
    shifts = np.arange(0, REGISTER_BITS, bits, dtype=np.uint32)
    pieces = ((raw[..., None] >> shifts) & np.uint32((1 << bits) - 1)).astype(np.int64)
    if t == "s4":
        pieces = (pieces ^ 8) - 8
    return pieces.reshape(*raw.shape[:-1], -1)


def encode(values: Doubles, t: str) -> Bits:
    """Convert (..., elements) to the bits of (..., registers), rounding to nearest even."""
    if t == "f16":
        return floats.f32_to_f16(floats.round32(values, np.zeros(1), "odd")).view(np.uint32)
    if t == "f64":
        wide = np.ascontiguousarray(values).view(np.uint64).copy()
        wide[np.isnan(values)] = _INVALID64
        return wide
    if t == "s32":
        return values.astype(np.int64).astype(np.int32).view(np.uint32)
    result = values.astype(np.float32)
    bits = result.view(np.uint32)
    bits[np.isnan(result)] = floats.NAN32
    return bits
