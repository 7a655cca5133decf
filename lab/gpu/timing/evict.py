"""Flush L2 by reads, before launches whose DRAM traffic is counted.

A memset evicts as well, but it leaves L2 full of lines that must still go to DRAM, and their bytes would be counted
with the launch that follows.
"""

from __future__ import annotations

from typing import Final

import pycuda.driver as cuda

from lab.gpu.device.backend import Enqueue
from lab.toolchain.own import compiled

_THREADS: Final = 256
_BLOCKS: Final = 1024
SOURCE: Final = f"""
extern "C" __global__ void __launch_bounds__({_THREADS})
lab_read_all(const uint4* data, long long count, unsigned* never)
{{
    unsigned sum = 0;
    for (long long i = blockIdx.x * {_THREADS}ll + threadIdx.x; i < count; i += {_THREADS * _BLOCKS}ll) {{
        const uint4 value = data[i];
        sum |= value.x ^ value.y ^ value.z ^ value.w;
    }}
    if (count < 0) *never = sum;  // gives the reads a use that the compiler cannot remove
}}
"""


def reader(arch: str, address: int, size: int, stream: cuda.Stream) -> Enqueue:
    """Return a function that queues reads of a buffer, 16 bytes at a time.

    Args:
        arch: Architecture of the GPU.
        address: Device address of the buffer, aligned to 16 bytes.
        size: Size of the buffer in bytes.
        stream: The stream that the reads are queued on.

    Raises:
        CompileError: NVRTC refuses the source.
        MissingToolError: There is no NVRTC.
    """
    module = cuda.module_from_buffer(compiled(SOURCE, "evict.cu", arch))
    function = module.get_function("lab_read_all")
    function.prepare("PqP")

    def queue_reads(_module: object = module) -> None:  # the default keeps the module loaded
        function.prepared_async_call((_BLOCKS, 1, 1), (_THREADS, 1, 1), stream, address, size // 16, address)

    return queue_reads
