"""The line table and the listing against nvdisasm's own JSON, and the line table against broken images."""

from __future__ import annotations

import contextlib
import subprocess

import nvdisasm_json
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.isa.sass.lines import LineTable
from lab.isa.sass.module import read_sass
from lab.toolchain import locate
from lab.toolchain.base import CompileRequest
from lab.toolchain.cubin.debug_lines import line_table
from lab.toolchain.disassembly.nvdisasm import disassemble
from lab.toolchain.select import toolchain

SOURCE = r"""
#include <cuda_fp16.h>
__device__ __noinline__ float helper(float x, int n) { for (int i = 0; i < n; ++i) x = x * x + 1.0f; return x; }
__device__ float inlined(float x) { return x * 3.0f + sqrtf(x); }
extern "C" __global__ void table(int* a, int n) {
    const int i = threadIdx.x;
    switch (a[i]) {
        case 0: a[i] = 5; break;
        case 1: a[i] = a[i + 7] * 3; break;
        case 2: a[i] ^= 99; break;
        case 3: a[i] = a[n]; break;
        case 4: a[i] = __popc(a[i]); break;
        case 5: a[i] /= n; break;
        default: a[i] = 0;
    }
}
extern "C" __global__ void calls(float* a, int n) { a[threadIdx.x] = helper(a[threadIdx.x], n) + inlined(a[3]); }
extern "C" __global__ void halves(__half* a, double* d) { a[1] = __hmul(a[threadIdx.x], a[1]); d[0] = d[1] / d[2]; }
extern "C" __global__ void pointer(float (*f)(float), float* a) { a[0] = f(a[1]); }
template <int N> __global__ void shared(float* a) {
    __shared__ float s[N];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < N / 2) atomicAdd(a, s[threadIdx.x + 1]);
    a[threadIdx.x] = __shfl_xor_sync(~0u, s[2], 1);
}
template __global__ void shared<64>(float*);
"""


@pytest.fixture(scope="module", params=["sm_75", "sm_90a", "sm_120"])
def cubin(request):
    return toolchain("nvrtc").compile(CompileRequest(SOURCE, "kernel.cu", request.param)).cubin


def test_lines_and_listing_say_what_nvdisasms_json_says(cubin, tmp_path):
    (tmp_path / "a.cubin").write_bytes(cubin)
    tool = locate.tool("nvdisasm")
    command = [tool, "--emit-json", "--print-line-info", tmp_path / "a.cubin"]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    made = disassemble(cubin)
    module, expected = read_sass(made.text, made.lines), nvdisasm_json.stated(theirs)
    assert {function.name for function in module.functions} == set(expected)
    for function in module.functions:
        found = nvdisasm_json.read(function)
        assert found == nvdisasm_json.changes(expected[function.name])[: len(found)]
        assert {one.opcode for one in expected[function.name][len(found) :]} <= {"BRA", "NOP"}  # padding
    assert sorted(module.files.values()) == sorted(nvdisasm_json.line_table(theirs).files)
    assert sum(i.source is not None for f in module.functions for i in f.instructions) > 100
    assert any(len(i.targets) > 1 for f in module.functions for i in f.instructions)


def test_an_image_without_line_information_has_an_empty_table(cubin):
    assert line_table(cubin.replace(b".debug_line", b".debug_nine")) == LineTable()


@given(st.data())
@settings(max_examples=150)
def test_a_broken_image_is_refused_in_words(cubin, data):
    broken = bytearray(cubin)
    for _ in range(data.draw(st.integers(1, 8))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        line_table(bytes(broken[: data.draw(st.integers(0, len(broken)))]))
