"""Jobs for the fake device: y = 2 x, with the operator of `fake_operator.py`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.gpu.device.backend import Backend
from lab.gpu.process.job import BaselineResult, Failure, Job, JobResult, Policy
from lab.gpu.process.messages import Progress
from lab.gpu.process.worker_link import WorkerLink, start_worker
from lab.gpu.timing.survey import SurveyPoint
from lab.measured.timing import Measurement, Samples, Verification
from lab.templates.launches import Launch, Launches

HERE = Path(__file__).parent
QUIET = Policy(warmup_ms=0.0, rewarm_ms=0.0, warmup_limit_ms=0.0, baseline="fake", timeout_s=60.0)
"""No warm-up; the fake baseline beside every kernel."""


def sequence(*entries: str) -> Launches:
    """One launch of one block for each entry point; the first names what the fake device does."""
    return Launches(tuple(Launch(entry, (1, 1, 1), (32, 1, 1), 0, ()) for entry in entries))


def job(kernel: str = "double", ms: float = 4, n: int = 16, operator: str = "Double") -> Job:
    """A job of one launch that takes `ms` milliseconds."""
    return Job("v1", f"{ms:g}".encode(), sequence(kernel), f"fake_operator.py:{operator}", {"n": n}, 0, HERE)


class KilledOnce:
    """A worker that another process kills when it says that an activity begins; those after it live on."""

    def __init__(self, activity: str) -> None:
        self.activity = activity
        self.killed: list[int | None] = []

    def __call__(self, backend: Callable[[], Backend]) -> WorkerLink:
        return _Killable(start_worker(backend), self)


class _Killable:
    def __init__(self, link: WorkerLink, fate: KilledOnce) -> None:
        self._link, self._fate = link, fate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def receive(self, limit: float, activity: str) -> object:
        message = self._link.receive(limit, activity)
        if isinstance(message, Progress) and message.activity == self._fate.activity and not self._fate.killed:
            pid = self._link.process_id
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            self._fate.killed.append(pid)
            while True:  # whatever it said before it died is lost
                self._link.receive(limit, activity)
        return message


def failure_of(result: JobResult) -> Failure:
    """Why a job failed; it must have."""
    assert result.failure is not None
    return result.failure


def measurement_of(result: JobResult) -> Measurement:
    """The times of a job; there must be some."""
    assert result.measurement is not None, result.failure
    return result.measurement


def verification_of(result: JobResult | BaselineResult) -> Verification:
    """The comparison of outputs; there must be one."""
    assert result.verification is not None
    return result.verification


def baseline_of(result: JobResult) -> BaselineResult:
    """The baseline beside a job; there must be one."""
    assert result.baseline is not None
    return result.baseline


def samples_of(point: SurveyPoint) -> Samples:
    """The times of a survey's point; there must be some."""
    assert point.samples is not None, point.failure
    return point.samples
