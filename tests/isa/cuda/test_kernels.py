from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.isa.cuda.kernels import (
    SourceParameter,
    TemplateParameter,
    base_name,
    read_kernels,
)

SOURCES = Path(__file__).parents[2] / "support" / "cuda"


def heads(text: str) -> list[str]:
    return [f"{kernel.title}{kernel.signature}" for kernel in read_kernels(text)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vector_add", ["vector_add(float * c, const float * a, const float * b, int n)"]),
        ("reduce", ["sums::reduce<T, BLOCK, Vector>(const T * input, T * sum, size_t count)"]),
        ("stencil", ["stencil(const real * in, real * out, int width, int height)"]),
        ("histogram", ["histogram(const unsigned char * data, unsigned int n, unsigned int * bins)"]),
        (
            "half_gemm",
            ["half_gemm(__half const * A, __half const * B, float * C, int M, int N, int K, float alpha)"],
        ),
        (
            "two_kernels",
            [
                "forces(const float4 * positions, float3 * accelerations, int count)",
                "move(Particle * particles, float step)",
                "move(Particle * particles, double step, int count)",
            ],
        ),
    ],
)
def test_files_as_users_write_them(name, expected):
    assert heads((SOURCES / f"{name}.cu").read_text()) == expected


def test_element_types_of_parameters():
    [kernel] = read_kernels((SOURCES / "stencil.cu").read_text())
    assert kernel.is_extern_c
    assert kernel.line == 6
    assert kernel.parameters == (
        SourceParameter("in", "const real *", 1, is_const=True, dtype="float32"),
        SourceParameter("out", "real *", 1, is_const=False, dtype="float32"),
        SourceParameter("width", "int", 0, is_const=False, dtype="int32"),
        SourceParameter("height", "int", 0, is_const=False, dtype="int32"),
    )
    forces = read_kernels((SOURCES / "two_kernels.cu").read_text())[0]
    assert [(parameter.dtype, parameter.lanes) for parameter in forces.parameters] == [
        ("float32", 4),
        ("float32", 3),
        ("int32", 1),
    ]


def test_a_template_with_namespace_launch_bounds_and_defaults():
    [kernel] = read_kernels((SOURCES / "reduce.cu").read_text())
    assert kernel.scopes == ("sums",)
    assert kernel.launch_bounds == ("BLOCK",)
    assert kernel.template == (
        TemplateParameter("typename", "T"),
        TemplateParameter("int", "BLOCK", "256"),
        TemplateParameter("bool", "Vector", "(BLOCK > 64)"),
    )


def test_a_template_parameter_hides_an_alias_of_its_name():
    [kernel] = read_kernels("using T = float; template <class T> __global__ void k(T *x) {}")
    assert kernel.parameters[0].dtype is None


def test_macros_may_stand_for_types():
    [kernel] = read_kernels("__global__ void k(real *x) {}", {"real": "double"})
    assert kernel.parameters[0].dtype == "float64"


def test_the_body_is_what_stands_between_its_braces():
    text = "__global__ void k(int n) { if (n) { } } int after;"
    assert text[slice(*read_kernels(text)[0].body)] == "{ if (n) { } }"


def test_odd_parameters():
    [kernel] = read_kernels("""__global__ void k(
        float **pp, void (*call)(int, int), float (&row)[3], int w[], size_t,
        const __grid_constant__ CUtensorMap map, std::pair<int, float> pair = {1, 2},
        [[maybe_unused]] unsigned u) { }""")
    assert [(parameter.name, parameter.pointer, parameter.dtype) for parameter in kernel.parameters] == [
        ("pp", 2, None),
        ("call", 1, None),
        ("row", 1, None),
        ("w", 1, "int32"),
        ("", 0, "uint64"),
        ("map", 0, None),
        ("pair", 0, None),
        ("u", 0, "uint32"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void k(void) {}",
        "void __global__ k() {}",
        "static inline __global__ void __launch_bounds__(2 * (3 + 4)) k() {}",
        "__global__ __attribute__((used)) void k() {}",
        "__global__ void __cluster_dims__(2, 1, 1) k() {}",
        "ATTRIBUTES(3) __global__ void ATTRIBUTES(4) k() {}",
        "template <class T> __global__ void k() requires true {}",
        "struct S { int a; } s = {1}; __global__ void k() {}",
        "void f() { k<<<1, 1>>>(); } __global__ void k() {}",
        "__global__\nvoid\nk\n(\n)\n{\n}",
        "__global__ void k();\n__global__ void k() {}\ntemplate __global__ void k<int>();",
        "#if 0\n__global__ void j() {}\n#else\n__global__ void k() {}\n#endif",
        "#define J __global__ void j() {}\n__global__ void k() {}",
        "#if A\n#define HD __device__\n#else\n#define HD\n#endif\nclass C { HD C() {} }; __global__ void k() {}",
        "// \xe9\n__global__ void k() { BODY(1) }",
        "__global__ void k() { x[n] = 1; x[n] += < )) }",
        "LIB_BEGIN template <int N> __global__ LIB_API void k() {}",
    ],
)
def test_heads_of_many_forms(text):
    assert [(kernel.name, kernel.parameters) for kernel in read_kernels(text)] == [("k", ())]


