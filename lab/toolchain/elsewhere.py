"""Names of toolchains for other machines: everything that determines their output, without local paths.

The other machine looks for its own toolchain of the same name and version. One that differs is not used, since it
would make different machine code under the same name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lab.base.errors import MissingToolError
from lab.toolchain import nvcc, ptx
from lab.toolchain.base import Toolchain, title
from lab.toolchain.disassembly.nvdisasm import disassembler_version
from lab.toolchain.nvrtc import compiler
from lab.toolchain.select import advice
from lab.toolchain.triton import compiler as triton

KINDS: frozenset[type] = frozenset({compiler.Nvrtc, nvcc.Nvcc, ptx.PtxAssembler, triton.Triton})
"""Toolchains that hold a path of this machine."""


@dataclass(frozen=True, slots=True)
class ToolchainName:
    """Everything that determines the output of a toolchain and of its disassembler.

    Attributes:
        name: The toolchain's name.
        version: Its version in full.
        identity: `Toolchain.identity`.
        disassembler: Version of nvdisasm.
    """

    name: str
    version: str
    identity: str
    disassembler: str

    def __str__(self) -> str:
        details = f" ({self.identity})" if self.identity else ""
        return f"{self.name} {self.version}{details} and nvdisasm {self.disassembler}"


def named(toolchain: Toolchain) -> ToolchainName:
    """Return the name that is sent in place of a toolchain of `KINDS`.

    Raises:
        MissingToolError: There is no nvdisasm here.
    """
    return ToolchainName(toolchain.name, toolchain.version, toolchain.identity, disassembler_version())


def found_here(name: ToolchainName) -> Toolchain:
    """Return this machine's toolchain of a name.

    Raises:
        MissingToolError: There is none with the same output; the message says which there are.
    """
    toolchain = _found_here(name)
    if isinstance(toolchain, str):
        raise MissingToolError(toolchain)
    return toolchain


@functools.cache  # called for every task, and a machine's compilers do not change in the meantime
def _found_here(name: ToolchainName) -> Toolchain | str:
    same_name = tuple(_all(name.name, ""))
    try:
        disassembler = disassembler_version()
    except MissingToolError as error:
        return f"it lacks {name}: {error}"
    exact = tuple(_all(name.name, name.version))
    if match := next((candidate for candidate in (*exact, *same_name) if named(candidate) == name), None):
        return match
    available = [
        f"{title(candidate)} ({candidate.identity})" if candidate.identity else title(candidate)
        for candidate in same_name
    ]
    listed = ", ".join([*dict.fromkeys(available or [f"no {name.name}"]), f"nvdisasm {disassembler}"])
    return f"it lacks {name}, which the run compiles with, and has {listed}; {advice(name.name, name.version)}"


def _all(name: str, version: str) -> Iterable[Toolchain]:
    """Yield this machine's toolchains of a name whose version begins with `version`.

    PyCUDA's nvcc is nvcc itself: a machine without PyCUDA compiles the same with it.
    """
    if name == "nvrtc":
        return compiler.find_nvrtcs(version)
    toolchain: Toolchain | None
    if name == "ptx":
        toolchain = ptx.find_assembler(version)
    elif name == "triton":
        toolchain = triton.find_triton(version)
    else:
        plain = nvcc.find_nvcc(version, with_pycuda=False)
        toolchain = replace(plain, with_pycuda=name == "pycuda-nvcc") if plain else None
    return () if toolchain is None else (toolchain,)
