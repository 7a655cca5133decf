"""Conversions between types, and packing of registers, as LLVM IR."""

from __future__ import annotations

from collections.abc import Sequence

from lab.emulator.compiled.float_forms import canonical, flush, number, saturate
from lab.emulator.compiled.forms import Form, form, one
from lab.emulator.compiled.integer_forms import extend
from lab.emulator.compiled.ir import BITS_VECTOR, LANES, Code, bits_of, splat, vector, words
from lab.emulator.opcodes import Opcode, UnknownForm, element_of

_INTEGERS = tuple(f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "us")
_TO_INTEGER = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_HALF = f"<{LANES} x half>"
_CANONICAL_HALF = 0x7FFF


@form("cvt")
def cvt(op: Opcode, n: int) -> Form:
    """Build a conversion. The types are the last two parts: destination, source."""
    mode = op.one_of(("rn", "rz", "rm", "rp", *_TO_INTEGER), "")
    ftz, sat = op.flag("ftz"), op.flag("sat")
    if len(op.parts) != 2 or n != 2:  # noqa: PLR2004  destination and source
        raise UnknownForm(f"modifier .{'.'.join(op.parts)}")
    to, of = op.parts
    if to in _INTEGERS and of in _INTEGERS:
        if mode or ftz:
            raise UnknownForm(f".{mode} between integers")
        return _integers(to, of, sat=sat)
    if of in _INTEGERS:
        return _from_integer(to, of, mode, sat=sat, ftz=ftz)
    if to in _INTEGERS:
        return _to_integer(to, of, mode, ftz=ftz)
    return _floats(to, of, mode, ftz=ftz, sat=sat)


def _integers(to: str, of: str, *, sat: bool) -> Form:
    def write(code: Code, a: str) -> str:
        if sat:
            a = _clamped(code, a, of, to)
        return extend(code, a, of, to)

    return Form(one(write), (to,), (of,))


def _range(t: str) -> tuple[int, int]:
    bits = bits_of(t)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t[0] == "s" else (0, (1 << bits) - 1)


def _clamped(code: Code, value: str, of: str, to: str) -> str:
    """Clamp integers to what another type holds."""
    (low, high), (least, most) = _range(of), _range(to)
    ty, bits, s = vector(of), bits_of(of), "s" if of[0] == "s" else "u"
    if least > low:
        value = code.op(f"call {ty} @llvm.{s}max.v{LANES}i{bits}({ty} {value}, {ty} {splat(least, bits)})")
    if most < high:
        value = code.op(f"call {ty} @llvm.{s}min.v{LANES}i{bits}({ty} {value}, {ty} {splat(most, bits)})")
    return value


def _from_integer(to: str, of: str, mode: str, *, sat: bool, ftz: bool) -> Form:
    if mode != "rn" or to not in ("f32", "f64") or ftz:
        raise UnknownForm(f".{mode}.{to}.{of}")
    how = "sitofp" if of[0] == "s" else "uitofp"

    def write(code: Code, a: str) -> str:
        result = code.op(f"{how} {vector(of)} {a} to {vector(to)}")
        return saturate(code, to, result) if sat else result

    return Form(one(write), (to,), (of,), loose=True)


def _to_integer(to: str, of: str, mode: str, *, ftz: bool) -> Form:
    """Round and clamp: PTX always saturates here, and says what NaN becomes (PTX ISA, cvt)."""
    if mode not in _TO_INTEGER or of not in ("f16", "f32", "f64"):
        raise UnknownForm(f".{mode}.{to}.{of}")
    least, most = _range(to)
    bits, t = bits_of(to), "f64" if of == "f64" else "f32"
    ty = vector(t)
    wide = of == "f64" or bits == 64  # noqa: PLR2004  bits

    def write(code: Code, a: str) -> str:
        x = _widened(code, a, of)
        if ftz and of == "f32":
            x = flush(code, x)
        whole = code.op(f"call {ty} @llvm.{_TO_INTEGER[mode]}.v{LANES}f{bits_of(t)}({ty} {x})")
        above = code.op(f"fcmp oge {ty} {whole}, {number(t, float(most + 1))}")
        below = code.op(f"fcmp olt {ty} {whole}, {number(t, float(least))}")
        unknown = code.op(f"fcmp uno {ty} {whole}, {whole}")
        outside = code.op(f"or {BITS_VECTOR} {code.op(f'or {BITS_VECTOR} {above}, {below}')}, {unknown}")
        safe = code.select(outside, ty, "zeroinitializer", whole)
        working = max(bits, 32)
        result = code.op(f"fpto{'s' if to[0] == 's' else 'u'}i {ty} {safe} to {words(working)}")
        if working != bits:
            result = code.op(f"trunc {words(working)} {result} to {words(bits)}")
        result = code.select(above, words(bits), splat(most, bits), result)
        result = code.select(below, words(bits), splat(least, bits), result)
        return code.select(unknown, words(bits), splat(1 << (bits - 1) if wide else 0, bits), result)

    return Form(one(write), (to,), (of,), tolerant=True)


