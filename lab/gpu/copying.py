"""A plain copy as a baseline: what memory can do at most with as many bytes, timed like any variant.

It reads the operator's input once and writes its output once, 16 bytes a thread and instruction. An operator that
computes something from the same bytes has no faster kernel than this, apart from measurement noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pycuda.driver as cuda

from lab.gpu.backend import Baseline, BaselineMissingError
from lab.operators.base import Inputs
from lab.toolchain import CompileRequest, toolchain

THREADS = 256
UNROLL = 4
"""Vectors that a thread has under way at once."""

SOURCE = f"""
extern "C" __global__ void __launch_bounds__({THREADS})
copy(long long bytes, const unsigned char* __restrict__ from, unsigned char* __restrict__ to)
{{
    const uint4* const source = reinterpret_cast<const uint4*>(from);
    uint4* const target = reinterpret_cast<uint4*>(to);
    const long long count = bytes / 16, begin = static_cast<long long>(blockIdx.x) * {THREADS * UNROLL} + threadIdx.x;
    uint4 value[{UNROLL}];
#pragma unroll
    for (int i = 0; i < {UNROLL}; ++i)
        if (begin + i * {THREADS} < count) value[i] = source[begin + i * {THREADS}];
#pragma unroll
    for (int i = 0; i < {UNROLL}; ++i)
        if (begin + i * {THREADS} < count) target[begin + i * {THREADS}] = value[i];
    const long long rest = count * 16 + threadIdx.x;  // what is no whole vector
    if (blockIdx.x == 0 && rest < bytes) to[rest] = from[rest];
}}
"""


def copy_baseline(inputs: Inputs, pointers: Mapping[str, int], stream: Any, arch: str) -> Baseline:  # noqa: ANN401 - PyCUDA is untyped
    """Copy the operator's one input onto its one output.

    Args:
        inputs: One array that is read and one that is written, equally large.
        pointers: Their device addresses.
        stream: PyCUDA's stream.
        arch: Of the GPU.

    Raises:
        BaselineMissingError: the operator is of another form.
    """
    read = [name for name in inputs.arrays if name not in inputs.outputs]
    sizes = {inputs.arrays[name].nbytes for name in (*read, *inputs.outputs)}
    if len(read) != 1 or len(inputs.outputs) != 1 or len(sizes) != 1:
        raise BaselineMissingError("the baseline copy needs an operator with one input and one output of one size")
    (source,), (target,), (size,) = read, inputs.outputs, sizes
    built = toolchain("nvrtc").compile(CompileRequest(SOURCE, "copy.cu", arch))
    module = cuda.module_from_buffer(built.cubin)
    function = module.get_function("copy")
    function.prepare("qPP")
    blocks = max(1, -(-size // (16 * THREADS * UNROLL)))
    values = (size, pointers[source], pointers[target])
    queue = function.prepared_async_call

    def launch(_module: object = module) -> None:  # the default keeps the module loaded
        queue((blocks, 1, 1), (THREADS, 1, 1), stream, *values)

    launch()
    stream.synchronize()
    host = np.empty_like(inputs.arrays[target])
    cuda.memcpy_dtoh(host, pointers[target])
    if host.tobytes() != inputs.arrays[source].tobytes():
        raise BaselineMissingError("the baseline copy is left out: what it wrote is not what it read")
    note = f"reads and writes {size} bytes; it computes nothing"
    return Baseline(
        "copy", f"16-byte copy, {UNROLL} vectors a thread", "copy", note, launch, computes=False, ptx=built.ptx
    )
