"""Both engines on one kernel with every form of integers and every conversion: the same bits."""

import numpy as np
import pytest
import random_ptx

from lab.emulator import floats
from lab.emulator.compiled.ir import Code, splat
from lab.emulator.compiled.tracing import Traced, trace
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.base import Alu, assign
from lab.emulator.operations.table import ALU

REGISTERS = {"16": "h", "32": "r", "64": "q"}
HOLDERS = {"8": "r", **REGISTERS}
INTEGERS = [f"{sign}{bits}" for bits in HOLDERS for sign in "us"]
FLOATS = {"f16": "h", "f32": "f", "f64": "d"}
BINARY = ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max")
MORE = """
mad.lo.cc.u32 R, r, r, r; madc.hi.cc.u32 R, r, r, r; madc.lo.u32 R, r, r, r | mad.hi.sat.s32 R, r, r, r
mul24.lo.s32 R, r, r | mul24.hi.u32 R, r, r | mad24.hi.sat.s32 R, r, r, r | mad24.lo.u32 R, r, r, r
bmsk.clamp.b32 R, r, r | bmsk.wrap.b32 R, r, r | szext.clamp.s32 R, r, r | szext.wrap.u32 R, r, r
dp4a.s32.s32 R, r, r, r | dp4a.u32.s32 R, r, r, r | dp4a.u32.u32 R, r, r, r | dp2a.lo.s32.s32 R, r, r, r
dp2a.hi.u32.s32 R, r, r, r | min.relu.s32 R, r, r | max.relu.s32 R, r, r | mov.v2.u32 {R, R}, {r, r}
cvt.pack.sat.u16.s32 R, r, r | cvt.pack.sat.s8.s32.b32 R, r, r, r | cvt.rn.bf16.f32 H, f | cvt.f32.bf16 F, h
cvt.rn.f16x2.f32 R, f, f | cvt.rn.bf16x2.f32 R, f, f | cvt.rn.relu.bf16x2.f32 R, f, f | cvt.rna.tf32.f32 R, f
cvt.rz.f16.f32 H, f | cvt.rm.bf16.f32 H, f | cvt.rn.satfinite.f16.f32 H, f | cvt.rz.f32.s32 F, r
cvt.rp.f32.u64 F, q | cvt.rz.f32.f64 F, d | cvt.rm.f64.s64 D, q | cvt.rni.f16.f16 H, h | cvt.f16.f16 H, h
setp.lt.f16 P, h, h | setp.lt.bf16 P, h, h | setp.geu.f16 P, h, h | setp.gt.f16x2 P|P, r, r
set.lt.f16.f16 H, h, h | set.lt.u16.f16 H, h, h | set.ne.bf16x2.bf16x2 R, r, r
"""
"""Forms that the tests of both engines together had no room for."""


def arithmetic(t, x):
    """Yield the operations of a type whose values lie in registers of kind x."""
    y, wide = x.upper(), {"h": "r", "r": "q"}.get(x)
    yield from (f"{one}.{t} {y}, {x}, {x}" for one in BINARY)
    for sources in (f"77, {x}", f"{x}, 3", "77, 3"):
        yield from (f"{one}.{t} {y}, {sources}" for one in BINARY)
    yield from (f"{one}.{t} {y}, {x}, {x}, {x}" for one in ("sad", "mad.lo", "mad.hi"))
    yield from (f"setp.{test}.{t} P, {x}, {x}" for test in ("eq", "ne", "lt", "le", "gt", "ge"))
    yield f"shr.{t} {y}, {x}, r"
    if wide:
        yield from (f"mul.wide.{t} {wide.upper()}, {x}, {x}", f"mad.wide.{t} {wide.upper()}, {x}, {x}, {wide}")
    if t[0] == "s":
        yield from (f"neg.{t} {y}, {x}", f"abs.{t} {y}, {x}")
    else:
        yield from (f"setp.{test}.{t} P, {x}, {x}" for test in ("lo", "ls", "hi", "hs"))
    if wide != "r":
        yield from (f"bfind.{t} R, {x}", f"bfind.shiftamt.{t} R, {x}")
        yield from (f"bfe.{t} {y}, {x}, {field}" for field in ("r, r", "0, 32", "31, 1", "3, 0", "300, 5", "7, 255"))
        for first, second in (("add.cc", "addc"), ("sub.cc", "subc")):
            yield "; ".join(f"{one}.{t} {y}, {x}, {x}" for one in (first, f"{second}.cc", second))


