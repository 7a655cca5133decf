from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistakes import coded

from lab.base.errors import CompileError, UserError
from lab.isa.cuda.kernels import read_kernels
from lab.isa.sass.module import read_sass
from lab.templates.plain.macros import macro_value, shielded, unused, with_macros
from lab.toolchain.base import CompileRequest
from lab.toolchain.disassembly.nvdisasm import disassemble
from lab.toolchain.select import find_toolchains, toolchain

SOURCES = Path(__file__).parents[2] / "support" / "cuda"
GUARDED = """#ifndef N
#define N 4
#endif
extern "C" __global__ void k(int *x) { *x = N; }
"""


@pytest.fixture(scope="module", params=["nvrtc", "nvcc"])
def compiler(request):
    found = [toolchain for toolchain in find_toolchains() if toolchain.name.endswith(request.param)]
    return found[0] if found else pytest.skip(f"{request.param} is not on this machine")


def built(compiler, text, macros):
    return compiler.compile(CompileRequest(with_macros(text, macros, "k.cu"), "k.cu", "sm_90"))


def test_a_parameter_replaces_a_guarded_default(compiler):
    assert re.search(r"st\S+ \[[^]]+\], 4|mov\S+ \s*%r\d+, 4;", built(compiler, GUARDED, {}).ptx)
    assert re.search(r"st\S+ \[[^]]+\], 77|mov\S+ \s*%r\d+, 77;", built(compiler, GUARDED, {"N": 77}).ptx)


CLASHES = {"pad": 1, "N": 4, "T": "float", "min": 3, "x": 7, "size": 9, "value": 2, "_A": 3, "dim": 5, "type": "int"}


HEADERS = (
    "cuda_fp16.h",
    "cuda_bf16.h",
    "mma.h",
    "cooperative_groups.h",
    "cuda_pipeline.h",
    "cuda/std/cstdint",
    "cuda/std/type_traits",
    "cub/block/block_reduce.cuh",
)


@pytest.mark.parametrize(
    ("header", "quotes"),
    [
        pytest.param(header, quotes, marks=[pytest.mark.thorough] if (number + turn) % 2 else [])
        for number, header in enumerate(HEADERS)
        for turn, quotes in enumerate(('""', "<>"))
    ],
)
def test_macros_do_not_reach_cudas_headers(header, quotes):
    compiler = toolchain("nvrtc")
    text = f"""#include {quotes[0]}{header}{quotes[1]}  // a comment
extern "C" __global__ void k(T *p) {{ *p = pad + N + min + value + _A + dim + size + type(3); }}
"""
    try:
        ptx = built(compiler, text, CLASHES).ptx
    except CompileError as error:
        if "could not open source file" in str(error):
            pytest.skip(f"this machine lacks the header: {error}")
        raise
    assert str(0x41F00000) in ptx  # 30, as a float
    options = tuple(f"-D{name}={value}" for name, value in CLASHES.items())
    with pytest.raises(CompileError):  # what the shield is for
        compiler.compile(CompileRequest(text, "k.cu", "sm_90", options))


def test_lines_of_messages_and_line_tables_are_the_users(compiler):
    text = """#include <cuda_fp16.h>
/* a comment */ #include <cuda_bf16.h>  /* that
ends here */

extern "C" __global__ void k(float *p) {
    p[threadIdx.x] = N;
}
"""
    build = built(compiler, text, {"N": 4, "M": 5})
    assert re.search(r"\.loc\s+\d+ 6 ", build.ptx)
    assert not re.search(r"\.loc\s+\d+ (?:[89]|\d\d)\b", build.ptx)
    assert set(re.findall(r'\.file\s+\d+\s+"(.*)"', build.ptx)) == {"/k.cu"}
    listing = disassemble(build.cubin)
    [kernel] = read_sass(listing.text, listing.lines, "k.sass").kernels
    lines = {
        (instruction.source.file, instruction.source.line) for instruction in kernel.instructions if instruction.source
    }
    assert ("/k.cu", 6) in lines
    with pytest.raises(CompileError) as caught:
        built(compiler, text.replace("= N", "= oops"), {"N": 4})
    assert re.search(r"k\.cu[(:]6\b", caught.value.log)


def test_a_missing_header_is_reported_on_its_line(compiler):
    with pytest.raises(CompileError) as caught:
        built(compiler, "\n\n#include <no_such_header.h>\n__global__ void k(of_the_header x) {}\n", {"N": 4})
    assert re.search(r"k\.cu[(:]3\b", caught.value.log)


