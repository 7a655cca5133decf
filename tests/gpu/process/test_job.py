from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gpu_jobs import job

from lab.gpu.process.job import JobResult, JobStage
from lab.measured.timing import Verification


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"variant": "v2", "cubin": b"9"}, True),
        ({"problem": {"n": 17}}, False),
        ({"seed": 1}, False),
        ({"operator": "gemm"}, False),
        ({"base": Path("/elsewhere")}, False),
    ],
)
def test_jobs_share_data_if_operator_problem_and_seed_agree(change, same):
    assert (replace(job(), **change).data_key == job().data_key) is same


def test_the_order_of_a_problems_fields_does_not_matter():
    one, other = replace(job(), problem={"m": 1, "n": 2}), replace(job(), problem={"n": 2, "m": 1})
    assert one.data_key == other.data_key


def test_a_failure_keeps_what_is_known_and_takes_one_line():
    checked = JobResult("v1", verification=Verification(False, 1.0, 0.1, "y[3]", "Fake"))
    failed = checked.failed(JobStage.VERIFY, "a reason\n  on two   lines")
    assert failed.failure.reason == "a reason on two lines"
    assert failed.verification == checked.verification
    assert checked.failure is None
