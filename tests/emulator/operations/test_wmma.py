"""wmma through the fragments that it loads itself."""

import compiling
import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction


def product(shape, types, a, b, c, words="", counts=(1, 1, 2)):
    """Load A by rows, B by columns and C by rows, multiply, and store D."""
    (m, n, k), (td, ta, tb) = shape, types
    size = f"m{m}n{n}k{k}"
    listed = [
        "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}"
        for letter, count in zip("abc", counts, strict=True)
    ]
    body = f"""
    ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u64 %rd2, [c]; ld.param.u64 %rd3, [d];
    wmma.load.a.sync.aligned.row.{size}.global.{ta} {listed[0]}, [%rd0], {k};
    wmma.load.b.sync.aligned.col.{size}.global.{tb} {listed[1]}, [%rd1], {k};
    wmma.load.c.sync.aligned.row.{size}.global.{td} {listed[2]}, [%rd2], {n};
    wmma.mma{words.split("|")[0]}.sync.aligned.row.col.{size}{words.split("|")[-1]}.{td}.{ta}.{tb}.{td}
        {listed[2]}, {listed[0]}, {listed[1]}, {listed[2]};
    wmma.store.d.sync.aligned.row.{size}.global.{td} [%rd3], {listed[2]}, {n};
    """
    out = np.zeros_like(c)
    declarations = "".join(f".reg .b32 %{letter}<{count}>;" for letter, count in zip("abc", counts, strict=True))
    emulation = launch(kernel(body, ["a", "b", "c", "d"], declarations), "k", 1, 32, [a, b, c, out])
    assert emulation.clean, emulation.findings
    return out


@pytest.mark.parametrize("t", ["s4", "u4"])
def test_integers_of_four_bits(t):
    random = np.random.default_rng(1)
    low = -8 if t == "s4" else 0
    a, b = random.integers(low, low + 16, (8, 32)), random.integers(low, low + 16, (8, 32))
    c = random.integers(-99, 99, (8, 8)).astype(np.int32)
    left, right = (((one[:, 0::2] & 15) | (one[:, 1::2] & 15) << 4).astype(np.uint8) for one in (a, b))
    np.testing.assert_array_equal(product((8, 8, 32), ("s32", t, t), left, right, c), a @ b.T + c)


@pytest.mark.parametrize("logic", ["xor", "and"])
def test_bits(logic):
    random = np.random.default_rng(2)
    a, b = random.integers(0, 2, (8, 128)), random.integers(0, 2, (8, 128))
    c = random.integers(-99, 99, (8, 8)).astype(np.int32)
    left, right = (np.packbits(one, axis=1, bitorder="little") for one in (a, b))
    joined = a[:, None] ^ b if logic == "xor" else a[:, None] & b
    out = product((8, 8, 128), ("s32", "b1", "b1"), left, right, c, f".{logic}.popc|")
    np.testing.assert_array_equal(out, joined.sum(axis=2) + c)


def test_sums_are_clamped():
    a, b = np.full((16, 16), 127, np.int8), np.full((16, 16), 127, np.int8)
    c = np.full((16, 16), 2**31 - 5, np.int32)
    out = product((16, 16, 16), ("s32", "s8", "s8"), a, b, c, "|.satfinite", (2, 2, 8))
    assert (out == 2**31 - 1).all()


def test_a_bit_operation_is_for_bits_alone():
    a = np.zeros((8, 128), np.uint8)
    with pytest.raises(UnsupportedInstruction, match=r"a bit operation belongs to \.b1"):
        product((8, 8, 128), ("s32", "b1", "b1"), a, a, np.zeros((8, 8), np.int32))


MIXED = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const TYPE* a, const TYPE* b, float* c) {
    wmma::fragment<wmma::matrix_a, SHAPE, TYPE, wmma::col_major> fa;
    wmma::fragment<wmma::matrix_b, SHAPE, TYPE, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, SHAPE, float> fc;
    wmma::fill_fragment(fc, 1.0f);
    wmma::load_matrix_sync(fa, a, ROWS);
    wmma::load_matrix_sync(fb, b, COLUMNS);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, COLUMNS, wmma::mem_row_major);
}
"""


@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 8, 16), (8, 32, 16)])
def test_shapes_in_cuda(shape):
    m, n, k = shape
    source = MIXED.replace("TYPE", "__half").replace("SHAPE", f"{m}, {n}, {k}")
    ptx = compiling.compile_text(source.replace("ROWS", str(m)).replace("COLUMNS", str(n)))
    random = np.random.default_rng(3)
    a, b = random.integers(-4, 5, (m, k)).astype(np.float16), random.integers(-4, 5, (k, n)).astype(np.float16)
    out = np.zeros((m, n), np.float32)
    emulation = launch(ptx, "k", 1, 32, [np.ascontiguousarray(a.T), b, out])
    assert emulation.clean
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32) + 1)


TILES = {
    "load_a_f16": "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd0], LD;",
    "load_b_narrow": "wmma.load.b.sync.aligned.row.m32n8k16.global.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd0], LD;",
    "load_c_f32": "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd0], LD;",
    "store_f32": "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd0], {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, LD;",
    "load_a_s8": "wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {%r1,%r2}, [%rd0], LD;",
    "load_a_f64": "wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%rd1}, [%rd0], LD;",
}


@pytest.mark.parametrize(
    ("form", "offset", "leading", "words"),
    [
        ("load_a_f16", 0, 24, None),
        ("load_a_f16", 32, 16, None),
        ("load_a_f16", 0, 20, "a leading dimension of 20 elements is 40 bytes"),
        ("load_a_f16", 16, 24, "16 bytes beyond a multiple of 32"),
        ("load_b_narrow", 16, 24, None),  # tiles of 8 columns lie side by side
        ("load_b_narrow", 8, 24, "8 bytes beyond a multiple of 16"),
        ("load_c_f32", 0, 20, None),
        ("load_c_f32", 0, 18, "is 72 bytes"),
        ("store_f32", 64, 20, None),
        ("store_f32", 16, 16, "16 bytes beyond a multiple of 32"),
        ("load_a_s8", 16, 48, None),
        ("load_a_s8", 16, 40, "is 40 bytes"),
        ("load_a_f64", 8, 5, None),
    ],
)
def test_matrices_that_are_not_aligned(form, offset, leading, words):
    body = "".join(f"mov.u32 %r{i}, 0;" for i in range(1, 9)) + f"ld.param.u64 %rd0, [p]; add.u64 %rd0, %rd0, {offset};"
    ptx = kernel(body + TILES[form].replace("LD", str(leading)), ["p"])
    emulation = launch(ptx, "k", 1, 32, [np.zeros(512)])
    assert [(finding.kind, finding.count) for finding in emulation.findings] == ([("misaligned", 32)] if words else [])
    assert all(words in finding.detail for finding in emulation.findings)
