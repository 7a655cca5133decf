"""Integer arithmetic, logic, shifts, bit fields and comparisons of integers as LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.emulator.compiled.forms import Form, form, one
from lab.emulator.compiled.ir import BITS_VECTOR, LANES, Code, bits_of, splat, vector, words
from lab.emulator.opcodes import Opcode, UnknownForm

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def binary(instruction: str, t: str) -> Form:
    """Return the form of one LLVM instruction on two operands of a type."""
    return Form(one(lambda code, a, b: code.op(f"{instruction} {vector(t)} {a}, {b}")), (t,), (t, t))


def extend(code: Code, value: str, of: str, to: str) -> str:
    """Return integers in a type of other bits: cut, or extended by their own sign."""
    have, want = bits_of(of), bits_of(to)
    if have == want:
        return value
    how = "trunc" if have > want else ("sext" if of[0] == "s" else "zext")
    return code.op(f"{how} {words(have)} {value} to {words(want)}")


@form("and", "or", "xor")
def logic(op: Opcode, _n: int) -> Form:
    """Build bitwise logic, on predicates too."""
    t = op.one_of(("pred", "b16", "b32", "b64"))
    op.finish()
    return binary(op.family, t)


@form("not")
def complement(op: Opcode, _n: int) -> Form:
    """Build the complement."""
    t = op.one_of(("pred", "b16", "b32", "b64"))
    op.finish()
    ones = "splat (i1 true)" if t == "pred" else splat(-1, bits_of(t))
    return Form(one(lambda code, a: code.op(f"xor {vector(t)} {a}, {ones}")), (t,), (t,))


@form("cnot")
def cnot(op: Opcode, _n: int) -> Form:
    """Build C's logical not."""
    t = op.one_of(("b16", "b32", "b64"))
    op.finish()

    def write(code: Code, a: str) -> str:
        zero = code.op(f"icmp eq {vector(t)} {a}, zeroinitializer")
        return code.op(f"zext {BITS_VECTOR} {zero} to {vector(t)}")

    return Form(one(write), (t,), (t,))


@form("lop3")
def lop3(op: Opcode, _n: int) -> Form:
    """Build three-input logic with a literal table."""
    if op.one_of(("or", "and"), ""):
        raise UnknownForm("the predicate form")
    t = op.one_of(("b32",))
    op.finish()

    def write(code: Code, a: str, b: str, c: str, table: str) -> str:
        bits = code.constants.get(table)
        if bits is None:
            raise UnknownForm("a table that is not a literal")
        total = "zeroinitializer"
        flipped = [code.op(f"xor {vector(t)} {x}, {splat(-1, 32)}") for x in (a, b, c)]
        for case in range(8):
            if bits >> case & 1:
                x, y, z = (
                    plain if case & bit else inverse
                    for plain, inverse, bit in zip((a, b, c), flipped, (4, 2, 1), strict=True)
                )
                term = code.op(f"and {vector(t)} {code.op(f'and {vector(t)} {x}, {y}')}, {z}")
                total = code.op(f"or {vector(t)} {total}, {term}")
        return code.op(f"or {vector(t)} {total}, zeroinitializer")

    return Form(one(write), (t,), (t, t, t, "u32"))


def shift_by(code: Code, how: str, t: str, value: str, amount: str) -> str:
    """Shift by u32 amounts, which clamp: from the width on, the result is zero or the sign.

    Args:
        code: Where to write.
        how: `shl`, `lshr` or `ashr`.
        t: PTX type of the value.
        value: What is shifted.
        amount: By how much, u32.
    """
    width = bits_of(t)
    known = code.constants.get(amount)
    if known is not None:
        clamped = min(known, width - 1)
        shifted = code.op(f"{how} {vector(t)} {value}, {splat(clamped, width)}")
        if known >= width and how != "ashr":
            return code.op(f"xor {vector(t)} {shifted}, {shifted}")
        return shifted
    least = code.op(
        f"call {words(32)} @llvm.umin.v{LANES}i32({words(32)} {amount}, {words(32)} {splat(width - 1, 32)})"
    )
    shifted = code.op(f"{how} {vector(t)} {value}, {extend(code, least, 'u32', 'u' + str(width))}")
    if how == "ashr":
        return shifted
    inside = code.op(f"icmp ult {words(32)} {amount}, {splat(width, 32)}")
    return code.select(inside, vector(t), shifted, "zeroinitializer")