def _widened(code: Code, value: str, of: str) -> str:
    """Return halves as singles; other floats as they are."""
    if of != "f16":
        return value
    half = code.op(f"bitcast {words(16)} {value} to {_HALF}")
    return code.op(f"fpext {_HALF} {half} to {vector('f32')}")


def _narrowed(code: Code, value: str) -> str:
    """Return singles as the bits of halves, rounded to nearest, with the canonical NaN."""
    half = code.op(f"fptrunc {vector('f32')} {value} to {_HALF}")
    bits = code.op(f"bitcast {_HALF} {half} to {words(16)}")
    unknown = code.op(f"fcmp uno {vector('f32')} {value}, {value}")
    return code.select(unknown, words(16), splat(_CANONICAL_HALF, 16), bits)


_RANK = {"f64": 3, "f32": 2, "f16": 1}


def _floats(to: str, of: str, mode: str, *, ftz: bool, sat: bool) -> Form:
    if to not in _RANK or of not in _RANK or (to == of == "f16"):
        raise UnknownForm(f".{to}.{of}")
    integral = mode in _TO_INTEGER
    if integral and to != of:
        raise UnknownForm(f".{mode}.{to}.{of}")
    if not integral and _RANK[to] < _RANK[of] and (mode != "rn" or (of == "f64" and to == "f16")):
        raise UnknownForm(f".{mode}.{to}.{of}")
    if ftz and "f32" not in (to, of):
        raise UnknownForm(f".ftz.{to}.{of}")

    def write(code: Code, a: str) -> str:
        x = _widened(code, a, of)
        if ftz and of == "f32":
            x = flush(code, x)
        t = "f32" if of == "f16" else of
        if integral:
            x = code.op(f"call {vector(t)} @llvm.{_TO_INTEGER[mode]}.v{LANES}f{bits_of(t)}({vector(t)} {x})")
        elif to == "f16":
            return _narrowed(code, saturate(code, "f32", x) if sat else x)
        elif _RANK[to] > _RANK[t]:
            x = code.op(f"fpext {vector(t)} {x} to {vector(to)}")
        elif _RANK[to] < _RANK[t]:
            x = code.op(f"fptrunc {vector(t)} {x} to {vector(to)}")
        if ftz and to == "f32":
            x = flush(code, x)
        return saturate(code, to, x) if sat else x

    return Form(one(write), (to,), (of,), loose=to != "f16", tolerant=True)


# --- moves ------------------------------------------------------------------------------------------------------


@form("mov")
def mov(op: Opcode, _n: int) -> Form:
    """Build the plain copy."""
    t = op.type()
    op.finish()
    return Form(lambda _code, ins: tuple(ins), (t,), (t,), tolerant=True, copies=True)


def packing(t: str, count: int) -> Form:
    """Build ``mov.b64 d, {a, b}``: the first element in the low bits."""
    part = element_of(t, count)
    bits, whole = bits_of(part), "b" + str(bits_of(t))

    def emit(code: Code, ins: Sequence[str]) -> Sequence[str]:
        total = extend(code, ins[0], part, whole)
        for i, value in enumerate(ins[1:], 1):
            moved = code.op(f"shl {vector(whole)} {extend(code, value, part, whole)}, {splat(bits * i, bits_of(t))}")
            total = code.op(f"or {vector(whole)} {total}, {moved}")
        return (total,)

    return Form(emit, (t,), (part,) * count)


def unpacking(t: str, count: int) -> Form:
    """Build ``mov.b64 {a, b}, d``."""
    part = element_of(t, count)
    bits, whole = bits_of(part), "b" + str(bits_of(t))

    def emit(code: Code, ins: Sequence[str]) -> Sequence[str]:
        pieces = [code.op(f"lshr {vector(whole)} {ins[0]}, {splat(bits * i, bits_of(t))}") for i in range(count)]
        return [extend(code, piece, whole, part) for piece in pieces]

    return Form(emit, (part,) * count, (t,))


def observed(code: Code, t: str, value: str) -> str:
    """Return loose floats with the canonical NaN."""
    return canonical(code, t, value)
