"""A thread that writes files and records, since syncing a disk takes as long as measuring a kernel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self

P = ParamSpec("P")

MOST_PENDING = 64
"""The most pending tasks; `Writer.do` waits for room, so that a slow disk does not fill the memory."""


class Writer:
    """A thread that runs tasks in order. Use as a context manager.

    What a piece raises is raised by the next call of `do`, or on leaving the context; later pieces are not done then.
    Leaving the context, even by an exception, waits for all pieces: whatever was finished is on disk.
    """

    def __init__(self) -> None:
        """Start with an empty queue."""
        self._thread = ThreadPoolExecutor(1, "lab-writer")
        self._pending: deque[Future[None]] = deque()
        self._failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True)
        if kind is None:
            self._raise_errors()

    def do(self, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Queue a task, waiting while the queue is full.

        Args:
            work: The function to call.
            args: Its arguments.
            kwargs: Its keyword arguments.

        Raises:
            StoreError: an earlier piece could not be written.
        """
        self._raise_errors()
        if len(self._pending) >= MOST_PENDING:
            self._pending.popleft().result()
        self._pending.append(self._thread.submit(partial(self._unless_failed, work, *args, **kwargs)))

    def _unless_failed(self, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        if self._failed:
            return
        try:
            work(*args, **kwargs)
        except BaseException:
            self._failed = True
            raise

    def _raise_errors(self) -> None:
        while self._pending and self._pending[0].done():
            self._pending.popleft().result()
