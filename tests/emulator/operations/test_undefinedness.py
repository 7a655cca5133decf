"""Propagation of undefined values: like NaN through arithmetic, and like marked elements through moves."""

import numpy as np
import pytest
from small_ptx import execute

from lab.emulator.operations.undefinedness import group_product, loaded_registers, spread_of, stored_elements

EIGHTH, HALF, SINGLE, DOUBLE = (
    (np.uint32, 0x7F7F7F7F),
    (np.uint32, 0x7E007E00),
    (np.uint32, 0x7FC00000),
    (np.uint64, 0x7FF8 << 48),
)
MMA, WMMA = "mma.sync.aligned.", "wmma.mma.sync.aligned."
PRODUCTS = [
    (MMA + "m16n8k16.row.col.f32.f16.f16.f32", (4, 4, 2, 4), (SINGLE, HALF, HALF, SINGLE)),
    (MMA + "m16n8k8.row.col.f16.f16.f16.f16", (2, 2, 1, 2), (HALF, HALF, HALF, HALF)),
    (MMA + "m16n8k8.row.col.f32.tf32.tf32.f32", (4, 4, 2, 4), (SINGLE, SINGLE, SINGLE, SINGLE)),
    (MMA + "m16n8k32.row.col.f32.e4m3.e4m3.f32", (4, 4, 2, 4), (SINGLE, EIGHTH, EIGHTH, SINGLE)),
    (MMA + "m8n8k4.row.col.f64.f64.f64.f64", (2, 1, 1, 2), (DOUBLE, DOUBLE, DOUBLE, DOUBLE)),
    (MMA + "m8n8k4.row.col.f32.f16.f16.f32", (8, 2, 2, 8), (SINGLE, HALF, HALF, SINGLE)),
    (MMA + "m8n8k4.col.row.f16.f16.f16.f16", (4, 2, 2, 4), (HALF, HALF, HALF, HALF)),
    (WMMA + "row.col.m16n16k16.f32.f32", (8, 8, 8, 8), (SINGLE, HALF, HALF, SINGLE)),
    (WMMA + "row.col.m32n8k16.f16.f16", (4, 8, 8, 4), (HALF, HALF, HALF, HALF)),
    (WMMA + "row.col.m16n16k8.f32.tf32.tf32.f32", (8, 4, 4, 8), (SINGLE, SINGLE, SINGLE, SINGLE)),
]


def followed(opcode):
    spread = spread_of(opcode)
    assert spread is not None
    return spread


def listed(letter, first, count):
    return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"


@pytest.mark.parametrize(("opcode", "counts", "nans"), PRODUCTS)
@pytest.mark.parametrize("which", [1, 2, 3])
def test_products_spread_what_is_undefined_as_they_spread_nan(opcode, counts, nans, which):
    random = np.random.default_rng(which)
    origins = [[np.zeros(32, np.int32) for _ in range(count)] for count in counts[1:]]
    for lane in random.integers(0, 32, 2):
        origins[which - 1][random.integers(counts[which])][lane] = 7
    inputs = []
    for registers, (dtype, nan) in zip(origins, nans[1:], strict=True):
        inputs += [np.where(register > 0, dtype(nan), dtype(0)) for register in registers]
    _, a, b, c = counts
    body = f"{opcode} {listed('o', 0, counts[0])}, {listed('i', 0, a)}, {listed('i', a, b)}, {listed('i', a + b, c)};"
    if nans[0] is DOUBLE:
        body = body.replace("{%i0}", "%i0").replace("{%i1}", "%i1")
    emulation, out = execute(body, *inputs, out="u8" if nans[0] is DOUBLE else "u4", outputs=counts[0])
    assert emulation.clean, emulation.findings
    width = {HALF: np.float16, SINGLE: np.float32, DOUBLE: np.float64}[nans[0]]
    wrong = np.isnan(out.reshape(counts[0], 32, 1).view(width)).any(axis=2)
    marks = followed(opcode)(origins)
    np.testing.assert_array_equal(np.array(marks) > 0, wrong)
    assert not wrong.all()


