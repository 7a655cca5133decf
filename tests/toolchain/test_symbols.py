from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.base.errors import CompileError
from lab.isa.ptx.module import read_ptx
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache, cache_key
from lab.toolchain.select import build, find_toolchains, toolchain
from lab.toolchain.symbols import constant_variables, missing, plain_name, take_symbols, unresolved, with_references

SOURCES = Path(__file__).parents[1] / "support" / "cuda"
SOURCE = """namespace ns {
template <typename T, int N> __global__ void add(T *c, const T *a, int n) {
    int i = blockIdx.x * N + threadIdx.x;
    if (i < n) c[i] += a[i];
}
namespace { __global__ void hidden(float *x) { *x = 3; } }
}
__global__ void plain(float *x) { *x = 1; }
static __global__ void inner(float *x) { *x = 2; }
extern "C" __global__ void c_kernel(float *x) { *x = 4; }
__global__ void twice(float *x) { *x = 5; }
__global__ void twice(int *x) { *x = 6; }
"""


@pytest.fixture(scope="module", params=["nvrtc", "nvcc"])
def compiler(request):
    found = [toolchain for toolchain in find_toolchains() if toolchain.name.endswith(request.param)]
    return found[0] if found else pytest.skip(f"{request.param} is not on this machine")


def request_for(*kernels, source=SOURCE):
    return CompileRequest(source, "k.cu", "sm_90", (), (), kernels)


def test_names_of_all_kinds_have_symbols(compiler):
    kernels = ("ns::add<float, 64 * 2>", "ns::add<double,3>", "plain", "::inner", "c_kernel", "ns::hidden")
    built = compiler.compile(request_for(*kernels))
    assert list(built.symbols) == list(kernels)
    assert built.symbols["ns::add<float, 64 * 2>"] == "_ZN2ns3addIfLi128EEEvPT_PKS1_i"
    assert built.symbols["ns::add<double,3>"] == "_ZN2ns3addIdLi3EEEvPT_PKS1_i"
    assert built.symbols["plain"] == "_Z5plainPf"
    assert built.symbols["c_kernel"] == "c_kernel"
    entries = {kernel.name for kernel in read_ptx(built.ptx).kernels}
    assert entries >= set(built.symbols.values())
    assert set(built.resources) == entries
    assert "lab_symbol" not in built.ptx
    assert b"lab_symbol" not in built.cubin
    assert re.findall(r'\.file\s+\d+\s+"(.*)"', built.ptx) == ["/k.cu"]


@pytest.mark.parametrize("kernel", ["fill", "reduce<int>"])
def test_names_of_the_users_own_come_before_those_that_a_namespace_brings(compiler, kernel):
    source = """namespace std {
template <typename T> __device__ void fill(T, T, int);
template <typename T> __device__ T reduce(T, T);
}
using namespace std;
__global__ void fill(float *x) { *x = 1; }
template <typename T> __global__ void reduce(T *x) { *x = 1; }
"""
    assert compiler.compile(request_for(kernel, source=source)).symbols[kernel]


def test_machine_code_is_that_of_a_source_with_explicit_instantiation(compiler):
    explicit = SOURCE + "template __global__ void ns::add<float, 128>(float *, const float *, int);\n"
    listed = compiler.compile(request_for("ns::add<float, 128>"))
    symbol = listed.symbols["ns::add<float, 128>"]

    def code(build):
        [kernel] = [kernel for kernel in read_ptx(build.ptx).kernels if kernel.name == symbol]
        return [
            (instruction.opcode, len(instruction.operands), instruction.targets) for instruction in kernel.instructions
        ]

    assert code(listed) == code(compiler.compile(request_for(source=explicit)))


def test_a_request_without_kernels_is_compiled_as_before(compiler):
    assert compiler.compile(request_for()).symbols == {}


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("ns::ad<float, 64>", r"no kernel 'ns::ad'; the file has ns::add<T, N>, .*did you mean 'ns::add'\?"),
        ("add<float, 64>", r"no kernel 'add'; .*did you mean 'ns::add'\?"),
        ("nothing_like_it", r"no kernel 'nothing_like_it'; the file has .*, c_kernel, twice"),
        ("ns::add", r"'ns::add' is a template; give it arguments: ns::add<T, N>"),
        ("twice", r"'twice' is ambiguous: twice\(float \* x\), twice\(int \* x\)"),
        ("ns::add<float>", r"ns::add<float> cannot be resolved: .*; the file has ns::add<T, N>, "),
    ],
)
def test_a_wrong_name_names_the_kernels_that_are_there(compiler, kernel, words):
    with pytest.raises(CompileError, match=words) as caught:
        compiler.compile(request_for(kernel))
    assert str(caught.value).startswith("k.cu: ")
    assert caught.value.log


def test_an_error_of_the_source_stays_one(compiler):
    with pytest.raises(CompileError, match="oops") as caught:
        compiler.compile(request_for("plain", source=SOURCE + "__device__ void f() { oops; }"))
    assert "the file has" not in str(caught.value)


