"""A host memory limit for one computation, so that allocations fail before the system kills the process.

A reference in Python may need many times the machine's memory. Linux grants such allocations and kills the process
once the pages are touched: minutes later, without naming the cause.
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
"""Memory limit and usage of a container in cgroup v2 and v1: folder, files, prefix of statistics."""


def free_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory that this process can still allocate, in bytes; None if the system does not report it.

    Args:
        root: Where `proc` and `sys` are.
    """
    estimates = [_field(root / "proc/meminfo", "MemAvailable")]
    for folder, limit, used, prefix in _CONTROL_GROUPS:
        limit_bytes, used_bytes = _number(root / folder / limit), _number(root / folder / used)
        if limit_bytes is not None and used_bytes is not None:
            # the usage includes the page cache, which is reclaimed on demand
            statistics = root / folder / "memory.stat"
            page_cache_bytes = sum(_field(statistics, f"{prefix}{kind}_file") or 0 for kind in ("active", "inactive"))
            estimates.append(max(0, limit_bytes - used_bytes + page_cache_bytes))
    available = [estimate for estimate in estimates if estimate is not None]
    return min(available) if available else None


@contextlib.contextmanager
def within_free_memory(root: Path = Path("/")) -> Iterator[None]:
    """Limit this process to the memory that is free now: larger allocations raise MemoryError.

    Args:
        root: Where `proc` and `sys` are.
    """
    free, data_bytes = free_bytes(root), _field(root / "proc/self/status", "VmData")
    if free is None or data_bytes is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [limit for limit in (data_bytes + free, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _field(path: Path, name: str) -> int | None:
    """Return a field of a /proc or cgroup file, in bytes; None if it is missing."""
    with contextlib.suppress(OSError, ValueError):
        if match := re.search(rf"^{name}:?\s+(\d+)( kB)?$", path.read_text(encoding="ascii"), re.MULTILINE):
            return int(match[1]) * (1024 if match[2] else 1)
    return None


def _number(path: Path) -> int | None:
    """Return the number in a file; None if the file is missing or holds the word for no limit."""
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None
