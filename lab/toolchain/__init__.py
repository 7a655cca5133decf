"""Compilers behind one interface, the disassembler, and a cache of what they made.

>>> from lab.toolchain import CompileRequest, build, toolchain
>>> request = CompileRequest('extern "C" __global__ void k(float *x) { *x = 1; }', "k.cu", "sm_90")
>>> built = build(toolchain("nvrtc"), request)
"""

from lab.toolchain.base import Build, CompileRequest, Disassembly, Resources, Toolchain
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.disassembler import disassemble, disassemble_all
from lab.toolchain.select import NAMES, Built, build, build_all, find_toolchains, toolchain

__all__ = [
    "NAMES",
    "Build",
    "Built",
    "Cache",
    "CompileRequest",
    "Disassembly",
    "Resources",
    "Toolchain",
    "build",
    "build_all",
    "default_folder",
    "disassemble",
    "disassemble_all",
    "find_toolchains",
    "toolchain",
]
