"""One card's job queue: a session runs requests in order on its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from lab.gpu.process.session import GpuSession

T = TypeVar("T")


class GpuLine:
    """A session on its own thread. Use as a context manager."""

    def __init__(self, session: GpuSession) -> None:
        """Start the worker; if that fails, the first request raises the error.

        Args:
            session: Closed when the context ends; if an exception ends it, its worker is killed.
        """
        self._session = session
        self._thread = ThreadPoolExecutor(1, "lab-gpu-line")
        self._started = self._thread.submit(session.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._session.__exit__(kind, error, trace)  # unblocks the thread from a job that does not end
        self._thread.shutdown()

    def put(self, request: Callable[[GpuSession], T]) -> Future[T]:
        """Queue a function to call with the session, after all earlier ones.

        Returns:
            Its result. The future raises MissingToolError if no worker could start at all.
        """
        return self._thread.submit(self._ask, request)

    def leave(self) -> None:
        """Cancel queued requests and kill the worker on a separate thread, since the driver may delay its exit."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        ending = (ConnectionAbortedError, None, None)
        threading.Thread(target=self._session.__exit__, args=ending, name="lab-gpu-end", daemon=True).start()

    def _ask(self, request: Callable[[GpuSession], T]) -> T:
        self._started.result()
        return request(self._session)
