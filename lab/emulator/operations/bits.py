"""Logic, shifts, bit fields, byte permutation and dot products of packed integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from lab.emulator.arrays import Integers, Mask
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm
from lab.emulator.operations.base import Alu, assign, from_ufunc, operation
from lab.emulator.primitives import delegate

_WORD_BITS = 32
_INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")


@operation("and", "or", "xor")
def logic(op: Opcode, _n: int) -> Alu:
    """Build bitwise logic, on predicates too."""
    t = op.one_of(("pred", "b16", "b32", "b64"))
    op.finish()
    ufunc = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op.family]
    return Alu(from_ufunc(ufunc), (t,), (t, t))


@operation("not")
def complement(op: Opcode, _n: int) -> Alu:
    """Build the complement."""
    t = op.one_of(("pred", "b16", "b32", "b64"))
    op.finish()
    return Alu(from_ufunc(np.invert), (t,), (t,))


@operation("cnot")
def cnot(op: Opcode, _n: int) -> Alu:
    """Build C's logical not."""
    t = op.one_of(("b16", "b32", "b64"))
    op.finish()
    return Alu(assign(lambda a: a == 0), (t,), (t,))


@operation("lop3")
def lop3(op: Opcode, n: int) -> Alu:
    """Build three-input logic; the table is the last operand."""
    boolean = op.one_of(("or", "and"), "")
    t = op.one_of(("b32",))
    op.finish()
    if boolean:
        return _lop3_with_predicate(boolean, n)

    return Alu(assign(three_inputs), (t,), (t, t, t, "u32"))


def three_inputs(a: Integers, b: Integers, c: Integers, table: Integers) -> Integers:
    """Return, for each bit of three words, the table bit their bits select."""
    if type(table) is not np.ndarray:  # the compiled engine's
        raise UnknownForm("a table that is not a literal")
    bits = int(table.flat[0])
    pairs = [(~word, word) for word in (a, b, c)]
    cases = [case for case in range(8) if bits >> case & 1]
    terms = [pairs[0][case >> 2] & pairs[1][case >> 1 & 1] & pairs[2][case & 1] for case in cases]
    return reduce(or_, terms) if terms else a & b & c & np.uint32(0)


def _lop3_with_predicate(boolean: str, n: int) -> Alu:
    """Build lop3.or.b32 d|p, a, b, c, table, q: p is (d != 0) combined with q."""
    combine = np.logical_or if boolean == "or" else np.logical_and
    if n != 7:  # noqa: PLR2004  two destinations and five sources
        raise UnknownForm(f"{n} operands")

    def compute(d: Integers, p: Mask, *ins: Any) -> None:  # noqa: ANN401  four words and a predicate
        *words, q = ins
        result = three_inputs(*words)
        d[...] = result
        p[...] = combine(result != 0, q)

    return Alu(compute, ("b32", "pred"), ("b32", "b32", "b32", "u32", "pred"))


def shift_left(a: Integers, amount: Integers) -> Integers:
    """Shift left; amounts of the width and beyond give zero."""
    width = 8 * a.dtype.itemsize
    shifted = np.left_shift(a, np.minimum(amount, np.uint32(width - 1)).astype(a.dtype))
    result: Integers = np.where(amount < width, shifted, a.dtype.type(0)) if amount.max(initial=0) >= width else shifted
    return result


def shift_right(a: Integers, amount: Integers) -> Integers:
    """Shift right; amounts of the width and beyond give zero or the sign."""
    width = 8 * a.dtype.itemsize
    shifted = np.right_shift(a, np.minimum(amount, np.uint32(width - 1)).astype(a.dtype))
    if a.dtype.kind == "u" and amount.max(initial=0) >= width:
        shifted = np.where(amount < width, shifted, a.dtype.type(0))
    result: Integers = shifted
    return result


@operation("shl", "shr")
def shift(op: Opcode, _n: int) -> Alu:
    """Build shifts with clamped amounts."""
    t = op.one_of(("b16", "b32", "b64") if op.family == "shl" else ("b16", "b32", "b64", *_INTEGERS))
    op.finish()
    return Alu(assign(shift_left if op.family == "shl" else shift_right), (t,), (t, "u32"))


@operation("shf")
def funnel(op: Opcode, _n: int) -> Alu:
    """Build funnel shifts of the pair (b, a), with b as the upper half."""
    left = op.one_of(("l", "r")) == "l"
    wrap = op.one_of(("wrap", "clamp")) == "wrap"
    t = op.one_of(("b32",))
    op.finish()

    def compute(a: Integers, b: Integers, c: Integers) -> Integers:
        n = (c & np.uint32(31) if wrap else np.minimum(c, np.uint32(32))).astype(np.uint64)
        pair = (b.astype(np.uint64) << np.uint64(32)) | a
        if left:
            return ((pair << n) >> np.uint64(32)).astype(np.uint32)
        return (pair >> n).astype(np.uint32)

    return Alu(assign(compute), (t,), (t, t, "u32"))


