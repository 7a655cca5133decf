"""Where the separate parts of a report are made: here, one after another, or side by side in worker processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Final, Protocol

from lab.base.executor import Executor

Call = tuple[Any, ...]
"""A function of a module, and its arguments."""

TIMEOUT_S: Final = 300.0
"""Most seconds for one part."""


class Aside(Protocol):
    """Carries out calls that do not depend on one another."""

    def begin(self, calls: Iterable[Call]) -> Callable[[], list[Any]]:
        """Begin calls, and return what waits for their results, in order; it raises what the first one raised."""

    def each(self, calls: Iterable[Call]) -> Iterator[Any]:
        """Yield the results of calls in order; few of them are ahead of what was taken."""


class _Here:
    """This thread."""

    def begin(self, calls: Iterable[Call]) -> Callable[[], list[Any]]:
        """Carry them out now."""
        results = list(self.each(calls))
        return lambda: results

    def each(self, calls: Iterable[Call]) -> Iterator[Any]:
        """Carry each out when its result is asked for."""
        return (function(*args) for function, *args in calls)


HERE: Final[Aside] = _Here()


class Crew:
    """Worker processes."""

    def __init__(self, executor: Executor) -> None:
        """Use an executor; leaving its context ends what is under way."""
        self._executor = executor

    def begin(self, calls: Iterable[Call]) -> Callable[[], list[Any]]:
        """Hand out all of them."""
        futures = [self._begun(call) for call in calls]
        return lambda: [future.result() for future in futures]

    def each(self, calls: Iterable[Call]) -> Iterator[Any]:
        """Hand out twice as many as there are processes, and another one for each result that is taken."""
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
