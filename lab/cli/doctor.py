"""What this machine has for `lab`, what each missing thing would add, and the command that installs it.

Nothing here imports a GPU library: packages are told by their metadata, tools by their `--version`, the
driver and the GPUs by calls of libcuda that create no context.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.toolchain import locate
from lab.toolchain.cache import default_folder
from lab.toolchain.nvcc import INSTALL as INSTALL_NVCC
from lab.toolchain.nvcc import INSTALL_HOST
from lab.toolchain.nvrtc.compiler import INSTALL as INSTALL_NVRTC
from lab.toolchain.nvrtc.compiler import find_nvrtcs

_INSTALL_EXTRA = "python -m pip install -e '.[gpu]'"
_INSTALL_CUBLAS = "python -m pip install nvidia-cublas"
_INSTALL_DRIVER = "sudo ubuntu-drivers install   (Debian: sudo apt-get install nvidia-driver)"
_ATTRIBUTE_CC_MAJOR, _ATTRIBUTE_CC_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*, cuda.h


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        name: Such as `nvdisasm`.
        found: It is here and usable.
        detail: Version and place; where it is missing, why.
        adds: What `lab` can do with it.
        install: The command that installs it; empty where it is found.
    """

    name: str
    found: bool
    detail: str
    adds: str
    install: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the driver describes it: `NVIDIA H200`, `sm_90`."""

    name: str
    arch: str


@dataclass(frozen=True, slots=True)
class Driver:
    """The NVIDIA driver.

    Attributes:
        cuda: Highest CUDA version that it runs, `13.0`.
        gpus: In the driver's order.
    """

    cuda: str
    gpus: tuple[Gpu, ...]


def package_version(name: str) -> str | None:
    """Version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def load_driver() -> Any:  # noqa: ANN401 - ctypes types no foreign function
    """Load libcuda.

    Raises:
        OSError: there is no NVIDIA driver.
    """
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def read_text(path: Path) -> str | None:
    """A file's text, or None where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Machine:
    """How the machine is asked; tests put other answers here.

    Attributes:
        package: Distribution name to version, or None.
        which: Command name to path, or None.
        tool_version: Path of an NVIDIA tool to its version, or None where it does not run.
        load_driver: libcuda, or OSError.
        read: File to text, or None.
        toolkits: CUDA toolkits' folders.
        nvcc: Path of nvcc, or None.
        tool: Name of one of NVIDIA's tools to its path, or None.
        headers: Folder of CUDA's headers, or None.
        nvrtcs: Every NVRTC toolchain, the one that is used first.
        cache: The cache's folder.
    """

    package: Callable[[str], str | None] = package_version
    which: Callable[[str], str | None] = shutil.which
    tool_version: Callable[[Path], str | None] = locate.tool_version
    load_driver: Callable[[], Any] = load_driver
    read: Callable[[Path], str | None] = read_text
    toolkits: Callable[[], tuple[Path, ...]] = locate.toolkits
    nvcc: Callable[[], Path | None] = locate.nvcc
    tool: Callable[[str], Path | None] = locate.tool
    headers: Callable[[], Path | None] = locate.headers
    nvrtcs: Callable[[], Iterable[Any]] = find_nvrtcs
    cache: Callable[[], Path] = default_folder


def examine(machine: Machine | None = None) -> tuple[Finding, ...]:
    """Look for everything that `lab` can use.

    Args:
        machine: How to ask; this machine when left out.

    Returns:
        One finding a thing, in the order of a page. Never raises: what cannot be examined is not found, with
        the reason as its detail.
    """
    machine = machine or Machine()
    checks: tuple[tuple[str, Callable[[Machine], Finding]], ...] = (
        ("Python", _python),
        ("NVRTC", _nvrtc),
        ("CUDA headers", _headers),
        ("nvdisasm", _nvdisasm),
        ("nvcc", _nvcc),
        ("host compiler", _host_compiler),
        ("PyCUDA", _pycuda),
        ("NVML", _nvml),
        ("driver", _driver),
        ("GPU", _gpus),
        ("cuBLAS", _cublas),
        ("ncu", _ncu),
        ("compute-sanitizer", _sanitizer),
        ("cache", _cache),
    )
    return tuple(_guarded(name, check, machine) for name, check in checks)


def _guarded(name: str, check: Callable[[Machine], Finding], machine: Machine) -> Finding:
    try:
        return check(machine)
    except Exception as error:  # noqa: BLE001 - a broken tool is a finding, whatever it raises
        reason = f"could not be examined: {type(error).__name__}: {error}".splitlines()[0]
        return Finding(name, found=False, detail=reason, adds="", install="")


def _finding(name: str, detail: str | None, *, adds: str, install: str, missing: str = "not found") -> Finding:
    found = detail is not None
    return Finding(name, found, detail if detail is not None else missing, adds, "" if found else install)


def _python(_: Machine) -> Finding:
    detail = f"{platform.python_version()} on {platform.platform(terse=True)}"
    return _finding("Python", detail, adds="everything", install="")


def _nvrtc(machine: Machine) -> Finding:
    found, detail = list(machine.nvrtcs()), None
    if found:
        detail = f"{found[0].version}, {found[0].architectures[0]} to {found[0].architectures[-1]}"
        others = dict.fromkeys(one.version for one in found[1:] if one.version != found[0].version)
        detail += f"; also {', '.join(others)}" if others else ""
    return _finding("NVRTC", detail, adds="compiling with no toolkit and no C compiler", install=INSTALL_NVRTC)


def _headers(machine: Machine) -> Finding:
    folder = machine.headers()
    detail = None
    if folder is not None:
        cccl = "" if (folder / "cccl").is_dir() or (folder / "cuda" / "std").is_dir() else "; without CCCL"
        detail = f"{locate.headers_version(folder)} in {folder}{cccl}"
    return _finding(
        "CUDA headers",
        detail,
        adds="kernels that include cuda_fp16.h, mma.h and the like, through NVRTC",
        install="python -m pip install nvidia-cuda-runtime",
    )


def _nvdisasm(machine: Machine) -> Finding:
    return _tool(
        "nvdisasm",
        machine.tool("nvdisasm"),
        machine,
        adds="machine code (SASS) and everything counted in it",
        install="python -m pip install nvidia-cuda-nvdisasm",
    )


def _nvcc(machine: Machine) -> Finding:
    adds = "the toolchain nvcc, to compare compilers and versions"
    return _tool("nvcc", machine.nvcc(), machine, adds=adds, install=INSTALL_NVCC)


def _host_compiler(machine: Machine) -> Finding:
    names = ("cl",) if sys.platform == "win32" else ("gcc", "clang")
    found = next((path for path in map(machine.which, names) if path), None)
    install = "winget install Microsoft.VisualStudio.2022.BuildTools" if sys.platform == "win32" else INSTALL_HOST
    return _finding("host compiler", found, adds="nvcc, which cannot work without one", install=install)


def _pycuda(machine: Machine) -> Finding:
    version = machine.package("pycuda")
    adds = "running, verifying and timing kernels on a GPU, and the toolchain pycuda-nvcc"
    if version is not None and _driver_of(machine) is None:
        return Finding(
            "PyCUDA", found=False, detail=f"{version}, which needs a driver", adds=adds, install=_INSTALL_DRIVER
        )
    return _finding("PyCUDA", version, adds=adds, install=_INSTALL_EXTRA)


def _nvml(machine: Machine) -> Finding:
    adds = "clocks, power, temperature and throttle reasons beside every measurement"
    return _finding("NVML", machine.package("nvidia-ml-py"), adds=adds, install=_INSTALL_EXTRA)


def _driver(machine: Machine) -> Finding:
    driver = _driver_of(machine)
    detail = None
    if driver is not None:
        text = machine.read(Path("/proc/driver/nvidia/version")) or ""
        release = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", text)
        detail = f"{release[0]}, CUDA {driver.cuda}" if release else f"CUDA {driver.cuda}"
    return _finding("driver", detail, adds="the use of a GPU", install=_INSTALL_DRIVER)


def _gpus(machine: Machine) -> Finding:
    driver = _driver_of(machine)
    gpus = driver.gpus if driver else ()
    return _finding(
        "GPU",
        ", ".join(f"{gpu.name} ({gpu.arch})" for gpu in gpus) or None,
        adds="measured times; without one, kernels are compiled, inspected, executed on the CPU and predicted",
        install=_INSTALL_DRIVER if driver is None else "",
        missing="the driver sees none" if driver else "no driver",
    )


def _cublas(machine: Machine) -> Finding:
    found = [
        f"{name} {version}"
        for name in ("torch", "cupy-cuda13x", "cupy-cuda12x", "cupy", "nvidia-cublas", "nvidia-cublas-cu12")
        if (version := machine.package(name)) is not None and not version.endswith("+cpu")
    ]
    libraries = [
        f"libcublas in {folder}"
        for folder in machine.toolkits()
        if any(next(folder.glob(f"{place}/*cublas*"), None) for place in ("lib64", "lib", "bin"))
    ]
    return _finding(
        "cuBLAS",
        ", ".join(found + libraries) or None,
        adds="the baseline cublas, timed beside every variant",
        install=_INSTALL_CUBLAS,
    )


def _ncu(machine: Machine) -> Finding:
    adds = "hardware counters of one launch (Nsight Compute)"
    install = "sudo apt-get install nsight-compute   (NVIDIA's repository; part of the CUDA Toolkit)"
    return _tool("ncu", machine.tool("ncu"), machine, adds=adds, install=install)


def _sanitizer(machine: Machine) -> Finding:
    name = "compute-sanitizer"
    adds = "finding out-of-bounds accesses and races of a kernel on a GPU"
    install = "python -m pip install nvidia-cuda-sanitizer-api"
    return _tool(name, machine.tool(name), machine, adds=adds, install=install)


def _cache(machine: Machine) -> Finding:
    folder = machine.cache()
    adds = "builds that are made once; without it every run compiles anew"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        detail = f"{folder} cannot be written: {error.strerror or error}"
        return Finding("cache", found=False, detail=detail, adds=adds, install="export LAB_CACHE_DIR=<a folder>")
    with os.scandir(folder) as listing:
        sizes = [entry.stat().st_size for entry in listing if entry.name.endswith(".entry")]
    return _finding("cache", f"{folder}: {len(sizes)} builds, {sum(sizes) / 1e6:.1f} MB", adds=adds, install="")


def _tool(name: str, path: Path | None, machine: Machine, *, adds: str, install: str) -> Finding:
    if path is None:
        return _finding(name, None, adds=adds, install=install)
    version = machine.tool_version(path)
    return _finding(
        name, f"{version}, {path}" if version else None, adds=adds, install=install, missing=f"{path} does not run"
    )


def _driver_of(machine: Machine) -> Driver | None:
    """Ask libcuda; None without a driver. Creates no context."""
    try:
        cuda = machine.load_driver()
    except OSError:
        return None
    number = ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    version = f"{number.value // 1000}.{number.value % 1000 // 10}"  # 1000 major + 10 minor
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return Driver(version, ())
    return Driver(version, tuple(_gpu(cuda, index) for index in range(count.value)))


def _gpu(cuda: Any, index: int) -> Gpu:  # noqa: ANN401 - ctypes
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceGetAttribute(ctypes.byref(major), _ATTRIBUTE_CC_MAJOR, device)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), _ATTRIBUTE_CC_MINOR, device)
    return Gpu(name.value.decode(errors="replace"), f"sm_{major.value}{minor.value}")
