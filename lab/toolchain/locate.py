"""Where NVIDIA's tools are: wheels, CUDA_HOME and CUDA_PATH, PATH, /usr/local/cuda."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cuda import pathfinder

_TIMEOUT_S = 60.0
_DEFAULT_TOOLKIT = Path("/usr/local/cuda")  # where NVIDIA's installers put it on Linux


def toolkits(environment: Mapping[str, str] | None = None, default: Path = _DEFAULT_TOOLKIT) -> tuple[Path, ...]:
    """Toolkit folders that exist, in the order in which they are tried."""
    environment = os.environ if environment is None else environment
    named = [Path(environment[key]) for key in ("CUDA_HOME", "CUDA_PATH") if environment.get(key)]
    return tuple(dict.fromkeys(folder for folder in [*named, default] if folder.is_dir()))


def nvcc(environment: Mapping[str, str] | None = None, default: Path = _DEFAULT_TOOLKIT) -> Path | None:
    """nvcc: CUDA_HOME or CUDA_PATH, then PATH, then /usr/local/cuda, then the wheel nvidia-cuda-nvcc."""
    environment = os.environ if environment is None else environment
    named = toolkits({key: environment.get(key, "") for key in ("CUDA_HOME", "CUDA_PATH")}, Path(os.devnull))
    on_path = shutil.which("nvcc", path=environment.get("PATH", ""))
    candidates = [
        *_in_bin("nvcc", named),
        *([Path(on_path)] if on_path else []),
        *_in_bin("nvcc", [default]),
        *_in_wheels("nvcc"),
    ]
    return candidates[0] if candidates else None


def tool(name: str) -> Path | None:
    """A command-line tool, such as nvdisasm: NVIDIA's wheels, then a toolkit's, then PATH.

    The wheel comes first because it is the newest on most machines, and a disassembler reads the cubins of
    its own and of older releases.
    """
    on_path = shutil.which(name)
    candidates = [
        *_in_wheels(name),
        *_in_bin(name, toolkits()),
        *([Path(on_path)] if on_path else []),
    ]
    return candidates[0] if candidates else None


def headers() -> Path | None:
    """The folder of cuda_fp16.h and its like: the wheel nvidia-cuda-runtime, then a toolkit's.

    A folder without `crt` (the wheel nvidia-cuda-crt, behind mma.h and more) is taken only where no other is.
    """
    found = pathfinder.find_nvidia_header_directory("cudart")
    candidates = ([Path(found)] if found else []) + [folder / "include" for folder in toolkits()]
    usable = [folder for folder in candidates if (folder / "cuda_runtime_api.h").is_file()]
    return min(usable, key=lambda folder: not (folder / "crt").is_dir(), default=None)


def headers_version(folder: Path) -> str:
    """Version of a folder of CUDA headers, `13.5`, from CUDART_VERSION (1000 major + 10 minor)."""
    text = (folder / "cuda_runtime_api.h").read_text(errors="replace")
    match = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text)
    return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}" if match else "unknown"


def tool_version(path: Path) -> str | None:
    """Version of an NVIDIA command-line tool, `13.5.37`, or None where it cannot run or does not say."""
    text = tool_output(path, "--version")
    # the compilers say V13.5.37, the profilers Version 2025.3.1.0
    match = re.search(r"\bV(?:ersion )?(\d+(?:\.\d+)+)", text or "")
    return match[1] if match else None


def tool_output(path: Path, *arguments: str) -> str | None:
    """Standard output of a command that succeeds at once, or None."""
    try:
        run = subprocess.run(
            [path, *arguments], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout if run.returncode == 0 else None


def _in_bin(name: str, folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        found = shutil.which(name, path=str(folder / "bin"))
        if found:
            yield Path(found)


def _in_wheels(name: str) -> Iterator[Path]:
    known = name in pathfinder.SUPPORTED_BINARY_UTILITIES
    if known and (found := pathfinder.find_nvidia_binary_utility(name)):
        yield Path(found)