@form("shl", "shr")
def shift(op: Opcode, _n: int) -> Form:
    """Build shifts, whose amounts clamp."""
    t = op.one_of(("b16", "b32", "b64") if op.family == "shl" else ("b16", "b32", "b64", *INTEGERS))
    op.finish()
    how = "shl" if op.family == "shl" else ("ashr" if t[0] == "s" else "lshr")
    return Form(one(lambda code, a, n: shift_by(code, how, t, a, n)), (t,), (t, "u32"))


@form("shf")
def funnel(op: Opcode, _n: int) -> Form:
    """Build funnel shifts of the pair (b, a), b the upper half."""
    left = op.one_of(("l", "r")) == "l"
    wrap = op.one_of(("wrap", "clamp")) == "wrap"
    t = op.one_of(("b32",))
    op.finish()

    def write(code: Code, a: str, b: str, c: str) -> str:
        n = (
            code.op(f"and {words(32)} {c}, {splat(31, 32)}")
            if wrap
            else code.op(f"call {words(32)} @llvm.umin.v{LANES}i32({words(32)} {c}, {words(32)} {splat(32, 32)})")
        )
        amount = extend(code, n, "u32", "u64")
        high = code.op(f"shl {words(64)} {extend(code, b, 'u32', 'u64')}, {splat(32, 64)}")
        pair = code.op(f"or {words(64)} {high}, {extend(code, a, 'u32', 'u64')}")
        if left:
            shifted = code.op(f"shl {words(64)} {pair}, {amount}")
            return extend(code, code.op(f"lshr {words(64)} {shifted}, {splat(32, 64)}"), "u64", "u32")
        return extend(code, code.op(f"lshr {words(64)} {pair}, {amount}"), "u64", "u32")

    return Form(one(write), (t,), (t, t, "u32"))


@form("popc")
def popc(op: Opcode, _n: int) -> Form:
    """Build the count of set bits."""
    t = op.one_of(("b32", "b64"))
    op.finish()

    def write(code: Code, a: str) -> str:
        count = code.op(f"call {vector(t)} @llvm.ctpop.v{LANES}i{bits_of(t)}({vector(t)} {a})")
        return extend(code, count, "u" + t[1:], "u32")

    return Form(one(write), ("u32",), (t,))


def _leading_zeros(code: Code, value: str, bits: int) -> str:
    count = code.op(f"call {words(bits)} @llvm.ctlz.v{LANES}i{bits}({words(bits)} {value}, i1 false)")
    return extend(code, count, f"u{bits}", "u32")


@form("clz")
def clz(op: Opcode, _n: int) -> Form:
    """Build the count of leading zeros."""
    t = op.one_of(("b32", "b64"))
    op.finish()
    return Form(one(lambda code, a: _leading_zeros(code, a, bits_of(t))), ("s32",), (t,))


@form("bfind")
def bfind(op: Opcode, _n: int) -> Form:
    """Build the search for the highest bit that is not the sign."""
    amount = op.flag("shiftamt")
    t = op.one_of(("u32", "s32", "u64", "s64"))
    op.finish()
    width = bits_of(t)

    def write(code: Code, a: str) -> str:
        if t[0] == "s":
            sign = code.op(f"ashr {vector(t)} {a}, {splat(width - 1, width)}")
            a = code.op(f"xor {vector(t)} {a}, {sign}")
        zeros = _leading_zeros(code, a, width)
        found = code.op(f"sub {words(32)} {splat(width - 1, 32)}, {zeros}")
        if not amount:
            return found
        none = code.op(f"icmp slt {words(32)} {found}, zeroinitializer")
        return code.select(none, words(32), found, zeros)

    return Form(one(write), ("s32",), (t,))


@form("brev")
def brev(op: Opcode, _n: int) -> Form:
    """Build the reversal of bits."""
    t = op.one_of(("b32", "b64"))
    op.finish()
    name = f"@llvm.bitreverse.v{LANES}i{bits_of(t)}"
    return Form(one(lambda code, a: code.op(f"call {vector(t)} {name}({vector(t)} {a})")), (t,), (t,))


def _low_byte(code: Code, value: str) -> str:
    known = code.constants.get(value)
    if known is not None:
        constant = splat(known & 255, 32)
        code.constants[constant] = known & 255
        return constant
    return code.op(f"and {words(32)} {value}, {splat(255, 32)}")


