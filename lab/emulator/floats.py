"""Floating-point arithmetic that rounds once, as PTX defines it, on NumPy arrays.

NumPy only offers IEEE round-to-nearest for each width. The other PTX roundings are built here from error-free
transformations: a result is an exact unevaluated sum ``s + e`` of two doubles, which is then rounded.

Sources: Knuth, The Art of Computer Programming vol. 2, 4.2.2 (two_sum); Dekker 1971 (two_product, after
Veltkamp's split); Boldo and Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd, 2008 (fma64). PTX ISA, Floating Point Instructions: roundings, `.ftz`, `.sat`, canonical NaN.

Every function here expects to run inside `exact_arithmetic()`. Arrays are of (n,) elements, or of (1,) where all
elements share an operand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Doubles, Floats, Halves, Mask, Singles
from lab.emulator.primitives import delegate

_Floating = TypeVar("_Floating", bound=np.floating[Any])

NAN32 = np.uint32(0x7FFFFFFF)  # PTX: the canonical single-precision NaN
NAN64 = np.uint64(0x7FFFFFFFFFFFFFFF)
NAN16 = np.uint16(0x7FFF)  # f16 and bf16 alike

# A double whose last 29 bits are 1 and 28 zeros lies half-way between two normal singles.
_DROP = np.uint64(35)
_HALF_WAY = np.uint64(1 << 63)
_SPLIT = np.float64(2.0**27 + 1.0)
# Within these bounds no partial product of `two_product` overflows or loses bits below 2^-1074.
_PRODUCT_MAX, _PRODUCT_MIN = 2.0**970, 2.0**-900
_FACTOR_MAX = 2.0**995


class _Underflow:
    """A recorder of the hardware's underflow flag: NumPy calls it for tiny inexact results."""

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, _kind: str, _flag: int) -> None:
        self.seen = True


_underflow = _Underflow()


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Run a block without NumPy's floating-point warnings, recording the underflow flag."""
    with np.errstate(all="ignore", under="call", call=_underflow):
        yield


def two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return ``(s, e)`` with s = fl(a + b) and s + e = a + b exactly, for doubles without overflow."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return ``(p, e)`` with p = fl(a * b) and p + e = a * b exactly, for doubles of moderate size."""
    p = a * b
    t = _SPLIT * a
    ah = t - (t - a)
    al = a - ah
    t = _SPLIT * b
    bh = t - (t - b)
    bl = b - bh
    return p, al * bl - (((p - ah * bh) - al * bh) - ah * bl)


def odd_sum(a: Doubles, b: Doubles) -> Doubles:
    """Return a + b in double precision, rounded to odd: an inexact result has its last bit set."""
    s, e = two_sum(a, b)
    bits = s.view(np.uint64).copy()
    wrong = (e != 0) & ((bits & np.uint64(1)) == 0) & np.isfinite(s)
    if wrong.any():
        away = (e > 0) == (s > 0)  # the true value is further from zero than s
        step = np.where(away, np.int64(1), np.int64(-1)).view(np.uint64)
        np.add(bits, step, out=bits, where=wrong)
    return bits.view(np.float64)


def canonical32(x: Singles) -> None:
    """Replace every NaN of a contiguous float32 array by PTX's canonical one, in place."""
    square = np.dot(x, x)  # NaN if and only if x has one: the terms are never negative
    if square != square:  # noqa: PLR0124  this is the test for NaN
        x.view(np.uint32)[np.isnan(x)] = NAN32


def canonical64(x: Doubles) -> None:
    """Replace every NaN of a contiguous float64 array by the canonical one, in place."""
    square = np.dot(x, x)
    if square != square:  # noqa: PLR0124  this is the test for NaN
        x.view(np.uint64)[np.isnan(x)] = NAN64


def flush32(x: Singles) -> Singles:
    """Return x with subnormal singles replaced by zeros of their sign (`.ftz`)."""
    if type(x) is not np.ndarray:
        return delegate("flush32", x)
    bits = x.view(np.uint32)
    tiny = (bits & np.uint32(0x7F800000)) == 0
    if not np.count_nonzero(tiny):
        return x
    flushed = bits.copy()
    flushed[tiny] &= np.uint32(0x80000000)
    return flushed.view(np.float32)


def flush16(x: NDArray[np.float16]) -> NDArray[np.float16]:
    """Return x with subnormal halves replaced by zeros of their sign (`.ftz`)."""
    bits = x.view(np.uint16)
    return np.where(bits & np.uint16(0x7C00), bits, bits & np.uint16(0x8000)).view(np.float16)


