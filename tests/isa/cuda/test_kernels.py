from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.isa.cuda.kernels import SourceParameter, TemplateParameter, base_name, read_kernels

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
    assert [(one.dtype, one.lanes) for one in forces.parameters] == [("float32", 4), ("float32", 3), ("int32", 1)]


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
    assert [(one.name, one.pointer, one.dtype) for one in kernel.parameters] == [
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
        read_kernels(unit * (100_000 // len(unit)))
    assert time.process_time() - started < 30


_WORDS = ["__global__", "void", "k", "(", ")", "{", "}", "int", "*", "x", ",", "<", ">", "template", "namespace"]
_WORDS += [";", "=", "[", "]", "\n#if 0\n", "\n#else\n", "\n#endif\n", '"C"', "extern", "typedef", "using", "const"]
_WORDS += ["__launch_bounds__", "&", "...", "::"]


@settings(deadline=None)
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


@settings(deadline=None)
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
    assert [(one.name, one.dtype, one.pointer, one.is_const) for one in kernel.parameters] == [
        (f"p{i}", dtype, pointer, const) for i, ((_, dtype), const, pointer, _) in enumerate(parameters)
    ]


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
    assert [(one.name, one.dtype, one.pointer, one.is_const) for one in kernel.parameters] == [
        ("a", "float32", 1, False),
        ("b", "float32", 1, True),
        ("c", "float32", 1, False),
        ("d", "float64", 1, False),
        ("e", "float32", 0, True),
        ("f", None, 2, False),
    ]
