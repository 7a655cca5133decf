"""Floating-point arithmetic as LLVM IR that gives the very bits of the interpreter (`lab.emulator.floats`)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from lab.emulator.compiled import integer_forms
from lab.emulator.compiled.forms import Form, form, one
from lab.emulator.compiled.ir import BITS_VECTOR, LANES, Code, bits_of, splat, vector, words
from lab.emulator.opcodes import Opcode, UnknownForm, chosen_by_sign

_SINGLE, _DOUBLE = vector("f32"), vector("f64")
_DIRECTED = ("rz", "rm", "rp")
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_TESTS = ("eq", "ne", "lt", "le", "gt", "ge")
_UNORDERED = {"equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge"}
_ALL_TESTS = (*_TESTS, "lo", "ls", "hi", "hs", *_UNORDERED, "num", "nan")
_NAN = {"f32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}
_MINUS_ZERO = {"f32": 1 << 31, "f64": 1 << 63}
SPECIAL = ("sin", "cos", "lg2", "ex2", "tanh")
"""Functions without a machine instruction, in the order of their numbers."""


def number(t: str, value: float) -> str:
    """Return the constant with one number in every lane; it is exact in both formats."""
    bits = int.from_bytes(struct.pack("<d", value), "little")
    return f"splat ({'float' if t == 'f32' else 'double'} 0x{bits:016X})"


def as_bits(code: Code, t: str, value: str) -> str:
    """Return floats as integers of their width."""
    return code.op(f"bitcast {vector(t)} {value} to {words(bits_of(t))}")


def as_float(code: Code, t: str, value: str) -> str:
    """Return integers of a float's width as floats."""
    return code.op(f"bitcast {words(bits_of(t))} {value} to {vector(t)}")


def canonical(code: Code, t: str, value: str) -> str:
    """Return floats with the canonical NaN for every NaN."""
    unordered = code.op(f"fcmp uno {vector(t)} {value}, {value}")
    nan = f"bitcast ({words(bits_of(t))} {splat(_NAN[t], bits_of(t))} to {vector(t)})"
    return code.select(unordered, vector(t), nan, value)


def flush(code: Code, value: str) -> str:
    """Return singles with zeros of their sign for subnormal numbers (`.ftz`)."""
    bits = as_bits(code, "f32", value)
    exponent = code.op(f"and {words(32)} {bits}, {splat(0x7F800000, 32)}")
    tiny = code.op(f"icmp eq {words(32)} {exponent}, zeroinitializer")
    sign = code.op(f"and {words(32)} {bits}, {splat(0x80000000, 32)}")
    return as_float(code, "f32", code.select(tiny, words(32), sign, bits))


def saturate(code: Code, t: str, value: str) -> str:
    """Clamp floats to [0, 1], NaN to +0 (`.sat`)."""
    positive = code.op(f"fcmp ogt {vector(t)} {value}, zeroinitializer")
    kept = code.select(positive, vector(t), value, "zeroinitializer")
    above = code.op(f"fcmp ogt {vector(t)} {kept}, {number(t, 1.0)}")
    return code.select(above, vector(t), number(t, 1.0), kept)


def _float_type(op: Opcode) -> str | None:
    return next((part for part in op.parts if part in ("f32", "f64", *_HALVES)), None)


def _arithmetic(t: str, inputs: int, write: Callable[..., str], *, ftz: bool = False, sat: bool = False) -> Form:
    """Return an operation on floats with `.ftz` and `.sat`."""

    def emit(code: Code, ins: Sequence[str]) -> Sequence[str]:
        if ftz:
            ins = [flush(code, x) for x in ins]
        result = write(code, *ins)
        if ftz:
            result = flush(code, result)
        if sat:
            result = saturate(code, t, result)
        return (result,)

    return Form(emit, (t,), (t,) * inputs, loose=True, tolerant=True)


def _modifiers(op: Opcode, t: str) -> tuple[str, bool, bool]:
    mode, ftz, sat = op.one_of(("rn", *_DIRECTED), "rn"), op.flag("ftz"), op.flag("sat")
    op.parts.remove(t)
    op.finish()
    if t in _HALVES:
        raise UnknownForm(f".{t}")
    if t == "f64" and (mode != "rn" or ftz or sat):
        raise UnknownForm(f".{mode}.f64")
    return mode, ftz, sat


def _negated(code: Code, t: str, value: str) -> str:
    return code.op(f"fneg {vector(t)} {value}")


