"""NVRTC: NVIDIA's runtime compiler. Needs no driver, no toolkit and no host compiler."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import CompileError, MissingToolError
from lab.toolchain import headers, locate
from lab.toolchain.base import Build, CompileRequest, can_target, first_error
from lab.toolchain.resources import resources

INSTALL = "python -m pip install nvidia-cuda-nvrtc cuda-bindings"


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """The `Toolchain` over `cuda.bindings.nvrtc`. Made by `find_nvrtc`; picklable.

    A program is compiled for a real architecture, which yields the PTX and the cubin that NVRTC assembled
    from that PTX. The source is named `/kernel.cu`, since NVRTC puts the working directory before a relative
    name and the line table would then differ between machines.

    Attributes:
        version: `13.5.37`.
        architectures: From nvrtcGetSupportedArchs.
        header_folder: CUDA's headers, or None where there are none: then only sources without includes compile.
        header_version: Their version.
    """

    version: str
    architectures: tuple[str, ...]
    header_folder: Path | None = None
    header_version: str = "none"

    @property
    def name(self) -> str:
        """`nvrtc`."""
        return "nvrtc"

    @property
    def identity(self) -> str:
        """The headers' version."""
        return f"headers {self.header_version}"

    def supports(self, arch: str) -> bool:
        """Whether this NVRTC can target `arch`."""
        return can_target(arch, self.architectures)

    def compile(self, request: CompileRequest) -> Build:
        """Compile.

        The build's `command` lists NVRTC's options, and `--include-path=<CUDA headers>` in place of the
        folder on this machine, where the source includes any.

        Raises:
            CompileError: the source or an option is refused.
            MissingToolError: NVRTC cannot be loaded.
        """
        started = time.perf_counter()
        source, included = self._embed(request.source)
        options = (
            f"--gpu-architecture={request.arch}",
            "--generate-line-info",
            "--ptxas-options=-v",
            *request.options,
        )
        includes = headers.includes_any(source)
        shown = [*options, *(["--include-path='<CUDA headers>'"] if includes else []), request.name]
        command = " ".join(["nvrtc", *shown])
        # For what `embed` leaves to the disk.
        search = headers.roots(self.header_folder) if self.header_folder and includes else ()
        ok, ptx, cubin, log = _compile(
            source, f"/{request.name}", (*options, *(f"--include-path={root}" for root in search)), included
        )
        log = log.replace(f"/{request.name}", request.name)
        if not ok:
            raise CompileError(first_error(log), log, command)
        if not cubin or not ptx:
            raise CompileError("NVRTC made no machine code: an option asks for something else", log, command)
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

    def _embed(self, source: str) -> tuple[str, dict[str, str]]:
        return (source, {}) if self.header_folder is None else headers.embed(source, self.header_folder)


def find_nvrtc() -> Nvrtc | None:
    """The NVRTC on this machine, or None where it cannot be loaded."""
    try:
        api = _api()
        numbers = _value(api.nvrtcGetSupportedArchs())
        _, ptx, _, _ = _compile("", "version.cu", (f"--gpu-architecture=compute_{numbers[-1]}",), {})
        # nvrtcVersion knows major and minor alone; the banner of any PTX has the release in full.
        match = re.search(r"\bV(\d+(?:\.\d+)+)", ptx)
        version = match[1] if match else ".".join(map(str, api.nvrtcVersion()[1:]))
    except MissingToolError:
        return None
    folder = locate.headers()
    return Nvrtc(
        version=version,
        architectures=tuple(f"sm_{number}" for number in sorted(numbers)),
        header_folder=folder,
        header_version=locate.headers_version(folder) if folder else "none",
    )


def _compile(source: str, name: str, options: Sequence[str], included: dict[str, str]) -> tuple[bool, str, bytes, str]:
    """One NVRTC program: whether it compiled, PTX, cubin (empty for a virtual architecture), log."""
    api = _api()
    program = _value(
        api.nvrtcCreateProgram(
            source.encode(),
            name.encode(),
            len(included),
            [text.encode() for text in included.values()],
            [name.encode() for name in included],
        )
    )
    try:
        result = api.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])[0]
        log = _text(api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog, program)
        if int(result) != 0:
            return False, "", b"", log or _text_of(api, result)
        ptx = _text(api.nvrtcGetPTXSize, api.nvrtcGetPTX, program)
        return True, ptx, _bytes(api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN, program), log
    finally:
        api.nvrtcDestroyProgram(program)


def _api() -> Any:  # noqa: ANN401 - the bindings are compiled and carry no types
    try:
        from cuda.bindings import nvrtc  # noqa: PLC0415 - loading it takes 50 ms, and not every command compiles

        nvrtc.nvrtcVersion()  # the bindings load the library at the first call
    except Exception as error:  # ImportError, RuntimeError, or types of the bindings' own
        raise MissingToolError(f"NVRTC cannot be loaded ({_first_line(error)}); install it: {INSTALL}") from error
    return nvrtc


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _value(answer: tuple[Any, ...]) -> Any:  # noqa: ANN401 - whatever the binding returns
    result, value = answer
    if int(result) != 0:
        raise MissingToolError(f"NVRTC answers {result!r}; install it again: {INSTALL}")
    return value


def _bytes(size_of: Any, get: Any, program: Any) -> bytes:  # noqa: ANN401 - untyped bindings
    result, size = size_of(program)
    if int(result) != 0 or size <= 1:  # a text of size 1 is its closing NUL
        return b""
    buffer = bytes(size)  # the bindings fill the bytes object that they are given
    get(program, buffer)
    return buffer


def _text(size_of: Any, get: Any, program: Any) -> str:  # noqa: ANN401 - untyped bindings
    return _bytes(size_of, get, program).rstrip(b"\0").decode(errors="replace")


def _text_of(api: Any, result: Any) -> str:  # noqa: ANN401 - untyped bindings
    return f"error: {_value(api.nvrtcGetErrorString(result)).decode()}"
