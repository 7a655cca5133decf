"""Kernels of a user's own beside an operator's: built, compared with its reference, and their mistakes found.

Sizes are awkward, and the operators poison what is only written, so that a kernel that leaves out an element is wrong.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lab.experiment.load import from_text
from lab.experiment.space import expand
from lab.experiment.variants import plan, toolchains
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages.build import Built, build, build_task
from lab.stages.emulate import emulate
from lab.toolchain.triton.compiler import find_triton

SUPPORT = Path(__file__).parents[1] / "support"

SOURCES = """
#ifndef TILE
#define TILE 32
#endif
#ifndef SPLITS
#define SPLITS 1
#endif
__global__ void product(float *out, const float *x, const float *y, int rows, int depth, int apart, float scale) {
    int i = blockIdx.x * TILE + threadIdx.x, j = blockIdx.y;
    if (i >= rows) return;
    float sum = 0;
    for (int p = 0; p < depth; ++p) sum += x[i + p * rows] * y[p + j * depth];
    out[i + j * apart] = scale * sum;
}
__global__ void partial(float *parts, const float *x, const float *y, int rows, int columns, int depth) {
    int i = blockIdx.x * TILE + threadIdx.x, j = blockIdx.y, share = (depth + SPLITS - 1) / SPLITS;
    if (i >= rows) return;
    float sum = 0;
    for (int p = blockIdx.z * share; p < min(depth, (blockIdx.z + 1) * share); ++p)
        sum += x[i + p * rows] * y[p + j * depth];
    parts[(blockIdx.z * columns + j) * rows + i] = sum;
}
__global__ void add(float *out, const float *parts, int rows, int columns) {
    int at = blockIdx.x * TILE + threadIdx.x;
    if (at >= rows * columns) return;
    float sum = 0;
    for (int s = 0; s < SPLITS; ++s) sum += parts[s * rows * columns + at];
    out[at] = sum;
}
struct Row { float *out; const float *in; int length; };
__global__ void softmax(Row row) {
    const float *x = row.in + blockIdx.x * row.length;
    float largest = x[0], sum = 0;
    for (int j = 1; j < row.length; ++j) largest = fmaxf(largest, x[j]);
    for (int j = 0; j < row.length; ++j) sum += expf(x[j] - largest);
    for (int j = 0; j < row.length; ++j) row.out[blockIdx.x * row.length + j] = expf(x[j] - largest) / sum;
}
__global__ void normalise(float *y, const float *x, const float *w, const float *b, int n, float eps) {
    float mean = 0, square = 0;
    for (int j = 0; j < n; ++j) mean += x[blockIdx.x * n + j] / n;
    for (int j = 0; j < n; ++j) square += (x[blockIdx.x * n + j] - mean) * (x[blockIdx.x * n + j] - mean) / n;
    for (int j = 0; j < n; ++j)
        y[blockIdx.x * n + j] = w[j] * (x[blockIdx.x * n + j] - mean) / sqrtf(square + eps) + b[j];
}
template <typename T> __global__ void axpy(T *z, const T *x, const T *y, T a, long long count) {
    long long i = blockIdx.x * 64ll + threadIdx.x;
    if (i < count) z[i] = a * x[i] + y[i];
}
"""
PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry copied(.param .u64 z, .param .u64 x, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32 %f<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    mov.u32 %r1, %tid.x;
    ld.param.u32 %r2, [n];
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 ret;
    ld.param.u64 %rd1, [z];
    ld.param.u64 %rd2, [x];
    mul.wide.s32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.s64 %rd5, %rd1, %rd3;
    st.global.f32 [%rd5], %f1;
    ret;
}
"""
TRITON = """import triton
import triton.language as tl

@triton.jit
def product(out, x, y, rows, columns, depth, lead, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(0, depth, 16):
        p = first + tl.arange(0, 16)
        of_x = (i < rows)[:, None] & (p < depth)[None, :]
        of_y = (p < depth)[:, None] & (j < columns)[None, :]
        a = tl.load(x + i[:, None] + p[None, :] * rows, mask=of_x, other=0.0)
        b = tl.load(y + p[:, None] + j[None, :] * depth, mask=of_y, other=0.0)
        sums = tl.dot(a, b, sums, input_precision="ieee")
    there = (i < rows)[:, None] & (j < columns)[None, :]
    tl.store(out + i[:, None] + j[None, :] * lead, sums.to(out.dtype.element_ty), mask=there)
"""

