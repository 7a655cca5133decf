from __future__ import annotations

import importlib.util
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import CompileError, MissingToolError
from lab.toolchain import locate, nvcc
from lab.toolchain.base import CompileRequest
from lab.toolchain.disassembly.nvdisasm import disassemble

AXPY = """#include <cuda_fp16.h>
extern "C" __global__ void axpy(__half a, const __half *x, __half *y) {
    y[threadIdx.x] = __hfma(a, x[threadIdx.x], y[threadIdx.x]);
}
"""
PLAIN = 'extern "C" __global__ void k(float *x) {\n    *x = 1;\n}\n'


def real() -> nvcc.Nvcc | None:
    found = nvcc.find_nvcc(with_pycuda=False)
    try:
        return found if found and found.compile(CompileRequest("", "k.cu", "sm_80")) else None
    except MissingToolError:
        return None


@pytest.fixture(scope="module")
def compiler():
    found = real()
    if found is None:
        pytest.skip("needs nvcc and a host compiler")
    return found


@pytest.fixture
def with_cccl(compiler):
    try:
        compiler.compile(CompileRequest("#include <nv/target>\n", "k.cu", "sm_80"))
    except CompileError:
        pytest.skip("needs CCCL beside nvcc: cuda_fp16.h includes it")
    return compiler


def test_a_kernel_of_cute(with_cccl):
    source = """#include <cute/tensor.hpp>
extern "C" __global__ void k(float* x) {
    using namespace cute;
    Tensor rows = make_tensor(make_gmem_ptr(x), make_layout(make_shape(Int<4>{}, Int<32>{})));
    rows(threadIdx.y, threadIdx.x) = size(rows);
}
"""
    build = with_cccl.compile(CompileRequest(source, "k.cu", "sm_80"))
    assert '"/cutlass/cute/' in build.ptx
    assert str(locate.cutlass()) not in build.ptx + build.command
    assert "--expt-relaxed-constexpr '-I<CUTLASS headers>'" in build.command
    assert "CUTLASS" in with_cccl.identity


def test_a_kernel(with_cccl):
    compiler = with_cccl
    build = compiler.compile(CompileRequest(AXPY, "axpy.cu", "sm_80", ("--maxrregcount=32",)))
    assert ".visible .entry axpy(" in build.ptx
    assert f"V{compiler.version}" in build.ptx
    assert build.resources["axpy"].registers > 0
    assert build.resources["axpy"].constant_bytes >= 24
    assert build.command == (
        "nvcc -ptx -arch=sm_80 --extended-lambda -lineinfo --maxrregcount=32 -o axpy.ptx axpy.cu && "
        "nvcc -cubin -arch=sm_80 -lineinfo --maxrregcount=32 -Xptxas -v -o axpy.cubin axpy.ptx"
    )
    assert (build.toolchain, build.version) == ("nvcc", compiler.version)
    assert ".text.axpy" in disassemble(build.cubin).text


def test_a_lambda_may_be_annotated(compiler):
    source = """extern "C" __global__ void k(float *x) {
    auto next = [=] __host__ __device__(float value) { return value + 1; };
    *x = next(*x);
}
"""
    assert ".entry k(" in compiler.compile(CompileRequest(source, "k.cu", "sm_80", ("--extended-lambda",))).ptx
    assert ".entry k(" in compiler.compile(CompileRequest(source, "k.cu", "sm_80")).ptx


def test_the_same_request_gives_the_same_build(compiler):
    first, second = (compiler.compile(CompileRequest(PLAIN, "k.cu", "sm_80")) for _ in range(2))
    assert (first.ptx, first.cubin) == (second.ptx, second.cubin)


def test_the_line_table_names_no_folder_of_this_machine(with_cccl):
    first = with_cccl.compile(CompileRequest(AXPY, "axpy.cu", "sm_80"))
    files = re.findall(r'\.file\s+\d+\s+"(.*)"', first.ptx)
    assert files[0] == "/axpy.cu"
    assert all(file.startswith("/cuda/cuda_fp16") for file in files[1:])
    assert b"lab-nvcc-" not in first.cubin


def test_an_error_names_its_line(compiler):
    with pytest.raises(CompileError, match=r'^bad\.cu\(2\): error: identifier "y" is undefined$') as caught:
        compiler.compile(CompileRequest('\nextern "C" __global__ void k() { y = 1; }', "bad.cu", "sm_80"))
    assert "1 error detected" in caught.value.log
    assert caught.value.command.startswith("nvcc -ptx")


def test_ptxas_errors_are_compile_errors(compiler):
    source = 'extern "C" __global__ void k() { asm volatile("no.such.instruction;"); }'
    with pytest.raises(CompileError, match="ptxas"):
        compiler.compile(CompileRequest(source, "k.cu", "sm_80"))


def test_no_host_compiler(compiler, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match=r"no host compiler .*apt-get install g\+\+"):
        compiler.compile(CompileRequest(AXPY, "k.cu", "sm_80"))


