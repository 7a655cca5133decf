"""What runs inside a Dask worker. It imports nothing of Dask: Dask calls these functions by name.

A Dask worker only passes work on: a function runs in a subprocess of the worker with its share of the memory, and its
time limit begins when that subprocess takes it. A compiler that hangs or dies costs one task.
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
from lab.cluster.identity import Identity, identity
from lab.cluster.letters import Content, Letter
from lab.gpu.device import describe
from lab.gpu.device.backend import Backend
from lab.gpu.process.cards import Card
from lab.gpu.process.session import GpuSession
from lab.gpu.process.worker import cuda_backend
from lab.measured.timing import GpuDescription
from lab.stages.build import Built

DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""Errors of a host's disk, and not of the work."""

HOST, JOBS = "LAB_CLUSTER_HOST", "LAB_CLUSTER_JOBS"
"""Variables of a worker: the name of its host, and the subprocesses that it may have at a time."""

_IDLE_S = 60.0
"""Seconds after which a session gives way to another client's: its own may have been killed."""


class Lack(Enum):
    """What a host can lack for a piece of work."""

    DISK = "room on its disk"
    TOOLCHAIN = "the compiler"


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """What a worker answers; exactly one of the first four is set.

    Attributes:
        value: The result, pickled.
        error: What the function raised, pickled, and its traceback as text.
        missing: Names of parts that this host lacks.
        refused: Identity of the worker, where it is not the client's.
        host: Name of the worker's host.
        lacks: What this host lacks and another one may have, where the error is its own; empty where it is the work's.
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
    """What this worker process keeps between tasks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.contents = Contents()
        self.executor: ProcessExecutor | None = None
        self.jobs = int(os.environ.get(JOBS, "0")) or workers.cores()
        self.sessions: dict[str, _Opened] = {}
        self.backend: Callable[[], Backend] = cuda_backend
        self.described: Callable[[], tuple[str, GpuDescription] | str] = _described


def _described() -> tuple[str, GpuDescription] | str:
    found = describe.probe()
    return found if isinstance(found, str) else (describe.device_id(0), found)


def host() -> str:
    """Return the name of this host."""
    return os.environ.get(HOST) or socket.gethostname()


def work(client: Identity, letter: Letter, parts: Mapping[str, Content], timeout_s: float) -> WorkerAnswer:
    """Run a function in a subprocess of this worker.

    Args:
        client: Who asks.
        letter: The function and its arguments.
        parts: Large parts that come with the letter; the others are on this host or are missing.
        timeout_s: Its time limit in seconds, from when it begins.
    """
    return _answered(client, letter, parts, lambda function, args: _in_subprocess(function, args, timeout_s))


def on_card(client: Identity, letter: Letter, parts: Mapping[str, Content], owner: str) -> WorkerAnswer:
    """Call a function with a client's session on this worker's card.

    Args:
        client: Who asks.
        letter: The function and its further arguments.
        parts: As in `work`.
        owner: The client's own name: sessions are not shared, since each remembers what it was sent.
    """
    return _answered(client, letter, parts, lambda function, args: function(session(owner), *args))


def keep(parts: Mapping[str, Content]) -> None:
    """Keep parts that this host lacked."""
    for name, content in parts.items():
        here.contents.keep(name, content)


def introduce() -> tuple[Identity, str]:
    """Return this worker's lab and its host's name."""
    return identity(), host()


def card() -> Card | str:
    """Return this worker's card, or one sentence that says why it has none; its label is left to the client."""
    found = here.described()
    if isinstance(found, str):
        return found
    name, description = found
    return Card(name, host(), "", description, "")


def session(owner: str) -> GpuSession:
    """Return a client's session on this worker's card; those that others left are ended."""
    now = time.monotonic()
    with here.lock:
        for name, opened in tuple(here.sessions.items()):
            if name != owner and now - opened.used > _IDLE_S:
                here.sessions.pop(name).session.close()
        found = here.sessions.setdefault(owner, _Opened(GpuSession(here.backend), now))
        found.used = now
    return found.session


def end_session(owner: str) -> None:
    """End a client's session at once, whatever it does."""
    with here.lock:
        found = here.sessions.pop(owner, None)
    if found is not None:
        found.session.__exit__(KeyboardInterrupt, None, None)


def _answered(
    client: Identity,
    letter: Letter,
    parts: Mapping[str, Content],
    call: Callable[[Callable[..., Any], tuple[Any, ...]], Any],
) -> WorkerAnswer:
    if client != identity():
        return WorkerAnswer(refused=identity(), host=host())
    keep(parts)
    wanted = tuple(name for name in letter.parts if name not in parts)
    if missing := here.contents.missing(wanted):
        return WorkerAnswer(missing=missing, host=host())
    try:
        held: Any = letters.read(letter, lambda name: parts[name] if name in parts else here.contents.part(name))
    except KeyError as error:  # it was pruned or altered in this moment
        return WorkerAnswer(missing=(str(error.args[0]),), host=host())
    except MissingToolError as error:
        return replace(_failure(MissingToolError(f"{host()} cannot take part: {error}")), lacks=Lack.TOOLCHAIN)
    try:
        result = call(*held)
        value = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - it is the caller's
        return _failure(error)
    _remember(result)
    return WorkerAnswer(value=value, host=host())


def _failure(error: Exception) -> WorkerAnswer:
    lacks = Lack.DISK if isinstance(error, OSError) and error.errno in DISK_ERRORS else None
    return WorkerAnswer(error=pack_error(error), host=host(), lacks=lacks)


def _remember(result: object) -> None:
    """Keep what later steps of a variant need: they may come to this host."""
    for one in result if isinstance(result, list) else ():
        if isinstance(one, Built):
            for part in (one.build.ptx, one.build.cubin):
                if len(part) >= letters.LARGE:
                    here.contents.keep(letters.hash_of(part), part)


def _in_subprocess(function: Callable[..., Any], args: tuple[Any, ...], timeout_s: float) -> object:
    with here.lock:
        if here.executor is None:
            here.executor = ProcessExecutor(here.jobs)
    return here.executor.submit(function, *args, timeout_s=timeout_s).result()


def ask_session(opened: GpuSession, name: str, *args: object) -> tuple[object, int, int | None, str]:
    """Call a method of the card's session.

    Returns:
        Its result, the number of workers so far, the worker's process id, and why no worker could start; with that,
        the result is None.
    """
    try:
        value = getattr(opened, name)(*args)
    except MissingToolError as error:
        return None, opened.workers, opened.process_id, str(error)
    return value, opened.workers, opened.process_id, ""


here = _Here()
