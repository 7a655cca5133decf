"""What every worker process does first: it ends with its parent, and takes no more memory than its share."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.context import BaseContext

from pebble import ProcessPool

_LEAST_BYTES = 4 << 30
"""A compiler with all of its optimisations on a large kernel stays well below this."""


def context() -> BaseContext:
    """How workers start: forked from a server that has imported what they need.

    Not from the parent itself, which holds threads and may hold a CUDA library; nor each from nothing, which takes
    every core a second or two.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    made = multiprocessing.get_context("forkserver")
    # the program's own main module, too, which every process imports: once in the server in place of once in each
    made.set_forkserver_preload(["__main__", "lab.cli.main", "lab.stages.build", "lab.stages.emulate"])
    return made


def prepare() -> None:
    """Start the server, which imports while the caller does other work."""
    if context().get_start_method() == "forkserver":
        forkserver.ensure_running()


def cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pool(jobs: int) -> ProcessPool:
    """So many workers, each with its share of the memory; `end` ends them."""
    limits = [share_of_memory(jobs), dict(os.environ)]
    return ProcessPool(max_workers=jobs, context=context(), initializer=begin, initargs=limits)


def end(working: ProcessPool, *, finished: bool) -> None:
    """Stop a pool's workers and wait for them; one that has not finished gets no chance to."""
    if finished:
        working.close()
    working.stop()
    working.join()


def share_of_memory(workers: int) -> int:
    """Bytes that one of so many workers may take: twice its part of the machine's, since few need all at once."""
    return max(_LEAST_BYTES, 2 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // max(1, workers))


def begin(limit_bytes: int, environment: Mapping[str, str]) -> None:
    """Prepare this process for work.

    Args:
        limit_bytes: Most memory that it may take; beyond it, an allocation fails.
        environment: The parent's variables: the server's are those of the time when it started.
    """
    os.environ.update(environment)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    within = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (within, hard))
    # a pool that stops a worker, for its time is up, leaves what it runs to itself: a group can be ended as one
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    end_with_parent()


def end_with_parent() -> None:
    """Have this process end when the one that started it does, however that ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A compiler that goes on after its parent was killed would work for nobody."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
