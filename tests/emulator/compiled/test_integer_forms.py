"""Both engines on one kernel with every form of this module: the same bits."""

import pytest
import random_ptx

from lab.emulator.compiled import integer_forms
from lab.emulator.compiled.ir import Code
from lab.emulator.opcodes import UnknownForm

REGISTERS = {"16": "h", "32": "r", "64": "q"}


def arithmetic(t, x):
    """Yield the operations of a type whose values lie in registers of kind x."""
    y, wide = x.upper(), {"h": "r", "r": "q"}.get(x)
    yield from (f"{one}.{t} {y}, {x}, {x}" for one in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"))
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


def every_form():
    """Yield each operation in each of its types: `random_ptx.OPERATIONS` combines some of them."""
    for bits, x in REGISTERS.items():
        yield from (*arithmetic(f"u{bits}", x), *arithmetic(f"s{bits}", x), *logic(bits, x))
    yield from (f"lop3.b32 R, r, r, r, {1 << case}" for case in range(8))
    for way in ("l.wrap", "l.clamp", "r.wrap", "r.clamp"):
        yield from (f"shf.{way}.b32 R, r, r, {amount}" for amount in ("r", "0", "31", "32", "33"))
    yield from (f"prmt.b32 R, r, r, {selector}" for selector in ("r", "0x7654", "0xFEDC", "0x0123", "0x89AB"))
    yield from ("add.sat.s32 R, r, r", "sub.sat.s32 R, r, r", "xor.pred P, p, p", "and.pred P, p, p", "not.pred P, p")


@pytest.mark.parametrize("part", range(6))
def test_both_engines_give_the_same_bits(part):
    kernel = random_ptx.kernel_of_each(list(every_form())[part::6])
    for seed in (5, 6):
        interpreted, compiled = random_ptx.agreed(kernel, seed)
        assert compiled.counts == interpreted.counts


@pytest.mark.parametrize(
    ("how", "t", "amount", "lines"),
    [
        ("shl", "b32", 3, 1),
        ("shl", "b32", 31, 1),
        ("lshr", "b32", 32, 2),
        ("ashr", "s32", 32, 1),
        ("shl", "b64", 63, 1),
    ],
)
def test_a_known_shift_needs_no_clamp(how, t, amount, lines):
    code = Code()
    code.constants["known"] = amount
    integer_forms.shift_by(code, how, t, "%a", "known")
    assert len(code.lines) == lines


def test_integers_have_no_unordered_test():
    with pytest.raises(UnknownForm, match="ltu"):
        integer_forms.comparison("ltu", "s32")
