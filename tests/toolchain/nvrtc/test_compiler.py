from __future__ import annotations

import locale
import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from lab.base.errors import CompileError, MissingToolError
from lab.isa.sass.module import read_sass
from lab.toolchain import locate
from lab.toolchain.base import CompileRequest, warnings_in
from lab.toolchain.disassembly.nvdisasm import disassemble
from lab.toolchain.includes import gather
from lab.toolchain.locate import NvrtcFile
from lab.toolchain.nvrtc import compiler as nvrtc
from lab.toolchain.select import toolchain

AXPY = """extern "C" __global__ void axpy(float a, const float *x, float *y) {
    y[threadIdx.x] += a * x[threadIdx.x];
}
"""
HALF = """#include <cuda_fp16.h>
extern "C" __global__ void add(__half2 *c) { c[threadIdx.x] = __hadd2(c[threadIdx.x], c[1]); }
"""


@pytest.fixture(scope="module")
def compiler():
    return toolchain("nvrtc")


def test_a_kernel(compiler):
    build = compiler.compile(CompileRequest(AXPY, "axpy.cu", "sm_90"))
    assert ".visible .entry axpy(" in build.ptx
    assert ".target sm_90" in build.ptx
    assert build.ptx.endswith("\n")
    assert build.cubin.startswith(b"\x7fELF")
    assert build.resources["axpy"].registers > 0
    assert build.command == "nvrtc --gpu-architecture=sm_90 --generate-line-info --ptxas-options=-v --no-cache axpy.cu"
    assert (build.toolchain, build.arch) == ("nvrtc", "sm_90")
    assert re.fullmatch(r"\d+\.\d+\.\d+", build.version)
    assert f"V{build.version}" in build.ptx


def test_words_of_gnu_that_nvcc_takes(compiler):
    source = """extern "C" __global__ void k(unsigned *x, unsigned long long *y) {
    __asm__ __volatile__("mov.u32 %0, %%laneid;" : "=r"(x[0]));
    __asm __volatile("mov.u32 %0, %%warpid;" : "=r"(x[1]));
    y[0] = (unsigned long long)((unsigned __int128)y[1] * y[2] >> 64);
}
"""
    build = compiler.compile(CompileRequest(source, "k.cu", "sm_90"))
    assert "%laneid" in build.ptx
    assert "%warpid" in build.ptx
    assert "mul.hi.u64" in build.ptx
    assert "__asm__=asm" in build.command


def test_the_line_table_names_no_folder_of_this_machine(compiler):
    build = compiler.compile(CompileRequest(AXPY, "axpy.cu", "sm_90"))
    assert re.findall(r'\.file\s+\d+\s+"(.*)"', build.ptx) == ["/axpy.cu"]
    assert re.search(r"\.loc\s+1 2 ", build.ptx)
    assert os.fsencode(os.getcwd()) not in build.cubin  # noqa: PTH109 - the bytes that NVRTC would write


@pytest.mark.parametrize("header", ["cuda_fp16.h", "cuda_bf16.h", "mma.h", "cuda_pipeline.h", "cuda_fp8.h"])
def test_headers_of_cuda(compiler, header):
    build = compiler.compile(CompileRequest(f"#include <{header}>\n{HALF}", "half.cu", "sm_90"))
    assert set(re.findall(r'\.file\s+\d+\s+"(.*)"', build.ptx)) == {"/half.cu", "/cuda/cuda_fp16.h"}
    assert re.search(r"\.loc\s+1 3 ", build.ptx)  # the kernel's own line, after two includes
    assert str(compiler.header_folder).encode() not in build.cubin
    assert str(compiler.header_folder) not in build.ptx + build.command
    assert "'<CUDA headers>'" in build.command


def test_a_header_of_the_users_own_is_compiled(compiler, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "mine.h").write_text('#include "sub/value.h"\n')
    (tmp_path / "sub/value.h").write_text('#include "half.h"\n#define VALUE 42\n')
    (tmp_path / "sub/half.h").write_text(
        "#pragma once\n#include <cuda_fp16.h>\ninline __device__ int f() { return 1; }"
    )
    text = '#include <mine.h>\n#if __has_include("mine.h") && !__has_include("etc/hostname")\n'
    text += 'extern "C" __global__ void k(int *x) { *x = VALUE; }\n#endif\n'
    source, included = gather(text, (tmp_path,))
    assert sorted(included) == ["mine.h", "sub/half.h", "sub/value.h"]
    build = compiler.compile(CompileRequest(source, "k.cu", "sm_90", (), tuple(included.items())))
    assert re.search(r"mov\.\w+\s+%r\d+, 42|st\S+ \[[^]]+\], 42", build.ptx)
    assert str(tmp_path) not in build.ptx


