"""nvcc, run as a command.

The toolchain has two names. Where PyCUDA and a driver are installed, it is `pycuda-nvcc`, the compiler of a program
that gives PyCUDA its source; elsewhere it is `nvcc`. Both run the same nvcc with the same options and make the same
machine code. PyCUDA itself is not imported: `pycuda.compiler` starts the same process, drops ptxas's report, and would
bring the CUDA driver into every process that compiles.

One front end (CUDA C++ to PTX), then one assembler (`nvcc -cubin` on that PTX), rather than `nvcc -cubin --keep`: the
PTX that is kept is then exactly what ptxas assembled. In between, the name of the temporary folder is removed from the
line table, so that the same request gives the same PTX and cubin everywhere. Only symbols of internal linkage, such as
the functions of cuda_fp16.h, keep a hash of that folder in their names (which -frandom-seed does not change). The
front end takes over 90 % of the time either way.
"""

from __future__ import annotations

import importlib.util
import os
import posixpath
import re
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import CompileError, MissingToolError
from lab.base.files import scratch
from lab.toolchain import locate
from lab.toolchain.base import Build, CompileRequest, can_target, first_error, is_version
from lab.toolchain.command import run_tool
from lab.toolchain.cubin.resources import resources
from lab.toolchain.includes import check
from lab.toolchain.nvrtc import headers
from lab.toolchain.options import NVCC, accepted
from lab.toolchain.symbols import check_expressions, missing, take_symbols, unresolved, with_references

INSTALL = "python -m pip install nvidia-cuda-nvcc nvidia-cuda-cccl"
"""CCCL is needed because cuda_fp16.h includes its `nv/target` under nvcc (not under NVRTC)."""
INSTALL_HOST = "sudo apt-get install g++   (or use the toolchain nvrtc, which needs no host compiler)"

_LANGUAGE = ("--extended-lambda",)
"""Language options for users' kernels: nvcc rejects `__device__` lambdas otherwise. Not used for PTX."""
_FOR_CUTLASS = ("--expt-relaxed-constexpr",)
"""Options for CUTLASS, which calls constexpr functions without an execution space."""