@form("add", "sub")
def add_sub(op: Opcode, _n: int) -> Form:
    """Build addition and subtraction of every type."""
    t = _float_type(op)
    if t is None:
        return integer_forms.add_sub(op)
    subtract = op.family == "sub"
    mode, ftz, sat = _modifiers(op, t)
    if mode == "rn":
        name = "fsub" if subtract else "fadd"
        return _arithmetic(t, 2, lambda code, a, b: code.op(f"{name} {vector(t)} {a}, {b}"), ftz=ftz, sat=sat)

    def write(code: Code, a: str, b: str) -> str:
        return directed_fma(code, a, number("f32", 1.0), _negated(code, t, b) if subtract else b, mode)

    return _arithmetic(t, 2, write, ftz=ftz, sat=sat)


@form("mul")
def mul(op: Opcode, _n: int) -> Form:
    """Build multiplication of every type."""
    t = _float_type(op)
    if t is None:
        return integer_forms.mul(op)
    mode, ftz, sat = _modifiers(op, t)
    if mode == "rn":
        return _arithmetic(t, 2, lambda code, a, b: code.op(f"fmul {vector(t)} {a}, {b}"), ftz=ftz, sat=sat)

    def write(code: Code, a: str, b: str) -> str:
        x, y = (code.op(f"fpext {_SINGLE} {value} to {_DOUBLE}") for value in (a, b))
        product = code.op(f"fmul {_DOUBLE} {x}, {y}")
        return _directed(code, product, "zeroinitializer", mode)

    return _arithmetic(t, 2, write, ftz=ftz, sat=sat)


def fused(code: Code, t: str, a: str, b: str, c: str) -> str:
    """Return the multiply-add, rounded once to nearest."""
    ty = vector(t)
    return code.op(f"call {ty} @llvm.fma.v{LANES}f{bits_of(t)}({ty} {a}, {ty} {b}, {ty} {c})")


@form("fma", "mad")
def fma(op: Opcode, _n: int) -> Form:
    """Build the fused multiply-add; `mad` on floats is the same operation."""
    t = _float_type(op)
    if t is None:
        return integer_forms.mad(op)
    mode, ftz, sat = _modifiers(op, t)
    if mode == "rn":
        return _arithmetic(t, 3, lambda code, a, b, c: fused(code, t, a, b, c), ftz=ftz, sat=sat)
    return _arithmetic(t, 3, lambda code, a, b, c: directed_fma(code, a, b, c, mode), ftz=ftz, sat=sat)


def _next(code: Code, value: str, *, up: bool) -> str:
    """Return the neighbours of finite or infinite singles, towards plus or minus infinity."""
    bits = as_bits(code, "f32", value)
    zero = code.op(f"fcmp oeq {_SINGLE} {value}, zeroinitializer")
    negative = code.op(f"icmp slt {words(32)} {bits}, zeroinitializer")
    step = code.select(negative, words(32), splat(-1 if up else 1, 32), splat(1 if up else -1, 32))
    moved = code.op(f"add {words(32)} {bits}, {step}")
    least = splat(1 if up else 0x80000001, 32)
    end = code.op(f"icmp eq {words(32)} {bits}, {splat(0x7F800000 if up else 0xFF800000, 32)}")
    moved = code.select(zero, words(32), least, moved)
    return as_float(code, "f32", code.select(end, words(32), bits, moved))


def _directed(code: Code, total: str, error: str, mode: str) -> str:
    """Round an exact sum of doubles, ``total + error`` with total = fl(sum), to single precision in one direction."""
    nearest = code.op(f"fptrunc {_DOUBLE} {total} to {_SINGLE}")
    back = code.op(f"fpext {_SINGLE} {nearest} to {_DOUBLE}")
    rest = code.op(f"fsub {_DOUBLE} {total}, {back}")
    some = code.op(f"fcmp une {_DOUBLE} {rest}, zeroinitializer")
    rest = code.select(some, _DOUBLE, rest, error)
    size = code.op(f"call {_DOUBLE} @llvm.fabs.v{LANES}f64({_DOUBLE} {total})")
    finite = code.op(f"fcmp one {_DOUBLE} {size}, splat (double 0x7FF0000000000000)")
    down = code.op(f"fcmp olt {_DOUBLE} {rest}, zeroinitializer")
    up = code.op(f"fcmp ogt {_DOUBLE} {rest}, zeroinitializer")
    if mode == "rz":
        positive = code.op(f"fcmp ogt {_SINGLE} {nearest}, zeroinitializer")
        below = code.op(f"fcmp olt {_SINGLE} {nearest}, zeroinitializer")
        down = code.op(f"and {BITS_VECTOR} {down}, {positive}")
        up = code.op(f"and {BITS_VECTOR} {up}, {below}")
    result = nearest
    if mode != "rp":
        down = code.op(f"and {BITS_VECTOR} {down}, {finite}")
        result = code.select(down, _SINGLE, _next(code, nearest, up=False), result)
    if mode != "rm":
        up = code.op(f"and {BITS_VECTOR} {up}, {finite}")
        result = code.select(up, _SINGLE, _next(code, nearest, up=True), result)
    return result


