from __future__ import annotations

import pytest

from lab.isa.ptx.module import read_ptx
from lab.isa.ptx.signature import entry, entry_parameters
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


def parameters(text: str):
    module = read_ptx(f"{HEAD}.visible .entry k({text}) {{ ret; }}")
    kernel_entry = entry(module, "k")
    assert kernel_entry is not None
    return entry_parameters(kernel_entry)


def test_types_sizes_and_alignment():
    declared = parameters(
        ".param .u64 a, .param .f32 b, .param .align 4 .b8 c[12], .param .u8 d, .param .align 2 .b8 e[2]"
    )
    assert [(one.type, one.bytes, one.align) for one in declared] == [
        *(("u64", 8, 8), ("f32", 4, 4), ("b8", 12, 4), ("u8", 1, 1), ("b8", 2, 2))
    ]
    assert [one.may_be_pointer for one in declared] == [True, False, False, False, False]
    assert [one.is_array for one in declared] == [False, False, True, False, True]
    assert [one.is_float for one in declared] == [False, True, False, False, False]
    assert [str(one) for one in declared] == [".u64", ".f32", "12 bytes aligned to 4", ".u8", "2 bytes aligned to 2"]


def test_pointers_that_are_marked():
    [first, second] = parameters(".param .u64 .ptr .global .align 16 a, .param .b64 .ptr b")
    assert first.is_marked_pointer
    assert (first.bytes, first.align) == (8, 8)  # 16 is the alignment of what it points to
    assert second.is_marked_pointer
    assert str(first) == "pointer"


def test_no_parameters_and_no_entry():
    assert parameters("") == ()
    assert entry(read_ptx(HEAD), "k") is None


@pytest.mark.parametrize(
    ("c_type", "size", "pointer"),
    [
        *(("float *", 8, True), ("int", 4, False), ("double", 8, False), ("bool", 1, False), ("__half", 2, False)),
        *(("float4", 16, False), ("long long", 8, True), ("char", 1, False), ("__nv_bfloat16", 2, False)),
    ],
)
def test_what_nvrtc_declares(c_type, size, pointer):
    source = f'#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nextern "C" __global__ void k({c_type} p) {{ }}'
    build = toolchain("nvrtc").compile(CompileRequest(source, "k.cu", "sm_90"))
    [parameter] = entry_parameters(read_ptx(build.ptx).kernels[0])
    assert (parameter.bytes, parameter.may_be_pointer) == (size, pointer)


def test_a_byte_alone_and_an_array_without_a_size():
    byte, aligned, single, unsized, vector = parameters(
        ".param .b8 a, .param .align 4 .b8 b, .param .b8 c[1], .param .b8 d[], .param .v4 .f32 e"
    )
    assert [(x.bytes, x.align, x.is_array) for x in (byte, aligned, single, unsized, vector)] == [
        *((1, 1, False), (1, 4, True), (1, 1, False), (0, 1, True), (16, 16, False))
    ]
    assert not byte.may_be_pointer
    assert str(vector) == ".f32"


def test_a_handle_is_as_wide_as_a_pointer_and_floats_of_other_names_are_read():
    texture, half, wide = parameters(".param .texref a, .param .bf16 b, .param .b128 c")
    assert (texture.bytes, half.bytes, half.is_float, wide.bytes, wide.may_be_pointer) == (8, 2, False, 16, False)
