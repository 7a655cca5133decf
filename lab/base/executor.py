"""Where work runs: the protocol that a scheduler needs, and this machine's worker processes behind it.

An executor on a cluster (Dask, say) implements the same three members and can take the place of `ProcessExecutor`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from pebble import ProcessExpired

from lab.base import workers
from lab.base.errors import LabError


class WorkerLostError(LabError):
    """A worker process ended before its work did."""

    def __init__(self, message: str, *, killed: bool) -> None:
        """Describe the loss.

        Args:
            message: How the process ended.
            killed: SIGKILL ended it, which comes from outside (a user, the kernel short of memory): the work itself
                may well succeed another time.
        """
        self.killed = killed
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(WorkerLostError, killed=self.killed), (str(self),)


class Executor(Protocol):
    """Runs functions on workers. Use as a context manager: leaving it stops the workers, an error stops them at once.

    Attributes:
        workers: How many functions run at a time.
    """

    @property
    def workers(self) -> int:
        """How many functions run at a time."""

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:  # noqa: ANN401
        """Run a function of a module on a worker.

        Args:
            function: What to run; it and its arguments can be pickled.
            args: Its arguments.
            timeout_s: Seconds after which it is stopped.

        Returns:
            Its result. `Future.result` raises what the function raised, `TimeoutError` after `timeout_s` seconds,
            `MemoryError` where it needed more than its share, and `WorkerLostError` where its worker ended.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ProcessExecutor:
    """Worker processes of this machine, each with its share of the memory."""

    def __init__(self, jobs: int, memory_of: int | None = None) -> None:
        """Prepare `jobs` processes; they start with the first piece of work. See `workers.pool`."""
        self._jobs, self._pool = jobs, workers.pool(jobs, memory_of)

    @property
    def workers(self) -> int:
        """How many functions run at a time."""
        return self._jobs

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:  # noqa: ANN401
        """Run a function in a process; see `Executor.submit`."""
        promised: Future[Any] = Future()
        promised.set_running_or_notify_cancel()
        scheduled = self._pool.schedule(function, args=list(args), timeout=timeout_s)
        scheduled.add_done_callback(partial(_hand_over, promised))
        return promised

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workers.end(self._pool, finished=kind is None)


def _hand_over(promised: Future[Any], scheduled: Future[Any]) -> None:
    """Pass on a result, or an error in this module's terms."""
    if scheduled.cancelled():
        promised.set_exception(WorkerLostError("the workers were stopped", killed=False))
        return
    error = scheduled.exception()
    if error is None:
        promised.set_result(scheduled.result())
    elif isinstance(error, ProcessExpired):
        promised.set_exception(WorkerLostError(str(error), killed=error.exitcode == -signal.SIGKILL))
    else:
        promised.set_exception(error)
