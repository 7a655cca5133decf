"""Which lab runs on a host: workers with another one would make other records."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.base.version import VERSION


@dataclass(frozen=True, slots=True)
class Identity:
    """A lab.

    Attributes:
        version: Its version.
        code: Beginning of the hash of its Python files: the same version may be of another commit.
        python: The interpreter's version without its last number, which decides what pickles hold.
    """

    version: str
    code: str
    python: str

    def __str__(self) -> str:
        return f"lab {self.version} (code {self.code}) with Python {self.python}"


@cache
def identity() -> Identity:
    """Return this process's lab."""
    root, found = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        found.update(f"{file.relative_to(root)}\n".encode())
        found.update(file.read_bytes())
    return Identity(VERSION, found.hexdigest()[:12], ".".join(platform.python_version_tuple()[:2]))


def difference(mine: Identity, theirs: Identity, where: str) -> str:
    """Say why a worker cannot take part; empty where it can.

    Args:
        mine: Of the client.
        theirs: Of the worker.
        where: The worker, for the sentence.
    """
    if mine == theirs:
        return ""
    return f"the worker {where} runs {theirs}, and this is {mine}: install the same lab and Python on both"