_FLAG_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")  # nvcc reads these by itself
_NO_HOST_COMPILER = re.compile(
    r"Failed to preprocess host compiler properties|Cannot find compiler '"
    r"|\b(gcc|g\+\+|c\+\+|clang)['\"]?: (not found|command not found|No such file or directory)"
)
_FILE = re.compile(r'^(\s*\.file\s+\d+\s+)"([^"\n]*)"[^\n]*$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Nvcc:
    """The toolchain nvcc, made by `find_nvcc`. Picklable.

    Attributes:
        path: The nvcc that is run.
        version: `13.0.88`.
        architectures: From `--list-gpu-code`; empty where nvcc is too old to list them.
        with_pycuda: Whether PyCUDA and a driver are installed, so that it is also PyCUDA's compiler.
    """

    path: Path
    version: str
    architectures: tuple[str, ...]
    with_pycuda: bool

    @property
    def name(self) -> str:
        """`pycuda-nvcc` or `nvcc`."""
        return "pycuda-nvcc" if self.with_pycuda else "nvcc"

    @property
    def identity(self) -> str:
        """Flags that nvcc reads from the environment, and the version of CUTLASS's headers."""
        folder = locate.cutlass()
        return _environment_flags(os.environ) + (f" CUTLASS {locate.cutlass_version(folder)}" if folder else "")

    def supports(self, arch: str) -> bool:
        """Return whether this nvcc can target `arch`."""
        return can_target(arch, self.architectures, self.version)

    def compile(self, request: CompileRequest) -> Build:
        """Compile a request.

        Raises:
            UserError: An option is not accepted.
            CompileError: nvcc rejects the source, it includes a file that is not allowed, or nvcc ran longer than
                `lab.toolchain.command.TIMEOUT_S`.
            MissingToolError: nvcc or its host compiler (gcc) is missing.
        """
        started = time.perf_counter()
        options = ("-lineinfo", *accepted(request.options, NVCC))
        command = _shown(request, options)
        check(request.source, request.name, dict(request.included), command)
        check_expressions(request, command)
        with scratch("lab-nvcc-") as folder:
            try:
                raw, log = _front_end(self.path, request, options, folder)
            except CompileError as error:
                raise unresolved(request, error.log, command) or error from None
            ptx, symbols = take_symbols(relocate(raw, _names_without_machine(folder)), request.kernels)
            if lost := missing(request, symbols, log, command):
                raise lost
            cubin, ptxas_log = _assemble(self.path, request, options, ptx, folder)
        log += ptxas_log
        return Build(
            ptx=ptx,
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


def find_nvcc(required_version: str = "", *, with_pycuda: bool | None = None) -> Nvcc | None:
    """Return the nvcc of this machine, or None.

    Args:
        required_version: The first numbers of its version: `13` accepts every 13.x. If empty, any version is accepted.
        with_pycuda: None: PyCUDA's nvcc if PyCUDA is usable. True: only PyCUDA's nvcc. False: never PyCUDA's nvcc.
    """
    usable = with_pycuda is not False and _pycuda_is_usable()
    if with_pycuda and not usable:
        return None
    for path in locate.nvccs():
        version = locate.tool_version(path)
        if version is not None and is_version(version, required_version):
            listed = locate.tool_output(path, "--list-gpu-code") or ""
            architectures = sorted(set(re.findall(r"\bsm_\d+\b", listed)), key=lambda arch: int(arch[3:]))
            return Nvcc(path, version, tuple(architectures), usable)
    return None


def _pycuda_is_usable() -> bool:
    """Return whether PyCUDA and the CUDA driver library, without which it does not import, are installed."""
    return importlib.util.find_spec("pycuda") is not None and locate.has_driver()


def _names_without_machine(folder: Path) -> Callable[[str], str]:
    """Return a function that makes the names of user files and headers independent of the machine."""
    cutlass = locate.cutlass()

    def name_of(path: str) -> str:
        path = posixpath.normpath(path)
        if (header := _cuda_header(path)) is not None:
            return f"{headers.ROOT}/{header}"
        if cutlass is not None and Path(path).is_relative_to(cutlass):
            return f"{headers.CUTLASS_ROOT}/{Path(path).relative_to(cutlass).as_posix()}"
        for own in (folder, folder.resolve()):
            if Path(path).is_relative_to(own):
                return f"/{Path(path).relative_to(own).as_posix()}"
        return path if posixpath.isabs(path) else f"/{path}"

    return name_of


def _cuda_header(path: str) -> str | None:
    """Return the part of a path below the folder of CUDA's headers, or None for any other file.

    The folder is recognised by its contents: nvcc is often a link or a wrapper far from its toolkit.
    """
    root, below = path.rpartition("/include/")[::2]
    return below if root and Path(root, "include", "cuda_runtime_api.h").is_file() else None


def relocate(ptx: str, name_of: Callable[[str], str]) -> str:
    """Rename the files of PTX's `.file` table.

    The optional time stamps and sizes, which are the temporary file's, are dropped.
    """
    return _FILE.sub(lambda match: f'{match[1]}"{name_of(match[2])}"', ptx)


def _front_end(nvcc: Path, request: CompileRequest, options: tuple[str, ...], folder: Path) -> tuple[str, str]:
    for name, text in ((request.name, with_references(request)), *request.included):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    output = folder / "front.ptx"
    search = ["-I."] if request.included else []  # included files name each other from this folder
    language = _language(request, str(locate.cutlass()))
    log = _run(
        [str(nvcc), "-ptx", f"-arch={request.arch}", *language, *options, *search, "-o", output.name, request.name],
        _shown(request, options),
        folder,
    )
    return output.read_text(encoding="utf-8"), log


def _assemble(
    nvcc: Path, request: CompileRequest, options: tuple[str, ...], ptx: str, folder: Path
) -> tuple[bytes, str]:
    (folder / "lab.ptx").write_text(ptx, encoding="utf-8")
    output = folder / "lab.cubin"
    arguments = ["-cubin", f"-arch={request.arch}", *options, "-Xptxas", "-v", "-o", output.name, "lab.ptx"]
    log = _run([str(nvcc), *arguments], _shown(request, options), folder)
    return output.read_bytes(), log


def _run(arguments: list[str], command: str, folder: Path) -> str:
    status, log = run_tool(arguments, folder, name="nvcc", command=command, install=INSTALL)
    if status != 0:
        raise _refusal(log, command)
    return log


def _refusal(log: str, command: str) -> CompileError | MissingToolError:
    if _NO_HOST_COMPILER.search(log):
        return MissingToolError(f"nvcc found no host compiler (gcc): {first_error(log)}; install one: {INSTALL_HOST}")
    return CompileError(first_error(log), log, command)


def _shown(request: CompileRequest, options: tuple[str, ...]) -> str:
    """Return the two commands as a shell line that runs where nvcc is on PATH."""
    flags = _environment_flags(os.environ)
    stem, language = Path(request.name).stem, _language(request, "<CUTLASS headers>")
    front = shlex.join(
        ["nvcc", "-ptx", f"-arch={request.arch}", *language, *options, "-o", f"{stem}.ptx", request.name]
    )
    back = shlex.join(
        ["nvcc", "-cubin", f"-arch={request.arch}", *options, "-Xptxas", "-v", "-o", f"{stem}.cubin", f"{stem}.ptx"]
    )
    return " && ".join(f"{flags} {command}".strip() for command in (front, back))


def _language(request: CompileRequest, cutlass: str) -> tuple[str, ...]:
    """Return the options for CUDA C++, with those for CUTLASS if the source names one of its headers.

    Args:
        request: The source, and the files that it includes.
        cutlass: The folder of CUTLASS's headers, or a placeholder for it.
    """
    texts = "\n".join((request.source, *dict(request.included).values()))
    language = _LANGUAGE if request.name.endswith(".cu") else (*_LANGUAGE, "-x", "cu")
    if not headers.names_cutlass(texts) or locate.cutlass() is None:
        return language
    return (*language, *(option for option in _FOR_CUTLASS if option not in request.options), f"-I{cutlass}")


def _environment_flags(environment: Mapping[str, str]) -> str:
    return " ".join(f"{key}={shlex.quote(environment[key])}" for key in _FLAG_VARIABLES if environment.get(key))
