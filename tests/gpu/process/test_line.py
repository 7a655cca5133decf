"""The queue of a session, with a session that is played."""

from __future__ import annotations

import threading

import pytest
from gpu_jobs import QUIET, job

from lab.base.errors import MissingToolError
from lab.gpu.process.job import JobResult
from lab.gpu.process.line import GpuLine
from lab.gpu.timing.survey import Entrant, Ground, Survey, SurveyPoint, SurveyPolicy
from lab.templates.launches import Launches


class Session:
    """Answers jobs; `hold` stops it until it is set."""

    def __init__(self, missing=""):
        self.missing, self.workers, self.ran, self.ended = missing, 0, [], []
        self.hold = threading.Event()
        self.hold.set()

    def start(self):
        if self.missing:
            raise MissingToolError(self.missing)
        self.workers += 1

    def run(self, job, policy):
        self.hold.wait()
        self.ran.append(job.variant)
        return JobResult(job.variant)

    def survey(self, order, cubins):
        return tuple(SurveyPoint(one.kernel, note=cubins[one.kernel].decode()) for one in order.entrants)

    def __exit__(self, kind, error, trace):
        self.ended.append(kind)
        self.hold.set()


def test_jobs_run_in_order_on_another_thread():
    session = Session()
    session.hold.clear()
    with GpuLine(session) as line:
        futures = [line.submit(job(), QUIET) for _ in range(3)]
        assert session.ran == []  # the caller goes on meanwhile
        session.hold.set()
        assert [future.result() for future in futures] == [(JobResult("v1"), 1)] * 3
    assert session.ended == [None]


def test_a_survey_waits_in_the_same_queue():
    order = Survey(Ground("float32", (1, 1, 1), 0, 0), {}, (Entrant("a", Launches(())),), False, SurveyPolicy())
    with GpuLine(Session()) as line:
        assert line.survey(order, {"a": b"code"}).result() == (SurveyPoint("a", note="code"),)


def test_a_question_is_answered_after_the_jobs_before_it():
    with GpuLine(Session()) as line:
        line.submit(job(), QUIET)
        assert line.ask(lambda session: list(session.ran)) == ["v1"]


def test_a_worker_that_cannot_start_is_told_with_the_first_job():
    with GpuLine(Session("no GPU")) as line:
        future = line.submit(job(), QUIET)
        with pytest.raises(MissingToolError, match="no GPU"):
            future.result()


def test_an_exception_drops_the_jobs_that_wait_and_ends_the_session():
    session = Session()
    session.hold.clear()
    futures = []

    def interrupted():
        with GpuLine(session) as line:
            futures.extend(line.submit(job(), QUIET) for _ in range(3))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert session.ended == [KeyboardInterrupt]
    assert len(session.ran) <= 1
    assert futures[-1].cancelled()