@operation("popc")
def popc(op: Opcode, _n: int) -> Alu:
    """Build the count of set bits."""
    t = op.one_of(("b32", "b64"))
    op.finish()
    return Alu(assign(np.bitwise_count), ("u32",), (t,))


def highest_bit(a: Integers) -> Integers:
    """Return the position of the highest set bit of unsigned values, -1 for zero."""
    if type(a) is not np.ndarray:
        return delegate("highest_bit", a)
    wide = a.astype(np.uint64)
    top = np.full(wide.shape, -1, np.int32)
    for step in (32, 16, 8, 4, 2, 1):
        big = wide >= np.uint64(1 << step)
        top[big] += step
        wide = np.where(big, wide >> np.uint64(step), wide)
    return np.where(wide > 0, top + 1, np.int32(-1)).astype(np.int32)


@operation("clz")
def clz(op: Opcode, _n: int) -> Alu:
    """Build the count of leading zeros."""
    t = op.one_of(("b32", "b64"))
    op.finish()
    top = np.int32(int(t[1:]) - 1)
    return Alu(assign(lambda a: top - highest_bit(a)), ("s32",), (t,))


@operation("bfind")
def bfind(op: Opcode, _n: int) -> Alu:
    """Build the search for the highest bit that differs from the sign."""
    amount = op.flag("shiftamt")
    t = op.one_of(("u32", "s32", "u64", "s64"))
    op.finish()
    top = int(t[1:]) - 1

    def compute(a: Integers) -> Integers:
        bits = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
        position = highest_bit(bits.astype(a.dtype).view(f"u{a.dtype.itemsize}"))
        return np.where(position < 0, position, top - position) if amount else position

    return Alu(assign(compute), ("s32",), (t,))


@operation("brev")
def brev(op: Opcode, _n: int) -> Alu:
    """Build the reversal of bits."""
    t = op.one_of(("b32", "b64"))
    op.finish()

    return Alu(assign(reversed_bits), (t,), (t,))


def reversed_bits(a: Integers) -> Integers:
    """Return words with their bits in reverse order."""
    if type(a) is not np.ndarray:
        return delegate("reversed_bits", a)
    x = np.ascontiguousarray(a).byteswap()
    for mask, step in ((0x0F, 4), (0x33, 2), (0x55, 1)):
        m = x.dtype.type(int.from_bytes(bytes([mask]) * x.dtype.itemsize))
        s = x.dtype.type(step)
        x = ((x & m) << s) | ((x >> s) & m)
    return x


@operation("bfe")
def bfe(op: Opcode, _n: int) -> Alu:
    """Build bit-field extraction; the signed form extends the field's last bit within the word."""
    t = op.one_of(("u32", "s32", "u64", "s64"))
    op.finish()
    width = int(t[1:])
    unsigned, signed = DTYPES["u" + t[1:]], DTYPES["s" + t[1:]]

    def compute(a: Integers, b: Integers, c: Integers) -> Integers:
        position, length = b & np.uint32(255), c & np.uint32(255)
        field = shift_right(a.view(unsigned), position)
        keep = ~shift_left(np.full(1, -1, signed).view(unsigned), length)
        field = field & keep
        if t[0] == "u":
            return field
        last = np.minimum(position + length - np.uint32(1), np.uint32(width - 1))
        negative = (shift_right(a.view(unsigned), last) & unsigned.type(1) != 0) & (length != 0)
        above = ~keep
        clipped = position + length > width  # bits from beyond the word are copies of its sign
        above = np.where(
            clipped,
            shift_left(np.full(1, -1, signed).view(unsigned), width - np.minimum(position, np.uint32(width))),
            above,
        )
        return np.where(negative, field | above, field).astype(unsigned).view(signed)

    return Alu(assign(compute), (t,), (t, "u32", "u32"))


@operation("bfi")
def bfi(op: Opcode, _n: int) -> Alu:
    """Build the insertion of a's low bits into b."""
    t = op.one_of(("b32", "b64"))
    op.finish()
    all_ones = np.full(1, -1, DTYPES["s" + t[1:]]).view(DTYPES[t])

    def compute(a: Integers, b: Integers, c: Integers, d: Integers) -> Integers:
        position, length = c & np.uint32(255), d & np.uint32(255)
        mask = shift_left(~shift_left(all_ones, length), position)
        return (shift_left(a, position) & mask) | (b & ~mask)

    return Alu(assign(compute), (t,), (t, t, "u32", "u32"))


@operation("bmsk")
def bmsk(op: Opcode, _n: int) -> Alu:
    """Build a mask of b bits from position a."""
    wrap = op.one_of(("clamp", "wrap")) == "wrap"
    t = op.one_of(("b32",))
    op.finish()
    all_ones = np.full(1, 0xFFFFFFFF, np.uint32)

    def compute(a: Integers, b: Integers) -> Integers:
        if wrap:
            a, b = a & np.uint32(31), b & np.uint32(31)
        return shift_left(~shift_left(all_ones, b), a)

    return Alu(assign(compute), (t,), ("u32", "u32"))