@form("bfe")
def bfe(op: Opcode, _n: int) -> Form:
    """Build the extraction of a bit field; the signed form extends the field's last bit, clipped to the word's."""
    t = op.one_of(("u32", "s32", "u64", "s64"))
    op.finish()
    width, u = bits_of(t), "u" + t[1:]

    def write(code: Code, a: str, b: str, c: str) -> str:
        position, length = _low_byte(code, b), _low_byte(code, c)
        keep = code.op(f"xor {vector(u)} {shift_by(code, 'shl', u, splat(-1, width), length)}, {splat(-1, width)}")
        cut = shift_by(code, "lshr", u, a, position)
        field = code.op(f"and {vector(u)} {cut}, {keep}")
        if t[0] == "u":
            return field
        end = code.op(f"add {words(32)} {position}, {length}")
        last = code.op(f"sub {words(32)} {end}, {splat(1, 32)}")
        top = words(32)
        last = code.op(f"call {top} @llvm.umin.v{LANES}i32({top} {last}, {top} {splat(width - 1, 32)})")
        low = code.op(f"and {vector(u)} {shift_by(code, 'lshr', u, a, last)}, {splat(1, width)}")
        negative = code.op(f"icmp ne {vector(u)} {low}, zeroinitializer")
        some = code.op(f"icmp ne {words(32)} {length}, zeroinitializer")
        negative = code.op(f"and {BITS_VECTOR} {negative}, {some}")
        # Bits from beyond the word are copies of its sign: an arithmetic shift brings them.
        whole = shift_by(code, "ashr", t, a, position)
        clipped = code.op(f"icmp ugt {words(32)} {end}, {splat(width, 32)}")
        above = code.op(f"or {vector(u)} {field}, {code.op(f'xor {vector(u)} {keep}, {splat(-1, width)}')}")
        above = code.select(clipped, vector(u), whole, above)
        return code.select(negative, vector(u), above, field)

    return Form(one(write), (t,), (t, "u32", "u32"))


@form("bfi")
def bfi(op: Opcode, _n: int) -> Form:
    """Build the insertion of a's low bits into b."""
    t = op.one_of(("b32", "b64"))
    op.finish()
    width = bits_of(t)

    def write(code: Code, a: str, b: str, c: str, d: str) -> str:
        position, length = _low_byte(code, c), _low_byte(code, d)
        low = code.op(f"xor {vector(t)} {shift_by(code, 'shl', t, splat(-1, width), length)}, {splat(-1, width)}")
        mask = shift_by(code, "shl", t, low, position)
        new = code.op(f"and {vector(t)} {shift_by(code, 'shl', t, a, position)}, {mask}")
        old = code.op(f"and {vector(t)} {b}, {code.op(f'xor {vector(t)} {mask}, {splat(-1, width)}')}")
        return code.op(f"or {vector(t)} {new}, {old}")

    return Form(one(write), (t,), (t, t, "u32", "u32"))


@form("prmt")
def prmt(op: Opcode, _n: int) -> Form:
    """Build byte permutation of the pair (b, a)."""
    op.one_of(("b32",))
    op.finish()

    def write(code: Code, a: str, b: str, c: str) -> str:
        high = code.op(f"shl {words(64)} {extend(code, b, 'u32', 'u64')}, {splat(32, 64)}")
        pair = code.op(f"or {words(64)} {high}, {extend(code, a, 'u32', 'u64')}")
        total = "zeroinitializer"
        for i in range(4):
            nibble = code.op(f"lshr {words(32)} {c}, {splat(4 * i, 32)}")
            step = code.op(f"shl {words(32)} {code.op(f'and {words(32)} {nibble}, {splat(7, 32)}')}, {splat(3, 32)}")
            moved = code.op(f"lshr {words(64)} {pair}, {extend(code, step, 'u32', 'u64')}")
            byte = code.op(f"and {words(32)} {extend(code, moved, 'u64', 'u32')}, {splat(255, 32)}")
            up = code.op(f"shl {words(32)} {byte}, {splat(24, 32)}")
            sign = code.op(f"lshr {words(32)} {code.op(f'ashr {words(32)} {up}, {splat(31, 32)}')}, {splat(24, 32)}")
            asked = code.op(f"and {words(32)} {nibble}, {splat(8, 32)}")
            signs = code.op(f"icmp ne {words(32)} {asked}, zeroinitializer")
            chosen = code.select(signs, words(32), sign, byte)
            total = code.op(f"or {words(32)} {total}, {code.op(f'shl {words(32)} {chosen}, {splat(8 * i, 32)}')}")
        return total

    return Form(one(write), ("b32",), ("b32", "b32", "b32"))


