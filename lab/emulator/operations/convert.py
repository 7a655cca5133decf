"""Type conversions: cvt with rounding and saturation, and packing of halves and integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lab.emulator import floats
from lab.emulator.arrays import Doubles, Floats, Integers, Numbers, Singles, Words
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm
from lab.emulator.operations.base import Alu, assign, operation
from lab.emulator.operations.narrow import is_narrow, narrow_conversion

_INTEGERS = tuple(f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "us")
_FLOATS = ("f16", "bf16", "f32", "f64", "tf32")
Conversion = Callable[[Any], Numbers]
"""Converts (count,) or (1,) numbers of the source type to the destination type."""

_ROUND_TO_INTEGER: dict[str, Callable[[Floats], Floats]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
_MODES = ("rn", "rz", "rm", "rp", "rna", *_ROUND_TO_INTEGER)


@operation("cvt")
def cvt(op: Opcode, n: int) -> Alu:
    """Build a conversion. The last two parts are the types: destination, source."""
    if op.flag("pack"):
        return _pack(op)
    mode = op.one_of(_MODES, "")
    ftz, sat, relu, finite = op.flag("ftz"), op.flag("sat"), op.flag("relu"), op.flag("satfinite")
    if len(op.parts) != 2:  # noqa: PLR2004  destination and source
        raise UnknownForm(f"modifier .{'.'.join(op.parts[:-2])}")
    to, of = op.parts
    if is_narrow(to) or is_narrow(of):
        if ftz or sat:
            raise UnknownForm(".ftz or .sat on a narrow float")
        return narrow_conversion(op, to, of, mode, relu=relu, finite=finite)
    if to in ("f16x2", "bf16x2") and of == "f32" and n == 3 and not ftz and not sat:  # noqa: PLR2004  operands
        return _pair(to, mode, relu=relu, finite=finite)
    if (to not in _INTEGERS and to not in _FLOATS) or (of not in _INTEGERS and of not in _FLOATS):
        raise UnknownForm(f".{to}.{of}")
    if (relu or finite) and (to not in ("f16", "bf16", "tf32") or of != "f32"):
        raise UnknownForm(".relu or .satfinite")
    compute = _conversion(to, of, mode, ftz=ftz, sat=sat)
    if relu:
        compute = _clamped(compute, to)
    if finite:
        compute = _finite(compute, to)
    return Alu(assign(compute), (to,), (of,), loose=to in ("f32", "f64"), tolerant=of not in _INTEGERS)


_INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x7F800000}
_LARGEST = {"f16": 0x7BFF, "bf16": 0x7F7F, "tf32": 0x7F7FE000}


def _finite(compute: Conversion, to: str) -> Conversion:
    """Return a conversion that clamps infinities to the largest number of the same sign (`.satfinite`)."""
    bits = np.dtype(f"u{DTYPES[to].itemsize}")
    sign = bits.type(1 << (8 * bits.itemsize - 1))
    infinity, largest = bits.type(_INFINITY[to]), bits.type(_LARGEST[to])

    def clamp(a: Numbers) -> Numbers:
        result = compute(a).view(bits)
        infinite = (result & ~sign) == infinity
        return np.where(infinite, (result & sign) | largest, result).view(DTYPES[to])

    return clamp


def _clamped(compute: Conversion, to: str) -> Conversion:
    """Return a conversion to f16, bf16 or tf32 that clamps negative results to +0 (`.relu`)."""

    def clamp(a: Numbers) -> Numbers:
        dtype = np.dtype(f"u{DTYPES[to].itemsize}")
        bits, sign = compute(a).view(dtype), dtype.type(1 << (8 * dtype.itemsize - 1))
        negative = (bits & sign != 0) & (bits & ~sign <= dtype.type(_INFINITY[to]))
        return np.where(negative, dtype.type(0), bits).view(DTYPES[to])

    return clamp


def _conversion(to: str, of: str, mode: str, *, ftz: bool, sat: bool) -> Conversion:
    if of in _INTEGERS:
        if ftz:
            raise UnknownForm(".ftz on an integer")
        if to in _INTEGERS:
            if mode:
                raise UnknownForm(f".{mode} between integers")
            return _integers(to, sat=sat)
        return _from_integer(to, of, mode, sat=sat)
    if of == "tf32":
        raise UnknownForm("from .tf32")

    def widen(a: Any) -> Floats:  # noqa: ANN401  bits or floats, by the source type
        """Convert the source to float32; keep doubles."""
        if of == "bf16":
            return floats.bf16_to_32(a)
        x = a.astype(np.float32) if of == "f16" else a
        return floats.flush32(x) if ftz and of == "f32" else x

    if to in _INTEGERS:
        if mode not in _ROUND_TO_INTEGER:
            raise UnknownForm("a float to an integer without an integer rounding")
        return lambda a: float_to_integer(widen(a), to, mode, from_double=of == "f64")
    narrow = _float_result(to, of, mode, ftz=ftz, sat=sat)
    return lambda a: narrow(widen(a))


def _integers(to: str, *, sat: bool) -> Conversion:
    dtype = DTYPES[to]
    if not sat:
        return lambda a: a.astype(dtype)
    info = np.iinfo(dtype)

    def compute(a: Integers) -> Integers:
        source = np.iinfo(a.dtype)
        return np.clip(a, max(info.min, source.min), min(info.max, source.max)).astype(dtype)

    return compute


def float_to_integer(x: Floats, to: str, mode: str, *, from_double: bool) -> Integers:
    """Round and clamp to an integer: PTX always saturates here, and defines the result for NaN (PTX ISA, cvt).

    Args:
        x: (count,) or (1,) singles or doubles.
        to: The integer type.
        mode: `rni`, `rzi`, `rmi` or `rpi`.
        from_double: The source type is f64.
    """
    dtype = DTYPES[to]
    info = np.iinfo(dtype)
    rounded = _ROUND_TO_INTEGER[mode](x)
    low, above = float(info.min), 2.0 ** (info.bits - (dtype.kind == "i"))
    inside = (rounded >= low) & (rounded < above)
    result = np.where(inside, rounded, 0.0).astype(dtype)
    result[rounded >= above] = info.max
    result[rounded < low] = info.min
    wide = from_double or info.bits == 64  # noqa: PLR2004  bits
    unknown = np.isnan(x)
    if unknown.any():
        result[unknown] = np.array([1], np.uint64).astype(dtype) << dtype.type(info.bits - 1) if wide else 0
    return result


def _from_integer(to: str, of: str, mode: str, *, sat: bool) -> Conversion:
    if mode not in ("rn", "rz", "rm", "rp") or to == "tf32":
        raise UnknownForm(f".{mode}.{to}.{of}" if mode else "an integer to a float without a rounding")
    exact_in_double = int(of[1:]) < 64  # noqa: PLR2004  bits
    dtype = DTYPES[to]

    def compute(a: Integers) -> Floats:
        if mode == "rn" and to in ("f32", "f64"):
            result = a.astype(dtype)
        else:
            high = a.astype(np.float64) if exact_in_double else (a >> a.dtype.type(32)).astype(np.float64) * 2.0**32
            low = np.zeros(1) if exact_in_double else (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64)
            s, e = floats.two_sum(high, low)
            result = _round_sum(to, s, e, mode)
        if sat:
            if to == "bf16":
                raise UnknownForm(".sat.bf16")
            floats.saturate(result)
        return result

    return compute


def _round_sum(to: str, s: Doubles, e: Doubles, mode: str) -> Any:  # noqa: ANN401  floats, or bits of bfloat16
    """Round the exact sum s + e, with s = fl(s + e), to a float type."""
    if to == "f64":
        return s.copy() if mode == "rn" else floats.directed(s, e, mode)
    if to == "f32":
        return floats.round32(s, e, mode)
    odd = floats.round32(s, e, "odd")
    return floats.f32_to_bf16(odd, mode) if to == "bf16" else floats.f32_to_f16(odd, mode)


_RANK = {"f64": 3, "f32": 2, "f16": 1, "bf16": 1, "tf32": 1}


def _float_result(to: str, of: str, mode: str, *, ftz: bool, sat: bool) -> Conversion:
    """Return the conversion from float32 (or float64) to a float type."""
    if mode in _ROUND_TO_INTEGER:
        return _integral(to, of, mode, ftz=ftz, sat=sat)
    if to != "tf32" and _RANK[to] >= _RANK[of] and not (to != of and {to, of} == {"f16", "bf16"}):
        return _widening(to, of, ftz=ftz, sat=sat)
    if mode == "":
        raise UnknownForm(f".{to}.{of} without a rounding")
    if to == "tf32":
        return _tf32(mode)
    if mode == "rna":
        raise UnknownForm(f".rna.{to}")
    return _narrowing(to, of, mode, ftz=ftz, sat=sat)


def _integral(to: str, of: str, mode: str, *, ftz: bool, sat: bool) -> Conversion:
    if to != of or to == "tf32":
        raise UnknownForm(f".{mode}.{to}.{of}")
    rounding, dtype = _ROUND_TO_INTEGER[mode], DTYPES[to]
    if to == "bf16":
        if ftz or sat:
            raise UnknownForm(".ftz or .sat on bf16")
        return lambda x: floats.f32_to_bf16(rounding(x))
    return lambda x: _finish(rounding(x).astype(dtype), ftz=ftz, sat=sat)


def _widening(to: str, of: str, *, ftz: bool, sat: bool) -> Conversion:
    if to in ("f16", "bf16") and to != of:
        raise UnknownForm(f".{to}.{of}")
    if to == "bf16":
        return floats.f32_to_bf16
    dtype = DTYPES[to]
    return lambda x: _finish(x.astype(dtype), ftz=ftz, sat=sat)


def _narrowing(to: str, of: str, mode: str, *, ftz: bool, sat: bool) -> Conversion:
    zero = np.zeros(1)

    def narrow(x: Any) -> Any:  # noqa: ANN401  float32 or float64, to any of the types
        if to == "f32":
            rounded: Singles = x.astype(np.float32) if mode == "rn" else floats.round32(x, zero, mode)
            return _finish(rounded, ftz=ftz, sat=sat)
        # A double is first rounded to odd as a single, so that the second rounding is the only effective one.
        single = floats.round32(x, zero, "odd") if of == "f64" else x.copy()
        if sat:
            floats.saturate(single)
        return floats.f32_to_bf16(single, mode) if to == "bf16" else floats.f32_to_f16(single, mode)

    return narrow


def _finish(result: Any, *, ftz: bool, sat: bool) -> Any:  # noqa: ANN401  float16, float32 or float64
    """Apply `.ftz`, `.sat` and the canonical NaN."""
    if ftz and result.dtype == np.float32:
        result = floats.flush32(result).copy()
    if sat:
        floats.saturate(result)
    if result.dtype == np.float32:
        floats.canonical32(result)
    elif result.dtype == np.float64:
        floats.canonical64(result)
    return result


def _tf32(mode: str) -> Callable[[Singles], Words]:
    """Return the rounding to 10 fraction bits: ties away (rna), to even (rn) or truncation (rz)."""
    if mode not in ("rna", "rn", "rz"):
        raise UnknownForm(f".{mode}.tf32")

    def compute(x: Singles) -> Words:
        bits = x.view(np.uint32)
        add: Any = {"rna": np.uint32(0x1000), "rz": np.uint32(0)}.get(mode)
        if add is None:
            add = np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
        result = (bits + add) & np.uint32(0xFFFFE000)
        return np.where(np.isnan(x), floats.NAN32, np.where(np.isinf(x), bits, result))

    return compute


def _pair(to: str, mode: str, *, relu: bool, finite: bool) -> Alu:
    """Build cvt.f16x2.f32 d, a, b: a goes to the upper half."""
    if mode not in ("rn", "rz"):
        raise UnknownForm(f".{mode}.{to}")

    def narrow(x: Singles) -> Words:
        half = (floats.f32_to_bf16(x, mode) if to == "bf16x2" else floats.f32_to_f16(x, mode).view(np.uint16)).astype(
            np.uint32
        )
        if relu:
            half[(x < 0) | (half == 0x8000)] = 0  # noqa: PLR2004  minus zero
        if finite:
            kind = to.removesuffix("x2")
            infinite = (half & 0x7FFF) == _INFINITY[kind]
            half[infinite] = (half[infinite] & 0x8000) | _LARGEST[kind]
        return half

    return Alu(assign(lambda a, b: (narrow(a) << np.uint32(16)) | narrow(b)), (to,), ("f32", "f32"))


def _pack(op: Opcode) -> Alu:
    """Build cvt.pack.sat.T.s32{.b32}: two integers clamped and packed, above c if given."""
    op.one_of(("sat",))
    to = op.parts.pop(0)
    if to not in ("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"):
        raise UnknownForm(f".pack.{to}")
    op.one_of(("s32",))
    with_c = op.flag("b32")
    op.finish()
    if with_c != (to not in ("u16", "s16")):
        raise UnknownForm("the form with this type")
    bits = int(to[1:])
    least, highest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if to[0] == "s" else (0, 2**bits - 1)

    def compute(a: Integers, b: Integers, c: Words | None = None) -> Words:
        def clamp(x: Integers) -> Words:
            return np.clip(x, least, highest).astype(np.uint32) & np.uint32(2**bits - 1)

        packed = (clamp(a) << np.uint32(bits)) | clamp(b)
        return packed if c is None else (c << np.uint32(2 * bits)) | packed

    return Alu(assign(compute), ("b32",), ("s32", "s32") + (("b32",) if with_c else ()))
