"""Find NVIDIA's tools in wheels, CUDA_HOME and CUDA_PATH, PATH, and /usr/local/cuda."""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from cuda import pathfinder

from lab.base import workers
from lab.toolchain.base import is_version

_TIMEOUT_S = 60.0
_DEFAULT_TOOLKIT = Path("/usr/local/cuda")  # where NVIDIA's installers put it
_DEBIAN = Path("/usr/lib/*-linux-gnu")  # where Debian's package nvidia-cuda-toolkit puts libraries


def toolkits(environment: Mapping[str, str] | None = None, default: Path = _DEFAULT_TOOLKIT) -> tuple[Path, ...]:
    """Return the toolkit folders that exist, in the order in which they are tried."""
    environment = os.environ if environment is None else environment
    from_environment = [Path(environment[key]) for key in ("CUDA_HOME", "CUDA_PATH") if environment.get(key)]
    return tuple(dict.fromkeys(folder for folder in [*from_environment, default] if folder.is_dir()))


@dataclass(frozen=True, slots=True)
class NvrtcFile:
    """A libnvrtc that was found but not loaded.

    Attributes:
        path: The library.
        release: Its release, `12.9`, from the name of the builtins library beside it; empty if there is none.
    """

    path: Path
    release: str

    def may_be(self, prefix: str) -> bool:
        """Return whether its version may begin with `prefix`, judging by file names."""
        release_numbers, prefix_numbers = self.release.split("."), prefix.split(".")[:2]
        return not self.release or not prefix or release_numbers[: len(prefix_numbers)] == prefix_numbers


def compilers() -> Path:
    """Return the folder of further compilers: `$LAB_COMPILERS`, or one in the user's data directory.

    Each folder in it is one `pip install --target`. In one environment, wheels of two releases of one CUDA major
    version would overwrite each other, and so would the headers of CUDA 11 and 12.
    """
    configured = os.environ.get("LAB_COMPILERS")
    return Path(configured) if configured else Path(platformdirs.user_data_dir("lab", appauthor=False)) / "compilers"


def nvrtcs() -> tuple[NvrtcFile, ...]:
    """Return every libnvrtc: those of this environment's wheels, of `compilers`, then of toolkits; the newest first."""
    beside = sorted(compilers().iterdir()) if compilers().is_dir() else []
    by_versions = sorted(_DEFAULT_TOOLKIT.parent.glob(f"{_DEFAULT_TOOLKIT.name}-*"))
    places = [
        *([Path(entry) / "nvidia/*/lib"] for entry in sys.path if entry),
        *([folder / "nvidia/*/lib"] for folder in beside),
        *([folder / "lib64", folder / "targets/*/lib"] for folder in (*toolkits(), *by_versions)),
        [Path(sys.prefix) / "lib"],  # conda
        [_DEBIAN],
    ]
    by_path: dict[Path, NvrtcFile] = {}
    for place in places:
        for library in _newest_first(place):
            by_path.setdefault(library.path.resolve(), library)
    return tuple(by_path.values())


def nvjitlinks() -> tuple[Path, ...]:
    """Return every libnvJitLink: those of this environment's wheels, of `compilers`, then of toolkits."""
    beside = sorted(compilers().iterdir(), reverse=True) if compilers().is_dir() else []
    by_versions = sorted(_DEFAULT_TOOLKIT.parent.glob(f"{_DEFAULT_TOOLKIT.name}-*"), reverse=True)
    places = [
        *(Path(entry) / "nvidia/*/lib" for entry in sys.path if entry),
        *(folder / "nvidia/*/lib" for folder in beside),
        *(place for folder in (*toolkits(), *by_versions) for place in (folder / "lib64", folder / "targets/*/lib")),
        Path(sys.prefix) / "lib",  # conda
        _DEBIAN,
    ]
    by_path: dict[Path, Path] = {}
    for place in places:
        for path in sorted(glob.glob(str(place / "libnvJitLink.so.*")), reverse=True):  # noqa: PTH207 - the folder itself is a pattern
            by_path.setdefault(Path(path).resolve(), Path(path))
    return tuple(by_path.values())


def _newest_first(patterns: Iterable[Path]) -> list[NvrtcFile]:
    libraries = []
    for pattern in patterns:
        for path in glob.glob(str(pattern / "libnvrtc.so.*")):  # noqa: PTH207 - the folder itself is a pattern
            major = path.rpartition(".so.")[2].split(".")[0]
            minors = [
                int(builtins.name.rpartition(".")[2])
                for builtins in Path(path).parent.glob(f"libnvrtc-builtins.so.{major}.*")
                if builtins.name.count(".") == 3  # noqa: PLR2004 - a toolkit's link, whose target has the full version in its name
            ]
            libraries.append(NvrtcFile(Path(path), f"{major}.{max(minors)}" if minors else ""))
    return sorted(libraries, key=lambda file: [int(text) for text in file.release.split(".") if text], reverse=True)


