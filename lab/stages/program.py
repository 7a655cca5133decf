"""A hash of this program, for caches that outlive a run."""

from __future__ import annotations

import functools
import hashlib
import platform
from pathlib import Path
from typing import Final

import llvmlite
import numpy as np

_ROOMS: Final = (
    "base",
    "emulator",
    "hardware",
    "isa",
    "measured",
    "operators",
    "predict",
    "recorded",
    "stages",
    "templates",
    "toolchain",
)
"""Packages whose code affects parsed listings and executions."""


@functools.cache
def program() -> str:
    """Return the SHA-256, in hex, of this program's sources and of the versions of its numerical libraries."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256(f"{np.__version__} {llvmlite.__version__} {platform.machine()}".encode())
    for file in sorted(file for room in _ROOMS for file in (folder / room).rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()
