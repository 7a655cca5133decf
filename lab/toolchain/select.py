"""Choose a toolchain by name, and build through the cache."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.base.environment import install_command
from lab.base.errors import CompileError, MissingToolError, UserError, did_you_mean
from lab.toolchain import nvcc, ptx
from lab.toolchain.base import Build, CompileRequest, Disassembly, Toolchain
from lab.toolchain.cache import Cache, cache_key, default_folder
from lab.toolchain.disassembly.nvdisasm import disassemble_all, disassembler_version
from lab.toolchain.nvrtc import compiler
from lab.toolchain.options import accepted
from lab.toolchain.symbols import constant_variables
from lab.toolchain.triton import compiler as triton

NAMES = ("auto", "nvrtc", "nvcc", "pycuda-nvcc", "ptx", "triton")
"""Names that an experiment may use. All but `auto` may have a version: `nvrtc==13.5`."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A build with its disassembly.

    Attributes:
        build: The compiler's result.
        disassembly: The disassembly of its cubin.
        cached: Whether both come from the cache.
    """

    build: Build
    disassembly: Disassembly
    cached: bool


def find_toolchains() -> tuple[Toolchain, ...]:
    """Return every NVRTC of this machine and its nvcc, with the default for `auto` first."""
    by_nvcc, by_nvrtc = nvcc.find_nvcc(), tuple(compiler.find_nvrtcs())
    if by_nvcc is None:
        return by_nvrtc
    return (by_nvcc, *by_nvrtc) if by_nvcc.with_pycuda else (*by_nvrtc, by_nvcc)


def toolchain(name: str) -> Toolchain:
    """Find a toolchain by name.

    Args:
        name: `auto` (PyCUDA's nvcc where nvcc, PyCUDA and a driver are here, else NVRTC), `nvrtc`, `nvcc`, or
            `pycuda-nvcc` (nvcc, only where PyCUDA and a driver are here), `ptx`, which assembles PTX, or
            `triton`. All but `auto` may have a version or its first numbers: `nvrtc==13.5`.

    Raises:
        UserError: There is no such name, or the version is malformed.
        MissingToolError: It is not on this machine, or only in other versions.
    """
    match = re.fullmatch(r"\s*([^=\s]+)\s*(?:==\s*(\d+(?:\.\d+){0,3})\s*)?", name)
    if match is None or match[1] not in NAMES or (match[1] == "auto" and match[2]):
        base = re.split(r"[=<>!~\s]", name.strip(), maxsplit=1)[0]
        suggestion = f"write {base}==13.5" if base in NAMES[1:] else did_you_mean(base, NAMES)
        raise UserError(
            "no such toolchain",
            code="unknown-name",
            key="toolchains",
            found=name,
            accepted=f"{', '.join(NAMES)}; all but auto may have a version, such as nvrtc==13.5",
            suggestion=suggestion,
        )
    base, version = match[1], match[2] or ""
    chosen = _find(base, version)
    if chosen is None:
        alternative = _find(base, "") if version else None
        mismatch = (
            f"{name.strip()} is not on this machine, which has {_versions(base, alternative)}" if alternative else ""
        )
        raise MissingToolError(f"{mismatch or f'the toolchain {base} is not on this machine'}; {advice(base, version)}")
    return chosen


def build(
    toolchain: Toolchain, request: CompileRequest, cache: Cache | None = None, *, use_cache: bool = True
) -> Compiled:
    """Compile and disassemble, or take both from the cache.

    Args:
        toolchain: The compiler.
        request: What to compile.
        cache: The cache of builds; by default the user's cache (`default_folder`).
        use_cache: If False, compile without looking into the cache, and store nothing.

    Raises:
        UserError: The compiler cannot target the architecture, or an option is not accepted.
        CompileError: The compiler rejects the source, or the disassembler the cubin.
        MissingToolError: A tool is not on this machine.
    """
    [result] = build_all([(toolchain, request)], cache, use_cache=use_cache)
    if isinstance(result, CompileError):
        raise result
    return result


def build_all(
    requests: Sequence[tuple[Toolchain, CompileRequest]], cache: Cache | None = None, *, use_cache: bool = True
) -> list[Compiled | CompileError]:
    """Build several requests: compile them one by one and disassemble them together, which saves much time.

    Returns:
        The results in the order of the requests; for one that `build` raises a `CompileError` for, the error.

    Raises:
        UserError: A compiler cannot target its architecture, or an option is not accepted.
        MissingToolError: A tool is not on this machine.
    """
    cache = cache or Cache(default_folder())
    outcomes: dict[int, Compiled | CompileError] = {}
    fresh: list[tuple[int, str, Build]] = []  # place, key in the cache (empty: not cached), and the build
    for place, (toolchain, request) in enumerate(requests):
        _check_target(toolchain, request)
        accepted(request.options, toolchain.name)  # before the cache, whose entries an older version may have made
        key = cache_key(toolchain, request, disassembler_version()) if use_cache else ""
        if entry := cache.get(key) if key else None:
            outcomes[place] = Compiled(*entry, cached=True)
            continue
        try:
            fresh.append((place, key, toolchain.compile(request)))
        except CompileError as error:
            outcomes[place] = error
    listed = disassemble_all([fresh_build.cubin for _, _, fresh_build in fresh])
    for (place, key, fresh_build), disassembly in zip(fresh, listed, strict=True):
        if isinstance(disassembly, CompileError):
            outcomes[place] = disassembly
            continue
        if key and not disassembly.lacking:  # another nvdisasm may be installed before the next run
            cache.put(key, fresh_build, disassembly)
        outcomes[place] = Compiled(fresh_build, disassembly, cached=False)
    return [_with_constants(outcomes[place]) for place in range(len(requests))]


def _with_constants(result: Compiled | CompileError) -> Compiled | CompileError:
    """Add the symbols of variables in constant memory, except those of CUDA's own functions."""
    if isinstance(result, CompileError) or ".const" not in result.build.ptx:
        return result
    symbols = {
        name: variable.symbol
        for name, variable in constant_variables(result.build.ptx).items()
        if not name.startswith("__")
    }
    return replace(result, build=replace(result.build, symbols={**symbols, **result.build.symbols}))


def _check_target(toolchain: Toolchain, request: CompileRequest) -> None:
    if not toolchain.supports(request.arch):
        raise UserError(
            f"{toolchain.name} {toolchain.version} cannot target this architecture",
            code="unsupported",
            key="archs",
            found=request.arch,
            accepted=toolchain.architectures,
            suggestion=did_you_mean(request.arch, toolchain.architectures),
        )


@functools.cache  # workers ask for every variant, and a machine's compilers do not change in the meantime
def _find(name: str, version: str) -> Toolchain | None:
    if name == "nvrtc":
        return compiler.find_nvrtc(version)
    if name == "nvcc":
        return nvcc.find_nvcc(version)
    if name == "ptx":
        return ptx.find_assembler(version)
    if name == "triton":
        return triton.find_triton(version)
    pycudas = nvcc.find_nvcc(version, with_pycuda=True)
    return pycudas if name == "pycuda-nvcc" else pycudas or compiler.find_nvrtc()


def _versions(name: str, fallback: Toolchain) -> str:
    """Return the versions of a toolchain on this machine: `13.5.37, 12.9.86`."""
    versions = [nvrtc.version for nvrtc in compiler.find_nvrtcs()] if name == "nvrtc" else []
    return ", ".join(dict.fromkeys(versions or [fallback.version]))


def advice(name: str, version: str) -> str:
    """Return how to install a toolchain, in the given version if that is not empty."""
    if name == "pycuda-nvcc":
        return f"it needs nvcc and PyCUDA on a machine with a driver: {nvcc.INSTALL} && {install_command('gpu')}"
    if name in ("ptx", "triton"):
        return f"install it: {ptx.INSTALL if name == 'ptx' else triton.INSTALL}"
    if name != "nvcc":
        return f"install it: {compiler.install(version)}"
    if not version:
        return f"install it: {nvcc.INSTALL}"
    if int(version.split(".", maxsplit=1)[0]) < compiler.FIRST_WITHOUT_SUFFIX:  # older wheels have only ptxas
        return f"install CUDA Toolkit {version} from NVIDIA's archive and set CUDA_HOME to its folder"
    pin = f"=={version}" if version.count(".") > 1 else f"=={version}.*"
    return f"install it: python -m pip install 'nvidia-cuda-nvcc{pin}' nvidia-cuda-cccl"
