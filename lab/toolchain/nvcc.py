"""nvcc, through PyCUDA's `pycuda.compiler` where that imports, by its command line where not.

One front end (CUDA C++ to PTX), then one assembler (`nvcc -cubin` on that PTX), rather than `nvcc -cubin
--keep`: the PTX that is kept is then, to the letter, what ptxas assembled. In between the line table is freed
of the temporary folder, so that the same request gives the same PTX and cubin everywhere; only symbols of
internal linkage, such as the functions of cuda_fp16.h, keep a hash of that folder in their names (which
-frandom-seed does not change). The front end takes over 90 % of the time either way, and ptxas's report is at
hand in both (PyCUDA's own cubin target loses it).
"""

from __future__ import annotations

import importlib
import os
import posixpath
import re
import shlex
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.base.errors import CompileError, MissingToolError
from lab.toolchain import locate
from lab.toolchain.base import Build, CompileRequest, can_target, first_error, is_version
from lab.toolchain.cubin.resources import resources
from lab.toolchain.nvrtc import headers

INSTALL = "python -m pip install nvidia-cuda-nvcc nvidia-cuda-cccl"
"""Under nvcc (not under NVRTC) cuda_fp16.h includes CCCL's `nv/target`."""
INSTALL_HOST = "sudo apt-get install g++   (or use the toolchain nvrtc, which needs no host compiler)"
TIMEOUT_S = 600.0

_FLAG_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")  # nvcc reads these by itself
_NO_HOST_COMPILER = re.compile(
    r"Failed to preprocess host compiler properties|Cannot find compiler '"
    r"|\b(gcc|g\+\+|c\+\+|clang|cl|cl\.exe)['\"]?: (not found|command not found|No such file or directory)"
)
_FILE = re.compile(r'^(\s*\.file\s+\d+\s+)"([^"\n]*)"[^\n]*$', re.MULTILINE)
_PYCUDA_SOURCE = "kernel.cu"  # the name that pycuda.compiler gives every source


@dataclass(frozen=True, slots=True)
class Nvcc:
    """The `Toolchain` over nvcc. Made by `find_nvcc`; picklable.

    Attributes:
        path: The nvcc that is run.
        version: `13.0.88`.
        architectures: From `--list-gpu-code`; empty where nvcc is too old to list them.
        through_pycuda: The front end is `pycuda.compiler.compile`.
    """

    path: Path
    version: str
    architectures: tuple[str, ...]
    through_pycuda: bool

    @property
    def name(self) -> str:
        """`pycuda-nvcc` or `nvcc`."""
        return "pycuda-nvcc" if self.through_pycuda else "nvcc"

    @property
    def identity(self) -> str:
        """The flags that the environment adds."""
        return _environment_flags(os.environ)

    def supports(self, arch: str) -> bool:
        """Whether this nvcc can target `arch`."""
        return can_target(arch, self.architectures)

    def compile(self, request: CompileRequest) -> Build:
        """Compile.

        Raises:
            CompileError: the source or an option is refused, or nvcc ran longer than `TIMEOUT_S`.
            MissingToolError: nvcc or its host compiler (gcc, cl) is not there.
        """
        started = time.perf_counter()
        options = ("-lineinfo", *request.options)
        command = _shown(request, options)
        with tempfile.TemporaryDirectory(prefix="lab-nvcc-") as name:
            folder = Path(name)
            front = _pycuda_ptx if self.through_pycuda else _nvcc_ptx
            raw, log = front(self.path, request, options, folder)
            ptx = relocate(raw, self._virtual(request, folder))
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
        )

    def _virtual(self, request: CompileRequest, folder: Path) -> Callable[[str], str]:
        """What the line table calls a file: the source and CUDA's headers get names that no machine owns."""
        compiled_as = _PYCUDA_SOURCE if self.through_pycuda else request.name

        def name_of(path: str) -> str:
            path = posixpath.normpath(path.replace("\\", "/"))
            if (header := _cuda_header(path)) is not None:
                return f"{headers.ROOT}/{header}"
            # PyCUDA makes a folder of its own, whose name it does not tell.
            ours = self.through_pycuda or Path(path).parent in (folder, folder.resolve(), Path())
            return f"/{request.name}" if ours and posixpath.basename(path) == compiled_as else path

        return name_of


