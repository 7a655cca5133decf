"""A tensor map as a kernel's argument on a real GPU, by value and by pointer: boxes of a matrix, with zeros outside."""

import pytest
from gpu_support import CHECK, compiled

from lab.gpu.process.job import Job
from lab.hardware.tensormaps import PixelBox, TensorMap
from lab.operators.builtin import operator
from lab.templates.launches import Launch, Launches

pytestmark = pytest.mark.gpu

COPY = """
struct __align__(64) Map { unsigned long long words[16]; };
extern "C" __global__ void box(int m, const __grid_constant__ Map map, int n, float* B, int ldb) {
    __shared__ __align__(128) float tile[8][32];
    __shared__ unsigned long long full;
    const unsigned to = __cvta_generic_to_shared(tile), mbarrier = __cvta_generic_to_shared(&full);
    const int row = blockIdx.x * 32 - 16, column = blockIdx.y * 8 - 4;  // boxes hang over every edge
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mbarrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(mbarrier) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];"
                     ::"r"(to), "l"(&map), "r"(row), "r"(column), "r"(mbarrier) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(mbarrier) : "memory");
    for (int j = 0; j < 8; ++j) {
        const int i = row + threadIdx.x, at = column + j;
        const bool inside = i >= 0 && i < m && at >= 0 && at < n;
        if (inside) B[i + at * ldb] = tile[j][threadIdx.x];
        else if (tile[j][threadIdx.x] != 0) B[0] = -1;
    }
}
"""
BY_POINTER = (
    COPY.replace("const __grid_constant__ Map map", "const Map* map")
    .replace("&map", "map")
    .replace(
        "    if (threadIdx.x == 0) {",
        '    asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(map) : "memory");\n'
        "    if (threadIdx.x == 0) {",
        1,
    )
)


@pytest.mark.parametrize("source", [COPY, BY_POINTER], ids=["by value", "by pointer"])
@pytest.mark.parametrize(("m", "n", "lda"), [(64, 32, 64), (37, 22, 40), (1, 1, 4), (131, 67, 132)])
def test_boxes_make_a_copy(session, m, n, lda, source):
    problem = operator("copy").problem({"m": m, "n": n, "dtype": "float32", "lda": lda, "ldb": m})
    arguments = (("m", "int32"), ("map", "tensor_map"), ("n", "int32"), ("B", "float32*"), ("ldb", "int32"))
    launch = Launch("box", (m // 32 + 2, n // 8 + 2, 1), (32, 1, 1), 0, arguments)
    tensor_map = TensorMap("map", "A", "float32", (m, n), lda, (32, 8))
    job = Job(
        variant="box",
        cubin=compiled(source, session.start().arch),
        launches=Launches((launch,), (), (tensor_map,)),
        operator="copy",
        problem=problem,
    )
    assert session.run(job, CHECK).failure is None


IM2COL = """
struct __align__(64) Map { unsigned long long words[16]; };
// a filter of 2 x 2 on one image of n = w * h pixels of m = 8 channels, a block for each tap
extern "C" __global__ void taps(int m, const __grid_constant__ Map map, int n, const float* A, float* B) {
    const int w = WIDTH, h = HEIGHT;
    __shared__ __align__(128) float column[32 * 8];
    __shared__ unsigned long long full;
    const unsigned to = __cvta_generic_to_shared(column), mbarrier = __cvta_generic_to_shared(&full);
    const unsigned short right = blockIdx.x % 2, down = blockIdx.x / 2;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mbarrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(mbarrier) : "memory");
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                     ::"r"(to), "l"(&map), "r"(0), "r"(STEP_W - 1), "r"(-1), "r"(0), "r"(mbarrier),
                       "h"(right), "h"(down) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(mbarrier) : "memory");
    const int across = w / STEP_W + 1, pixel = threadIdx.x + 1;  // the base begins at the second pixel of the box
    const int x = pixel % across * STEP_W - 1 + right, y = pixel / across * STEP_H - 1 + down;
    const bool is_inside = x >= 0 && x < w && y >= 0 && y < h && pixel / across * STEP_H - 1 <= h - 1;
    bool wrong = false;
    for (int i = 0; i < 8; ++i)
        wrong |= column[threadIdx.x * 8 + i] != (is_inside ? A[(y * w + x) * 8 + i] : 0.0f);
    for (int i = threadIdx.x; i < m * n; i += 32)
        if (i % gridDim.x == blockIdx.x) B[i] = A[i];
    __syncthreads();
    if (wrong) B[blockIdx.x] = -1e30f;
}
"""


@pytest.mark.parametrize(("step_w", "step_h"), [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_the_taps_of_a_filter_are_fetched_by_im2col(session, step_w, step_h):
    w, h = 6, 5
    problem = operator("copy").problem({"m": 8, "n": w * h, "dtype": "float32", "lda": 8, "ldb": 8})
    arguments = (
        ("m", "int32"), ("map", "tensor_map"), ("n", "int32"), ("A", "float32*"), ("B", "float32*"),
    )  # fmt: skip
    sizes = {"STEP_W": step_w, "STEP_H": step_h, "WIDTH": w, "HEIGHT": h}
    source = "".join(f"#define {name} {size}\n" for name, size in sizes.items()) + IM2COL
    box = PixelBox((-1, -1), (0, 0), (step_w, step_h))
    tensor_map = TensorMap("map", "A", "float32", (8, w, h, 1), 8, (8, 32), 0, (8 * w, 8 * w * h), box)
    job = Job(
        variant="taps",
        cubin=compiled(source, session.start().arch),
        launches=Launches((Launch("taps", (4, 1, 1), (32, 1, 1), 0, arguments),), (), (tensor_map,)),
        operator="copy",
        problem=problem,
    )
    assert session.run(job, CHECK).failure is None
