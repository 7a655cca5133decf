"""Facts about the machine and the software that a record must hold."""

from __future__ import annotations

import platform
import shutil
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from lab.base.workers import environment

_DECIDING = (
    "numpy",
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
    "nvidia-cuda-nvdisasm",
    "nvidia-cuda-nvcc",
    "pycuda",
    "nvidia-ml-py",
    "torch",
    "nvidia-cublas",
)
"""Packages whose version can change a figure."""


@cache
def packages() -> dict[str, str]:
    """Return the installed versions of the packages that can change a figure."""
    found: dict[str, str] = {}
    for name in _DECIDING:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def python() -> str:
    """Return interpreter, system and machine: ``CPython 3.11.7 on Linux x86_64``."""
    return f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}"


@cache
def commit() -> str:
    """Return the commit of the working tree that `lab` runs from, with `+dirty` where files differ.

    Empty where `lab` does not run from a working tree, or git is missing.
    """
    git, folder = shutil.which("git"), Path(__file__).parents[1]
    if git is None or not (folder.parent / ".git").exists():
        return ""
    try:
        found = subprocess.run(
            [git, "-C", str(folder), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+dirty"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            env=environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()