def test_a_brace_that_both_branches_of_a_condition_open_counts_once():
    text = """namespace a {
    __global__ void first(int n) {
    #ifdef X
        if (n) {
    #else
        if (!n) {
    #endif
        }
    }
    }
    __global__ void second() {}"""
    assert [kernel.qualified_name for kernel in read_kernels(text)] == ["a::first", "second"]


@pytest.mark.parametrize("expression", ["ns::add<float, 128>", " ns::add ", "ns::add <vec<int>>"])
def test_the_name_that_an_expression_of_a_kernel_begins_with(expression):
    assert base_name(expression) == "ns::add"


def test_namespaces():
    text = "namespace a::b { inline namespace c { namespace { __global__ void k() {} } } }"
    [kernel] = read_kernels(text)
    assert kernel.scopes == ("a::b", "c", "")
    assert kernel.qualified_name == "a::b::c::k"


def test_a_hostile_file_is_read_in_linear_time():
    started = time.process_time()
    for unit in (
        "__global__ (",
        "__global__ k(",
        "{",
        "__global__ void k(){",
        "template<",
        "#if 0\n",
        "#if 1\n",
        '"',
        "<",
    ):
        read_kernels(unit * (30_000 // len(unit)))
    assert time.process_time() - started < 10


_WORDS = ["__global__", "void", "k", "(", ")", "{", "}", "int", "*", "x", ",", "<", ">", "template", "namespace"]
_WORDS += [";", "=", "[", "]", "\n#if 0\n", "\n#else\n", "\n#endif\n", '"C"', "extern", "typedef", "using", "const"]
_WORDS += ["__launch_bounds__", "&", "...", "::"]


@given(st.lists(st.sampled_from(_WORDS), max_size=60).map(" ".join) | st.text(max_size=100))
def test_odd_text_never_fails(text):
    for kernel in read_kernels(text):
        assert text[kernel.body[0]] == "{"
        assert kernel.title
        assert kernel.signature


_TYPES = st.sampled_from(
    [
        ("float", "float32"),
        ("unsigned int", "uint32"),
        ("std::size_t", "uint64"),
        ("__half", "float16"),
        ("bool", "bool"),
    ]
)
_PARAMETER = st.tuples(_TYPES, st.booleans(), st.integers(0, 1), st.sampled_from(["", " __restrict__"]))


@given(
    st.lists(_PARAMETER, max_size=5),
    st.lists(st.sampled_from(["static ", 'extern "C" ', "__launch_bounds__(64) ", "/* ( */ "]), unique=True),
    st.lists(st.sampled_from(["a", "b"]), max_size=2),
)
def test_valid_signatures_are_read_as_written(parameters, attributes, namespaces):
    declared = ", ".join(
        f"{'const ' if const else ''}{c_type} {'*' * pointer}{restrict if pointer else ''} p{i}"
        for i, ((c_type, _), const, pointer, restrict) in enumerate(parameters)
    )
    head = "".join(f"namespace {name} {{ " for name in namespaces)
    text = f"{head}{''.join(attributes)}__global__ void kernel({declared}) {{ }}{' }' * len(namespaces)}"
    [kernel] = read_kernels(text)
    assert kernel.qualified_name == "::".join([*namespaces, "kernel"])
    assert kernel.is_extern_c == ('extern "C" ' in attributes)
    assert [
        (parameter.name, parameter.dtype, parameter.pointer, parameter.is_const) for parameter in kernel.parameters
    ] == [(f"p{i}", dtype, pointer, const) for i, ((_, dtype), const, pointer, _) in enumerate(parameters)]


def test_a_name_of_a_pointer_type_is_a_pointer():
    text = """
    typedef float real;
    typedef const real *__restrict__ in_ptr;
    typedef real *out_ptr;
    using alias = out_ptr;
    #define PTR double*
    __global__ void k(out_ptr a, in_ptr b, const alias c, PTR d, const real e, out_ptr *f) {}
    """
    [kernel] = read_kernels(text)
    assert [
        (parameter.name, parameter.dtype, parameter.pointer, parameter.is_const) for parameter in kernel.parameters
    ] == [
        ("a", "float32", 1, False),
        ("b", "float32", 1, True),
        ("c", "float32", 1, False),
        ("d", "float64", 1, False),
        ("e", "float32", 0, True),
        ("f", None, 2, False),
    ]


def parameters(text: str) -> list[tuple[str, str, int, str | None]]:
    [kernel] = read_kernels(f"__global__ void k({text}) {{}}")
    return [(parameter.name, parameter.c_type, parameter.pointer, parameter.dtype) for parameter in kernel.parameters]


def template(text: str) -> list[tuple[str, str, str | None]]:
    [kernel] = read_kernels(f"{text} __global__ void k() {{}}")
    return [(one.kind, one.name, one.default) for one in kernel.template or ()]


def bounds(text: str) -> tuple[str, ...]:
    [kernel] = read_kernels(text)
    return kernel.launch_bounds


@pytest.mark.parametrize(
    ("text", "name", "c_type", "pointer", "dtype"),
    [
        ("float *__restrict__ a", "a", "float *", 1, "float32"),
        ("const float* restrict a", "a", "const float *", 1, "float32"),
        ("float a[]", "a", "float*", 1, "float32"),
        ("float a[4][2]", "a", "float*", 1, "float32"),
        ("float *a[4]", "a", "float **", 2, None),
        ("float", "", "float", 0, "float32"),
        ("float *", "", "float *", 1, "float32"),
        ("unsigned", "", "unsigned", 0, "uint32"),
        ("T", "", "T", 0, None),
        ("T a", "a", "T", 0, None),
        ("T *a", "a", "T *", 1, None),
        ("vec<T> a", "a", "vec<T>", 0, None),
        ("vec<float, 4> &a", "a", "vec<float, 4> &", 0, None),
        ("ns::T", "", "ns::T", 0, None),
        ("ns::T a", "a", "ns::T", 0, None),
        ("float (*a)[3]", "a", "float(*)*", 2, None),
        ("int (&)[3]", "", "int(&)*", 1, None),
        ("float a = f(1, 2)", "a", "float", 0, "float32"),
        ("__align__(16) float4 a", "a", "float4", 0, "float32"),
        ("alignas(8) const int a", "a", "const int", 0, "int32"),
        ("[[maybe_unused]] int a", "a", "int", 0, "int32"),
        ("float __grid_constant__ a", "a", "float", 0, "float32"),
        ("struct Pair a", "a", "struct Pair", 0, None),
        ("const int a", "a", "const int", 0, "int32"),
        ("int const", "", "int const", 0, "int32"),
    ],
)
def test_one_parameter(text, name, c_type, pointer, dtype):
    assert parameters(text) == [(name, c_type, pointer, dtype)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("template <>", []),
        ("template <class T>", [("class", "T", None)]),
        ("template <typename>", [("typename", "", None)]),
        ("template <typename... Ts>", [("typename...", "Ts", None)]),
        ("template <int N = (4 > 2), bool>", [("int", "N", "(4 > 2)"), ("bool", "", None)]),
        ("template <class T = vec<int>, int M=N>", [("class", "T", "vec<int>"), ("int", "M", "N")]),
        (
            "template <template <class> class C, unsigned int N>",
            [("template<class> class", "C", None), ("unsigned int", "N", None)],
        ),
        ("template <class A> void f(A a); template <class B>", [("class", "B", None)]),
    ],
)
def test_parameters_of_templates(text, expected):
    assert template(text) == expected


def test_no_template_is_not_an_empty_one():
    assert read_kernels("__global__ void k() {}")[0].template is None
    assert read_kernels("template <> __global__ void k() {}")[0].template == ()
    assert read_kernels("template <> __global__ void k() {}")[0].title == "k<>"
    assert read_kernels("template <int, class T> __global__ void k() {}")[0].title == "k<int, T>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__global__ void k() {}", ()),
        ("__global__ void __launch_bounds__(256) k() {}", ("256",)),
        ("__global__ void __launch_bounds__(2 * (3+4), MIN) k() {}", ("2 * (3+4)", "MIN")),
        ("__launch_bounds__(a, b, c) __global__ void k() {}", ("a", "b", "c")),
        ("__global__ void __launch_bounds__() k() {}", ()),
        ("__global__ void k() __launch_bounds__(64) {}", ("64",)),
    ],
)
def test_launch_bounds(text, expected):
    assert bounds(text) == expected


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("typedef float T;", "float32"),
        ("typedef unsigned int T;", "uint32"),
        ("using T = double;", "float64"),
        ("#define T float", "float32"),
        ("typedef float T; typedef double T;", "float32"),
        ("#define T float\n#define T double", "float32"),
        ("using T = U; using U = int;", "int32"),
        ("using namespace T;", None),
        ("typedef T;", None),
        ("typedef struct { int a; } T;", None),
        ("using T = int", None),
    ],
)
def test_names_of_types(text, dtype):
    [kernel] = read_kernels(f"{text}\n; __global__ void k(T *x) {{}}")[:1]
    assert kernel.parameters[0].dtype == dtype or text == "using T = int"


