from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.templates.plain.device import device_part, holds_kernel
from lab.templates.plain.template import implied_headers
from lab.toolchain.base import CompileRequest
from lab.toolchain.nvrtc.compiler import find_nvrtc

GOLDEN = Path(__file__).parent / "golden" / "host"
PLAIN = Path(__file__).parents[3] / "experiments" / "plain"
NVRTC = find_nvrtc()

# the lines of each file that a person would keep for NVRTC
DEVICE_LINES = {
    "sample.cu": ["__global__ void vectorAdd", "}"],
    "homework.cu": ["#define TILE 16", "#define TILE 16", "__global__ void matMul", "}"],
    "tuner.cu": ["#ifndef block_size_x", "#include <limits>", 'extern "C" __global__', "}"],
    "blog.cu": ["#include <cfloat>", "#include <cmath>", "__global__ void reduce", "}"],
    "stencil.cu": [
        "#define IDX",
        "#endif",
        "__constant__",
        "__constant__",
        "HD inline",
        "}",
        "static HD",
        "static HD",
        "__global__",
        "}",
    ],
    "macro.cu": [
        "#include <cuda_fp16.h>",
        "#include <cuda_fp16.h>",
        "#define DEFINE_SCALE",
        "  }",
        "DEFINE_SCALE(float",
        "DEFINE_SCALE(__half",
    ],
    "guarded.cu": [
        "#include <stdint.h>",
        "#include <stdint.h>",
        "#define INLINE",
        "#define INLINE",
        "__device__ unsigned",
        "}",
        "__global__ void hash",
        "}",
    ],
}
EXTRA = {
    "stencil.cu": "#define HD __host__ __device__\n",
    "guarded.cu": "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\nusing namespace cg;\n",
    "blog.cu": "const int WARPS = 32;\nnamespace bench { template <typename T, int N> __device__ T warp_sum(T x) {\n"
    "#pragma unroll\nfor (int offset = N / 2; offset > 0; offset /= 2) x += __shfl_down_sync(0xffffffff, x, offset);\n"
    "return x; } }\n",
}


def ptx(source):
    assert NVRTC is not None
    return NVRTC.compile(CompileRequest(f"{implied_headers([source])}#line 1\n{source}", "kernel.cu", "sm_90")).ptx


def code(text):
    """Instructions and declarations of PTX, without the places in the source that they come from."""
    lines = text.partition(".address_size 64")[2].partition(".section")[0].splitlines()
    kept = [line.strip() for line in lines if not re.match(r"\s*(\.loc|\.file|//)", line)]
    return sorted(re.sub(r"L__(tmp|func_begin)\d+:?|__local_depot\d+|\$__internal_\w+", "", line) for line in kept)


def by_hand(file):
    """Return the device code of a file, selected by hand."""
    lines, marks = (GOLDEN / file).read_text().splitlines(), DEVICE_LINES[file]
    kept = set[int]()
    for first, last in zip(marks[::2], marks[1::2], strict=True):
        begin = next(i for i, line in enumerate(lines) if line.startswith(first))
        end = next(i for i, line in enumerate(lines) if i >= begin and line.startswith(last))
        kept |= {*range(begin, end + 1)}
    parts = [f"{line}\n" if i in kept else "\n" for i, line in enumerate(lines)]  # assert() names its line
    return "".join([EXTRA.get(file, ""), "#line 1\n", *parts])


@pytest.mark.parametrize("file", sorted(DEVICE_LINES))
def test_a_file_with_host_code_compiles_to_the_ptx_of_its_kernels_alone(file):
    assert code(ptx(device_part((GOLDEN / file).read_text()))) == code(ptx(by_hand(file)))


def test_a_file_with_classes_compiles():
    compiled_ptx = ptx(device_part((GOLDEN / "classes.cu").read_text()))
    assert re.findall(r"\.entry (\w+)", compiled_ptx) == ["_Z4clipIfvEvPT_PKS0_5Shape"]


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.cu")), ids=lambda file: file.name)
def test_what_stays_is_in_its_place(file):
    text = file.read_text()
    stripped = device_part(text)
    assert stripped.count("\n") == text.count("\n")
    for before, after in zip(text.split("\n"), stripped.split("\n"), strict=True):
        written = after.replace("__host__ __device__ ", "") if after not in before else after
        assert all(a == b for a, b in zip(before, written, strict=False) if b.strip()), after
    assert "main" not in re.sub(r"(?s)/\*.*?\*/|//[^\n]*|#[^\n]*|this part is not read[^\n]*", "", stripped)
    assert device_part(stripped) == stripped


