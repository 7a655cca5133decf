"""Both engines on one kernel with every form of this module: the same bits."""

import pytest
import random_ptx

from lab.emulator.compiled import conversion_forms
from lab.emulator.opcodes import Opcode, UnknownForm

REGISTERS = {"8": "r", "16": "h", "32": "r", "64": "q"}
INTEGERS = [f"{sign}{bits}" for bits in REGISTERS for sign in "us"]
FLOATS = {"f16": "h", "f32": "f", "f64": "d"}


def every_form():
    """Yield each conversion between each pair of types: `random_ptx.OPERATIONS` combines some of them."""
    for to in INTEGERS:
        y = REGISTERS[to[1:]].upper()
        for of in INTEGERS:
            for sat in ("", ".sat"):
                yield f"cvt{sat}.{to}.{of} {y}, {REGISTERS[of[1:]]}"
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


@pytest.mark.parametrize("part", range(4))
def test_both_engines_give_the_same_bits(part):
    kernel = random_ptx.kernel_of_each(list(every_form())[part::4])
    for seed in (7, 8):
        random_ptx.agreed(kernel, seed, count=False)


def test_packing_has_elements_of_equal_size():
    assert conversion_forms.packing("b64", 2).ins == ("b32", "b32")
    with pytest.raises(UnknownForm, match="3 elements"):
        conversion_forms.unpacking("b16", 3)


@pytest.mark.parametrize("opcode", ["cvt.f32.s32", "cvt.rz.f32.f64", "cvt.rn.ftz.f64.s32"])
def test_a_conversion_without_a_form_is_refused(opcode):
    with pytest.raises(UnknownForm):
        conversion_forms.cvt(Opcode(opcode), 2)