def logic(bits, x):
    """Yield the operations on bits in registers of kind x."""
    y = x.upper()
    yield from (f"{one}.b{bits} {y}, {x}, {x}" for one in ("and", "or", "xor"))
    yield from (f"{one}.b{bits} {y}, {x}" for one in ("not", "cnot"))
    for amount in ("r", "1", "16", "32", "64"):
        yield from (f"{one}{bits} {y}, {x}, {amount}" for one in ("shl.b", "shr.b", "shr.s"))
    if bits != "16":
        yield from (f"popc.b{bits} R, {x}", f"clz.b{bits} R, {x}", f"brev.b{bits} {y}, {x}")
        yield from (f"bfi.b{bits} {y}, {x}, {x}, {field}" for field in ("r, r", "31, 1", "5, 40", "256, 3"))


def integers():
    """Yield each operation in each of its types: `random_ptx.OPERATIONS` combines some of them."""
    for bits, x in REGISTERS.items():
        yield from (*arithmetic(f"u{bits}", x), *arithmetic(f"s{bits}", x), *logic(bits, x))
    yield from (f"lop3.b32 R, r, r, r, {1 << case}" for case in range(8))
    for way in ("l.wrap", "l.clamp", "r.wrap", "r.clamp"):
        yield from (f"shf.{way}.b32 R, r, r, {amount}" for amount in ("r", "0", "31", "32", "33"))
    yield from (f"prmt.b32 R, r, r, {selector}" for selector in ("r", "0x7654", "0xFEDC", "0x0123", "0x89AB"))
    yield from ("add.sat.s32 R, r, r", "sub.sat.s32 R, r, r", "xor.pred P, p, p", "and.pred P, p, p", "not.pred P, p")


def conversions():
    """Yield each conversion between each pair of types: `random_ptx.OPERATIONS` combines some of them."""
    for to in INTEGERS:
        y = HOLDERS[to[1:]].upper()
        for of in INTEGERS:
            for sat in ("", ".sat"):
                yield f"cvt{sat}.{to}.{of} {y}, {HOLDERS[of[1:]]}"
        for of, x in FLOATS.items():
            for mode in ("rni", "rzi", "rmi", "rpi"):
                yield f"cvt.{mode}.{to}.{of} {y}, {x}"
        yield f"cvt.rzi.ftz.{to}.f32 {y}, f"
        yield f"cvt.rpi.ftz.{to}.f32 {y}, f"
        for float_ in ("f32", "f64"):
            for sat in ("", ".sat"):
                yield f"cvt.rn{sat}.{float_}.{to} {FLOATS[float_].upper()}, {y.lower()}"
    for mode in ("rni", "rzi", "rmi", "rpi"):
        yield f"cvt.{mode}.f32.f32 F, f"
        yield f"cvt.{mode}.ftz.f32.f32 F, f"
        yield f"cvt.{mode}.f64.f64 D, d"
    for sat in ("", ".sat"):
        for ftz in ("", ".ftz"):
            yield f"cvt{ftz}{sat}.f64.f32 D, f"
            yield f"cvt.rn{ftz}{sat}.f32.f64 F, d"
            yield f"cvt.rn{ftz}{sat}.f16.f32 H, f"
            yield f"cvt{ftz}{sat}.f32.f16 F, h"
            yield f"cvt{ftz}{sat}.f32.f32 F, f"
        yield f"cvt{sat}.f64.f16 D, h"
        yield f"cvt{sat}.f64.f64 D, d"
    yield from ("mov.b64 Q, {r, r}", "mov.b64 {R, R}, q", "mov.b32 R, {h, h}", "mov.b32 {H, H}, r")
    yield from ("mov.b64 Q, {h, h, h, h}", "mov.b64 {H, H, H, H}, q", "mov.b64 D, q", "mov.b32 R, f", "mov.f32 F, f")


def more():
    """Yield the forms of `MORE`."""
    yield from (form.strip() for line in MORE.strip().splitlines() for form in line.split(" | "))


