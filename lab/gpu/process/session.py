"""The parent's side: start the worker, send it jobs, replace it when it hangs or dies.

::

    with GpuSession() as session:
        gpu = session.start()
        for job in jobs:
            result = session.run(job, policy)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from lab.base.errors import MissingToolError
from lab.gpu.device.backend import Backend
from lab.gpu.process.job import Job, JobResult, JobStage, Policy
from lab.gpu.process.messages import JobOrder, Progress, Ready, Reply, SurveyReply, Unusable
from lab.gpu.process.worker import cuda_backend
from lab.gpu.process.worker_link import WorkerEndedError, WorkerLink, WorkerSilentError, start_worker
from lab.gpu.timing.survey import BASELINE, Survey, SurveyPoint
from lab.measured.timing import GpuDescription
from lab.operators.builtin import suspect

START_TIMEOUT_S: Final = 120.0
"""Importing PyCUDA, initialising CUDA and creating a context take seconds on a cold machine."""


class GpuSession:
    """A worker on one GPU, replaced after a hang or a crash. Use as a context manager.

    Starting a process imports the main module again, as `multiprocessing` does: a script that uses this class must
    guard its own work with ``if __name__ == "__main__":``.

    Attributes:
        workers: Number of workers started so far.
    """

    def __init__(
        self,
        backend: Callable[[], Backend] = cuda_backend,
        starter: Callable[[Callable[[], Backend]], WorkerLink] = start_worker,
    ) -> None:
        """Configure the session; nothing starts yet.

        Args:
            backend: Called in the worker to open the device. It must be importable there: a function or class of a
                module.
            starter: Starts a worker for that backend.
        """
        self._backend, self._starter = backend, starter
        self._link: WorkerLink | None = None
        self._description: GpuDescription | None = None
        self._closed = False
        self._sent: set[str] = set()
        self.workers = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._closed = True
            self._kill()  # an interrupted job may not return

    @property
    def process_id(self) -> int | None:
        """The worker's process id, while there is a worker."""
        return None if self._link is None else self._link.process_id

    def start(self, timeout: float = START_TIMEOUT_S) -> GpuDescription:
        """Start the worker, unless it is running.

        Args:
            timeout: Seconds to wait for it.

        Raises:
            MissingToolError: There is no usable GPU, or PyCUDA is missing; the message says what installs it.
        """
        if self._link is not None and self._link.is_alive() and self._description is not None:
            return self._description
        self._kill()
        self._link = self._starter(self._backend)
        self.workers += 1
        self._sent = set()
        self._description = self._await_ready(self._link, timeout)
        return self._description

    def run(self, job: Job, policy: Policy) -> JobResult:
        """Run one job, in a new worker if the last job lost the old one.

        A result is always returned: a hang, a crash or a CUDA error fails this job and no
        other. If another process kills the worker, it is replaced once and the job starts again.

        Args:
            job: The job.
            policy: How to check and time it.

        Raises:
            MissingToolError: No worker has run yet and none can start.
        """
        return self._run(job, policy, again=False)

    def survey(self, order: Survey, cubins: Mapping[str, bytes]) -> tuple[SurveyPoint, ...]:
        """Time many kernels at one size.

        A kernel that hangs or crashes the worker gets a failed point, and the others run again in a new worker.

        Args:
            order: The size and the kernels, without machine code.
            cubins: Machine code of all kernels; each is sent to a worker once.

        Raises:
            MissingToolError: No worker has run yet and none can start.
        """
        lost: list[SurveyPoint] = []
        entrants, baseline = order.entrants, order.baseline
        while entrants or baseline:
            if reason := self._not_started():
                return (*lost, *(SurveyPoint(entrant.kernel, failure=reason) for entrant in entrants))
            new = {entrant.kernel: cubins[entrant.kernel] for entrant in entrants if entrant.kernel not in self._sent}
            answer = self._surveyed(replace(order, entrants=entrants, baseline=baseline, cubins=new))
            if answer.usable:
                self._sent.update(new)
                return (*lost, *answer.points)
            self._kill()
            (fault,) = answer.points
            blamed = {fault.kernel}
            if fault.kernel not in {*(entrant.kernel for entrant in entrants), BASELINE}:
                blamed = {BASELINE, *(entrant.kernel for entrant in entrants)}  # no kernel at fault: nothing to retry
            lost += [replace(fault, kernel=entrant.kernel) for entrant in entrants if entrant.kernel in blamed]
            if baseline and BASELINE in blamed:
                baseline, lost = False, [*lost, replace(fault, kernel=BASELINE)]
            entrants = tuple(entrant for entrant in entrants if entrant.kernel not in blamed)
        return tuple(lost)

    def restart(self) -> GpuDescription:
        """Replace the worker with a new one.

        Raises:
            MissingToolError: It cannot start.
        """
        link, self._link = self._link, None
        with ThreadPoolExecutor(1) as beside:  # destroying a context takes a moment, as does creating one
            ended = beside.submit(link.stop) if link is not None else None
            description = self.start()
            if ended is not None:
                ended.result()
        return description

    def close(self) -> None:
        """Shut the worker down; kill it if it does not answer."""
        link, self._link = self._link, None
        if link is not None:
            link.stop()

    def _kill(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.kill()

    def _run(self, job: Job, policy: Policy, *, again: bool) -> JobResult:
        """Run a job; `again` means that its worker was killed once already."""
        result = JobResult(job.variant)
        if reason := self._not_started():
            return result.failed(JobStage.CRASH, reason)
        try:
            answer = self._exchange(JobOrder(job, policy))
        except WorkerSilentError as error:
            self._kill()
            return result.failed(JobStage.TIMEOUT, str(error))
        except WorkerEndedError as error:
            self._kill()
            if error.killed and not again and not self._closed:
                return self._run(job, policy, again=True)
            return result.failed(JobStage.CRASH, str(error))
        except BaseException:  # Ctrl-C: the worker must not go on
            self._kill()
            raise
        if not answer.usable:
            self._kill()
        return answer.result

    def _exchange(self, order: JobOrder) -> Reply:
        link = self._link  # the thread that ends the session may clear it
        assert link is not None  # noqa: S101 - `start` has run
        link.send(order)
        activity, on_host = "inputs", True
        while True:
            limit = order.policy.host_timeout_s if on_host else order.policy.timeout_s
            try:
                message = link.receive(limit, activity)
            except WorkerEndedError as error:
                if not on_host:
                    raise
                raise WorkerEndedError(f"{error}{suspect(order.job.operator)}", killed=error.killed) from error
            if isinstance(message, Reply):
                return message
            if isinstance(message, Progress):
                activity, on_host = message.activity, message.on_host

    def _surveyed(self, order: Survey) -> SurveyReply:
        """Return the worker's answer, or a failed point of the running kernel if the worker hangs or dies."""
        link = self._link  # as above
        assert link is not None  # noqa: S101 - `start` has run
        subject = activity = ""
        try:
            link.send(order)
            while True:
                message = link.receive(order.policy.timeout_s, activity)
                if isinstance(message, SurveyReply):
                    return message
                if isinstance(message, Progress):
                    subject, activity = message.subject, message.activity
        except (WorkerSilentError, WorkerEndedError) as error:
            silent = isinstance(error, WorkerSilentError)
            return SurveyReply((SurveyPoint(subject, failure=str(error), silent=silent),), usable=False)
        except BaseException:  # Ctrl-C: the worker must not go on
            self._kill()
            raise

    def _not_started(self) -> str:
        """Start the worker.

        Returns:
            Why no new worker starts, which fails only the current job or survey; empty if a worker runs.

        Raises:
            MissingToolError: No worker has run yet and none can start.
        """
        had_worker = self._description is not None
        try:
            self.start()
        except MissingToolError as error:
            if not had_worker:
                raise
            return f"a new worker could not start: {error}"
        return ""

    def _await_ready(self, link: WorkerLink, timeout: float) -> GpuDescription:
        try:
            message = link.receive(timeout, "starting")
        except (WorkerSilentError, WorkerEndedError) as error:
            self._kill()
            raise MissingToolError(f"the GPU worker did not start: {error}") from error
        except BaseException:
            self._kill()
            raise
        if isinstance(message, Ready):
            return message.description
        self._kill()
        reason = message.reason if isinstance(message, Unusable) else f"unexpected message {message!r}"
        raise MissingToolError(reason)
