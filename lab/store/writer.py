"""Files and records written on a thread of their own: a disk's syncs take as long as a kernel's measurement."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self

P = ParamSpec("P")

MOST_PENDING = 64
"""Pieces in line before whoever has more waits: a slow disk must not fill the memory."""


class Writer:
    """Does pieces of work one after another, in the order in which they were given. Use as a context manager.

    What a piece raises is raised by the next call, or at the end; nothing that came after it is done then. Leaving the
    context, by whatever, waits for what was given: what was finished is on disk.
    """

    def __init__(self) -> None:
        """Nothing is under way."""
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
        """Put a piece of work in line.

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
