"""Diagnose this machine for `lab`: what is present, what each missing thing adds, how to install it.

Nothing here creates a CUDA context: packages are found by their metadata, tools by their `--version`, the driver and
the GPUs through NVIDIA's driver bindings.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from lab.base.environment import install_command
from lab.base.errors import UserError
from lab.gpu.device.describe import cuda_version, id_in_words
from lab.gpu.device.driver_bindings import call
from lab.hardware import calibration
from lab.toolchain import locate
from lab.toolchain.cache import default_folder
from lab.toolchain.nvcc import INSTALL as INSTALL_NVCC
from lab.toolchain.nvcc import INSTALL_HOST
from lab.toolchain.nvrtc.compiler import INSTALL as INSTALL_NVRTC
from lab.toolchain.nvrtc.compiler import find_nvrtcs
from lab.toolchain.ptx import INSTALL as INSTALL_ASSEMBLER
from lab.toolchain.triton.compiler import PYTHON_VARIABLE

_INSTALL_CUBLAS = "python -m pip install nvidia-cublas"
_INSTALL_DRIVER = "sudo ubuntu-drivers install   (Debian: sudo apt-get install nvidia-driver)"
_MOST_OF_A_NAME = 256
"""Bytes of a GPU's name to read, its terminator included."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of one component.

    Attributes:
        name: Such as `nvdisasm`.
        found: It is present and usable.
        detail: Version and path, or why it is missing.
        adds: The capability it adds to `lab`.
        install: The command that installs it; empty where it is found.
    """

    name: str
    found: bool
    detail: str
    adds: str
    install: str


@dataclass(frozen=True, slots=True)
class DoctorGpu:
    """One GPU as the driver describes it: `NVIDIA H200`, `sm_90`, and its UUID `GPU-3f0c2a…`."""

    name: str
    arch: str
    id: str


@dataclass(frozen=True, slots=True)
class DoctorDriver:
    """The NVIDIA driver.

    Attributes:
        cuda: Highest CUDA version that it runs, `13.0`.
        gpus: In the driver's order.
    """

    cuda: str
    gpus: tuple[DoctorGpu, ...]


def package_version(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_text(path: Path) -> str | None:
    """Return a file's text, or None where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def find_driver() -> DoctorDriver | None:
    """Ask the NVIDIA driver for its version and its GPUs, without creating a context; None where there is no driver."""
    try:
        api = importlib.import_module("cuda.bindings.driver")
        version = cuda_version(int(call(api.cuDriverGetVersion)))
    except (ImportError, RuntimeError, OSError):  # the bindings raise RuntimeError where libcuda cannot be loaded
        return None
    try:
        call(api.cuInit, 0)
        count = int(call(api.cuDeviceGetCount))
    except RuntimeError:  # a driver without a GPU refuses to start
        return DoctorDriver(version, ())
    return DoctorDriver(version, tuple(_gpu(api, ordinal) for ordinal in range(count)))


