"""A limit on the host memory of one computation: its allocations fail where the system would kill the process.

A reference in Python may want many times the machine's memory. Linux grants that, and ends the process once it is
touched: minutes later, and without a word about the cause.
"""

from __future__ import annotations

import contextlib
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CONTROL_GROUPS: Final = (
    ("sys/fs/cgroup", "memory.max", "memory.current", ""),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)
"""A container's limit and what it uses, in versions 2 and 1 of control groups: folder, files, prefix of statistics."""


def free_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory that this process can still get; None where the system does not say it.

    Args:
        root: Where `proc` and `sys` are.
    """
    found = [_field(root / "proc/meminfo", "MemAvailable")]
    for folder, limit, used, prefix in _CONTROL_GROUPS:
        most, held = _number(root / folder / limit), _number(root / folder / used)
        if most is not None and held is not None:
            # what is used includes files that are kept in memory as long as nobody else wants it
            statistics = root / folder / "memory.stat"
            kept = sum(_field(statistics, f"{prefix}{kind}_file") or 0 for kind in ("active", "inactive"))
            found.append(max(0, most - held + kept))
    known = [one for one in found if one is not None]
    return min(known) if known else None


@contextlib.contextmanager
def within_free_memory(root: Path = Path("/")) -> Iterator[None]:
    """Limit this process to the memory that is free now: larger allocations raise MemoryError.

    Args:
        root: Where `proc` and `sys` are.
    """
    free, held = free_bytes(root), _field(root / "proc/self/status", "VmData")
    if free is None or held is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [one for one in (held + free, soft, hard) if one != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _field(path: Path, name: str) -> int | None:
    """Return a field of a file of the system's, in bytes; None where it is missing."""
    with contextlib.suppress(OSError, ValueError):
        if found := re.search(rf"^{name}:?\s+(\d+)( kB)?$", path.read_text(encoding="ascii"), re.MULTILINE):
            return int(found[1]) * (1024 if found[2] else 1)
    return None


def _number(path: Path) -> int | None:
    """Return the number in a file; None where there is no file, or a word that stands for no limit."""
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None
