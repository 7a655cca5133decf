"""The interface between `lab` and any compiler: a request in, a build out."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lab.base.executor import WorkerLostError
from lab.isa.sass.lines import LineTable

_FIRST_WITH_SUFFIX = {"": 0, "a": 90, "f": 100}
"""Maps the suffix of a target to the oldest architecture that has it. Architecture-specific targets are written
`sm_90a`, family-specific ones `sm_100f`. Source: CUDA C++ Programming Guide, "Feature Set Compiler Targets"."""

_RELEASE_WITH_SUFFIX = {"": (0, 0), "a": (12, 0), "f": (12, 9)}
"""Maps the suffix of a target to the first release of CUDA whose compilers have it. Source: CUDA's release notes."""

_PART_KILLED = re.compile(rf"^nvcc error\s*: '[^'\n]+' died due to signal {signal.SIGKILL:d}\b", re.MULTILINE)
"""nvcc's message about a subprocess that was killed."""


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One translation unit to compile.

    Attributes:
        source: CUDA C++.
        name: File name in the compiler's messages (`kernel.cu`), without a folder. Line tables name it `/kernel.cu` and
            CUDA's headers `/cuda/cuda_fp16.h`, which do not depend on the machine.
        arch: Target, such as `sm_90`.
        options: Further compiler options in order, such as `--use_fast_math`; `lab.toolchain.options` lists them.
        included: Name and text of every file of the user's that the source includes, as `lab.toolchain.includes.gather`
            collects them. Compilers read no other file except CUDA's headers; nvcc also reads the host compiler's.
        kernels: Kernels as C++ expressions, such as `ns::add<float, 128>`. Templates among them are instantiated, and
            the build names the symbol of each. Names that are symbols already (`extern "C"`) need not be listed.
    """

    source: str
    name: str
    arch: str
    options: tuple[str, ...] = ()
    included: tuple[tuple[str, str], ...] = ()
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources that one kernel of a build uses, as ptxas reports them.

    Attributes:
        registers: Registers per thread.
        spill_store_bytes: Bytes of spill stores per thread.
        spill_load_bytes: Bytes of spill loads per thread.
        stack_bytes: Bytes of stack per thread.
        shared_bytes: Bytes of static shared memory per block.
        constant_bytes: Bytes of constant banks (kernel parameters and compiler constants).
        barriers: Named barriers per block.
        cluster: Blocks per cluster, if the kernel fixes it (``__cluster_dims__``); else 1.
    """

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int
    constant_bytes: int
    barriers: int
    cluster: int = 1

    @property
    def spill_bytes(self) -> int:
        """Bytes of spill stores plus spill loads per thread."""
        return self.spill_store_bytes + self.spill_load_bytes


@dataclass(frozen=True, slots=True)
class CompiledLaunch:
    """Launch parameters that a compiler fixes, as Triton does. CUDA's compilers leave them to the program.

    Attributes:
        threads: Threads per block; None if the program chooses.
        dynamic_shared_bytes: Dynamic shared memory per block; None if the program chooses.
        cluster: Blocks per cluster, which share the work of one block of the declared grid.
        hidden_pointers: Pointers that follow the kernel's own arguments.
        scratch_bytes: Global memory per block, to which the first of the hidden pointers points; 0 for none.
        absent_arguments: Positions of the declared arguments that are constants in the machine code.
        grid_syncs: Declared entry points whose kernel has a grid-wide barrier.
    """

    threads: int | None = None
    dynamic_shared_bytes: int | None = None
    cluster: int = 1
    hidden_pointers: int = 0
    scratch_bytes: int = 0
    absent_arguments: tuple[int, ...] = ()
    grid_syncs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Build:
    """The result of compiling one request. Its cubin is the one that runs.

    Attributes:
        ptx: PTX text.
        cubin: The ELF image.
        resources: Maps the symbol of a kernel to its resources.
        log: Everything the compiler printed.
        command: The command or API call, in a form that can be repeated.
        toolchain: Name of the toolchain: `nvrtc`, `nvcc` or `pycuda-nvcc`.
        version: Compiler version, such as `13.5.37`.
        arch: Target, such as `sm_90`.
        seconds: Wall-clock time of compiling; for a cached build, that of the original compilation.
        symbols: The symbol of each kernel that the request lists, by its expression, and of each variable in constant
            memory, by its name.
        launch: What the compiler fixes about launches.
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
    symbols: dict[str, str] = field(default_factory=dict)
    launch: CompiledLaunch = field(default_factory=CompiledLaunch)


@dataclass(frozen=True, slots=True)
class Disassembly:
    """The disassembly of one cubin.

    Attributes:
        text: nvdisasm's listing with live-register counts (`-c -plr -lrm count`).
        lines: The cubin's line table; empty if it has no readable one.
        version: Disassembler version.
        lacking: Why there is no listing, with the package that makes one; empty where there is.
    """

    text: str
    lines: LineTable
    version: str
    lacking: str = ""


class Toolchain(Protocol):
    """A compiler.

    Attributes:
        name: `nvrtc`, `nvcc` or `pycuda-nvcc`.
        version: Version that the compiler reports.
        architectures: Architectures that it can target, oldest first, without suffixes: `sm_75`, `sm_80`. Empty for an
            old compiler that does not list them.
        identity: Everything else that determines its output (versions of its headers, flags in the environment); part
            of the cache key.
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
        """Return whether this compiler version can target `arch`."""

    def compile(self, request: CompileRequest) -> Build:
        """Compile a request.

        Raises:
            UserError: An option is not accepted.
            CompileError: The compiler rejects the source, or it includes a file that is not allowed.
            MissingToolError: The compiler cannot run on this machine.
        """