def directed_fma(code: Code, a: str, b: str, c: str, mode: str) -> str:
    """Return the single-precision multiply-add with a directed rounding, from the exact sum of two doubles."""
    x, y, z = (code.op(f"fpext {_SINGLE} {value} to {_DOUBLE}") for value in (a, b, c))
    product = code.op(f"fmul {_DOUBLE} {x}, {y}")
    total = code.op(f"fadd {_DOUBLE} {product}, {z}")
    part = code.op(f"fsub {_DOUBLE} {total}, {product}")
    left = code.op(f"fsub {_DOUBLE} {product}, {code.op(f'fsub {_DOUBLE} {total}, {part}')}")
    right = code.op(f"fsub {_DOUBLE} {z}, {part}")
    error = code.op(f"fadd {_DOUBLE} {left}, {right}")
    result = _directed(code, total, error, mode)
    if mode == "rm":  # an exact cancellation is -0 when rounding down
        signs = code.op(f"xor {words(64)} {as_bits(code, 'f64', product)}, {as_bits(code, 'f64', z)}")
        differ = code.op(f"icmp slt {words(64)} {signs}, zeroinitializer")
        nothing = code.op(f"fcmp oeq {_DOUBLE} {total}, zeroinitializer")
        cancelled = code.op(f"and {BITS_VECTOR} {differ}, {nothing}")
        result = code.select(cancelled, _SINGLE, number("f32", -0.0), result)
    return result


@form("div")
def div(op: Opcode, _n: int) -> Form:
    """Build division; `.approx` and `.full` are rounded correctly, as in the interpreter."""
    t = _float_type(op)
    if t is None:
        return integer_forms.div(op)
    mode = op.one_of(("rn", "approx", "full"))
    ftz = op.flag("ftz")
    op.one_of(("f32", "f64"))
    op.finish()
    if t == "f64" and (mode != "rn" or ftz):
        raise UnknownForm("this form in f64")

    def write(code: Code, a: str, b: str) -> str:
        result = code.op(f"fdiv {vector(t)} {a}, {b}")
        if mode != "approx":
            return result
        size = code.op(f"call {_SINGLE} @llvm.fabs.v{LANES}f32({_SINGLE} {b})")
        big = code.op(f"fcmp ogt {_SINGLE} {size}, {number('f32', 2.0**126)}")
        finite = code.op(f"fcmp olt {_SINGLE} {size}, splat (float 0x7FF0000000000000)")
        big = code.op(f"and {BITS_VECTOR} {big}, {finite}")
        above = code.op(f"call {_SINGLE} @llvm.fabs.v{LANES}f32({_SINGLE} {a})")
        endless = code.op(f"fcmp oeq {_SINGLE} {above}, splat (float 0x7FF0000000000000)")
        zero = code.op(f"call {_SINGLE} @llvm.copysign.v{LANES}f32({_SINGLE} zeroinitializer, {_SINGLE} {result})")
        nan = f"bitcast ({words(32)} {splat(_NAN['f32'], 32)} to {_SINGLE})"
        return code.select(big, _SINGLE, code.select(endless, _SINGLE, nan, zero), result)

    form_ = _arithmetic(t, 2, write, ftz=ftz)
    if mode == "approx":  # the sign of its zeros is that of the quotient, a NaN's included
        return Form(form_.emit, form_.outs, form_.ins, loose=True)
    return form_


