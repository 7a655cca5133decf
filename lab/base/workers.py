"""Worker processes: how they start, how much memory they may take, and that they end with their parent.

This needs Linux, as NVIDIA's wheels for compilers do: `resource`, process groups, forkserver.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import BaseContext
from typing import Final

from lab.base import interrupts, terminal

_LEAST_BYTES = 4 << 30
"""A compiler with all optimisations on a large kernel stays well below this."""

_FILES, _FILES_OF_A_WORKER = 32, 3
"""Files that a run has open: a run with 2 workers needs less than 26 in all, one with 12 workers between 49 and 64."""


_IMPORT_VARIABLES = ("PYTHONSAFEPATH", "PYTHONPATH")
_HANDING_DOWN = threading.RLock()


_BUILDERS: Final = ("lab.cli.main", "lab.stages.build", "lab.stages.executed", "networkx")
"""What nearly every worker needs: to build and to execute variants."""

_served: Sequence[str] = _BUILDERS


def context() -> BaseContext:
    """Return how workers start: forked from a server that has imported what they need. Start the server.

    They are not forked from the parent, which holds threads and may hold a CUDA library. Nor do they start from
    nothing, which takes each of them a second or two.
    """
    made = multiprocessing.get_context("forkserver")
    # including the program's own main module: the server imports it once instead of every process
    made.set_forkserver_preload(["__main__", *_served])
    allow_files(cores())  # the server takes over this process's limit
    with handed_down():
        forkserver.ensure_running()
    return made


@contextlib.contextmanager
def handed_down() -> Iterator[None]:
    """Within this context, a Python process that is started imports from this process's path and nowhere else.

    SIGINT is blocked in it; see `lab.base.interrupts.starting`.
    One thread at a time is in it. Another process that starts meanwhile must get `environment()`: without one of its
    own it reads this process's variables while they change, and the start fails (exit code 255, which means nothing).
    """
    with _HANDING_DOWN:
        before = {name: os.environ.get(name) for name in _IMPORT_VARIABLES}
        os.environ |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            resource_tracker.ensure_running()  # it would start with the first process, and unblock SIGINT as it does
            with interrupts.starting():
                yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def environment() -> dict[str, str]:
    """Return this process's variables, but those that `handed_down` sets for a moment."""
    with _HANDING_DOWN:
        return dict(os.environ)


def prepare(modules: Sequence[str] = _BUILDERS) -> None:
    """Start the server, whose imports then overlap with the caller's work.

    Args:
        modules: What it imports, if it is not running yet. A worker that has workers of its own has its own server.
    """
    global _served  # noqa: PLW0603 - as the server is one for the process, so is what it imports
    _served = modules
    context()


def cores() -> int:
    """Return the number of cores that this process may use; in a container, fewer than the machine has."""
    return len(os.sched_getaffinity(0))


def allow_files(workers: int) -> bool:
    """Raise this process's limit of open files to what workers take; return whether that is allowed.

    Beyond the limit, the server of processes ends, and takes the work of all workers with it.
    """
    needed = _FILES + _FILES_OF_A_WORKER * workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft == resource.RLIM_INFINITY or soft >= needed


def share_of_memory(workers: int) -> int:
    """Return the bytes that each worker may take: twice its part of the memory, since few need all of it at once."""
    return max(_LEAST_BYTES, 2 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // max(1, workers))


def begin(limit_bytes: int, environment: Mapping[str, str]) -> None:
    """Prepare this process for work.

    Args:
        limit_bytes: Limit of its data segment in bytes; an allocation beyond it fails.
        environment: The parent's variables. The server's are from when it started.
    """
    for name in _IMPORT_VARIABLES:  # the server's own
        os.environ.pop(name, None)
    os.environ.update(environment)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    within = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (within, hard))
    # a compiler that is run as a command must end with the worker that runs it; a process group ends as a whole
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    terminal.prepare()
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    end_with_parent()


def end_with_parent() -> None:
    """Make this process end at once when its parent does, however the parent ends: nobody waits for its results."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
