"""A session's jobs, one after another on a thread: the caller goes on with other work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from lab.gpu.process.job import Job, JobResult, Policy
from lab.gpu.process.session import GpuSession
from lab.gpu.timing.survey import Point, Survey

Answer = TypeVar("Answer")


class GpuLine:
    """A session on a thread of its own: jobs wait in line while other work goes on. Use as a context manager."""

    def __init__(self, session: GpuSession) -> None:
        """Start the worker; whether that succeeds shows when the first job is asked for."""
        self._session = session
        self._thread = ThreadPoolExecutor(1, "lab-gpu-line")
        self._started = self._thread.submit(session.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._session.__exit__(kind, error, trace)  # frees the thread from a job that would not end
        self._thread.shutdown()

    def submit(self, job: Job, policy: Policy) -> Future[tuple[JobResult, int]]:
        """Put a job in line.

        Returns:
            Its result, and the number of the worker that made it, from 1; raises MissingToolError where no worker could
            start at all.
        """
        return self._thread.submit(self._run, job, policy)

    def survey(self, order: Survey, cubins: Mapping[str, bytes]) -> Future[tuple[Point, ...]]:
        """Put a survey in line; as `GpuSession.survey`."""
        return self._thread.submit(self._survey, order, cubins)

    def ask(self, question: Callable[[GpuSession], Answer]) -> Answer:
        """Have the session do something else, after all jobs in line, and wait for it."""
        return self._thread.submit(question, self._session).result()

    def _survey(self, order: Survey, cubins: Mapping[str, bytes]) -> tuple[Point, ...]:
        self._started.result()
        return self._session.survey(order, cubins)

    def _run(self, job: Job, policy: Policy) -> tuple[JobResult, int]:
        self._started.result()
        return self._session.run(job, policy), self._session.workers