@form("rcp", "sqrt", "rsqrt")
def roots(op: Opcode, _n: int) -> Form:
    """Build the reciprocal, the square root and its reciprocal."""
    mode = op.one_of(("rn", "approx") if op.family != "rsqrt" else ("approx",))
    ftz = op.flag("ftz")
    t = op.one_of(("f32", "f64"))
    op.finish()
    if t == "f64" and (ftz or (mode == "approx" and op.family != "rsqrt")):
        raise UnknownForm("this form in f64")
    ty = vector(t)

    def write(code: Code, a: str) -> str:
        if op.family == "sqrt":
            return code.op(f"call {ty} @llvm.sqrt.v{LANES}f{bits_of(t)}({ty} {a})")
        if op.family == "rcp":
            return code.op(f"fdiv {ty} {number(t, 1.0)}, {a}")
        wide = a if t == "f64" else code.op(f"fpext {ty} {a} to {_DOUBLE}")
        root = code.op(f"call {_DOUBLE} @llvm.sqrt.v{LANES}f64({_DOUBLE} {wide})")
        result = code.op(f"fdiv {_DOUBLE} {number('f64', 1.0)}, {root}")
        return result if t == "f64" else code.op(f"fptrunc {_DOUBLE} {result} to {ty}")

    return _arithmetic(t, 1, write, ftz=ftz)


@form(*SPECIAL)
def special(op: Opcode, _n: int) -> Form:
    """Build the functions that the interpreter computes in double precision and rounds."""
    op.one_of(("approx",))
    ftz = op.flag("ftz")
    op.one_of(("f32",))
    op.finish()
    which = SPECIAL.index(op.family)

    def write(code: Code, a: str) -> str:
        return code.op(f"call {_SINGLE} @special({_SINGLE} {a}, i32 {which}, ptr %callback)")

    return _arithmetic("f32", 1, write, ftz=ftz)


@form("neg", "abs")
def sign(op: Opcode, _n: int) -> Form:
    """Build negation and absolute value; on floats they move the sign bit alone."""
    t = _float_type(op)
    if t is None:
        return integer_forms.sign(op)
    ftz = op.flag("ftz")
    op.parts.remove(t)
    op.finish()
    if t in _HALVES:
        if ftz:
            raise UnknownForm(".ftz on half precision")
        bits, mask = ("b32", 0x80008000) if t.endswith("x2") else ("b16", 0x8000)
        how = f"xor {vector(bits)}" if op.family == "neg" else f"and {vector(bits)}"
        constant = splat(mask if op.family == "neg" else ~mask, bits_of(bits))
        return Form(one(lambda code, a: code.op(f"{how} {a}, {constant}")), (bits,), (bits,))

    def write(code: Code, a: str) -> str:
        if ftz:
            a = flush(code, a)
        if op.family == "neg":
            return _negated(code, t, a)
        return code.op(f"call {vector(t)} @llvm.fabs.v{LANES}f{bits_of(t)}({vector(t)} {a})")

    if ftz and t == "f64":
        raise UnknownForm(".ftz.f64")
    return Form(one(write), (t,), (t,))


@form("copysign")
def copysign(op: Opcode, _n: int) -> Form:
    """Build b with the sign of a."""
    t = op.one_of(("f32", "f64"))
    op.finish()
    ty, name = vector(t), f"@llvm.copysign.v{LANES}f{bits_of(t)}"
    return Form(one(lambda code, a, b: code.op(f"call {ty} {name}({ty} {b}, {ty} {a})")), (t,), (t, t))


@form("min", "max")
def extremum(op: Opcode, n: int) -> Form:
    """Build min and max of every type: -0 is less than +0; a NaN yields the other operand."""
    t = _float_type(op)
    if t is None:
        return integer_forms.extremum(op)
    ftz, nan = op.flag("ftz"), op.flag("NaN")
    op.parts.remove(t)
    op.finish()
    if t in _HALVES or n != 3 or (ftz and t == "f64"):  # noqa: PLR2004  destination and two sources
        raise UnknownForm(f".{t}")
    largest, ty = op.family == "max", vector(t)

    def write(code: Code, a: str, b: str) -> str:
        first = code.op(f"fcmp {'ogt' if largest else 'olt'} {ty} {a}, {b}")
        result = code.select(first, ty, a, b)
        same = code.op(f"fcmp oeq {ty} {a}, {b}")
        x, y = as_bits(code, t, a), as_bits(code, t, b)
        joined = code.op(f"{'and' if largest else 'or'} {words(bits_of(t))} {x}, {y}")
        result = code.select(same, ty, as_float(code, t, joined), result)
        lost = code.op(f"fcmp uno {ty} {b}, {b}")
        result = code.select(lost, ty, a, result)
        if nan:
            either = code.op(f"fcmp uno {ty} {a}, {b}")
            sum_ = code.op(f"fadd {ty} {a}, {b}")
            result = code.select(either, ty, sum_, result)
        return result

    return _arithmetic(t, 2, write, ftz=ftz)


