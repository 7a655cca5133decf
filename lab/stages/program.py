"""The identity of this program, for what is kept between its runs."""

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
"""Rooms whose code decides what a reading of a listing or an execution gives."""


@functools.cache
def program() -> str:
    """Return the SHA-256, in hex, of this program's sources, and of the versions of what it computes with."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256(f"{np.__version__} {llvmlite.__version__} {platform.machine()}".encode())
    for file in sorted(file for room in _ROOMS for file in (folder / room).rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()
