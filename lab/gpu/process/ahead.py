"""A spare GPU worker, started ahead of its use: it imports its modules and waits for its device.

Imports take a worker half a second and more before it can open a card. A run starts a spare worker while the main
process itself imports, and another during the sweep, since the winner is measured again in a fresh process. A spare
worker has no CUDA context and no data of the run.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from lab.base import workers

_DRIVERS: Final = ("/dev/nvidiactl", "/dev/dxg")
"""Device files of an NVIDIA driver on Linux and under WSL."""

_LOCK = threading.Lock()
_spare: tuple[BaseProcess, Connection] | None = None


def prepare() -> None:
    """Start a spare worker, unless there is one already or no driver that it could use."""
    global _spare  # noqa: PLW0603 - the first worker is prepared before any object of a run exists
    if not any(Path(name).exists() for name in _DRIVERS):
        return
    with _LOCK:
        if _spare is None or not _spare[0].is_alive():
            _spare = started(imports=True)


def take() -> tuple[BaseProcess, Connection] | None:
    """Return the spare worker and the parent's end of its pipe; None if there is none."""
    global _spare
    with _LOCK:
        spare, _spare = _spare, None
    return spare if spare is not None and spare[0].is_alive() else None


def started(*, imports: bool) -> tuple[BaseProcess, Connection]:
    """Start a worker, which expects the function that opens its device as the first message.

    Args:
        imports: Import the CUDA modules before waiting for that message.
    """
    context = multiprocessing.get_context("spawn")
    connection, worker_end = context.Pipe()
    process = context.Process(target=wait, args=(worker_end, imports), name="lab-gpu", daemon=True)
    with workers.handed_down():
        process.start()
    worker_end.close()  # only the worker holds its end now, so its death closes the pipe
    return process, connection


def wait(connection: Connection, imports: bool) -> None:
    """Run a worker's main loop; see `lab.gpu.process.worker.main`."""
    from lab.gpu.process.worker import main  # noqa: PLC0415 - the process that starts one need not import this

    if imports:
        with contextlib.suppress(ImportError, OSError, RuntimeError):  # opening the device reports it to the parent
            from lab.gpu.device import cuda  # noqa: F401, PLC0415 - only a worker imports PyCUDA
    with contextlib.suppress(EOFError, OSError):  # the parent ended without using it
        main(connection, connection.recv())