@form("testp")
def testp(op: Opcode, _n: int) -> Form:
    """Build tests of a float's kind."""
    kind = op.one_of(("finite", "infinite", "number", "notanumber", "normal", "subnormal"))
    t = op.one_of(("f32", "f64"))
    op.finish()
    classes = {"finite": 0x1F8, "infinite": 0x204, "number": 0x3FC, "notanumber": 3, "normal": 0x108, "subnormal": 0x90}
    name = f"@llvm.is.fpclass.v{LANES}f{bits_of(t)}"

    def write(code: Code, a: str) -> str:
        return code.op(f"call {BITS_VECTOR} {name}({vector(t)} {a}, i32 {classes[kind]})")

    return Form(one(write), ("pred",), (t,), tolerant=True)


# --- comparisons and selections ---------------------------------------------------------------------------------


def comparison(test: str, t: str, *, ftz: bool) -> Callable[[Code, str, str], str]:
    """Return what writes the predicate of two operands of PTX type t.

    Raises:
        UnknownForm: the type has no such test.
    """
    if t not in ("f32", "f64"):
        if ftz or t in (*_HALVES, "pred"):
            raise UnknownForm(f".{t}")
        return integer_forms.comparison(test, t)
    if ftz and t != "f32":
        raise UnknownForm(f".ftz on .{t}")
    name = {**_UNORDERED, "ne": "one", "num": "ord", "nan": "uno"}.get(test) or (f"o{test}" if test in _TESTS else "")
    if not name:
        raise UnknownForm(f".{test} on floats")

    def write(code: Code, a: str, b: str) -> str:
        if ftz:
            a, b = flush(code, a), flush(code, b)
        return code.op(f"fcmp {name} {vector(t)} {a}, {b}")

    return write


@form("setp")
def setp(op: Opcode, n: int) -> Form:
    """Build setp with one or two destinations (`p|q`) and an optional predicate to combine with."""
    test = op.one_of(_ALL_TESTS)
    boolean = op.one_of(("and", "or", "xor"), "")
    ftz = op.flag("ftz")
    t = op.type()
    op.finish()
    compare = comparison(test, t, ftz=ftz)
    two = n == 4 + bool(boolean)  # the decoder counts p|q as two operands

    def emit(code: Code, ins: Sequence[str]) -> Sequence[str]:
        hit = compare(code, ins[0], ins[1])
        results = [hit, code.invert(hit)] if two else [hit]
        if boolean:
            results = [code.op(f"{boolean} {BITS_VECTOR} {result}, {ins[2]}") for result in results]
        return results

    return Form(emit, ("pred",) * (1 + two), (t, t) + (("pred",) if boolean else ()), tolerant=True)


@form("set")
def set_(op: Opcode, _n: int) -> Form:
    """Build set: all ones, or 1.0, where the comparison holds."""
    test = op.one_of(_ALL_TESTS)
    boolean = op.one_of(("and", "or", "xor"), "")
    ftz = op.flag("ftz")
    result = op.one_of(("u32", "s32", "f32"))
    t = op.type() if op.parts else result
    op.finish()
    compare = comparison(test, t, ftz=ftz)

    def emit(code: Code, ins: Sequence[str]) -> Sequence[str]:
        hit = compare(code, ins[0], ins[1])
        if boolean:
            hit = code.op(f"{boolean} {BITS_VECTOR} {hit}, {ins[2]}")
        true = number("f32", 1.0) if result == "f32" else splat(-1, 32)
        return (code.select(hit, vector(result), true, "zeroinitializer"),)

    return Form(emit, (result,), (t, t) + (("pred",) if boolean else ()), tolerant=True)


@form("selp")
def selp(op: Opcode, _n: int) -> Form:
    """Build the choice of a or b by a predicate."""
    t = op.type()
    op.finish()
    return Form(one(lambda code, a, b, c: code.select(c, vector(t), a, b)), (t,), (t, t, "pred"))


@form("slct")
def slct(op: Opcode, _n: int) -> Form:
    """Build the choice of a where c >= 0, else b."""
    t, control, ftz = chosen_by_sign(op)

    def write(code: Code, a: str, b: str, c: str) -> str:
        if control == "f32":
            hit = code.op(f"fcmp oge {_SINGLE} {flush(code, c) if ftz else c}, zeroinitializer")
        else:
            hit = code.op(f"icmp sge {words(32)} {c}, zeroinitializer")
        return code.select(hit, vector(t), a, b)

    return Form(one(write), (t,), (t, t, control))