def test_includes_in_a_condition_stay_in_it(compiler):
    text = """#if N == 1
#include <no_such_header.h>
#else
#include <cuda_fp16.h>
#endif
extern "C" __global__ void k(int *p) { *p = N; }
"""
    assert ".entry k" in built(compiler, text, {"N": 2}).ptx


@pytest.mark.parametrize("name", ["vector_add", "stencil", "half_gemm", "two_kernels", "histogram"])
def test_files_as_users_write_them_compile(compiler, name):
    macros = {"block_size_x": 64, "TILE_X": 32, "TILE_Y": 8, "PAD": 1, "USE_EDGE": True, "WARPS": 4, "UNROLL": 2}
    text = (SOURCES / f"{name}.cu").read_text()
    assert ".entry" in built(compiler, text, {**macros, "SOFTENING": 1e-3}).ptx


def test_parameters_of_kernels_and_their_templates_are_no_macros():
    text = "template <int block> __global__ void k(float *x, int n) { x[n] = block; }"
    assert with_macros(text, {"block": 4, "n": 5}, "k.cu") == text


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\n#define N 4\n", 2, "#ifndef N"),
        ("#ifdef X\n#define N 4\n#endif\n", 2, "#ifndef N"),
        ("\n\nconstexpr int N = 4;\n", 3, "declares N"),
        ("__global__ void k() {\n  int N = 4;\n}", 2, "declares N"),
        ("\ntemplate <int N> __device__ int f() { return N; }", 2, "parameter of a function"),
        ("\n\n__device__ int f(int a, int N) { return N; }", 3, "parameter of a function"),
        ("__device__ int f(const float *N) { return N; }", 1, "parameter of a function"),
    ],
)
def test_a_name_that_the_source_gives_another_meaning_is_refused(text, line, words):
    with pytest.raises(UserError, match=words) as caught:
        with_macros(text, {"N": 8}, "folder/k.cu")
    assert str(caught.value.at) == f"folder/k.cu:{line}"
    assert caught.value.key == "parameters.N"


@pytest.mark.parametrize("name", ["1a", "a b", "int", "a-b", "", "defined", "größe"])
def test_names_that_no_macro_may_have(name):
    with pytest.raises(UserError, match="cannot be a macro"):
        with_macros("", {name: 1}, "k.cu")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        *((True, "1"), (False, "0"), (3, "3"), (-1, "-1"), (0.5, "0.5"), (1e-5, "1e-05"), ("float", "float")),
        *(("0.5f", "0.5f"), ("a + b", "a + b"), ('"text"', '"text"'), ("'a'", "'a'"), ("", "")),
    ],
)
def test_values_are_written_as_they_are(value, written):
    assert macro_value("N", value, "k.cu") == written


@pytest.mark.parametrize(
    "value", ["a\nb", "a\\", "/* a", "a // b", "a /* b */ c", '"a', "'a", "x" * 2000, float("inf"), float("nan")]
)
def test_values_that_would_change_other_lines_are_refused(value):
    with pytest.raises(UserError, check=coded("unsupported", key="parameters.N")):
        macro_value("N", value, "k.cu")


@given(st.text(alphabet=st.sampled_from(list("#include <a>\"'/*\\\n ;")), max_size=80))
def test_any_source_keeps_its_lines(text):
    made = shielded(text, {"N": "1"}, lambda _: True)
    kept = re.sub(r"\n(?:#undef N\n|#define N 1\n)+#line \d+(\n?)", "", made)
    assert kept.replace("\n", "") == text.replace("\n", "")
    for match in re.finditer(r"#line (\d+)\n", made):
        assert 1 <= int(match[1]) <= text.count("\n") + 2


def test_unused_parameters():
    text = "__global__ void k() { f(a); /* b */ }"
    assert unused(text, "k<{c}>", {"a": 1, "b": 2, "c": 3}) == ["b"]


def test_shielding_keeps_kernels_readable():
    text = (SOURCES / "reduce.cu").read_text()
    assert [kernel.title for kernel in read_kernels(with_macros(text, {"pad": 1}, "k.cu"))] == [
        kernel.title for kernel in read_kernels(text)
    ]


def test_a_macro_reaches_an_unroll_pragma(compiler):
    text = """extern "C" __global__ void k(volatile float *p, int n) {
    #pragma unroll FACTOR
    for (int i = 0; i < n; ++i) p[i] = 1;
}
"""
    assert built(compiler, text, {"FACTOR": 1}).ptx.count("st.volatile") == 1
    assert built(compiler, text, {"FACTOR": 8}).ptx.count("st.volatile") >= 8
