"""Values that differ by rounding alone."""

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.program import Program
from lab.emulator.rounding import differ_by_rounding, stored_floats
from lab.isa.ptx.module import read_ptx


@pytest.mark.parametrize(
    ("body", "width"),
    [
        ("add.f32 %f0, %f1, %f2; st.global.f32 [%rd0], %f0;", 32),
        ("mul.f32 %f0, %f1, %f2; mov.b32 %r0, %f0; st.global.b32 [%rd0], %r0;", 32),
        ("cvt.rn.f16.f32 %h0, %f0; st.global.b16 [%rd0], %h0;", 16),
        ("cvt.rn.bf16x2.f32 %r0, %f0, %f1; cvt.rn.bf16x2.f32 %r1, %f0, %f1; st.global.v2.b32 [%rd0], {%r0, %r1};", 16),
        ("cvt.rn.f16.f32 %h0, %f0; mov.b32 %r0, {%h0, %h0}; st.global.b32 [%rd0], %r0;", 16),
        ("add.f64 %fd0, %fd1, %fd2; st.global.f64 [%rd0], %fd0;", 64),
        ("add.u32 %r0, %r1, 1; st.global.u32 [%rd0], %r0;", 0),
        ("ld.global.f32 %f0, [%rd1]; st.global.f32 [%rd0], %f0;", 0),  # it was not computed here
        ("add.f32 %f0, %f1, %f2; mov.b32 %r0, %f0; selp.b32 %r3, %r0, %r1, %p0; st.global.b32 [%rd0], %r3;", 0),
        ("red.global.add.f32 [%rd0], %f0;", 0),
    ],
)
def test_stores_of_floats(body, width):
    program = Program(read_ptx(kernel(body)), "k")
    (store,) = [at for at, (_, one) in enumerate(program.code) if one.opcode.startswith(("st.", "red."))]
    assert stored_floats(program, store) == width


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        (
            np.array([1, -1, 1e-45, 3], np.float32),
            np.array([1 + 4e-7, -1 - 4e-7, -1e-45, 3.00001], np.float32),
            [True, True, True, False],
        ),
        (np.array([1, 100, 0], np.float16), np.array([1 + 2**-10, 101, -0.0], np.float16), [True, False, True]),
        (np.array([1], np.float64), np.array([1 + 1e-15], np.float64), [False]),
        (np.array([1], np.float64), np.array([1 + 8e-16], np.float64), [True]),
    ],
)
def test_neighbouring_floats(one, other, near):
    bits = f"u{one.itemsize}"
    assert differ_by_rounding(one.view(bits), other.view(bits), 8 * one.itemsize).tolist() == near


def test_each_of_two_packed_floats_must_be_near():
    one = np.array([[1, 2], [1, 2]], np.float16).view(np.uint32).reshape(-1)
    other = np.array([[1 + 2**-10, 2], [1, 3]], np.float16).view(np.uint32).reshape(-1)
    assert differ_by_rounding(one, other, 16).tolist() == [True, False]


@pytest.mark.parametrize(
    ("body", "width"),
    [
        (
            "add.f32 %f0, %f1, %f2; add.f64 %fd0, %fd1, %fd2; mov.b64 %rd2, %fd0; st.global.v2.b32 [%rd0], {%f0, %r1};",
            0,
        ),
        ("add.f32 %f0, %f1, %f2; st.global.v2.f32 [%rd0], {%f0, %f0};", 32),
        ("add.f32 %f0, %f1, %f2; st.global.v2.f32 [%rd0], {%f0, 0f3F800000};", 32),
        ("add.f32 %f0, %f1, %f2; add.u32 %r0, %r1, 1; st.global.v2.b32 [%rd0], {%f0, %r0};", 0),
        ("add.f32 %f0, %f1, %f2; mov.b32 %r0, %f0; st.global.u8 [%rd0], %r0;", 0),
    ],
)
def test_vectors_of_floats(body, width):
    program = Program(read_ptx(kernel(body)), "k")
    (store,) = [at for at, (_, one) in enumerate(program.code) if one.opcode.startswith("st.")]
    assert stored_floats(program, store) == width