def saturate(x: Floats) -> None:
    """Clamp to [0, 1] in place, NaN to +0 (`.sat`)."""
    np.copyto(x, x.dtype.type(0), where=~(x > 0))
    np.minimum(x, x.dtype.type(1), out=x)


def fma32(out: Singles, a: Singles, b: Singles, c: Singles) -> None:
    """Write the single-precision fused multiply-add, rounded once to nearest even.

    The product of two singles is exact in double precision, and the double sum is right except for its own
    rounding. That rounding can only mislead the second one where the double lies exactly half-way between two
    singles; such elements, one in 2^29 of random ones, are nudged towards the true value.
    """
    s = np.multiply(a, b, dtype=np.float64)
    np.add(s, c, out=s)
    half_way = np.equal(np.left_shift(s.view(np.uint64), _DROP), _HALF_WAY)
    if np.count_nonzero(half_way):
        _nudge(s, half_way, a, b, c)
    _underflow.seen = False
    result = s.astype(np.float32)
    if _underflow.seen:
        _redo_tiny(result, s, a, b, c)
    canonical32(result)
    out[...] = result


def fused32(a: Singles, b: Singles, c: Singles) -> Singles:
    """Return the single-precision fused multiply-add, as written by `fma32`."""
    if type(a) is not np.ndarray:
        return delegate("fused32", a, b, c)
    result = np.empty(np.broadcast(a, b, c).shape, np.float32)
    fma32(result, a, b, c)
    return result


def _error_of_sum(chosen: Mask, a: Singles, b: Singles, c: Singles) -> Doubles:
    """Return the exact error of fl(a * b + c) for chosen elements of float32 operands."""
    product = np.broadcast_to(a, chosen.shape)[chosen].astype(np.float64) * np.broadcast_to(b, chosen.shape)[chosen]
    return two_sum(product, np.broadcast_to(c, chosen.shape)[chosen].astype(np.float64))[1]


def _nudge(s: Doubles, chosen: Mask, a: Singles, b: Singles, c: Singles) -> None:
    """Move chosen inexact doubles one ulp towards the true sum."""
    error = _error_of_sum(chosen, a, b, c)
    old = s[chosen]
    s[chosen] = np.where(error == 0, old, np.nextafter(old, np.copysign(np.inf, error)))


def _redo_tiny(result: Singles, s: Doubles, a: Singles, b: Singles, c: Singles) -> None:
    """Round subnormal results again: their half-way points are odd multiples of 2^-150."""
    quanta = np.where(np.abs(s) < 2.0**-125, s, 0.0) * 2.0**150
    half_way = np.fmod(np.abs(quanta), 2.0) == 1.0
    if half_way.any():
        _nudge(s, half_way, a, b, c)
        result[half_way] = s[half_way].astype(np.float32)


def fma64(out: Doubles, a: Doubles, b: Doubles, c: Doubles) -> None:
    """Write the double-precision fused multiply-add, rounded once to nearest even.

    Elements whose partial results could overflow or lose low bits are computed again with exact integers.
    """
    high, low = two_product(a, b)
    th, tl = two_sum(c, low)
    vh, vl = two_sum(high, th)
    result = np.asarray(vh + odd_sum(tl, vl))
    size = np.abs(high)
    safe = (size < _PRODUCT_MAX) & (size > _PRODUCT_MIN) & (np.abs(c) < _PRODUCT_MAX)
    safe &= (np.abs(a) < _FACTOR_MAX) & (np.abs(b) < _FACTOR_MAX)
    if np.count_nonzero(safe) != safe.size:
        nothing = (high == 0) & ((a == 0) | (b == 0))  # padding of tiles, often: the sum is the addend
        result = np.where(nothing, high + c, result)
        safe |= nothing
        full = np.broadcast_arrays(a, b, c, result)
        for i in np.flatnonzero(~safe):
            result[i] = _fma_element(*(float(v[i]) for v in full[:3]))
    canonical64(result)
    out[...] = result


def _fma_element(a: float, b: float, c: float) -> float:
    """Return a * b + c, rounded once to nearest even, for any doubles."""
    if math.isfinite(a) and math.isfinite(b) and not math.isfinite(c):
        return c
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    return round_fraction(exact, "rn")


