"""The parent's end of one worker process: start it, send to it, wait for its messages, stop it."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, Protocol

from lab.gpu.device.backend import Backend
from lab.gpu.process import ahead

_KILL_TIMEOUT_S: Final = 30.0
"""Time for the driver to stop a running kernel before the process exits."""

_STOP_TIMEOUT_S: Final = 5.0


class WorkerEndedError(Exception):
    """The worker is gone; the message says how it ended."""

    def __init__(self, message: str, *, killed: bool) -> None:
        """Describe how the worker ended.

        Args:
            message: One line.
            killed: Whether another process sent it SIGKILL.
        """
        self.killed = killed
        super().__init__(message)


class WorkerSilentError(Exception):
    """The worker sent no heartbeat within the limit."""


class WorkerLink(Protocol):
    """A worker as a session uses it."""

    @property
    def process_id(self) -> int | None:
        """Id of the worker's process."""

    def is_alive(self) -> bool:
        """Return whether the process is running."""

    def send(self, message: object, activity: str = "") -> None:
        """Send a message.

        Raises:
            WorkerEndedError: The worker is gone.
        """

    def receive(self, limit: float, activity: str) -> object:
        """Wait for the next message.

        Args:
            limit: Seconds to wait.
            activity: What the worker is doing, for the error.

        Raises:
            WorkerSilentError: No message came in time.
            WorkerEndedError: The worker is gone.
        """

    def stop(self) -> None:
        """Shut the worker down; kill it if it does not answer."""

    def kill(self) -> None:
        """Kill the worker at once, whatever it is doing."""


class WorkerProcess:
    """A worker in its own process."""

    def __init__(
        self,
        process: BaseProcess,
        connection: Connection,
        now: Callable[[], float] = time.monotonic,
        ready: Callable[[Sequence[Any], float], list[Any]] = wait,
    ) -> None:
        """Wrap a running worker process; `start_worker` starts one.

        Args:
            process: The worker's process.
            connection: The parent's end of the pipe.
            now: The host's clock, in seconds.
            ready: Waits until some of the given objects are ready, or for at most some seconds.
        """
        self._process, self._connection, self._now, self._ready = process, connection, now, ready

    @property
    def process_id(self) -> int | None:
        """Id of the worker's process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Return whether the process is running."""
        return self._process.is_alive()

    def send(self, message: object, activity: str = "") -> None:
        """Send a message; see `WorkerLink.send`."""
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._ended(activity) from error

    def receive(self, limit: float, activity: str) -> object:
        """Wait for the next message; see `WorkerLink.receive`."""
        deadline = self._now() + limit
        while not self._connection.poll():
            remaining = deadline - self._now()
            if remaining <= 0:
                raise WorkerSilentError(f"timed out after {limit:g} s ({activity})")
            ready = self._ready([self._connection, self._process.sentinel], remaining)
            if ready == [self._process.sentinel] and not self._connection.poll():
                raise self._ended(activity)
        try:
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._ended(activity) from error

    def stop(self) -> None:
        """Shut the worker down; kill it if it does not answer."""
        with contextlib.suppress(OSError):
            self._connection.send(None)
        self._process.join(_STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        """Kill the worker at once, whatever it is doing."""
        self._connection.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join(_KILL_TIMEOUT_S)
        with contextlib.suppress(ValueError):  # the driver still holds it
            self._process.close()

    def _ended(self, activity: str) -> WorkerEndedError:
        """Describe how the worker ended and what it was doing."""
        self._process.join(_STOP_TIMEOUT_S)
        code, doing = self._process.exitcode, f" ({activity})" if activity else ""
        if code is None:
            return WorkerEndedError(f"worker closed its pipe{doing}", killed=False)
        if code >= 0:
            return WorkerEndedError(f"worker ended with exit code {code}{doing}", killed=False)
        try:
            name = f" ({signal.Signals(-code).name})"
        except ValueError:
            name = ""
        return WorkerEndedError(f"worker ended by signal {-code}{name}{doing}", killed=code == -signal.SIGKILL)


def start_worker(backend: Callable[[], Backend]) -> WorkerProcess:
    """Start a worker process.

    A spare worker is used if there is one; see `lab.gpu.process.ahead`.

    Args:
        backend: Called in the worker to open the device. It must be importable there: a function or class of a module.
    """
    process, connection = ahead.take() or ahead.started(imports=False)
    worker = WorkerProcess(process, connection)
    with contextlib.suppress(WorkerEndedError):  # waiting for its first message reports how it ended
        worker.send(backend, "starting")
    return worker
