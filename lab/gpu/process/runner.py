"""Run jobs and surveys on one backend. An error becomes the result of the job that caused it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace

from lab.base.errors import LabError
from lab.base.terminal import write
from lab.gpu.device.backend import Backend, Enqueue, RefusedError
from lab.gpu.process.checking import Checker, ProblemData
from lab.gpu.process.job import Job, JobResult, JobStage, Policy
from lab.gpu.process.messages import Reply, SurveyReply
from lab.gpu.process.signs import SignsOfLife
from lab.gpu.timing.survey import Survey, Surveyor, SurveyPoint
from lab.gpu.timing.timed_variant import CardHistory, Contender, measure
from lab.operators.base import StandInMismatchError
from lab.operators.builtin import operator


class JobRunner:
    """A job runner that keeps the data that the next job may share."""

    def __init__(self, backend: Backend, send: Callable[[object], None]) -> None:
        """Bind the runner to a backend.

        Args:
            backend: The device.
            send: Sends `Progress` to the parent.
        """
        self._backend = backend
        self._signs = SignsOfLife(send)
        self._checker = Checker(backend, self._signs)
        self._surveyor = Surveyor(backend, self._signs.begin_with)
        self._history = CardHistory()
        self._data: ProblemData | None = None

    def survey(self, order: Survey) -> SurveyReply:
        """Check and time many kernels at one size. A device error is attributed to the kernel that ran."""
        self._data = None  # its buffers make room
        try:
            return SurveyReply(self._surveyor.answer(order), usable=True)
        except Exception as error:  # noqa: BLE001 - one kernel's fault must not end the run
            point = SurveyPoint(self._signs.subject, failure=" ".join(self._reason(error).split()))
            return SurveyReply((point,), usable=False)

    def answer(self, job: Job, policy: Policy) -> Reply:
        """Run one job. An error becomes its result and is never raised."""
        result = JobResult(job.variant)
        try:
            data = self._prepare(job)
        except Exception as error:  # noqa: BLE001 - an operator of the user's own may raise anything
            return Reply(result.failed(JobStage.PREPARE, in_words(error)), usable=True)
        try:
            return Reply(self._run(job, policy, data), usable=True)
        except RefusedError as error:
            return Reply(result.failed(JobStage.LAUNCH, str(error)), usable=True)
        except LabError as error:  # from the user's operator or reference, not from the device
            return Reply(result.failed(JobStage.PREPARE, str(error)), usable=True)
        except Exception as error:  # noqa: BLE001 - one job's fault must not end the sweep
            stage = JobStage.LAUNCH if isinstance(error, self._backend.errors) else JobStage.CRASH
            return Reply(result.failed(stage, self._reason(error)), usable=False)

    def _prepare(self, job: Job) -> ProblemData:
        if self._data is None or self._data.key != job.data_key:
            self._data = None  # frees the old arrays first
            self._signs.begin("inputs", on_host=True)
            computed = operator(job.operator, job.base)
            problem = computed.restored(job.problem)
            inputs = computed.inputs(problem, job.seed)
            self._signs.begin("allocation")
            try:
                self._backend.load(inputs)
            except self._backend.errors as error:
                raise RuntimeError(f"the arrays do not fit on the GPU: {cuda_words(error)}") from error
            self._data = ProblemData(job.data_key, computed, problem, inputs)
        return self._data

    def _run(self, job: Job, policy: Policy, data: ProblemData) -> JobResult:
        result = JobResult(job.variant)
        if policy.check and job.reference is not None and data.reference is None:
            self._stand_in(job.reference, job, data)
        self._signs.begin("upload")
        launch = self._backend.kernel(job.cubin, job.launches)
        if policy.check:
            verification, again = self._checker.check(data, launch)
            result = replace(result, verification=verification)
            if not verification.passed:
                stage = JobStage.VERIFY_AGAIN if again else JobStage.VERIFY
                return result.failed(stage, verification.worst or "the outputs are wrong")
        if policy.launches:
            self._launch_alone(launch, policy)
        return self._measured(result, launch, policy, data) if policy.measure else result

    def _stand_in(self, first: Job, own: Job, data: ProblemData) -> None:
        """Use another variant's outputs as the reference, or a variant's own where its arrays have other sizes."""
        problem, same_data = data.operator.restored(first.problem), first.data_key == data.key
        if not same_data:
            self._backend.load(data.operator.inputs(problem, first.seed))
        outputs = self._checker.outputs_of(self._backend.kernel(first.cubin, first.launches))
        if not same_data:
            self._backend.load(data.inputs)
        try:
            expected = data.operator.as_expected(data.problem, outputs, problem)
        except StandInMismatchError:
            outputs = self._checker.outputs_of(self._backend.kernel(own.cubin, own.launches))
            expected = data.operator.as_expected(data.problem, outputs)
        data.agreed(expected)

    def _measured(self, result: JobResult, launch: Enqueue, policy: Policy, data: ProblemData) -> JobResult:
        names = (policy.baseline, *policy.others)
        baselines = [self._checker.baseline(name, data, check=policy.check) if name else (None, None) for name in names]
        results = [described for _, described in baselines]
        result = replace(result, baseline=results[0], others=tuple(r for r in results[1:] if r))
        self._signs.begin("upload")
        self._backend.upload()
        contenders = [Contender("kernel", launch)]
        contenders += [Contender(baseline.name, baseline.launch) for baseline, _ in baselines if baseline is not None]
        self._signs.begin("measurement")
        measurement = measure(self._backend, contenders, policy, self._history, self._signs.alive)
        return replace(result, measurement=measurement)

    def _launch_alone(self, launch: Enqueue, policy: Policy) -> None:
        """Launch the sequence for a profiler, with no other kernels except those that flush L2."""
        self._signs.begin("upload")
        self._backend.upload()
        if policy.flush.empties:
            self._backend.evict()
        self._signs.begin("launch")
        self._backend.run((launch,) * policy.launches)

    def _reason(self, error: Exception) -> str:
        """Describe an error and its activity; the traceback of an unforeseen error goes to stderr."""
        if isinstance(error, self._backend.errors):
            return f"CUDA error: {cuda_words(error)} ({self._signs.activity})"
        write("".join(traceback.format_exception(error)), error=True, end="")
        return f"{in_words(error)} ({self._signs.activity})"


def in_words(error: BaseException) -> str:
    """Describe an error by its type and text, or by its text alone if it is meant for users."""
    if isinstance(error, LabError):
        return str(error)
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def cuda_words(error: BaseException) -> str:
    """Reword PyCUDA's ``cuCtxSynchronize failed: an illegal memory access was encountered``."""
    function, separator, words = str(error).partition(" failed: ")
    return f"{words.strip()} in {function.strip()}" if separator else str(error)
