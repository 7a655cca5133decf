"""NVRTC, NVIDIA's runtime compiler. It needs no driver, no toolkit and no host compiler."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import CompileError, MissingToolError
from lab.isa.cuda.names import used_names
from lab.toolchain import locate
from lab.toolchain.base import Build, CompileRequest, can_target, first_error, is_version
from lab.toolchain.cubin.resources import resources
from lab.toolchain.includes import check
from lab.toolchain.nvrtc import headers
from lab.toolchain.nvrtc.libnvrtc import NvrtcLibrary, load
from lab.toolchain.options import NVRTC, accepted
from lab.toolchain.symbols import check_expressions, unresolved

INSTALL = "python -m pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt"
FIRST_WITHOUT_SUFFIX = 13
"""CUDA 13 dropped the major version from its wheels' names."""
FIRST_WITH_CACHE = (12, 9)
"""The first version in which NVRTC has its own cache and `--no-cache`; 12.8 rejects the option."""

_FOR_CUTLASS = ("--device-as-default-execution-space", "--diag-suppress=20044")
"""Options for CUTLASS's functions without an execution space and for NVRTC's warning on extern arrays."""

_SPELLINGS = {
    "__asm__": "--define-macro=__asm__=asm",
    "__asm": "--define-macro=__asm=asm",
    "__volatile": "--define-macro=__volatile=volatile",
    "__int128": "--device-int128",
    "register": "--define-macro=register=",
}
"""GNU C++ keywords that nvcc accepts, and the options with which NVRTC accepts them."""
_SPELT = re.compile(rf"(?<!\w)(?:{'|'.join(_SPELLINGS)})(?!\w)")

_FIRST_WITH_CPP17 = 12
"""Major version from which on NVRTC compiles C++17 by default; 11.8 compiles C++03."""

_MOST_SHOWN = 3
"""Maximum number of missing headers that an error names."""


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """A toolchain that calls one libnvrtc, made by `find_nvrtcs`. Picklable.

    It compiles for a real architecture, which yields the PTX and the cubin that NVRTC assembled from that PTX. The
    source is named `/kernel.cu`: NVRTC prepends the working directory to a relative name, and the line table would then
    differ between machines.

    Attributes:
        library: The libnvrtc.
        version: Its version, such as `13.5.37`.
        architectures: Its targets, from nvrtcGetSupportedArchs.
        header_folder: Folder of CUDA's headers, or None; without them, only sources without includes compile.
        header_version: Version of the headers.
        cutlass_folder: Folder of CUTLASS's headers, or None.
        cutlass_version: Version of CUTLASS's headers.
    """

    library: Path
    version: str
    architectures: tuple[str, ...]
    header_folder: Path | None = None
    header_version: str = "none"
    cutlass_folder: Path | None = None
    cutlass_version: str = ""

    @property
    def name(self) -> str:
        """`nvrtc`."""
        return "nvrtc"

    @property
    def identity(self) -> str:
        """The headers' versions, and the dialect where it is not the version's own."""
        cutlass = f", CUTLASS {self.cutlass_version}" if self.cutlass_version else ""
        return "".join([f"headers {self.header_version}", cutlass, *_dialect(self.version, ())])

    def supports(self, arch: str) -> bool:
        """Return whether this NVRTC can target `arch`."""
        return can_target(arch, self.architectures, self.version)

    def compile(self, request: CompileRequest) -> Build:
        """Compile a request.

        The build's `command` lists NVRTC's options. If the source has includes, `--include-path=<CUDA headers>` stands
        for the folder on this machine.

        Raises:
            UserError: An option is not accepted.
            CompileError: NVRTC rejects the source, or it includes a file that is not allowed.
            MissingToolError: NVRTC cannot be loaded, or has an internal failure.
        """
        started = time.perf_counter()
        options = (
            f"--gpu-architecture={request.arch}",
            "--generate-line-info",
            "--ptxas-options=-v",
            *_without_cache(self.version),
            *_dialect(self.version, request.options),
            *_spellings((request.source, *dict(request.included).values())),
            *accepted(request.options, NVRTC),
        )
        own = dict(request.included)
        command = _shown(options, request)
        check(request.source, request.name, own, command)
        check_expressions(request, command)
        folders = headers.Headers(self.header_folder, self.cutlass_folder)
        embedded = headers.embed(request.source, request.name, own, folders)
        if headers.includes_cutlass(embedded):
            options = (*options, *(option for option in _FOR_CUTLASS if option not in options))
            command = _shown(options, request)
        output = load(self.library).compile(
            embedded.source,
            f"/{request.name}",
            (*options, *(f"--include-path={root}" for root in embedded.search)),
            embedded.texts,
            request.kernels,
        )
        log = output.log.replace(f"/{request.name}", request.name)
        if not output.ok:
            if error := unresolved(request, log, command):
                raise error
            remarks = f"{_left_out(embedded.left_out, log)}{self._missing_headers(log, embedded)}{_host_code(log)}"
            raise CompileError(first_error(log) + remarks, log, command)
        if not output.cubin or not output.ptx:
            raise CompileError("NVRTC made no machine code; remove the option that requests other output", log, command)
        return Build(
            ptx=output.ptx,
            cubin=output.cubin,
            resources=resources(log, output.cubin),
            log=log,
            command=command,
            toolchain=self.name,
            version=self.version,
            arch=request.arch,
            seconds=time.perf_counter() - started,
            symbols=dict(output.symbols),
        )

    def _missing_headers(self, log: str, embedded: headers.Embedded) -> str:
        """Return advice on installing CUDA's headers if a header cannot be opened and this version has none."""
        is_missing = embedded.left_out or "could not open source file" in log
        if self.header_folder is not None or not is_missing:
            return ""
        return f" (there are no CUDA headers for NVRTC {self.version} here: {install(self.version)})"


