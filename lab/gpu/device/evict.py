"""Emptying L2 of what a variant could find there, and of what would be written back while the variant is counted.

A memset evicts as well, but leaves L2 full of lines that must still go to DRAM; bytes counted afterwards would be its.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pycuda.driver as cuda

from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

_THREADS, _BLOCKS = 256, 1024
_SOURCE = f"""
extern "C" __global__ void __launch_bounds__({_THREADS})
lab_read_all(const uint4* data, long long count, unsigned* never)
{{
    unsigned sum = 0;
    for (long long i = blockIdx.x * {_THREADS}ll + threadIdx.x; i < count; i += {_THREADS * _BLOCKS}ll) {{
        const uint4 value = data[i];
        sum |= value.x ^ value.y ^ value.z ^ value.w;
    }}
    if (count < 0) *never = sum;  // the reads have a use, as far as the compiler knows
}}
"""


def reader(
    arch: str,
    address: int,
    size: int,
    stream: Any,  # noqa: ANN401 - PyCUDA is untyped
) -> Callable[[], None]:
    """A function that queues reads of a buffer, 16 bytes at a time.

    Args:
        arch: Of the GPU.
        address: Of the buffer, aligned to 16 bytes.
        size: In bytes.
        stream: PyCUDA's stream.

    Raises:
        LabError: there is no NVRTC, or it refuses.
    """
    module = cuda.module_from_buffer(toolchain("nvrtc").compile(CompileRequest(_SOURCE, "evict.cu", arch)).cubin)
    function = module.get_function("lab_read_all")
    function.prepare("PqP")

    def read(_module: object = module) -> None:  # the default keeps the module loaded
        function.prepared_async_call((_BLOCKS, 1, 1), (_THREADS, 1, 1), stream, address, size // 16, address)

    return read