DESCRIBED = (
    TRITON
    + """
@triton.jit
def described(out, x, y, columns, rows, depth, BLOCK: tl.constexpr):
    of_x = tl.make_tensor_descriptor(x, [columns, depth], [depth, 1], [BLOCK, 32])
    of_y = tl.make_tensor_descriptor(y, [rows, depth], [depth, 1], [BLOCK, 32])
    of_out = tl.make_tensor_descriptor(out, [columns, rows], [rows, 1], [BLOCK, BLOCK])
    i, j = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(0, depth, 32):
        b = of_y.load([j, first])
        sums = tl.dot(of_x.load([i, first]), b.T, sums)
    of_out.store([i, j], sums.to(out.dtype.element_ty))
"""
)

GEMM = """question: Which?
operator: gemm
problem: {m: 640, n: 640, k: 640, alpha: 1.5}
emulate: {m: 67, n: 5, k: 33}
archs: [sm_90]
kernels:
  - source: kernels.cu
    kernel: product
    arguments: {out: C, x: A, y: B, rows: m, depth: k, apart: ldc, scale: alpha}
    parameters: {TILE: [32, 64]}
    grid: ["ceil_div(m, TILE)", n]
    block: TILE
  - template: gemm/v1_coalesced.cu.j2
"""
SPLIT = """question: Which?
operator: gemm
problem: {m: 640, n: 640, k: 640}
emulate: {m: 67, n: 5, k: 33}
archs: [sm_90]
kernels:
  - source: kernels.cu
    name: in two launches
    arguments: {parts: "float32[SPLITS, n, m]", out: C, x: A, y: B, rows: m, columns: n, depth: k}
    parameters: {SPLITS: 3, TILE: 32}
    launches:
      - {kernel: partial, grid: ["ceil_div(m, TILE)", n, SPLITS], block: TILE,
         arguments: [parts, x, y, rows, columns, depth]}
      - {kernel: add, grid: ["ceil_div(m * n, TILE)"], block: TILE, arguments: [out, parts, rows, columns]}
"""
SOFTMAX = """question: Which?
operator: softmax
problem: {m: 64, n: 100}
emulate: {m: 3, n: 37}
archs: [sm_90]
kernels:
  - source: kernels.cu
    kernel: softmax
    arguments: {row: {out: Y, in: X, length: n}}
    grid: m
    block: 1
    constraints: [ldx == n, ldy == n]
"""
NORM = """question: Which?
operator: layer_norm
problem: {m: 64, n: 100}
emulate: {m: 3, n: 37}
archs: [sm_90]
kernels:
  - source: kernels.cu
    kernel: normalise
    arguments: {y: Y, x: X, w: W, b: B, n: n, eps: epsilon}
    grid: m
    block: 1
"""
OWN = """question: Which?
operator: ./axpy_operator.py:Axpy
problem: {n: 1000, a: 3.0}
emulate: {n: 67}
archs: [sm_90]
kernels:
  - source: kernels.cu
    kernel: axpy<float>
    arguments: {z: z, x: x, y: y, a: float32 = a, count: n}
    grid: ceil_div(n, 64)
    block: 64
"""
COPIED = """question: Which?
operator: copy
problem: {m: 64, n: 4}
emulate: {m: 61, n: 1}
archs: [sm_90]
kernels:
  - {source: copied.ptx, arguments: {z: B, x: A, n: m * n}, grid: 1, block: 256}
  - {template: copy/linear.cu.j2}
"""
TRITONS = GEMM.replace("alpha: 1.5", "dtype: [float32, float16]")
TRITONS = (
    TRITONS[: TRITONS.index("  - source")]
    + """  - source: products.py
    arguments: {out: C, x: A, y: B, rows: m, columns: n, depth: k, lead: ldc}
    parameters: {BLOCK: 32}
    grid: ["ceil_div(m, BLOCK)", "ceil_div(n, BLOCK)"]
    constraints: [alpha == 1, beta == 0]
  - template: gemm/v1_coalesced.cu.j2
    constraints: [dtype == "float32"]
"""
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernels.cu").write_text(SOURCES)
    (tmp_path / "copied.ptx").write_text(PTX)
    (tmp_path / "products.py").write_text(TRITON)
    shutil.copy(SUPPORT / "axpy_operator.py", tmp_path)
    return tmp_path


def judged(folder, *texts):
    """Return the faults of each variant of some experiments, by kernel and label; empty where it is correct."""
    planned_variants = []
    for text in texts:
        experiment = from_text(text, folder / "e.yaml")
        tools = toolchains(experiment)
        planned_variants += [(experiment, one) for one in plan(experiment, expand(experiment).points, tools, ["sm_90"])]
    outcomes = build([build_task(planned) for _, planned in planned_variants])
    return [
        (f"{planned.point.kernel.name} {planned.label}".strip(), wrong(experiment, planned, outcome))
        for (experiment, planned), outcome in zip(planned_variants, outcomes, strict=True)
    ]


def wrong(experiment, planned, outcome):
    assert isinstance(outcome, Built), outcome
    context = FlowContext(experiment, None, emulate=True)
    variant = flow.inspect(context, planned, outcome, None)
    if (mistake := flow.argument_mistake(context, variant, outcome)) is not None:
        return str(mistake)
    record = emulate(flow.emulation_task(context, variant), variant.ptx)
    assert record.unsupported is None or record.unsupported == "", record.unsupported
    if record.fault:
        return record.fault
    assert record.verification is not None
    return "" if record.verification.passed else f"wrong: {record.verification.worst}"


def test_kernels_beside_those_of_any_operator_are_right(folder):
    found = judged(folder, GEMM, SPLIT, SOFTMAX, NORM, OWN, COPIED)
    assert found == [
        ("product TILE=32", ""),
        ("product TILE=64", ""),
        ("v1_coalesced", ""),
        ("in two launches", ""),
        ("softmax", ""),
        ("normalise", ""),
        ("axpy", ""),
        ("copied", ""),
        ("linear", ""),
    ]


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("x: A, y: B", "x: B, y: A", "out-of-bounds"),  # the operands are exchanged
        ("scale: alpha", "scale: alpha / 2", "wrong"),
        ("depth: k", "depth: k - 1", "wrong"),
        ('TILE)", n]', 'TILE)", n - 1]', "never written"),  # a column keeps its poison
        ("rows: m", "rows: m + 64", "out"),  # beyond the end
        ("rows: m, depth", "rows: A, depth", "is an array here, but the kernel takes a value (int rows)"),
        ("x: A, y: B", "y: B, x: A", "their order differs"),
        ("x: A, y", "x: m, y", "is a scalar here, but the kernel takes a pointer"),
        ("out: C, x: A", "out: A, x: C", "the kernel takes const float *, which it cannot write"),
    ],
)
def test_what_is_wrong_is_found(folder, old, new, part):
    text = GEMM.replace("TILE: [32, 64]", "TILE: 32").replace("  - template: gemm/v1_coalesced.cu.j2\n", "")
    assert old in text
    [(_, found)] = judged(folder, text.replace(old, new))
    assert part in found


