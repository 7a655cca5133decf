from __future__ import annotations

from dataclasses import replace

import pytest

from lab.base.errors import CompileError
from lab.toolchain.base import CompileRequest
from lab.toolchain.triton.source import TritonSource, restored, triton_type

SOURCE = TritonSource(
    text="import triton\n\nx = 1\n",
    file="k.py",
    function="k",
    signature=(("x", "*fp32"), ("n", "i32")),
    constants=(("BLOCK", 128), ("FLAG", True)),
    divisible=("x",),
    num_warps=8,
    num_stages=2,
    num_ctas=2,
)


def test_a_source_travels_as_a_request():
    request = SOURCE.request("sm_90")
    assert (request.name, request.arch) == ("k.py", "sm_90")
    assert request.source.rpartition("\n")[0] == SOURCE.text
    assert restored(request) == SOURCE
    ones = replace(SOURCE, ones=("n",))
    assert restored(ones.request("sm_90")) == ones
    assert "ones" not in request.source  # requests of old stay what they were


@pytest.mark.parametrize("text", ["", "import triton", "\n# lab: {}", "x\n# lab: 3", "\n# lab: {"])
def test_another_source_is_refused(text):
    with pytest.raises(CompileError, match="not a Triton function"):
        restored(CompileRequest(text, "k.py", "sm_90"))


@pytest.mark.parametrize(
    ("dtype", "is_array", "name"),
    [
        *(("float32", True, "*fp32"), ("int32", False, "i32"), ("uint8", True, "*u8"), ("bfloat16", True, "*bf16")),
        *(("bool", False, "i1"), ("complex64", True, None)),
        *(("float8_e4m3fn", True, "*fp8e4nv"), ("float8_e5m2", True, "*fp8e5")),
    ],
)
def test_types(dtype, is_array, name):
    assert triton_type(dtype, is_array=is_array) == name