def test_a_file_that_is_not_there_is_named_where_device_code_lacks_it(compiler):
    source = '\n#include "tmp/nowhere.h"\nextern "C" __global__ void k(float *x) { *x = of_nowhere(); }\n'
    said = r'k\.cu\(3\): error: identifier "of_nowhere" is undefined \(k\.cu\(2\): could not open .* "tmp/nowhere.h"'
    for options in ((), ("-w",)):
        with pytest.raises(CompileError, match=said):
            compiler.compile(CompileRequest(source, "k.cu", "sm_90", options))
    many = "".join(f"#include <torch/{name}.h>\n" for name in "abcde") + "__global__ void k(at::Half *x) {}\n"
    with pytest.raises(CompileError, match=r'k\.cu\(3\): could not open source file "torch/c.h"[^;]*; and 2 more\)'):
        compiler.compile(CompileRequest(many, "k.cu", "sm_90"))


@pytest.mark.parametrize(
    "header", ["torch/extension.h", "tvm/ffi/error.h", "any/thing.hpp", "curand_kernel.h", "cutlass/nowhere.h"]
)
def test_a_file_that_is_not_there_is_left_out_where_device_code_compiles_without_it(compiler, header):
    source = f"#ifdef HOST\n#include <other.h>\n#endif\n#include <{header}>\n#include <vector>\n{AXPY}"
    build = compiler.compile(CompileRequest(source, "k.cu", "sm_90"))
    assert warnings_in(build.log) == (f'k.cu(4): "{header}" was not found and is left out',)
    assert re.findall(r'\.file\s+\d+\s+"(.*)"', build.ptx) == ["/k.cu"]


def test_a_file_that_a_file_of_the_users_includes_is_named_with_that_file(compiler):
    included = (("own/a.h", "\n#include <pybind11/pybind11.h>\n"),)
    build = compiler.compile(CompileRequest(f'#include "own/a.h"\n{AXPY}', "k.cu", "sm_90", (), included))
    assert [one.split(": ")[0] for one in warnings_in(build.log)] == ["/own/a.h(2)"]


def test_options_reach_the_compiler(compiler):
    source = 'extern "C" __global__ void k(float *x) { *x = __fdividef(VALUE, *x) + sinf(*x); }'
    request = CompileRequest(source, "k.cu", "sm_90", ("-DVALUE=7.0f", "--use_fast_math"))
    build = compiler.compile(request)
    assert "sin.approx.ftz.f32" in build.ptx
    assert build.command.endswith("-DVALUE=7.0f --use_fast_math k.cu")
    capped = compiler.compile(replace(request, options=(*request.options, "--maxrregcount=16")))
    assert capped.resources["k"].registers <= 16


def test_two_builds_are_the_same_in_any_folder(compiler, tmp_path):
    program = (
        "import sys; from lab.toolchain.base import CompileRequest; from lab.toolchain.select import toolchain\n"
        "b = toolchain('nvrtc').compile(CompileRequest(sys.argv[1], 'k.cu', 'sm_80'))\n"
        "sys.stdout.buffer.write(b.ptx.encode() + b.cubin)\n"
    )
    here = compiler.compile(CompileRequest(HALF, "k.cu", "sm_80"))
    there = subprocess.run([sys.executable, "-c", program, HALF], cwd=tmp_path, capture_output=True, check=True)
    assert there.stdout == here.ptx.encode() + here.cubin


def test_an_error_names_its_line_and_keeps_the_log(compiler):
    with pytest.raises(CompileError) as caught:
        compiler.compile(CompileRequest('\nextern "C" __global__ void k() { y = 1; }', "bad.cu", "sm_90"))
    assert str(caught.value) == 'bad.cu(2): error: identifier "y" is undefined'
    assert '1 error detected in the compilation of "bad.cu"' in caught.value.log
    assert caught.value.command.startswith("nvrtc --gpu-architecture=sm_90")


@pytest.mark.parametrize(
    ("options", "arch", "said"),
    [
        ((), "sm_12", "invalid value for --gpu-architecture"),
        ((), "compute_90", "no machine code"),
    ],
)
def test_refused_options(compiler, options, arch, said):
    with pytest.raises(CompileError, match=said):
        compiler.compile(CompileRequest(AXPY, "k.cu", arch, options))


def test_ptxas_errors_are_compile_errors(compiler):
    source = 'extern "C" __global__ void k() { asm volatile("no.such.instruction;"); }'
    with pytest.raises(CompileError, match=r"no\.such|ptxas"):
        compiler.compile(CompileRequest(source, "k.cu", "sm_90"))


def test_names_that_are_not_ascii(compiler):
    build = compiler.compile(CompileRequest(f"// größe\n{AXPY}", "kernel.cu", "sm_90"))
    assert re.search(r"\.loc\s+1 3 ", build.ptx)


def test_architectures(compiler):
    assert "sm_90" in compiler.architectures
    assert list(compiler.architectures) == sorted(compiler.architectures, key=lambda arch: int(arch[3:]))
    for arch in ("sm_90", "sm_90a", "sm_100a", "sm_100f"):
        assert compiler.supports(arch), arch
        assert f".target {arch}" in compiler.compile(CompileRequest(AXPY, "k.cu", arch)).ptx
    for arch in ("sm_12", "sm_80a", "sm_90f", "compute_90", "90", "native", ""):
        assert not compiler.supports(arch), arch


