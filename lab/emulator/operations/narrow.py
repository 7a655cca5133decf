"""Conversions of 8-, 6- and 4-bit floats: e4m3, e5m2, e2m3, e3m2, e2m1 and ue8m0 exponents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lab.emulator import floats
from lab.emulator.arrays import Doubles, Integers, Singles, Words
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.base import Alu, assign


@dataclass(frozen=True)
class NarrowFormat:
    """A signed narrow float format.

    Attributes:
        exponent: Bits of the exponent.
        fraction: Bits of the fraction.
        bias: The exponent bias.
        largest: Code of the largest finite number.
        nan: Code of a NaN; None if there is none, so that a NaN becomes the largest number.
    """

    exponent: int
    fraction: int
    bias: int
    largest: int
    nan: int | None

    @property
    def bits(self) -> int:
        """The bit width of a number."""
        return 1 + self.exponent + self.fraction

    @cached_property
    def values(self) -> Doubles:
        """The non-negative finite numbers by code, in ascending order."""
        codes = np.arange(self.largest + 1)
        power, digits = codes >> self.fraction, codes & ((1 << self.fraction) - 1)
        digits = np.where(power > 0, digits + (1 << self.fraction), digits)
        values: Doubles = np.ldexp(digits.astype(np.float64), np.maximum(power, 1) - self.bias - self.fraction)
        return values

    def encoded(self, x: Doubles) -> Words:
        """Round to nearest even and clamp; return signed codes, (count,)."""
        size, values = np.abs(x), self.values
        above = np.minimum(np.searchsorted(values, size), self.largest)
        below = np.maximum(above - 1, 0)
        up, down = values[above] - size, size - values[below]
        code = np.where((up < down) | ((up == down) & (above % 2 == 0)) | (size >= values[-1]), above, below)
        negative = np.signbit(x) << (self.bits - 1)
        result = code | negative
        return np.where(np.isnan(x), self.largest if self.nan is None else self.nan, result).astype(np.uint32)

    def decoded(self, codes: Integers) -> Doubles:
        """Decode codes to numbers, (count,)."""
        sign = 1 << (self.bits - 1)
        size = (codes & (sign - 1)).astype(np.int64)
        values = self.values[np.minimum(size, self.largest)]
        if self.nan is not None:
            infinite = self.exponent == 5  # noqa: PLR2004  e5m2 alone has infinities
            beyond = np.where((size == self.largest + 1) & infinite, np.inf, np.nan)
            values = np.where(size > self.largest, beyond, values)
        return np.where(codes & sign, -values, values)


FORMATS: dict[str, NarrowFormat] = {
    "e4m3": NarrowFormat(4, 3, 7, 0x7E, 0x7F),
    "e5m2": NarrowFormat(5, 2, 15, 0x7B, 0x7F),
    "e2m3": NarrowFormat(2, 3, 1, 0x1F, None),
    "e3m2": NarrowFormat(3, 2, 3, 0x1F, None),
    "e2m1": NarrowFormat(2, 1, 1, 0x7, None),
}
"""The formats by PTX name, without `x2`."""

_EXPONENTS = "ue8m0x2"
_EXPONENT_NAN = 255


def is_narrow(name: str) -> bool:
    """Return whether a PTX type is a pair of narrow floats."""
    return name == _EXPONENTS or name.removesuffix("x2") in FORMATS


def narrow_conversion(op: Opcode, to: str, of: str, mode: str, *, relu: bool, finite: bool) -> Alu:
    """Build a conversion to or from a pair of narrow floats.

    Args:
        op: The opcode, for messages.
        to: Type of the destination.
        of: Type of the source.
        mode: The rounding.
        relu: Clamp negative results to zero.
        finite: The opcode has `.satfinite`.
    """
    if to == _EXPONENTS:
        return _to_exponents(of, mode, finite=finite, refused=relu)
    if of == _EXPONENTS:
        if (to, mode, relu, finite) != ("bf16x2", "rn", False, False):
            raise UnknownForm(op.text)
        return Alu(assign(_from_exponents), ("b32",), ("b16",))
    if mode != "rn":
        raise UnknownForm(f".{mode}" if mode else "a conversion without a rounding")
    if is_narrow(to):
        return _to_narrow(FORMATS[to.removesuffix("x2")], of, relu=relu, finite=finite)
    if to != "f16x2" or finite:
        raise UnknownForm(op.text)
    return _from_narrow(FORMATS[of.removesuffix("x2")], relu=relu)


def _holder(form: NarrowFormat) -> tuple[str, int]:
    """Return the PTX type that holds a pair, and the bit distance of its elements."""
    return ("b8", 4) if form.bits == 4 else ("b16", 8)  # noqa: PLR2004  four bits


def _to_narrow(form: NarrowFormat, of: str, *, relu: bool, finite: bool) -> Alu:
    if not finite or of not in ("f32", "f16x2"):
        raise UnknownForm(f"from .{of}" if finite else "a narrow float without .satfinite")
    holder, step = _holder(form)

    def code(x: Singles) -> Words:
        wide = x.astype(np.float64)
        if relu:
            wide = np.where(wide <= 0, 0.0, wide)
        return form.encoded(wide)

    if of == "f32":
        return Alu(assign(lambda a, b: (code(a) << np.uint32(step)) | code(b)), (holder,), ("f32", "f32"))

    def from_pair(a: Words) -> Words:
        low, high = _halves(a)
        return (code(high) << np.uint32(step)) | code(low)

    return Alu(assign(from_pair), (holder,), ("b32",))


def _halves(pair: Words) -> tuple[Singles, Singles]:
    """Return the lower and the upper half of f16x2 as float32."""
    low = pair.astype(np.uint16).view(np.float16).astype(np.float32)
    return low, (pair >> np.uint32(16)).astype(np.uint16).view(np.float16).astype(np.float32)


def _from_narrow(form: NarrowFormat, *, relu: bool) -> Alu:
    holder, step = _holder(form)

    def half(codes: Integers) -> Words:
        wide = form.decoded(codes & ((1 << form.bits) - 1))
        if relu:
            wide = np.where(wide <= 0, 0.0, wide)
        narrow = floats.f32_to_f16(wide.astype(np.float32))
        return narrow.view(np.uint16).astype(np.uint32)

    def compute(a: NDArray[np.uint16]) -> Words:
        codes = a.astype(np.int64)
        return (half(codes >> step) << np.uint32(16)) | half(codes)

    return Alu(assign(compute), ("b32",), (holder,))


def _to_exponents(of: str, mode: str, *, finite: bool, refused: bool) -> Alu:
    """Build the conversion of magnitudes to powers of two: downwards (.rz) or upwards (.rp)."""
    if refused or mode not in ("rz", "rp") or of not in ("f32", "bf16x2"):
        raise UnknownForm(f".{mode}.{_EXPONENTS}.{of}" + (" with .relu" if refused else ""))

    def code(x: Singles) -> Words:
        bits = x.view(np.uint32) & np.uint32(0x7FFFFFFF)
        exponent, fraction = bits >> np.uint32(23), bits & np.uint32(0x7FFFFF)
        up = np.where(exponent == 0, fraction > np.uint32(0x400000), fraction != 0)  # 2^-127 is the least
        result = exponent + (up if mode == "rp" else 0)
        top = 254 if finite else _EXPONENT_NAN
        return np.where(np.isnan(x), _EXPONENT_NAN, np.minimum(result, top)).astype(np.uint32)

    if of == "f32":
        return Alu(assign(lambda a, b: (code(a) << np.uint32(8)) | code(b)), ("b16",), ("f32", "f32"))

    def from_pair(a: Words) -> Words:
        high = (a & np.uint32(0xFFFF0000)).view(np.float32)
        return (code(high) << np.uint32(8)) | code((a << np.uint32(16)).view(np.float32))

    return Alu(assign(from_pair), ("b16",), ("b32",))


def _from_exponents(a: NDArray[np.uint16]) -> Words:
    """Convert ue8m0 to bfloat16; code 0 is 2^-127, which is subnormal there."""

    def half(code: Words) -> Words:
        usual = np.where(code == 0, np.uint32(0x40), code << np.uint32(7))
        return np.where(code == _EXPONENT_NAN, np.uint32(0x7FFF), usual)

    codes = a.astype(np.uint32)
    return (half(codes >> np.uint32(8)) << np.uint32(16)) | half(codes & np.uint32(255))
