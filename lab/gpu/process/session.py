"""The parent's side: start the worker, hand it jobs, replace it when it hangs or dies.

::

    with GpuSession() as session:
        gpu = session.start()
        for job in jobs:
            result = session.run(job, policy)
        best = remeasure(session, best_job, best_result, policy)
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Self

from lab.base.errors import MissingToolError
from lab.gpu.device.backend import Backend
from lab.gpu.process.job import Failure, Job, JobResult, Policy, Stage
from lab.gpu.process.worker import Answer, Order, Progress, Ready, SurveyAnswer, Unusable, cuda_backend, main
from lab.gpu.timing.survey import BASELINE, Point, Survey
from lab.measured.timing import GpuDescription

START_TIMEOUT_S = 120.0
"""Importing PyCUDA, initialising CUDA and creating a context take seconds on a cold machine."""
_KILL_TIMEOUT_S = 30.0
"""The driver stops a running kernel before the process is gone."""
_STOP_TIMEOUT_S = 5.0


class _EndedError(Exception):
    """The worker is gone; the message says how it ended, `killed` whether by someone's SIGKILL."""

    def __init__(self, message: str, *, killed: bool) -> None:
        self.killed = killed
        super().__init__(message)


class _SilentError(Exception):
    """The worker gave no sign of life within the limit."""


