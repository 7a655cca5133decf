import pytest

from lab.hardware.gpus import ARCHITECTURES
from lab.isa.matrix import MatrixProduct, matrix_product, matrix_products, pipe_cycles


@pytest.mark.parametrize(
    ("opcode", "shape", "elements"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (16, 8, 16), "float16"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", (16, 8, 16), "float16"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", (16, 8, 8), "tf32"),
        ("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", (16, 8, 4), "tf32"),
        ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32", (16, 8, 32), "int8"),
        ("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16", (16, 8, 32), "float8"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", (8, 8, 4), "float64"),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", (32, 8, 4), "float16"),
        ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", (16, 8, 16), "float16"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", (16, 16, 16), "float16"),
        ("wmma.mma.sync.aligned.row.col.m32n8k16.s32.s8.s8.s32", (32, 8, 16), "int8"),
        ("HMMA.16816.F32.BF16", (16, 8, 16), "float16"),
        ("HMMA.1688.F32.TF32", (16, 8, 8), "tf32"),
        ("HMMA.1684.F32.TF32", (16, 8, 4), "tf32"),
        ("IMMA.16832.S8.S8", (16, 8, 32), "int8"),
        ("DMMA.8x8x4", (8, 8, 4), "float64"),
        ("DMMA.884", (8, 8, 4), "float64"),
        ("QMMA.16832.F32.E4M3.E4M3", (16, 8, 32), "float8"),
    ],
)
def test_a_warps_product_is_that_of_the_shape(opcode, shape, elements):
    m, n, k = shape
    found = matrix_product(opcode)
    assert found is not None
    assert (found.multiply_adds, found.elements, found.group) == (m * n * k, elements, False)


@pytest.mark.parametrize(
    ("opcode", "columns", "k", "elements"),
    [
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", 256, 16, "float16"),
        ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16", 8, 16, "float16"),
        ("HGMMA.64x64x16.F32.BF16", 64, 16, "float16"),
        ("HGMMA.64x256x8.F32.TF32", 256, 8, "tf32"),
        ("QGMMA.64x64x32.F32.E4M3.E4M3", 64, 32, "float8"),
        ("IGMMA.64x128x32.S8.S8", 128, 32, "int8"),
    ],
)
def test_a_warp_does_a_quarter_of_a_warpgroups_product(opcode, columns, k, elements):
    assert matrix_product(opcode) == MatrixProduct(16 * columns * k, elements, True, columns)


@pytest.mark.parametrize(
    "opcode",
    [
        "fma.rn.f32",
        "wgmma.wait_group.sync.aligned",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16",
        "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32",
        "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32",
        "tcgen05.mma.cta_group::1.kind::f16",
        "FFMA",
        "HMMA.884.F32.F32.STEP0",
        "IMMA.16864.S4.S4",
        "BMMA.168256.AND.POPC",
        "UTCHMMA",
    ],
)
def test_nothing_is_said_of_other_instructions(opcode):
    assert matrix_product(opcode) is None


def test_products_add_up_by_type():
    opcodes = {"HMMA.16816.F32": 2, "HGMMA.64x64x16.F32.BF16": 1, "HMMA.1688.F32.TF32": 1, "FFMA": 9}
    assert matrix_products(opcodes) == {"float16": 2 * 2048 + 16 * 64 * 16, "tf32": 1024}
    assert matrix_products({"FFMA": 9}) == {}
    assert matrix_products({"HMMA.16816.F32": 2, "UTCHMMA": 1}) == {}


def test_an_instruction_takes_the_cycles_of_its_type():
    assert pipe_cycles("HGMMA.64x256x16.F32") == 128
    of_32_bytes = ("HMMA.16816.F32.BF16", "HMMA.1688.F32.TF32", "IMMA.16832.S8.S8")
    assert {pipe_cycles(opcode) for opcode in of_32_bytes} == {4}
    assert pipe_cycles("DMMA.8x8x4") == 8
    rates = ARCHITECTURES["sm_90"].tensor_lanes
    for opcode in ("HMMA.16816.F32", "HMMA.1688.F32.TF32", "QGMMA.64x64x32.F32", "IMMA.16832.S8.S8", "DMMA.8x8x4"):
        product = matrix_product(opcode)
        assert pipe_cycles(opcode) == product.multiply_adds / (rates[product.elements] / 4)


def test_an_instruction_takes_at_least_a_cycle():
    assert pipe_cycles("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32") == pipe_cycles("UTCHMMA") == 1