@pytest.mark.parametrize("file", sorted(PLAIN.glob("*.cu")), ids=lambda file: file.name)
def test_a_file_without_host_code_is_as_it_was(file):
    text = file.read_text()
    assert device_part(text) == text


KEPT = [
    "template <class T> class V { static_assert(std::is_arithmetic<std::remove_cv_t<T>>::value); T x; };",
    "constexpr int M(8 / 2);",
    "#define TILE 32\nconstexpr unsigned N(TILE);",
    "__device__ int f(int x);",
    "const int n = 3;",
    "const float w[] = {1, 2};",
    "constexpr float pi = 3.14f;",
    'static const char* const names[] = {"a"};',
    "typedef float real; using other = real;",
    "struct P { int x, y; };",
    "struct __align__(16) V { float x[4]; };",
    "template <class T> struct A { T x; __device__ T get() { return x; } };",
    "enum class E { a, b };",
    "extern __shared__ float tile[];",
    "__constant__ float c[3] = {1, 2, 3};",
    "texture_like __device__ t;",
    "#define HD __host__ __device__\nHD float g(float x) { return x; }",
    "#if A\n#define HD __host__ __device__\n#else\n#define HD inline\n#endif\nHD static float g(float x) { return x; }",
    "#if A\n#define HD __device__\n#else\n#define HD\n#endif\nclass D { HD D(int x) : d(x) {} HD operator int(); };",
    "constexpr unsigned N(1024);",
    "CUTLASS_HOST_DEVICE float g(float x) { return x; }",
    'static_assert(sizeof(int) == 4, "");',
    "__device__ int f(int x);\nint f(int x) { return x; }",
    "struct A { __device__ int f(); };\nint A::f() { return 1; }",
    "using namespace std;",
    "template <int n> __global__ void k(float *x) { auto f = [](int i) { return i; }; x[0] = f(n); }",
    "#ifdef A\n__global__ void k(float *x)\n#else\nvoid k(float *x)\n#endif\n{ *x = 1; }",
    "__global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1) k(float *x) { *x = 1; }",
]
BLANKED = [
    "int main() { return '}' + \"}\"[0]; }",
    "void f(int);",
    "template <class T> void f(T x) { g<<<1, 1>>>(x); }",
    "inline float f() { return 1; }",
    "int count = 3;",
    "std::vector<float> values;",
    'const std::string name = "a";',
    "using Clock = std::chrono::steady_clock;",
    "auto f = [](int x) { return x; };",
    "struct T { std::vector<int> v; int n() { return 1; } };",
    "typedef std::vector<int> V; V all; struct S { V v; };",
    "using namespace boost;",
    "struct A::B f(struct C *c) { return {}; }",
    "A::A(int x) : a(x), b{x} { run(); }",
    "bool operator()(int a) { return a; }",
    "std::ostream& operator<<(std::ostream& o, int x) { return o; }",
    "void (*callback)(int) = nullptr;",
    "extern int flag;",
    "dim3 block(16, 16);",
    "unsigned count(4);",
    "auto f() -> std::pair<int, int> { return {1, 2}; }",
]


@pytest.mark.parametrize("text", KEPT)
def test_what_device_code_can_use_stays(text):
    assert device_part(text) == text


@pytest.mark.parametrize("text", BLANKED)
def test_what_only_the_host_can_use_is_blank(text):
    assert device_part(text).strip() == ""
    kernel = "__global__ void k(float *x) { *x = 1; }\n"
    assert device_part(f"{text}\n{kernel}{text}\n{kernel}").split() == (kernel + kernel).split()
    inside = f"namespace a {{ {text} {kernel} }}"
    assert device_part(inside).split() == f"namespace a {{ {kernel} }}".split()


BORROWED = [
    "namespace host { void run(int x) { x = 1; } }\nusing host::run;\nint main() { run(1); }\n",
    "namespace host { struct Timer { std::vector<int> v; }; }\nusing host::Timer;\n",
    "using torch::Tensor;\nusing at::native::foo;\nTensor f(Tensor a) { return a; }\n",
    "namespace py = pybind11;\nusing namespace py::literals;\nPYBIND11_MODULE(NAME, m) { m.def(1, f); }\n",
    "using Accessor = library::Accessor<float, 2>;\ntypedef library::Other Other;\nvoid f(Accessor a, Other b) {}\n",
    "using other::a;\nusing B = other::Of<a>;\nvoid f(B b) { a(b); }\n",
    "struct Params { at::Tensor q, k; };\nvoid set(Params &p) { p.q = f(); }\n",
    'REGISTER_KERNEL_BUILDER(Name("Add").Device(DEVICE_GPU), AddOp);\n',
    "TEST(Suite, name) { EXPECT_EQ(run(), 1); }\nBENCHMARK(run)->Arg(3);\n",
]


