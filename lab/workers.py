"""What every worker process does first: it ends with its parent, and takes no more memory than its share."""

from __future__ import annotations

import multiprocessing
import os
import resource
import threading

_LEAST_BYTES = 4 << 30
"""A compiler with all of its optimisations on a large kernel stays well below this."""


def share_of_memory(workers: int) -> int:
    """Bytes that one of so many workers may take: twice its part of the machine's, since few need all at once."""
    return max(_LEAST_BYTES, 2 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // max(1, workers))


def begin(limit_bytes: int) -> None:
    """Prepare this process for work.

    Args:
        limit_bytes: Most memory that it may take; beyond it, an allocation fails.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    within = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (within, hard))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A compiler that goes on after its parent was killed would work for nobody."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
