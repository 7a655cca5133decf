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
from lab.toolchain.nvrtc.library import NvrtcLibrary, load
from lab.toolchain.options import NVRTC, accepted
from lab.toolchain.symbols import check_expressions, unresolved

INSTALL = "python -m pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt"
FIRST_WITHOUT_SUFFIX = 13
"""CUDA 13 dropped the major version from its wheels' names."""
FIRST_WITH_CACHE = (12, 9)
"""Since this version NVRTC has a cache of its own and `--no-cache`; 12.8 refuses the option."""

_FOR_CUTLASS = ("--device-as-default-execution-space", "--diag-suppress=20044")
"""CUTLASS has constexpr functions that name no execution space, and extern arrays that NVRTC says it makes static."""

_SPELLINGS = {
    "__asm__": "--define-macro=__asm__=asm",
    "__asm": "--define-macro=__asm=asm",
    "__volatile": "--define-macro=__volatile=volatile",
    "__int128": "--device-int128",
    "register": "--define-macro=register=",
}
"""Words of GNU C++ and of old C++ that nvcc takes, and the option with which NVRTC takes them."""
_SPELT = re.compile(rf"(?<!\w)(?:{'|'.join(_SPELLINGS)})(?!\w)")

_FIRST_WITH_CPP17 = 12
"""Major version from which on NVRTC compiles C++17 by default; 11.8 compiles C++03."""

_MOST_SHOWN = 3
"""Headers that are not here and that an error names."""


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
        cutlass_version: Version of them.
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
        """Compile.

        The build's `command` lists NVRTC's options. If the source has includes, `--include-path=<CUDA headers>` stands
        for the folder on this machine.

        Raises:
            UserError: An option is not accepted.
            CompileError: NVRTC refuses the source, or it includes a file that it may not.
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
        given = headers.embed(request.source, request.name, own, folders)
        if headers.includes_cutlass(given):
            options = (*options, *(option for option in _FOR_CUTLASS if option not in options))
            command = _shown(options, request)
        made = load(self.library).compile(
            given.source,
            f"/{request.name}",
            (*options, *(f"--include-path={root}" for root in given.search)),
            given.texts,
            request.kernels,
        )
        log = made.log.replace(f"/{request.name}", request.name)
        if not made.ok:
            if error := unresolved(request, log, command):
                raise error
            why = f"{_left_out(given.left_out, log)}{self._missing_headers(log, given)}{_host_code(log)}"
            raise CompileError(first_error(log) + why, log, command)
        if not made.cubin or not made.ptx:
            raise CompileError("NVRTC made no machine code; remove the option that requests other output", log, command)
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
            symbols=dict(made.symbols),
        )

    def _missing_headers(self, log: str, given: headers.Embedded) -> str:
        """Return how to install CUDA's headers, if a header cannot be opened and there are none for this version."""
        is_missing = given.left_out or "could not open source file" in log
        if self.header_folder is not None or not is_missing:
            return ""
        return f" (there are no CUDA headers for NVRTC {self.version} here: {install(self.version)})"


def _shown(options: Sequence[str], request: CompileRequest) -> str:
    """Return the command to show, with a stand-in for the folder of CUDA's headers if the source has includes."""
    asks = headers.includes_any("\n".join((request.source, *dict(request.included).values())))
    return " ".join(["nvrtc", *options, *(["--include-path='<CUDA headers>'"] if asks else []), request.name])


def _without_cache(version: str) -> tuple[str, ...]:
    """Return the option that makes this version compile anew every time.

    Where there is a driver, NVRTC answers from its cache what any process of the user compiled before, and leaves out
    what ptxas reported: spills and warnings. lab has a cache of its own, which keeps the log.
    """
    numbers = tuple(int(part) for part in version.split(".")[:2])
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
    """Return the options for words of GNU C++ that texts use. Headers of CUDA define none of them."""
    used = {word for text in texts for word in _SPELT.findall(text)}
    if "register" in used and not any("register" in used_names(text) for text in texts):  # in comments
        used.remove("register")
    return tuple(option for word, option in _SPELLINGS.items() if word in used)


def _left_out(missing: Mapping[str, headers.LeftOut], log: str) -> str:
    """Return which headers are not here, if there are any: an error may come from what they would have declared."""
    met = [one for one in missing.values() if one.told in log] or list(missing.values())  # -w hides all of them
    if not met:
        return ""
    shown = "; ".join(one.why for one in met[:_MOST_SHOWN])
    return f" ({shown}{f'; and {len(met) - _MOST_SHOWN} more' if len(met) > _MOST_SHOWN else ''})"


def _host_code(log: str) -> str:
    """Return what to do about host functions, if there are any."""
    if "host functions are not allowed" not in log:
        return ""
    return " (put host code between #ifndef __CUDACC_RTC__ and #endif, or use the toolchain nvcc)"


def find_nvrtcs(wanted: str = "") -> Iterator[Nvrtc]:
    """Yield the NVRTCs of this machine whose version begins with `wanted`, each version once, the default first."""
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
    """Return the default NVRTC whose version begins with `wanted`, or None."""
    return next(find_nvrtcs(wanted), None)


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
        version: Its version, as far as it matters: `12.9`. If empty, the one that `lab` depends on.
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