def _gpu(api: ModuleType, ordinal: int) -> DoctorGpu:
    device = call(api.cuDeviceGet, ordinal)
    name: bytes = call(api.cuDeviceGetName, _MOST_OF_A_NAME, device)
    kinds = api.CUdevice_attribute
    major, minor = (
        int(call(api.cuDeviceGetAttribute, kind, device))
        for kind in (
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    called = name.split(b"\0")[0].decode(errors="replace")
    return DoctorGpu(called, f"sm_{major}{minor}", id_in_words(call(api.cuDeviceGetUuid, device)))


@dataclass(frozen=True, slots=True)
class Probes:
    """Probes of the machine, which tests replace.

    Attributes:
        package: Distribution name to version, or None.
        which: Command name to path, or None.
        tool_version: Path of an NVIDIA tool to its version, or None where it does not run.
        driver: The driver, or None.
        read: File to text, or None.
        toolkits: CUDA toolkits' folders.
        nvcc: Path of nvcc, or None.
        tool: Name of one of NVIDIA's tools to its path, or None.
        headers: Folder of CUDA's headers, or None.
        cutlass: Folder of CUTLASS's headers, or None.
        nvrtcs: Every NVRTC toolchain, the one that is used first.
        nvjitlinks: Paths of nvJitLink's library, the one that is used first.
        environment: Name of a variable of the environment to its value, or None.
        cache: The cache's folder.
        calibration: The file of calibrations.
    """

    package: Callable[[str], str | None] = package_version
    which: Callable[[str], str | None] = shutil.which
    tool_version: Callable[[Path], str | None] = locate.tool_version
    driver: Callable[[], DoctorDriver | None] = find_driver
    read: Callable[[Path], str | None] = read_text
    toolkits: Callable[[], tuple[Path, ...]] = locate.toolkits
    nvcc: Callable[[], Path | None] = locate.nvcc
    tool: Callable[[str], Path | None] = locate.tool
    headers: Callable[[], Path | None] = locate.headers
    cutlass: Callable[[], Path | None] = locate.cutlass
    nvrtcs: Callable[[], Iterable[Any]] = find_nvrtcs
    nvjitlinks: Callable[[], Iterable[Path]] = locate.nvjitlinks
    environment: Callable[[str], str | None] = os.environ.get
    cache: Callable[[], Path] = default_folder
    calibration: Callable[[], Path] = calibration.default_file


def examine(probes: Probes | None = None) -> tuple[Diagnosis, ...]:
    """Look for everything `lab` can use.

    Args:
        probes: The probes to use; those of this machine by default.

    Returns:
        One diagnosis per component, in a fixed order. Never raises: what cannot be examined counts as not found,
        with the reason as its detail.
    """
    probes = probes or Probes()
    checks: tuple[tuple[str, Callable[[Probes], Diagnosis]], ...] = (
        ("Python", _python),
        ("NVRTC", _nvrtc),
        ("CUDA headers", _headers),
        ("CCCL", _cccl),
        ("CUTLASS", _cutlass),
        ("nvdisasm", _nvdisasm),
        ("nvJitLink", _nvjitlink),
        ("Triton", _triton),
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
        ("calibration", _calibration),
    )
    return tuple(_guarded(name, check, probes) for name, check in checks)


def _guarded(name: str, check: Callable[[Probes], Diagnosis], probes: Probes) -> Diagnosis:
    try:
        return check(probes)
    except Exception as error:  # noqa: BLE001 - a broken tool is a finding, whatever it raises
        reason = f"could not be examined: {type(error).__name__}: {error}".splitlines()[0]
        return Diagnosis(name, found=False, detail=reason, adds="", install="")


def _finding(name: str, detail: str | None, *, adds: str, install: str, missing: str = "not found") -> Diagnosis:
    present = detail is not None
    return Diagnosis(name, present, detail if detail is not None else missing, adds, "" if present else install)


def _python(_: Probes) -> Diagnosis:
    detail = f"{platform.python_version()} on {platform.platform(terse=True)}"
    return _finding("Python", detail, adds="everything", install="")


def _nvrtc(probes: Probes) -> Diagnosis:
    toolchains, detail = list(probes.nvrtcs()), None
    if toolchains:
        detail = f"{toolchains[0].version}, {toolchains[0].architectures[0]} to {toolchains[0].architectures[-1]}"
        other_versions = dict.fromkeys(
            nvrtc.version for nvrtc in toolchains[1:] if nvrtc.version != toolchains[0].version
        )
        detail += f"; also {', '.join(other_versions)}" if other_versions else ""
    return _finding("NVRTC", detail, adds="compiling without a CUDA toolkit or a C compiler", install=INSTALL_NVRTC)


def _headers(probes: Probes) -> Diagnosis:
    folder = probes.headers()
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


def _cccl(probes: Probes) -> Diagnosis:
    folder, version = probes.headers(), probes.package("nvidia-cuda-cccl")
    beside = next(
        (name for name in ("cccl", "cub", "cuda/std") if folder is not None and (folder / name).is_dir()), None
    )
    return _finding(
        "CCCL",
        version or (f"in {folder}" if beside else None),
        adds="kernels that include cub/, thrust/, cuda/std/ or cooperative_groups.h, through NVRTC",
        install="python -m pip install nvidia-cuda-cccl",
    )


def _cutlass(probes: Probes) -> Diagnosis:
    folder = probes.cutlass()
    return _finding(
        "CUTLASS",
        f"{locate.cutlass_version(folder)} in {folder}" if folder is not None else None,
        adds="kernels that include cutlass/ or cute/",
        install="python -m pip install --no-deps nvidia-cutlass",
    )


def _nvjitlink(probes: Probes) -> Diagnosis:
    library = next(iter(probes.nvjitlinks()), None)
    version = next(
        (v for name in ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12") if (v := probes.package(name)) is not None), None
    )
    return _finding(
        "nvJitLink",
        None if library is None else f"{version}, {library}" if version else str(library),
        adds="assembling your own PTX (source: kernel.ptx) and that of Triton",
        install=INSTALL_ASSEMBLER,
    )


def _triton(probes: Probes) -> Diagnosis:
    version, python = probes.package("triton"), probes.environment(PYTHON_VARIABLE)
    detail = f"of {python} ({PYTHON_VARIABLE})" if python else version
    if python and probes.which(python) is None:
        detail = None
    return _finding(
        "Triton",
        detail,
        adds="experiments on Triton functions, which it compiles without a GPU",
        install=install_command("triton"),
        missing=f"{PYTHON_VARIABLE} names {python}, which cannot be run" if python else "not found",
    )


def _nvdisasm(probes: Probes) -> Diagnosis:
    return _tool(
        "nvdisasm",
        probes.tool("nvdisasm"),
        probes,
        adds="machine code (SASS) and everything counted in it",
        install="python -m pip install nvidia-cuda-nvdisasm",
    )


def _nvcc(probes: Probes) -> Diagnosis:
    adds = "the toolchain nvcc, to compare compilers and versions"
    return _tool("nvcc", probes.nvcc(), probes, adds=adds, install=INSTALL_NVCC)


def _host_compiler(probes: Probes) -> Diagnosis:
    compiler = next((path for path in map(probes.which, ("gcc", "clang")) if path), None)
    return _finding("host compiler", compiler, adds="nvcc, which cannot work without one", install=INSTALL_HOST)


def _pycuda(probes: Probes) -> Diagnosis:
    version = probes.package("pycuda")
    adds = "running, verifying and timing kernels on a GPU, and the toolchain pycuda-nvcc"
    if version is not None and probes.driver() is None:
        return Diagnosis(
            "PyCUDA", found=False, detail=f"{version}, which needs a driver", adds=adds, install=_INSTALL_DRIVER
        )
    return _finding("PyCUDA", version, adds=adds, install=install_command("gpu"))


def _nvml(probes: Probes) -> Diagnosis:
    adds = "clocks, power, temperature and throttle reasons beside every measurement"
    return _finding("NVML", probes.package("nvidia-ml-py"), adds=adds, install=install_command("gpu"))


def _driver(probes: Probes) -> Diagnosis:
    driver = probes.driver()
    detail = None
    if driver is not None:
        text = probes.read(Path("/proc/driver/nvidia/version")) or ""
        release = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", text)
        detail = f"{release[0]}, CUDA {driver.cuda}" if release else f"CUDA {driver.cuda}"
    return _finding("driver", detail, adds="the use of a GPU", install=_INSTALL_DRIVER)


def _gpus(probes: Probes) -> Diagnosis:
    driver = probes.driver()
    gpus = driver.gpus if driver else ()
    listed = "; ".join(f"GPU {place}: {gpu.name} ({gpu.arch}, {gpu.id})" for place, gpu in enumerate(gpus))
    return _finding(
        "GPU",
        f"{listed}{_of_several(gpus)}" or None,
        adds="measured times; without one, kernels are compiled, inspected, executed on the CPU and predicted",
        install=_INSTALL_DRIVER if driver is None else "",
        missing="the driver reports no GPU" if driver else "no driver",
    )


def _of_several(gpus: Sequence[DoctorGpu]) -> str:
    """Return a note on which of several GPUs a run measures on."""
    models = dict.fromkeys(gpu.name for gpu in gpus)
    if len(gpus) < 2:  # noqa: PLR2004 - several
        return ""
    model = " and --gpu-model on all of one model" if len(models) > 1 else " on all"
    return f"; a run measures on GPU 0, with --cluster local{model}; CUDA_VISIBLE_DEVICES selects the visible ones"


def _cublas(probes: Probes) -> Diagnosis:
    packages = [
        f"{name} {version}"
        for name in ("torch", "cupy-cuda13x", "cupy-cuda12x", "cupy", "nvidia-cublas", "nvidia-cublas-cu12")
        if (version := probes.package(name)) is not None and not version.endswith("+cpu")
    ]
    libraries = [
        f"libcublas in {folder}"
        for folder in probes.toolkits()
        if any(next(folder.glob(f"{place}/*cublas*"), None) for place in ("lib64", "lib", "bin"))
    ]
    return _finding(
        "cuBLAS",
        ", ".join(packages + libraries) or None,
        adds="the baseline cublas, timed beside every variant",
        install=_INSTALL_CUBLAS,
    )


def _ncu(probes: Probes) -> Diagnosis:
    adds = "hardware counters of one launch (Nsight Compute)"
    install = "sudo apt-get install nsight-compute   (NVIDIA's repository; part of the CUDA Toolkit)"
    return _tool("ncu", probes.tool("ncu"), probes, adds=adds, install=install)


def _sanitizer(probes: Probes) -> Diagnosis:
    name = "compute-sanitizer"
    adds = "finding out-of-bounds accesses and races of a kernel on a GPU"
    install = "python -m pip install nvidia-cuda-sanitizer-api"
    return _tool(name, probes.tool(name), probes, adds=adds, install=install)


def _cache(probes: Probes) -> Diagnosis:
    folder = probes.cache()
    adds = "cached builds; without it every run recompiles"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        detail = f"{folder} cannot be written: {error.strerror or error}"
        return Diagnosis("cache", found=False, detail=detail, adds=adds, install="export LAB_CACHE_DIR=<a folder>")
    with os.scandir(folder) as listing:
        sizes = [entry.stat().st_size for entry in listing if entry.name.endswith(".entry")]
    return _finding("cache", f"{folder}: {len(sizes)} builds, {sum(sizes) / 1e6:.1f} MB", adds=adds, install="")


def _calibration(probes: Probes) -> Diagnosis:
    file, adds = probes.calibration(), "estimates with constants measured on your GPU"
    try:
        calibrations = calibration.read(file)
    except UserError as error:
        reason = " ".join(str(error).split())
        return Diagnosis("calibration", found=False, detail=reason, adds=adds, install=f"rm {file}; lab calibrate")
    listed = "; ".join(
        f"{model} of {calibrated.date[:10]}, {len(calibrated.constants)} constants"
        for model, calibrated in calibrations.items()
    )
    return _finding(
        "calibration",
        f"{listed}; {file}" if calibrations else None,
        adds=adds,
        install="lab calibrate   (on the machine of the GPU)",
        missing="none; the built-in constants are used",
    )


def _tool(name: str, path: Path | None, probes: Probes, *, adds: str, install: str) -> Diagnosis:
    if path is None:
        return _finding(name, None, adds=adds, install=install)
    version = probes.tool_version(path)
    return _finding(
        name, f"{version}, {path}" if version else None, adds=adds, install=install, missing=f"{path} does not run"
    )
