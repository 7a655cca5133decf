"""The worker's loop, with a pipe that is played; `test_session.py` runs it in a process."""

from __future__ import annotations

import pytest
from fake_device import FakeDevice
from gpu_jobs import QUIET, job

from lab.base.errors import MissingToolError
from lab.gpu.device import describe
from lab.gpu.process.messages import JobOrder, Reply, SurveyReply
from lab.gpu.process.runner import JobRunner
from lab.gpu.process.worker import cuda_backend, serve
from lab.gpu.timing.survey import Entrant, Ground, Survey, SurveyPolicy
from lab.templates.launches import Launches


class Pipe:
    """Delivers orders, then ends as a closed pipe does; keeps what is sent, progress apart."""

    def __init__(self, *orders):
        self.orders, self.answers = list(orders), []

    def recv(self):
        if not self.orders:
            raise EOFError
        return self.orders.pop(0)

    def send(self, message):
        self.answers.append(message)


def served(*orders):
    pipe = Pipe(*orders)
    return serve(pipe, JobRunner(FakeDevice(), lambda message: None)), pipe


def test_jobs_are_answered_until_the_pipe_closes():
    usable, pipe = served(JobOrder(job(), QUIET), JobOrder(job("wrong"), QUIET))
    assert usable
    assert [type(answer) for answer in pipe.answers] == [Reply, Reply]
    assert [answer.result.failure is None for answer in pipe.answers] == [True, False]


def test_none_ends_it():
    usable, pipe = served(None, JobOrder(job(), QUIET))
    assert (usable, pipe.answers, len(pipe.orders)) == (True, [], 1)


def test_surveys_are_answered_too():
    order = Survey(
        Ground("float32", (64, 64, 64), 0, 0),
        {"m": 8, "n": 8, "k": 8},
        (Entrant("a", Launches(())),),
        baseline=False,
        policy=SurveyPolicy(warmup_ms=0.0),
        cubins={"a": b"1.0"},
    )
    _, pipe = served(order)
    (answer,) = pipe.answers
    assert isinstance(answer, SurveyReply)
    assert answer.points[0].samples.median == 1.0


def test_a_job_that_costs_the_context_is_the_last():
    usable, pipe = served(JobOrder(job("illegal"), QUIET), JobOrder(job(), QUIET))
    assert (usable, len(pipe.answers), len(pipe.orders)) == (False, 1, 1)


def test_without_a_gpu_there_is_no_backend(monkeypatch):
    def absent():
        raise RuntimeError("there is no NVIDIA driver on this machine")

    monkeypatch.setattr(describe, "driver_api", absent)
    with pytest.raises(MissingToolError, match="Nothing was measured: there is no NVIDIA driver"):
        cuda_backend()
