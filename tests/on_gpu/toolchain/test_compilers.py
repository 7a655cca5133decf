"""Compilers answer from caches of their own where there is a driver."""

from __future__ import annotations

import os

import pytest

from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

KEEPS = """extern "C" __global__ void keeps(float *c, const float *a) {
    float kept[64];  // %s
    for (int i = 0; i < 64; ++i) kept[int(a[i]) & 63] = a[i * 3];
    c[threadIdx.x] = kept[int(a[1]) & 63];
}
"""


@pytest.mark.parametrize("name", ["nvrtc", "ptx"])
def test_the_second_build_has_the_whole_log(name):
    source, file = KEEPS % os.urandom(8).hex(), "keeps.cu"
    if name == "ptx":
        source, file = toolchain("nvrtc").compile(CompileRequest(source, file, "sm_90")).ptx, "keeps.ptx"
    request = CompileRequest(source, file, "sm_90")
    builds = [toolchain(name).compile(request) for _ in range(3)]
    assert builds[0].resources["keeps"].stack_bytes == 256
    assert all(build.resources == builds[0].resources for build in builds)
    assert all("spill stores" in build.log for build in builds)