# --- arithmetic -------------------------------------------------------------------------------------------------


def add_sub(op: Opcode) -> Form:
    """Build add, sub, and the carry forms add.cc, addc, sub.cc and subc."""
    subtract = op.family in ("sub", "subc")
    carry_in, carry_out = op.family in ("addc", "subc"), op.flag("cc")
    saturating = op.flag("sat")
    t = op.one_of(INTEGERS)
    op.finish()
    how = "sub" if subtract else "add"
    if saturating:
        if t != "s32" or carry_in or carry_out:
            raise UnknownForm(".sat")
        name = f"@llvm.s{how}.sat.v{LANES}i32"
        return Form(
            one(lambda code, a, b: code.op(f"call {vector(t)} {name}({vector(t)} {a}, {vector(t)} {b})")), (t,), (t, t)
        )
    if carry_in or carry_out:
        return _with_carry(t, subtract=subtract, carry_in=carry_in, carry_out=carry_out)
    return binary(how, t)


def _with_carry(t: str, *, subtract: bool, carry_in: bool, carry_out: bool) -> Form:
    """Build arithmetic on the carry flag, which the decoder adds to the operands; a difference adds the complement."""
    u = "u" + t[1:]
    ones, one_each = splat(2 ** bits_of(t) - 1, bits_of(t)), splat(1, bits_of(t))

    def emit(code: Code, ins: Sequence[str]) -> Sequence[str]:
        a, b = ins[0], code.op(f"xor {vector(u)} {ins[1]}, {ones}") if subtract else ins[1]
        part = code.op(f"add {vector(u)} {a}, {b}")
        extra = one_each if subtract else "zeroinitializer"
        if carry_in:
            extra = code.op(f"zext {BITS_VECTOR} {ins[2]} to {vector(u)}")
        total = code.op(f"add {vector(u)} {part}, {extra}")
        if not carry_out:
            return (total,)
        first = code.op(f"icmp ult {vector(u)} {part}, {a}")
        second = code.op(f"icmp ult {vector(u)} {total}, {part}")
        return total, code.op(f"or {BITS_VECTOR} {first}, {second}")

    return Form(emit, (u, "pred")[: 1 + carry_out], (u, u) + (("pred",) if carry_in else ()))


def high_product(code: Code, t: str, a: str, b: str) -> str:
    """Return the upper half of the product of two integers."""
    bits, how = bits_of(t), "sext" if t[0] == "s" else "zext"
    x, y = (code.op(f"{how} {vector(t)} {value} to {words(2 * bits)}") for value in (a, b))
    product = code.op(f"mul {words(2 * bits)} {x}, {y}")
    upper = code.op(f"lshr {words(2 * bits)} {product}, {splat(bits, 2 * bits)}")
    return code.op(f"trunc {words(2 * bits)} {upper} to {vector(t)}")


def _product(code: Code, t: str, part: str, a: str, b: str) -> str:
    """Return the product of two integers: its lower or upper half, or all of it."""
    if part == "lo":
        return code.op(f"mul {vector(t)} {a}, {b}")
    if part == "hi":
        return high_product(code, t, a, b)
    wide = _WIDER[t]
    return code.op(f"mul {vector(wide)} {extend(code, a, t, wide)}, {extend(code, b, t, wide)}")


def mul(op: Opcode) -> Form:
    """Build mul.lo, mul.hi and mul.wide."""
    part = op.one_of(("lo", "hi", "wide"))
    t = op.one_of(INTEGERS if part != "wide" else tuple(_WIDER))
    op.finish()
    result = _WIDER[t] if part == "wide" else t
    return Form(one(lambda code, a, b: _product(code, t, part, a, b)), (result,), (t, t))


def mad(op: Opcode) -> Form:
    """Build mad.lo, mad.hi and mad.wide."""
    part = op.one_of(("lo", "hi", "wide"))
    if op.family == "madc" or op.flag("cc") or op.flag("sat"):
        raise UnknownForm("a carry or .sat")
    t = op.one_of(INTEGERS if part != "wide" else tuple(_WIDER))
    op.finish()
    result = _WIDER[t] if part == "wide" else t

    def write(code: Code, a: str, b: str, c: str) -> str:
        return code.op(f"add {vector(result)} {_product(code, t, part, a, b)}, {c}")

    return Form(one(write), (result,), (t, t, result))