def test_undefined_metadata_of_a_sparse_product_decides_all_of_the_warp():
    opcode = "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    zeros = np.zeros(64, np.int32)
    metadata = zeros.copy()
    metadata[40] = 3
    marks = followed(opcode)([[zeros] * 2, [zeros] * 2, [zeros] * 4, [metadata], [zeros]])
    assert all((mark[:32] == 0).all() and (mark[32:] == 3).all() for mark in marks)


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_takes_marks_where_it_takes_elements(trans):
    opcode = f"ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16"
    marks = np.arange(1, 257, dtype=np.int32).reshape(32, 8)
    words = np.ascontiguousarray(marks.astype(np.uint16)).view(np.uint32)
    body = ".shared .align 16 .b8 s[512]; mov.u32 %r1, s; shl.b32 %r2, %r63, 4; add.u32 %r1, %r1, %r2;"
    body += f"st.shared.v4.b32 [%r1], {listed('i', 0, 4)}; bar.warp.sync -1; {opcode} {listed('o', 0, 4)}, [%r1];"
    emulation, out = execute(body, *np.ascontiguousarray(words.T), outputs=4)
    assert emulation.clean, emulation.findings
    loaded_marks = loaded_registers(opcode, {i: marks[:, i] for i in range(8)}, 4, 32)
    for i in range(4):
        np.testing.assert_array_equal(loaded_marks[i], np.maximum(out[i] & 0xFFFF, out[i] >> 16))
    assert loaded_registers(opcode, {}, 4, 32) == {}


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_puts_marks_where_it_puts_elements(trans):
    opcode = f"stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16"
    marks = np.arange(1, 129, dtype=np.uint32).reshape(4, 32)
    body = ".shared .align 16 .b8 s[512]; mov.u32 %r1, s; shl.b32 %r2, %r63, 4; add.u32 %r1, %r1, %r2;"
    body += f"{opcode} [%r1], {listed('i', 0, 4)}; bar.warp.sync -1; ld.shared.v4.b32 {listed('o', 0, 4)}, [%r1];"
    emulation, out = execute(body, *(marks | marks << 16), outputs=4)
    assert emulation.clean, emulation.findings
    halves = np.ascontiguousarray(out.T).view(np.uint16)  # (32, 8): the row of each lane's address
    np.testing.assert_array_equal(np.array(stored_elements(opcode, list(marks.astype(np.int32)))).T, halves)


def test_movmatrix_turns_marks():
    opcode, marks = "movmatrix.sync.aligned.m8n8.trans.b16", np.arange(1, 33, dtype=np.uint32)
    _, out = execute(f"{opcode} %o0, %i0;", marks | marks << 16)
    (transposed,) = followed(opcode)([[marks.astype(np.int32)]])
    np.testing.assert_array_equal(transposed, np.maximum(out & 0xFFFF, out >> 16))


def test_elements_of_fragments():
    ones, twos = np.full(32, 1, np.int32), np.full(32, 2, np.int32)
    loaded_marks = loaded_registers(
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16", {3: ones, 4: ones, 5: twos}, 8, 32
    )
    assert {i: int(each[0]) for i, each in loaded_marks.items()} == {1: 1, 2: 2}
    stored = stored_elements("wmma.store.d.sync.aligned.row.m16n16k16.global.f16", [ones, twos])
    assert [int(each[0]) for each in stored] == [1, 1, 2, 2]
    assert loaded_registers("ld.shared.v2.u32", {1: ones}, 2, 32) == {1: ones}


def test_products_of_a_warpgroup():
    """Of two: row 25 of the second one's A is undefined in a register, and one element of its accumulator."""
    opcode = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    a, c = ([np.zeros(256, np.int32) for _ in range(4)] for _ in range(2))
    a[1][128 + 32 + 5] = 9  # rows 8 to 15 of the second warp's 16
    c[0][128] = 4  # row 0, column 0
    none = np.zeros((2, 64), np.int32), np.zeros((2, 8), np.int32)
    result_marks = np.array(group_product(opcode, a, c, none, np.array([0, 4])))
    wanted = np.zeros((4, 256), np.int32)
    wanted[2:, 128 + 32 + 4 : 128 + 32 + 8], wanted[0, 128] = 9, 4
    np.testing.assert_array_equal(result_marks, wanted)
    none[1][0, 3] = 2  # column 3 of the first one's B: the second register of the second lane of each quad
    result_marks = np.array(group_product(opcode, [], [one * 0 for one in c], none, np.array([0, 4])))
    assert (result_marks[1, 1:128:4] == 2).all()
    assert (result_marks > 0).sum() == 64


def test_other_instructions_spread_nothing_between_lanes():
    assert spread_of("add.f32") is None
    assert spread_of("wmma.store.d.sync.aligned.row.m16n16k16.global.f32") is None