def test_an_array_of_another_type_is_a_mistake_of_the_entry(folder):
    text = GEMM.replace("TILE: [32, 64]", "TILE: 32").replace("alpha: 1.5", "dtype: [float32, float64]")
    text = text.replace("  - template: gemm/v1_coalesced.cu.j2\n", "")
    assert [bool(found) for _, found in judged(folder, text)] == [False, True]
    found = judged(folder, text)[1][1]
    assert "e.yaml:9" in found
    assert "out, has elements of type float64 here, but the kernel takes float *" in found
    assert "key: kernels[0].arguments" in found
    assert "suggestion: use constraints to restrict a kernel to some problems; this one is dtype=float64" in found
    constrained = text + '    constraints: [dtype == "float32"]\n'
    assert judged(folder, constrained) == [("product dtype=float32", "")]


@pytest.mark.skipif(find_triton() is None, reason="needs Triton")
def test_a_triton_function_beside_templates(folder):
    """Its arguments have the types of the problem's arrays."""
    assert judged(folder, TRITONS) == [
        ("product dtype=float32", ""),
        ("v1_coalesced dtype=float32", ""),
        ("product dtype=float16", ""),
    ]
    [*found] = judged(folder, TRITONS.replace("x: A, y: B", "x: B, y: A"))
    assert [bool(what) for _, what in found] == [True, False, True]


@pytest.mark.skipif(find_triton() is None, reason="needs Triton")
def test_descriptors_that_a_triton_function_makes(folder):
    """They lie in memory that is given to each program; m and n end within a tile, and k within a step."""
    (folder / "products.py").write_text(DESCRIBED)
    text = """question: Which?
operator: gemm
problem: {m: 640, n: 640, k: 640, dtype: bfloat16, layout: tn}
emulate: {m: 136, n: 72, k: 40}
archs: [sm_90a]
kernels:
  - source: products.py:described
    arguments: {out: C, x: B, y: A, columns: n, rows: m, depth: k}
    parameters: {BLOCK: 64}
    grid: ["ceil_div(n, BLOCK)", "ceil_div(m, BLOCK)"]
"""
    assert judged(folder, text) == [("described", "")]
    [(_, found)] = judged(folder, text.replace("columns: n, rows: m", "columns: n - 8, rows: m"))
    assert "1088 of 9792 elements were never written" in found
