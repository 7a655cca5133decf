from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.isa.cuda.kernels import read_kernels
from lab.isa.cuda.names import (
    declared_line,
    expected_macros,
    parameter_line,
    template_line,
    template_parameters_in_conditions,
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
    assert {macro.name: macro.default for macro in expected_macros((SOURCES / f"{name}.cu").read_text())} == expected


def test_macros_of_all_kinds_in_the_order_of_their_lines():
    assert [(macro.name, macro.line) for macro in expected_macros(ALL_KINDS)] == [
        *(("MAX_T", 4), ("T", 4), ("block", 5), ("tile_y", 6), ("pad", 6), ("real", 7), ("unroll_k", 8)),
        *(("per_thread", 9), ("USE_SMEM", 10), ("scale", 11)),
    ]


def test_arguments_of_templates_are_expected_and_variables_behind_bodies_are_not():
    """The idiom of CUB: a union of what its algorithms keep, whose types take macros."""
    text = """__global__ void k(int *out) {
  using Load = cub::BlockLoad<int, threads, items, cub::BLOCK_LOAD_DIRECT>;
  __shared__ union { typename Load::TempStorage load; int other[lanes]; } room, *rooms[2];
  struct Pair { int a, b; } pair = {1, 2}; enum class Way : int { up, down };
  int i = 1 < pair.a, j = 2; T value[items];
  Load(room.load).Load(out + i * j, value);
}
"""
    assert [macro.name for macro in expected_macros(text)] == ["threads", "items", "lanes", "T"]


@pytest.mark.parametrize("attribute", ["", "__align__(1024) ", "alignas(16 * (1 + 1)) ", "__attribute__((packed)) "])
def test_a_structure_with_an_attribute_is_no_macro(attribute):
    text = f"""struct {attribute}Tile {{ float a[4]; }};
__global__ void k(float *out) {{ extern __shared__ char raw[]; Tile& s = *(Tile*)raw; out[N] = s.a[0]; }}
"""
    assert [macro.name for macro in expected_macros(text)] == ["N"]


def test_what_is_assigned_or_declared_by_a_macro_is_no_macro():
    text = """#define LOOP(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)
__global__ void k(float *out) {
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());
  LOOP(index, COUNT) out[index] = warp.thread_rank();
}
"""
    assert [macro.name for macro in expected_macros(text)] == ["COUNT"]


def test_used_names_are_those_of_code_and_conditions():
    used = used_names('#if A /* B */\nint c; // D\nconst char *e = "F";\n#endif\n')
    assert {"A", "c", "e"} <= used
    assert not {"B", "D", "F"} & used


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\nconst int N = 4;", 2),
        ("constexpr auto N{4};", 1),
        ("constexpr unsigned N(1024);", 1),
        ("void f() { for (register int i = 0, N = 1; ;) { } }", 1),
        ("int m = ({ int a = 1; int N = a; N; });", 1),
        ("void f() { dim3 grid(n * N, M); }", None),
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


@given(st.text(alphabet="ab(){}[];=,<>*&:#\n \"'/", max_size=120))
def test_odd_text_never_fails(text):
    head = "__global__ void k(int n) {"
    assert used_names(head + text) is not None
    assert expected_macros(head + text) is not None
    declared_line(head + text, "a")


def macros(body: str, head: str = "") -> list[str]:
    """Return the macros that a kernel's body seems to expect."""
    return [macro.name for macro in expected_macros(f"{head}\n__global__ void k(int n) {{ {body} }}")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("A;", ["A"]),
        ("n + A;", ["A"]),
        ("f(A);", ["A"]),
        ("A(3); a.B; a->C; D::e;", ["a"]),
        ("x.y; n.z;", []),
        ("int A; A;", []),
        ("T A = 3; A;", ["T"]),
        ("float *A = 0; A;", []),
        ("float * const A = 0; A;", []),
        ("n * A;", ["A"]),
        ("n & A;", ["A"]),
        ("my_t *A = 0; A;", []),
        ("vec<int> A; A;", ["vec"]),
        ("vec<int> *A; A;", ["vec"]),
        ("if (n > A) return;", ["A"]),
        ("return A;", ["A"]),
        ("case A: ;", ["A"]),
        ("sizeof A;", ["A"]),
        ("int i = 0, A = 1; A;", []),
        ("f(i, A);", ["i", "A"]),
        ("n = 3; i, A;", ["i", "A"]),
        ("int i = f(1, A);", ["A"]),
        ("int i = (1), A[3]; A;", []),
        ("float o[4] = {}, A[2] = {1, 2}, B[2] = {n}; A; B;", []),
        ("float *p = f(n, 2), *A = p; A;", []),
        ("int i{1}, A{2}; A;", []),
        ("my *p = n, *A = n; A;", ["my"]),
        ("__shared__ alignas(16) float s[4], A[4]; A;", []),
        ("float (*m)[5] = nullptr; float (&r)[2] = n; m[0]; r[1]; int c = n * (*q)[N];", ["q", "N"]),
        ("struct __align__(8) Pair { int i; }; struct alignas(4) Other { int i; }; Pair p; Other q;", []),
        ("for (auto &A : n) for (int i = 0, B = 1;;) A + B;", []),
        ("int i = n < 3, A = 4; A;", []),
        ("auto v = cub::f<3, A>(n);", ["A"]),
        ("if (n) { n = 3; } i = 1, A = 2;", ["i", "A"]),
        ("x = {1}, A = 2;", ["A"]),
        ("auto [A, B] = f(); A;", []),
        ("auto &[A, B] = f(); A;", []),
        ("x[A];", ["A"]),
        ("struct A; A;", []),
        ("goto A; A: ;", []),
        ("#pragma unroll A\n", ["A"]),
        ("\n#pragma unroll A\n", ["A"]),
        ("\n#ifdef A\n#endif\n", []),
        ("\n#if A > B // C\n#elif D\n#endif\n", ["A", "B", "D"]),
        ("__A; cudaA; CUDA_A; cu_a; nvA; a_t; FLT_MAX; pass_;", ["pass_"]),
        ("and_eq; lambda; A;", ["A"]),
        ("A; B; A;", ["A", "B"]),
    ],
)
def test_words_of_a_body(body, expected):
    if body.startswith("#"):
        body = "\n" + body
    assert macros(body) == expected


