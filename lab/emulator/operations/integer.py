"""Integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lab.emulator.arrays import Integers
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm
from lab.emulator.operations.base import Alu, assign, from_ufunc, operation
from lab.emulator.primitives import delegate

_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")


def integer_type(op: Opcode, types: tuple[str, ...] = _INTEGERS) -> str:
    """Consume the type, which must be an integer type."""
    return op.one_of(types)


_PACKED = ("u16x2", "s16x2")


def _halves(x: Integers, t: str) -> tuple[Integers, Integers]:
    """Return the lower and upper halves of words, extended to 32 bits."""
    bits = np.ascontiguousarray(x)
    pairs = bits.view(np.int16 if t[0] == "s" else np.uint16).astype(np.int32).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _pairwise(t: str, compute: Callable[[Integers, Integers], Integers]) -> Alu:
    """Build an operation on pairs of 16-bit integers from one on their values."""

    def compute_pairs(a: Integers, b: Integers) -> Integers:
        low, high = (compute(x, y) for x, y in zip(_halves(a, t), _halves(b, t), strict=True))
        return (low & 0xFFFF).astype(np.uint32) | ((high & 0xFFFF).astype(np.uint32) << np.uint32(16))

    return Alu(assign(compute_pairs), (t,), (t, t))


def extremum(op: Opcode, *, largest: bool) -> Alu:
    """Build min and max of integers and pairs of integers; `.relu` clamps negative results to zero."""
    relu = op.flag("relu")
    t = op.one_of((*_INTEGERS, *_PACKED))
    op.finish()
    if relu and t not in ("s32", "s16x2"):
        raise UnknownForm(f".relu.{t}")
    choose: Callable[..., Integers] = np.maximum if largest else np.minimum
    if t in _PACKED:
        return _pairwise(t, lambda a, b: np.maximum(choose(a, b), 0) if relu else choose(a, b))
    if relu:
        return Alu(assign(lambda a, b: np.maximum(choose(a, b), 0)), (t,), (t, t))
    return Alu(from_ufunc(choose), (t,), (t, t))


def add_sub(op: Opcode) -> Alu:
    """Build add, sub, and the carry forms add.cc, addc, sub.cc and subc."""
    if op.family == "add" and any(modifier in _PACKED for modifier in op.parts):
        packed = op.one_of(_PACKED)
        op.finish()
        return _pairwise(packed, lambda a, b: a + b)
    subtract = op.family in ("sub", "subc")
    carry_in, carry_out = op.family in ("addc", "subc"), op.flag("cc")
    saturating = op.flag("sat")
    t = integer_type(op)
    if saturating and t != "s32":
        raise UnknownForm(".sat needs .s32")
    op.finish()
    if carry_in or carry_out:
        return _with_carry(t, subtract=subtract, carry_in=carry_in, carry_out=carry_out)
    if saturating:
        ufunc = np.subtract if subtract else np.add

        def saturated(a: Integers, b: Integers) -> Integers:
            return np.clip(ufunc(a, b, dtype=np.int64), -(2**31), 2**31 - 1).astype(np.int32)

        return Alu(assign(saturated), (t,), (t, t))
    return Alu(from_ufunc(np.subtract if subtract else np.add), (t,), (t, t))


def _with_carry(t: str, *, subtract: bool, carry_in: bool, carry_out: bool) -> Alu:
    """Build arithmetic on the carry flag, an extra operand added by the binder.

    The hardware subtracts by adding the complement and one. So `sub.cc` sets the flag if there was no borrow, and
    `subc` expects that; code that mixes additions and subtractions depends on it.
    """
    unsigned = "u" + t[1:]

    def compute(*arrays: Integers) -> None:
        outs, ins = arrays[: 1 + carry_out], arrays[1 + carry_out :]
        a, b = ins[0], ~ins[1] if subtract else ins[1]
        extra = ins[2].astype(a.dtype) if carry_in else a.dtype.type(subtract)
        partial_sum = a + b
        total = partial_sum + extra
        carry = (partial_sum < a) | (total < partial_sum)
        outs[0][...] = total
        if carry_out:
            outs[1][...] = carry

    return Alu(compute, (unsigned, "pred")[: 1 + carry_out], (unsigned, unsigned) + (("pred",) if carry_in else ()))


def high_product(a: Integers, b: Integers) -> Integers:
    """Return the upper half of the product, for 16 to 64 bits, signed or unsigned."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:  # noqa: PLR2004  the widest type
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return (np.multiply(a, b, dtype=wide) >> wide(bits)).astype(a.dtype)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    al, ah, bl, bh = ua & low, ua >> half, ub & low, ub >> half
    middle = ah * bl + ((al * bl) >> half)
    cross = al * bh + (middle & low)
    high = ah * bh + (middle >> half) + (cross >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
    result: Integers = high.view(a.dtype)
    return result


def _wider(t: str) -> str:
    """Return the type of a product of twice the width."""
    if t not in _WIDER:
        raise UnknownForm(f".wide of .{t}")
    return _WIDER[t]


def mul(op: Opcode) -> Alu:
    """Build mul.lo, mul.hi and mul.wide."""
    product_part = op.one_of(("lo", "hi", "wide"))
    t = integer_type(op)
    op.finish()
    if product_part == "lo":
        return Alu(from_ufunc(np.multiply), (t,), (t, t))
    if product_part == "hi":
        return Alu(assign(high_product), (t,), (t, t))
    wide = _wider(t)

    def compute(out: Integers, a: Integers, b: Integers) -> None:
        np.multiply(a, b, out=out, dtype=out.dtype)

    return Alu(compute, (wide,), (t, t))


def mad(op: Opcode) -> Alu:
    """Build mad.lo, mad.hi, mad.wide and the carry forms."""
    product_part = op.one_of(("lo", "hi", "wide"))
    carry_in, carry_out = op.family == "madc", op.flag("cc")
    saturating = op.flag("sat")
    t = integer_type(op)
    op.finish()
    if saturating:
        if (product_part, t) != ("hi", "s32") or carry_in or carry_out:
            raise UnknownForm(".sat needs .hi.s32")
        return Alu(assign(_saturated_high_sum), (t,), (t, t, t))
    if carry_in or carry_out:
        return _mad_with_carry(t, product_part, carry_in=carry_in, carry_out=carry_out)
    if product_part == "wide":
        wide = DTYPES[_wider(t)]

        def widened(out: Integers, a: Integers, b: Integers, c: Integers) -> None:
            np.add(np.multiply(a, b, dtype=wide), c, out=out)

        return Alu(widened, (_wider(t),), (t, t, _WIDER[t]))
    multiply: Callable[[Integers, Integers], Integers] = np.multiply if product_part == "lo" else high_product

    def compute(out: Integers, a: Integers, b: Integers, c: Integers) -> None:
        np.add(multiply(a, b), c, out=out)

    return Alu(compute, (t,), (t, t, t))


def _saturated_high_sum(a: Integers, b: Integers, c: Integers) -> Integers:
    """Return the upper half of a * b, plus c, clamped to s32."""
    total = (np.multiply(a, b, dtype=np.int64) >> 32) + c
    clamped: Integers = np.clip(total, -(2**31), 2**31 - 1).astype(np.int32)
    return clamped


def _mad_with_carry(t: str, product_part: str, *, carry_in: bool, carry_out: bool) -> Alu:
    if product_part == "wide":
        raise UnknownForm(".wide with a carry")
    adder = _with_carry(t, subtract=False, carry_in=carry_in, carry_out=carry_out)
    dtype = DTYPES[t]

    def compute(*arrays: Integers) -> None:
        outs, (a, b, *carry) = arrays[: 1 + carry_out], arrays[1 + carry_out :]
        product = np.multiply(a, b) if product_part == "lo" else high_product(a.view(dtype), b.view(dtype))
        adder.compute(*outs, product.view(a.dtype), *carry)

    return Alu(compute, adder.outs, (adder.ins[0], *adder.ins))


operation("addc", "subc")(lambda op, _n: add_sub(op))
operation("madc")(lambda op, _n: mad(op))


@operation("mul24", "mad24")
def mul24(op: Opcode, _n: int) -> Alu:
    """Build 24-bit products: the operands' low 24 bits, sign-extended for .s32."""
    product_part = op.one_of(("lo", "hi"))
    saturating = op.flag("sat")
    t = op.one_of(("u32", "s32"))
    op.finish()
    if saturating and (op.family, product_part, t) != ("mad24", "hi", "s32"):
        raise UnknownForm(".sat needs mad24.hi.s32")
    wide = np.int64 if t == "s32" else np.uint64

    def product(a: Integers, b: Integers) -> Integers:
        full = np.multiply((a << 8) >> 8, (b << 8) >> 8, dtype=wide)
        result: Integers = (full if product_part == "lo" else full >> wide(16)).astype(a.dtype)
        return result

    if op.family == "mul24":
        return Alu(assign(product), (t,), (t, t))
    if saturating:
        return Alu(
            assign(lambda a, b, c: np.clip(product(a, b).astype(np.int64) + c, -(2**31), 2**31 - 1).astype(np.int32)),
            (t,),
            (t, t, t),
        )
    return Alu(assign(lambda a, b, c: product(a, b) + c), (t,), (t, t, t))


def quotient(a: Integers, b: Integers) -> Integers:
    """Return the quotient, rounded towards zero; all ones for a zero divisor, as on hardware."""
    if type(a) is not np.ndarray or type(b) is not np.ndarray:
        return delegate("quotient", a, b)
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        result = a // safe
    else:
        floor, remainder = np.divmod(a, safe)
        result = floor + ((remainder != 0) & ((a < 0) != (safe < 0)))
        minus_one = np.broadcast_to(safe == -1, result.shape)
        result = np.where(minus_one, np.negative(a), result)  # the least integer wraps
    return np.where(zero, b.dtype.type(-1) if a.dtype.kind == "i" else ~b.dtype.type(0), result)


def div(op: Opcode) -> Alu:
    """Build integer division."""
    t = integer_type(op)
    op.finish()
    return Alu(assign(quotient), (t,), (t, t))


@operation("rem")
def rem(op: Opcode, _n: int) -> Alu:
    """Build the remainder with the dividend's sign; it is a itself for a zero divisor."""
    t = integer_type(op)
    op.finish()

    def compute(a: Integers, b: Integers) -> Integers:
        return np.where(b == 0, a, a - quotient(a, np.where(b == 0, b.dtype.type(1), b)) * b)

    return Alu(assign(compute), (t,), (t, t))


@operation("sad")
def sad(op: Opcode, _n: int) -> Alu:
    """Build c + |a - b|."""
    t = integer_type(op)
    op.finish()
    return Alu(assign(lambda a, b, c: c + np.where(a < b, b - a, a - b)), (t,), (t, t, t))
