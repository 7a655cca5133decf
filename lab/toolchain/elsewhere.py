"""A toolchain on its way to another machine: what decides its output goes, and where it is on this one stays.

The other machine looks for its own toolchain of the same name and version. One that differs is not taken: it would make
other machine code under the same name.
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
    """What decides the output of a toolchain, and of the disassembler behind it.

    Attributes:
        name: Of the toolchain.
        version: Its version in full.
        identity: `Toolchain.identity`.
        disassembler: Version of nvdisasm.
    """

    name: str
    version: str
    identity: str
    disassembler: str

    def __str__(self) -> str:
        known = f" ({self.identity})" if self.identity else ""
        return f"{self.name} {self.version}{known} and nvdisasm {self.disassembler}"


def named(toolchain: Toolchain) -> ToolchainName:
    """Return what is sent in place of a toolchain of `KINDS`.

    Raises:
        MissingToolError: There is no nvdisasm here.
    """
    return ToolchainName(toolchain.name, toolchain.version, toolchain.identity, disassembler_version())


def found_here(wanted: ToolchainName) -> Toolchain:
    """Return this machine's toolchain that a name means.

    Raises:
        MissingToolError: There is none that makes the same; the sentence says what there is.
    """
    found = _found_here(wanted)
    if isinstance(found, str):
        raise MissingToolError(found)
    return found


@functools.cache  # asked for every piece of work, and a machine's compilers do not change in the meantime
def _found_here(wanted: ToolchainName) -> Toolchain | str:
    same_name = tuple(_all(wanted.name, ""))
    try:
        disassembler = disassembler_version()
    except MissingToolError as error:
        return f"it lacks {wanted}: {error}"
    exact = tuple(_all(wanted.name, wanted.version))
    if found := next((one for one in (*exact, *same_name) if named(one) == wanted), None):
        return found
    there = [f"{title(one)} ({one.identity})" if one.identity else title(one) for one in same_name]
    listed = ", ".join([*dict.fromkeys(there or [f"no {wanted.name}"]), f"nvdisasm {disassembler}"])
    return f"it lacks {wanted}, which the run compiles with, and has {listed}; {advice(wanted.name, wanted.version)}"


def _all(name: str, version: str) -> Iterable[Toolchain]:
    """Yield this machine's toolchains of a name whose version begins with `version`.

    PyCUDA's nvcc is nvcc itself: a machine without PyCUDA compiles the same with it.
    """
    if name == "nvrtc":
        return compiler.find_nvrtcs(version)
    found: Toolchain | None
    if name == "ptx":
        found = ptx.find_assembler(version)
    elif name == "triton":
        found = triton.find_triton(version)
    else:
        plain = nvcc.find_nvcc(version, with_pycuda=False)
        found = replace(plain, with_pycuda=name == "pycuda-nvcc") if plain else None
    return () if found is None else (found,)
