"""Kernels with mutants of other kinds than missing order: memory that nothing wrote, neighbours, clusters, copies."""

from __future__ import annotations

import numpy as np
from race_cases import COOPERATIVE, HEAD, Case, words

SUM = Case(
    "a sum of a column",
    HEAD
    + """k(const float* in, float* out, int n) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32) sum += in[i];
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}""",
    2,
    32,
    lambda: [np.ones(100, np.float32), np.zeros(64, np.float32), np.int32(100)],
    [("sum = 0.0f", "sum")],
    lambda arguments: arguments[1].sum() == 200,
)
LARGEST = Case(
    "a place of the largest",
    HEAD
    + """k(const float* in, int* out, int n) {
    int best = -1;
    for (int i = threadIdx.x; i < n; i += 32) if (in[i] > 0.5f) best = i;
    out[blockIdx.x * 32 + threadIdx.x] = best > 40 ? 1 : 2;
}""",
    2,
    32,
    lambda: [np.arange(100, dtype=np.float32) % 2, np.zeros(64, np.int32), np.int32(100)],
    [("best = -1", "best")],
)
TABLE = Case(
    "a table in local memory",
    HEAD
    + """k(const unsigned* in, unsigned* out) {
    unsigned table[8];
    for (int i = 0; i < 8; ++i) table[in[i] % 8] = i;
    out[blockIdx.x * 32 + threadIdx.x] = table[in[threadIdx.x] % 8];
}""",
    2,
    32,
    lambda: [np.arange(32, dtype=np.uint32), np.zeros(64, np.uint32)],
    [("i < 8; ++i", "i < 7; ++i"), ("table[in[i] % 8] = i", "table[in[i] % 4] = i")],
    lambda arguments: (arguments[1] == np.arange(64) % 8).all(),
)
NEIGHBOURS = Case(
    "two arrays in shared memory",
    HEAD
    + """k(const unsigned* in, unsigned* out) {
    __shared__ unsigned a[64], b[64];
    a[threadIdx.x] = in[threadIdx.x];
    b[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = a[63 - threadIdx.x] + b[63 - threadIdx.x];
}""",
    2,
    64,
    lambda: [np.ones(64, np.uint32), np.zeros(128, np.uint32)],
    [("a[63 - threadIdx.x]", "a[64 - threadIdx.x]"), ("+ b[63 -", "+ b[in[threadIdx.x] * 64 -")],
    lambda arguments: (arguments[1].reshape(2, 64) == 1 + np.arange(64)[::-1]).all(),
)
CLUSTER = Case(
    "blocks of a cluster exchange",
    COOPERATIVE
    + 'extern "C" __global__ void __cluster_dims__(2) '
    + """k(unsigned* out) {
    __shared__ unsigned s[32];
    auto cluster = cg::this_cluster();
    s[threadIdx.x] = blockIdx.x * 32 + threadIdx.x;
    cluster.sync();  // filled
    out[blockIdx.x * 32 + threadIdx.x] = cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[threadIdx.x];
    cluster.sync();  // read
}""",
    4,
    32,
    words(128),
    [("cluster.sync();  // filled", "cluster.block_rank();"), ("cluster.sync();  // read", "")],
    lambda arguments: (arguments[0].reshape(2, 2, 32) == np.arange(128).reshape(2, 2, 32)[:, ::-1]).all(),
)
COPIES = Case(
    "asynchronous copies",
    HEAD
    + """k(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned s[128];
    unsigned to = (unsigned)__cvta_generic_to_shared(s + 4 * threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(to), "l"(in + 4 * threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] = s[127 - threadIdx.x];
}""",
    2,
    32,
    lambda: [np.arange(128, dtype=np.uint32), np.zeros(64, np.uint32)],
    [
        ("cp.async.wait_group 0;", "cp.async.wait_group 1;"),
        ("__syncthreads();", ""),
    ],
    lambda arguments: (arguments[1].reshape(2, 32) == np.arange(127, 95, -1)).all(),
)
SHUFFLE = Case(
    "half of a warp reduces",
    HEAD
    + """k(const unsigned* in, unsigned* out) {
    unsigned value = in[threadIdx.x];
    if (threadIdx.x < 16) {
        for (int d = 8; d > 0; d /= 2) value += __shfl_down_sync(0xffffu, value, d, 16);
        if (threadIdx.x == 0) out[blockIdx.x] = value;
    }
}""",
    2,
    32,
    lambda: [np.ones(32, np.uint32), np.zeros(2, np.uint32)],
    [("0xffffu", "0xffu"), ("value, d, 16", "value, d + 8")],
    lambda arguments: (arguments[1] == 16).all(),
)
PADDED = Case(
    "a tile of matrices whose last rows and columns nobody fills",
    HEAD
    + """k(const unsigned short* a, const unsigned short* b, float* c) {
    const int rows = 13, columns = 6;
    __shared__ __align__(16) unsigned short left[16][16], right[8][16];
    __shared__ float sums[16][8];
    int lane = threadIdx.x;
    for (int i = lane; i < rows * 16; i += 32) left[i / 16][i % 16] = a[i];
    for (int i = lane; i < columns * 16; i += 32) right[i / 16][i % 16] = b[i];
    __syncthreads();
    unsigned r[4], s[2];
    float d[4] = {0, 0, 0, 0};
    unsigned p = (unsigned)__cvta_generic_to_shared(&left[lane % 16][lane / 16 * 8]);
    unsigned q = (unsigned)__cvta_generic_to_shared(&right[lane % 8][lane / 8 % 2 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(s[0]), "=r"(s[1]) : "r"(q));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(s[0]), "r"(s[1]));
    for (int i = 0; i < 4; ++i) sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = d[i];
    __syncthreads();
    for (int i = lane; i < rows * columns; i += 32) c[i] = sums[i / columns][i % columns];
}""",
    1,
    32,
    lambda: [
        (np.arange(208, dtype=np.float16) % 5).view(np.uint16),
        (np.arange(96, dtype=np.float16) % 3).view(np.uint16),
        np.zeros(78, np.float32),
    ],
    [
        ("i < rows * 16", "i < (rows - 1) * 16"),
        ("i < columns * 16", "i < (columns - 1) * 16"),
        (
            "left[i / 16][i % 16] = a[i];",
            "if (i % 16 != 15) left[i / 16][i % 16] = a[i];",
        ),  # reaches every element of a row
        ("i < rows * columns; i += 32) c[i]", "i < (rows + 1) * columns; i += 32) c[i % (rows * columns)]"),
        ("float d[4] = {0, 0, 0, 0};", "float d[4] = {0, 0, 0, sums[lane / 16][lane % 8]};"),
        ("c[i] = sums[", "if (sums[15][0] > 0) c[i] = sums["),
    ],
    lambda arguments: bool(
        (
            arguments[2].reshape(13, 6)
            == arguments[0].view(np.float16).reshape(13, 16).astype(np.float32)
            @ arguments[1].view(np.float16).reshape(6, 16).astype(np.float32).T
        ).all()
    ),
)
CASES = (SUM, LARGEST, TABLE, NEIGHBOURS, COPIES, SHUFFLE, PADDED)
SLOW_TO_COMPILE = (CLUSTER,)
