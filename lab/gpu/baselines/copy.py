"""A plain copy as a baseline: the memory-bound limit for the same bytes, timed like any variant.

It reads the operator's input once and writes its output once, 16 bytes per thread and instruction. An operator that
computes something from the same bytes has no faster kernel than this, apart from measurement noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pycuda.driver as cuda

from lab.gpu.device.backend import Baseline, BaselineMissingError, Enqueue
from lab.operators.base import Inputs
from lab.toolchain.own import build_own

THREADS: Final = 256
"""Threads per block."""

VECTOR_BYTES: Final = 16
"""Bytes that a thread moves per instruction."""

FORMS: Final = {"plain": (1, "", ""), "streaming": (4, "__ldcs", "__stcs")}
"""Forms by name: vectors in flight per thread, and the intrinsics that load and store. The
fastest form is used. On an H200 the first is faster from about 50 MB on, the second below."""


def source(unroll: int, load: str, store: str) -> str:
    """Return the CUDA source of one form."""
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
    const long long rest = count * 16 + threadIdx.x;  // bytes behind the last whole vector
    if (blockIdx.x == 0 && rest < bytes) to[rest] = from[rest];
}}
"""


def blocks(size: int, unroll: int) -> int:
    """Return the number of blocks that copy `size` bytes with `unroll` vectors per thread."""
    return max(1, -(-size // (VECTOR_BYTES * THREADS * unroll)))


def copy_baseline(
    inputs: Inputs,
    pointers: Mapping[str, int],
    stream: cuda.Stream,
    arch: str,
    timed: Callable[[Enqueue], float],
) -> Baseline:
    """Copy the operator's one input to its one output, in the fastest form.

    Args:
        inputs: One array that is read and one that is written, of one size.
        pointers: Their device addresses.
        stream: The stream that copies are queued on.
        arch: Architecture of the GPU.
        timed: Times a launch with L2 flushed before it, in milliseconds.

    Raises:
        BaselineMissingError: The operator has other arrays, or a copy is wrong.
    """
    input_names = [name for name in inputs.arrays if name not in inputs.outputs]
    sizes = {inputs.arrays[name].nbytes for name in (*input_names, *inputs.outputs)}
    if len(input_names) != 1 or len(inputs.outputs) != 1 or len(sizes) != 1:
        raise BaselineMissingError("the baseline copy needs an operator with one input and one output of one size")
    (origin,), (target,), (size,) = input_names, inputs.outputs, sizes
    launches: dict[str, tuple[Enqueue, str]] = {}
    for name, (unroll, load, store) in FORMS.items():
        built = build_own(source(unroll, load, store), "copy.cu", arch)
        launch = _launch(built.cubin, blocks(size, unroll), stream, (size, pointers[origin], pointers[target]))
        cuda.memset_d8(pointers[target], 0xFF, size)
        launch()
        stream.synchronize()
        host = np.empty_like(inputs.arrays[target])
        cuda.memcpy_dtoh(host, pointers[target])
        if not np.array_equal(host.view(np.uint8), inputs.arrays[origin].view(np.uint8)):
            raise BaselineMissingError("the baseline copy is left out: its output differs from its input")
        launches[name] = (launch, built.ptx)
    best = min(launches, key=lambda name: timed(launches[name][0]))
    launch, ptx = launches[best]
    library = f"{best} copy of {size} bytes, {FORMS[best][0]} vectors of {VECTOR_BYTES} bytes a thread"
    return Baseline("copy", library, "copy", "it computes nothing", launch, computes=False, ptx=ptx)


def _launch(cubin: bytes, count: int, stream: cuda.Stream, values: tuple[int, int, int]) -> Enqueue:
    module = cuda.module_from_buffer(cubin)
    function = module.get_function("copy")
    function.prepare("qPP")
    queue = function.prepared_async_call

    def launch(_module: object = module) -> None:  # the default keeps the module loaded
        queue((count, 1, 1), (THREADS, 1, 1), stream, *values)

    return launch