@pytest.mark.parametrize("text", BORROWED)
def test_names_of_the_host_are_not_borrowed(text):
    kernel = "__global__ void k(float *x) { *x = 1; }\n"
    assert re.sub(r"namespace host \{\s*\}", "", device_part(f"{text}{kernel}")).split() == kernel.split()


@pytest.mark.parametrize(
    "text",
    [
        "namespace a { __device__ int run(int); void run(float); } using a::run;",
        "namespace a { enum E { red }; } using a::red; __global__ void k(int *x) { *x = red; }",
        "using namespace nvcuda; using wmma::fragment; __global__ void k() { fragment<int> f; }",
        "using of_a_header::T; __global__ void k(T *x) {}",
        "using T = of_a_header::T; using U = T; __device__ U f();",
        "#define USED T\nusing T = of_a_header::T;",
        "namespace at { struct Half { short x; }; } struct A { at::Half h; };",
        "namespace cg = cooperative_groups; namespace c = cg; using namespace c;",
        "using cooperative_groups::this_grid;",
        "template <class T> using V = typename T::value;",
    ],
)
def test_names_that_device_code_uses_are_borrowed(text):
    kept = device_part(text).split()
    assert kept == text.replace("void run(float); ", "").split()


def test_names_of_other_texts_are_borrowed():
    host, device = "namespace a { void f(int) {} }\n", "namespace a { __device__ void f(int) {} }\n"
    assert device_part("using a::f;", [host]).strip() == ""
    assert device_part("using a::f;", [device]) == device_part("using a::f;", [host, device]) == "using a::f;"
    assert device_part("using b::f;", ["__global__ void k() { f(1); }"]) == "using b::f;"


def test_members_are_judged_one_by_one():
    text = "struct A { A(int x) : x{x} {} int x; __device__ int f() { return x; } void show() const; A() = default; };"
    kept = "struct A { int x; __device__ int f() { return x; } A() = default; };"
    assert " ".join(device_part(text).split()) == kept


def test_constant_functions_may_be_used_in_constants():
    text = "template <int n> static constexpr int twice() { return 2 * n; }"
    assert device_part(text) == text.replace("static", "__host__ __device__ static")


def test_macros_of_included_files_count():
    text = "HD float f(float x) { return x; }"
    assert device_part(text, ["#define HD __device__\n"]) == text
    assert device_part(text).strip() == ""


def test_directives_in_host_code_stay_and_pragmas_go():
    text = "int main() {\n#ifdef A\n#pragma omp parallel\n  f();\n#endif\n}\n"
    assert device_part(text).split() == ["#ifdef", "A", "#endif"]


@given(st.lists(st.sampled_from([*KEPT, *BLANKED, "{", "}", "(", ";", "#if A", "#endif", "template <", "/* {", "é"])))
def test_lines_never_move(parts):
    text = "\n".join(parts)
    stripped = device_part(text)
    assert stripped.count("\n") == text.count("\n")


@given(st.text(alphabet="ab(){};:<>=,#\n \"'/*[]~", max_size=60))
def test_any_text_is_read(text):
    assert device_part(text).count("\n") == text.count("\n")


def test_a_text_without_a_kernel_is_known():
    assert not holds_kernel(["this is not CUDA", "int main() { return 0; }"])
    assert holds_kernel(["int main() { return 0; }", "__global__ void k() {}"])


def test_annotations_of_lambdas_go_and_those_of_functions_stay():
    text = "__global__ void k(float *y) { auto f = [=] __device__ (int i) { y[i] = 1; }; f(0); }"
    assert device_part(text) == text.replace("__device__", " " * 10)
    both = "__device__ void g() { auto f = [] __host__ __device__ { return 1; }; f(); }"
    assert device_part(both).count("__") == 2
    attribute = "[[nodiscard]] __device__ int f() { return 1; }"
    assert device_part(attribute) == attribute
    hidden = "__global__ void k() {}\nint main() { auto f = [] __device__ (int i) {}; }"
    assert "main" not in device_part(hidden)
