"""Kernels as users have them, host code and all, with the rest of their files in the short form."""

from __future__ import annotations

from pathlib import Path

HOST = """
using namespace std;
#define CHECK(x) do { if ((x) != cudaSuccess) { cerr << "failed" << endl; exit(1); } } while (0)
static vector<float> kept;
float mean(const vector<float>& v) { float s = 0; for (float x : v) s += x; return s / v.size(); }
int main() {
  float *p; int BLOCK_ = 1;
  CHECK(cudaMalloc(&p, 4));
  %s
  printf("%%f\\n", mean(kept));
}
"""
INCLUDES = "#include <cstdio>\n#include <vector>\n#include <iostream>\n#include <cuda_runtime.h>\n"

CONSTANT = """
__constant__ float weights[3] = {0.25f, 0.5f, 0.25f};
__global__ void smooth(float *out, const float *in, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) out[i] = weights[0] * in[i] + weights[1] * in[i + 1] + weights[2] * in[i + 2];
}
"""
FILTER = """
namespace filters { static __constant__ float taps[4]; __constant__ float scale; }
__global__ void smooth(float *out, const float *in, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 3; ++k) if (i < n) sum += filters::taps[k] * in[i + k];
  if (i < n) out[i] = filters::scale * sum;
}
"""
STEP = """
typedef float *__restrict__ target;
typedef const float *__restrict__ given;
__global__ void step(target b, given a, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  auto next = [=] __host__ __device__ (float x) { return x + 1; };
  if (i < n) b[i] = next(a[i]);
}
"""
DYNAMIC = """
#include "common.h"
__global__ void block_sums(float *out, const float *in, uint32_t n) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = load(in, blockIdx.x * BLOCK + threadIdx.x, n);
  __syncthreads();
  for (int s = BLOCK / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) tile[threadIdx.x] += tile[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = tile[0];
}
"""
COMMON = """#pragma once
#include <cuda_fp16.h>
#include <stdint.h>
#include <string>
inline std::string version() { return "1.0"; }
__device__ float load(const float *in, uint32_t i, uint32_t n) { return BLOCK > 0 && i < n ? in[i] : 0; }
"""
CUBE = """
__global__ void fill(float *out, int nx, int ny, int nz) {
  int x = blockIdx.x * BLOCK + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x < nx && y < ny && z < nz) out[(z * ny + y) * nx + x] = x + 100 * y + 10000 * z;
}
"""
TWO = """
__global__ void square(float *y, const float *x, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}
__global__ void halve(float *z, const float *y, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) z[i] = y[i] / 2;
}
"""
VECTORS = """
#include <cuda_fp16.h>
__global__ void convert(__half *out, const float4 *in, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  if (4 * i < n) {
    float4 v = in[i];
    out[4 * i] = __float2half(v.x); out[4 * i + 1] = __float2half(v.y);
    out[4 * i + 2] = __float2half(v.z); out[4 * i + 3] = __float2half(v.w);
  }
}
"""
CLUSTER = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 1, 1) exchange_halves(float *out, const float *in) {
  __shared__ float tile[BLOCK];
  auto cluster = cg::this_cluster();
  tile[threadIdx.x] = in[blockIdx.x * BLOCK + threadIdx.x];
  cluster.sync();
  float *other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
  out[blockIdx.x * BLOCK + threadIdx.x] = other[threadIdx.x];
  cluster.sync();
}
"""
STRUCTURES = """
struct Particles { float *x; const float *v; int n; };
struct Step { double dt; char on; };
__global__ void move(int first, Particles p, float2 bounds, const Step step, float *y) {
  int i = first + blockIdx.x * BLOCK + threadIdx.x;
  if (i < p.n && step.on) {
    p.x[i] = fminf(p.x[i] + step.dt * p.v[i], bounds.y);
    y[i] = bounds.x;
  }
}
"""
ONE = "parameters: {BLOCK: [32, 64]}\nblock: BLOCK\ngrid: ceil_div(n, BLOCK)\nproblem: {n: 4096}\nemulate: {n: 200}\n"
FILES = {
    "constant": (
        CONSTANT,
        "smooth<<<1, 1>>>(p, p, 1);",
        (
            f'{ONE}arguments: {{out: "out float32[n]", in: "float32[n + 2]", n: int32}}\n'
            'reference: {out: "0.25 * in[0:n] + 0.5 * in[1:n + 1] + 0.25 * in[2:n + 2]"}\n'
        ),
    ),
    "dynamic": (
        DYNAMIC,
        "block_sums<<<1, 1>>>(p, p, 1);",
        ONE.replace("200", "256") + "shared_bytes: 4 * BLOCK\n"
        'arguments: {out: "out float32[n // BLOCK]", in: "float32[n]", n: uint32}\n'
        'reference: {out: "sum(reshape(in, [n // BLOCK, BLOCK]), 1)"}\n',
    ),
    "cube": (
        CUBE,
        "fill<<<1, 1>>>(p, 1, 1, 1);",
        (
            "parameters: {BLOCK: [8, 16]}\nblock: [BLOCK, 4]\n"
            "problem: {nx: 64, ny: 64, nz: 64}\nemulate: {nx: 20, ny: 10, nz: 3}\n"
            'grid: ["ceil_div(nx, BLOCK)", "ceil_div(ny, 4)", nz]\n'
            'arguments: {out: "out float32[nz, ny, nx]", nx: int32, ny: int32, nz: int32}\n'
            'reference: {out: "reshape(arange(nx), [1, 1, nx]) + 100 * reshape(arange(ny), [1, ny, 1])'
            ' + 10000 * reshape(arange(nz), [nz, 1, 1])"}\n'
        ),
    ),
    "two": (
        TWO,
        "square<<<1, 1>>>(p, p, 1);",
        (
            "parameters: {BLOCK: [32, 64]}\nproblem: {n: 4096}\nemulate: {n: 200}\n"
            'arguments: {y: "out float32[n]", z: "out float32[n]", x: "float32[n]", n: int32}\n'
            "launches:\n"
            '  - {kernel: square, grid: "ceil_div(n, BLOCK)", block: BLOCK, arguments: [y, x, n]}\n'
            '  - {kernel: halve, grid: "ceil_div(n, BLOCK)", block: BLOCK, arguments: [z, y, n]}\n'
            "reference: {y: x * x, z: x * x / 2}\n"
        ),
    ),
    "vectors": (
        VECTORS,
        "convert<<<1, 1>>>((__half *)p, (float4 *)p, 1);",
        ONE.replace("ceil_div(n, BLOCK)", "ceil_div(n, 4 * BLOCK)")
        + 'arguments: {out: "out float16[n]", in: "float32[n]", n: int32}\nreference: {out: in}\n',
    ),
    "cluster": (
        CLUSTER,
        "exchange_halves<<<2, BLOCK>>>(p, p);",
        ONE.replace("ceil_div(n, BLOCK)", "n // BLOCK").replace("200", "256")
        + 'arguments: {out: "out float32[n]", in: "float32[n]"}\n'
        'reference: {out: "reshape(flip(reshape(in, [n // BLOCK // 2, 2, BLOCK]), 1), [n])"}\n',
    ),
    "constant memory": (
        FILTER,
        "smooth<<<1, 1>>>(p, p, 1);",
        ONE + 'arguments: {out: "out float32[n]", in: "float32[n + 2]", n: int32}\n'
        'constants: {taps: "float32[3] uniform 0 1", scale: float32 = 0.5}\n'
        "reference: {out: \"scale * correlate(in, taps, 'valid')\"}\n",
    ),
    "structures": (
        STRUCTURES,
        "move<<<1, 1>>>(0, Particles{p, p, 1}, float2{0, 1}, Step{0.5, 1}, p);",
        (
            f"{ONE}arguments:\n  first: int32 = 0\n"
            '  p: {x: "inout float32[n]", v: "float32[n]", n: int32}\n'
            "  bounds: {low: float32 = -1, high: float32 = 0.5}\n"
            "  step: {dt: float64 = 0.25, on: int8 = 1, padding: float32 = 0}\n"
            '  y: "out float32[n]"\n'
            'reference: {x: "minimum(x + dt * v, high)", y: low + 0 * v}\n'
        ),
    ),
    "buffers exchanged": (
        STEP,
        "step<<<1, 1>>>(p, p, 1);",
        (
            "parameters: {BLOCK: [32, 64]}\nproblem: {n: 4096}\nemulate: {n: 200}\n"
            'arguments: {u: "inout float32[n]", v: "out float32[n]", n: int32}\n'
            "launches:\n"
            '  - {kernel: step, grid: "ceil_div(n, BLOCK)", block: BLOCK, arguments: [v, u, n]}\n'
            '  - {kernel: step, grid: "ceil_div(n, BLOCK)", block: BLOCK, arguments: [u, v, n]}\n'
            "reference: {u: u + 2, v: u + 1}\n"
        ),
    ),
}


def write(name: str, folder: Path) -> Path:
    """Write one of `FILES` into a folder as a user has it, and return its experiment file."""
    source, launch, rest = FILES[name]
    (folder / "k.cu").write_text(f"{INCLUDES}{source}{HOST % launch}")
    (folder / "common.h").write_text(COMMON)
    file = folder / "k.yaml"
    file.write_text(f"question: Does it work?\nsource: k.cu\narchs: [sm_90]\n{rest}")
    return file
