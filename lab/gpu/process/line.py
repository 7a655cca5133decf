"""The GPU's queue: a session runs jobs one after another on a thread, while the caller does other work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from lab.gpu.process.job import Job, JobResult, Policy
from lab.gpu.process.session import GpuSession
from lab.gpu.timing.survey import Survey, SurveyPoint

T = TypeVar("T")


class GpuLine:
    """A session on a thread of its own. Use as a context manager."""

    def __init__(self, session: GpuSession) -> None:
        """Start the worker; if that fails, the first job raises the error.

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
        self._session.__exit__(kind, error, trace)  # frees the thread from a job that does not end
        self._thread.shutdown()

    def submit(self, job: Job, policy: Policy) -> Future[tuple[JobResult, int]]:
        """Add a job to the queue.

        Returns:
            Its result and the number of the worker that ran it, counted from 1. The future raises MissingToolError if
            no worker could start at all.
        """
        return self._thread.submit(self._run, job, policy)

    def survey(self, order: Survey, cubins: Mapping[str, bytes]) -> Future[tuple[SurveyPoint, ...]]:
        """Add a survey to the queue; see `GpuSession.survey`."""
        return self._thread.submit(self._survey, order, cubins)

    def ask(self, question: Callable[[GpuSession], T]) -> T:
        """Call a function with the session after all queued jobs, and wait for its result."""
        return self._thread.submit(question, self._session).result()

    def _survey(self, order: Survey, cubins: Mapping[str, bytes]) -> tuple[SurveyPoint, ...]:
        self._started.result()
        return self._session.survey(order, cubins)

    def _run(self, job: Job, policy: Policy) -> tuple[JobResult, int]:
        self._started.result()
        return self._session.run(job, policy), self._session.workers
