"""The worker process: the only place where a kernel runs.

A kernel can hang, trap or write where it must not, and any of these may cost the CUDA context. The worker
is therefore expendable: it takes one job at a time over a pipe, says which stage it is in, answers with a result
and whether it can go on. `lab.gpu.process.session` watches it from outside.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from lab.base.errors import MissingToolError
from lab.gpu.baselines.cublas import PLAIN_ARITHMETIC
from lab.gpu.device.backend import Backend, Baseline, BaselineMissingError, DeviceError, Launch, RefusedError
from lab.gpu.device.describe import probe
from lab.gpu.process.job import BaselineResult, Failure, Flush, Job, JobResult, Policy, Stage
from lab.gpu.timing.measure import Clockwork, Contender, measure
from lab.gpu.timing.survey import Point, Survey, Surveyor
from lab.measured.timing import GpuDescription, Verification
from lab.operators.base import Array, Expected, Inputs, Operator, Problem
from lab.operators.builtin import operator

ALIVE_EVERY_S = 0.2
"""Least time between two signs of life."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Worker to parent: the GPU is open."""

    description: GpuDescription


@dataclass(frozen=True, slots=True)
class Unusable:
    """Worker to parent: there is no GPU to open."""

    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Worker to parent: a sign of life.

    Attributes:
        activity: What begins, or goes on: ``launch``, ``measurement``.
        on_host: It waits for the host's own computing, not for the GPU.
        subject: Of a survey, the kernel that it is about.
    """

    activity: str
    on_host: bool
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Worker to parent: a job is done.

    Attributes:
        result: What became of it.
        usable: The worker can take another job.
    """

    result: JobResult
    usable: bool


@dataclass(frozen=True, slots=True)
class SurveyAnswer:
    """Worker to parent: a survey is done.

    Attributes:
        points: What became of its entrants; where the device failed, of the one at fault alone.
        usable: The worker can take another job.
    """

    points: tuple[Point, ...]
    usable: bool


@dataclass(frozen=True, slots=True)
class Order:
    """Parent to worker: run this. None in its place ends the worker."""

    job: Job
    policy: Policy


@dataclass(slots=True)
class _Data:
    """What jobs of the same problem share: on the host, and the baseline bound to their device buffers."""

    key: tuple[object, ...]
    operator: Operator[Any]
    problem: Problem
    inputs: Inputs
    reference: Mapping[str, Expected] | None = None
    elementwise: tuple[Mapping[str, Expected], float] | None = None
    baselines: dict[str, tuple[Baseline | None, BaselineResult]] = field(default_factory=dict)


def cuda_backend() -> Backend:
    """The backend that ships.

    Raises:
        MissingToolError: there is no GPU, or PyCUDA is missing.
    """
    found = probe()
    if isinstance(found, str):
        raise MissingToolError(found)
    from lab.gpu.device.cuda import CudaBackend  # noqa: PLC0415 - PyCUDA is imported in the worker only

    return CudaBackend()


