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
CASES = (SUM, LARGEST, TABLE, NEIGHBOURS, COPIES, SHUFFLE)
SLOW_TO_COMPILE = (CLUSTER,)