@form("addc", "subc")
def carried(op: Opcode, _n: int) -> Form:
    """Build the sums and differences that take the carry flag."""
    return add_sub(op)


def _quotient(code: Code, t: str, a: str, b: str) -> str:
    """Return the quotient, rounded towards zero; all ones where the divisor is zero, as on hardware."""
    ty, bits = vector(t), bits_of(t)
    zero = code.op(f"icmp eq {ty} {b}, zeroinitializer")
    safe = code.select(zero, ty, splat(1, bits), b)
    if t[0] == "u":
        result = code.op(f"udiv {ty} {a}, {safe}")
    else:  # the least integer over -1 wraps, which LLVM leaves undefined
        minus = code.op(f"icmp eq {ty} {b}, {splat(-1, bits)}")
        safe = code.select(minus, ty, splat(1, bits), safe)
        result = code.op(f"sdiv {ty} {a}, {safe}")
        result = code.select(minus, ty, code.op(f"sub {ty} zeroinitializer, {a}"), result)
    return code.select(zero, ty, splat(-1, bits), result)


def div(op: Opcode) -> Form:
    """Build integer division."""
    t = op.one_of(INTEGERS)
    op.finish()
    return Form(one(lambda code, a, b: _quotient(code, t, a, b)), (t,), (t, t))


@form("rem")
def rem(op: Opcode, _n: int) -> Form:
    """Build the remainder with the dividend's sign; a itself where the divisor is zero."""
    t = op.one_of(INTEGERS)
    op.finish()

    def write(code: Code, a: str, b: str) -> str:
        zero = code.op(f"icmp eq {vector(t)} {b}, zeroinitializer")
        whole = code.op(f"mul {vector(t)} {_quotient(code, t, a, b)}, {b}")
        return code.select(zero, vector(t), a, code.op(f"sub {vector(t)} {a}, {whole}"))

    return Form(one(write), (t,), (t, t))


@form("sad")
def sad(op: Opcode, _n: int) -> Form:
    """Build c + |a - b|."""
    t = op.one_of(INTEGERS)
    op.finish()

    def write(code: Code, a: str, b: str, c: str) -> str:
        ty = vector(t)
        less = code.op(f"icmp {'s' if t[0] == 's' else 'u'}lt {ty} {a}, {b}")
        distance = code.select(less, ty, code.op(f"sub {ty} {b}, {a}"), code.op(f"sub {ty} {a}, {b}"))
        return code.op(f"add {ty} {c}, {distance}")

    return Form(one(write), (t,), (t, t, t))


def extremum(op: Opcode) -> Form:
    """Build min and max of integers."""
    t = op.one_of(INTEGERS)
    op.finish()
    name = f"@llvm.{'s' if t[0] == 's' else 'u'}{op.family}.v{LANES}i{bits_of(t)}"
    return Form(
        one(lambda code, a, b: code.op(f"call {vector(t)} {name}({vector(t)} {a}, {vector(t)} {b})")), (t,), (t, t)
    )


def sign(op: Opcode) -> Form:
    """Build negation and absolute value of integers."""
    t = op.one_of(("s16", "s32", "s64"))
    op.finish()

    def write(code: Code, a: str) -> str:
        opposite = code.op(f"sub {vector(t)} zeroinitializer, {a}")
        if op.family == "neg":
            return opposite
        negative = code.op(f"icmp slt {vector(t)} {a}, zeroinitializer")
        return code.select(negative, vector(t), opposite, a)

    return Form(one(write), (t,), (t,))


# --- comparisons ------------------------------------------------------------------------------------------------

_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_ORDER = ("lt", "le", "gt", "ge")


def comparison(test: str, t: str) -> Callable[[Code, str, str], str]:
    """Return what writes the predicate of two integers of PTX type t.

    Raises:
        UnknownForm: integers have no such test.
    """
    plain = _UNSIGNED.get(test, test)
    if plain not in ("eq", "ne", *_ORDER):
        raise UnknownForm(f".{test} on integers")
    prefix = "" if plain in ("eq", "ne") else ("s" if t[0] == "s" else "u")
    return lambda code, a, b: code.op(f"icmp {prefix}{plain} {vector(t)} {a}, {b}")