def test_flags_of_the_environment_are_part_of_it(compiler, monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DVALUE=42 -w")
    source = 'extern "C" __global__ void k(int *x) { *x = VALUE; }'
    build = compiler.compile(CompileRequest(source, "k.cu", "sm_80"))
    assert build.command.startswith("NVCC_APPEND_FLAGS='-DVALUE=42 -w' nvcc -ptx")
    assert compiler.identity.startswith("NVCC_APPEND_FLAGS='-DVALUE=42 -w'")


def test_architectures(compiler):
    assert compiler.supports("sm_80")
    assert compiler.supports("sm_90a")
    assert not compiler.supports("sm_12")
    assert replace(compiler, architectures=()).supports("sm_12")  # too old to list them: let it say


def test_it_travels_to_a_worker(compiler):
    assert pickle.loads(pickle.dumps(compiler)) == compiler  # noqa: S301 - dumped on this very line


def test_an_nvcc_that_went_away(compiler, tmp_path):
    with pytest.raises(MissingToolError, match="python -m pip install nvidia-cuda-nvcc"):
        replace(compiler, path=tmp_path / "nvcc").compile(CompileRequest(AXPY, "k.cu", "sm_80"))


def test_relocate_drops_time_stamps_and_leaves_the_rest():
    ptx = '\t.file\t1 "/build/a/k.cu", 1583, 280\n.loc 1 2 3\n  .file 2 "/usr/include/math.h"\n// .file\n'
    assert nvcc.relocate(ptx, lambda path: path.replace("/build/a", "")) == (
        '\t.file\t1 "/k.cu"\n.loc 1 2 3\n  .file 2 "/usr/include/math.h"\n// .file\n'
    )


@pytest.mark.parametrize(
    "log",
    [
        "gcc: No such file or directory\nnvcc fatal   : Failed to preprocess host compiler properties.",
        "nvcc fatal   : Cannot find compiler 'gcc-99' in PATH",
        "sh: 1: gcc: not found",
        "sh: gcc: command not found",
    ],
)
def test_words_for_a_missing_host_compiler(log):
    assert isinstance(nvcc._refusal(log, "nvcc"), MissingToolError)


def test_a_missing_header_is_no_missing_compiler():
    log = "kernel.cu:1:10: fatal error: gcc.h: No such file or directory"
    assert isinstance(nvcc._refusal(log, "nvcc"), CompileError)


@pytest.fixture
def with_pycuda(compiler, monkeypatch, tmp_path):
    """PyCUDA as it is found beside a driver; to import it is an error."""
    (tmp_path / "pycuda").mkdir()
    (tmp_path / "pycuda" / "__init__.py").write_text("raise AssertionError('PyCUDA was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pycuda", raising=False)
    monkeypatch.setattr(locate, "has_driver", lambda: True)
    found = nvcc.find_nvcc()
    assert found == replace(compiler, with_pycuda=True)
    return found


def test_pycudas_nvcc_makes_the_same_build_under_its_own_name(compiler, with_pycuda):
    request = CompileRequest(PLAIN, "axpy.cu", "sm_80")
    build, plain = with_pycuda.compile(request), compiler.compile(request)
    assert build.toolchain == with_pycuda.name == "pycuda-nvcc"
    assert (build.ptx, build.cubin) == (plain.ptx, plain.cubin)
    assert (build.command, build.resources) == (plain.command, plain.resources)


def test_warnings_are_in_the_log(compiler):
    source = 'extern "C" __global__ void k(int *x) { int unused; *x = 1; }'
    build = compiler.compile(CompileRequest(source, "kernel.cu", "sm_80"))
    assert 'variable "unused" was declared but never referenced' in build.log
    assert "Used " in build.log


@pytest.mark.usefixtures("with_pycuda")
def test_pycuda_without_a_driver_is_left_out(compiler, monkeypatch):
    monkeypatch.setattr(locate, "has_driver", lambda: False)
    assert nvcc.find_nvcc() == compiler
    assert nvcc.find_nvcc(with_pycuda=True) is None


@pytest.mark.usefixtures("with_pycuda")
def test_pycuda_can_be_left_out(compiler):
    assert nvcc.find_nvcc(with_pycuda=False) == compiler


def test_a_driver_without_pycuda_is_not_enough(monkeypatch):
    monkeypatch.setattr(locate, "has_driver", lambda: True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert nvcc.find_nvcc(with_pycuda=True) is None


def test_a_hanging_nvcc_is_stopped(monkeypatch):
    def hang(arguments, *, timeout, **_):
        raise subprocess.TimeoutExpired(arguments, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    stuck = nvcc.Nvcc(Path("nvcc"), "0.0", ("sm_80",), with_pycuda=False)
    with pytest.raises(CompileError, match="nvcc did not finish within 600 s"):
        stuck.compile(CompileRequest(PLAIN, "k.cu", "sm_80"))
