"""The version of lab on a host: workers with a different one would produce different records."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.base.version import VERSION


@dataclass(frozen=True, slots=True)
class Identity:
    """A version of lab and Python.

    Attributes:
        version: Its version.
        code: Beginning of the hash of its Python files, since commits share a version.
        python: The interpreter's major and minor version, on which pickles depend.
    """

    version: str
    code: str
    python: str

    def __str__(self) -> str:
        return f"lab {self.version} (code {self.code}) with Python {self.python}"


@cache
def identity() -> Identity:
    """Return the identity of this process's lab."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root)}\n".encode())
        digest.update(file.read_bytes())
    return Identity(VERSION, digest.hexdigest()[:12], ".".join(platform.python_version_tuple()[:2]))


def difference(mine: Identity, theirs: Identity, worker: str) -> str:
    """Return why a worker cannot take part; empty if it can.

    Args:
        mine: The client's.
        theirs: The worker's.
        worker: The worker, for the message.
    """
    if mine == theirs:
        return ""
    return f"the worker {worker} runs {theirs}, and this is {mine}: install the same lab and Python on both"
