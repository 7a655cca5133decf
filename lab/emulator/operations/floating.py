"""Floating-point arithmetic in f32, f64, f16 and bf16, and the special functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lab.emulator import floats
from lab.emulator.arrays import Bits, Doubles, Floats, Halves, Mask, Numbers, Singles
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations import integer
from lab.emulator.operations.base import Alu, assign, from_ufunc, operation
from lab.emulator.primitives import delegate

_Floating = TypeVar("_Floating", bound=np.floating[Any])

ROUNDINGS = ("rn", "rz", "rm", "rp")
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_FLOATS = ("f32", "f64", *_HALVES)
_PAIR = "f32x2"


def _modifiers(op: Opcode, t: str) -> tuple[str, bool, bool]:
    """Consume an operation's rounding (nearest by default), `.ftz` and `.sat`; reject other modifiers."""
    mode, ftz, sat = op.one_of(ROUNDINGS, "rn"), op.flag("ftz"), op.flag("sat")
    op.parts.remove(t)
    op.finish()
    return mode, ftz, sat


def _float_type(op: Opcode) -> str | None:
    """Return the floating-point type among the parts; None for an integer operation."""
    return next((modifier for modifier in op.parts if modifier in _FLOATS), None)


def _finish32(result: Singles, *, ftz: bool, sat: bool) -> Singles:
    """Apply `.ftz`, `.sat` and the canonical NaN."""
    if ftz:
        result = floats.flush32(result)
    if sat:
        floats.saturate(result)
    floats.canonical32(result)
    return result


def _single(compute: Callable[..., Singles], count: int, *, ftz: bool, sat: bool = False) -> Alu:
    """Build a function of `count` float32 arrays, with `.ftz`, `.sat` and the canonical NaN."""

    def write(out: Singles, *ins: Singles) -> None:
        if ftz:
            ins = tuple(floats.flush32(x) for x in ins)
        out[...] = _finish32(compute(*ins), ftz=ftz, sat=sat)

    return Alu(write, ("f32",), ("f32",) * count, loose=True, tolerant=True)


def _double(compute: Callable[..., Doubles], count: int) -> Alu:
    """Build a function of `count` float64 arrays, with the canonical NaN."""

    def write(out: Doubles, *ins: Doubles) -> None:
        np.copyto(out, compute(*ins))
        floats.canonical64(out)

    return Alu(write, ("f64",), ("f64",) * count, loose=True, tolerant=True)


def half_operation(
    t: str, compute: Callable[..., Singles], *, sat: bool = False, relu: bool = False, ftz: bool = False
) -> Callable[..., None]:
    """Wrap a float32 function with results rounded to odd, for f16 and bf16.

    Packed types process both halves.

    Args:
        t: `f16`, `bf16`, or a packed pair of them.
        compute: The function.
        sat: Clamp to [0, 1].
        relu: Clamp negative results to 0.
        ftz: Flush subnormal sources and results to zero.
    """
    bf16, packed = t.startswith("bf16"), t.endswith("x2")

    def apply_half(*ins: Halves) -> Halves:
        wide = [floats.bf16_to_32(x) if bf16 else x.view(np.float16).astype(np.float32) for x in ins]
        if ftz:
            wide = [np.where(np.abs(x) < 2.0**-14, np.copysign(np.float32(0), x), x) for x in wide]
        result = compute(*wide)
        if sat:
            floats.saturate(result)
        if relu:
            result = np.where(result < 0, np.float32(0), result)
        if bf16:
            return floats.f32_to_bf16(result)
        narrow = floats.f32_to_f16(result)
        if ftz:
            narrow = np.where(np.abs(narrow) < np.float16(2.0**-14), np.copysign(np.float16(0), narrow), narrow)
        return narrow.view(np.uint16)

    def write(out: Numbers, *ins: Bits) -> None:
        if not packed:
            out[...] = apply_half(*(np.ascontiguousarray(x).view(np.uint16) for x in ins)).view(out.dtype)
            return
        low = apply_half(*(x.astype(np.uint16) for x in ins)).astype(np.uint32)
        high = apply_half(*((x >> np.uint32(16)).astype(np.uint16) for x in ins)).astype(np.uint32)
        np.bitwise_or(low, high << np.uint32(16), out=out)

    return write


