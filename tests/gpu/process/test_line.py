"""The queue of a session, with a session that is played."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest
from fake_device import FakeDevice
from gpu_jobs import QUIET, job

from lab.base.errors import MissingToolError
from lab.gpu.process.job import JobResult
from lab.gpu.process.line import GpuLine
from lab.gpu.process.session import GpuSession


class Session(GpuSession):
    """Answers jobs; `hold` stops it until it is set."""

    def __init__(self, missing=""):
        super().__init__(FakeDevice)
        self.missing = missing
        self.ran: list[str] = []
        self.ended: list[type[BaseException] | None] = []
        self.hold = threading.Event()
        self.hold.set()
        self.busy = threading.Event()

    def start(self, timeout=0.0):
        if self.missing:
            raise MissingToolError(self.missing)
        self.workers += 1
        return FakeDevice().describe()

    def run(self, job, policy):
        self.busy.set()
        self.hold.wait()
        self.ran.append(job.variant)
        return JobResult(job.variant)

    def __exit__(self, kind, error, trace):
        self.ended.append(kind)
        self.hold.set()


def run_one(session):
    return session.run(job(), QUIET)


def test_questions_are_answered_in_order_on_another_thread():
    session = Session()
    session.hold.clear()
    with GpuLine(session) as line:
        futures = [line.put(run_one) for _ in range(3)]
        assert session.ran == []  # the caller goes on meanwhile
        session.hold.set()
        assert [future.result() for future in futures] == [JobResult("v1")] * 3
        assert line.put(lambda asked: (asked is session, list(session.ran))).result() == (True, ["v1"] * 3)
    assert session.ended == [None]


def test_a_worker_that_cannot_start_is_told_with_the_first_question():
    with GpuLine(Session("no GPU")) as line:
        future = line.put(run_one)
        with pytest.raises(MissingToolError, match="no GPU"):
            future.result()


def test_an_exception_drops_the_jobs_that_wait_and_ends_the_session():
    session = Session()
    session.hold.clear()
    futures: list[Future[JobResult]] = []

    def interrupted():
        with GpuLine(session) as line:
            futures.extend(line.put(run_one) for _ in range(3))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert session.ended == [KeyboardInterrupt]
    assert len(session.ran) <= 1
    assert futures[-1].cancelled()


def test_a_line_that_is_left_cancels_what_waits_and_ends_the_session_without_waiting():
    session = Session()
    session.hold.clear()
    with GpuLine(session) as line:
        futures = [line.put(run_one) for _ in range(3)]
        session.busy.wait(60)
        line.leave()
        assert futures[-1].cancelled()
        futures[0].result()  # the session's end frees it
    assert session.ended == [ConnectionAbortedError, None]
