"""Worker processes: starting them, limiting their memory and ending them with their parent.

This requires Linux, like NVIDIA's compiler wheels: `resource`, process groups, forkserver.
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
"""Lower bound of a worker's memory limit; optimising a large kernel needs far less."""

_FILES, _FILES_OF_A_WORKER = 32, 3
"""Open files of a run and of each worker: a run with 2 workers needs fewer than 26, one with 12 workers 49 to 64."""


_IMPORT_VARIABLES = ("PYTHONSAFEPATH", "PYTHONPATH")
_HANDING_DOWN = threading.RLock()


_BUILDERS: Final = ("lab.cli.main", "lab.stages.build", "lab.stages.executed", "networkx")
"""Modules that nearly every worker needs, to build and to emulate variants."""

_served: Sequence[str] = _BUILDERS


def context() -> BaseContext:
    """Start the fork server, which preloads the workers' imports, and return its multiprocessing context.

    Workers are not forked from the parent, which has threads and may have loaded a CUDA library. Nor are they spawned,
    which would take each of them a second or two.
    """
    fork_context = multiprocessing.get_context("forkserver")
    # also the main module: the server imports it once instead of every worker
    fork_context.set_forkserver_preload(["__main__", *_served])
    allow_files(cores())  # the server inherits this process's limit
    with handed_down():
        forkserver.ensure_running()
    return fork_context


@contextlib.contextmanager
def handed_down() -> Iterator[None]:
    """Within this context, child Python processes use this process's import path and nothing else.

    SIGINT is blocked in it; see `lab.base.interrupts.starting`.
    Only one thread at a time can enter it. Other processes started meanwhile must be given `environment()`: otherwise
    they read this process's variables while they change, and fail to start with exit code 255.
    """
    with _HANDING_DOWN:
        before = {name: os.environ.get(name) for name in _IMPORT_VARIABLES}
        os.environ |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            resource_tracker.ensure_running()  # otherwise the first process starts it, which unblocks SIGINT
            with interrupts.starting():
                yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def environment() -> dict[str, str]:
    """Return this process's environment without the temporary changes of `handed_down`."""
    with _HANDING_DOWN:
        return dict(os.environ)


def prepare(modules: Sequence[str] = _BUILDERS) -> None:
    """Start the fork server, so that its imports overlap with the caller's work.

    Args:
        modules: Its imports, if it is not running yet. A worker with workers of its own has its own server.
    """
    global _served  # noqa: PLW0603 - the process has one server, hence one list of imports
    _served = modules
    context()


def cores() -> int:
    """Return the number of cores available to this process; in a container, fewer than the machine has."""
    return len(os.sched_getaffinity(0))


def allow_files(workers: int) -> bool:
    """Raise this process's limit of open files to what workers need; return whether that is allowed.

    Beyond the limit, the fork server ends and the tasks of all workers are lost.
    """
    required = _FILES + _FILES_OF_A_WORKER * workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < required:
        soft = required if hard == resource.RLIM_INFINITY else min(required, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft == resource.RLIM_INFINITY or soft >= required


def share_of_memory(workers: int) -> int:
    """Return each worker's memory limit in bytes: twice its share, since few workers need all of it at once."""
    return max(_LEAST_BYTES, 2 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // max(1, workers))


def begin(limit_bytes: int, environment: Mapping[str, str]) -> None:
    """Set up this process as a worker.

    Args:
        limit_bytes: Limit of its data segment in bytes; an allocation beyond it fails.
        environment: The parent's environment; that of the fork server dates from its start.
    """
    for name in _IMPORT_VARIABLES:  # the server's own
        os.environ.pop(name, None)
    os.environ.update(environment)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    within = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (within, hard))
    # a compiler command must end with its worker; a process group is killed as a whole
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    terminal.prepare()
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    end_with_parent()


def end_with_parent() -> None:
    """Make this process exit as soon as its parent ends, however the parent ends."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