def _half(op: Opcode, t: str, compute: Callable[..., Singles], inputs: int) -> Alu:
    """Build an operation on halves; `compute` as in `half_operation`."""
    op.one_of(("rn",), "rn")
    ftz, sat, relu = op.flag("ftz"), op.flag("sat"), op.flag("relu")
    op.parts.remove(t)
    op.finish()
    if t.startswith("bf16") and (ftz or sat):
        raise UnknownForm(".ftz or .sat on bf16")
    return Alu(half_operation(t, compute, sat=sat, relu=relu, ftz=ftz), (t,), (t,) * inputs)


def _odd_add(a: Singles, b: Singles) -> Singles:
    return floats.fma32_directed(a, np.ones(1, np.float32), b, "odd")


def _odd_mul(a: Singles, b: Singles) -> Singles:
    return floats.mul32_directed(a, b, "odd")


def _pairwise(op: Opcode, build: Callable[[Opcode, int], Alu]) -> Alu:
    """Build an `f32x2` operation from the float32 one."""
    op.parts[op.parts.index(_PAIR)] = "f32"
    if op.flag("sat"):
        raise UnknownForm(".sat on f32x2")
    single = build(op, 0)

    def compute(out: Bits, *ins: Bits) -> None:
        for i in range(2):  # the lower single of each, then the upper one
            result = np.empty(out.shape, np.float32)
            single.compute(result, *(_of_pair(x, i) for x in ins))
            out.view(np.float32)[i::2] = result

    def apart(out: Bits, *ins: Bits) -> None:
        result = np.empty(out.shape, np.uint64)  # an operand may be the destination
        compute(result, *ins)
        out[...] = result

    return Alu(apart, (_PAIR,), (_PAIR,) * len(single.ins))


def _of_pair(x: Bits, i: int) -> Singles:
    return np.ascontiguousarray(x).view(np.float32)[i::2].copy()


def _mixed(op: Opcode) -> str:
    """Return the narrow type of a mixed operation such as `add.f32.f16`; empty for others."""
    narrow = [modifier for modifier in op.parts if modifier in ("f16", "bf16")]
    return narrow[0] if "f32" in op.parts and narrow else ""


def _with_narrow_first(op: Opcode, narrow: str, build: Callable[[Opcode, int], Alu], count: int) -> Alu:
    """Build a float32 operation whose first sources are half-precision numbers, which are widened."""
    op.parts.remove(narrow)
    single = build(op, 0)

    def widened(x: Any) -> Singles:  # noqa: ANN401  halves, or bits of bfloat16
        return floats.bf16_to_32(x) if narrow == "bf16" else x.astype(np.float32)

    def compute(out: Singles, *ins: Any) -> None:  # noqa: ANN401  halves and singles
        single.compute(out, *(widened(x) for x in ins[:count]), *ins[count:])

    return replace(single, compute=compute, ins=(narrow,) * count + single.ins[count:])


def _pairs_or_mixed(op: Opcode, build: Callable[[Opcode, int], Alu], narrow: int) -> Alu | None:
    """Build an f32x2 operation, or one whose first `narrow` sources are halves; None for others."""
    if _PAIR in op.parts:
        return _pairwise(op, build)
    mixed = _mixed(op)
    return _with_narrow_first(op, mixed, build, narrow) if mixed else None


@operation("add", "sub")
def add_sub(op: Opcode, _n: int) -> Alu:
    """Build addition and subtraction of every type."""
    return _pairs_or_mixed(op, _add_sub, 1) or _add_sub(op, 0)


