"""A GPU worker that is started before it is known what for: it imports what it needs, and waits for its device.

Python, PyCUDA and what verifies outputs take a worker half a second and more before it can open a card. A run begins
with one while the main process itself imports, and again when the sweep is under way, since its winner is repeated in
a fresh process. Such a worker has no CUDA context and has seen nothing of the run.
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
"""One of them is there where an NVIDIA driver is: on Linux, and on Linux under Windows."""

_LOCK = threading.Lock()
_spare: tuple[BaseProcess, Connection] | None = None


def prepare() -> None:
    """Start a worker ahead of its use, unless there is one already, or no driver that it could use."""
    global _spare  # noqa: PLW0603 - as the first worker is prepared before anything of a run is there
    if not any(Path(name).exists() for name in _DRIVERS):
        return
    with _LOCK:
        if _spare is None or not _spare[0].is_alive():
            _spare = started(imports=True)


def take() -> tuple[BaseProcess, Connection] | None:
    """Return the worker that was started ahead, and the parent's end of its pipe; None where there is none."""
    global _spare
    with _LOCK:
        taken, _spare = _spare, None
    return taken if taken is not None and taken[0].is_alive() else None


def started(*, imports: bool) -> tuple[BaseProcess, Connection]:
    """Start a worker, which expects what opens its device as the first message.

    Args:
        imports: Let it import what a CUDA device needs before it waits for that.
    """
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe()
    process = context.Process(target=wait, args=(theirs, imports), name="lab-gpu", daemon=True)
    with workers.handed_down():
        process.start()
    theirs.close()  # only the worker holds its end now, so its death closes the pipe
    return process, connection


def wait(connection: Connection, imports: bool) -> None:
    """Be a worker: see `lab.gpu.process.worker.main`."""
    from lab.gpu.process.worker import main  # noqa: PLC0415 - the process that starts one need not import this

    if imports:
        with contextlib.suppress(ImportError, OSError, RuntimeError):  # the parent is told when the device is opened
            from lab.gpu.device import cuda  # noqa: F401, PLC0415 - only a worker imports PyCUDA
    with contextlib.suppress(EOFError, OSError):  # it is not needed after all
        main(connection, connection.recv())
