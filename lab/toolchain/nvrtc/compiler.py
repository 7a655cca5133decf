"""NVRTC: NVIDIA's runtime compiler. Needs no driver, no toolkit and no host compiler."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import CompileError, MissingToolError
from lab.toolchain import locate
from lab.toolchain.base import Build, CompileRequest, can_target, first_error, is_version
from lab.toolchain.cubin.resources import resources
from lab.toolchain.nvrtc import headers
from lab.toolchain.nvrtc.library import NvrtcLibrary, load

INSTALL = "python -m pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt"
FIRST_WITHOUT_SUFFIX = 13
"""CUDA 13 dropped the major version from its wheels' names."""


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """The `Toolchain` over one libnvrtc. Made by `find_nvrtcs`; picklable.

    A program is compiled for a real architecture, which yields the PTX and the cubin that NVRTC assembled
    from that PTX. The source is named `/kernel.cu`, since NVRTC puts the working directory before a relative
    name and the line table would then differ between machines.

    Attributes:
        library: The libnvrtc that is called.
        version: `13.5.37`.
        architectures: From nvrtcGetSupportedArchs.
        header_folder: CUDA's headers, or None where there are none: then only sources without includes compile.
        header_version: Their version.
    """

    library: Path
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
            MissingToolError: NVRTC cannot be loaded, or fails by itself.
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
        made = load(self.library).compile(
            source, f"/{request.name}", (*options, *(f"--include-path={root}" for root in search)), included
        )
        log = made.log.replace(f"/{request.name}", request.name)
        if not made.ok:
            raise CompileError(first_error(log) + self._missing_headers(log), log, command)
        if not made.cubin or not made.ptx:
            raise CompileError("NVRTC made no machine code: an option asks for something else", log, command)
        return Build(
            ptx=made.ptx,
            cubin=made.cubin,
            resources=resources(log, made.cubin),
            log=log,
            command=command,
            toolchain=self.name,
            version=self.version,
            arch=request.arch,
            seconds=time.perf_counter() - started,
        )

    def _embed(self, source: str) -> tuple[str, dict[str, str]]:
        return (source, {}) if self.header_folder is None else headers.embed(source, self.header_folder)

    def _missing_headers(self, log: str) -> str:
        """What to do about a header that cannot be opened where CUDA's are not there for this version."""
        if self.header_folder is not None or "could not open source file" not in log:
            return ""
        return f" (there are no CUDA headers for NVRTC {self.version} here: {install(self.version)})"


def find_nvrtcs(wanted: str = "") -> Iterator[Nvrtc]:
    """The NVRTCs here whose version begins with `wanted`, each version once, the one that `nvrtc` means first."""
    seen: set[str] = set()
    for found in locate.nvrtcs():
        if found.may_be(wanted):
            try:
                library = load(found.path)
            except MissingToolError:
                continue
            if is_version(library.version, wanted) and library.version not in seen:
                seen.add(library.version)
                yield _toolchain(library)


def find_nvrtc(wanted: str = "") -> Nvrtc | None:
    """The first of them, or None where there is none."""
    return next(find_nvrtcs(wanted), None)


def _toolchain(library: NvrtcLibrary) -> Nvrtc:
    folder = locate.headers(library.version, beside=library.path)
    return Nvrtc(
        library=library.path,
        version=library.version,
        architectures=tuple(f"sm_{number}" for number in library.architectures),
        header_folder=folder,
        header_version=locate.headers_version(folder) if folder else "none",
    )


def install(version: str = "") -> str:
    """The command that installs an NVRTC beside whatever is there, with the headers of its release.

    Args:
        version: As far as it matters, `12.9`; empty for the one that `lab` itself depends on.
    """
    if not version:
        return INSTALL
    major = int(version.split(".", maxsplit=1)[0])
    pin = f"=={version}" if version.count(".") > 1 else f"=={version}.*"
    release = ".".join(version.split(".")[:2])
    headers_pin = f"=={release}.*"  # the packages of one release differ in their last number
    if major >= FIRST_WITHOUT_SUFFIX:
        wheels = [f"nvidia-cuda-nvrtc{pin}", f"nvidia-cuda-runtime{headers_pin}", f"nvidia-cuda-crt{headers_pin}"]
    else:
        wheels = [f"nvidia-cuda-nvrtc-cu{major}{pin}", f"nvidia-cuda-runtime-cu{major}{headers_pin}"]
    return shlex.join(["python", "-m", "pip", "install", "--target", str(locate.compilers() / release), *wheels])