def test_names_of_cutlass_are_expected_of_its_headers():
    body = (
        "auto t = make_shape(Int<128>{}, _8{}); TiledCopy c = n; Step<_1, X> s; f(c, t, s, SM80_16x8x8_F32_TN{}, BM);"
    )
    assert macros(body, "#include <cute/tensor.hpp>") == ["BM"]
    assert "TiledCopy" in macros(body)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("#define A 3", []),
        ("#define A", []),
        ("#define A(x) x", []),
        ("#ifndef A\n#define A 3\n#endif", ["A"]),
        ("#ifndef A\n#define A\n#endif", []),
        ("#ifndef A\n#define A(x) 3\n#endif", []),
        ("const int A = 3;", []),
        ("template <int A>", []),
        ("__device__ int f() { return B; }", ["A"]),
        ("enum { A };", []),
        ("enum class E : int { B, A = 2 };", []),
        ("enum { B = A };", ["A"]),
        ("enum A {};", []),
        ("using A = int;", []),
        ("namespace A { }", []),
    ],
)
def test_words_that_the_source_gives_a_meaning(head, expected):
    assert macros("n = A;", head) == expected


def test_the_line_and_the_default_of_a_macro():
    text = (
        "#ifndef A\n#define A 3\n#endif\n__global__ void __launch_bounds__(B, A)\nk(C *x) { A; x[B]; }\n#if D\n#endif\n"
    )
    assert [(macro.name, macro.default, macro.line) for macro in expected_macros(text)] == [
        *(("A", "3", 2), ("B", None, 5), ("C", None, 5), ("D", None, 6))
    ]


def test_what_stands_around_a_kernel_is_not_its_body():
    assert [macro.name for macro in expected_macros("int a = A; __global__ void k() { B; } int c = C;")] == ["B"]
    assert expected_macros("__global__ void k(){A;}")[0].name == "A"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("int N;", 1),
        ("N = 3;", None),
        ("int a;\nint N[3];", 2),
        ("void f(int N) {}\nint N = 3;", 2),
        ("if (int N = 3) {}", 1),
        ("while (int N = 3) {}", 1),
        ("switch (int N = 3) {}", 1),
        ("void f(int a) { if (a) { } int N = 2; }", 1),
        ("void f() { g(); int N = 2; }", 1),
        ("template <int M, class T> void f() { int N{2}; }", 1),
        ("vec<int> a; int N = 1;", 1),
        ("x = a < b; int N = 1;", 1),
    ],
)
def test_where_a_constant_or_a_variable_is_declared(text, line):
    assert declared_line(text, "N") == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("f(int N", None),
        ("f(int N)", 1),
        ("(int N)", None),
        ("void f(int a,\nfloat *N, int N)", 2),
        ("void f(int N[])", 1),
        ("for (int N = 3;;)", None),
        ("<int N, int M>", None),
        ("vec<int N, int M>", None),
        ("void f(vec<a> b, int (c), int N)", 1),
        ("void f(); int g(int N)", 1),
        ("void f() { int a, N, b; }", None),
    ],
)
def test_where_a_function_has_a_parameter(text, line):
    assert parameter_line(text, "N") == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("template <int N>;", 1),
        ("template <N>;", None),
        ("template <int N", None),
        ("< int N > ;", None),
        ("template <class T = vec<int>, int N> void f();", 1),
        ("template <int a, int N> void f();", 1),
        ("template <int M> struct S { vec<int N> v; };", None),
    ],
)
def test_where_a_template_has_a_parameter(text, line):
    assert template_line(text, "N") == line


def test_used_names_of_hidden_code_are_none():
    assert used_names("#if 0\na\n#endif\nb /* c */ 'd' 1e") == {"if", "endif", "b"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("#if TWICE", ((3, "TWICE"),)),
        ("#  ifdef TWICE // a buffer more", ((3, "TWICE"),)),
        ("#if defined(TWICE) && !TWICE || N > 2", ((3, "TWICE"), (3, "N"))),
        ("#ifndef OTHER  // TWICE", ()),
        ("#pragma unroll N", ()),
        ("if (TWICE)", ()),
    ],
)
def test_template_parameters_that_the_preprocessor_tests(condition, expected):
    body = f"{{\n{condition}\n  x[0] = 1;\n#endif\n}}"
    text = f"template <int TWICE, int N>\n__global__ void k(int *x) {body}\n__global__ void other(int *x) {body}"
    kernel, other = read_kernels(text)
    assert template_parameters_in_conditions(text, kernel) == expected
    assert template_parameters_in_conditions(text, other) == ()
    defining = f"#define TWICE 1\n{text}"
    further = template_parameters_in_conditions(defining, read_kernels(defining)[0])
    assert further == tuple((line + 1, name) for line, name in expected if name != "TWICE")