def _shown(options: Sequence[str], request: CompileRequest) -> str:
    """Return the command to show, with a placeholder for CUDA's header folder if the source has includes."""
    asks = headers.includes_any("\n".join((request.source, *dict(request.included).values())))
    return " ".join(["nvrtc", *options, *(["--include-path='<CUDA headers>'"] if asks else []), request.name])


def _without_cache(version: str) -> tuple[str, ...]:
    """Return the option that disables NVRTC's own cache, if this version has one.

    With a driver, NVRTC's cache returns what any process of the user compiled before, but without ptxas's report of
    spills and warnings. lab's own cache keeps the log.
    """
    numbers = tuple(int(number) for number in version.split(".")[:2])
    return ("--no-cache",) if numbers >= FIRST_WITH_CACHE else ()


def _dialect(version: str, options: Sequence[str]) -> tuple[str, ...]:
    """Return the option for C++17, which nvcc and newer NVRTCs compile by default, where this version does not.

    Args:
        version: The version.
        options: The user's, which may name a dialect.
    """
    named = any(re.match(r"--?std\b", option) for option in options)
    return ("--std=c++17",) if int(version.split(".", maxsplit=1)[0]) < _FIRST_WITH_CPP17 and not named else ()


def _spellings(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the options for GNU C++ keywords in the texts; CUDA's headers define none of them."""
    used = {word for text in texts for word in _SPELT.findall(text)}
    if "register" in used and not any("register" in used_names(text) for text in texts):  # in comments
        used.remove("register")
    return tuple(option for word, option in _SPELLINGS.items() if word in used)


def _left_out(missing: Mapping[str, headers.LeftOut], log: str) -> str:
    """Return a remark on missing headers, whose declarations an error may be due to; empty if none is missing."""
    reported = [file for file in missing.values() if file.told in log] or list(missing.values())  # -w hides all of them
    if not reported:
        return ""
    listed = "; ".join(file.why for file in reported[:_MOST_SHOWN])
    return f" ({listed}{f'; and {len(reported) - _MOST_SHOWN} more' if len(reported) > _MOST_SHOWN else ''})"


def _host_code(log: str) -> str:
    """Return advice on host functions if the log complains about any."""
    if "host functions are not allowed" not in log:
        return ""
    return " (put host code between #ifndef __CUDACC_RTC__ and #endif, or use the toolchain nvcc)"


def find_nvrtcs(prefix: str = "") -> Iterator[Nvrtc]:
    """Yield this machine's NVRTCs whose version begins with `prefix`, each version once, the default first."""
    yielded: set[str] = set()
    for nvrtc_file in locate.nvrtcs():
        if nvrtc_file.may_be(prefix):
            try:
                library = load(nvrtc_file.path)
            except MissingToolError:
                continue
            if is_version(library.version, prefix) and library.version not in yielded:
                yielded.add(library.version)
                yield _toolchain(library)


def find_nvrtc(prefix: str = "") -> Nvrtc | None:
    """Return the default NVRTC whose version begins with `prefix`, or None."""
    return next(find_nvrtcs(prefix), None)


def _toolchain(library: NvrtcLibrary) -> Nvrtc:
    folder, cutlass = locate.headers(library.version, beside=library.path), locate.cutlass()
    return Nvrtc(
        library=library.path,
        version=library.version,
        architectures=tuple(f"sm_{number}" for number in library.architectures),
        header_folder=folder,
        header_version=locate.headers_version(folder) if folder else "none",
        cutlass_folder=cutlass,
        cutlass_version=locate.cutlass_version(cutlass) if cutlass else "",
    )


def install(version: str = "") -> str:
    """Return the command that installs an NVRTC beside all others, with the headers of its release.

    Args:
        version: Its version or the first numbers of it: `12.9`. If empty, the one that `lab` depends on.
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