def _add_sub(op: Opcode, _n: int) -> Alu:
    t = _float_type(op)
    if t is None:
        return integer.add_sub(op)
    subtract = op.family == "sub"
    if t in _HALVES:
        return _half(op, t, (lambda a, b: _odd_add(a, -b)) if subtract else _odd_add, 2)
    mode, ftz, sat = _modifiers(op, t)
    ufunc = np.subtract if subtract else np.add
    if t == "f64":
        if mode == "rn":
            return _double(ufunc, 2)
        return _double(lambda a, b: floats.each64("add", mode, a, -b if subtract else b), 2)
    if mode == "rn":
        return _single(ufunc, 2, ftz=ftz, sat=sat)
    return _single(lambda a, b: floats.add32_directed(a, -b if subtract else b, mode), 2, ftz=ftz, sat=sat)


@operation("mul")
def mul(op: Opcode, _n: int) -> Alu:
    """Build multiplication of every type."""
    if _PAIR in op.parts:
        return _pairwise(op, mul)
    t = _float_type(op)
    if t is None:
        return integer.mul(op)
    if t in _HALVES:
        return _half(op, t, _odd_mul, 2)
    mode, ftz, sat = _modifiers(op, t)
    if t == "f64":
        if mode == "rn":
            return _double(np.multiply, 2)
        return _double(lambda a, b: floats.each64("mul", mode, a, b), 2)
    compute = np.multiply if mode == "rn" else lambda a, b: floats.mul32_directed(a, b, mode)
    return _single(compute, 2, ftz=ftz, sat=sat)


@operation("fma", "mad")
def fma(op: Opcode, _n: int) -> Alu:
    """Build the fused multiply-add; `mad` on floats is the same operation on every current target."""
    return _pairs_or_mixed(op, _fma, 2) or _fma(op, 0)


def _fma(op: Opcode, _n: int) -> Alu:
    t = _float_type(op)
    if t is None:
        return integer.mad(op)
    if t in _HALVES:
        return _half(op, t, floats.narrow_fma, 3)
    mode, ftz, sat = _modifiers(op, t)
    if t == "f64":
        if mode == "rn":
            return Alu(floats.fma64, (t,), (t, t, t), loose=True, tolerant=True)
        return _double(lambda a, b, c: floats.each64("fma", mode, a, b, c), 3)
    if mode == "rn" and not ftz and not sat:
        return Alu(floats.fma32, (t,), (t, t, t), loose=True, tolerant=True)
    compute = floats.fused32 if mode == "rn" else lambda a, b, c: floats.fma32_directed(a, b, c, mode)
    return _single(compute, 3, ftz=ftz, sat=sat)


def _approximate_division(a: Singles, b: Singles) -> Singles:
    """Return div.approx.f32: for |b| above 2^126 the quotient is 0, or NaN if a is infinite."""
    result = np.divide(a, b)
    big = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    return np.where(big, np.where(np.isinf(a), np.float32(np.nan), np.copysign(np.float32(0), result)), result)


@operation("div")
def div(op: Opcode, _n: int) -> Alu:
    """Build division; `.approx` and `.full` are rounded correctly, well within their 2 ulp."""
    t = _float_type(op)
    if t is None:
        return integer.div(op)
    mode = op.one_of((*ROUNDINGS, "approx", "full"))
    ftz = op.flag("ftz")
    op.one_of(("f32", "f64"))
    op.finish()
    if t == "f64":
        compute = np.divide if mode == "rn" else lambda a, b: floats.each64("div", mode, a, b)
        return _double(compute, 2)
    forms: dict[str, Callable[..., Singles]] = {"rn": np.divide, "full": np.divide, "approx": _approximate_division}
    single = forms.get(mode) or (lambda a, b: floats.div32_directed(a, b, mode))
    # The sign of div.approx's zeros is that of the quotient, a NaN's included.
    return replace(_single(single, 2, ftz=ftz), tolerant=mode != "approx")


