"""Compile the kernels beside this file with NVRTC, or with nvcc where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache, lru_cache
from pathlib import Path

import nvidia
from cuda.bindings import nvrtc

from lab.toolchain.base import CompileRequest
from lab.toolchain.nvrtc.headers import names_cutlass
from lab.toolchain.select import toolchain

KERNELS = Path(__file__).parents[1] / "emulator" / "kernels"
_PACKAGE = Path(next(iter(nvidia.__path__)))
TOOLKIT = next((folder for folder in sorted(_PACKAGE.glob("cu*")) if (folder / "include").is_dir()), _PACKAGE)
VARIANTS = {
    "release": (),
    "debug": ("--device-debug",),
    "lineinfo": ("-lineinfo",),
    "fast-math": ("--use_fast_math",),
}


def source(name: str) -> str:
    return (KERNELS / f"{name}.cu").read_text()


@cache
def _headers() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for NVRTC's precompiled headers: parsing takes 2 s, and loading takes 0.3 s."""
    return tempfile.TemporaryDirectory(prefix="lab-pch-", ignore_cleanup_errors=True)


def compile_text(text: str, *options: str, arch: str = "compute_90") -> str:
    """Compile CUDA source to PTX with NVRTC."""
    return _compiled(text, *options, arch=arch)[0]


@lru_cache(maxsize=8)  # a test launches one source at several sizes
def _compiled(text: str, *options: str, arch: str) -> tuple[str, str]:
    """The PTX, and what NVRTC says."""
    if names_cutlass(text):  # lab finds these headers and knows what they need
        made = toolchain("nvrtc").compile(CompileRequest(text, "kernel.cu", arch.replace("compute", "sm")))
        return made.ptx, made.log
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    include = TOOLKIT / "include"
    flags = [f"--gpu-architecture={arch}", f"-I{include}", f"-I{include / 'cccl'}", *options]
    if "#include" in text:
        flags += ["--pch", f"--pch-dir={_headers().name}"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise AssertionError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    nvrtc.nvrtcDestroyProgram(program)
    return ptx.decode().rstrip("\0"), log.decode().rstrip("\0")


def ptx_of(text: str) -> str:
    """The PTX of CUDA source as the bench makes it, without the machine code, which takes half of NVRTC's time."""
    return compile_text(text, "--generate-line-info")


def quiet_ptx_of(text: str) -> str:
    """The PTX of a template's source, of which NVRTC warns of nothing: a warning stands on every page of a run."""
    ptx, log = _compiled(text, "--generate-line-info", arch="compute_90")
    assert "): warning" not in log, log  # at a line, unlike what NVRTC says of precompiled headers
    return ptx


@cache
def ptx(name: str, variant: str = "release") -> str:
    return compile_text(source(name), *VARIANTS[variant])


def nvcc() -> Path | None:
    """The wheel's nvcc, where it and a host compiler are installed."""
    found = TOOLKIT / "bin" / "nvcc"
    return found if found.exists() and shutil.which("g++") else None


def nvcc_lacks(name: str) -> str | None:
    """Return why nvcc cannot compile a kernel here: its headers need CCCL's, which are a wheel of their own."""
    if nvcc() is None:
        return "nvcc and a host compiler are not installed"
    if "#include" in source(name) and not list((TOOLKIT / "include").glob("**/nv/target")):
        return "CCCL's headers are not installed"
    return None


def compile_with_nvcc(name: str, *options: str) -> str:
    compiler = nvcc()
    assert compiler is not None
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "kernel.ptx"
        command: list[str | Path] = [compiler, "-ptx", "-arch=sm_90", *options, "-o", target, KERNELS / f"{name}.cu"]
        subprocess.run(command, check=True, capture_output=True)
        return target.read_text()
