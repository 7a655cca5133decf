"""Sources of kinds that were once refused or read wrongly: the draft says what the source says, and runs."""

from __future__ import annotations

import pytest

from lab.base import yamlfile
from lab.cli.new import write_draft
from lab.cli.rehearsal import rehearse

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
ONE_SOURCE_OF_MANY_KINDS = """#include <cstdint>
#include "../common.h"
#if defined(__CUDACC__) || defined(__HIPCC__)
 #define BOTH __host__ __device__ __forceinline__
#else
 #define BOTH inline
#endif
#define larger(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })
constexpr unsigned COUNT(3);
template <class T> struct Width;
template <> struct Width<uint64_t> { static const int value = 1; };
template <> struct Width<unsigned long long> { static const int value = 2; };
class Divisor {
 public:
  BOTH
  Divisor(int divisor = 0) : d(divisor) { }
  BOTH
  operator int() const { return d; }
 private:
  int d;
};
template <class T> class Complex {
  T x, y;
 public:
  __device__ Complex(T a, T b) : x(a), y(b) {}
  BOTH friend Complex<T> conjugate(const Complex<T> &c) { return Complex<T>(c.x, -c.y); }
  __device__ T imaginary() const { return y; }
};
// Grö\xdfe
__global__ void k(float *x, int *to, Divisor divisor) {
  register float last = x[1];
  asm volatile("" ::: "memory");
  Complex<float> c(x[0], last);
  to[0] = larger((int)conjugate(c).imaginary(), 1) / (int)divisor + Width<uint64_t>::value + COUNT + SHARED_BY_ALL;
}
int main() { int *to; float *x; Divisor d(2); k<<<1, 1>>>(x, to, d); }
"""

KINDS = {
    "an array that is read and written": (
        f"__global__ void k(float *u, int n) {{ {INDEX} if (i < n) u[i] = u[i] * u[i]; }}",
        {"u": "inout float32[n]", "n": "int32"},
    ),
    "a structure that is read and written": (
        (
            "struct Pixel { unsigned char r, g, b; };\n"
            f"__global__ void k(Pixel *p, int n) {{ {INDEX} if (i < n) {{ Pixel q = p[i]; q.r /= 2; p[i] = q; }} }}"
        ),
        {"p": "inout uint8[n, 3]", "n": "int32"},
    ),
    "a row that a number picks": (
        (
            "__global__ void k(unsigned *d, const unsigned n, const unsigned row) {\n"
            " int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y;\n"
            " unsigned t = d[row * n + x]; if (t < d[y * n + x]) d[y * n + x] = t; }"
        ),
        {"d": "inout uint32[n, n]", "n": "uint32", "row": "uint32 = 1"},
    ),
    "a template whose arguments C++ deduces": (
        (
            "template <typename T, typename S> __global__ void k(T *o, const T *x, S stride, int n) {\n"
            f" {INDEX} if (i < n) o[i * stride] = x[i * stride]; }}\n"
            "int main() { float *o, *x; k<<<40, 256>>>(o, x, 1, 10240); }"
        ),
        {"o": "out partial float32[n * stride]", "x": "float32[n * stride]", "stride": "int32", "n": "int32"},
    ),
    "what only a constructor reads": (
        (
            "struct Vector { float v[3]; __device__ Vector(float a, float b, float c) : v{a, b, c} {} };\n"
            "__global__ void k(float *x) { Vector v(x[0], x[1], x[2]); x[0] = v.v[2]; }"
        ),
        {"x": "inout float32[3]"},
    ),
    "a block that shared memory limits": (
        (
            "const int THREADS = 128;\n__global__ void k(const float *x, float *sums, int n) {\n"
            f" __shared__ float s[THREADS]; {INDEX} s[threadIdx.x] = i < n ? x[i] : 0; __syncthreads();\n"
            " for (int w = blockDim.x / 2; w > 0; w /= 2) {\n"
            "  if (threadIdx.x < w) s[threadIdx.x] += s[threadIdx.x + w]; __syncthreads(); }\n"
            " if (threadIdx.x == 0) sums[blockIdx.x] = s[0]; }\n"
            "int main() { float *x, *s; int n = 4000; k<<<(n + THREADS - 1) / THREADS, THREADS>>>(x, s, n); }"
        ),
        {"x": "float32[n]", "sums": "out float32[ceil_div(n, 128)]", "n": "int32"},
    ),
    "blocks that no size limits": (
        (
            "__global__ void k(float *to, const float *from) { __shared__ float t[32][33];\n"
            " int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y, width = gridDim.x * 32;\n"
            " for (int j = 0; j < 32; j += 8) t[threadIdx.y + j][threadIdx.x] = from[(y + j) * width + x];\n"
            " __syncthreads(); x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;\n"
            " for (int j = 0; j < 32; j += 8) to[(y + j) * width + x] = t[threadIdx.x][threadIdx.y + j]; }"
        ),
        {
            "to": "out float32[blocks, 32, blocks, 32]",
            "from": "float32[blocks, 32, blocks, 32]",
        },
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_says_what_its_source_says(kind, tmp_path):
    text, arguments = KINDS[kind]
    (tmp_path / "k.cu").write_text(text)
    file, draft = write_draft(tmp_path / "k.cu")
    assert not draft.guesses
    assert yamlfile.parse(draft.text, file).data["arguments"] == arguments
    rehearsal = rehearse(file)
    assert rehearsal.runs, rehearsal.reason


def test_a_source_of_many_kinds_is_drafted_and_runs(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    (tmp_path / "common.h").write_text("#pragma once\n#define SHARED_BY_ALL 7\n")
    (tmp_path / ".git").mkdir()  # the root of the project
    (folder / "k.cu").write_bytes(ONE_SOURCE_OF_MANY_KINDS.encode("latin-1"))
    file, draft = write_draft(folder / "k.cu")
    arguments = yamlfile.parse(draft.text, file).data["arguments"]
    assert (arguments["x"], arguments["to"]) == ("float32[2]", "out int32[1]")
    rehearsal = rehearse(file)
    assert rehearsal.runs, rehearsal.reason