def test_a_long_chain_of_names_ends():
    chain = "".join(f"typedef T{n + 1} *T{n};" for n in range(40))
    [kernel] = read_kernels(f"{chain} __global__ void k(T0 x, P y) {{}}", {"P": "P *"})
    assert kernel.parameters[0].pointer == 16
    assert kernel.parameters[1].pointer == 16


def test_scopes_that_are_no_namespaces():
    text = """extern "C" { __global__ void a() {} }
    extern "C" __global__ void b() {}
    struct S { int x; };
    class { void f() { } } s;
    int list[] = {1, 2}, more = 3;
    auto f = [](int x = {1}) { return x; };
    namespace n = m;
    namespace { __global__ void c() {} }
    __global__ void d() {}
    } __global__ void e() {}"""
    found = [(kernel.qualified_name, kernel.scopes, kernel.is_extern_c, kernel.line) for kernel in read_kernels(text)]
    assert found == [
        *(("a", (), True, 1), ("b", (), True, 2), ("c", ("",), False, 8), ("d", (), False, 9), ("e", (), False, 10))
    ]


def test_both_branches_of_a_condition_begin_in_the_same_scope():
    text = """namespace a {
    #if X
    namespace b {
    #elif Y
    namespace c {
    #else
    namespace d {
    #endif
    __global__ void first() {}
    }
    __global__ void second() {}
    }
    #endif
    __global__ void third() {}"""
    assert [kernel.qualified_name for kernel in read_kernels(text)] == ["a::d::first", "a::second", "third"]