@operation("szext")
def szext(op: Opcode, _n: int) -> Alu:
    """Build sign- or zero-extension from b bits."""
    wrap = op.one_of(("clamp", "wrap")) == "wrap"
    t = op.one_of(("u32", "s32"))
    op.finish()

    def compute(a: Integers, b: Integers) -> Integers:
        n = b & np.uint32(31) if wrap else np.minimum(b, np.uint32(32))
        gap = np.uint32(32) - n
        return shift_right(shift_left(a, gap), gap)

    return Alu(assign(compute), (t,), (t, "u32"))


_PRMT_MODES: dict[str, Callable[[int], tuple[int, ...]]] = {
    "f4e": lambda a: ((a, a + 1, a + 2, a + 3)),
    "b4e": lambda a: ((a, (a - 1) % 8, (a - 2) % 8, (a - 3) % 8)),
    "rc8": lambda a: ((a, a, a, a)),
    "ecl": lambda a: ((a, max(a, 1), max(a, 2), 3)),
    "ecr": lambda a: ((0, min(a, 1), min(a, 2), a)),
    "rc16": lambda a: ((2 * (a % 2), 2 * (a % 2) + 1, 2 * (a % 2), 2 * (a % 2) + 1)),
}


@operation("fns")
def fns(op: Opcode, _n: int) -> Alu:
    """Build fns: find the n-th set bit of a mask from a base, upwards, downwards, or the base's own bit."""
    t = op.one_of(("b32",))
    op.finish()

    def compute(mask: Integers, base: Integers, offset: Integers) -> Integers:
        position = np.full(np.broadcast(mask, base, offset).shape, 0xFFFFFFFF, np.uint32)
        remaining = np.abs(offset.astype(np.int64)) + (offset == 0)
        step = np.where(offset < 0, -1, 1)
        at = base.astype(np.int64)
        for _ in range(_WORD_BITS):
            inside = (at >= 0) & (at < _WORD_BITS)
            hit = inside & (mask >> np.clip(at, 0, 31).astype(np.uint32) & np.uint32(1) != 0)
            remaining = remaining - hit
            position = np.where(hit & (remaining == 0), at, position).astype(np.uint32)
            at = np.where(offset == 0, -1, at + step)
        return position

    return Alu(assign(compute), (t,), ("b32", "u32", "s32"))


@operation("prmt")
def prmt(op: Opcode, _n: int) -> Alu:
    """Build byte permutation of the pair (b, a)."""
    op.one_of(("b32",))
    mode = op.one_of(tuple(_PRMT_MODES), "")
    op.finish()
    table = None
    if mode:
        lanes = 8 if mode in ("f4e", "b4e") else 4
        rows = [_PRMT_MODES[mode](a % lanes) for a in range(4)]
        table = np.array([sum((byte & 7) << (4 * i) for i, byte in enumerate(row)) for row in rows], np.uint32)

    def compute(a: Integers, b: Integers, c: Integers) -> Integers:
        selectors = c if table is None else table[c & np.uint32(3)]
        pair = (b.astype(np.uint64) << np.uint64(32)) | a
        placed: list[Integers] = []
        for i in range(4):
            nibble = (selectors >> np.uint32(4 * i)) & np.uint32(15)
            byte = (pair >> (np.uint64(8) * (nibble & np.uint32(7)))).astype(np.uint32) & np.uint32(255)
            sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
            placed.append(np.where(nibble & np.uint32(8), sign, byte) << np.uint32(8 * i))
        return placed[0] | placed[1] | placed[2] | placed[3]

    return Alu(assign(compute), ("b32",), ("b32", "b32", "b32"))


def _pieces(x: Integers, bits: int, count: int, signed: bool) -> list[Integers]:
    shifts = [np.uint32(bits * i) for i in range(count)]
    narrow = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    return [(x >> s).astype(f"u{bits // 8}").view(narrow).astype(np.int64) for s in shifts]


@operation("dp4a", "dp2a")
def dot_product(op: Opcode, _n: int) -> Alu:
    """Build dp4a and dp2a."""
    half = op.one_of(("lo", "hi")) if op.family == "dp2a" else ""
    ta, tb = op.one_of(("u32", "s32")), op.one_of(("u32", "s32"))
    op.finish()
    result = "s32" if "s32" in (ta, tb) else "u32"

    def compute(a: Integers, b: Integers, c: Integers) -> Integers:
        bytes_b = _pieces(b, 8, 4, tb == "s32")
        if half:
            parts_a = _pieces(a, 16, 2, ta == "s32")
            bytes_b = bytes_b[2:] if half == "hi" else bytes_b[:2]
        else:
            parts_a = _pieces(a, 8, 4, ta == "s32")
        total = c.astype(np.int64)
        for x, y in zip(parts_a, bytes_b, strict=True):
            total = total + x * y
        return total.astype(np.uint32) if result == "u32" else total.astype(np.int32)

    return Alu(assign(compute), (result,), ("u32", "u32", result))