def test_it_travels_to_a_worker(compiler):
    assert pickle.loads(pickle.dumps(compiler)) == compiler  # noqa: S301 - dumped on this very line


def test_without_headers_an_include_is_a_compile_error_that_says_what_to_install(compiler):
    bare = replace(compiler, header_folder=None)
    assert bare.compile(CompileRequest(AXPY, "k.cu", "sm_90")).resources
    with pytest.raises(CompileError, match=r"could not open source file .* pip install --target .*nvidia-cuda-runtime"):
        bare.compile(CompileRequest(HALF, "k.cu", "sm_90"))


def test_without_the_library(compiler, monkeypatch, tmp_path):
    monkeypatch.setattr(locate, "nvrtcs", tuple)
    assert nvrtc.find_nvrtc() is None
    with pytest.raises(MissingToolError, match=r"cannot load NVRTC from .*libnvrtc\.so\.13"):
        replace(compiler, library=tmp_path / "libnvrtc.so.13").compile(CompileRequest(AXPY, "k.cu", "sm_90"))


def test_a_file_that_is_no_library_is_passed_over(compiler, monkeypatch, tmp_path):
    wrong = NvrtcFile(tmp_path / "libnvrtc.so.99", "99.0")
    wrong.path.write_bytes(b"not ELF")
    right = NvrtcFile(compiler.library, "")
    monkeypatch.setattr(locate, "nvrtcs", lambda: (wrong, right))
    assert nvrtc.find_nvrtc() == compiler
    assert nvrtc.find_nvrtc("99") is None


@pytest.mark.parametrize(
    ("release", "isa"), [("11.8", "7.8"), ("12.9", "8.8")]
)  # CUDA Toolkit release notes: PTX ISA versions
def test_an_older_release_beside_this_one(compiler, release, isa):
    encoding = locale.getencoding()
    old = nvrtc.find_nvrtc(release)
    if old is None:
        pytest.skip(f"NVRTC {release} is not installed: python -m pip install -e '.[compilers]'")
    request = CompileRequest(AXPY, "axpy.cu", "sm_90")
    made, newer = old.compile(request), compiler.compile(request)
    assert locale.getencoding() == encoding  # 11.8 leaves the thread's locale at C
    assert f".version {isa}" in made.ptx
    assert f"V{release}." in made.ptx
    assert f"V{compiler.version}" in newer.ptx
    assert made.resources["axpy"].registers > 0
    disassembly = disassemble(made.cubin)
    (function,) = read_sass(disassembly.text, disassembly.lines, "kernel.sass").kernels
    assert "FFMA" in " ".join(i.opcode for i in function.instructions)
    if old.header_folder is not None:
        assert old.header_version.split(".")[0] == release.split(".")[0]
        assert "add" in old.compile(CompileRequest(HALF, "half.cu", "sm_90")).resources


def test_host_code_is_refused_with_advice(compiler):
    source = "int main() { return 0; }\n__global__ void k() {}"
    with pytest.raises(CompileError, match=r"k\.cu\(1\).*put host code between #ifndef __CUDACC_RTC__ and #endif"):
        compiler.compile(CompileRequest(source, "k.cu", "sm_90"))
    guarded = "#ifndef __CUDACC_RTC__\nint main() { return 0; }\n#endif\n__global__ void k() {}"
    assert ".entry _Z1kv" in compiler.compile(CompileRequest(guarded, "k.cu", "sm_90")).ptx


@pytest.mark.parametrize(
    ("version", "options"), [("12.8.93", ()), ("12.9.41", ("--no-cache",)), ("13.0", ("--no-cache",))]
)
def test_the_compilers_own_cache_is_left_out(version, options):
    assert nvrtc._without_cache(version) == options


def test_kernels_of_cute_compile_as_they_are(compiler):
    source = """
#include <cute/tensor.hpp>
extern "C" __global__ void k(float* x) {
    using namespace cute;
    Tensor rows = make_tensor(make_gmem_ptr(x), make_layout(make_shape(Int<4>{}, Int<32>{})));
    rows(threadIdx.y, threadIdx.x) = size(rows);
}
"""
    build = compiler.compile(CompileRequest(source, "k.cu", "sm_90"))
    assert "-default-device" not in source
    assert "--device-as-default-execution-space" in build.command
    assert "CUTLASS" in compiler.identity
    assert "/cutlass/cute/" in build.ptx
    assert build.log.count("warning") == 0


def test_an_old_nvrtc_compiles_the_dialect_of_the_others() -> None:
    old = nvrtc.find_nvrtc("11.8")
    if old is None:
        pytest.skip("NVRTC 11.8 is not installed: python -m pip install -e '.[compilers]'")
    vector = "template <int N> struct alignas(N * 4) V { float at[N]; };\n"
    source = vector + 'extern "C" __global__ void k(V<4>* v) { *v = v[1]; }'
    made = old.compile(CompileRequest(source, "k.cu", "sm_80"))
    assert "v4.f32" in made.ptx
    assert "--std=c++17" in made.command
    named = old.compile(CompileRequest(source, "k.cu", "sm_80", ("--std=c++14",)))
    assert named.command.count("--std") == 1
