"""Messages between the session and its worker. The pipe pickles them."""

from __future__ import annotations

from dataclasses import dataclass

from lab.gpu.process.job import Job, JobResult, Policy
from lab.gpu.timing.survey import SurveyPoint
from lab.measured.timing import GpuDescription


@dataclass(frozen=True, slots=True)
class Ready:
    """From the worker: the GPU is open."""

    description: GpuDescription


@dataclass(frozen=True, slots=True)
class Unusable:
    """From the worker: the GPU cannot be opened."""

    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """From the worker: a heartbeat.

    Attributes:
        activity: The current activity: ``launch``, ``measurement``.
        on_host: The host computes; the worker does not wait for the GPU.
        subject: The survey's kernel that it concerns; else empty.
    """

    activity: str
    on_host: bool
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """From the worker: a job is finished.

    Attributes:
        result: The job's result.
        usable: The worker can take another job.
    """

    result: JobResult
    usable: bool


@dataclass(frozen=True, slots=True)
class SurveyReply:
    """From the worker: a survey is finished.

    Attributes:
        points: One per entrant; if the device failed, only that of the kernel at fault.
        usable: The worker can take another job.
    """

    points: tuple[SurveyPoint, ...]
    usable: bool


@dataclass(frozen=True, slots=True)
class JobOrder:
    """To the worker: run this job.

    A survey is sent as a `lab.gpu.timing.survey.Survey`; None ends the worker.
    """

    job: Job
    policy: Policy