def nvccs(environment: Mapping[str, str] | None = None, default: Path = _DEFAULT_TOOLKIT) -> tuple[Path, ...]:
    """Return every nvcc: of CUDA_HOME and CUDA_PATH, PATH, /usr/local/cuda and its versions, then the wheel."""
    environment = os.environ if environment is None else environment
    from_environment = toolkits({key: environment.get(key, "") for key in ("CUDA_HOME", "CUDA_PATH")}, Path(os.devnull))
    on_path = shutil.which("nvcc", path=environment.get("PATH", ""))
    candidates = [
        *_in_bin("nvcc", from_environment),
        *([Path(on_path)] if on_path else []),
        *_in_bin("nvcc", [default, *sorted(default.parent.glob(f"{default.name}-*"))]),
        *_in_wheels("nvcc"),
    ]
    return tuple(dict.fromkeys(candidates))


def nvcc() -> Path | None:
    """Return the default nvcc, which the toolchain `nvcc` without a version uses."""
    return next(iter(nvccs()), None)


def tool(name: str) -> Path | None:
    """Find a command-line tool such as nvdisasm, in NVIDIA's wheels, in a toolkit, then on PATH.

    The wheel comes first because it is the newest on most machines, and a disassembler reads the cubins of its own and
    of older releases.
    """
    return next(iter(tools(name)), None)


def tools(name: str) -> tuple[Path, ...]:
    """Return every such tool, the one that `tool` means first and the one in the wheel of Triton last."""
    on_path = shutil.which(name)
    candidates = [
        *_in_wheels(name),
        *_in_bin(name, toolkits()),
        *([Path(on_path)] if on_path else []),
        *_in_triton(name),
    ]
    return tuple(dict.fromkeys(candidates))


def has_driver(library: str = "libcuda.so.1") -> bool:
    """Return whether the CUDA driver's library can be loaded. Nothing in it is called."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def headers(version: str = "", beside: Path | None = None) -> Path | None:
    """Return the folder of CUDA's headers, such as cuda_fp16.h: of the wheel nvidia-cuda-runtime, then of a toolkit.

    A folder without `crt` (the wheel nvidia-cuda-crt, which mma.h and others include) comes last.

    Args:
        version: The compiler's version; it cannot use headers of another major version.
        beside: The compiler's library. Headers that were installed with it come first, and headers of its release
            before others of its major version.
    """
    near = []
    if beside is not None:  # a toolkit and a wheel of CUDA 13; a wheel of CUDA 11 or 12
        near = [beside.parents[1] / "include", beside.parents[2] / "cuda_runtime" / "include"]
    wheel = pathfinder.find_nvidia_header_directory("cudart")
    candidates = [
        *near,
        *([Path(wheel)] if wheel else []),
        *(folder / "include" for folder in toolkits()),
        *sorted(compilers().glob("*/nvidia/*/include")),
    ]
    major, release = version.split(".", maxsplit=1)[0], ".".join(version.split(".")[:2])
    versions = {f: headers_version(f) for f in candidates if (f / "cuda_runtime_api.h").is_file()}
    usable = [folder for folder, header_version in versions.items() if is_version(header_version, major)]
    return min(usable, key=lambda f: (not (f / "crt").is_dir(), versions[f] != release), default=None)


def headers_version(folder: Path) -> str:
    """Return the version of a folder of CUDA headers, `13.5`, from CUDART_VERSION (1000 major + 10 minor)."""
    text = (folder / "cuda_runtime_api.h").read_text(errors="replace")
    match = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text)
    return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}" if match else "unknown"


def cutlass() -> Path | None:
    """Return the folder of CUTLASS's headers, with `cute` and `cutlass` in it, of the wheel nvidia-cutlass."""
    spec = importlib.util.find_spec("cutlass_library")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place) / "source" / "include"
        if (folder / "cutlass" / "version.h").is_file():
            return folder
    return None


def cutlass_version(folder: Path) -> str:
    """Return the version of a folder of CUTLASS's headers, `4.2.0`, from cutlass/version.h."""
    text = (folder / "cutlass" / "version.h").read_text(errors="replace")
    numbers = dict(re.findall(r"#define\s+CUTLASS_(MAJOR|MINOR|PATCH)\s+(\d+)", text))
    return ".".join(numbers.get(name, "?") for name in ("MAJOR", "MINOR", "PATCH"))


def tool_version(path: Path) -> str | None:
    """Return the version of an NVIDIA command-line tool, `13.5.37`; None if it does not run or report it."""
    text = tool_output(path, "--version")
    # compilers print V13.5.37, profilers Version 2025.3.1.0
    match = re.search(r"\bV(?:ersion )?(\d+(?:\.\d+)+)", text or "")
    return match[1] if match else None


def tool_output(path: Path, *arguments: str) -> str | None:
    """Return the standard output of a short command, or None if it fails."""
    try:
        run = subprocess.run(
            [path, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
            env=workers.environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout if run.returncode == 0 else None


def _in_bin(name: str, folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        path = shutil.which(name, path=str(folder / "bin"))
        if path:
            yield Path(path)


def _in_wheels(name: str) -> Iterator[Path]:
    is_supported = name in pathfinder.SUPPORTED_BINARY_UTILITIES
    if is_supported and (path := pathfinder.find_nvidia_binary_utility(name)):
        yield Path(path)


def _in_triton(name: str) -> Iterator[Path]:
    spec = importlib.util.find_spec("triton")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        path = Path(folder, "backends", "nvidia", "bin", name)
        if path.is_file():
            yield path
