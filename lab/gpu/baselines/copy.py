"""A plain copy as a baseline: what memory can do at most with as many bytes, timed like any variant.

It reads the operator's input once and writes its output once, 16 bytes a thread and instruction. An operator that
computes something from the same bytes has no faster kernel than this, apart from measurement noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pycuda.driver as cuda

from lab.gpu.device.backend import Baseline, BaselineMissingError, Launch
from lab.operators.base import Inputs
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

THREADS = 256
FORMS = {"plain": (1, "", ""), "streaming": (4, "__ldcs", "__stcs")}
"""Name to vectors that a thread has under way at once, and the intrinsics that load and store; the fastest is taken.
On an H200 the first is faster from about 50 MB on, the second below."""


def source(unroll: int, load: str, store: str) -> str:
    """CUDA of one form."""
    loaded = f"{load}(&source[begin + i * {THREADS}])" if load else f"source[begin + i * {THREADS}]"
    stored = (
        f"{store}(&target[begin + i * {THREADS}], value[i])" if store else f"target[begin + i * {THREADS}] = value[i]"
    )
    return f"""
extern "C" __global__ void __launch_bounds__({THREADS})
copy(long long bytes, const unsigned char* __restrict__ from, unsigned char* __restrict__ to)
{{
    const uint4* const source = reinterpret_cast<const uint4*>(from);
    uint4* const target = reinterpret_cast<uint4*>(to);
    const long long count = bytes / 16, begin = static_cast<long long>(blockIdx.x) * {THREADS * unroll} + threadIdx.x;
    uint4 value[{unroll}];
#pragma unroll
    for (int i = 0; i < {unroll}; ++i)
        if (begin + i * {THREADS} < count) value[i] = {loaded};
#pragma unroll
    for (int i = 0; i < {unroll}; ++i)
        if (begin + i * {THREADS} < count) {stored};
    const long long rest = count * 16 + threadIdx.x;  // what is no whole vector
    if (blockIdx.x == 0 && rest < bytes) to[rest] = from[rest];
}}
"""


def copy_baseline(
    inputs: Inputs,
    pointers: Mapping[str, int],
    stream: Any,  # noqa: ANN401 - PyCUDA is untyped
    arch: str,
    timed: Callable[[Launch], float],
) -> Baseline:
    """Copy the operator's one input onto its one output.

    Args:
        inputs: One array that is read and one that is written, equally large.
        pointers: Their device addresses.
        stream: PyCUDA's stream.
        arch: Of the GPU.
        timed: Milliseconds of one launch, L2 flushed before.

    Raises:
        BaselineMissingError: the operator is of another form.
    """
    read = [name for name in inputs.arrays if name not in inputs.outputs]
    sizes = {inputs.arrays[name].nbytes for name in (*read, *inputs.outputs)}
    if len(read) != 1 or len(inputs.outputs) != 1 or len(sizes) != 1:
        raise BaselineMissingError("the baseline copy needs an operator with one input and one output of one size")
    (origin,), (target,), (size,) = read, inputs.outputs, sizes
    made: dict[str, tuple[Launch, str]] = {}
    for name, (unroll, load, store) in FORMS.items():
        built = toolchain("nvrtc").compile(CompileRequest(source(unroll, load, store), "copy.cu", arch))
        blocks = max(1, -(-size // (16 * THREADS * unroll)))
        launch = _launch(built.cubin, blocks, stream, (size, pointers[origin], pointers[target]))
        cuda.memset_d8(pointers[target], 0xFF, size)
        launch()
        stream.synchronize()
        host = np.empty_like(inputs.arrays[target])
        cuda.memcpy_dtoh(host, pointers[target])
        if not np.array_equal(host.view(np.uint8), inputs.arrays[origin].view(np.uint8)):
            raise BaselineMissingError("the baseline copy is left out: what it wrote is not what it read")
        made[name] = (launch, built.ptx)
    best = min(made, key=lambda name: timed(made[name][0]))
    launch, ptx = made[best]
    library = f"{best} copy of {size} bytes, {FORMS[best][0]} vectors of 16 bytes a thread"
    return Baseline("copy", library, "copy", "it computes nothing", launch, computes=False, ptx=ptx)


def _launch(cubin: bytes, blocks: int, stream: Any, values: tuple[int, int, int]) -> Launch:  # noqa: ANN401
    module = cuda.module_from_buffer(cubin)
    function = module.get_function("copy")
    function.prepare("qPP")
    queue = function.prepared_async_call

    def launch(_module: object = module) -> None:  # the default keeps the module loaded
        queue((blocks, 1, 1), (THREADS, 1, 1), stream, *values)

    return launch
