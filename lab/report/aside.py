"""Execution of a report's independent parts: in this thread, or side by side in worker processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Final, Protocol

from lab.base.executor import Executor

Call = tuple[Any, ...]
"""A module-level function and its arguments."""

TIMEOUT_S: Final = 300.0
"""Time limit for one part, in seconds."""


class Aside(Protocol):
    """Executor of independent calls."""

    def begin(self, calls: Iterable[Call]) -> Callable[[], list[Any]]:
        """Begin calls; return a function that waits for their results, in order, and raises the first error."""

    def each(self, calls: Iterable[Call]) -> Iterator[Any]:
        """Yield the results of calls in order, running only a few ahead."""


class _Here:
    """Execution in this thread."""

    def begin(self, calls: Iterable[Call]) -> Callable[[], list[Any]]:
        """Execute them now."""
        results = list(self.each(calls))
        return lambda: results

    def each(self, calls: Iterable[Call]) -> Iterator[Any]:
        """Execute each when its result is requested."""
        return (function(*args) for function, *args in calls)


HERE: Final[Aside] = _Here()


class Crew:
    """Execution in worker processes."""

    def __init__(self, executor: Executor) -> None:
        """Use an executor; leaving its context ends running calls."""
        self._executor = executor

    def begin(self, calls: Iterable[Call]) -> Callable[[], list[Any]]:
        """Submit all of them."""
        futures = [self._begun(call) for call in calls]
        return lambda: [future.result() for future in futures]

    def each(self, calls: Iterable[Call]) -> Iterator[Any]:
        """Submit twice as many as there are processes, and one more for each result taken."""
        ahead: deque[Future[Any]] = deque()
        for call in calls:
            ahead.append(self._begun(call))
            if len(ahead) > 2 * self._executor.workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()

    def _begun(self, call: Call) -> Future[Any]:
        function, *args = call
        return self._executor.submit(function, *args, timeout_s=TIMEOUT_S)