def round_fraction(x: Fraction, mode: str, bits: int = 53, smallest: int = -1074, largest: int = 1024) -> float:
    """Round an exact non-zero rational to a binary format.

    Args:
        x: The exact value.
        mode: `rn`, `rz`, `rm` or `rp`.
        bits: Significand bits, the hidden one included.
        smallest: Exponent of the least subnormal.
        largest: Finite values are below 2**largest.

    Returns:
        The rounded value as a double.
    """
    negative, x = x < 0, abs(x)
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if x < Fraction(2) ** exponent:
        exponent -= 1
    unit = max(exponent - bits + 1, smallest)
    scaled = x / Fraction(2) ** unit
    quotient = scaled.numerator // scaled.denominator
    remainder = scaled - quotient
    up = {
        "rn": remainder > Fraction(1, 2) or (remainder == Fraction(1, 2) and quotient % 2 == 1),
        "rz": False,
        "rm": negative and remainder > 0,
        "rp": not negative and remainder > 0,
    }[mode]
    quotient += up
    if Fraction(quotient) * Fraction(2) ** unit >= Fraction(2) ** largest:
        finite = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
        value = math.ldexp(float(2**bits - 1), largest - bits) if finite else math.inf
    else:
        value = math.ldexp(float(quotient), unit)
    return -value if negative else value


def directed(nearest: NDArray[_Floating], error: Floats, mode: str) -> NDArray[_Floating]:
    """Turn a nearest rounding into a directed one.

    Args:
        nearest: Values rounded to nearest, in their own format.
        error: Anything with the sign of (true value - nearest).
        mode: `rz`, `rm` or `rp`.

    Returns:
        The directed roundings, in the same format.
    """
    inf = nearest.dtype.type(np.inf)
    down, up = error < 0, error > 0
    if mode == "rz":
        down, up = down & (nearest > 0), up & (nearest < 0)
    result = nearest.copy()
    if mode != "rp":
        np.copyto(result, np.nextafter(nearest, -inf), where=down)
    if mode != "rm":
        np.copyto(result, np.nextafter(nearest, inf), where=up)
    return result


def round32(s: Doubles, e: Doubles, mode: str) -> Singles:
    """Round the exact sum of doubles s + e, with s = fl(s + e), to single precision.

    Args:
        s: The leading part.
        e: Its error.
        mode: `rn`, `rz`, `rm`, `rp`, or `odd`: towards zero with the last bit set where inexact.
    """
    nearest = s.astype(np.float32)
    residual = np.where(np.isfinite(s), s - nearest, 0.0)
    error = np.where(residual != 0, residual, e)
    if mode == "rn":  # a minus zero plus no error stays one
        return np.where(e == 0, s, odd_sum(s, e)).astype(np.float32)
    result = directed(nearest, error, "rz" if mode == "odd" else mode)
    if mode == "odd":
        inexact = (error != 0) & np.isfinite(result)
        result.view(np.uint32)[inexact] |= np.uint32(1)
    return result


def fma32_directed(a: Singles, b: Singles, c: Singles, mode: str) -> Singles:
    """Return the single-precision fused multiply-add with a directed (or odd) rounding."""
    product = np.multiply(a, b, dtype=np.float64)
    addend = c.astype(np.float64)
    s, e = two_sum(product, addend)
    result = round32(s, np.where(np.isfinite(s), e, 0.0), mode)
    if mode == "rm":  # an exact cancellation is -0 when rounding down
        cancelled = (s == 0) & (np.signbit(product) != np.signbit(addend))
        result[cancelled] = np.float32(-0.0)
    return result


def add32_directed(a: Singles, b: Singles, mode: str) -> Singles:
    """Return a + b in single precision with a directed rounding."""
    return fma32_directed(a, np.ones(1, np.float32), b, mode)


def mul32_directed(a: Singles, b: Singles, mode: str) -> Singles:
    """Return a * b in single precision with a directed rounding."""
    product = np.multiply(a, b, dtype=np.float64)
    return round32(product, np.zeros(1), mode)


def div32_directed(a: Singles, b: Singles, mode: str) -> Singles:
    """Return a / b in single precision with a directed rounding, from the sign of the remainder."""
    nearest = np.divide(a, b)
    remainder = np.asarray(a, np.float64) - np.multiply(nearest, b, dtype=np.float64)
    error = np.where(np.signbit(b), -remainder, remainder)
    overflow = np.isinf(nearest) & np.isfinite(a) & (b != 0)
    error = np.where(overflow, -np.copysign(1.0, nearest), error)
    exact = ~np.isfinite(nearest) & ~overflow | np.isinf(b)
    return directed(nearest, np.where(exact | np.isnan(error), 0.0, error), mode)


