"""Facts about the machine and the software, for records."""

from __future__ import annotations

import platform
import shlex
from functools import cache
from importlib import metadata
from pathlib import Path

from lab.base.shipped import in_clone
from lab.base.version import COMMIT_FILE, commit_of
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
"""Packages whose version can change a measured or predicted figure."""


@cache
def packages() -> dict[str, str]:
    """Return the installed versions of the packages that can change a figure."""
    versions: dict[str, str] = {}
    for name in _DECIDING:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def python() -> str:
    """Return interpreter, system and machine: ``CPython 3.11.7 on Linux x86_64``."""
    return f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}"


@cache
def commit() -> str:
    """Return the commit of the clone that `lab` runs from, with `+dirty` if files are modified.

    For an installed wheel: the commit it was built from. Empty if neither is known.
    """
    package = Path(__file__).parents[1]
    try:
        return commit_of(package.parent, environment()) or (package / COMMIT_FILE).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def install_command(extra: str) -> str:
    """Return the command that installs one of lab's extras.

    Outside a clone it names the extra's packages: lab is on no registry, where another package may have its name.
    """
    if in_clone():
        return f"python -m pip install -e '.[{extra}]'"
    conditions = (line.partition(";") for line in metadata.requires("lab") or ())
    packages = [name.strip() for name, _, condition in conditions if condition.strip() == f"extra == '{extra}'"]
    return f"python -m pip install {shlex.join(packages)}"