@operation("rcp", "sqrt")
def rcp_sqrt(op: Opcode, _n: int) -> Alu:
    """Build the reciprocal and the square root."""
    mode = op.one_of((*ROUNDINGS, "approx"))
    ftz = op.flag("ftz")
    t = op.one_of(("f32", "f64"))
    op.finish()
    root = op.family == "sqrt"
    if mode == "approx" and t == "f64":
        if root or not ftz:
            raise UnknownForm("this form in f64")
        # rcp.approx.ftz.f64 works on the upper 32 bits: a result of 20 bits, the lower word zero.
        return _double(lambda a: _upper_word(np.divide(1.0, _upper_word(a))), 1)
    if t == "f64":
        if mode == "rn":
            return _double(np.sqrt if root else lambda a: np.divide(1.0, a), 1)
        numerator = np.ones(1)
        directed = (
            (lambda a: floats.each64("sqrt", mode, a)) if root else lambda a: floats.each64("div", mode, numerator, a)
        )
        return _double(directed, 1)
    unit = np.ones(1, np.float32)
    nearest = np.sqrt if root else lambda a: np.divide(unit, a)
    if mode in ("rn", "approx"):
        return _single(nearest, 1, ftz=ftz)
    directed_single = (
        (lambda a: floats.sqrt32_directed(a, mode)) if root else lambda a: floats.div32_directed(unit, a, mode)
    )
    return _single(directed_single, 1, ftz=ftz)