def test_two_heads_of_one_body():
    text = """
    #if X
    __global__ void k(int a) {
    #elif Y
    __global__ void k(float a) {
    #else
    extern "C" __global__ void k(double a) {
    #endif
      int b;
    }
    __global__ void after() { { __global__ int c; } }
    __global__ void last() {}"""
    found = read_kernels(text)
    assert [(one.name, [p.dtype for p in one.parameters], one.line) for one in found] == [
        *(("k", ["int32"], 3), ("k", ["float32"], 5), ("k", ["float64"], 7), ("after", [], 11), ("last", [], 12))
    ]
    assert {text[slice(*one.body)][-1] for one in found} == {"}"}


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void k()",
        "__global__ void k();",
        "__global__ void k() }",
        "__global__ void k",
        "__global__ int k = (3); void f() {}",
        "__global__",
        "struct S { __global__ void k() {} };",
        "void f() { __global__ void k() {} }",
    ],
)
def test_what_defines_no_kernel(text):
    assert read_kernels(text) == ()


def test_a_declaration_of_two_lines_has_the_head_of_its_own():
    first, second = read_kernels(
        'extern "C" { } extern "C" __global__ void a() {} template <int N> __global__ void b() {}'
    )
    assert (first.is_extern_c, first.template) == (True, None)
    assert (second.is_extern_c, second.template) == (False, (TemplateParameter("int", "N"),))


def test_parameters_with_a_directive_among_them():
    assert parameters("int a,\n#ifdef X\n float b,\n#endif\n int c") == [
        *(("a", "int", 0, "int32"), ("b", "float", 0, "float32"), ("c", "int", 0, "int32"))
    ]
    assert parameters("") == parameters("void") == []
    [kernel] = read_kernels("__global__ void k(int a, float *) {}")
    assert (kernel.signature, kernel.parameters[1].is_pointer, kernel.parameters[0].is_pointer) == (
        "(int a, float *)", True, False,
    )  # fmt: skip