@pytest.mark.parametrize("part", range(6))
def test_both_engines_give_the_same_bits(part):
    kernel = random_ptx.kernel_of_each([*integers(), *more()][part::6])
    for seed in (5, 6):
        interpreted, compiled = random_ptx.agreed(kernel, seed)
        assert compiled.counts == interpreted.counts


@pytest.mark.parametrize("part", range(4))
def test_both_engines_convert_to_the_same_bits(part):
    kernel = random_ptx.kernel_of_each(list(conversions())[part::4])
    for seed in (7, 8):
        random_ptx.agreed(kernel, seed, count=False)


@pytest.mark.parametrize(
    "form",
    [
        "fns.b32 R, r, r, r",
        "min.s16x2 R, r, r",
        "prmt.b32.f4e R, r, r, r",
        "cvt.rn.satfinite.e4m3x2.f32 H, f, f",
        "add.rz.f64 D, d, d",
        "min.f16 H, h, h",
        "add.f32x2 Q, q, q",
    ],
)
def test_a_form_that_cannot_be_traced_is_left_to_the_interpreter(form):
    emulation, _ = random_ptx.run(random_ptx.kernel_of_each([form]), 1, "compiled")
    assert emulation.engine == "interpreted"
    assert form.split()[0] in emulation.not_compiled


def traced(opcode, *sources):
    """Return the lines of an operation on values named so, or on constants, and its result."""
    code = Code()
    names = []
    for source in sources:
        names.append(source if isinstance(source, str) else splat(source, 32))
        if not isinstance(source, str):
            code.constants[names[-1]] = source
    op = Opcode(opcode)
    (result,) = trace(code, ALU[op.family](op, len(sources) + 1), names)
    return code.lines, result


@pytest.mark.parametrize(
    ("opcode", "amount", "lines"),
    [("shl.b32", 3, 1), ("shl.b32", 31, 1), ("shr.b32", 32, 2), ("shr.s32", 32, 1), ("shl.b64", 63, 1)],
)
def test_a_known_shift_needs_no_clamp(opcode, amount, lines):
    assert len(traced(opcode, "%a", amount)[0]) == lines


def test_operations_on_literals_are_computed_at_once():
    assert traced("shl.b32", 3, 5) == ([], "splat (i32 96)")


def test_a_view_and_its_values_change_together():
    code = Code()
    values = Traced(code, np.dtype(np.float32), "%a")
    bits = values.view(np.uint32)
    bits[np.isnan(values)] = floats.NAN32
    assert values.name == "%t4"
    assert code.lines[-2:] == [
        "  %t3 = select <32 x i1> %t1, <32 x i32> splat (i32 2147483647), <32 x i32> %t2",
        "  %t4 = bitcast <32 x i32> %t3 to <32 x float>",
    ]
    values[...] = np.float32(1)
    assert bits.name == "%t5"
    assert code.lines[-1].startswith("  %t5 = bitcast <32 x float> bitcast")


def test_a_lane_has_no_value_of_its_own():
    x = Traced(Code(), np.dtype(np.uint32), "%a")
    for question in (bool, int, float, list, len, np.asarray, lambda x: x[0], lambda x: x.shape, np.sort):
        with pytest.raises(UnknownForm, match="no compiled form"):
            question(x)


def test_shortcuts_for_some_values_are_not_taken():
    x = Traced(Code(), np.dtype(np.uint16), "%a")
    assert x.max(initial=3) == 0xFFFF
    assert (x == 0).any()
    assert np.count_nonzero(x) == 32


@pytest.mark.parametrize(
    ("function", "dtype"),
    [(np.exp2, "f4"), (np.negative, "?"), (np.divmod, "i4"), (np.add.reduce, "i4"), (np.bitwise_count, "u2")],
)
def test_what_no_instruction_computes_is_refused(function, dtype):
    t = {"f4": "f32", "?": "pred", "i4": "s32", "u2": "u16"}[dtype]
    sources = (t, t) if function is np.divmod else (t,)
    with pytest.raises(UnknownForm, match="no compiled form"):
        trace(Code(), Alu(assign(function), (t,), sources), ["%a", "%b"][: len(sources)])