def sqrt32_directed(a: Singles, mode: str) -> Singles:
    """Return the square root in single precision with a directed rounding."""
    nearest = np.sqrt(a)
    error = np.asarray(a, np.float64) - np.multiply(nearest, nearest, dtype=np.float64)
    return directed(nearest, np.where(np.isfinite(error), error, 0.0), mode)


def each64(operation: str, mode: str, *operands: Doubles) -> Doubles:
    """Return a double-precision operation with a directed rounding, element by element with exact rationals.

    Args:
        operation: `add`, `mul`, `fma`, `div` or `sqrt`.
        mode: `rz`, `rm` or `rp`.
        operands: Doubles that broadcast against each other.
    """
    full = np.broadcast_arrays(*operands)
    return np.array([_element64(operation, mode, *(float(v[i]) for v in full)) for i in range(full[0].size)])


def _element64(operation: str, mode: str, *x: float) -> float:
    plain = np.array(x, np.float64)
    if operation == "sqrt":
        return _sqrt64(x[0], mode)
    if operation == "fma":
        nearest = _fma_element(*x)
    else:
        ufunc = {"add": np.add, "mul": np.multiply, "div": np.divide}[operation]
        nearest = float(ufunc(plain[0], plain[1]))
    if not all(map(math.isfinite, x)) or (operation == "div" and x[1] == 0):
        return nearest
    parts = [Fraction(v) for v in x]
    exact = {
        "add": lambda: parts[0] + parts[1],
        "mul": lambda: parts[0] * parts[1],
        "div": lambda: parts[0] / parts[1],
        "fma": lambda: parts[0] * parts[1] + parts[2],
    }[operation]()
    if exact == 0:
        sums = operation == "add" and not (x[0] == 0 and x[1] == 0 and math.copysign(1, x[0]) == math.copysign(1, x[1]))
        if operation == "fma":
            same_sign = math.copysign(1, x[0]) * math.copysign(1, x[1]) == math.copysign(1, x[2])
            sums = not ((x[0] == 0 or x[1] == 0) and x[2] == 0 and same_sign)
        return -0.0 if sums and mode == "rm" else nearest
    return round_fraction(exact, mode)


def _sqrt64(x: float, mode: str) -> float:
    nearest = float(np.sqrt(np.float64(x)))
    if not math.isfinite(nearest) or nearest == 0:
        return nearest
    error = Fraction(x) - Fraction(nearest) ** 2
    sign = np.array([float((error > 0) - (error < 0))])
    return float(directed(np.array([nearest]), sign, mode)[0])


# --- half precision -------------------------------------------------------------------------------------------


def bf16_to_32(x: Halves) -> Singles:
    """Widen bfloat16 bit patterns (uint16) to float32."""
    return (x.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(x: Singles, mode: str = "rn") -> Halves:
    """Round float32 to bfloat16 bit patterns: to nearest even, towards zero, down or up."""
    bits = x.view(np.uint32)
    if mode == "rn":
        rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    elif mode == "rz":
        rounded = bits
    else:  # away from zero on one side of it
        away = (bits >> np.uint32(31) != 0) == (mode == "rm")
        rounded = np.where(away & ~np.isinf(x), bits + np.uint32(0xFFFF), bits)
    result = (rounded >> np.uint32(16)).astype(np.uint16)
    result[np.isnan(x)] = NAN16
    return result


def f32_to_f16(x: Singles, mode: str = "rn") -> NDArray[np.float16]:
    """Round float32 to float16, to nearest even, towards zero, down or up, with the canonical NaN."""
    result = x.astype(np.float16)
    if mode != "rn":
        residual = np.where(np.isfinite(x), x.astype(np.float64) - result.astype(np.float64), 0.0)
        result = directed(result, residual, mode)
    result.view(np.uint16)[np.isnan(result)] = NAN16
    return result


def narrow_fma(a: Singles, b: Singles, c: Singles) -> Singles:
    """Return a * b + c of half-precision values (widened to float32) as a float32 rounded to odd.

    Rounding that to f16 or bf16 equals a single rounding: single precision has over two bits more than either.
    """
    return fma32_directed(a, b, c, "odd")
