"""Compile the bench's own CUDA: the kernels that measure, compare and evict beside a user's kernels.

It uses the default NVRTC, whatever compilers the experiment names, and no cache, since these sources are small and
their machine code is not a result.
"""

from __future__ import annotations

from lab.toolchain.base import Build, CompileRequest
from lab.toolchain.select import toolchain


def compiled(source: str, name: str, arch: str) -> bytes:
    """Compile a source with `build_own` and return its cubin."""
    return build_own(source, name, arch).cubin


def build_own(source: str, name: str, arch: str) -> Build:
    """Compile one of the bench's own sources.

    Args:
        source: CUDA C++.
        name: File name in the compiler's messages, such as `copy.cu`.
        arch: Architecture of the GPU that runs it, such as `sm_90`.

    Raises:
        CompileError: NVRTC rejects the source.
        MissingToolError: There is no NVRTC.
    """
    return toolchain("nvrtc").compile(CompileRequest(source, name, arch))