def test_an_error_within_an_instantiation_is_one_of_the_source(compiler):
    source = 'template <int N> __global__ void k(int *x) { static_assert(N < 4, "too many"); *x = N; }'
    with pytest.raises(CompileError, match="too many"):
        compiler.compile(request_for("k<8>", source=source))


@pytest.mark.parametrize(
    "kernel",
    ["a; b", "a\nb", "a) f(", "(a", "a{}", '#include "x"', 'a<"b">', "", "a" * 2000, "größe", "a\\", "a]b["],
)
def test_more_than_a_name_is_refused(compiler, kernel):
    with pytest.raises(CompileError, match="not a kernel's name"):
        compiler.compile(request_for(kernel))


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("reduce", "sums::reduce<float, 128>"), ("histogram", "histogram"), ("two_kernels", "forces")],
)
def test_files_as_users_write_them(compiler, name, kernel):
    source = f"#define SOFTENING 1\n{(SOURCES / f'{name}.cu').read_text()}"
    try:
        built = compiler.compile(CompileRequest(source, "k.cu", "sm_90", (), (), (kernel,)))
    except CompileError as error:
        if "nv/target" in error.log:
            pytest.skip("CCCL's headers, which cooperative_groups.h includes, are not installed")
        raise
    assert built.symbols[kernel] in built.resources


def test_the_cache_keeps_symbols_and_tells_kernels_apart(tmp_path):
    compiler = next(toolchain for toolchain in find_toolchains() if toolchain.name == "nvrtc")
    cache = Cache(tmp_path)
    first = build(compiler, request_for("plain"), cache)
    again = build(compiler, request_for("plain"), cache)
    assert (first.cached, again.cached) == (False, True)
    assert again.build.symbols == {"plain": "_Z5plainPf"}
    keys = {cache_key(compiler, request_for(*kernels), "13") for kernels in ((), ("plain",), ("inner",))}
    assert len(keys) == 3


def test_references_follow_the_source():
    text = with_references(request_for("a<1>", "b", source="int x;"))
    assert text.startswith('int x;\n#line 1 "__nv_name_map"\n')
    assert "= (const void *)(::a<1>);" in text


def test_symbols_are_taken_out_of_ptx():
    ptx = """.version 9.0
\t// .globl\t_Z1kPf
.visible .entry _Z1kPf
(
\t.param .u64 _Z1kPf_param_0
)
;
.global .align 8 .u64 lab_symbol_of_kernel_0 = _Z1kPf;
.visible .global .align 8 .u64 lab_symbol_of_kernel_1 = generic(_Z1jPf);

.visible .entry _Z1kPf(
\t.param .u64 _Z1kPf_param_0
)
{
\tret;
}
"""
    text, symbols = take_symbols(ptx, ("k", "j"))
    assert symbols == {"k": "_Z1kPf", "j": "_Z1jPf"}
    assert text == ".version 9.0\n\t// .globl\t_Z1kPf\n\n.visible .entry" + ptx.rpartition(".visible .entry")[2]
    error = missing(request_for("k", "l"), symbols, "", "")
    assert "no kernel 'l'" in str(error)
    assert missing(request_for("k"), symbols, "", "") is None


def test_a_log_without_errors_explains_nothing():
    assert unresolved(request_for("k"), "warning: all is well", "") is None


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z3addPf", "add"),
        ("_ZN2ns3addIfLi128EEEvPT_PKS1_i", "ns::add"),
        ("_ZN2ns1a3addEv", "ns::a::add"),
        ("_ZL5innerPf", "inner"),
        ("_ZN2ns12_GLOBAL__N_16hiddenEPf", "ns::hidden"),
        ("_Z3addIdEvPT_", "add"),
    ],
)
def test_names_of_symbols(symbol, name):
    assert plain_name(symbol) == name


def test_symbols_that_are_no_mangled_names():
    for symbol in ("add", "_Z", "_ZN", "_Z99x", "", "_Zxyz"):
        assert plain_name(symbol) in (symbol, "x")


def test_variables_in_constant_memory_have_names_and_sizes():
    source = """
    namespace ours { static __constant__ float taps[5][3]; namespace { __constant__ double hidden; } }
    struct Pair { float a; int b; };
    __constant__ Pair pair;
    __constant__ short table[3] = {1, 2, 3};
    __device__ float other[4];
    __global__ void k(float *o, int i) {
        o[i] = ours::taps[i][i] + ours::hidden + pair.a + table[i] + other[i] + sinf(o[i]);
    }
    """
    built = build(toolchain("nvrtc"), CompileRequest(source, "k.cu", "sm_90", kernels=("k",)), use_cache=False).build
    found = {name: one.bytes for name, one in constant_variables(built.ptx).items() if not name.startswith("__")}
    assert found == {"taps": 60, "hidden": 8, "pair": 8, "table": 6}
    assert set(built.symbols) == {"k", *found}
    assert all(f" {built.symbols[name]}" in built.ptx for name in found)
