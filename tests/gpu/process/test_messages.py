from __future__ import annotations

import pickle

import pytest
from gpu_jobs import QUIET, job

from lab.gpu.process.job import JobResult, JobStage
from lab.gpu.process.messages import JobOrder, Progress, Ready, Reply, SurveyReply, Unusable
from lab.gpu.timing.survey import SurveyPoint
from lab.measured.timing import GpuDescription, Samples


@pytest.mark.parametrize(
    "message",
    [
        Ready(GpuDescription("Fake", "sm_90", 1, 1000, 1 << 30, 1 << 20, "1.0", "13.0")),
        Unusable("there is no GPU"),
        Progress("launch", on_host=False, subject="a"),
        Reply(JobResult("v1").failed(JobStage.LAUNCH, "too\nlong"), usable=True),
        SurveyReply((SurveyPoint("a", Samples((1.0, 2.0), 4), "warm", 1e-8),), usable=False),
        JobOrder(job(), QUIET),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_arrive_as_they_were_sent(message):
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301 - the test's own bytes