def main(connection: Connection, factory: Callable[[], Backend]) -> None:
    """Serve jobs until the parent closes the pipe, sends None or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to act on
    os.environ.update(PLAIN_ARITHMETIC)
    os.dup2(2, 1)  # a kernel's printf must not land in what the command prints
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        backend = factory()
        connection.send(Ready(backend.describe()))
    except Exception as error:  # noqa: BLE001 - whatever is wrong here, the parent must hear of it
        connection.send(Unusable(_in_words(error)))
        return
    _serve(connection, Worker(backend, connection.send))
    backend.close()
    sys.stderr.flush()
    os._exit(0)  # the driver frees everything; destructors would only complain about the order


def _serve(connection: Connection, worker: Worker) -> None:
    while True:
        try:
            order: Order | Survey | None = connection.recv()
        except (EOFError, OSError):
            return
        if order is None:
            return
        answer = worker.survey(order) if isinstance(order, Survey) else worker.answer(order.job, order.policy)
        connection.send(answer)
        if not answer.usable:
            connection.close()
            os._exit(1)  # the context is lost: nothing can be released in order


def _end_with_parent() -> None:
    """A worker whose kernel hangs would outlive a killed parent and hold the GPU."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Worker:
    """Runs jobs on one backend, and keeps what the next job may need again."""

    def __init__(self, backend: Backend, send: Callable[[object], None]) -> None:
        """Work on this backend.

        Args:
            backend: The device.
            send: Sends `Progress` to the parent.
        """
        self._backend, self._send = backend, send
        self._data: _Data | None = None
        self._clockwork = Clockwork()
        self._activity = ""
        self._subject = ""
        self._last_sign = 0.0
        self._surveyor = Surveyor(backend, self._begin_with)

    def survey(self, order: Survey) -> SurveyAnswer:
        """Check and time many kernels at one size; what the device reports is the fault of the one that ran."""
        self._data = None  # its buffers make room
        try:
            return SurveyAnswer(self._surveyor.answer(order), usable=True)
        except self._backend.errors as error:
            reason = f"CUDA error: {_cuda_words(error)} ({self._activity})"
        except Exception as error:  # noqa: BLE001 - one kernel's fault must not end the run
            traceback.print_exc(file=sys.stderr)
            reason = f"{_in_words(error)} ({self._activity})"
        return SurveyAnswer((Point(self._subject, failure=" ".join(reason.split())),), usable=False)

    def answer(self, job: Job, policy: Policy) -> Answer:
        """Run one job; nothing that goes wrong in it is raised."""
        result = JobResult(job.variant)
        try:
            data = self._prepare(job)
        except Exception as error:  # noqa: BLE001 - an operator of the user's own may raise anything
            return Answer(_failed(result, Stage.PREPARE, _in_words(error)), usable=True)
        try:
            return Answer(self._run(job, policy, data, result), usable=True)
        except _FailedError as failed:
            return Answer(failed.result, usable=True)
        except RefusedError as error:
            return Answer(_failed(result, Stage.LAUNCH, str(error)), usable=True)
        except self._backend.errors as error:
            reason = f"CUDA error: {_cuda_words(error)} ({self._activity})"
            return Answer(_failed(result, Stage.LAUNCH, reason), usable=False)
        except Exception as error:  # noqa: BLE001 - one job's fault must not end the sweep
            traceback.print_exc(file=sys.stderr)
            reason = f"{_in_words(error)} ({self._activity})"
            return Answer(_failed(result, Stage.CRASH, reason), usable=False)

    def _prepare(self, job: Job) -> _Data:
        if self._data is None or self._data.key != job.data_key:
            self._data = None  # frees the old arrays first
            self._begin("inputs", on_host=True)
            computed = operator(job.operator, job.base)
            problem = computed.restored(job.problem)
            inputs = computed.inputs(problem, job.seed)
            data = _Data(job.data_key, computed, problem, inputs)
            self._begin("allocation")
            try:
                self._backend.load(inputs)
            except self._backend.errors as error:
                raise RuntimeError(f"the arrays do not fit on the GPU: {_cuda_words(error)}") from error
            self._data = data
        return self._data

    def _run(self, job: Job, policy: Policy, data: _Data, result: JobResult) -> JobResult:
        self._begin("upload")
        launch = self._backend.kernel(job)
        if policy.check:
            verification = self._checked(data, launch)
            result = replace(result, verification=verification)
            if not verification.passed:
                raise _FailedError(_failed(result, Stage.VERIFY, verification.worst or "the outputs are wrong"))
        if policy.launches:
            self._launch_alone(launch, policy)
        if not policy.measure:
            return result
        found = [self._baseline(name, policy, data) for name in (policy.baseline, *policy.others)]
        results = [described for _, described in found]
        result = replace(result, baseline=results[0], others=tuple(r for r in results[1:] if r))
        self._begin("upload")
        self._backend.upload()
        contenders = [Contender("kernel", launch)]
        contenders += [Contender(baseline.name, baseline.launch) for baseline, _ in found if baseline is not None]
        self._begin("measurement")
        measurement = measure(self._backend, contenders, policy, self._clockwork, self._alive)
        return replace(result, measurement=measurement)

    def _launch_alone(self, launch: Launch, policy: Policy) -> None:
        """Launch the sequence and nothing else that is a kernel."""
        self._begin("upload")
        self._backend.upload()
        if policy.flush is not Flush.OFF:
            self._backend.evict()
        self._begin("launch")
        self._backend.run((launch,) * policy.launches)

    def _checked(self, data: _Data, launch: Launch) -> Verification:
        """Launch once and verify; a failure is looked at twice, with everything on the device made anew.

        The copies that stay on the device could have been overwritten, by this kernel or by one before it.
        """
        verification = self._launched(data, launch)
        if not verification.passed:
            self._backend.refresh()
            verification = self._launched(data, launch)
        return verification

    def _launched(self, data: _Data, launch: Launch) -> Verification:
        self._begin("upload")
        self._backend.upload()
        self._begin("launch")
        self._backend.run((launch,))
        return self._verify(data, "the kernel")

    def _verify(self, data: _Data, what: str) -> Verification:
        """Compare the outputs with the reference: on the device; on the host where that cannot be or finds fault."""
        if data.reference is None:
            self._begin("reference", on_host=True)
            data.reference = data.operator.reference(data.problem, data.inputs)
            data.elementwise = data.operator.elementwise(data.problem, data.reference)
        self._begin(f"verification of {what}", on_host=True)
        name = self._backend.describe().name
        overrun = self._backend.overrun()
        if data.elementwise and not overrun:
            expected, tolerance = data.elementwise
            largest = self._backend.largest_error(expected)
            if largest is not None and largest <= tolerance:
                return Verification(True, largest, tolerance, "", name)  # noqa: FBT003 - a field, as the others
        outputs: dict[str, Array] = self._backend.outputs()
        error, tolerance, worst = data.operator.verify(data.problem, data.reference, outputs)
        error, tolerance = float(error), float(tolerance)
        if overrun:
            error, worst = float("inf"), overrun
        return Verification(error <= tolerance, error, tolerance, worst, name)

    def _baseline(self, name: str | None, policy: Policy, data: _Data) -> tuple[Baseline | None, BaselineResult | None]:
        """A baseline for this problem, made and checked once."""
        if name is None:
            return None, None
        if name not in data.baselines:
            data.baselines[name] = self._make_baseline(name, policy, data)
        return data.baselines[name]

    def _make_baseline(self, name: str, policy: Policy, data: _Data) -> tuple[Baseline | None, BaselineResult]:
        self._begin("loading of the baseline", on_host=True)
        try:
            baseline = self._backend.baseline(name, data.operator.name, data.problem)
            verification = None
            if policy.check and baseline.computes:
                self._begin("launch of the baseline")
                self._backend.upload()
                self._backend.run((baseline.check or baseline.launch,))
                verification = self._verify(data, "the baseline")
        except (BaselineMissingError, DeviceError) as error:
            return None, BaselineResult(name, note=str(error))
        described = BaselineResult(name, baseline.library, baseline.kernel, verification, baseline.note, baseline.ptx)
        if verification is not None and not verification.passed:
            note = f"{name} is left out: its output is wrong: {verification.worst}"
            return None, replace(described, note=note)
        return baseline, described

    def _begin(self, activity: str, *, on_host: bool = False) -> None:
        self._activity = activity
        self._last_sign = time.monotonic()
        self._send(Progress(activity, on_host))

    def _begin_with(self, activity: str, subject: str) -> None:
        """The same with a kernel. Samples come by the thousand: of theirs, few are told."""
        self._subject = subject
        if activity != self._activity or activity == "launch" or time.monotonic() - self._last_sign > ALIVE_EVERY_S:
            self._activity, self._last_sign = activity, time.monotonic()
            self._send(Progress(activity, on_host=False, subject=subject))

    def _alive(self) -> None:
        if time.monotonic() - self._last_sign > ALIVE_EVERY_S:
            self._begin(self._activity)


class _FailedError(Exception):
    """Carries the result of a job that ended early."""

    def __init__(self, result: JobResult) -> None:
        self.result = result
        super().__init__(result.variant)


def _failed(result: JobResult, stage: Stage, reason: str) -> JobResult:
    return replace(result, failure=Failure(stage, " ".join(reason.split())))


def _in_words(error: BaseException) -> str:
    if isinstance(error, MissingToolError):
        return str(error)
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _cuda_words(error: BaseException) -> str:
    """PyCUDA writes ``cuCtxSynchronize failed: an illegal memory access was encountered``."""
    function, separator, words = str(error).partition(" failed: ")
    return f"{words.strip()} in {function.strip()}" if separator else str(error)