def find_nvcc(wanted: str = "", *, through_pycuda: bool | None = None) -> Nvcc | None:
    """The nvcc on this machine, or None.

    Args:
        wanted: Its version, as far as it matters; the first one of any version where empty.
        through_pycuda: None takes PyCUDA where it imports; True demands it; False leaves it out.
    """
    with_pycuda = through_pycuda is not False and _pycuda() is not None
    if through_pycuda and not with_pycuda:
        return None
    for path in locate.nvccs():
        version = locate.tool_version(path)
        if version is not None and is_version(version, wanted):
            listed = locate.tool_output(path, "--list-gpu-code") or ""
            architectures = sorted(set(re.findall(r"\bsm_\d+\b", listed)), key=lambda arch: int(arch[3:]))
            return Nvcc(path, version, tuple(architectures), with_pycuda)
    return None


def _cuda_header(path: str) -> str | None:
    """The part of a path below the folder of CUDA's headers, or None where it is no header of CUDA's.

    The folder is told by what lies in it: nvcc is often a link or a wrapper far from its toolkit.
    """
    root, below = path.rpartition("/include/")[::2]
    return below if root and Path(root, "include", "cuda_runtime_api.h").is_file() else None


def relocate(ptx: str, name_of: Callable[[str], str]) -> str:
    """Rename the files of PTX's `.file` table.

    The optional time stamp and size go, too: they are the temporary file's.
    """
    return _FILE.sub(lambda match: f'{match[1]}"{name_of(match[2])}"', ptx)


def _nvcc_ptx(nvcc: Path, request: CompileRequest, options: tuple[str, ...], folder: Path) -> tuple[str, str]:
    (folder / request.name).write_text(request.source, encoding="utf-8")
    output = folder / "front.ptx"
    log = _run(
        [str(nvcc), "-ptx", f"-arch={request.arch}", *options, "-o", output.name, request.name],
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
    try:
        run = subprocess.run(
            arguments, cwd=folder, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
        )
    except OSError as error:
        raise MissingToolError(f"nvcc cannot be run ({error}); install it: {INSTALL}") from error
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"nvcc did not finish within {TIMEOUT_S:.0f} s", str(error), command) from error
    log = run.stdout + run.stderr
    if run.returncode != 0:
        raise _refusal(log, command)
    return log


def _pycuda_ptx(nvcc: Path, request: CompileRequest, options: tuple[str, ...], _folder: Path) -> tuple[str, str]:
    compiler = _pycuda()
    if compiler is None:
        raise MissingToolError("PyCUDA cannot be imported; install it: python -m pip install -e '.[gpu]'")
    command = _shown(request, options)
    with warnings.catch_warnings(record=True) as said:  # PyCUDA passes on nvcc's words as warnings
        warnings.simplefilter("always")
        try:
            ptx = compiler.compile(
                request.source,
                nvcc=str(nvcc),
                options=list(options),
                keep=False,
                no_extern_c=True,
                arch=request.arch,  # without it PyCUDA would ask the current context
                cache_dir=False,  # `lab` has its own cache, whose key knows more
                target="ptx",
            )
        except OSError as error:
            raise MissingToolError(f"nvcc cannot be run ({error}); install it: {INSTALL}") from error
        except importlib.import_module("pycuda.driver").CompileError as error:
            raise _refusal(f"{error.stdout or ''}{error.stderr or ''}", command) from error
    return ptx.decode(), "".join(f"{warning.message}\n" for warning in said)


def _pycuda() -> Any:  # noqa: ANN401 - PyCUDA carries no types
    """`pycuda.compiler`, or None where it is not installed or finds no driver. Creates no context."""
    try:
        # pycuda.compiler imports the driver only when it compiles: ask now.
        importlib.import_module("pycuda.driver")
        return importlib.import_module("pycuda.compiler")
    except (ImportError, OSError):
        return None


def _refusal(log: str, command: str) -> CompileError | MissingToolError:
    if _NO_HOST_COMPILER.search(log):
        return MissingToolError(
            f"nvcc found no host compiler (gcc, cl): {first_error(log)}; install one: {INSTALL_HOST}"
        )
    return CompileError(first_error(log), log, command)


def _shown(request: CompileRequest, options: tuple[str, ...]) -> str:
    """The two commands as one could repeat them where nvcc is on PATH."""
    flags = _environment_flags(os.environ)
    stem = Path(request.name).stem
    front = shlex.join(["nvcc", "-ptx", f"-arch={request.arch}", *options, "-o", f"{stem}.ptx", request.name])
    back = shlex.join(
        ["nvcc", "-cubin", f"-arch={request.arch}", *options, "-Xptxas", "-v", "-o", f"{stem}.cubin", f"{stem}.ptx"]
    )
    return " && ".join(f"{flags} {part}".strip() for part in (front, back))


def _environment_flags(environment: Mapping[str, str]) -> str:
    return " ".join(f"{key}={shlex.quote(environment[key])}" for key in _FLAG_VARIABLES if environment.get(key))
