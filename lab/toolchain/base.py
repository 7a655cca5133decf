"""The seam between `lab` and any compiler: a request in, a build out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.isa.sass.lines import LineTable

_FIRST_WITH_SUFFIX = {"": 0, "a": 90, "f": 100}
"""Oldest architecture that has architecture-specific (`sm_90a`) and family-specific (`sm_100f`) targets,
CUDA C++ Programming Guide, "Feature Set Compiler Targets"."""


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One translation unit to compile.

    Attributes:
        source: CUDA C++.
        name: File name that the compiler's messages carry (`kernel.cu`); no folder. Line tables carry it
            below a root that is no machine's: `/kernel.cu`; CUDA's own headers stand there as `/cuda/cuda_fp16.h`.
        arch: `sm_90`.
        options: Further compiler options, in order, such as `--use_fast_math`.
    """

    source: str
    name: str
    arch: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel of a build uses, as ptxas reports it.

    Attributes:
        registers: Registers per thread.
        spill_store_bytes: Bytes of spill stores per thread.
        spill_load_bytes: Bytes of spill loads per thread.
        stack_bytes: Stack frame per thread.
        shared_bytes: Static shared memory per block.
        constant_bytes: Constant bank bytes (kernel parameters and compiler constants).
        barriers: Named barriers used.
    """

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int
    constant_bytes: int
    barriers: int

    @property
    def spill_bytes(self) -> int:
        """Spill stores and loads together, bytes per thread."""
        return self.spill_store_bytes + self.spill_load_bytes


@dataclass(frozen=True, slots=True)
class Build:
    """What a compiler made of one request. The cubin here is the one that runs.

    Attributes:
        ptx: PTX text.
        cubin: The ELF image.
        resources: Kernel (symbol) name to its use of resources.
        log: Everything the compiler printed.
        command: The command or API call, as one could repeat it.
        toolchain: `nvrtc`, `nvcc`, `pycuda-nvcc`.
        version: Compiler version, `13.5.37`.
        arch: `sm_90`.
        seconds: Compile time, wall clock. From the cache: the time the first build took.
    """

    ptx: str
    cubin: bytes
    resources: dict[str, Resources]
    log: str
    command: str
    toolchain: str
    version: str
    arch: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Disassembly:
    """What the disassembler printed for one cubin.

    Attributes:
        text: nvdisasm's listing with live-register counts (`-c -plr -lrm count`).
        lines: The cubin's line table; empty where it has none that can be read.
        version: Disassembler version.
    """

    text: str
    lines: LineTable
    version: str


class Toolchain(Protocol):
    """A compiler.

    Attributes:
        name: `nvrtc`, `nvcc` or `pycuda-nvcc`.
        version: As the compiler reports it.
        architectures: What it can target, oldest first, without suffixes: `sm_75`, `sm_80`; empty where an
            old compiler does not list them.
        identity: Whatever else decides what it makes (versions of its headers, flags in the environment);
            part of the cache key.
    """

    @property
    def name(self) -> str:
        """See the class."""

    @property
    def version(self) -> str:
        """See the class."""

    @property
    def architectures(self) -> tuple[str, ...]:
        """See the class."""

    @property
    def identity(self) -> str:
        """See the class."""

    def supports(self, arch: str) -> bool:
        """Whether this compiler version can target `arch`."""

    def compile(self, request: CompileRequest) -> Build:
        """Compile.

        Raises:
            CompileError: the source is refused.
            MissingToolError: the compiler cannot run here.
        """


def title(toolchain: Toolchain) -> str:
    """How a compiler is named where there are several: `nvrtc 13.5.37`."""
    return f"{toolchain.name} {toolchain.version}"


def can_target(arch: str, architectures: Sequence[str]) -> bool:
    """Whether `arch`, perhaps with a suffix (`sm_90a`, `sm_100f`), belongs to a compiler's list.

    An empty list belongs to a compiler too old to give one: it gets the benefit of the doubt.
    """
    match = re.fullmatch(r"(sm_(\d+))([af]?)", arch)
    if match is None or int(match[2]) < _FIRST_WITH_SUFFIX[match[3]]:
        return False
    return not architectures or match[1] in architectures


def is_version(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one as far as that says: 13.5.37 is 13.5; anything is the empty one."""
    return not wanted or f"{version}.".startswith(f"{wanted}.")


def first_error(log: str) -> str:
    """The line of a compiler's log that says what is wrong: the first with `error` or `fatal`, else the last."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in lines:
        if re.search(r"\b(error|fatal)\b", line, re.IGNORECASE):
            return line
    return lines[-1] if lines else "the compiler failed and said nothing"