def title(toolchain: Toolchain) -> str:
    """Return a compiler's name with its version: `nvrtc 13.5.37`."""
    return f"{toolchain.name} {toolchain.version}"


def can_target(arch: str, architectures: Sequence[str], version: str = "") -> bool:
    """Return whether a compiler can target `arch`, which may have a suffix (`sm_90a`, `sm_100f`).

    Args:
        arch: The target.
        architectures: What the compiler lists, without suffixes. One that is too old to list its architectures has an
            empty list, and is assumed to target all of them.
        version: Its version, which decides about suffixes; empty for any.
    """
    match = re.fullmatch(r"(sm_(\d+))([af]?)", arch)
    if match is None or int(match[2]) < _FIRST_WITH_SUFFIX[match[3]]:
        return False
    release = re.match(r"(\d+)\.(\d+)", version)
    if release and (int(release[1]), int(release[2])) < _RELEASE_WITH_SUFFIX[match[3]]:
        return False
    return not architectures or match[1] in architectures


def is_version(version: str, prefix: str) -> bool:
    """Return whether a version begins with the numbers of `prefix`: 13.5.37 with 13.5. An empty prefix accepts all."""
    return not prefix or f"{version}.".startswith(f"{prefix}.")


def first_error(log: str) -> str:
    """Return the line of a compiler's log that names the error: the first with `error` or `fatal`, else the last."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in lines:
        if re.search(r"\b(error|fatal)\b", line, re.IGNORECASE):
            return line
    return lines[-1] if lines else "the compiler failed without a message"


_WARNING = re.compile(r"^(?P<place>\S.*\(\d+\)): warning(?: #(?P<number>\d+)(?:-\w+)?)?: (?P<text>.+)$")
_OF_PTXAS = re.compile(r"^ptxas\b.*(?:\bwarning *: *|: *(?:\(C\d+\) *)?(?=Potential Performance Loss))(?P<text>.+)$")
_UNUSED = {"177", "550"}
"""EDG warnings that are left out: declared but never referenced, set but never used."""
LEFT_OUT = " was not found and is left out"
"""The end of a warning about a missing header."""
_OF_LAB = " of /standard/"
"""Marks a macro redefinition warning whose other definition is in lab's standard headers."""


def warnings_in(log: str, idle: Sequence[tuple[str, int, int]] = ()) -> tuple[str, ...]:
    """Return the warnings of a compiler's log, each once: `kernel.cu(17): unrecognized #pragma`.

    ptxas's remarks on potential performance loss are included. Unused names are not, since a parameter that turns off a
    part of a kernel leaves some behind. Macro redefinitions between CUDA's headers and lab's standard headers are not
    included either, since users cannot fix them. All missing headers share one warning.

    Args:
        log: The log.
        idle: File, first and last line of kernels that are not launched; their warnings are only counted.
    """
    messages, missing, elsewhere = list[str](), list[str](), set[str]()
    for line in log.splitlines():
        if (match := _WARNING.match(line)) and match["number"] not in _UNUSED and _OF_LAB not in match["text"]:
            place, text = match["place"], match["text"].removeprefix("#warning directive: ")
            file, _, number = place.rstrip(")").rpartition("(")
            if any(file == idle_file and first <= int(number) <= last for idle_file, first, last in idle):
                elsewhere.add(f"{place}: {text}")
            elif text.endswith(LEFT_OUT):
                missing.append(f"{place}: {text.removesuffix(LEFT_OUT)}")
            else:
                messages.append(f"{place}: {text}")
        elif match := _OF_PTXAS.match(line):
            messages.append(f"ptxas: {match['text']}")
    if missing:
        first, *further = dict.fromkeys(missing)
        names = [first, *(warning.partition(": ")[2] for warning in further)]
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if further else first
        messages.append(f"{listed}{LEFT_OUT.replace('was', 'were').replace('is', 'are') if further else LEFT_OUT}")
    if elsewhere:
        counted = "1 warning" if len(elsewhere) == 1 else f"{len(elsewhere)} warnings"
        messages.append(f"{counted} about kernels of the file that are not launched; see build.log")
    return tuple(dict.fromkeys(messages))


def check_not_killed(tool: str, code: int, log: str = "") -> None:
    """Check that a tool was not killed: a killed tool has rejected nothing and may succeed when run again.

    Args:
        tool: Its name.
        code: Its exit code, negative for a signal.
        log: What it printed.

    Raises:
        WorkerLostError: It or a program that it ran was killed, by a user or by the system when out of memory.
    """
    if code == -signal.SIGKILL or (code != 0 and _PART_KILLED.search(log)):
        raise WorkerLostError(f"{tool} was killed", killed=True)