def _upper_word(x: Doubles) -> Doubles:
    """Return doubles with the lower 32 bits cleared."""
    return (x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


SPECIAL_FUNCTIONS: dict[str, Callable[[Doubles], Doubles]] = {
    "rsqrt": lambda a: np.divide(1.0, np.sqrt(a)),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}
"""The special functions in double precision, before rounding."""


@operation(*SPECIAL_FUNCTIONS)
def special(op: Opcode, _n: int) -> Alu:
    """Build the special functions, computed in double precision and rounded, within documented errors."""
    op.one_of(("approx",))
    ftz = op.flag("ftz")
    t = op.one_of(_FLOATS)
    op.finish()
    function = SPECIAL_FUNCTIONS[op.family]

    def compute(a: Singles) -> Singles:
        if type(a) is not np.ndarray and op.family != "rsqrt":
            return delegate("special32", a, name=op.family)
        return function(a.astype(np.float64)).astype(np.float32)

    if t in _HALVES:
        if op.family not in ("ex2", "tanh"):
            raise UnknownForm("half precision")

        return Alu(half_operation(t, compute), (t,), (t,))
    if t == "f64":
        if op.family != "rsqrt":
            raise UnknownForm("f64")
        # rsqrt.approx.ftz.f64 works on the upper 32 bits, as rcp.approx.ftz.f64 does
        computed = (lambda a: _upper_word(function(_upper_word(a)))) if ftz else function
        return _double(computed, 1)
    return _single(compute, 1, ftz=ftz)


@operation("neg", "abs")
def sign(op: Opcode, _n: int) -> Alu:
    """Build negation and absolute value; on floats they only change the sign bit."""
    t = _float_type(op)
    negate = op.family == "neg"
    if t is None:
        t = op.one_of(("s16", "s32", "s64"))
        op.finish()
        return Alu(from_ufunc(np.negative if negate else np.absolute), (t,), (t,))
    ftz = op.flag("ftz")
    op.parts.remove(t)
    op.finish()
    if t in ("f32", "f64"):
        ufunc = np.negative if negate else np.absolute
        if ftz:
            return Alu(assign(lambda a: ufunc(floats.flush32(a))), (t,), (t,))
        return Alu(from_ufunc(ufunc), (t,), (t,))
    if ftz and t.startswith("bf16"):
        raise UnknownForm(".ftz on bf16")
    bits = "b32" if t.endswith("x2") else "b16"
    mask = 0x80008000 if t.endswith("x2") else 0x8000

    def halves(a: Bits) -> Bits:
        if ftz:
            a = floats.flush16(np.ascontiguousarray(a).view(np.float16)).view(a.dtype)
        return a ^ a.dtype.type(mask) if negate else a & ~a.dtype.type(mask)

    return Alu(assign(halves), (bits,), (bits,))


@operation("copysign")
def copysign(op: Opcode, _n: int) -> Alu:
    """Build b with the sign of a."""
    t = op.one_of(("f32", "f64"))
    op.finish()
    return Alu(assign(lambda a, b: np.copysign(b, a)), (t,), (t, t))


def float_extremum(
    a: NDArray[_Floating], b: NDArray[_Floating], *, largest: bool, nan: bool = False
) -> NDArray[_Floating]:
    """Return min or max: -0 is less than +0; a NaN yields the other operand, or NaN if `nan` is set."""
    if type(a) is not np.ndarray:
        return delegate("float_extremum", a, b, largest=largest, nan=nan)
    propagating, ignoring = (np.maximum, np.fmax) if largest else (np.minimum, np.fmin)
    result: NDArray[_Floating] = (propagating if nan else ignoring)(a, b)
    lost = np.isnan(result)
    if not nan and lost.any():  # NumPy takes a signalling NaN over a number, in some places of an array
        result = np.where(lost, np.where(np.isnan(a), b, a), result)
    zeros = (a == b) & (result == 0)
    if zeros.any():
        negative = np.signbit(a) & np.signbit(b) if largest else np.signbit(a) | np.signbit(b)
        signed = np.where(negative, a.dtype.type(-0.0), a.dtype.type(0.0))
        result = np.where(zeros, signed, result)
    return result


@operation("min", "max")
def extremum(op: Opcode, n: int) -> Alu:
    """Build min and max of every type."""
    largest = op.family == "max"
    t = _float_type(op)
    if t is None:
        return integer.extremum(op, largest=largest)
    ftz, nan = op.flag("ftz"), op.flag("NaN")
    exclusive, absolute = op.flag("xorsign"), op.flag("abs")
    op.parts.remove(t)
    op.finish()
    three = n == 4  # noqa: PLR2004  destination and three sources
    if (exclusive and (not absolute or three)) or (three and t != "f32") or (t == "f64" and (ftz or nan or absolute)):
        raise UnknownForm("this form with this type")
    if absolute and not exclusive and not three:
        raise UnknownForm(".abs with two sources")
    if ftz and t.startswith("bf16"):
        raise UnknownForm(".ftz on bf16")

    def compute(a: NDArray[_Floating], b: NDArray[_Floating]) -> NDArray[_Floating]:
        if not absolute:
            return float_extremum(a, b, largest=largest, nan=nan)
        magnitude = float_extremum(np.abs(a), np.abs(b), largest=largest, nan=nan)
        if not exclusive:
            return magnitude
        negative = (np.signbit(a) != np.signbit(b)) & ~np.isnan(magnitude)
        return np.where(negative, -magnitude, magnitude)

    def of_three(a: Singles, b: Singles, c: Singles) -> Singles:
        return compute(compute(a, b), c)

    if t == "f64":
        return _double(compute, 2)
    if t == "f32":
        return _single(of_three if three else compute, 3 if three else 2, ftz=ftz)
    return Alu(half_operation(t, compute, ftz=ftz), (t,), (t, t))


@operation("testp")
def testp(op: Opcode, _n: int) -> Alu:
    """Build tests of a float's kind."""
    kind = op.one_of(("finite", "infinite", "number", "notanumber", "normal", "subnormal"))
    t = op.one_of(("f32", "f64"))
    op.finish()
    least = 2.0**-126 if t == "f32" else 2.0**-1022
    tests: dict[str, Callable[[Floats], Mask]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= least),
        "subnormal": lambda a: (np.abs(a) < least) & (a != 0),
    }
    return Alu(assign(tests[kind]), ("pred",), (t,), tolerant=True)
