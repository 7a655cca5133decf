"""Code that runs inside a Dask worker. It does not import Dask, which calls these functions by name.

A Dask worker only forwards tasks: a function runs in a subprocess of the worker with its share of the memory, and its
time limit counts from its start there. A compiler that hangs or crashes costs one task.
"""

from __future__ import annotations

import errno
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from lab.base import workers
from lab.base.errors import MissingToolError
from lab.base.executor import PackedError, ProcessExecutor, pack_error
from lab.cluster import letters
from lab.cluster.contents import Contents
from lab.cluster.host_version import Identity, identity
from lab.cluster.letters import Content, Letter
from lab.gpu.device import describe
from lab.gpu.device.backend import Backend
from lab.gpu.process.cards import Card
from lab.gpu.process.session import GpuSession
from lab.gpu.process.worker import cuda_backend
from lab.measured.timing import GpuDescription
from lab.stages.build import Built

DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""Error numbers that mean a problem of the host's disk, not of the task."""

HOST, JOBS = "LAB_CLUSTER_HOST", "LAB_CLUSTER_JOBS"
"""Environment variables of a worker: the name of its host, and its number of concurrent subprocesses."""

_IDLE_S = 60.0
"""Idle seconds after which a session is closed for another client: its own client may have been killed."""


class Lack(Enum):
    """Something that a host can lack for a task."""

    DISK = "room on its disk"
    TOOLCHAIN = "the compiler"


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """The answer of a worker; exactly one of the first four fields is set.

    Attributes:
        value: The result, pickled.
        error: What the function raised, pickled, and its traceback as text.
        missing: Names of large objects that this host lacks.
        refused: Identity of the worker, if it differs from the client's.
        host: Name of the worker's host.
        lacks: What this host lacks and another may have; None if the error is that of the task.
    """

    value: bytes | None = None
    error: PackedError | None = None
    missing: tuple[str, ...] = ()
    refused: Identity | None = None
    host: str = ""
    lacks: Lack | None = None


@dataclass(slots=True)
class _Opened:
    """A client's session on this worker's card.

    Attributes:
        session: The session.
        used: When it was last used, in seconds of the monotonic clock.
    """

    session: GpuSession
    used: float


class _Here:
    """State that this worker process keeps between tasks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.contents = Contents()
        self.executor: ProcessExecutor | None = None
        self.jobs = int(os.environ.get(JOBS, "0")) or workers.cores()
        self.sessions: dict[str, _Opened] = {}
        self.backend: Callable[[], Backend] = cuda_backend
        self.described: Callable[[], tuple[str, GpuDescription] | str] = _described


def _described() -> tuple[str, GpuDescription] | str:
    description = describe.probe()
    return description if isinstance(description, str) else (describe.device_id(0), description)


def host() -> str:
    """Return the name of this host."""
    return os.environ.get(HOST) or socket.gethostname()


def work(client: Identity, letter: Letter, parts: Mapping[str, Content], timeout_s: float) -> WorkerAnswer:
    """Run a function in a subprocess of this worker.

    Args:
        client: The client's identity.
        letter: The function and its arguments.
        parts: Large objects sent with the payload; the others are on this host or are missing.
        timeout_s: Its time limit in seconds, from its start.
    """
    return _answered(client, letter, parts, lambda function, args: _in_subprocess(function, args, timeout_s))


def on_card(client: Identity, letter: Letter, parts: Mapping[str, Content], owner: str) -> WorkerAnswer:
    """Call a function with a client's session on this worker's card.

    Args:
        client: The client's identity.
        letter: The function and its further arguments.
        parts: As in `work`.
        owner: The client's name: sessions are not shared, since each caches what it was sent.
    """
    return _answered(client, letter, parts, lambda function, args: function(session(owner), *args))


def keep(parts: Mapping[str, Content]) -> None:
    """Store large objects that this host lacked."""
    for name, content in parts.items():
        here.contents.keep(name, content)


def introduce() -> tuple[Identity, str]:
    """Return the identity of this worker's lab and its host's name."""
    return identity(), host()


def card() -> Card | str:
    """Return this worker's card without a label, or a sentence that says why it has none."""
    probed = here.described()
    if isinstance(probed, str):
        return probed
    name, description = probed
    return Card(name, host(), "", description, "")


def session(owner: str) -> GpuSession:
    """Return a client's session on this worker's card, closing the idle sessions of others."""
    now = time.monotonic()
    with here.lock:
        for name, opened in tuple(here.sessions.items()):
            if name != owner and now - opened.used > _IDLE_S:
                here.sessions.pop(name).session.close()
        current = here.sessions.setdefault(owner, _Opened(GpuSession(here.backend), now))
        current.used = now
    return current.session


def end_session(owner: str) -> None:
    """End a client's session at once, even if it is busy."""
    with here.lock:
        ended = here.sessions.pop(owner, None)
    if ended is not None:
        ended.session.__exit__(KeyboardInterrupt, None, None)


def _answered(
    client: Identity,
    letter: Letter,
    parts: Mapping[str, Content],
    call: Callable[[Callable[..., Any], tuple[Any, ...]], Any],
) -> WorkerAnswer:
    if client != identity():
        return WorkerAnswer(refused=identity(), host=host())
    keep(parts)
    not_sent = tuple(name for name in letter.parts if name not in parts)
    if missing := here.contents.missing(not_sent):
        return WorkerAnswer(missing=missing, host=host())
    try:
        request: Any = letters.read(letter, lambda name: parts[name] if name in parts else here.contents.part(name))
    except KeyError as error:  # it was pruned or modified meanwhile
        return WorkerAnswer(missing=(str(error.args[0]),), host=host())
    except MissingToolError as error:
        return replace(_failure(MissingToolError(f"{host()} cannot take part: {error}")), lacks=Lack.TOOLCHAIN)
    try:
        result = call(*request)
        value = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - it is the caller's
        return _failure(error)
    _remember(result)
    return WorkerAnswer(value=value, host=host())


def _failure(error: Exception) -> WorkerAnswer:
    lacks = Lack.DISK if isinstance(error, OSError) and error.errno in DISK_ERRORS else None
    return WorkerAnswer(error=pack_error(error), host=host(), lacks=lacks)


def _remember(result: object) -> None:
    """Store what later steps of a variant need, since they may run on this host."""
    for item_built in result if isinstance(result, list) else ():
        if isinstance(item_built, Built):
            for image in (item_built.build.ptx, item_built.build.cubin):
                if len(image) >= letters.LARGE:
                    here.contents.keep(letters.hash_of(image), image)


def _in_subprocess(function: Callable[..., Any], args: tuple[Any, ...], timeout_s: float) -> object:
    with here.lock:
        if here.executor is None:
            here.executor = ProcessExecutor(here.jobs)
    return here.executor.submit(function, *args, timeout_s=timeout_s).result()


def ask_session(opened: GpuSession, name: str, *args: object) -> tuple[object, int, int | None, str]:
    """Call a method of the card's session.

    Returns:
        Its result, the number of workers so far, the worker's process id, and why no worker could start, in which case
        the result is None.
    """
    try:
        value = getattr(opened, name)(*args)
    except MissingToolError as error:
        return None, opened.workers, opened.process_id, str(error)
    return value, opened.workers, opened.process_id, ""


here = _Here()
