import pytest
from small_ptx import kernel

from lab.isa.ptx.module import read_ptx
from lab.judging.code import float_constants, narrow_arithmetic, prints, size_constants


def module(body, declarations="", text=""):
    return read_ptx(kernel(body, declarations=declarations, module=text), "k.ptx")


def test_constants_of_comparisons_are_found():
    compared = module(
        "setp.gt.f32 %p1, %f1, 0f42280000;\nmin.f64 %fd1, %fd2, 0d4000000000000000;\nsetp.lt.s32 %p2, %r1, 7;"
    )
    assert float_constants(compared) == (42.0, 2.0)
    assert float_constants(module("setp.gt.f32 %p1, %f1, 0f00000000;\nadd.f32 %f1, %f2, 0f42280000;")) == ()
    assert float_constants(module("setp.lt.f32 %p1, %f1, 0f7F800000;")) == ()  # infinity


@pytest.mark.parametrize(
    ("instruction", "dtypes", "narrow"),
    [
        ("cvt.rn.f16.f32 %h1, %f1;", ["float32"], "f16"),
        ("cvt.rna.tf32.f32 %r1, %f1;", ["float32", "int32"], "tf32"),
        ("cvt.rn.f16.f32 %h1, %f1;", ["float32", "float16"], None),
        ("cvt.rn.bf16.f32 %h1, %f1;", ["float32", "float16"], "bf16"),
        ("add.f32 %f1, %f2, %f3;", ["float64"], "f32"),
        ("add.f32 %f1, %f2, %f3;", ["float32"], None),
        ("add.f32 %f1, %f2, %f3;", ["int32"], None),
        ("add.u32 %r1, %r2, %r3;", ["float32"], None),
    ],
)
def test_arithmetic_narrower_than_every_float_of_the_task(instruction, dtypes, narrow):
    result = narrow_arithmetic(module(instruction), dtypes)
    assert (result and result[0]) == narrow


def test_calls_of_printf_have_a_place():
    from compiling import ptx_of  # noqa: PLC0415 - the compiler takes a moment to load

    text = ptx_of('__global__ void k(int n) { if (n > 3) printf("%d", n); }')
    assert prints(read_ptx(text, "k.ptx"))
    assert prints(module("add.u32 %r1, %r2, %r3;")) is None


def test_integers_of_comparisons_are_found():
    compared = module("setp.gt.s32 %p1, %r1, 1048576;\nsetp.lt.u64 %p1, %rd1, 7;\nadd.u32 %r1, %r2, 9;")
    assert size_constants(compared) == (7, 1048576)
