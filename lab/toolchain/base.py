"""The seam between `lab` and any compiler: a request in, a build out."""

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
"""What nvcc says of the programs that it runs."""


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One translation unit to compile.

    Attributes:
        source: CUDA C++.
        name: File name in the compiler's messages (`kernel.cu`), without a folder. Line tables name it `/kernel.cu` and
            CUDA's headers `/cuda/cuda_fp16.h`, which are paths of no machine.
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
        barriers: Named barriers of a block.
        cluster: Blocks of a cluster, where the kernel fixes their number (``__cluster_dims__``); else 1.
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
        """Bytes of spill stores and loads per thread, added."""
        return self.spill_store_bytes + self.spill_load_bytes


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
        seconds: Wall-clock time of compiling; of a build from the cache, the time when it was first made.
        symbols: The symbol of each kernel that the request lists, by its expression, and of each variable in constant
            memory, by its name.
        launch: What the compiler decides about launches, by name; empty where it leaves all of it to the program.
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
    launch: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Disassembly:
    """The disassembly of one cubin.

    Attributes:
        text: nvdisasm's listing with live-register counts (`-c -plr -lrm count`).
        lines: The cubin's line table; empty where it has none that can be read.
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
        identity: Everything else that decides its output (versions of its headers, flags in the environment); part of
            the cache key.
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
        """Compile.

        Raises:
            UserError: An option is not accepted.
            CompileError: The compiler refuses the source, or it includes a file that it may not.
            MissingToolError: The compiler cannot run on this machine.
        """


def title(toolchain: Toolchain) -> str:
    """Return a compiler's name with its version, `nvrtc 13.5.37`, which tells it from others."""
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


def is_version(version: str, wanted: str) -> bool:
    """Return whether a version begins with the wanted numbers: 13.5.37 is 13.5. An empty `wanted` accepts all."""
    return not wanted or f"{version}.".startswith(f"{wanted}.")


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
"""Numbers of NVIDIA's front end (EDG): declared but never referenced, set but never used."""
LEFT_OUT = " was not found and is left out"
"""How a warning about a header ends that is not here."""
_OF_LAB = " of /standard/"
"""Follows the line of the other definition where a macro is defined once more."""


def warnings_in(log: str, idle: Sequence[tuple[str, int, int]] = ()) -> tuple[str, ...]:
    """Return the warnings of a compiler's log, each once: `kernel.cu(17): unrecognized #pragma`.

    What ptxas calls a potential loss of performance is one as well. Names that are never used are none: a parameter
    that turns a part of a kernel off leaves some behind. Nor is a macro that CUDA's headers define once more than the
    standard headers that come with lab: no user can mend that. Headers that are left out are one warning together.

    Args:
        log: The log.
        idle: File, first and last line of kernels that are not launched, of whose warnings only the number is told.
    """
    found, missing, elsewhere = list[str](), list[str](), set[str]()
    for line in log.splitlines():
        if (match := _WARNING.match(line)) and match["number"] not in _UNUSED and _OF_LAB not in match["text"]:
            place, text = match["place"], match["text"].removeprefix("#warning directive: ")
            file, _, number = place.rstrip(")").rpartition("(")
            if any(file == one and first <= int(number) <= last for one, first, last in idle):
                elsewhere.add(f"{place}: {text}")
            elif text.endswith(LEFT_OUT):
                missing.append(f"{place}: {text.removesuffix(LEFT_OUT)}")
            else:
                found.append(f"{place}: {text}")
        elif match := _OF_PTXAS.match(line):
            found.append(f"ptxas: {match['text']}")
    if missing:
        first, *further = dict.fromkeys(missing)
        names = [first, *(one.partition(": ")[2] for one in further)]
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if further else first
        found.append(f"{listed}{LEFT_OUT.replace('was', 'were').replace('is', 'are') if further else LEFT_OUT}")
    if elsewhere:
        what = "1 warning" if len(elsewhere) == 1 else f"{len(elsewhere)} warnings"
        found.append(f"{what} about kernels of the file that are not launched; build.log has what was said")
    return tuple(dict.fromkeys(found))


def check_not_killed(tool: str, code: int, log: str = "") -> None:
    """Check that a tool ended by itself: one that was killed has refused nothing, and may well succeed another time.

    Args:
        tool: Its name.
        code: Its exit code, negative for a signal.
        log: What it printed.

    Raises:
        WorkerLostError: Someone killed it or a program that it ran: a user, or the system short of memory.
    """
    if code == -signal.SIGKILL or (code != 0 and _PART_KILLED.search(log)):
        raise WorkerLostError(f"{tool} was killed", killed=True)
