"""PTX sources, assembled unchanged by nvJitLink or by a toolkit's ptxas.

nvJitLink comes first, since its wheel needs neither a toolkit nor a host compiler. Both are the same assembler. ptxas
is a program of its own, in `bin` of a toolkit.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import CompileError, MissingToolError, ReaderError, did_you_mean
from lab.base.files import scratch
from lab.isa.ptx.module import read_ptx
from lab.toolchain import locate, nvjitlink
from lab.toolchain.base import Build, CompileRequest, can_target, first_error, is_version
from lab.toolchain.command import run_tool
from lab.toolchain.cubin.resources import resources
from lab.toolchain.options import PTX, TO_PTXAS, accepted
from lab.toolchain.symbols import plain_name

INSTALL = "python -m pip install nvidia-nvjitlink"

_TARGET = re.compile(r"sm_(\d+)([af]?)")


@dataclass(frozen=True, slots=True)
class PtxAssembler:
    """The toolchain `ptx`, made by `find_assembler`. Picklable.

    The kernels of its requests are symbols, or the C++ names from which a compiler mangled them.

    Attributes:
        tool: A libnvJitLink, or a ptxas.
        is_library: Whether it is a libnvJitLink.
        version: `13.5` of a library, `13.0.88` of a ptxas.
    """

    tool: Path
    is_library: bool
    version: str

    @property
    def name(self) -> str:
        """`ptx`."""
        return PTX

    @property
    def architectures(self) -> tuple[str, ...]:
        """Always empty, since neither tool lists its targets; unknown targets are rejected."""
        return ()

    @property
    def identity(self) -> str:
        """The kind of tool, nvJitLink or ptxas."""
        return "nvJitLink" if self.is_library else "ptxas"

    def supports(self, arch: str) -> bool:
        """Return whether `arch` is a valid target name."""
        return can_target(arch, ())

    def compile(self, request: CompileRequest) -> Build:
        """Assemble a request.

        Raises:
            UserError: An option is not accepted.
            CompileError: The assembler rejects the PTX, it is for another architecture, or it lacks a kernel.
            MissingToolError: The assembler cannot run on this machine.
        """
        started = time.perf_counter()
        options = ("-v", *_for_ptxas(accepted(request.options, PTX)))
        command = " ".join(["ptxas", f"-arch={request.arch}", "-lineinfo", *options, request.name])
        symbols = _symbols(request, command)
        assemble = _with_library if self.is_library else _with_ptxas
        cubin, log = assemble(self.tool, request, options, command)
        if not cubin:
            raise CompileError(first_error(log), log, command)
        return Build(
            ptx=request.source,
            cubin=cubin,
            resources=resources(log, cubin),
            log=log,
            command=command,
            toolchain=self.name,
            version=self.version,
            arch=request.arch,
            seconds=time.perf_counter() - started,
            symbols=symbols,
        )


def find_assembler(prefix: str = "") -> PtxAssembler | None:
    """Return the assembler of this machine whose version begins with `prefix`, or None."""
    for path in locate.nvjitlinks():
        try:
            version = nvjitlink.load(path).version
        except MissingToolError:
            continue
        if is_version(version, prefix):
            return PtxAssembler(path, is_library=True, version=version)
    path_of_ptxas = locate.tool("ptxas")
    ptxas_version = locate.tool_version(path_of_ptxas) if path_of_ptxas else None
    if path_of_ptxas is None or ptxas_version is None or not is_version(ptxas_version, prefix):
        return None
    return PtxAssembler(path_of_ptxas, is_library=False, version=ptxas_version)


def targets(arch: str, target: str) -> bool:
    """Return whether PTX of a `.target` can be assembled for an architecture.

    Plain targets run on all later architectures, `sm_90a` on itself alone, and `sm_100f` on its family. The family is
    left to the assembler.
    """
    arch_match, target_match = _TARGET.fullmatch(arch), _TARGET.fullmatch(target)
    if arch_match is None or target_match is None:
        return False
    if target_match[2] == "a":
        return arch == target
    return int(arch_match[1]) >= int(target_match[1])


def _symbols(request: CompileRequest, command: str) -> dict[str, str]:
    """Return the symbols of a request's kernels.

    Raises:
        CompileError: The text is not PTX, is for another architecture, or lacks one of the kernels.
    """
    try:
        module = read_ptx(request.source, request.name)
    except ReaderError as error:
        raise CompileError(str(error), "", command) from error
    if not targets(request.arch, module.target):
        message = f"{request.name} is PTX for {module.target}, which cannot be assembled for {request.arch}"
        raise CompileError(message, "", command)
    entries = [kernel.name for kernel in module.kernels]
    return {kernel: _symbol(kernel, entries, request.name, command) for kernel in request.kernels}


def _symbol(kernel: str, entries: Sequence[str], file: str, command: str) -> str:
    by_name = [symbol for symbol in entries if kernel in (symbol, plain_name(symbol))]
    exact = [symbol for symbol in by_name if symbol == kernel] or by_name
    if len(exact) == 1:
        return exact[0]
    if exact:
        raise CompileError(f"{file}: several kernels are called {kernel!r}: {', '.join(exact)}", "", command)
    near = did_you_mean(kernel, [*entries, *map(plain_name, entries)])
    message = f"{file}: there is no kernel {kernel!r}; the file has {', '.join(entries) or 'none'}"
    raise CompileError(f"{message}{f'; {near}' if near else ''}", "", command)


def _for_ptxas(options: Sequence[str]) -> list[str]:
    """Return options as ptxas takes them, without the `--ptxas-options=` prefix."""
    return [option.removeprefix(f"{TO_PTXAS[0]}=").removeprefix(f"{TO_PTXAS[1]}=") for option in options]


def _with_library(library: Path, request: CompileRequest, options: Sequence[str], _: str) -> tuple[bytes, str]:
    # its own cache omits ptxas's report; every version that loads has the option
    arguments = [f"-arch={request.arch}", "-lineinfo", "--no-cache", *(f"-Xptxas={option}" for option in options)]
    output = nvjitlink.load(library).assemble(request.source, request.name, arguments)
    return output.cubin, output.log


def _with_ptxas(ptxas: Path, request: CompileRequest, options: Sequence[str], command: str) -> tuple[bytes, str]:
    with scratch("lab-ptxas-") as folder:
        (folder / "lab.ptx").write_text(request.source, encoding="utf-8")
        arguments = [str(ptxas), f"-arch={request.arch}", "-lineinfo", *options, "-o", "lab.cubin", "lab.ptx"]
        status, log = run_tool(arguments, folder, name="ptxas", command=command, install=INSTALL)
        log = log.replace("lab.ptx", request.name)
        return (folder / "lab.cubin").read_bytes() if status == 0 else b"", log
