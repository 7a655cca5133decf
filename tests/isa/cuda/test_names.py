from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.isa.cuda.names import (
    Definition,
    declared_line,
    definitions,
    expected_macros,
    parameter_line,
    template_line,
    used_names,
)

SOURCES = Path(__file__).parents[2] / "support" / "cuda"

ALL_KINDS = """#include <cuda_fp16.h>
#define TILE 16 // fixed
__device__ float f(float a) { return a * coefficient; }
__global__ void __launch_bounds__(MAX_T) k(const T *a, float *b, int n, int m) {
  int i = blockIdx.x * block + threadIdx.x, j = 0;
  __shared__ float s[tile_y][TILE + pad];
  const float *p = b + i; float4 v = *reinterpret_cast<float4*>(b); real acc = 0;
  #pragma unroll unroll_k
  for (int q = 0; q < per_thread; ++q) { acc += p[q] * v.x; }
#if USE_SMEM == 1
  s[0][0] = a[i] * scale; // comment
#endif
  auto [u, w] = std::make_pair(1, "text"); auto fn = [&](int z1) { return z1; };
  b[i] = fminf(acc, FLT_MAX); unsigned long long big = 0ull;
  if (n > m) return;
  cg::thread_block blk = cg::this_thread_block();
}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vector_add", {"block_size_x": "256"}),
        ("reduce", {}),
        ("stencil", {"TILE_X": None, "TILE_Y": None, "PAD": None, "USE_EDGE": None}),
        ("histogram", {}),
        ("half_gemm", {"WARPS": None, "UNROLL": None}),
        ("two_kernels", {"SOFTENING": None}),
    ],
)
def test_macros_that_files_expect(name, expected):
    assert {one.name: one.default for one in expected_macros((SOURCES / f"{name}.cu").read_text())} == expected


def test_macros_of_all_kinds_in_the_order_of_their_lines():
    assert [(one.name, one.line) for one in expected_macros(ALL_KINDS)] == [
        *(("MAX_T", 4), ("T", 4), ("block", 5), ("tile_y", 6), ("pad", 6), ("real", 7), ("unroll_k", 8)),
        *(("per_thread", 9), ("USE_SMEM", 10), ("scale", 11)),
    ]


def test_definitions_are_guarded_by_their_own_name_alone():
    text = """#ifndef N
#define N 4
#endif
#if !defined(M)
#define M 5
#endif
#ifdef X
#  define P 1 /* one */
#endif
#define F(x) (x)
#define EMPTY
"""
    assert definitions(text) == (
        Definition("N", "4", 2, guarded=True, function_like=False),
        Definition("M", "5", 5, guarded=True, function_like=False),
        Definition("P", "1", 8, guarded=False, function_like=False),
        Definition("F", "(x)", 10, guarded=False, function_like=True),
        Definition("EMPTY", "", 11, guarded=False, function_like=False),
    )


def test_used_names_are_those_of_code_and_conditions():
    used = used_names('#if A /* B */\nint c; // D\nconst char *e = "F";\n#endif\n')
    assert {"A", "c", "e"} <= used
    assert not {"B", "D", "F"} & used


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\nconst int N = 4;", 2),
        ("constexpr auto N{4};", 1),
        ("void f() { int a, N[3]; }", 1),
        ("void f() { for (int N = 0; ;) {} }", 1),
        ("__global__ void k(int N = 3) { }", None),
        ("template <int N = 3> __global__ void k() { }", None),
        ("int a = N; f(N); x[N] = 3; N = 4; return N;", None),
    ],
)
def test_where_a_name_is_declared(text, line):
    assert declared_line(text, "N") == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("__device__ int f(int a,\n int N) {}", 2),
        ("__device__ int f(const float *N, int b) {}", 1),
        ("__device__ int f(T N = 3) {}", 1),
        ("int a = f(b, N); g(N); h((int)N, 2 * N); for (int i = N; i < N; ++i) {}", None),
        ("int N = 3;", None),
        ("int a = f(b > N); g(c_t > N, d * N, e & N); h(a < 3 && b > N, i->j > N);", None),
        ("__device__ int f(vec<float, 3> N, vec<int> *b) {}", 1),
    ],
)
def test_where_a_parameter_is_declared(text, line):
    assert parameter_line(text, "N") == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("template <typename T,\n int N = 3> __global__ void k() {}", 2),
        ("#define N 3\ntemplate <int N> void f() {}", 2),
        ("template <\n#ifdef A\n int N\n#endif\n> void f() {}", 3),
        ("template <int... N> void f() {}", 1),
        ("template <template <int N> class C> void f() {}", 1),
        ("template <int M> void f(int N) {}", None),
        ("using F = vec<int N>;", None),
        ("template <int M = N> void f() {}", None),
    ],
)
def test_where_a_parameter_of_a_template_is_declared(text, line):
    assert template_line(text, "N") == line


@settings(deadline=None)
@given(st.text(alphabet="ab(){}[];=,<>*&:#\n \"'/", max_size=120))
def test_odd_text_never_fails(text):
    head = "__global__ void k(int n) {"
    assert used_names(head + text) is not None
    assert expected_macros(head + text) is not None
    assert definitions(text) is not None
    declared_line(head + text, "a")