class GpuSession:
    """A worker on the first visible GPU, replaced whenever a job costs it. Use as a context manager.

    Attributes:
        workers: How many were started so far.

    Starting a process re-imports the main module, as `multiprocessing` does: a script that uses this class keeps
    its own work under ``if __name__ == "__main__":``.
    """

    def __init__(self, backend: Callable[[], Backend] = cuda_backend) -> None:
        """Prepare; nothing starts yet.

        Args:
            backend: Called in the worker to open the device. Must be importable there: a function or class of a
                module.
        """
        self._backend = backend
        self._context = multiprocessing.get_context("spawn")
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
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
            self._kill()  # an interrupted job may never return

    @property
    def process_id(self) -> int | None:
        """The worker's process id, while there is a worker."""
        return None if self._process is None else self._process.pid

    def start(self, timeout: float = START_TIMEOUT_S) -> GpuDescription:
        """Start the worker, unless it runs.

        Args:
            timeout: Seconds to wait for it.

        Raises:
            MissingToolError: there is no usable GPU or PyCUDA is missing; the message says what installs it.
        """
        if self._process is not None and self._process.is_alive() and self._description is not None:
            return self._description
        self._kill()
        connection, theirs = self._context.Pipe()
        process = self._context.Process(target=main, args=(theirs, self._backend), name="lab-gpu", daemon=True)
        with _ignoring_interrupts():
            process.start()
        theirs.close()  # so that the worker's end is the last one and its death closes the pipe
        self._process, self._connection = process, connection
        self.workers += 1
        self._sent = set()
        self._description = self._await_ready(timeout)
        return self._description

    def run(self, job: Job, policy: Policy, *, again: bool = False) -> JobResult:
        """Run one job, in a new worker if the last job cost the old one.

        Whatever the job does, a result comes back: a hang, a crash or a CUDA error is this job's failure and costs
        no other. A worker that someone kills is replaced once, and the job starts over.

        Args:
            job: The job.
            policy: How to check and time it.
            again: A worker was killed over it before.

        Raises:
            MissingToolError: no worker has run yet and none can start.
        """
        if reason := self._not_started():
            return _failed(job, Stage.CRASH, reason)
        try:
            answer = self._exchange(Order(job, policy))
        except _SilentError as error:
            self._kill()
            return _failed(job, Stage.TIMEOUT, str(error))
        except _EndedError as error:
            self._kill()
            if error.killed and not again and not self._closed:
                return self.run(job, policy, again=True)
            return _failed(job, Stage.CRASH, str(error))
        except BaseException:  # Ctrl-C: the worker must not go on
            self._kill()
            raise
        if not answer.usable:
            self._kill()
        return answer.result

    def survey(self, order: Survey, cubins: Mapping[str, bytes]) -> tuple[Point, ...]:
        """Time many kernels at one size.

        A kernel that costs the worker is a point that says so, and the others are done again in a new worker.

        Args:
            order: The size and the kernels, without machine code.
            cubins: Machine code of all kernels; a worker is sent each once.

        Raises:
            MissingToolError: no worker has run yet and none can start.
        """
        lost: list[Point] = []
        entrants, baseline = order.entrants, order.baseline
        while entrants or baseline:
            if reason := self._not_started():
                return (*lost, *(Point(one.kernel, failure=reason) for one in entrants))
            new = {one.kernel: cubins[one.kernel] for one in entrants if one.kernel not in self._sent}
            answer = self._surveyed(replace(order, entrants=entrants, baseline=baseline, cubins=new))
            if answer.usable:
                self._sent.update(new)
                return (*lost, *answer.points)
            self._kill()
            (fault,) = answer.points
            blamed = {fault.kernel}
            if fault.kernel not in {*(one.kernel for one in entrants), BASELINE}:
                blamed = {BASELINE, *(one.kernel for one in entrants)}  # nobody's in particular: nothing is left to try
            lost += [replace(fault, kernel=one.kernel) for one in entrants if one.kernel in blamed]
            if baseline and BASELINE in blamed:
                baseline, lost = False, [*lost, replace(fault, kernel=BASELINE)]
            entrants = tuple(one for one in entrants if one.kernel not in blamed)
        return tuple(lost)

    def _not_started(self) -> str:
        """Start the worker; why none starts in place of an earlier one, which costs this piece of work alone, or empty.

        Raises:
            MissingToolError: no worker has run yet and none can start.
        """
        known = self._description is not None
        try:
            self.start()
        except MissingToolError as error:
            if not known:
                raise
            return f"a new worker could not start: {error}"
        return ""

    def _surveyed(self, order: Survey) -> SurveyAnswer:
        """The worker's answer; of one that hangs or dies, the kernel that it was at."""
        assert self._connection is not None  # noqa: S101 - `start` has run
        subject = activity = ""
        try:
            self._connection.send(order)
            while True:
                message = self._receive(order.policy.timeout_s, activity)
                if isinstance(message, SurveyAnswer):
                    return message
                if isinstance(message, Progress):
                    subject, activity = message.subject, message.activity
        except (_SilentError, _EndedError) as error:
            return SurveyAnswer((Point(subject, failure=str(error)),), usable=False)
        except OSError:
            return SurveyAnswer((Point(subject, failure=str(self._ended(activity))),), usable=False)
        except BaseException:  # Ctrl-C: the worker must not go on
            self._kill()
            raise

    def restart(self) -> GpuDescription:
        """End the worker and start a fresh one.

        Raises:
            MissingToolError: it cannot start.
        """
        self.close()
        return self.start()

    def close(self) -> None:
        """End the worker in order; kill it where it does not answer."""
        if self._process is not None and self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.send(None)
            self._process.join(_STOP_TIMEOUT_S)
        self._kill()

    def _await_ready(self, timeout: float) -> GpuDescription:
        try:
            message = self._receive(timeout, "starting")
        except (_SilentError, _EndedError) as error:
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

    def _exchange(self, order: Order) -> Answer:
        assert self._connection is not None  # noqa: S101 - `start` has run
        try:
            self._connection.send(order)
        except OSError as error:
            raise self._ended() from error
        limit, activity = order.policy.host_timeout_s, "inputs"
        while True:
            message = self._receive(limit, activity)
            if isinstance(message, Answer):
                return message
            if isinstance(message, Progress):
                activity = message.activity
                limit = order.policy.host_timeout_s if message.on_host else order.policy.timeout_s

    def _receive(self, limit: float, activity: str) -> object:
        """The worker's next message.

        Raises:
            _SilentError: none came in time.
            _EndedError: the worker is gone.
        """
        assert self._connection is not None  # noqa: S101 - `start` has run
        assert self._process is not None  # noqa: S101
        deadline = time.monotonic() + limit
        while not self._connection.poll():
            left = deadline - time.monotonic()
            if left <= 0:
                raise _SilentError(f"timed out after {limit:g} s ({activity})")
            ready = wait([self._connection, self._process.sentinel], left)
            if ready == [self._process.sentinel] and not self._connection.poll():
                raise self._ended(activity)
        try:
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._ended(activity) from error

    def _ended(self, activity: str = "") -> _EndedError:
        """How the worker ended, in words, and what it was at."""
        assert self._process is not None  # noqa: S101 - `start` has run
        self._process.join(_STOP_TIMEOUT_S)
        code, doing = self._process.exitcode, f" ({activity})" if activity else ""
        if code is None:
            return _EndedError(f"worker closed its pipe{doing}", killed=False)
        if code >= 0:
            return _EndedError(f"worker ended with exit code {code}{doing}", killed=False)
        try:
            name = f" ({signal.Signals(-code).name})"
        except ValueError:
            name = ""
        return _EndedError(f"worker ended by signal {-code}{name}{doing}", killed=code == -signal.SIGKILL)

    def _kill(self) -> None:
        """End the worker at once, whatever it does."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is None:
            return
        if process.is_alive():
            process.kill()
        process.join(_KILL_TIMEOUT_S)
        with contextlib.suppress(ValueError):  # the driver still holds it: nothing more can be done here
            process.close()


def remeasure(session: GpuSession, job: Job, result: JobResult, policy: Policy, *, restart: bool = True) -> JobResult:
    """Measure a sweep's winner again in a fresh process.

    Args:
        session: Its worker is replaced.
        job: The winner.
        result: Its first result, with a measurement.
        policy: As for the first time.
        restart: Replace the worker; False where it is a fresh one already, after the winner of another problem.

    Returns:
        `result` with the new samples in `Measurement.remeasured`, or with a note saying why there are none.
    """
    if result.measurement is None:
        return result
    first = result.measurement
    try:
        if restart:
            session.restart()
        again = session.run(job, policy)
    except MissingToolError as error:
        again = _failed(job, Stage.CRASH, str(error))
    if again.measurement is None:
        reason = again.failure.reason if again.failure else "no measurement"
        note = f"measured once only: the repetition in a fresh process failed: {reason}"
        return replace(result, measurement=replace(first, notes=(*first.notes, note)))
    second = again.measurement
    change = second.samples.median / first.samples.median - 1
    note = f"in a fresh process: median {second.samples.median:.6g} ms ({change:+.1%})"
    if second.ratio_to_baseline is not None:
        note += f", {second.ratio_to_baseline:.3f} of {second.baseline_name}'s throughput there"
    notes = (*first.notes, note, *(f"in the fresh process: {text}" for text in second.notes))
    return replace(result, measurement=replace(first, remeasured=second.samples, notes=notes))


def _failed(job: Job, stage: Stage, reason: str) -> JobResult:
    return JobResult(job.variant, failure=Failure(stage, " ".join(reason.split())))


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """A process started meanwhile ignores SIGINT from its first instruction on, since exec keeps that."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers; the worker sets its own a moment later
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
