"""Both engines on one kernel with every form of floats: the same bits."""

import re
from pathlib import Path

import numpy as np
import pytest
import random_ptx

from lab import emulator
from lab.emulator.compiled.ir import Code
from lab.emulator.compiled.primitive_code import canonical
from lab.emulator.compiled.tracing import PRIMITIVES, Traced

MODES = ("rn", "rz", "rm", "rp")
TESTS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
KINDS = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


def singles(ftz):
    """Yield the operations on singles, with `.ftz` or without."""
    for mode in MODES:
        for modifiers in (f"{mode}{ftz}.f32", f"{mode}{ftz}.sat.f32"):
            yield from (f"{one}.{modifiers} F, f, f" for one in ("add", "sub", "mul"))
            yield f"fma.{modifiers} F, f, f, f"
    yield from (f"div.{mode}{ftz}.f32 F, f, f" for mode in ("rn", "approx", "full"))
    for operation in ("rcp.rn", "rcp.approx", "sqrt.rn", "sqrt.approx", "rsqrt.approx", "neg", "abs"):
        yield f"{operation}{ftz}.f32 F, f"
    yield from (f"{one}.approx{ftz}.f32 F, f" for one in ("sin", "cos", "lg2", "ex2"))
    yield from (f"{one}{ftz}{nan}.f32 F, f, f" for one in ("min", "max") for nan in ("", ".NaN"))
    for test in TESTS:
        yield from (f"setp.{test}{ftz}.f32 P, f, f", f"set.{test}{ftz}.u32.f32 R, f, f")
    yield from (f"slct{ftz}.f32.f32 F, f, f, f", f"slct{ftz}.u64.f32 Q, q, q, f")
    for mode in ("rz", "rm", "rp"):
        yield f"rcp.{mode}{ftz}.f32 F, f"
    yield from (f"{one}{ftz}.f32 F, f, f, f" for one in ("min", "max"))
    yield from (f"max{ftz}.xorsign.abs.f32 F, f, f", f"add{ftz}.f32.f16 F, h, f", f"add{ftz}.f32.bf16 F, h, f")
    for operation in ("and", "or", "xor"):
        yield from (f"setp.lt.{operation}{ftz}.f32 P|P, f, f, p", f"set.gt.{operation}{ftz}.f32.f32 F, f, f, !p")


def every_form():
    """Yield each operation with each of its modifiers: `random_ptx.OPERATIONS` combines some of them."""
    yield from (*singles(""), *singles(".ftz"))
    yield from (f"{one}.f64 D, d" for one in ("rcp.rn", "sqrt.rn", "neg", "abs"))
    yield from (f"{one}.f64 D, d, d" for one in ("add", "sub", "mul", "div.rn", "min", "max", "copysign"))
    yield from (f"setp.{test}.f64 P, d, d" for test in TESTS)
    yield from (f"testp.{kind}.{t} P, {x}" for kind in KINDS for t, x in (("f32", "f"), ("f64", "d")))
    yield from (
        "fma.rn.f64 D, d, d, d",
        "setp.le.u16 P|P, h, h",
        "set.eq.s32.s32 R, r, r",
        "set.ne.xor.f32.u64 F, q, q, p",
    )
    yield from (
        "copysign.f32 F, f, f",
        "tanh.approx.f32 F, f",
        "slct.f64.s32 D, d, d, r",
        "neg.f16 H, h",
        "abs.f16 H, h",
    )
    yield from (
        "rsqrt.approx.f64 D, d",
        "rcp.approx.ftz.f64 D, d",
        "neg.f16x2 R, r",
        "abs.bf16x2 R, r",
        "selp.f32 F, f, f, p",
        "selp.b64 Q, q, q, p",
        "selp.b16 H, h, h, p",
    )


@pytest.mark.parametrize("part", range(4))
def test_both_engines_give_the_same_bits(part):
    kernel = random_ptx.kernel_of_each(list(every_form())[part::4])
    for seed in (6, 7):
        random_ptx.agreed(kernel, seed, count=False)


def test_the_canonical_nan_takes_one_test():
    code = Code()
    canonical(Traced(code, np.dtype(np.float32), "%a"))
    assert "fcmp uno" in code.lines[0]
    assert len(code.lines) == 2


def test_every_function_that_delegates_has_a_form():
    sources = [file.read_text() for file in Path(emulator.__file__).parent.rglob("*.py")]
    assert {name for text in sources for name in re.findall(r'delegate\("(\w+)"', text)} == set(PRIMITIVES)
